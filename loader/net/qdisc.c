// SPDX-License-Identifier: BSD-2-Clause
#include "qdisc.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/explain.h"
#include "rtnl.h"

/* A queue pair's window has to fit; what is due later than the horizon leaves early, not never. */
#define FQ_LIMIT 20000
#define FQ_FLOW_LIMIT 2000

struct qdisc_request {
	struct nlmsghdr header;
	struct tcmsg tc;
	char attributes[128];
};

struct qdisc_search {
	int ifindex;
	struct qdisc_facts *facts;
};

static void attribute_kind(const struct tcmsg *tc, int left, char out[16])
{
	const struct rtattr *a = TCA_RTA(tc);

	out[0] = '\0';
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == TCA_KIND)
			snprintf(out, 16, "%.*s", (int)RTA_PAYLOAD(a), (const char *)RTA_DATA(a));
}

/* The kernel lists a root before what hangs on it. */
static int take_qdisc(const struct nlmsghdr *message, void *context)
{
	const struct tcmsg *tc = NLMSG_DATA(message);
	struct qdisc_search *search = context;
	struct qdisc_facts *facts = search->facts;
	char kind[16];

	if (message->nlmsg_type != RTM_NEWQDISC || tc->tcm_ifindex != search->ifindex ||
	    tc->tcm_parent == TC_H_CLSACT)
		return 0;
	attribute_kind(tc, TCA_PAYLOAD(message), kind);
	if (tc->tcm_parent == TC_H_ROOT) {
		snprintf(facts->root, sizeof(facts->root), "%s", kind);
		facts->handle = tc->tcm_handle;
	} else if (TC_H_MAJ(tc->tcm_parent) == TC_H_MAJ(facts->handle)) {
		facts->queues++;
		if (!strcmp(kind, "fq"))
			facts->fq_queues++;
		else
			snprintf(facts->other, sizeof(facts->other), "%s", kind);
	}
	return 0;
}

static void begin(struct qdisc_request *request, int type, int flags, unsigned int ifindex)
{
	memset(request, 0, sizeof(*request));
	request->header.nlmsg_type = type;
	request->header.nlmsg_flags = NLM_F_REQUEST | flags;
	request->header.nlmsg_len = NLMSG_LENGTH(sizeof(request->tc));
	request->tc.tcm_family = AF_UNSPEC;
	request->tc.tcm_ifindex = ifindex;
}

static struct rtattr *put(struct qdisc_request *request, unsigned short type, const void *value,
			  unsigned short bytes)
{
	struct rtattr *a =
		(struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(bytes);
	if (bytes)
		memcpy(RTA_DATA(a), value, bytes);
	request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

int qdisc_read(unsigned int ifindex, struct qdisc_facts *out)
{
	struct qdisc_search search = {.ifindex = (int)ifindex, .facts = out};
	struct qdisc_request request;

	memset(out, 0, sizeof(*out));
	begin(&request, RTM_GETQDISC, NLM_F_DUMP, ifindex);
	return rtnl_talk(&request.header, take_qdisc, &search);
}

bool qdisc_is_fq(const struct qdisc_facts *facts)
{
	if (!strcmp(facts->root, "fq"))
		return true;
	return !strcmp(facts->root, "mq") && facts->queues && facts->fq_queues == facts->queues;
}

bool qdisc_is_ours(const struct qdisc_facts *facts)
{
	return facts->handle == QDISC_OURS;
}

const char *qdisc_text(const struct qdisc_facts *facts, char out[40])
{
	if (!strcmp(facts->root, "mq") && facts->other[0])
		snprintf(out, 40, "mq with %s", facts->other);
	else
		snprintf(out, 40, "%s", facts->root[0] ? facts->root : "no qdisc");
	return out;
}

static int no_answer(const struct nlmsghdr *message, void *context)
{
	(void)message;
	(void)context;
	return 0;
}

static int make(unsigned int ifindex, uint32_t parent, uint32_t handle, const char *kind)
{
	uint32_t limit = FQ_LIMIT, flow_limit = FQ_FLOW_LIMIT;
	struct qdisc_request request;
	struct rtattr *nest;
	uint8_t drop = 0;

	begin(&request, RTM_NEWQDISC, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, ifindex);
	request.tc.tcm_parent = parent;
	request.tc.tcm_handle = handle;
	put(&request, TCA_KIND, kind, strlen(kind) + 1);
	if (!strcmp(kind, "fq")) {
		nest = put(&request, TCA_OPTIONS, NULL, 0);
		put(&request, TCA_FQ_PLIMIT, &limit, sizeof(limit));
		put(&request, TCA_FQ_FLOW_PLIMIT, &flow_limit, sizeof(flow_limit));
		put(&request, TCA_FQ_HORIZON_DROP, &drop, sizeof(drop));
		nest->rta_len = (char *)&request + request.header.nlmsg_len - (char *)nest;
	}
	return rtnl_talk(&request.header, no_answer, NULL);
}

/* An fq below each queue of an mq of ours. */
static int make_below(unsigned int ifindex, unsigned int queues)
{
	int err = make(ifindex, TC_H_ROOT, QDISC_OURS, "mq");

	for (unsigned int i = 1; !err && i <= queues; i++)
		err = make(ifindex, QDISC_OURS | i, 0, "fq");
	return err;
}

int qdisc_make_fq(const char *name, unsigned int ifindex, char **error)
{
	struct qdisc_facts facts;
	char text[40];
	int err = qdisc_read(ifindex, &facts);

	if (err)
		return explain(error, err, "the qdiscs of %s cannot be read: %s", name,
			       strerror(-err));
	if (qdisc_is_fq(&facts))
		return 0;
	if (facts.handle && !qdisc_is_ours(&facts))
		return explain(
			error, -EBUSY,
			"%s has a qdisc that somebody set up (%s, handle %x:), and it is left "
			"alone; put fq in its place, or below it, by `tc qdisc`",
			name, qdisc_text(&facts, text), facts.handle >> 16);
	if (!strcmp(facts.root, "mq"))
		err = make_below(ifindex, facts.queues);
	else
		err = make(ifindex, TC_H_ROOT, QDISC_OURS, "fq");
	if (!err)
		return 0;
	qdisc_drop_fq(ifindex);
	if (err == -ENOENT)
		return explain(
			error, err,
			"%s stays as it was: this kernel has no fq (CONFIG_NET_SCH_FQ, module "
			"sch_fq)",
			name);
	return explain(error, err, "fq on %s: %s", name, strerror(-err));
}

int qdisc_drop_fq(unsigned int ifindex)
{
	struct qdisc_request request;
	struct qdisc_facts facts;
	int err = qdisc_read(ifindex, &facts);

	if (err || !qdisc_is_ours(&facts))
		return err;
	begin(&request, RTM_DELQDISC, NLM_F_ACK, ifindex);
	request.tc.tcm_parent = TC_H_ROOT;
	request.tc.tcm_handle = QDISC_OURS;
	return rtnl_talk(&request.header, no_answer, NULL);
}

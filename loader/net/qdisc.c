// SPDX-License-Identifier: BSD-2-Clause
#include "qdisc.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/explain.h"
#include "netlink.h"

/* A queue pair's window has to fit; what is due later than the horizon leaves early, not never. */
#define FQ_LIMIT 20000
#define FQ_FLOW_LIMIT 2000

struct qdisc_search {
	int ifindex;
	struct qdisc_facts *facts;
};

/* The kernel lists a root before what hangs on it. */
static int parse_qdisc(const struct nlmsghdr *message, void *context)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct qdisc_search *search = context;
	struct qdisc_facts *facts = search->facts;
	const struct nlattr *a[TCA_MAX + 1];
	char kind[16];

	if (message->nlmsg_type != RTM_NEWQDISC || tc->tcm_ifindex != search->ifindex)
		return 0;
	netlink_attributes(message, sizeof(*tc), a, TCA_MAX);
	netlink_text(a[TCA_KIND], kind, sizeof(kind));
	if (tc->tcm_parent == TC_H_CLSACT) {
		snprintf(facts->ingress, sizeof(facts->ingress), "%s", kind);
	} else if (tc->tcm_parent == TC_H_ROOT) {
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

int qdisc_read(unsigned int ifindex, struct qdisc_facts *out)
{
	struct qdisc_search search = {.ifindex = (int)ifindex, .facts = out};
	union netlink_request request;
	struct tcmsg *tc = netlink_begin(&request, RTM_GETQDISC, NLM_F_DUMP, sizeof(*tc));

	memset(out, 0, sizeof(*out));
	tc->tcm_ifindex = ifindex;
	return netlink_query(NETLINK_ROUTE, &request, parse_qdisc, &search);
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

static int make(unsigned int ifindex, uint32_t parent, uint32_t handle, const char *kind)
{
	union netlink_request request;
	struct tcmsg *tc = netlink_begin(&request, RTM_NEWQDISC,
					 NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, sizeof(*tc));
	struct nlattr *options;

	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = parent;
	tc->tcm_handle = handle;
	mnl_attr_put_strz(&request.header, TCA_KIND, kind);
	if (!strcmp(kind, "fq")) {
		options = mnl_attr_nest_start(&request.header, TCA_OPTIONS);
		mnl_attr_put_u32(&request.header, TCA_FQ_PLIMIT, FQ_LIMIT);
		mnl_attr_put_u32(&request.header, TCA_FQ_FLOW_PLIMIT, FQ_FLOW_LIMIT);
		mnl_attr_put_u8(&request.header, TCA_FQ_HORIZON_DROP, 0);
		mnl_attr_nest_end(&request.header, options);
	}
	return netlink_query(NETLINK_ROUTE, &request, NULL, NULL);
}

int qdisc_make_fq(const char *name, unsigned int ifindex, char **error)
{
	struct qdisc_facts facts;
	char text[40];
	bool mq;
	int err = qdisc_read(ifindex, &facts);

	if (err)
		return explain(error, err, "the qdiscs of %s cannot be read: %s", name,
			       strerror(-err));
	if (qdisc_is_fq(&facts))
		return 0;
	if (facts.handle && !qdisc_is_ours(&facts))
		return explain(
			error, -EBUSY,
			"%s has a qdisc that an operator set up (%s, handle %x:), and it is left "
			"alone; put fq in its place, or below it, by `tc qdisc`",
			name, qdisc_text(&facts, text), facts.handle >> 16);
	/* fq at the root, or an mq of ours with an fq below each queue. */
	mq = !strcmp(facts.root, "mq");
	err = make(ifindex, TC_H_ROOT, QDISC_OURS, mq ? "mq" : "fq");
	for (unsigned int i = 1; mq && !err && i <= facts.queues; i++)
		err = make(ifindex, QDISC_OURS | i, 0, "fq");
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
	union netlink_request request;
	struct tcmsg *tc = netlink_begin(&request, RTM_DELQDISC, NLM_F_ACK, sizeof(*tc));
	struct qdisc_facts facts;
	int err = qdisc_read(ifindex, &facts);

	if (err || !qdisc_is_ours(&facts))
		return err;
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = TC_H_ROOT;
	tc->tcm_handle = QDISC_OURS;
	return netlink_query(NETLINK_ROUTE, &request, NULL, NULL);
}

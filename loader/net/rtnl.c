// SPDX-License-Identifier: BSD-2-Clause
#include "rtnl.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/now.h"
#include "base/units.h"

#define NETLINK_TIMEOUT_S 5

/* A queue pair's window has to fit; what is due later than the horizon leaves early, not never. */
/*
 * Sockets that are not connected, as those of soft-RoCE, share flows by a hash: with so many few
 * share one, and one has room for the 64 packets of 64 queue pairs.
 */
#define FQ_ORPHANS 16384
#define FQ_FLOW_LIMIT 4096

/* --- netlink --- */

void *netlink_begin(union netlink_request *request, int type, int flags, size_t bytes)
{
	memset(request, 0, sizeof(*request));
	mnl_nlmsg_put_header(request);
	request->header.nlmsg_type = type;
	request->header.nlmsg_flags = NLM_F_REQUEST | flags;
	return mnl_nlmsg_put_extra_header(&request->header, bytes);
}

/* The messages of one datagram of @left bytes. *@more: the reply has not ended. */
static int take(const void *datagram, int left, bool dump, netlink_reply_fn *fn, void *context,
		bool *more)
{
	const struct nlmsghdr *message = datagram;
	const struct nlmsgerr *error;
	int err;

	*more = false;
	/* libmnl takes a length above INT_MAX for a negative one. */
	for (; mnl_nlmsg_ok(message, left) && message->nlmsg_len <= (uint32_t)left;
	     message = mnl_nlmsg_next(message, &left)) {
		if (message->nlmsg_type == NLMSG_DONE)
			return 0;
		if (message->nlmsg_type == NLMSG_ERROR) {
			error = netlink_header(message, sizeof(*error));
			return error ? error->error : -EBADMSG;
		}
		err = fn ? fn(message, context) : 0;
		if (err < 0 || !dump)
			return err;
	}
	*more = true;
	return 0;
}

static int receive(int fd, bool dump, netlink_reply_fn *fn, void *context)
{
	static _Thread_local char buffer[64 * 1024] __attribute__((aligned(8)));
	bool more = true;
	int err = 0;

	while (more) {
		int bytes = (int)recv(fd, buffer, sizeof(buffer), 0);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0)
			return -errno;
		err = take(buffer, bytes, dump, fn, context, &more);
	}
	return err;
}

int netlink_query(int bus, const union netlink_request *request, netlink_reply_fn *fn,
		  void *context)
{
	bool dump = (request->header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	struct timeval timeout = {.tv_sec = NETLINK_TIMEOUT_S};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, bus), err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	err = send(fd, request, request->header.nlmsg_len, 0) < 0 ? -errno
								  : receive(fd, dump, fn, context);
	close(fd);
	return err;
}

static int parse_family(const struct nlmsghdr *message, void *context)
{
	const struct nlattr *a[CTRL_ATTR_FAMILY_ID + 1];

	netlink_attributes(message, sizeof(struct genlmsghdr), a, CTRL_ATTR_FAMILY_ID);
	if (a[CTRL_ATTR_FAMILY_ID] &&
	    mnl_attr_get_payload_len(a[CTRL_ATTR_FAMILY_ID]) >= sizeof(uint16_t))
		*(uint16_t *)context = mnl_attr_get_u16(a[CTRL_ATTR_FAMILY_ID]);
	return 0;
}

uint16_t netlink_family(const char *name)
{
	union netlink_request request;
	struct genlmsghdr *header = netlink_begin(&request, GENL_ID_CTRL, 0, sizeof(*header));
	uint16_t family = 0;

	header->cmd = CTRL_CMD_GETFAMILY;
	header->version = 1;
	mnl_attr_put_strz(&request.header, CTRL_ATTR_FAMILY_NAME, name);
	netlink_query(NETLINK_GENERIC, &request, parse_family, &family);
	return family;
}

const void *netlink_header(const struct nlmsghdr *message, size_t bytes)
{
	return mnl_nlmsg_get_payload_len(message) < bytes ? NULL : mnl_nlmsg_get_payload(message);
}

uint32_t netlink_number(const struct nlattr *attribute)
{
	uint32_t number = 0;
	size_t bytes = attribute ? mnl_attr_get_payload_len(attribute) : 0;

	if (bytes == sizeof(uint8_t))
		return mnl_attr_get_u8(attribute);
	if (bytes >= sizeof(number))
		memcpy(&number, mnl_attr_get_payload(attribute), sizeof(number));
	return number;
}

void netlink_attributes(const struct nlmsghdr *message, size_t bytes, const struct nlattr **out,
			unsigned int most)
{
	const struct nlattr *at;

	memset(out, 0, (most + 1) * sizeof(*out));
	mnl_attr_for_each (at, message, bytes)
		if (mnl_attr_get_type(at) <= most)
			out[mnl_attr_get_type(at)] = at;
}

void netlink_text(const struct nlattr *attribute, char *out, size_t bytes)
{
	out[0] = '\0';
	if (attribute)
		snprintf(out, bytes, "%.*s", mnl_attr_get_payload_len(attribute),
			 mnl_attr_get_str(attribute));
}

/* --- links --- */

static int parse_link(const struct nlmsghdr *message, void *context)
{
	const struct ifinfomsg *link = netlink_header(message, sizeof(*link));
	const struct nlattr *a[IFLA_MAX + 1], *at;
	struct link_facts *out = context;

	if (!link)
		return -EBADMSG;
	netlink_attributes(message, sizeof(*link), a, IFLA_MAX);
	memset(out, 0, sizeof(*out));
	out->ifindex = link->ifi_index;
	out->up = (link->ifi_flags & IFF_UP) && (link->ifi_flags & IFF_RUNNING);
	out->mtu = netlink_number(a[IFLA_MTU]);
	out->max_mtu = netlink_number(a[IFLA_MAX_MTU]);
	netlink_text(a[IFLA_IFNAME], out->name, sizeof(out->name));
	if (a[IFLA_LINKINFO])
		mnl_attr_for_each_nested (at, a[IFLA_LINKINFO])
			if (mnl_attr_get_type(at) == IFLA_INFO_KIND)
				netlink_text(at, out->kind, sizeof(out->kind));
	if (a[IFLA_XDP])
		mnl_attr_for_each_nested (at, a[IFLA_XDP])
			if (mnl_attr_get_type(at) == IFLA_XDP_ATTACHED)
				out->xdp = netlink_number(at);
	out->master = netlink_number(a[IFLA_MASTER]);
	/* IFLA_LINK is a veth's peer, a tunnel's way out, or the device below. */
	if (!strcmp(out->kind, "veth"))
		out->peer_ifindex = netlink_number(a[IFLA_LINK]);
	out->peer_netns =
		a[IFLA_LINK_NETNSID] ? (int)netlink_number(a[IFLA_LINK_NETNSID]) : RTNL_HERE;
	if (!a[IFLA_LINK_NETNSID] && (!strcmp(out->kind, "vlan") || !strcmp(out->kind, "macvlan") ||
				      !strcmp(out->kind, "ipvlan")))
		out->lower = netlink_number(a[IFLA_LINK]);
	return 0;
}

int rtnl_link_by_index(unsigned int ifindex, int netns, struct link_facts *out)
{
	union netlink_request request;
	struct ifinfomsg *link = netlink_begin(&request, RTM_GETLINK, 0, sizeof(*link));

	link->ifi_index = ifindex;
	if (netns != RTNL_HERE)
		mnl_attr_put_u32(&request.header, IFLA_TARGET_NETNSID, netns);
	return netlink_query(NETLINK_ROUTE, &request, parse_link, out);
}

int rtnl_link(const char *name, struct link_facts *out)
{
	union netlink_request request;

	if (strlen(name) >= IF_NAMESIZE)
		return -ENODEV;
	netlink_begin(&request, RTM_GETLINK, 0, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(&request.header, IFLA_IFNAME, name);
	return netlink_query(NETLINK_ROUTE, &request, parse_link, out);
}

void rtnl_link_names(char *out, size_t bytes)
{
	struct if_nameindex *all = if_nameindex();
	bool full = false;

	out[0] = '\0';
	for (const struct if_nameindex *at = all; at && at->if_index && !full; at++) {
		full = strlen(out) + IF_NAMESIZE + 8 > bytes;
		text_append(out, bytes, ", ", full ? "..." : at->if_name);
	}
	if (all)
		if_freenameindex(all);
}

int rtnl_watch_links(void)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), err;

	if (fd < 0)
		return -errno;
	if (!bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

void rtnl_drain(int fd)
{
	char buffer[8192];

	/* ENOBUFS: some were lost; the caller reads the state of every link anyway. */
	for (unsigned int i = 0; i < RTNL_DRAIN_MAX; i++)
		if (recv(fd, buffer, sizeof(buffer), 0) < 0 && errno != ENOBUFS && errno != EINTR)
			return;
}

/* --- whether RTNL is free --- */

#define NEED_MS 1000 /* the heartbeat may be late by 2 s */

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t asked, passed;
	bool begun;
	uint64_t asks, passes;
	uint64_t asked_ns; /* CLOCK_MONOTONIC of the last */
} gate = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.asked = PTHREAD_COND_INITIALIZER,
	.passed = PTHREAD_COND_INITIALIZER,
};

/* A query of one link takes RTNL (net/core/rtnetlink.c, rtnetlink_rcv_msg()). */
static void *gate_run(void *context)
{
	struct link_facts loopback;
	sigset_t all;

	(void)context;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "esc-rtnl");
	pthread_mutex_lock(&gate.mutex);
	for (;;) {
		uint64_t asks = gate.asks;

		if (asks == gate.passes) {
			pthread_cond_wait(&gate.asked, &gate.mutex);
			continue;
		}
		pthread_mutex_unlock(&gate.mutex);
		rtnl_link_by_index(1, RTNL_HERE, &loopback);
		pthread_mutex_lock(&gate.mutex);
		gate.passes = asks;
		pthread_cond_broadcast(&gate.passed);
	}
	return NULL;
}

static int gate_begin(void)
{
	pthread_t thread;
	int err;

	if (gate.begun)
		return 0;
	err = -pthread_create(&thread, NULL, gate_run, NULL);
	if (err)
		return err;
	pthread_detach(thread); /* never joined: it may wait for RTNL when the daemon ends */
	gate.begun = true;
	return 0;
}

/* @again: also when an earlier question is still open, and RTNL was held since. */
static int gate_wait(unsigned int timeout_ms, bool again)
{
	struct timespec end;
	uint64_t ask;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += timeout_ms * 1000000L;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&gate.mutex);
	err = gate_begin();
	if (!err && gate.asks != gate.passes && !again)
		err = -EBUSY;
	if (!err) {
		if (gate.asks == gate.passes) {
			gate.asks++;
			gate.asked_ns = time_local_ns();
			pthread_cond_signal(&gate.asked);
		}
		ask = gate.asks;
		while (!err && gate.passes < ask)
			err = pthread_cond_clockwait(&gate.passed, &gate.mutex, CLOCK_MONOTONIC,
						     &end)
				      ? -EBUSY
				      : 0;
	}
	pthread_mutex_unlock(&gate.mutex);
	return err;
}

int rtnl_wait(unsigned int timeout_ms)
{
	return gate_wait(timeout_ms, false);
}

int rtnl_need(char **error)
{
	int err = gate_wait(NEED_MS, true);

	if (err)
		explain(error, err,
			"another program holds the kernel's RTNL lock, which this needs: try "
			"again");
	return err;
}

uint64_t rtnl_asked_since(void)
{
	uint64_t since_ns;

	pthread_mutex_lock(&gate.mutex);
	since_ns = gate.asks == gate.passes ? 0 : gate.asked_ns;
	pthread_mutex_unlock(&gate.mutex);
	return since_ns;
}

/* --- tc filters --- */

/* The kernel lists each priority's filters together, with a head of handle 0. */
static int count_filter(const struct nlmsghdr *message, void *context)
{
	const struct tcmsg *tc = netlink_header(message, sizeof(*tc));
	struct filter_facts *facts = context;
	uint32_t priority = tc ? TC_H_MAJ(tc->tcm_info) >> 16 : 0;

	if (!tc || message->nlmsg_type != RTM_NEWTFILTER || priority == facts->own_priority)
		return 0;
	facts->filters += priority != facts->last;
	facts->last = priority;
	if (!facts->first || priority < facts->first)
		facts->first = priority;
	return 0;
}

int rtnl_filters(unsigned int ifindex, bool egress, uint32_t own_priority, struct filter_facts *out)
{
	union netlink_request request;
	struct tcmsg *tc = netlink_begin(&request, RTM_GETTFILTER, NLM_F_DUMP, sizeof(*tc));
	int err;

	*out = (struct filter_facts){.own_priority = own_priority};
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = TC_H_MAKE(TC_H_CLSACT, egress ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS);
	err = netlink_query(NETLINK_ROUTE, &request, count_filter, out);
	return err == -EINVAL || err == -ENOENT ? 0 : err; /* no such hook: no filters */
}

/* --- ethtool --- */

static int ethtool_call(const char *name, void *command)
{
	struct ifreq request = {.ifr_data = command};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0)
		return -errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCETHTOOL, &request) < 0)
		err = -errno;
	close(fd);
	return err;
}

void ethtool_driver(const char *name, char *out, size_t bytes)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	out[0] = '\0';
	if (!ethtool_call(name, &info))
		snprintf(out, bytes, "%.*s", (int)sizeof(info.driver), info.driver);
}

#define FEATURES_MAX 32	 /* wanted */
#define FEATURE_BLOCKS 8 /* of 32 features; Linux 6.18 has two */

/* The kernel's numbers of the @wanted features, -1: it has none; how many blocks, or -errno. */
static int feature_numbers(const char *name, const char *const *wanted, size_t wanted_count,
			   int numbers[FEATURES_MAX])
{
	struct {
		struct ethtool_sset_info info;
		uint32_t count;
	} query = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_FEATURES}};
	struct {
		struct ethtool_gstrings head;
		char text[32 * FEATURE_BLOCKS][ETH_GSTRING_LEN];
	} names = {.head = {.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES}};
	int err = ethtool_call(name, &query);

	if (!err && (!query.info.sset_mask || query.count > 32 * FEATURE_BLOCKS))
		err = -EOPNOTSUPP;
	names.head.len = query.count;
	if (!err)
		err = ethtool_call(name, &names);
	for (size_t k = 0; k < wanted_count; k++)
		numbers[k] = -1;
	for (int i = 0; !err && i < (int)query.count; i++)
		for (size_t k = 0; k < wanted_count; k++)
			if (!strncmp(names.text[i], wanted[k], ETH_GSTRING_LEN))
				numbers[k] = i;
	return err ? err : ((int)query.count + 31) / 32;
}

int ethtool_features(const char *name, const char *const *wanted, size_t wanted_count,
		     uint32_t *active)
{
	struct {
		struct ethtool_gfeatures head;
		struct ethtool_get_features_block blocks[FEATURE_BLOCKS];
	} features = {.head = {.cmd = ETHTOOL_GFEATURES}};
	int numbers[FEATURES_MAX], blocks = feature_numbers(name, wanted, wanted_count, numbers);
	int err = blocks < 0 ? blocks : 0;

	features.head.size = blocks;
	if (!err)
		err = ethtool_call(name, &features);
	if (err)
		return err;
	*active = 0;
	for (size_t k = 0; k < wanted_count; k++)
		if (numbers[k] >= 0 &&
		    features.blocks[numbers[k] / 32].active >> (numbers[k] % 32) & 1)
			*active |= 1u << k;
	return 0;
}

int ethtool_request(const char *name, const char *const *wanted, size_t wanted_count, uint32_t on)
{
	struct {
		struct ethtool_sfeatures head;
		struct ethtool_set_features_block blocks[FEATURE_BLOCKS];
	} features = {.head = {.cmd = ETHTOOL_SFEATURES}};
	int numbers[FEATURES_MAX], blocks = feature_numbers(name, wanted, wanted_count, numbers);

	if (blocks < 0)
		return blocks;
	features.head.size = blocks;
	for (size_t k = 0; k < wanted_count; k++) {
		if (numbers[k] < 0 || !(on >> k & 1))
			continue;
		features.blocks[numbers[k] / 32].valid |= 1u << (numbers[k] % 32);
		features.blocks[numbers[k] / 32].requested |= 1u << (numbers[k] % 32);
	}
	return ethtool_call(name, &features);
}

double ethtool_speed_bps(const char *name)
{
	/* The first reply has the number of words of link modes of the driver, negative. */
	struct {
		struct ethtool_link_settings settings;
		uint32_t modes[3 * 127];
	} query = {.settings = {.cmd = ETHTOOL_GLINKSETTINGS}};
	int err = ethtool_call(name, &query);

	if (!err && query.settings.link_mode_masks_nwords < 0) {
		query.settings.cmd = ETHTOOL_GLINKSETTINGS;
		query.settings.link_mode_masks_nwords = -query.settings.link_mode_masks_nwords;
		err = ethtool_call(name, &query);
	}
	if (err || query.settings.link_mode_masks_nwords <= 0 ||
	    query.settings.speed == (uint32_t)SPEED_UNKNOWN)
		return 0;
	return query.settings.speed * 1e6;
}

/* --- qdiscs --- */

static uint32_t attribute_u32(const struct nlattr *attribute)
{
	return attribute && mnl_attr_get_payload_len(attribute) >= sizeof(uint32_t)
		       ? mnl_attr_get_u32(attribute)
		       : 0;
}

static void parse_fq(const struct nlattr *options, struct fq_limits *least)
{
	struct fq_limits one = {};
	const struct nlattr *a;

	if (!options)
		return;
	mnl_attr_for_each_nested (a, options) {
		uint16_t type = mnl_attr_get_type(a);

		if (type == TCA_FQ_PLIMIT)
			one.packets = attribute_u32(a);
		else if (type == TCA_FQ_FLOW_PLIMIT)
			one.flow_packets = attribute_u32(a);
		else if (type == TCA_FQ_HORIZON)
			one.horizon_ns = attribute_u32(a) * 1000ull;
		else if (type == TCA_FQ_ORPHAN_MASK)
			one.orphans = attribute_u32(a) + 1;
	}
	if (!least->packets || one.packets < least->packets)
		least->packets = one.packets;
	if (!least->flow_packets || one.flow_packets < least->flow_packets)
		least->flow_packets = one.flow_packets;
	if (!least->orphans || one.orphans < least->orphans)
		least->orphans = one.orphans;
	if (!least->horizon_ns || (one.horizon_ns && one.horizon_ns < least->horizon_ns))
		least->horizon_ns = one.horizon_ns;
}

/* The kernel lists a root before what hangs on it. */
static int parse_qdisc(const struct nlmsghdr *message, void *context)
{
	const struct tcmsg *tc = netlink_header(message, sizeof(*tc));
	struct qdisc_facts *facts = context;
	const struct nlattr *a[TCA_MAX + 1];
	char kind[16];

	if (!tc || message->nlmsg_type != RTM_NEWQDISC || tc->tcm_ifindex != (int)facts->ifindex)
		return 0;
	netlink_attributes(message, sizeof(*tc), a, TCA_MAX);
	netlink_text(a[TCA_KIND], kind, sizeof(kind));
	if (tc->tcm_parent == TC_H_CLSACT) {
		snprintf(facts->ingress, sizeof(facts->ingress), "%s", kind);
	} else if (tc->tcm_parent == TC_H_ROOT) {
		snprintf(facts->root, sizeof(facts->root), "%s", kind);
		facts->handle = tc->tcm_handle;
		if (!strcmp(kind, "fq"))
			parse_fq(a[TCA_OPTIONS], &facts->fq);
	} else if (TC_H_MAJ(tc->tcm_parent) == TC_H_MAJ(facts->handle)) {
		facts->queues++;
		if (!strcmp(kind, "fq")) {
			facts->fq_queues++;
			parse_fq(a[TCA_OPTIONS], &facts->fq);
		} else {
			snprintf(facts->other, sizeof(facts->other), "%s", kind);
		}
	}
	return 0;
}

int qdisc_read(unsigned int ifindex, struct qdisc_facts *out)
{
	union netlink_request request;
	struct tcmsg *tc = netlink_begin(&request, RTM_GETQDISC, NLM_F_DUMP, sizeof(*tc));

	*out = (struct qdisc_facts){.ifindex = ifindex};
	tc->tcm_ifindex = ifindex;
	return netlink_query(NETLINK_ROUTE, &request, parse_qdisc, out);
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

/* @limit: of fq. */
static int qdisc_make(unsigned int ifindex, uint32_t parent, uint32_t handle, const char *kind,
		      uint32_t limit)
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
		mnl_attr_put_u32(&request.header, TCA_FQ_PLIMIT, limit);
		mnl_attr_put_u32(&request.header, TCA_FQ_FLOW_PLIMIT, FQ_FLOW_LIMIT);
		mnl_attr_put_u32(&request.header, TCA_FQ_ORPHAN_MASK, FQ_ORPHANS - 1);
		mnl_attr_put_u8(&request.header, TCA_FQ_HORIZON_DROP, 0);
		mnl_attr_nest_end(&request.header, options);
	}
	return netlink_query(NETLINK_ROUTE, &request, NULL, NULL);
}

static bool is_as_made(const struct qdisc_facts *facts, uint32_t limit)
{
	return facts->fq.packets >= limit && facts->fq.flow_packets >= FQ_FLOW_LIMIT &&
	       facts->fq.orphans >= FQ_ORPHANS;
}

int qdisc_make_fq(const char *name, unsigned int ifindex, uint32_t limit, char **error)
{
	struct qdisc_facts facts;
	bool mq, ours;
	char text[40];
	int err = qdisc_read(ifindex, &facts);

	if (err)
		return explain(error, err, "the qdiscs of %s cannot be read: %s", name,
			       strerror(-err));
	ours = qdisc_is_ours(&facts);
	if (qdisc_is_fq(&facts) && (!ours || is_as_made(&facts, limit)))
		return 0;
	if (facts.handle && !ours)
		return explain(
			error, -EBUSY,
			"%s has a qdisc that an operator set up (%s, handle %x:), and it is left "
			"alone; put fq in its place, or below it, by `tc qdisc`",
			name, qdisc_text(&facts, text), facts.handle >> 16);
	/*
	 * fq at the root, or an mq of ours with an fq below each queue. One that is there takes the
	 * limits, and keeps its packets.
	 */
	mq = !strcmp(facts.root, "mq");
	err = mq && ours ? 0 : qdisc_make(ifindex, TC_H_ROOT, QDISC_OURS, mq ? "mq" : "fq", limit);
	for (unsigned int i = 1; mq && !err && i <= facts.queues; i++)
		err = qdisc_make(ifindex, QDISC_OURS | i, 0, "fq", limit);
	if (!err)
		return 0;
	if (!ours)
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

// SPDX-License-Identifier: BSD-2-Clause
#include "rtnl.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rtnl_request {
	struct nlmsghdr header;
	union {
		struct ifinfomsg link;
		struct tcmsg tc;
	};
	char attributes[64];
};

static int rtnl_read_answers(int fd, bool dump, rtnl_answer_fn *fn, void *context)
{
	static _Thread_local char buffer[64 * 1024] __attribute__((aligned(8)));

	for (;;) {
		struct nlmsghdr *message = (struct nlmsghdr *)buffer;
		ssize_t bytes = recv(fd, buffer, sizeof(buffer), 0);

		if (bytes < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		for (; NLMSG_OK(message, (size_t)bytes); message = NLMSG_NEXT(message, bytes)) {
			int err;

			if (message->nlmsg_type == NLMSG_ERROR)
				return ((struct nlmsgerr *)NLMSG_DATA(message))->error;
			if (message->nlmsg_type == NLMSG_DONE)
				return 0;
			err = fn(message, context);
			if (err < 0 || !dump)
				return err;
		}
	}
}

int rtnl_talk(struct nlmsghdr *request, rtnl_answer_fn *fn, void *context)
{
	bool dump = (request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return -errno;
	if (send(fd, request, request->nlmsg_len, 0) < 0)
		err = -errno;
	else
		err = rtnl_read_answers(fd, dump, fn, context);
	close(fd);
	return err;
}

static int rtnl_ask(struct rtnl_request *request, bool dump, rtnl_answer_fn *fn, void *context)
{
	request->header.nlmsg_flags = NLM_F_REQUEST | (dump ? NLM_F_DUMP : 0);
	return rtnl_talk(&request->header, fn, context);
}

static void rtnl_copy_text(char *out, size_t bytes, const struct rtattr *attribute)
{
	snprintf(out, bytes, "%.*s", (int)RTA_PAYLOAD(attribute),
		 (const char *)RTA_DATA(attribute));
}

static void rtnl_parse_kind(const struct rtattr *nest, struct link_facts *out)
{
	const struct rtattr *a = RTA_DATA(nest);
	int left = RTA_PAYLOAD(nest);

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFLA_INFO_KIND)
			rtnl_copy_text(out->kind, sizeof(out->kind), a);
}

static int rtnl_parse_link(const struct nlmsghdr *message, void *context)
{
	const struct ifinfomsg *link = NLMSG_DATA(message);
	const struct rtattr *a = IFLA_RTA(link);
	struct link_facts *out = context;
	int left = IFLA_PAYLOAD(message);
	bool elsewhere = false;

	memset(out, 0, sizeof(*out));
	out->ifindex = link->ifi_index;
	out->up = (link->ifi_flags & IFF_UP) && (link->ifi_flags & IFF_RUNNING);
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		switch (a->rta_type) {
		case IFLA_IFNAME:
			rtnl_copy_text(out->name, sizeof(out->name), a);
			break;
		case IFLA_MTU:
			out->mtu = *(uint32_t *)RTA_DATA(a);
			break;
		case IFLA_MAX_MTU:
			out->max_mtu = *(uint32_t *)RTA_DATA(a);
			break;
		case IFLA_LINK:
			out->peer_ifindex = *(uint32_t *)RTA_DATA(a);
			break;
		case IFLA_LINK_NETNSID:
			elsewhere = true;
			break;
		case IFLA_LINKINFO:
			rtnl_parse_kind(a, out);
			break;
		}
	}
	/* IFLA_LINK is the lower device for a VLAN; only a veth's is a peer. */
	if (elsewhere || strcmp(out->kind, "veth"))
		out->peer_ifindex = 0;
	return 0;
}

static void rtnl_link_request(struct rtnl_request *request, unsigned int ifindex)
{
	memset(request, 0, sizeof(*request));
	request->header.nlmsg_type = RTM_GETLINK;
	request->header.nlmsg_len = NLMSG_LENGTH(sizeof(request->link));
	request->link.ifi_index = ifindex;
}

int rtnl_link_by_index(unsigned int ifindex, struct link_facts *out)
{
	struct rtnl_request request;

	rtnl_link_request(&request, ifindex);
	return rtnl_ask(&request, false, rtnl_parse_link, out);
}

int rtnl_link(const char *name, struct link_facts *out)
{
	size_t bytes = strlen(name) + 1;
	struct rtnl_request request;
	struct rtattr *attribute;

	if (bytes > IF_NAMESIZE)
		return -ENODEV;
	rtnl_link_request(&request, 0);
	attribute = (struct rtattr *)((char *)&request + NLMSG_ALIGN(request.header.nlmsg_len));
	attribute->rta_type = IFLA_IFNAME;
	attribute->rta_len = RTA_LENGTH(bytes);
	memcpy(RTA_DATA(attribute), name, bytes);
	request.header.nlmsg_len = NLMSG_ALIGN(request.header.nlmsg_len) + attribute->rta_len;
	return rtnl_ask(&request, false, rtnl_parse_link, out);
}

struct name_list {
	char *out;
	size_t bytes;
	size_t used;
};

static int rtnl_append_name(const struct nlmsghdr *message, void *context)
{
	struct name_list *list = context;
	struct link_facts link;
	int n;

	if (message->nlmsg_type != RTM_NEWLINK || list->used + IF_NAMESIZE + 8 > list->bytes)
		return 0;
	rtnl_parse_link(message, &link);
	n = snprintf(list->out + list->used, list->bytes - list->used, "%s%s",
		     list->used ? ", " : "", link.name);
	list->used += n;
	if (list->used + IF_NAMESIZE + 8 > list->bytes)
		snprintf(list->out + list->used, list->bytes - list->used, ", ...");
	return 0;
}

void rtnl_link_names(char *out, size_t bytes)
{
	struct name_list list = {.out = out, .bytes = bytes};
	struct rtnl_request request;

	out[0] = '\0';
	rtnl_link_request(&request, 0);
	rtnl_ask(&request, true, rtnl_append_name, &list);
}

struct qdisc_search {
	int ifindex;
	char *kind;
};

static int rtnl_match_qdisc(const struct nlmsghdr *message, void *context)
{
	const struct tcmsg *tc = NLMSG_DATA(message);
	const struct rtattr *a = TCA_RTA(tc);
	struct qdisc_search *search = context;
	int left = TCA_PAYLOAD(message);

	if (tc->tcm_ifindex != search->ifindex || tc->tcm_parent != TC_H_CLSACT)
		return 0;
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == TCA_KIND)
			rtnl_copy_text(search->kind, 16, a);
	return 0;
}

static void rtnl_tc_request(struct rtnl_request *request, int type, unsigned int ifindex)
{
	memset(request, 0, sizeof(*request));
	request->header.nlmsg_type = type;
	request->header.nlmsg_len = NLMSG_LENGTH(sizeof(request->tc));
	request->tc.tcm_family = AF_UNSPEC;
	request->tc.tcm_ifindex = ifindex;
}

int rtnl_ingress_qdisc(unsigned int ifindex, char kind[16])
{
	struct qdisc_search search = {.ifindex = ifindex, .kind = kind};
	struct rtnl_request request;

	kind[0] = '\0';
	rtnl_tc_request(&request, RTM_GETQDISC, ifindex);
	return rtnl_ask(&request, true, rtnl_match_qdisc, &search);
}

struct filter_search {
	uint32_t own_priority;
	uint32_t last;
	struct filter_facts *facts;
};

/* The kernel lists each priority's filters together, with a head of handle 0. */
static int rtnl_count_filter(const struct nlmsghdr *message, void *context)
{
	const struct tcmsg *tc = NLMSG_DATA(message);
	struct filter_search *search = context;
	uint32_t priority = TC_H_MAJ(tc->tcm_info) >> 16;

	if (message->nlmsg_type != RTM_NEWTFILTER || priority == search->own_priority)
		return 0;
	if (priority != search->last)
		search->facts->filters++;
	search->last = priority;
	if (!search->facts->first || priority < search->facts->first)
		search->facts->first = priority;
	return 0;
}

int rtnl_filters(unsigned int ifindex, bool egress, uint32_t own_priority, struct filter_facts *out)
{
	struct filter_search search = {.own_priority = own_priority, .facts = out};
	struct rtnl_request request;
	int err;

	memset(out, 0, sizeof(*out));
	rtnl_tc_request(&request, RTM_GETTFILTER, ifindex);
	request.tc.tcm_parent = TC_H_MAKE(TC_H_CLSACT, egress ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS);
	err = rtnl_ask(&request, true, rtnl_count_filter, &search);
	return err == -EINVAL || err == -ENOENT ? 0 : err; /* no such hook: no filters */
}

int rtnl_watch_links(void)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

void rtnl_drain(int fd)
{
	char buffer[8192];

	/* ENOBUFS says that news were lost: the reader looks at everything anyhow. */
	while (recv(fd, buffer, sizeof(buffer), 0) >= 0 || errno == ENOBUFS || errno == EINTR)
		;
}

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

#include "netlink.h"

static uint32_t number_of(const struct nlattr *attribute)
{
	return attribute ? mnl_attr_get_u32(attribute) : 0;
}

static int parse_link(const struct nlmsghdr *message, void *context)
{
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(message);
	const struct nlattr *a[IFLA_MAX + 1], *kind;
	struct link_facts *out = context;

	netlink_attributes(message, sizeof(*link), a, IFLA_MAX);
	memset(out, 0, sizeof(*out));
	out->ifindex = link->ifi_index;
	out->up = (link->ifi_flags & IFF_UP) && (link->ifi_flags & IFF_RUNNING);
	out->mtu = number_of(a[IFLA_MTU]);
	out->max_mtu = number_of(a[IFLA_MAX_MTU]);
	netlink_text(a[IFLA_IFNAME], out->name, sizeof(out->name));
	if (a[IFLA_LINKINFO])
		mnl_attr_for_each_nested (kind, a[IFLA_LINKINFO])
			if (mnl_attr_get_type(kind) == IFLA_INFO_KIND)
				netlink_text(kind, out->kind, sizeof(out->kind));
	/* IFLA_LINK is the lower device for a VLAN; only a veth's is a peer. */
	if (!a[IFLA_LINK_NETNSID] && !strcmp(out->kind, "veth"))
		out->peer_ifindex = number_of(a[IFLA_LINK]);
	return 0;
}

int rtnl_link_by_index(unsigned int ifindex, struct link_facts *out)
{
	union netlink_request request;
	struct ifinfomsg *link = netlink_begin(&request, RTM_GETLINK, 0, sizeof(*link));

	link->ifi_index = ifindex;
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
	size_t used = 0;

	out[0] = '\0';
	for (const struct if_nameindex *at = all; at && at->if_index; at++) {
		bool full = used + IF_NAMESIZE + 8 > bytes;

		used += snprintf(out + used, bytes - used, "%s%s", used ? ", " : "",
				 full ? "..." : at->if_name);
		if (full)
			break;
	}
	if (all)
		if_freenameindex(all);
}

struct filter_search {
	uint32_t own_priority;
	uint32_t last;
	struct filter_facts *facts;
};

/* The kernel lists each priority's filters together, with a head of handle 0. */
static int count_filter(const struct nlmsghdr *message, void *context)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
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
	union netlink_request request;
	struct tcmsg *tc = netlink_begin(&request, RTM_GETTFILTER, NLM_F_DUMP, sizeof(*tc));
	int err;

	memset(out, 0, sizeof(*out));
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = TC_H_MAKE(TC_H_CLSACT, egress ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS);
	err = netlink_query(NETLINK_ROUTE, &request, count_filter, &search);
	return err == -EINVAL || err == -ENOENT ? 0 : err; /* no such hook: no filters */
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
	while (recv(fd, buffer, sizeof(buffer), 0) >= 0 || errno == ENOBUFS || errno == EINTR)
		;
}

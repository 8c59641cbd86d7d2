/* SPDX-License-Identifier: BSD-2-Clause */
/* Links and tc filters by rtnetlink, in the network namespace of this process. */
#ifndef ESC_LOADER_RTNL_H
#define ESC_LOADER_RTNL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <net/if.h>

struct link_facts {
	unsigned int ifindex;
	char name[IF_NAMESIZE];
	char kind[16]; /* "veth", "" for hardware */
	uint32_t mtu;
	uint32_t max_mtu;	   /* 0: not reported */
	bool up;		   /* administratively up and carrier there */
	unsigned int peer_ifindex; /* other end of a veth, when it is in this namespace; else 0 */
};

/* 0, -ENODEV when there is no interface @name, or -errno. */
int rtnl_link(const char *name, struct link_facts *out);
int rtnl_link_by_index(unsigned int ifindex, struct link_facts *out);
/* Names of the interfaces that are there, "eth0, eth1", cut with "..." when long. */
void rtnl_link_names(char *out, size_t bytes);

struct filter_facts {
	unsigned int filters; /* not counting @own_priority */
	uint32_t first;	      /* smallest priority among them, 0 when none */
};
/* Filters of others at the ingress or egress hook of clsact. */
int rtnl_filters(unsigned int ifindex, bool egress, uint32_t own_priority,
		 struct filter_facts *out);

/* A non-blocking socket that becomes readable when any link changes, or -errno. */
int rtnl_watch_links(void);
/* Discards what is waiting on it. */
void rtnl_drain(int fd);

#endif

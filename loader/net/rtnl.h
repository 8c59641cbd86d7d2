/* SPDX-License-Identifier: BSD-2-Clause */
/* What rtnetlink says of links, qdiscs and filters, in the network namespace we are in. */
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
	uint32_t max_mtu;	   /* 0: not said */
	bool up;		   /* administratively up and carrier there */
	unsigned int peer_ifindex; /* other end of a veth, when it is in this namespace; else 0 */
};

/* 0, -ENODEV when there is no interface @name, or -errno. */
int rtnl_link(const char *name, struct link_facts *out);
int rtnl_link_by_index(unsigned int ifindex, struct link_facts *out);
/* Names of the interfaces that are there, "eth0, eth1", cut with "..." when long. */
void rtnl_link_names(char *out, size_t bytes);

/* "clsact" or "ingress" when @ifindex has that qdisc, "" when neither. */
int rtnl_ingress_qdisc(unsigned int ifindex, char kind[16]);

struct filter_facts {
	unsigned int filters; /* not counting @own_priority */
	uint32_t first;	      /* smallest priority among them, 0 when none */
};
/* Filters of others at the ingress or egress hook of clsact. */
int rtnl_filters(unsigned int ifindex, bool egress, uint32_t own_priority,
		 struct filter_facts *out);

struct nlmsghdr;
/* Called for every answer; a negative value ends the conversation. */
typedef int rtnl_answer_fn(const struct nlmsghdr *message, void *context);
/*
 * One request, with its flags, and all its answers: those of a dump, or one, or with NLM_F_ACK
 * none. 0 or -errno.
 */
int rtnl_talk(struct nlmsghdr *request, rtnl_answer_fn *fn, void *context);

/* A non-blocking socket that becomes readable when any link changes, or -errno. */
int rtnl_watch_links(void);
/* Reads away what is waiting on it. */
void rtnl_drain(int fd);

#endif

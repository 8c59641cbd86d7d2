/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interfaces of this network namespace: links, tc filters and qdiscs by rtnetlink; drivers,
 * features and speed by ethtool. Results are 0 or -errno.
 */
#ifndef ESC_NET_RTNL_H
#define ESC_NET_RTNL_H

#include <libmnl/libmnl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- netlink: attributes are written and read with libmnl --- */

union netlink_request {
	struct nlmsghdr header;
	char bytes[256];
};

/* Begins a request; the header of @bytes behind the message's own, all zero, is returned. */
void *netlink_begin(union netlink_request *request, int type, int flags, size_t bytes);

/* Called for each reply; a negative value ends the query. */
typedef int netlink_reply_fn(const struct nlmsghdr *message, void *context);
/*
 * Sends a request to @bus (NETLINK_ROUTE) and receives its replies: those of a dump, or one, or
 * with NLM_F_ACK the acknowledgement alone (@fn may be NULL). -EAGAIN: no reply.
 */
int netlink_query(int bus, const union netlink_request *request, netlink_reply_fn *fn,
		  void *context);
/* The number of a generic netlink family, a message's type; 0: the kernel does not have it. */
uint16_t netlink_family(const char *name);

/* The header of @bytes behind the message's own; NULL: it is shorter. */
const void *netlink_header(const struct nlmsghdr *message, size_t bytes);
/* The number of one byte or four; 0 for NULL. */
uint32_t netlink_number(const struct nlattr *attribute);
/* The attributes behind a header of @bytes by their type, up to @most; NULL: not there. */
void netlink_attributes(const struct nlmsghdr *message, size_t bytes, const struct nlattr **out,
			unsigned int most);
/* The text of an attribute, cut to @bytes; "" for NULL. */
void netlink_text(const struct nlattr *attribute, char *out, size_t bytes);

/* --- links --- */

#define RTNL_DRAIN_MAX 256

struct link_facts {
	unsigned int ifindex;
	char name[IF_NAMESIZE];
	char kind[16]; /* "veth", "" for hardware */
	uint32_t mtu;
	uint32_t max_mtu;	   /* 0: not reported */
	bool up;		   /* administratively up and carrier there */
	uint32_t xdp;		   /* XDP_ATTACHED_* */
	unsigned int peer_ifindex; /* other end of a veth; else 0 */
	int peer_netns;		   /* where that is; see rtnl_link_by_index() */
	unsigned int lower;	   /* below a VLAN, macvlan or ipvlan, in this namespace; else 0 */
	unsigned int master;	   /* a bond's, team's or bridge's; 0: none */
};

/* -ENODEV: there is no interface @name. */
int rtnl_link(const char *name, struct link_facts *out);
/* @netns: id that this network namespace has for another one (peer_netns), RTNL_HERE: itself. */
#define RTNL_HERE (-1)
int rtnl_link_by_index(unsigned int ifindex, int netns, struct link_facts *out);

/*
 * A device and the masters above it, or the devices below it, in this namespace. A tunnel (VXLAN,
 * Geneve) is not above its NIC: what is in its packets is seen on the tunnel's device alone.
 */
#define LINK_CHAIN_MAX 9 /* the kernel nests up to eight (MAX_NEST_DEV) */
struct link_chain {
	unsigned int count;
	unsigned int ifindex[LINK_CHAIN_MAX];
};
void rtnl_chain(unsigned int ifindex, bool up, struct link_chain *out);
/* With the one below @a and the one above @b: the first of @a is above the first of @b. */
bool link_chains_meet(const struct link_chain *a, const struct link_chain *b);

/* Names of the interfaces that are there, "eth0, eth1", cut with "..." when long. */
void rtnl_link_names(char *out, size_t bytes);

/*
 * Almost every call of this file takes RTNL, a lock of the kernel that other programs may hold for
 * seconds; what waits for it cannot be interrupted. 0 when it was free within @timeout_ms, waited
 * for by a thread of its own; -EBUSY: it is held, and nothing is to be called that needs it.
 * From the event loop, before it reads what only periodic work needs.
 */
int rtnl_wait(unsigned int timeout_ms);
/* The same for what an operator asked for: waits for a second, and explains. */
int rtnl_need(char **error);
/* CLOCK_MONOTONIC since when that thread has waited; 0: it does not. */
uint64_t rtnl_asked_since(void);

/* A non-blocking socket that becomes readable when any link changes, or -errno. */
int rtnl_watch_links(void);
/* Discards what is waiting on it, RTNL_DRAIN_MAX messages at most: others may send without end. */
void rtnl_drain(int fd);

/* "" when the driver does not report it. */
void ethtool_driver(const char *name, char *out, size_t bytes);
/* A bit in *@active for each of at most 32 @wanted features ("tx-tcp-segmentation") that is on. */
int ethtool_features(const char *name, const char *const *wanted, size_t wanted_count,
		     uint32_t *active);
/* Asks for those of @wanted that have a bit in @on. 0 also where the driver grants only some. */
int ethtool_request(const char *name, const char *const *wanted, size_t wanted_count, uint32_t on);
/* Bits a second; 0: the driver does not report it. */
double ethtool_speed_bps(const char *name);

/* --- tc filters --- */

struct filter_facts {
	uint32_t own_priority;
	unsigned int filters; /* not counting @own_priority */
	uint32_t first;	      /* smallest priority among them, 0 when none */
	uint32_t last;	      /* that was read */
};
/* Filters of other programs at the ingress or egress hook of clsact. */
int rtnl_filters(unsigned int ifindex, bool egress, uint32_t own_priority,
		 struct filter_facts *out);

/* --- qdiscs: ours is fq, or mq with fqs, in the place of the kernel's default alone --- */

#define QDISC_OURS 0xe5c00000u
/*
 * What soft-RoCE hands over ahead of its acknowledgements: 64 requests of a queue pair at a time
 * (RXE_INFLIGHT_SKBS_PER_QP_HIGH), besides a window of 128 packets of READ responses.
 */
#define FQ_QP_PACKETS 64

struct qdisc_facts {
	unsigned int ifindex;
	char root[16];	     /* "mq", "fq_codel", "noqueue", "" none */
	uint32_t handle;     /* 0: the kernel's default */
	unsigned int queues; /* below mq */
	unsigned int fq_queues;
	struct fq_limits {
		uint32_t packets, flow_packets;
		uint32_t orphans;    /* flows of sockets that are not connected */
		uint64_t horizon_ns; /* later departures are dropped or moved to it; 0: none */
	} fq;			     /* the least of all fqs */
	char other[16];		     /* a qdisc of a queue that is not fq */
	char ingress[16];	     /* "clsact" or "ingress", "" neither */
};

int qdisc_read(unsigned int ifindex, struct qdisc_facts *out);
/* Every packet passes an fq. */
bool qdisc_is_fq(const struct qdisc_facts *facts);
bool qdisc_is_ours(const struct qdisc_facts *facts);
/* "fq_codel", or "mq with fq_codel". */
const char *qdisc_text(const struct qdisc_facts *facts, char out[40]);

/* For @limit packets at least; -EBUSY with *@error over a qdisc that an operator set up. */
int qdisc_make_fq(const char *name, unsigned int ifindex, uint32_t limit, char **error);
/* Ours, if it is there: the kernel puts its default back. */
int qdisc_drop_fq(unsigned int ifindex);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel has of a link: its carrier and how often that changed (rtnetlink), and what its
 * driver reports (ethtool netlink, `ethtool -S`, RDMA in sysfs). Results are 0 or -errno.
 */
#ifndef ESC_NET_LINKINFO_H
#define ESC_NET_LINKINFO_H

#include <linux/netlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- carrier --- */

/* From RTM_NEWLINK or RTM_DELLINK. */
struct link_carrier {
	unsigned int ifindex;
	char name[IF_NAMESIZE];
	bool gone; /* RTM_DELLINK: it left this namespace */
	bool admin_up, carrier;
	uint32_t up_count, down_count; /* changes of the carrier since the device was registered */
	unsigned int master;	       /* a bond's, team's or bridge's ifindex; 0: none */
	unsigned int lower;	       /* below a VLAN; 0: none in this namespace */
	bool bonded;		       /* its master is a bond or a team */
	uint64_t identity; /* digest of kind and permanent MAC address; 0: it has neither */
};

/* -ENOENT: it is no message of a link. */
int link_carrier_parse(const struct nlmsghdr *message, struct link_carrier *out);
/* Called for each; a negative value ends the dump. */
typedef int link_carrier_fn(const struct link_carrier *link, void *context);
int link_carrier_dump(link_carrier_fn *fn, void *context);
/*
 * Messages that are waiting on @fd (rtnl_watch_links()), at most LINK_MESSAGES_MAX. -ENOBUFS: some
 * were lost.
 */
#define LINK_MESSAGES_MAX 256
int link_carrier_receive(int fd, link_carrier_fn *fn, void *context);

/* --- what the driver reports --- */

#define LINK_UNKNOWN UINT64_MAX /* it does not report it */
#define LINK_PRIORITIES 8

struct link_details {
	const char *ext_state; /* why there is no carrier, as ethtool(8); NULL: not reported */
	uint64_t ext_downs;    /* times that the PHY lost the link */
	uint64_t fec_corrected, fec_uncorrectable; /* blocks */
	const char *fec_mode;			   /* "RS", as ethtool(8); NULL: not reported */
	uint64_t symbol_errors;
	uint64_t pause_rx, pause_tx; /* frames */
	uint64_t priority_rx[LINK_PRIORITIES], priority_tx[LINK_PRIORITIES];
	int32_t temperature_mc; /* of the module, in 1/1000 degrees; INT32_MIN: not reported */
	/* The RDMA device's port. */
	char rdma[64]; /* "" none */
	unsigned int rdma_port;
	char rdma_state[24], rdma_phys[24]; /* "ACTIVE", "LinkUp"; "" not reported */
	uint64_t rdma_downed;		    /* its counter `link_downed` */
};

/* Nothing is known. */
void link_details_clear(struct link_details *out);
/* @sysroot: "/sys", or a captured tree. Waits for the driver, for long: not from the event loop. */
void link_details_read(const char *sysroot, const char *name, struct link_details *out);

/* --- parts of it, for tests: each reads a recorded reply --- */

int link_parse_state(const struct nlmsghdr *message, void *details);
int link_parse_fec(const struct nlmsghdr *message, void *details);
int link_parse_pause(const struct nlmsghdr *message, void *details);
int link_parse_phy(const struct nlmsghdr *message, void *details);
/* A counter of `ethtool -S`. */
void link_take_stat(const char *name, uint64_t value, struct link_details *out);
/* The RDMA port in @sysroot that has @name as its netdev. */
void link_read_rdma(const char *sysroot, const char *name, struct link_details *out);
/*
 * The temperature in a module's memory: @lower are bytes 0 to 127 of page 0, @ddm the same at the
 * address 0x51 of an SFP (NULL: not read). INT32_MIN: the module does not measure it.
 */
int32_t link_module_temperature(const uint8_t lower[128], const uint8_t *ddm);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NIC failover between the two NICs of a pair.
 *
 * A queue pair's address belongs to the first NIC of a pair, or to a dummy device on top of
 * it. A route from one of our addresses to one of a peer's is a pair of NICs: the one that
 * packets leave by, and the one of the peer that they arrive at. The direct route sends
 * packets unchanged; the others encapsulate them in UDP between the addresses of the two
 * NICs, and the peer's program delivers them to the device of the address.
 *
 * `nic_local`: our addresses. `nic_peers`: the peers'. `nic_routes`: usable routes according
 * to probes. Writer of each field: the daemon, unless stated.
 */
#ifndef ESC_MAPS_NIC_H
#define ESC_MAPS_NIC_H

#include "maps/qp.h"

/* Two UDP ports in a row; the first is configured. */
#define ESC_NIC_PORT_DEFAULT 4792
#define ESC_NIC_PORT_DATA 0 /* encapsulated packet */
#define ESC_NIC_PORT_PROBE 1
#define ESC_NIC_PORTS 2

/* A NIC counts as dead for this long after a failure: the carrier returns before its queue does. */
#define ESC_NIC_LATCH_NS 1000000000ull
/* Validity of a peer's report that its NIC is dead. */
#define ESC_NIC_LEASE_NS 300000000ull

/* ---- on the wire, behind the UDP header ---- */

#define ESC_NIC_MAGIC 0x45534e50u /* "ESNP" */
/*
 * Versions as in probe.h: `min_version` is that of the format, `version` the newest that the sender
 * reads (0: the same). A host writes to an address the newest format that both read, and the oldest
 * until it has received a request or data of it.
 */
#ifndef ESC_NIC_VERSION /* a test builds the programs of the next release */
#define ESC_NIC_VERSION 2
#endif
#define ESC_NIC_VERSION_OLDEST 2
#define ESC_NIC_REQUEST 1
#define ESC_NIC_REPLY 2
/* `subject` is an address of the sender whose NIC is dead. */
#define ESC_NIC_REPORTS_DEAD 0x1u
#define ESC_NIC_KEY 0x2u /* tagged with key slot 1, else 0; of a probe and of encapsulated data */

/*
 * Sequence: CLOCK_REALTIME of the sender when its failover began, and CLOCK_MONOTONIC since then,
 * so that it never goes back in one boot. Encapsulated data has its upper bits, which change each
 * second. A peer takes the newest that it has seen of an address and the one before, and another
 * one only ESC_NIC_FORGET_NS later: the sender has restarted with a false clock. A report that a
 * NIC is dead has to be newer than the last one about it.
 */
#define ESC_NIC_NUMBER_SHIFT 30
#define ESC_NIC_FORGET_NS 3000000000ull

/* Reflected by the peer's tc ingress: only `kind`, `version`, the key and the tag differ in the
 * reply. */
struct esc_nic_probe {
	__be32 magic;
	__u8 min_version;
	__u8 kind;
	__u8 flags;
	__u8 version;  /* not in a reply of a release that had only min_version */
	__be64 cookie; /* random, of the requester's daemon, against forged replies */
	__be32 sequence;
	__be32 route; /* the requester's number of the route */
	struct esc_address subject;
	__be64 number_ns; /* the requester's sequence */
	__u64 tag;
};
ESC_ASSERT_SIZE(struct esc_nic_probe, 56);

/* Between the outer UDP header and the inner IP header. */
struct esc_nic_shim {
	__u8 min_version;
	__u8 flags; /* ESC_NIC_KEY */
	__u8 version;
	__u8 reserved;
	__be32 number; /* the sender's sequence >> ESC_NIC_NUMBER_SHIFT */
	__u64 token;
} __attribute__((packed, aligned(4)));
ESC_ASSERT_SIZE(struct esc_nic_shim, 16);

/*
 * Tag and token are SipHash-2-4, with the key of the two hosts, of what is ahead of them here; 0
 * without a key.
 */
struct esc_nic_signed_probe {
	struct esc_address src, dst; /* of the packet */
	struct esc_nic_probe probe;
};
#define ESC_NIC_PROBE_WORDS (__builtin_offsetof(struct esc_nic_signed_probe, probe.tag) / 8)
ESC_ASSERT_OFFSET(struct esc_nic_signed_probe, probe.tag, 80);

struct esc_nic_signed_data {
	struct esc_address src, dst; /* outer */
	struct esc_address inner_src, inner_dst;
	__u8 bth[12];
	__be32 zero;
	struct esc_nic_shim shim;
};
#define ESC_NIC_DATA_WORDS (__builtin_offsetof(struct esc_nic_signed_data, shim.token) / 8)
ESC_ASSERT_OFFSET(struct esc_nic_signed_data, shim.token, 88);

/* ---- maps ---- */

/* Value of `nic_control`, an array of one, mapped. */
struct esc_nic_control {
	__u32 flags;	 /* ESC_NIC_ON, ... */
	__u32 attention; /* something may be dead. Set by the programs and the daemon, cleared
			    by the daemon */
	__u16 port;	 /* host order */
	__u16 reserved;
	__u32 changes; /* writer: the programs, when a NIC has died: the watch polls at once */
	__u64 heartbeat_ktime_ns; /* CLOCK_MONOTONIC, of the daemon's loop; stale: no failover */
	__u64 number_offset_ns;	  /* our sequence less CLOCK_MONOTONIC */
};
ESC_ASSERT_SIZE(struct esc_nic_control, 32);
#define ESC_NIC_ON 0x1u
#define ESC_NIC_HAS_DUMMY 0x2u /* there are addresses with ESC_NIC_DUMMY */
#define ESC_NIC_REPAIR 0x4u    /* keep copies of packets, see below */
#define ESC_NIC_HAS_KEY0 0x8u  /* `nic_peers` has keys of this slot */
#define ESC_NIC_HAS_KEY1 0x10u
#define ESC_NIC_USE_KEY1 0x20u /* tag with slot 1; both are accepted */

#define ESC_NIC_LOCAL_MAX 256
#define ESC_NIC_PEERS_MAX 65536
#define ESC_NIC_ROUTES_MAX 4096

/* Value of `nic_local`, a hash by struct esc_address. */
struct esc_nic_local {
	__u32 first_ifindex;   /* NIC of the address; 0: absent */
	__u32 second_ifindex;  /* backup NIC; 0: none, or absent */
	__u32 deliver_ifindex; /* device that packets to the address are delivered to */
	__u16 first_mtu, second_mtu;
	__u8 deliver_mac[6];
	__u16 flags; /* ESC_NIC_* */
	/* Outer source addresses, of the IP version of the key; all zero: none. */
	struct esc_address first, second;
	struct esc_address first_hop,
		second_hop;	  /* gateways of the two; all zero: the peer is on-link */
	__u64 seen_dead_ktime_ns; /* writer: tc egress; 0: never */
};
ESC_ASSERT_OFFSET(struct esc_nic_local, first, 24);
ESC_ASSERT_SIZE(struct esc_nic_local, 96);
#define ESC_NIC_PAIRED 0x1u /* the address is protected, else only reachable */
#define ESC_NIC_DUMMY 0x2u  /* the address is on a dummy device */
#define ESC_NIC_PLAIN                                                                              \
	0x4u /* the fabric routes to the peer from the second NIC too: no UDP encapsulation */
#define ESC_NIC_FIRST_DOWN 0x8u /* set by the daemon: dead, or in hold-down */
#define ESC_NIC_SECOND_DOWN 0x10u

/* Value of `nic_peers`, a hash by struct esc_address: every address of a member that has NICs. */
struct esc_nic_peer {
	__u64 id; /* graph_member_id() of the host */
	/* Of queue pairs' addresses only; all zero: there is no backup. */
	struct esc_address first, second;
	__u64 key[2][2]; /* SipHash keys of this host and the peer, by slot; 0: none */
	/* Writer: tc ingress. CLOCK_MONOTONIC until which its NIC is reported dead. */
	__u64 dead_ktime_ns;
	__u64 report_number_ns; /* sequence of the newest such report */
	__u64 number_ktime_ns;	/* CLOCK_MONOTONIC of the newest packet from the address */
	__u32 number;		/* its sequence >> ESC_NIC_NUMBER_SHIFT */
	__u8 version;		/* the newest that the address reads; 0: not known */
	__u8 reserved[3];
};
ESC_ASSERT_SIZE(struct esc_nic_peer, 104);

/* Key of `nic_routes`: our address, the peer's. */
struct esc_nic_route_key {
	struct esc_address src;
	struct esc_address dst;
};
ESC_ASSERT_SIZE(struct esc_nic_route_key, 32);

/* The four routes, in order of preference. Our NIC, then the peer's. */
enum esc_nic_route {
	ESC_NIC_ROUTE_DIRECT, /* first to first */
	ESC_NIC_ROUTE_SECOND, /* second to second */
	ESC_NIC_ROUTE_LEAVE,  /* second to first */
	ESC_NIC_ROUTE_CROSS,  /* first to second */
	ESC_NIC_ROUTES,
};
#define ESC_NIC_LEAVES_SECOND ((1u << ESC_NIC_ROUTE_SECOND) | (1u << ESC_NIC_ROUTE_LEAVE))
#define ESC_NIC_REACHES_SECOND ((1u << ESC_NIC_ROUTE_SECOND) | (1u << ESC_NIC_ROUTE_CROSS))
#define ESC_NIC_ROUTES_ALL ((1u << ESC_NIC_ROUTES) - 1)

/* Value of `nic_routes`. */
struct esc_nic_routes {
	__u32 usable; /* bits of enum esc_nic_route: alive, and past the hold-down */
	__u32 reserved;
	__u64 silent_ns; /* CLOCK_MONOTONIC: what those that died last were sent before has arrived
			  */
};
ESC_ASSERT_SIZE(struct esc_nic_routes, 16);

/* Value of `nic_counts`, a per-CPU array of one. Writer: the programs. */
struct esc_nic_counts {
	__u64 wrapped;	  /* packets encapsulated in UDP */
	__u64 redirected; /* packets sent unchanged by the second NIC */
	__u64 unwrapped;  /* packets decapsulated */
	__u64 held; /* packets without a route: dropped, as on a wire; their queue pairs survive */
	__u64 replied; /* probes reflected */
};
ESC_ASSERT_SIZE(struct esc_nic_counts, 40);

/* ---- packets that a dying NIC may have lost: private to the programs, not pinned ---- */

/*
 * `nic_rings`, an array of maps, each with a struct esc_repair_ring: copies of the newest packets
 * of a queue pair of a protected address (maps/repair.h, bpf/nic/repair.bpf.h). `nic_queues`, a
 * hash: 1 + index of the queue pair's ring. `nic_spares`, a queue of such numbers: empty rings that
 * no queue pair has. tc egress takes one for the first packet of a queue pair; the daemon makes
 * them, and takes back those of queue pairs that are idle.
 */
#define ESC_NIC_RINGS 128u

struct esc_nic_queue {
	struct esc_address src, dst;
	__be32 qpn; /* destination's */
};
ESC_ASSERT_SIZE(struct esc_nic_queue, 36);

/* What the daemon runs esc_nic_repair with: an Ethernet header and this. */
struct esc_nic_order {
	__u32 ring; /* as in `nic_queues` */
	__u32 flags;
	__u8 room[40]; /* a test run of a program takes no packet that is shorter than its headers
			*/
};
ESC_ASSERT_SIZE(struct esc_nic_order, 48);
#define ESC_NIC_ORDER_AGAIN 0x1u /* the last packets, if nothing was acknowledged since */

#define ESC_PROGRAM_NIC_EGRESS "esc_nic_out"
#define ESC_PROGRAM_NIC_INGRESS "esc_nic_in"
#define ESC_PROGRAM_NIC_DUMMY "esc_nic_dummy"

#endif

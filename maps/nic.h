/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NIC failover: two NICs of a host that stand in for each other.
 *
 * A queue pair's address belongs to the first NIC of a pair, or to a dummy device that
 * stands on it. A way from one of our addresses to one of a peer's is which of our two
 * NICs is left by, and which of the peer's two is gone to. The direct one
 * takes packets as they are; the others put them into UDP, between the addresses
 * of the NICs that they take, and the peer's program hands them to the device of the address.
 *
 * `nic_local`: our addresses. `nic_peers`: the peers'. `nic_routes`: what
 * probes say of the ways in use. Writer of each field: the daemon, but where it is said.
 */
#ifndef ESC_MAPS_NIC_H
#define ESC_MAPS_NIC_H

#include "maps/qp.h"

/* Three UDP ports in a row; the first is configured. */
#define ESC_NIC_PORT_DEFAULT 4792
#define ESC_NIC_PORT_DEAD 0    /* a packet within: the NIC of its source address is dead */
#define ESC_NIC_PORT_DATA 1 /* a packet within, which says nothing of its sender's NICs */
#define ESC_NIC_PORT_PROBE 2
#define ESC_NIC_PORTS 3

/* That a NIC is taken for dead after it was seen so: a carrier is back before the queue behind it.
 */
#define ESC_NIC_LATCH_NS 1000000000ull
/* That a peer's word about its NIC is good for. */
#define ESC_NIC_LEASE_NS 300000000ull

/* ---- on the wire, behind the UDP header of a probe ---- */

#define ESC_NIC_MAGIC 0x45534e50u /* "ESNP" */
#define ESC_NIC_VERSION 1
#define ESC_NIC_REQUEST 1
#define ESC_NIC_REPLY 2
/* `subject` is an address of the sender's whose NIC is dead. */
#define ESC_NIC_REPORTS_DEAD 0x1u

/* Turned round in place by the peer's tc ingress: only `kind` differs in the reply. */
struct esc_nic_probe {
	__be32 magic;
	__u8 version;
	__u8 kind;
	__u8 flags;
	__u8 reserved;
	__be64 cookie; /* random, of the requester's daemon: who does not see it cannot answer */
	__be32 sequence;
	__be32 route; /* requester's own number for it */
	struct esc_address subject;
};
ESC_ASSERT_SIZE(struct esc_nic_probe, 40);

/* ---- maps ---- */

/* Value of `nic_control`, an array of one, mapped. */
struct esc_nic_control {
	__u32 flags;	 /* ESC_NIC_ON, ... */
	__u32 attention; /* something may be dead. Set by the programs, and by the daemon, which
			    clears it */
	__u16 port;	 /* host order */
	__u16 reserved;
	__u32 changes; /* writer: the programs, when a NIC is newly dead: the watch looks at once */
	__u64 heartbeat_ktime_ns; /* CLOCK_MONOTONIC of the watch's last turn; old: nothing fails over */
};
ESC_ASSERT_SIZE(struct esc_nic_control, 24);
#define ESC_NIC_ON 0x1u
#define ESC_NIC_HAS_DUMMY 0x2u /* packets to an address with ESC_NIC_DUMMY are its */
#define ESC_NIC_RETAIN 0x4u     /* what may have to be sent again is kept */

#define ESC_NIC_LOCAL_MAX 256
#define ESC_NIC_PEERS_MAX 65536
#define ESC_NIC_ROUTES_MAX 4096

/* Value of `nic_local`, a hash by struct esc_address. */
struct esc_nic_local {
	__u32 first_ifindex;   /* NIC that the address is reached by; 0: it is not there */
	__u32 second_ifindex;  /* the one that stands in; 0: none, or it is not there */
	__u32 deliver_ifindex; /* device that takes what is for the address */
	__u16 first_mtu, second_mtu;
	__u8 deliver_mac[6];
	__u16 flags; /* ESC_NIC_* */
	/* Outer source addresses, of the IP version of the key; all zero: there is none. */
	struct esc_address first, second;
	struct esc_address first_hop,
		second_hop;	  /* gateways of the two; all zero: the peer itself */
	__u64 seen_dead_ktime_ns; /* writer: tc egress; 0: never */
};
ESC_ASSERT_OFFSET(struct esc_nic_local, first, 24);
ESC_ASSERT_SIZE(struct esc_nic_local, 96);
#define ESC_NIC_PAIRED 0x1u /* the address is protected; else it is only one to be reached at */
#define ESC_NIC_DUMMY 0x2u  /* it is a dummy device's */
#define ESC_NIC_PLAIN                                                                              \
	0x4u /* the fabric finds the peer from the second NIC too: no UDP round it                 \
	      */
#define ESC_NIC_FIRST_DOWN 0x8u /* by the daemon: dead, or back for too short a time */
#define ESC_NIC_SECOND_DOWN 0x10u

/* Value of `nic_peers`, a hash by struct esc_address: every address of a member that has NICs. */
struct esc_nic_peer {
	__u64 id; /* graph_member_id() of the host */
	/* Of queue pairs' addresses only; all zero: nobody stands in for it. */
	struct esc_address first, second;
	/* Writer: tc ingress. CLOCK_MONOTONIC until which its NIC is dead, as its host said. */
	__u64 dead_ktime_ns;
};
ESC_ASSERT_SIZE(struct esc_nic_peer, 48);

/* Key of `nic_routes`: our address, the peer's. */
struct esc_nic_route_key {
	struct esc_address src;
	struct esc_address dst;
};
ESC_ASSERT_SIZE(struct esc_nic_route_key, 32);

/* The four ways, in the order in which they are chosen. Our NIC, then the peer's. */
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
	__u32 usable; /* bits of enum esc_nic_route: alive, and for long enough */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct esc_nic_routes, 8);

/* Value of `nic_counts`, a per-CPU array of one. Writer: the programs. */
struct esc_nic_counts {
	__u64 wrapped;	  /* packets sent in UDP */
	__u64 redirected; /* packets sent by the second NIC as they were */
	__u64 unwrapped;  /* packets taken out of UDP */
	__u64 held; /* packets with no way left: lost, as on a wire; their queue pairs live on */
	__u64 answered; /* probes turned round */
};
ESC_ASSERT_SIZE(struct esc_nic_counts, 40);

/* ---- what a dead NIC may have lost last: maps of the programs' own, not pinned ---- */

/*
 * `nic_acks`, `nic_requests`: of each queue pair the last acknowledgement that we sent, and the
 * last packet of data that asked for one, from the IP header on, as they left. Sent once
 * more, by another way, they make the peer say how far it has come.
 */
struct esc_nic_retained_key {
	struct esc_address src, dst;
	__be32 qpn; /* destination's */
};
ESC_ASSERT_SIZE(struct esc_nic_retained_key, 36);

struct esc_nic_retained {
	__u64 sent_ktime_ns;
	__u32 begun, ended; /* another one: it is being written */
	__u32 bytes;
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct esc_nic_retained, 24);

#define ESC_NIC_ACK_BYTES 72	   /* IPv6, UDP, BTH, AETH, ICRC */
#define ESC_NIC_REQUEST_BYTES 4200 /* 4,096 of payload, and all headers there may be */

struct esc_nic_ack {
	struct esc_nic_retained retained;
	__u8 packet[ESC_NIC_ACK_BYTES];
};
ESC_ASSERT_SIZE(struct esc_nic_ack, 96);

struct esc_nic_request {
	struct esc_nic_retained retained;
	__u8 packet[ESC_NIC_REQUEST_BYTES];
};
ESC_ASSERT_SIZE(struct esc_nic_request, 4224);

#define ESC_NIC_ACKS_MAX 4096
#define ESC_NIC_REQUESTS_MAX 1024

#define ESC_PROGRAM_NIC_EGRESS "esc_nic_out"
#define ESC_PROGRAM_NIC_INGRESS "esc_nic_in"
#define ESC_PROGRAM_NIC_DUMMY "esc_nic_dummy"

#endif

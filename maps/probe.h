/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The probe on the wire. A probe is a UDP datagram to ESC_ROCEV2_PORT (or to
 * the interface's probe port) whose BTH has a manufacturer-specific opcode:
 * soft-RoCE and NICs without the program drop it as unknown, and ECMP hashes it
 * like a queue pair with that source port. UDP checksum 0, as in RoCEv2;
 * four zero bytes in place of the ICRC.
 *
 * A request's t1 and tag are written in tc egress. The peer's XDP verifies the
 * tag, reflects the packet in place (addresses swapped, ports kept), fills in
 * t2, t3, its own view and anchor, and makes a new tag. A reply is as long as its request.
 *
 * All fields are big-endian on the wire, except the tag, which is SipHash-2-4
 * (64 bit, the reference's little-endian words) over all bytes from the BTH to
 * just before the tag. Its key is that of the pair of hosts (`peers`), in version 2
 * the fleet's own.
 *
 * Versions: `min_version` is that of the format of this packet, the least that its receiver has
 * to read; `version` is the newest that its sender reads. A host writes to a peer the newest
 * format that both read, and the oldest until it has received something of the peer. So releases
 * that are one apart understand each other. A format that is not known is ESC_REASON_PROBE_VERSION.
 * Path probes and receipts (path.h, owd.h) have the same two fields.
 */
#ifndef ESC_MAPS_PROBE_H
#define ESC_MAPS_PROBE_H

#include "maps/rocev2.h"

#define ESC_PROBE_OPCODE_REQUEST 0xe5
#define ESC_PROBE_OPCODE_REPLY 0xe6
#define ESC_PROBE_OPCODE_RECEIPT 0xe7
#define ESC_PROBE_OPCODE_WARMUP 0xe8 /* warm-up packet: sent just before a pair, no reply */

#define ESC_PROBE_MAGIC 0x45734370u /* "EsCp" */
#ifndef ESC_PROBE_VERSION	    /* a test builds the programs of the next release */
#define ESC_PROBE_VERSION 3
#endif
#define ESC_PROBE_VERSION_OLDEST (ESC_PROBE_VERSION - 1)
#define ESC_PROBE_VERSION_PAIR 3 /* the first one with tags by the key of the pair */

/*
 * skb->mark of the daemon's own sockets: a cheap sign that a packet may be a probe to send. Others
 * can set it as well, so only packets of sockets in `probe_sockets` get timestamps and tags.
 */
#define ESC_PROBE_MARK 0x45734350u

/*
 * `probe_sockets`, a hash: the cookies (SO_COOKIE) of the daemon's sockets; the value is 1. The
 * kernel gives a cookie to one socket only, ever. Writer: the daemon.
 */
#define ESC_PROBE_SOCKETS_MAX 1024

/* Bits of esc_probe.flags. */
#define ESC_PROBE_SECOND 0x01 /* second of its pair */
#define ESC_PROBE_VIEW 0x02   /* `view` is valid */
#define ESC_PROBE_QUERY 0x04  /* queries when the responder last received from `about` */
#define ESC_PROBE_KEY 0x08    /* tagged with key slot 1, else 0 */
#define ESC_PROBE_PLANE 0x10  /* frontend mesh, else backend */

/* The sender's clock as struct clock_view of clocksync/line.h, in wire order. */
struct esc_probe_view {
	__be64 ref_local_ns;
	__be64 ref_fabric_ns;
	__be64 rate_q40;
	__be32 ref_fraction;
	__be32 bound_ns;
	__be32 generation;
	__be16 reach;
	__u8 state;
	__u8 nic_report; /* of one NIC of the sender, fault_report_make(); or that its daemon has
			    ended, which is valid without a view; 0: none, as of older releases */
};
ESC_ASSERT_SIZE(struct esc_probe_view, 40);

/* The sender's estimate of TAI: struct anchor_report of clocksync/anchor.h, in wire order. */
struct esc_probe_anchor {
	__be64 ref_fabric_ns;
	__be64 ahead_ns;
	__be64 rate_q40;
	__be32 sequence; /* 0: none, and no other field is valid */
	__be32 bound_ns;
	__be32 anchor;
	__u8 hops;
	__u8 reserved[3];
};
ESC_ASSERT_SIZE(struct esc_probe_anchor, 40);

struct esc_probe {
	__be32 magic;
	__u8 min_version; /* of the format; in version 2 this was named version */
	__u8 flags;
	__u8 reserved;
	__u8 version;		/* the newest that the sender reads; not in a reply of version 2 */
	__be64 sender;		/* graph_member_id() of this packet's sender */
	__be64 target;		/* and of its receiver */
	__be64 epoch;		/* sender's: CLOCK_REALTIME of its daemon's start, ns */
	__be64 echo_epoch;	/* reply: the request's epoch */
	__be32 sequence;	/* of the requester, incremented per request on this edge */
	__be32 pair;		/* number of its pair */
	__be64 t1;		/* requester, tc egress, its local clock */
	__be64 t2;		/* reply: responder, XDP, its local clock */
	__be64 t3;		/* reply: responder, just before XDP_TX */
	__be64 about;		/* ESC_PROBE_QUERY: a member's id */
	__be32 about_age_us;	/* in the request: the NIC in question by esc_nic_number(), 0: any;
				   in the reply: time since then; all ones: never */
	__be32 received_age_us; /* since the sender last received from the target on this path; all
				   ones: never */
	struct esc_probe_view view;
	struct esc_probe_anchor anchor;
	__u64 tag;
};
ESC_ASSERT_OFFSET(struct esc_probe, sender, 8);
ESC_ASSERT_OFFSET(struct esc_probe, sequence, 40);
ESC_ASSERT_OFFSET(struct esc_probe, t1, 48);
ESC_ASSERT_OFFSET(struct esc_probe, view, 88);
ESC_ASSERT_OFFSET(struct esc_probe, anchor, 128);
ESC_ASSERT_OFFSET(struct esc_probe, tag, 168);
ESC_ASSERT_SIZE(struct esc_probe, 176);

#define ESC_PROBE_NEVER 0xffffffffu
/* UDP payload: BTH, probe, four zero bytes. */
#define ESC_PROBE_DATAGRAM_BYTES (12 + 176 + 4)

/* Record of XDP to user space, in the ring buffer `probes`. Host byte order. */
enum esc_probe_event_kind {
	ESC_PROBE_EVENT_REPLY = 1,   /* to a request of ours: t1..t4 */
	ESC_PROBE_EVENT_REQUEST = 2, /* of the peer: t1, t2 */
};

struct esc_probe_event {
	__u64 peer;	      /* id */
	__u64 epoch;	      /* the peer's */
	__u64 t1, t2, t3, t4; /* t3, t4: replies only */
	__u32 sequence;
	__u32 pair;
	__u32 about_age_us;
	__u32 received_age_us;
	__u64 about;
	__u8 kind;  /* enum esc_probe_event_kind */
	__u8 flags; /* ESC_PROBE_* of the packet */
	__u8 port;  /* index into `ports` */
	__u8 reserved;
	__u32 nic; /* of the peer: esc_nic_number() of the packet's source */
	/* As in clocksync/line.h, host order; valid with ESC_PROBE_VIEW. */
	__s64 view_ref_local_ns;
	__s64 view_ref_fabric_ns;
	__s64 view_rate_q40;
	__u32 view_ref_fraction;
	__u32 view_bound_ns;
	__u32 view_generation;
	__u16 view_reach;
	__u8 view_state;
	__u8 view_nic_report;
	/* As in clocksync/anchor.h, host order; valid when the sequence is not 0. */
	__s64 anchor_ref_fabric_ns;
	__s64 anchor_ahead_ns;
	__s64 anchor_rate_q40;
	__u32 anchor_sequence;
	__u32 anchor_bound_ns;
	__u32 anchor_id;
	__u8 anchor_hops;
	__u8 anchor_reserved[3];
};
ESC_ASSERT_SIZE(struct esc_probe_event, 160);

#define ESC_PROBES_RING_BYTES (1 << 20)

#endif

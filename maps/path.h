/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The candidate paths to a peer, and the path probes that measure them.
 *
 * A candidate path is one of our UDP source ports from one of our addresses to one of a peer's,
 * in the direction to the peer. The reverse direction is a candidate path of the peer. Each end
 * judges its own paths by the reports of the other: every path probe, request or reply, has a
 * report for each path of its target: when it last received a packet on it. See
 * pacing/pathlive.h.
 *
 * `paths`, an array that the daemon maps: one struct esc_paths per (our address, peer's address)
 * with queue pairs; `path_slots` is its index. Each field has one writer, as stated.
 * `path_received`: when packets were received on the peer's paths. Writer: XDP; the daemon
 * deletes stale entries.
 */
#ifndef ESC_MAPS_PATH_H
#define ESC_MAPS_PATH_H

#include "maps/peer.h"
#include "maps/probe.h"
#include "maps/qp.h"

#define ESC_PROBE_OPCODE_PATH_REQUEST 0xe9
#define ESC_PROBE_OPCODE_PATH_REPLY 0xea

#define ESC_PATHS_MAX 16
#define ESC_PATH_SLOTS_MAX 1024
#define ESC_PATH_RECEIVED_MAX 4096
#define ESC_PATH_SLOT_NONE 0xffffffffu
#define ESC_PATH_RECORDS_RING_BYTES (1 << 20)

/* ---- on the wire ---- */

/*
 * A path probe: a datagram in the format of a probe (BTH, four zero bytes for the ICRC, the same
 * port), with the path's source port. The peer's XDP reflects it in place, ports kept: so a
 * reply takes the path of the ACKs of data with that port. Big-endian, except the tag, which
 * is SipHash-2-4 over the two addresses (source, destination; IPv4 as ::ffff:a.b.c.d) and
 * everything from the BTH to just before it. The daemon fills a request in up to `sport`, without
 * sender and epoch; tc egress writes these, the reports, t1*, ktime_ns and the tag; XDP fills in
 * the same and t2*, t3* in a reply. Timestamps are last, so that little is hashed after them.
 */
struct esc_path_probe {
	__be32 magic;	  /* ESC_PROBE_MAGIC */
	__u8 min_version; /* of the format, as in struct esc_probe */
	__u8 flags;	  /* ESC_PROBE_KEY, ESC_PROBE_PLANE, ESC_PATH_* */
	__u8 path;	  /* the requester's index, < ESC_PATHS_MAX; ESC_PATH_NONE: path search */
	__u8 version;	  /* the newest that the sender reads; not in a reply of version 2 */
	__be64 sender;	  /* graph_member_id() of this packet's sender */
	__be64 target;
	__be64 epoch;	   /* of the sender's daemon */
	__be64 echo_epoch; /* reply: the request's */
	__be32 sequence;   /* of the requester, incremented per request of its daemon */
	__be16 sport;	   /* of the request, identifies the path */
	__be16 reserved2;
	/*
	 * Reports on the target's paths: how long before ktime_ns the sender last received a packet
	 * on the path, and its source port. Port 0: with ESC_PROBE_NEVER nothing was received on
	 * that index since the sender knows the target, with any other age there is no report.
	 */
	__be32 age_us[ESC_PATHS_MAX];
	__be16 report_sport[ESC_PATHS_MAX];
	__be64 t2_fabric_ns; /* ESC_PATH_REPLY_TIMED: arrival at the responder's XDP */
	__be64 t1_fabric_ns; /* ESC_PATH_TIMED: departure of the request, requester's fabric time */
	__be64 t1_ktime_ns;  /* requester's CLOCK_MONOTONIC with t1; echoed */
	__be64 ktime_ns; /* sender's CLOCK_MONOTONIC: the ages in the reports are relative to it */
	__be32 t1_bound_ns;
	__be32 t2_bound_ns;  /* of t2 and t3 */
	__be64 t3_fabric_ns; /* and departure of the reply */
	__u64 tag;
};
ESC_ASSERT_OFFSET(struct esc_path_probe, sequence, 40);
ESC_ASSERT_OFFSET(struct esc_path_probe, age_us, 48);
ESC_ASSERT_OFFSET(struct esc_path_probe, t2_fabric_ns, 144);
ESC_ASSERT_OFFSET(struct esc_path_probe, t3_fabric_ns, 184);
ESC_ASSERT_OFFSET(struct esc_path_probe, tag, 192);
ESC_ASSERT_SIZE(struct esc_path_probe, 200);

#define ESC_PATH_TIMED 0x20
#define ESC_PATH_REPLY_TIMED 0x40
#define ESC_PATH_NONE 0xff
#define ESC_PATH_DATAGRAM_BYTES (12 + 200 + 4)

/* ---- maps ---- */

/* Key of `path_slots` (src is ours) and of `path_received` (src is the peer's). */
struct esc_path_key {
	struct esc_address src;
	struct esc_address dst;
};
ESC_ASSERT_SIZE(struct esc_path_key, 32);

/*
 * State of a path in the kernel. Times with _peer_ are of the peer's clock and compared only
 * with each other (clocks need not agree); the others are our CLOCK_MONOTONIC.
 * Initially all zero, and again when the peer's boot epoch changes.
 */
struct pathlive_path {
	__u64 report_peer_ns;	/* writer: XDP; when the newest report was sent */
	__u64 received_peer_ns; /* writer: XDP; when the peer last received a packet on the path */
	__u64 report_ns;	/* writer: XDP; when the newest report was received */
	__u64 since_ns;		/* writer: tc egress; departure of the first unconfirmed packet */
	__u32 unconfirmed;	/* packets sent since; tc egress increments, XDP sets to 0 */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct pathlive_path, 40);

struct esc_path {
	struct pathlive_path live; /* writers: see above */
	/* Writer: the daemon. */
	__u64 deadline_ns; /* pathlive_deadline(); 0: not evaluated, the path counts as up */
	__u16 sport;	   /* host order; 0: no path */
	__u8 backup;	   /* index of the backup path; ESC_PATH_NONE: none */
	__u8 state;	   /* enum pathlive_state, by the daemon */
	__u32 floor_ns;	   /* one-way delay without a queue + 1, as in pause_flow; 0: not known */
	/* Writer: tc egress, when the path is dead; the daemon resets it to 0 when the path is
	 * usable again. */
	__u64 diverted_ns; /* CLOCK_MONOTONIC of the first packet diverted to the backup; 0: none.
			    * Without a live backup it remains 0 */
	/* Writer: tc egress. */
	__u64 diverted; /* packets diverted to the backup */
	__u64 probes;	/* requests sent */
	/* Writer: XDP. */
	__u64 replies;
};
ESC_ASSERT_OFFSET(struct esc_path, deadline_ns, 40);
ESC_ASSERT_OFFSET(struct esc_path, diverted_ns, 56);
ESC_ASSERT_SIZE(struct esc_path, 88);

/* Value of `paths`. */
struct esc_paths {
	/* Writer: the daemon. */
	__u64 peer; /* ID; 0: the slot is free */
	struct esc_path_key key;
	__u8 port; /* index into `ports` of the interface to the peer */
	__u8 reserved[7];
	/* Writer: XDP. */
	__u64 peer_epoch; /* of its daemon; a new one resets `live` of all paths */
	struct esc_path paths[ESC_PATHS_MAX];
};
ESC_ASSERT_OFFSET(struct esc_paths, paths, 56);
ESC_ASSERT_SIZE(struct esc_paths, 56 + 16 * 88);

#define ESC_PATH_WINDOWS 8

/*
 * Replay protection. Packets on one path arrive in order: one that is not newer than the
 * newest is a replay. Packets of the path search use any path: a window of 512, split into eight
 * of 64 by the sequence's lowest bits, each with the remaining bits.
 */
struct esc_path_window {
	__u32 newest[ESC_PATHS_MAX];
	__u32 valid; /* bitmap of paths */
	__u32 reserved;
	struct esc_replay_window search[ESC_PATH_WINDOWS];
};
ESC_ASSERT_SIZE(struct esc_path_window, 200);

/*
 * Value of `path_cpu`, a per-CPU array of one, scratch space of the programs: a path probe being
 * processed, too large for their stack.
 */
struct esc_path_cpu {
	struct esc_path_key key; /* addresses of the packet */
	struct esc_path_key reverse;
	__u64 message[28]; /* a request, from four bytes before the UDP header to the tag; or
			      reports */
};
ESC_ASSERT_SIZE(struct esc_path_cpu, 288);

/*
 * Value of `path_received`, by (peer's address, ours). Reset with another peer or another
 * epoch of it; `replies` with another epoch of ours.
 */
struct esc_path_received {
	__u64 peer;
	__u64 peer_epoch;
	__u64 own_epoch;    /* that `replies` are of */
	__u64 cap_ktime_ns; /* as in struct esc_peer: replies sent in that second */
	__u32 cap_count;
	__u32 reserved;
	__u64 ktime_ns;				/* CLOCK_MONOTONIC of the newest packet */
	__u64 received_ktime_ns[ESC_PATHS_MAX]; /* CLOCK_MONOTONIC */
	__u16 sport[ESC_PATHS_MAX];		/* host order; 0: nothing received */
	struct esc_path_window requests;
	struct esc_path_window replies;
};
ESC_ASSERT_OFFSET(struct esc_path_received, received_ktime_ns, 48);
ESC_ASSERT_SIZE(struct esc_path_received, 608);

/* Record of XDP to the daemon for each reply, in the ring `path_records`; without a wakeup, which
 * a dead path alone causes. */
struct esc_path_record {
	__u32 slot; /* of `paths`; ESC_PATH_SLOT_NONE: none for the two addresses */
	__u32 sequence;
	__u64 ktime_ns; /* CLOCK_MONOTONIC of the reply's arrival */
	__u64 rtt_ns;	/* without the time in the responder, if both timestamps are present */
	__s64 out_ns;	/* one-way delay to the peer; with ESC_PATH_TIMED: both ends had fabric time
			 */
	__s64 in_ns;	/* and from the peer; with ESC_PATH_REPLY_TIMED: the same */
	__u32 out_bound_ns;
	__u32 in_bound_ns;
	__u16 sport;
	__u8 path;
	__u8 flags;	/* ESC_PATH_TIMED, ESC_PATH_REPLY_TIMED */
	__u8 hop_limit; /* of the reply */
	__u8 port;	/* index into `ports` of its ingress interface */
	__u8 reserved[2];
};
ESC_ASSERT_SIZE(struct esc_path_record, 56);

#endif

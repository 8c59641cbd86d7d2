/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lanes: the candidate paths to a peer, and the probes that walk them.
 *
 * A lane is one of our UDP source ports from one of our addresses to one of a peer's: the way
 * there. The way back is a lane of the peer's. Each end judges its own lanes by what the other
 * says of them: every path probe, request or reply, bears a word for each lane of
 * the one whom it goes to: when the filler last heard it. See pacing/pathlive.h.
 *
 * `paths`, an array, mapped by the daemon: one struct esc_paths for each (our address, peer's address) that
 * has queue pairs; `path_slots` finds it. Fields have one writer each, as told.
 * `path_received`: when we heard the peer's lanes. Writer: XDP; a daemon deletes what is old.
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
 * A path probe: a datagram as any probe is (BTH, four zero bytes for the ICRC, to the same port), with
 * the lane's source port. The peer's XDP turns it round in place, ports kept: so a
 * reply goes where the ACKs of data with that port go. All big-endian but the tag, which
 * is SipHash-2-4 over the two addresses (source, destination; IPv4 as ::ffff:a.b.c.d) and
 * everything from the BTH to just before it. The daemon fills a request in to `sport`, but for
 * sender and epoch; tc egress writes these, the words, t1*, ktime_ns and the tag; XDP fills in
 * the same and t2*, t3* in a reply. Stamps come last, so that little is hashed behind them.
 */
struct esc_path_probe {
	__be32 magic;	/* ESC_PROBE_MAGIC */
	__u8 version;	/* ESC_PROBE_VERSION */
	__u8 flags;	/* ESC_PROBE_KEY, ESC_PROBE_PLANE, ESC_PATH_* */
	__u8 path;	/* the requester's number of it, < ESC_PATHS_MAX; _NONE: a port that is tried */
	__u8 reserved;
	__be64 sender;	/* graph_member_id() of the filler */
	__be64 target;
	__be64 epoch;	   /* of the filler's daemon */
	__be64 echo_epoch; /* reply: the request's */
	__be32 sequence;   /* of the requester, one more for each request of its daemon */
	__be16 sport;	   /* that the request leaves with, and the lane is known by */
	__be16 reserved2;
	/*
	 * Words about the target's lanes: how long before ktime_ns the filler heard the lane, and
	 * the port that it heard it with. Port 0: with ESC_PROBE_NEVER that number was not heard
	 * since the filler began to listen to the target, with any other age there is no word.
	 */
	__be32 age_us[ESC_PATHS_MAX];
	__be16 report_sport[ESC_PATHS_MAX];
	__be64 t2_fabric_ns; /* ESC_PATH_REPLY_TIMED: arrival at the responder's XDP */
	__be64 t1_fabric_ns; /* ESC_PATH_TIMED: request's leaving, requester's fabric time */
	__be64 t1_ktime_ns;  /* requester's CLOCK_MONOTONIC with t1; echoed */
	__be64 ktime_ns;     /* filler's CLOCK_MONOTONIC: the ages in the words count from here back */
	__be32 t1_bound_ns;
	__be32 t2_bound_ns; /* of t2 and t3 */
	__be64 t3_fabric_ns; /* and the reply's leaving */
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
 * A lane as the kernel keeps it. Times with _peer_ are the peer's clock and compared only
 * with each other (no agreement of clocks is needed); the others are our CLOCK_MONOTONIC.
 * All zero at birth, and again when the peer's boot epoch changes.
 */
struct pathlive_path {
	__u64 report_peer_ns;  /* writer: XDP; when the newest word was sent */
	__u64 received_peer_ns; /* writer: XDP; when the peer last heard the lane */
	__u64 report_ns;	  /* writer: XDP; when the newest word came */
	__u64 since_ns;	  /* writer: tc egress; first sent of the unconfirmed */
	__u32 unconfirmed;		  /* tc egress adds, XDP sets to 0 */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct pathlive_path, 40);

struct esc_path {
	struct pathlive_path live; /* writers: there */
	/* Writer: the daemon. */
	__u64 deadline_ns; /* pathlive_deadline(); 0: nothing is judged, the lane is taken to be alive */
	__u16 sport;	   /* host order; 0: no lane */
	__u8 backup;	   /* lane that takes over; ESC_PATH_NONE: there is none */
	__u8 state;	   /* enum pathlive_state, as the daemon sees it */
	__u32 floor_ns;	   /* delay there when nothing waits, and 1, as pause_flow has it; 0: not known */
	/* Writer: tc egress, which sets it at a death; the daemon sets it to 0 when the lane is to be used again. */
	__u64 diverted_ns; /* CLOCK_MONOTONIC of the first packet that took the standby; 0: none does.
			    * Where there is no standby that lives it stays 0 */
	/* Writer: tc egress. */
	__u64 diverted; /* packets that took the standby */
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
	__u64 peer; /* id; 0: the slot is free */
	struct esc_path_key key;
	__u8 port;  /* index into `ports` of the interface that leads there */
	__u8 reserved[7];
	/* Writer: XDP. */
	__u64 peer_epoch; /* of its daemon; a new one begins all lanes' `live` anew */
	struct esc_path paths[ESC_PATHS_MAX];
};
ESC_ASSERT_OFFSET(struct esc_paths, paths, 56);
ESC_ASSERT_SIZE(struct esc_paths, 56 + 16 * 88);

#define ESC_PATH_WINDOWS 8

/*
 * Sequences that came already. A lane's packets come in order: one that is not newer than the
 * newest is a replay. Ports that are tried take any way: a window of 512, in eight of
 * 64 by the sequence's lowest bits, each with the rest of it.
 */
struct esc_path_window {
	__u32 newest[ESC_PATHS_MAX];
	__u32 valid; /* by lane, a bit each */
	__u32 reserved;
	struct esc_replay_window search[ESC_PATH_WINDOWS];
};
ESC_ASSERT_SIZE(struct esc_path_window, 200);

/*
 * Value of `path_cpu`, a per-CPU array of one, the programs' own: what of a path probe they have
 * in hand, for which their stack has no room.
 */
struct esc_path_cpu {
	struct esc_path_key key; /* addresses of the packet */
	struct esc_path_key reverse;
	__u64 message[28]; /* a request, from four bytes before the UDP header to the tag; or words */
};
ESC_ASSERT_SIZE(struct esc_path_cpu, 288);

/*
 * Value of `path_received`, by (peer's address, ours). It begins anew with another peer or another
 * epoch of it; `replies` with another epoch of ours.
 */
struct esc_path_received {
	__u64 peer;
	__u64 peer_epoch;
	__u64 own_epoch;    /* `replies` are of */
	__u64 cap_ktime_ns; /* as in struct esc_peer: requests answered in that second */
	__u32 cap_count;
	__u32 reserved;
	__u64 ktime_ns; /* CLOCK_MONOTONIC of the newest packet */
	__u64 received_ktime_ns[ESC_PATHS_MAX]; /* CLOCK_MONOTONIC */
	__u16 sport[ESC_PATHS_MAX];	  /* host order; 0: not heard */
	struct esc_path_window requests;
	struct esc_path_window replies;
};
ESC_ASSERT_OFFSET(struct esc_path_received, received_ktime_ns, 48);
ESC_ASSERT_SIZE(struct esc_path_received, 608);

/* What XDP hands to the daemon for each reply, through the ring `path_records`; nobody is woken. */
struct esc_path_record {
	__u32 slot; /* of `paths`; ESC_PATH_SLOT_NONE: there is none for the two addresses */
	__u32 sequence;
	__u64 ktime_ns; /* CLOCK_MONOTONIC of the reply's arrival */
	__u64 rtt_ns;	/* less the time within the responder where both stamps are there */
	__s64 out_ns;	/* one way there; with ESC_PATH_TIMED: both ends had fabric time */
	__s64 in_ns;	/* and back; with ESC_PATH_REPLY_TIMED: the same */
	__u32 out_bound_ns;
	__u32 in_bound_ns;
	__u16 sport;
	__u8 path;
	__u8 flags;	/* ESC_PATH_TIMED, ESC_PATH_REPLY_TIMED */
	__u8 hop_limit; /* that the reply came with */
	__u8 port; /* index into `ports` that it came in by */
	__u8 reserved[2];
};
ESC_ASSERT_SIZE(struct esc_path_record, 56);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `peers`: the members that may probe us, by id; `fleet`: keys, our own id, the view and the anchor we send. */
#ifndef ESC_MAPS_PEER_H
#define ESC_MAPS_PEER_H

#include "maps/probe.h"
#include "maps/qp.h"

#define ESC_PEERS_MAX_DEFAULT 16384

/* Key of `peers`, a hash. */
struct esc_peer_key {
	__u64 id;	/* graph_member_id() */
	__u8 plane;	/* 0 backend, 1 frontend */
	__u8 reserved[7];
};
ESC_ASSERT_SIZE(struct esc_peer_key, 16);

/*
 * A window of sequence numbers already seen: bit n of `seen` stands for
 * `newest` - n. What is older than the window is a replay.
 */
struct esc_replay_window {
	__u64 seen;
	__u32 newest;
	__u32 valid;
};

struct esc_peer {
	/* Writer: the daemon, once. */
	char name[24];		/* host, NUL-padded; cut */
	struct esc_address address; /* its probes must come from here; all zero: from anywhere */
	/* Writer: XDP. */
	__u64 epoch;		/* newest of the peer's; older ones are stale */
	__u64 received_local_ns;	/* newest packet of the peer with a good tag, ktime */
	__u64 replied_local_ns;	/* newest reply of the peer, ktime */
	struct esc_replay_window requests; /* of the peer */
	struct esc_replay_window replies;  /* to our requests of `replies_epoch` */
	__u64 replies_epoch;	/* ours: a new run of the daemon counts its requests anew */
	__u64 requests_received;
	__u64 replies_received;
	/* Rate cap: requests answered in the second that began at cap_local_ns. */
	__u64 cap_local_ns;
	__u32 cap_count;
	__u32 reserved;
	/* Writer: tc egress. */
	__u64 requests_sent;
};
ESC_ASSERT_OFFSET(struct esc_peer, epoch, 40);
ESC_ASSERT_SIZE(struct esc_peer, 144);

/*
 * Value of `peer_addresses`, a hash by struct esc_address: whose address it is. Queue pairs
 * name addresses only. A host may have several; those in its label `addresses` count too.
 * Writer: the daemon.
 */
struct esc_peer_address {
	__u64 id;
	__u8 plane;
	__u8 flags; /* ESC_PEER_NEIGHBOUR() */
	__u8 reserved[6];
};
ESC_ASSERT_SIZE(struct esc_peer_address, 16);
/*
 * It and this host probe each other on the mesh of that number: it is there only while it is
 * heard. Of others the list's word is all there is.
 */
#define ESC_PEER_NEIGHBOUR(plane) (0x1u << (plane))
#define ESC_PEER_ADDRESSES_MAX 65536

#define ESC_FLEET_HAS_KEY0 0x1u
#define ESC_FLEET_HAS_KEY1 0x2u
#define ESC_FLEET_USE_KEY1 0x4u /* tag with key 1; both are taken */
#define ESC_FLEET_REPLY 0x8u   /* probing is on: requests are answered */

/*
 * Value of `fleet`, an array of one, mapped by its writer, the daemon. Two
 * views as in struct esc_clock: it fills the one that is not in use and then
 * raises view_generation, whose lowest bit names the view in use; so for the
 * two anchors and anchor_generation.
 * A key's slot is the lowest bit of its first byte, the same on every host.
 */
struct esc_fleet {
	__u64 self;	/* our id */
	__u64 epoch;	/* of this run of the daemon */
	__u64 key[2][2]; /* SipHash keys k0, k1; all zero without authority (ESC_FLEET_HAS_KEY*) */
	__u32 flags;
	__u32 reply_max_pps; /* requests answered a second, of one peer */
	__u64 view_generation;
	struct esc_probe_view view[2]; /* wire order: what our probes and replies say; state 0: nothing */
	__u64 anchor_generation;
	struct esc_probe_anchor anchor[2]; /* wire order: TAI as we know it; sequence 0: not at all */
	__u32 path_max_pps; /* path requests answered a second, for each pair of addresses */
	__u32 reserved;
};
ESC_ASSERT_OFFSET(struct esc_fleet, view_generation, 56);
ESC_ASSERT_OFFSET(struct esc_fleet, anchor, 152);
ESC_ASSERT_SIZE(struct esc_fleet, 240);

#endif

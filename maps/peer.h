/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `peers`: the members that may probe us, by ID; `fleet`: keys, our own ID, the view and the anchor
 * that we send. */
#ifndef ESC_MAPS_PEER_H
#define ESC_MAPS_PEER_H

#include "maps/probe.h"
#include "maps/qp.h"

#define ESC_PEERS_MAX_DEFAULT 16384

/*
 * Key of `peers`, a hash. A member has an entry for each plane, with port and nic 0; an edge of the
 * mesh, from a port of ours to a NIC of the member, has one of its own.
 */
struct esc_peer_key {
	__u64 id;   /* graph_member_id() */
	__u8 plane; /* 0 backend, 1 frontend */
	__u8 port;  /* index into `ports`, plus 1 */
	__u8 reserved[2];
	__u32 nic; /* esc_nic_number() of the member's address */
};
ESC_ASSERT_SIZE(struct esc_peer_key, 16);
ESC_ASSERT_OFFSET(struct esc_peer_key, nic, 12);

/*
 * A number for a NIC of a member, never 0, from the words of its address as in struct esc_address:
 * no two IPv4 addresses have the same one.
 */
static __inline __attribute__((always_inline)) __u32 esc_nic_number(__u32 a, __u32 b, __u32 c,
								    __u32 d)
{
	__u32 number = (((a * 0x9e3779b1u + b) * 0x85ebca77u + c) * 0xc2b2ae3du) ^ d;

	return number ? number : 1;
}

/*
 * Replay window (as in RFC 4303): bit n of `seen` stands for the sequence number
 * `newest` - n. A number older than the window counts as a replay.
 */
struct esc_replay_window {
	__u64 seen;
	__u32 newest;
	__u32 valid;
};

struct esc_peer {
	/* Writer: the daemon, once. */
	char name[24];		    /* host, NUL-padded; cut */
	struct esc_address address; /* of an edge: required source of its probes; all zero: any */
	/* Writer: XDP. */
	__u64 epoch;		 /* of the peer's run; others up to epoch_max are stale */
	__u64 received_local_ns; /* CLOCK_MONOTONIC of the newest packet of the peer with a valid
				    tag */
	__u64 replied_local_ns;	 /* CLOCK_MONOTONIC of the newest reply of the peer */
	struct esc_replay_window requests; /* of the peer */
	struct esc_replay_window replies;  /* to our requests of `replies_epoch` */
	__u64 replies_epoch; /* our epoch that `replies` is of: a restarted daemon restarts its
				sequence */
	__u64 requests_received;
	__u64 replies_received;
	/* Rate limit: requests replied to in the second that began at cap_local_ns. */
	__u64 cap_local_ns;
	__u32 cap_count;
	__u32 reserved;
	/* Writer: tc egress. */
	__u64 requests_sent;
	/* Writer: XDP. */
	__u64 epoch_max;	/* highest ever received */
	__u64 epoch_ktime_ns;	/* CLOCK_MONOTONIC of the first packet of `epoch` */
	__u64 version_ktime_ns; /* CLOCK_MONOTONIC of the packet that `version` is from */
	/* Writer: the daemon. */
	__u64 key[2][2]; /* of the pair of this host and the peer, by slot */
	__u32 key_flags; /* ESC_FLEET_HAS_KEY*: those that are there */
	/* Writer: XDP. */
	__u8 version; /* the newest of the formats that the peer reads */
	__u8 reserved2[3];
};
ESC_ASSERT_OFFSET(struct esc_peer, epoch, 40);
ESC_ASSERT_OFFSET(struct esc_peer, key, 168);
ESC_ASSERT_SIZE(struct esc_peer, 208);
/* Later nothing is assumed of the peer's version: another release may run there. */
#define ESC_PEER_VERSION_NS 3000000000ull

/*
 * Value of `peer_addresses`, a hash by struct esc_address: the member that has the address.
 * Queue pairs are identified by addresses only. A host may have several, also by its label
 * `addresses`. Writer: the daemon.
 */
struct esc_peer_address {
	__u64 id;
	__u8 plane;
	__u8 flags; /* ESC_PEER_NEIGHBOUR() */
	__u8 reserved[6];
};
ESC_ASSERT_SIZE(struct esc_peer_address, 16);
/*
 * The member and this host probe each other on the mesh of that number: it counts as present
 * only while its probes are received. Other members are known from the member list alone.
 */
#define ESC_PEER_NEIGHBOUR(plane) (0x1u << (plane))
#define ESC_PEER_ADDRESSES_MAX 65536

#define ESC_FLEET_HAS_KEY0 0x1u
#define ESC_FLEET_HAS_KEY1 0x2u
#define ESC_FLEET_USE_KEY1 0x4u /* tag with key 1; both are accepted */
#define ESC_FLEET_REPLY 0x8u	/* probing is on: reply to requests */
#define ESC_FLEET_SHARED0 0x10u /* key 0 is the fleet's own, from which those of pairs are made */
#define ESC_FLEET_SHARED1 0x20u

/*
 * Value of `fleet`, an array of one, mapped by its writer, the daemon. Two
 * views as in struct esc_clock: the daemon fills the one that is not in use and then
 * increments view_generation, whose lowest bit selects the view in use; the same with the
 * two anchors and anchor_generation.
 * A key's slot is the lowest bit of its first byte, the same on every host.
 */
struct esc_fleet {
	__u64 self;	 /* our id */
	__u64 epoch;	 /* of this run of the daemon */
	__u64 key[2][2]; /* SipHash keys k0, k1, for tags of version 2; zero without
			    ESC_FLEET_SHARED* */
	__u32 flags;
	__u32 reply_max_pps; /* rate limit of replies, per peer */
	__u64 view_generation;
	struct esc_probe_view
		view[2]; /* wire order: sent in our probes and replies; state 0: none */
	__u64 anchor_generation;
	struct esc_probe_anchor anchor[2]; /* wire order: our estimate of TAI; sequence 0: none */
	__u32 path_max_pps; /* rate limit of replies to path requests, per pair of addresses */
	__u32 reserved;
};
ESC_ASSERT_OFFSET(struct esc_fleet, view_generation, 56);
ESC_ASSERT_OFFSET(struct esc_fleet, anchor, 152);
ESC_ASSERT_SIZE(struct esc_fleet, 240);

#endif

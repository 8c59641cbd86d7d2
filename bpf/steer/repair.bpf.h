/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Repair after a path switch (lib/ring.bpf.h). A queue pair whose rule has a ring leaves a copy of
 * each packet in it. When its path has died and its packets take the backup, what was sent on that
 * path since the last packet that the peer is known to have received on it, and some earlier
 * packets, are sent once more. What left by another path is not, however often the rule is
 * published while the path is dead; nor is a copy, unless the path that it took dies too. The first
 * packet that takes the backup does it, or esc_repair, which the daemon runs when the queue pair
 * has nothing to send, or had left the path before it was known to be dead.
 */
#ifndef ESC_BPF_STEER_REPAIR_H
#define ESC_BPF_STEER_REPAIR_H

#include "lib/ring.bpf.h"
#include "steer/failover.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ESC_REPAIR_RINGS);
	__type(key, __u32);
	__array(values, struct repair_ring_map);
} repair_rings SEC(".maps");

static __always_inline struct esc_repair_ring *repair_ring(__u32 ring)
{
	__u32 index = ring - 1, zero = 0;
	void *map = bpf_map_lookup_elem(&repair_rings, &index);

	return map ? bpf_map_lookup_elem(map, &zero) : NULL;
}

/* The entry of `qps` that the peer's responses to the rule's packets have. */
static __always_inline void repair_find_back(struct repair_context *c, const struct esc_qp_key *key)
{
	const struct esc_steer *rule = bpf_map_lookup_elem(&steers, key);
	struct esc_qp_key back = {.src = key->dst, .dst = key->src};

	if (!rule || !(rule->flags & ESC_STEER_REVERSE))
		return;
	back.dest_qpn = rule->reverse_qpn;
	back.direction = ESC_DIRECTION_RX;
	back.port = key->port;
	repair_find_acked(c, &back);
}

/*
 * By the peer's newest report. Not by the first unconfirmed packet (since_ns): a report that comes
 * late confirms a packet of before the failure, and what was sent since then counts as lost only
 * from the next probe on.
 */
static __always_inline __u64 repair_since(__u32 number, __u32 id)
{
	const struct esc_paths *slot = bpf_map_lookup_elem(&paths, &number);
	const volatile struct pathlive_path *live;
	const struct esc_path *path;
	__u64 since_ns, age_ns, margin_ns;

	if (!slot)
		return ~0ull;
	path = &slot->paths[id % ESC_PATHS_MAX];
	live = &path->live;
	margin_ns = path->deadline_ns / 2; /* the report's trip and the packet's */
	since_ns = live->report_ns;
	smp_rmb();
	age_ns = live->report_peer_ns - live->received_peer_ns;
	return since_ns > age_ns + margin_ns ? since_ns - age_ns - margin_ns : 0;
}

/* Beside those of lib/ring.bpf.h: packets that did not take the dead path as well. */
#define REPAIR_ANY_PATH 0x80

/*
 * What a path of @slot may have lost, from @number's ring: @ids, its id, and << 8 that of the
 * one that copies take. @skb: any packet on the interface. How many were sent. Global: verified
 * once, and not for each state of its callers.
 */
int repair_run(struct __sk_buff *skb, __u32 number, __u32 slot, __u32 ids, __u32 only);
__noinline int repair_run(struct __sk_buff *skb, __u32 number, __u32 slot, __u32 ids, __u32 only)
{
	__u8 lost = ids;
	struct repair_context c = {
		.skb = skb,
		.ring = repair_ring(number),
		.cpu = repair_this_cpu(),
		.only = only,
		.lost = only & REPAIR_ANY_PATH ? ~0u : 1u << (lost & 31),
		.to = ids >> 8,
	};

	if (!c.ring || !c.cpu || c.cpu->stage != REPAIR_STAGE_NONE)
		return 0;
	c.since_ns = repair_since(slot, lost);
	repair_find_back(&c, &c.ring->key);
	return repair_walk(&c, number);
}

/* What the path @lost may have lost, by the path that packets take now; how many were sent. */
static __always_inline int repair_send_lost(struct __sk_buff *skb, const struct esc_qp_steer *steer,
					    struct esc_repair_ring *ring, __u8 lost, __u32 only)
{
	__u8 to = failover_path(steer);

	return to == lost ? 0 : repair_run(skb, steer->ring, steer->slot, lost | to << 8, only);
}

static __always_inline bool repair_is_dead(const struct esc_qp_steer *steer)
{
	__u32 number = steer->slot;
	const struct esc_paths *slot = bpf_map_lookup_elem(&paths, &number);

	return slot && failover_is_dead(&slot->paths[steer->lost % ESC_PATHS_MAX]);
}

/*
 * Behind failover_check(). Once for each change of the path: a switch to a backup, whose path may
 * have lost its carrier alone, or any other while the path before is dead.
 */
static __always_inline void repair_check(struct __sk_buff *skb, const struct esc_qp_steer *steer,
					 struct esc_repair_ring *ring)
{
	if (likely(ring->repaired_ns == steer->applied_local_ns && !ring->busy))
		return;
	if (!repair_claim(ring)) {
		repair_wait(ring);
		return;
	}
	if (ring->repaired_ns != steer->applied_local_ns) {
		ring->repaired_ns = steer->applied_local_ns;
		if (steer->flags & ESC_QP_STEER_DIVERTED || repair_is_dead(steer))
			repair_send_lost(skb, steer, ring, steer->lost,
					 ring->last_only ? REPAIR_LAST : 0);
	}
	repair_release(ring);
}

/* The same for the path @lost, whichever the queue pair takes; @again: the last packets alone. */
static __always_inline int repair_order(struct __sk_buff *skb, const struct esc_qp_steer *steer,
					struct esc_repair_ring *ring, __u8 lost, bool again)
{
	__u32 only = again ? REPAIR_LAST | REPAIR_ANY_PATH : ring->last_only ? REPAIR_LAST : 0;
	int sent;

	if (!repair_claim(ring))
		return 0;
	ring->repaired_ns = steer->applied_local_ns;
	sent = repair_send_lost(skb, steer, ring, lost, only);
	repair_release(ring);
	return sent;
}

#endif

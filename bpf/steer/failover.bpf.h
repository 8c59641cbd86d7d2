/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which lane a packet takes when its order names one: the order's, or the standby that takes over
 * when that is dead (pacing/pathlive.h says when). It happens at once, for the very packet that
 * finds out; the way back waits for a moment, as any order does, because the
 * standby's packets may still be under way.
 */
#ifndef ESC_BPF_STEER_FAILOVER_H
#define ESC_BPF_STEER_FAILOVER_H

#include "lib/packet.bpf.h"
#include "pacing/pathlive.h"
#include "qp/psn.bpf.h"

/* A return waits for a gap of so long, then for a message's start, and no longer than this. */
#define FAILOVER_HOLD_NS 1000000ull
#define FAILOVER_START_NS 500000000ull
#define FAILOVER_FORCE_NS 1000000000ull

/* What of `flags` an order brings along. */
#define FAILOVER_KEPT (ESC_QP_STEER_LABEL | ESC_QP_STEER_LANE)

/* What waits takes effect. */
static __always_inline void failover_take_next(struct esc_qp_steer *steer, __u8 moment, __u64 now)
{
	steer->sport = steer->next_sport;
	steer->home_sport = steer->next_sport;
	steer->flow_label = steer->next_flow_label;
	steer->flags = steer->next_flags;
	steer->slot = steer->next_slot;
	steer->lane = steer->next_lane;
	steer->moment = moment;
	steer->done = steer->order;
	steer->done_local_ns = now;
}

/* Without a deadline nothing is known of it. */
static __always_inline bool failover_is_dead(const struct esc_lane *lane)
{
	__u64 deadline_ns = lane->deadline_ns;

	return deadline_ns && pathlive_is_dead(&lane->live, deadline_ns);
}

static __always_inline bool failover_is_usable(const struct esc_lane *lane)
{
	return lane->sport && !failover_is_dead(lane);
}

/*
 * The lane that stands in for @lane, ESC_PATH_LANE_NONE for none that lives. A queue pair that is
 * on one stays there: a change from one that lives to another could reorder.
 */
static __always_inline __u32 failover_standby(const struct esc_qp_steer *steer,
					      const struct esc_paths *slot,
					      const struct esc_lane *lane)
{
	__u32 standby = steer->standby % ESC_PATH_LANES_MAX;

	if (steer->flags & ESC_QP_STEER_DIVERTED && slot->lanes[standby].sport == steer->sport &&
	    failover_is_usable(&slot->lanes[standby]))
		return standby;
	standby = lane->standby;
	if (standby >= ESC_PATH_LANES_MAX || !failover_is_usable(&slot->lanes[standby]))
		return ESC_PATH_LANE_NONE;
	return standby;
}

/* The lane is to be used again: the order in force waits as if it were new. */
static __always_inline void failover_return(struct esc_qp_steer *steer)
{
	__u64 now = bpf_ktime_get_ns();

	if (steer->flags & ESC_QP_STEER_WAITS)
		return;
	steer->next_sport = steer->home_sport;
	steer->next_flow_label = steer->flow_label;
	steer->next_flags = steer->flags & FAILOVER_KEPT;
	steer->next_slot = steer->slot;
	steer->next_lane = steer->lane;
	if (steer->hold_ns < FAILOVER_HOLD_NS)
		steer->hold_ns = FAILOVER_HOLD_NS;
	steer->start_local_ns = now + FAILOVER_START_NS;
	steer->force_local_ns = now + FAILOVER_FORCE_NS;
	steer->last_local_ns = now;
	steer->flags |= ESC_QP_STEER_WAITS | ESC_QP_STEER_RETURNS;
}

/* The path is dead, and nothing that lives stands in: the order's own port is as good as any. */
static __always_inline void failover_give_up(struct esc_qp_steer *steer)
{
	__u64 now = bpf_ktime_get_ns();

	/* Another order waits for packets that do not arrive. */
	if (steer->flags & ESC_QP_STEER_WAITS) {
		failover_take_next(steer, ESC_STEER_MOMENT_DEAD, now);
		return;
	}
	if (!(steer->flags & ESC_QP_STEER_DIVERTED))
		return;
	steer->sport = steer->home_sport;
	steer->flags &= ~ESC_QP_STEER_DIVERTED;
	steer->moment = ESC_STEER_MOMENT_DEAD;
	steer->done_local_ns = now;
}

static __always_inline void failover_divert(struct esc_qp_steer *steer, struct esc_lane *lane,
					    __u32 standby, __u16 sport)
{
	bool diverted = steer->flags & ESC_QP_STEER_DIVERTED;
	__u64 now;

	count(lane->diverted, 1);
	if (likely(diverted && steer->sport == sport && lane->diverted_ns))
		return;
	now = bpf_ktime_get_ns();
	if (!lane->diverted_ns)
		lane->diverted_ns = now;
	if (diverted && steer->sport == sport)
		return;
	steer->sport = sport;
	steer->standby = standby;
	steer->flags |= ESC_QP_STEER_DIVERTED;
	steer->moment = ESC_STEER_MOMENT_DEAD;
	steer->done_local_ns = now;
}

/* The daemon may have given the slot to another pair of addresses since the order was made. */
static __always_inline bool failover_is_slot_of(const struct esc_paths *slot,
						const struct esc_qp_key *key)
{
	const __u64 *a = (const __u64 *)&slot->key, *b = (const __u64 *)key;

	return slot->peer && !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}
_Static_assert(__builtin_offsetof(struct esc_qp_key, src) == 0 &&
		       __builtin_offsetof(struct esc_qp_key, dst) == 16,
	       "a queue pair's key begins with the way");

static __noinline int failover_decide(struct esc_qp_steer *steer, struct esc_paths *slot,
				      struct esc_lane *lane, const struct esc_qp_key *key)
{
	bool dead = failover_is_dead(lane);
	__u32 standby;

	if (!failover_is_slot_of(slot, key) || (!lane->diverted_ns && !dead)) {
		if (steer->flags & ESC_QP_STEER_DIVERTED)
			failover_return(steer);
		return 0;
	}
	if (steer->flags & ESC_QP_STEER_RETURNS)
		steer->flags &= ~(ESC_QP_STEER_RETURNS | ESC_QP_STEER_WAITS);
	standby = failover_standby(steer, slot, lane);
	if (standby < ESC_PATH_LANES_MAX)
		failover_divert(steer, lane, standby, slot->lanes[standby].sport);
	else if (dead || steer->flags & ESC_QP_STEER_DIVERTED)
		failover_give_up(steer);
	return 0;
}

/* With ESC_QP_STEER_LANE, for each packet. Leaves the port to take in @steer. */
static __always_inline void failover_look(struct esc_qp_steer *steer, const struct esc_qp_key *key)
{
	__u32 number = steer->slot;
	struct esc_paths *slot = bpf_map_lookup_elem(&paths, &number);
	struct esc_lane *lane;

	if (unlikely(!slot))
		return;
	lane = &slot->lanes[steer->lane % ESC_PATH_LANES_MAX];
	if (likely(!lane->diverted_ns && lane->live.unheard < PATHLIVE_UNHEARD &&
		   !(steer->flags & ESC_QP_STEER_DIVERTED)))
		return;
	failover_decide(steer, slot, lane, key);
}

#endif

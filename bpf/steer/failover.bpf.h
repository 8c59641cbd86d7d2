/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The path of a packet whose rule names a candidate path: that path, or the backup that takes
 * over when it is dead (pacing/pathlive.h has the law). The first packet that finds it dead
 * already takes the backup; the return waits for a trigger, as any rule does, because packets
 * may still be in flight on the backup.
 */
#ifndef ESC_BPF_STEER_FAILOVER_H
#define ESC_BPF_STEER_FAILOVER_H

#include "pacing/pathlive.h"
#include "qp/psn.bpf.h"

/* A return waits for a gap of this length, then for the start of a message, then for any packet. */
#define FAILOVER_HOLD_NS 1000000ull
#define FAILOVER_START_NS 500000000ull
#define FAILOVER_FORCE_NS 1000000000ull

/* Bits of `flags` that belong to a rule. */
#define FAILOVER_KEPT (ESC_QP_STEER_LABEL | ESC_QP_STEER_PATH)

/* The path that packets take. */
static __always_inline __u8 failover_path(const struct esc_qp_steer *steer)
{
	return steer->flags & ESC_QP_STEER_DIVERTED ? steer->backup : steer->path;
}

/* The pending rule takes effect. */
static __always_inline void failover_take_next(struct esc_qp_steer *steer, __u8 trigger, __u64 now)
{
	steer->lost = failover_path(steer);
	steer->sport = steer->next_sport;
	steer->rule_sport = steer->next_sport;
	steer->flow_label = steer->next_flow_label;
	steer->flags = steer->next_flags;
	steer->slot = steer->next_slot;
	steer->path = steer->next_path;
	steer->trigger = trigger;
	steer->applied = steer->rule;
	steer->applied_local_ns = now;
}

/* Without a deadline a path is not evaluated. */
static __always_inline bool failover_is_dead(const struct esc_path *path)
{
	__u64 deadline_ns = path->deadline_ns;

	return deadline_ns && pathlive_is_dead(&path->live, deadline_ns);
}

static __always_inline bool failover_is_usable(const struct esc_path *path)
{
	if (!*(const volatile __u16 *)&path->sport)
		return false;
	smp_rmb();
	return !failover_is_dead(path);
}

/*
 * The backup of @path, ESC_PATH_NONE if none is up. A queue pair keeps the backup that it has: a
 * change from one live path to another could reorder.
 */
static __always_inline __u32 failover_backup(const struct esc_qp_steer *steer,
					     const struct esc_paths *slot,
					     const struct esc_path *path)
{
	__u32 backup = steer->backup % ESC_PATHS_MAX;

	if (steer->flags & ESC_QP_STEER_DIVERTED && slot->paths[backup].sport == steer->sport &&
	    failover_is_usable(&slot->paths[backup]))
		return backup;
	backup = path->backup;
	if (backup >= ESC_PATHS_MAX || !failover_is_usable(&slot->paths[backup]))
		return ESC_PATH_NONE;
	return backup;
}

/* The path is in use again: its rule becomes pending as if it were new. */
static __always_inline void failover_return(struct esc_qp_steer *steer)
{
	__u64 now = bpf_ktime_get_ns();

	if (steer->flags & ESC_QP_STEER_PENDING)
		return;
	steer->next_sport = steer->rule_sport;
	steer->next_flow_label = steer->flow_label;
	steer->next_flags = steer->flags & FAILOVER_KEPT;
	steer->next_slot = steer->slot;
	steer->next_path = steer->path;
	if (steer->flowlet_gap_ns < FAILOVER_HOLD_NS)
		steer->flowlet_gap_ns = FAILOVER_HOLD_NS;
	steer->start_local_ns = now + FAILOVER_START_NS;
	steer->force_local_ns = now + FAILOVER_FORCE_NS;
	steer->last_local_ns = now;
	steer->flags |= ESC_QP_STEER_PENDING | ESC_QP_STEER_RETURNS;
}

/*
 * There is no live backup. The path is dead, and the port of the rule is as good as any; or it is
 * up, in hold-down.
 */
static __always_inline void failover_give_up(struct esc_qp_steer *steer)
{
	__u64 now = bpf_ktime_get_ns();

	/* The pending rule waits for packets that do not arrive. */
	if (steer->flags & ESC_QP_STEER_PENDING) {
		failover_take_next(steer, ESC_STEER_TRIGGER_DEAD, now);
		return;
	}
	if (!(steer->flags & ESC_QP_STEER_DIVERTED))
		return;
	steer->lost = failover_path(steer);
	steer->sport = steer->rule_sport;
	steer->flags &= ~ESC_QP_STEER_DIVERTED;
	steer->trigger = ESC_STEER_TRIGGER_DEAD;
	steer->applied_local_ns = now;
}

static __always_inline void failover_divert(struct esc_qp_steer *steer, struct esc_path *path,
					    __u32 backup, __u16 sport)
{
	bool diverted = steer->flags & ESC_QP_STEER_DIVERTED;
	__u64 now;

	count(path->diverted, 1);
	if (likely(diverted && steer->sport == sport && path->diverted_ns))
		return;
	now = bpf_ktime_get_ns();
	if (!path->diverted_ns)
		path->diverted_ns = now;
	if (diverted && steer->sport == sport)
		return;
	steer->lost = failover_path(steer);
	steer->sport = sport;
	steer->backup = backup;
	steer->flags |= ESC_QP_STEER_DIVERTED;
	steer->trigger = ESC_STEER_TRIGGER_DEAD;
	steer->applied_local_ns = now;
}

/* The daemon may have reassigned the slot to another pair of addresses since the rule was set. */
static __always_inline bool failover_is_slot_of(const struct esc_paths *slot,
						const struct esc_qp_key *key)
{
	const __u64 *a = (const __u64 *)&slot->key, *b = (const __u64 *)key;

	if (!*(const volatile __u64 *)&slot->peer)
		return false;
	smp_rmb();
	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}
_Static_assert(__builtin_offsetof(struct esc_qp_key, src) == 0 &&
		       __builtin_offsetof(struct esc_qp_key, dst) == 16,
	       "a queue pair's key begins with that of its paths");

static __noinline int failover_decide(struct esc_qp_steer *steer, struct esc_paths *slot,
				      struct esc_path *path, const struct esc_qp_key *key)
{
	bool dead = failover_is_dead(path);
	__u32 backup;

	if (!failover_is_slot_of(slot, key) || (!path->diverted_ns && !dead)) {
		if (steer->flags & ESC_QP_STEER_DIVERTED)
			failover_return(steer);
		return 0;
	}
	if (steer->flags & ESC_QP_STEER_RETURNS)
		steer->flags &= ~(ESC_QP_STEER_RETURNS | ESC_QP_STEER_PENDING);
	backup = failover_backup(steer, slot, path);
	if (backup < ESC_PATHS_MAX)
		failover_divert(steer, path, backup, slot->paths[backup].sport);
	else if (dead || steer->flags & ESC_QP_STEER_DIVERTED)
		failover_give_up(steer);
	return 0;
}

/* With ESC_QP_STEER_PATH, for each packet. Leaves the port to use in @steer. */
static __always_inline void failover_check(struct esc_qp_steer *steer, const struct esc_qp_key *key)
{
	__u32 number = steer->slot;
	struct esc_paths *slot = bpf_map_lookup_elem(&paths, &number);
	struct esc_path *path;

	if (unlikely(!slot))
		return;
	path = &slot->paths[steer->path % ESC_PATHS_MAX];
	if (likely(!path->diverted_ns && path->live.unconfirmed < PATHLIVE_UNCONFIRMED &&
		   !(steer->flags & ESC_QP_STEER_DIVERTED)))
		return;
	failover_decide(steer, slot, path, key);
}

#endif

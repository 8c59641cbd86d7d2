/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When a queue pair's data may leave: the law (pacing/pause.h) says a time, fq keeps it
 * (skb->tstamp, earliest departure time). Requests with a payload and READ
 * responses are held, nothing else is; but what is behind a held packet of its own
 * sequence does not overtake it, since RC would take that for a loss.
 */
#ifndef ESC_BPF_PACE_DEPARTURE_H
#define ESC_BPF_PACE_DEPARTURE_H

#include "pace/pace.bpf.h"
#include "qp/sample.bpf.h"

static const struct esc_qp_pace pace_empty;

static __always_inline bool pace_port_is_on(const struct esc_control *word)
{
	return word->pace_ports >> (esc_port_index % ESC_PORTS_MAX) & 1;
}

static __always_inline const struct esc_pace *pace_word(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pace, &zero);
}

/* NULL: the table has no room, and the queue pair is not paced. */
static __noinline struct esc_qp_pace *pace_insert(const struct esc_qp_key *key)
{
	bpf_map_update_elem(&qp_pace, key, &pace_empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&qp_pace, key);
}

/*
 * What the probes know of the empty path, and 1; 0: nothing. Of a port that is no lane the
 * longest of all: the flow's own delays lower what is too high, and nothing raises what is too low.
 */
static __noinline __u64 pace_floor(const struct esc_qp_key *key, __u16 sport)
{
	const __u32 *number = bpf_map_lookup_elem(&path_slots, key);
	const struct esc_paths *slot = number ? bpf_map_lookup_elem(&paths, number) : NULL;
	__u32 longest_ns = 0, i;

	if (!slot || !slot->peer)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < ESC_PATH_LANES_MAX; i++) {
		__u32 floor_ns = slot->lanes[i].floor_ns;

		if (!slot->lanes[i].sport || !floor_ns)
			continue;
		if (slot->lanes[i].sport == sport)
			return floor_ns;
		if (floor_ns > longest_ns)
			longest_ns = floor_ns;
	}
	return longest_ns;
}
_Static_assert(__builtin_offsetof(struct esc_qp_key, src) == 0 &&
		       __builtin_offsetof(struct esc_qp_key, dst) == 16 &&
		       sizeof(struct esc_path_key) == 32,
	       "a queue pair's key begins with the way");

/* The floor of the path in use: what was learnt on another says nothing. */
static __always_inline void pace_tell_floor(struct esc_qp_pace *state, const struct esc_packet *p,
					    __u16 sport)
{
	__u64 told_ns = pace_floor(&p->key, sport);

	if ((state->sport && state->sport != sport) ||
	    (told_ns && (!state->flow.floor_ns || told_ns < state->flow.floor_ns)))
		state->flow.floor_ns = told_ns;
	state->sport = sport;
}

/* The class: as ordered, else by DSCP. */
static __noinline int pace_ask(struct esc_qp_pace *state, const struct esc_pace *setup,
			       const struct esc_packet *p, __u16 sport)
{
	const struct esc_pace_order *order = bpf_map_lookup_elem(&pace_orders, &p->key);

	state->generation = setup->generation;
	state->dscp = p->dscp;
	state->class = order ? order->class : setup->dscp_class[p->dscp & 63];
	pace_tell_floor(state, p, sport);
	return 0;
}

/* That the packet before left with: steering comes behind pacing. */
static __always_inline __u16 pace_sport(const struct esc_control *word, const struct esc_qp *qp,
					const struct esc_packet *p)
{
	__u16 steered = word->flags & ESC_CONTROL_STEER ? qp->steer.sport : 0;

	return steered ?: p->sport;
}

/* What is left of the time in which the daemon may be silent; 0: it is gone. */
static __always_inline __u64 pace_alive_until(const struct esc_control *word, __u64 now_ns)
{
	__u64 until_ns = word->heartbeat_local_ns + ESC_HEARTBEAT_DEAD_NS;

	return until_ns > now_ns ? until_ns : 0;
}

/* When the law lets it leave, @now_ns at least. */
static __always_inline __u64 pace_decide(const struct esc_control *word, struct esc_qp_pace *state,
					 const struct esc_packet *p, struct qp_found *found,
					 __u64 now_ns, struct pause_mark *mark)
{
	const struct esc_pace *setup = pace_word();
	const struct pause_rule *rule;
	__u64 until_ns = pace_alive_until(word, now_ns), at_ns;
	__u16 sport = pace_sport(word, found->qp, p);
	bool floored;

	if (!setup || !until_ns)
		return 0;
	if (unlikely(state->generation != setup->generation || state->dscp != p->dscp ||
		     state->sport != sport))
		pace_ask(state, setup, p, sport);
	rule = pace_rule(esc_port_index, state->class);
	if (!rule || unlikely(!rule->threshold_ns))
		return 0;
	pause_repeat(&state->flow, rule, found->what & FOUND_REPEATED, now_ns);
	floored = state->flow.floor_ns;
	at_ns = pause_depart(&state->flow, rule, p->bytes, now_ns, mark);
	/* A long rest makes the law forget it. */
	if (unlikely(floored && !state->flow.floor_ns))
		pace_tell_floor(state, p, sport);
	if (unlikely(at_ns >= now_ns + rule->hold_max_ns))
		state->bounded++;
	if (at_ns > until_ns)
		at_ns = until_ns;
	state->packets++;
	return at_ns;
}

static __always_inline void pace_count(struct esc_qp_pace *state, __u64 wait_ns)
{
	state->held++;
	state->waited_ns += wait_ns;
	if (wait_ns > state->longest_ns)
		state->longest_ns = wait_ns;
}

/* Stamps are of when it leaves: a hold of ours is no delay of the fabric. */
static __always_inline void pace_move_stamps(const struct esc_packet *p, struct qp_found *found,
					     struct pause_mark *mark, __u64 now_ns, __u64 at_ns)
{
	struct esc_qp *qp = found->qp;

	if (!found->now_ns)
		return;
	if ((p->flags & ESC_OP_START) && qp->message_start_psn == p->psn &&
	    qp->message_start_local_ns == found->now_ns)
		qp->message_start_local_ns = at_ns;
	found->now_ns = at_ns;
	mark->ahead_ns = at_ns - now_ns;
}

/* 0: at once, untouched; else when the packet may leave. */
static __noinline __u64 pace_look(const struct esc_control *word, const struct esc_packet *p,
				  struct qp_found *found, struct pause_mark *mark)
{
	bool data = (p->flags & ESC_OP_PAYLOAD) && pace_port_is_on(word) &&
		    !(found->qp->sample_flags & ESC_SAMPLE_BLIND);
	struct esc_qp_pace *state = bpf_map_lookup_elem(&qp_pace, &p->key);
	__u32 stream = p->flags & ESC_OP_REQUEST ? 0 : 1;
	__u64 now_ns, at_ns = 0;

	if (!state) {
		if (!data)
			return 0;
		state = pace_insert(&p->key);
		if (!state)
			return 0;
		found->qp->steer_flags |= ESC_QP_PACED;
	}
	now_ns = bpf_ktime_get_ns();
	if (data)
		at_ns = pace_decide(word, state, p, found, now_ns, mark);
	if (at_ns && (found->what & (FOUND_SAMPLED | FOUND_MESSAGE)))
		found->what |= FOUND_PACED;
	/* Somebody else's departure time is kept, if it is one. */
	if (p->departure_ns > at_ns && p->departure_ns - now_ns < SAMPLE_HOLD_MAX_NS)
		at_ns = p->departure_ns;
	if (at_ns < state->ordered_ns[stream])
		at_ns = state->ordered_ns[stream];
	else
		state->ordered_ns[stream] = at_ns;
	if (at_ns <= now_ns)
		return 0;
	if (data)
		pace_count(state, at_ns - now_ns);
	pace_move_stamps(p, found, mark, now_ns, at_ns);
	return at_ns;
}

/*
 * With ESC_CONTROL_PACE, behind the count. The flag outlasts the ports' bits for a while, so that
 * nothing overtakes what is held when pacing ends. @mark is filled in with FOUND_PACED.
 */
static __always_inline void pace_packet(struct __sk_buff *skb, const struct esc_control *word,
					const struct esc_packet *p, struct qp_found *found,
					struct pause_mark *mark)
{
	__u64 at_ns;

	if (p->flags & ESC_OP_CNP || ESC_TRANSPORT(p->opcode) == ESC_TRANSPORT_UD)
		return;
	if (!(found->qp->steer_flags & ESC_QP_PACED) &&
	    !((p->flags & ESC_OP_PAYLOAD) && pace_port_is_on(word)))
		return;
	at_ns = pace_look(word, p, found, mark);
	if (at_ns)
		skb->tstamp = at_ns;
}

#endif

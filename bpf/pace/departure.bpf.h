/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The pace stage: the law (pacing/pause.h) gives each packet a departure time, which fq keeps
 * (skb->tstamp, earliest departure time). Requests with a payload and READ responses are
 * delayed, nothing else is; but a packet behind a delayed one of its own sequence does not
 * overtake it, since RC would take that for a loss.
 */
#ifndef ESC_BPF_PACE_DEPARTURE_H
#define ESC_BPF_PACE_DEPARTURE_H

#include "lib/tc.bpf.h"
#include "pace/pace.bpf.h"
#include "qp/sample.bpf.h"

static const struct esc_qp_pace pace_empty;

static __always_inline bool pace_port_is_on(const struct esc_control *ctl)
{
	return ctl->pace_ports >> (esc_port_index % ESC_PORTS_MAX) & 1;
}

static __always_inline const struct esc_pace *pace_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pace, &zero);
}

/* NULL: the table is full, and the queue pair is not paced. */
static __noinline struct esc_qp_pace *pace_insert(const struct esc_qp_key *key)
{
	bpf_map_update_elem(&qp_pace, key, &pace_empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&qp_pace, key);
}

/*
 * Delay of the empty path as probed, and 1; 0: not known. Of a port that is no candidate path
 * the longest of all: the flow's own delays lower an estimate that is too high, and nothing
 * raises one that is too low.
 */
static __noinline __u64 pace_floor(const struct esc_qp_key *key, __u16 sport)
{
	const __u32 *number = bpf_map_lookup_elem(&path_slots, key);
	const struct esc_paths *slot = number ? bpf_map_lookup_elem(&paths, number) : NULL;
	__u32 longest_ns = 0, i;

	if (!slot || !slot->peer)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < ESC_PATHS_MAX; i++) {
		__u32 floor_ns = slot->paths[i].floor_ns;

		if (!slot->paths[i].sport || !floor_ns)
			continue;
		if (slot->paths[i].sport == sport)
			return floor_ns;
		if (floor_ns > longest_ns)
			longest_ns = floor_ns;
	}
	return longest_ns;
}
_Static_assert(__builtin_offsetof(struct esc_qp_key, src) == 0 &&
		       __builtin_offsetof(struct esc_qp_key, dst) == 16 &&
		       sizeof(struct esc_path_key) == 32,
	       "a queue pair's key begins with that of its paths");

/* The floor of the path in use: what was learned on another does not apply. */
static __always_inline void pace_update_floor(struct esc_qp_pace *state, const struct pkt_ctx *pkt,
					      __u16 sport)
{
	__u64 probed_ns = pace_floor(&pkt->key, sport);

	if ((state->sport && state->sport != sport) ||
	    (probed_ns && (!state->flow.floor_ns || probed_ns < state->flow.floor_ns)))
		state->flow.floor_ns = probed_ns;
	state->sport = sport;
}

/*
 * The path has changed: what is retransmitted of the packets before was lost on the other path, or
 * overtaken, and shows no congestion of this one.
 */
static __always_inline void pace_note_move(struct esc_qp_pace *state, const struct pkt_ctx *pkt)
{
	bool request = pkt->op_flags & ESC_OP_REQUEST;
	__u32 psn = pkt->psn;

	if (pkt->flags & PKT_DUPLICATE)
		psn = request ? pkt->qp->requests.next : pkt->qp->responses.next;
	state->flow.moved =
		PAUSE_MOVED | (request ? 0 : PAUSE_MOVED_RESPONSES) | (psn & PAUSE_MOVED_PSN);
}

/* Whether a retransmission is a loss by this path. */
static __noinline int pace_is_loss(struct pause_flow *flow, const struct pkt_ctx *pkt)
{
	__u32 stream = pkt->op_flags & ESC_OP_REQUEST ? 0 : PAUSE_MOVED_RESPONSES;
	__u32 behind = (pkt->psn - flow->moved) & PAUSE_MOVED_PSN;

	if ((flow->moved & PAUSE_MOVED_RESPONSES) != stream)
		return pkt->flags & PKT_DUPLICATE;
	if (behind <= PAUSE_MOVED_PSN / 2) {
		/* Long enough: PSNs wrap. */
		if (behind > PAUSE_MOVED_PSN / 4)
			flow->moved = 0;
		return pkt->flags & PKT_DUPLICATE;
	}
	return 0;
}

/* The class: that of the queue pair, else by DSCP. */
static __noinline int pace_classify(struct esc_qp_pace *state, const struct esc_pace *setup,
				    const struct pkt_ctx *pkt, __u16 sport)
{
	const struct esc_pace_assignment *assigned = bpf_map_lookup_elem(&pace_assigned, &pkt->key);

	state->generation = setup->generation;
	state->dscp = pkt->dscp;
	state->class = assigned ? assigned->class : setup->dscp_class[pkt->dscp & 63];
	pace_update_floor(state, pkt, sport);
	return 0;
}

/* The port that the packet leaves with, behind the steer stage. */
static __always_inline __u16 pace_sport(const struct pkt_ctx *pkt)
{
	__u16 steered = pkt->ctl->flags & ESC_CONTROL_STEER ? pkt->qp->steer.sport : 0;

	return steered ?: pkt->sport;
}

/* When departures end without another heartbeat; 0: the daemon is gone. */
static __always_inline __u64 pace_valid_until(const struct esc_control *ctl, __u64 now_ns)
{
	__u64 until_ns = ctl->heartbeat_local_ns + ESC_HEARTBEAT_TIMEOUT_NS;

	return until_ns > now_ns ? until_ns : 0;
}

/* The departure by the law, @now_ns at least; 0: not paced. */
static __always_inline __u64 pace_decide(struct esc_qp_pace *state, struct pkt_ctx *pkt,
					 __u64 now_ns)
{
	__u64 until_ns = pace_valid_until(pkt->ctl, now_ns), at_ns;
	const struct esc_pace *setup = pace_get();
	const struct pause_rule *rule;
	__u16 sport = pace_sport(pkt);
	__u32 repeated;
	bool floored;

	if (!setup || !until_ns)
		return 0;
	if (unlikely(state->generation != setup->generation || state->dscp != pkt->dscp ||
		     state->sport != sport)) {
		if (state->sport && state->sport != sport)
			pace_note_move(state, pkt);
		pace_classify(state, setup, pkt, sport);
	}
	rule = pace_rule(esc_port_index, state->class);
	if (!rule || unlikely(!rule->threshold_ns))
		return 0;
	repeated = pkt->flags & PKT_DUPLICATE;
	if (unlikely(state->flow.moved))
		repeated = pace_is_loss(&state->flow, pkt);
	pause_repeat(&state->flow, rule, repeated, now_ns);
	floored = state->flow.floor_ns;
	at_ns = pause_depart(&state->flow, rule, pkt->bytes, now_ns, pkt->mark);
	/* A long idle time resets it. */
	if (unlikely(floored && !state->flow.floor_ns))
		pace_update_floor(state, pkt, sport);
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

/* Timestamps are of the departure: a delay by pacing is not one of the fabric. */
static __always_inline void pace_move_timestamps(struct pkt_ctx *pkt, __u64 now_ns, __u64 at_ns)
{
	struct esc_qp *qp = pkt->qp;

	if (!pkt->now_ns)
		return;
	if ((pkt->op_flags & ESC_OP_START) && qp->message_start_psn == pkt->psn &&
	    qp->message_start_local_ns == pkt->now_ns)
		qp->message_start_local_ns = at_ns;
	pkt->now_ns = at_ns;
	pkt->mark->ahead_ns = at_ns - now_ns;
}

/* It has a time of another clock, or a departure later than any of ours: that stays. */
static __always_inline bool pace_is_foreign(const struct pkt_ctx *pkt, __u64 now_ns)
{
	return pkt->departure_ns > now_ns && pkt->departure_ns - now_ns >= SAMPLE_DEPARTURE_MAX_NS;
}

/* 0: at once, else CLOCK_MONOTONIC of the departure. */
static __noinline __u64 pace_departure(struct pkt_ctx *pkt)
{
	bool data = (pkt->op_flags & ESC_OP_PAYLOAD) && pace_port_is_on(pkt->ctl) &&
		    !(pkt->qp->sample_flags & ESC_SAMPLE_NO_FEEDBACK);
	struct esc_qp_pace *state = bpf_map_lookup_elem(&qp_pace, &pkt->key);
	__u32 stream = pkt->op_flags & ESC_OP_REQUEST ? 0 : 1;
	__u64 now_ns, at_ns = 0;

	if (!state) {
		if (!data)
			return 0;
		state = pace_insert(&pkt->key);
		if (!state)
			return 0;
		pkt->qp->steer_flags |= ESC_QP_PACED;
	}
	now_ns = bpf_ktime_get_ns();
	if (unlikely(pace_is_foreign(pkt, now_ns)))
		return 0;
	if (data)
		at_ns = pace_decide(state, pkt, now_ns);
	if (at_ns && (pkt->flags & (PKT_SAMPLED | PKT_MESSAGE)))
		pkt->flags |= PKT_PACED;
	/* A later departure of a socket or of another program stays. */
	if (pkt->departure_ns > at_ns)
		at_ns = pkt->departure_ns;
	if (at_ns < state->last_departure_ns[stream])
		at_ns = state->last_departure_ns[stream];
	else
		state->last_departure_ns[stream] = at_ns;
	if (at_ns <= now_ns)
		return 0;
	/* A rule that waits for a gap: it begins when this packet leaves. */
	if (unlikely(pkt->qp->steer.flags & ESC_QP_STEER_PENDING))
		pkt->qp->steer.last_local_ns = at_ns;
	if (data)
		pace_count(state, at_ns - now_ns);
	pace_move_timestamps(pkt, now_ns, at_ns);
	return at_ns;
}

/*
 * Behind the steer stage. The flag is cleared a second after the bits of the ports, so that no
 * packet overtakes a delayed one when pacing ends.
 */
static __always_inline int pace_packet(struct __sk_buff *skb, struct pkt_ctx *pkt)
{
	__u64 at_ns;

	if (likely(!(pkt->ctl->flags & ESC_CONTROL_PACE)) || pkt->op_flags & ESC_OP_CNP ||
	    ESC_TRANSPORT(pkt->opcode) == ESC_TRANSPORT_UD)
		return ESC_REASON_NONE;
	if (!(pkt->qp->steer_flags & ESC_QP_PACED) &&
	    !((pkt->op_flags & ESC_OP_PAYLOAD) && pace_port_is_on(pkt->ctl)))
		return ESC_REASON_NONE;
	at_ns = pace_departure(pkt);
	if (at_ns)
		tc_set_departure(skb, at_ns);
	return ESC_REASON_NONE;
}

#endif

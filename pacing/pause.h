/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Departure time of a flow's packets, computed from the delays of earlier ones. Shared by the
 * kernel programs, user space and the simulator: 64-bit, unsigned, no floats.
 *
 * Pause: while the one-way delay is above the threshold, nothing is sent for the excess, less the
 * pauses that the sample does not reflect yet: those set since the sampled packet was handed
 * over. All senders of a queue that pause for P drain P of it, independent of their number (Liu
 * et al., Breaking the Transience-Equilibrium Nexus, NSDI 2021). A long pause is a series of
 * short ones with a packet between them: a flow without feedback is slow, never stopped.
 *
 * Rate (PAUSE_RATE), for transports without congestion control: RoCE. A pause drains a queue but
 * does not remove its cause. If two sampled packets departed s apart, without pauses, and arrived
 * a apart, a / s is the load of all senders relative to the capacity of the queue, independent of
 * the clocks' offset. All divide their rate by it, so the sum fits in one round; the increment of
 * each decreases with its rate over its weight, so that shares converge to the weights; and a
 * decrease by the delay, which is common to all, balances the increments.
 *
 * Opening: at its start, or when the path is empty, a flow sends some packets at line rate, so
 * that what the buffers would take anyway does not wait until the share is known.
 *
 * A packet's departure is fixed when it is handed to the kernel. So "since" refers to that time,
 * not to the departure: pause_mark.
 */
#ifndef ESC_PACING_PAUSE_H
#define ESC_PACING_PAUSE_H

#include "maps/pace.h"

/* Hides a value from the kernel's verifier, which would follow each possible one; see icrc.h. */
#ifdef __bpf__
#define pause_hide(value) asm volatile("" : "+r"(value))
#else
#define pause_hide(value) ((void)0)
#endif

#define PAUSE_INLINE static inline __attribute__((always_inline))

typedef unsigned long long pause_u64;
typedef long long pause_s64;
typedef unsigned int pause_u32;
typedef int pause_s32;

#define PAUSE_ONE 65536u /* fixed point 1.0 of factors */
#define PAUSE_WEIGHT_ONE 16u
#define PAUSE_GAIN_ONE 256u
#define PAUSE_RATE_MAX_BPS (1ull << 37) /* more than 1 Tbit/s */
/* After this many rounds without a queue the rate may double in one. */
#define PAUSE_CALM 16u
/* Rounds of decreases without effect, after which a flow no longer pauses: others do not react. */
#define PAUSE_PATIENCE 128u
/*
 * Per threshold of time, at line rate, a flow adds 1/12 of its rate, and the delay takes away a
 * third of its ratio to the threshold. The equilibrium of one flow is a quarter of the threshold,
 * of 16 flows the threshold; the excess above counts three times.
 */
#define PAUSE_ADDED 12u
#define PAUSE_LEVEL 3u
/* Minimum bytes in flight to estimate a rate, except at the start; minimum bytes of a round. */
#define PAUSE_FEW_BYTES 3000u
#define PAUSE_ROUND_BYTES 6000u
/*
 * The opening of a flow at its start, or on an empty path: this part of a threshold's time at
 * line rate (32 that start together fill four thresholds). Three packets show the share, so at
 * least these, but not more than the second part.
 */
#define PAUSE_OPEN 16u
#define PAUSE_OPEN_MOST 4u
#define PAUSE_OPEN_PACKETS 3u
/* The window of soft-RoCE at 1,500 bytes: 128 packets. */
#define PAUSE_SERIES_BYTES 192000u
#define PAUSE_GAP_SHIFT 20
#define PAUSE_SECOND_NS 1000000000ull

/*
 * Others do not react: the flow no longer pauses, and reacts to losses only, until the delay
 * falls below the threshold.
 */
PAUSE_INLINE pause_u32 pause_is_ineffective(const struct pause_flow *flow)
{
	return flow->ineffective > PAUSE_PATIENCE;
}

/*
 * The pause for a delay; @last_ns: pauses set or taken since the sample. For callers without a
 * struct pause_flow.
 */
PAUSE_INLINE pause_u64 pause_for(pause_u64 delay_ns, pause_u64 last_ns, pause_u64 threshold_ns,
				 pause_u32 gain)
{
	pause_u64 known_ns = threshold_ns + last_ns;

	if (delay_ns <= known_ns)
		return 0;
	return (delay_ns - known_ns) / PAUSE_GAIN_ONE * gain +
	       (delay_ns - known_ns) % PAUSE_GAIN_ONE * gain / PAUSE_GAIN_ONE;
}

/* Extends the pause by @pause_ns, up to hold_max_ns from now. Returns what was added. */
PAUSE_INLINE pause_u64 pause_extend(struct pause_flow *flow, const struct pause_rule *rule,
				    pause_u64 pause_ns, pause_u64 now_ns)
{
	pause_u64 from_ns = flow->until_ns > now_ns ? flow->until_ns : now_ns;
	pause_u64 limit_ns = now_ns + rule->hold_max_ns;

	if (from_ns >= limit_ns)
		return 0;
	if (pause_ns > limit_ns - from_ns)
		pause_ns = limit_ns - from_ns;
	flow->until_ns = from_ns + pause_ns;
	flow->paused_ns += pause_ns;
	return pause_ns;
}

PAUSE_INLINE void pause_set_rate(struct pause_flow *flow, const struct pause_rule *rule,
				 pause_u64 rate_Bps)
{
	if (rate_Bps > rule->line_Bps)
		rate_Bps = rule->line_Bps;
	if (rate_Bps < rule->floor_Bps)
		rate_Bps = rule->floor_Bps;
	if (!rate_Bps)
		rate_Bps = 1;
	flow->rate_Bps = rate_Bps;
	flow->gap = (PAUSE_SECOND_NS << PAUSE_GAP_SHIFT) / rate_Bps;
}

/* Time between packets of @bytes at the flow's rate. */
PAUSE_INLINE pause_u64 pause_gap(const struct pause_flow *flow, pause_u32 bytes)
{
	return bytes * flow->gap >> PAUSE_GAP_SHIFT;
}

/*
 * The first packet: as after PAUSE_CALM rounds without a queue, so the rate may double at once.
 * Proportional to the weight, since shares take hundreds of rounds to converge.
 */
PAUSE_INLINE void pause_start(struct pause_flow *flow, const struct pause_rule *rule)
{
	pause_set_rate(flow, rule,
		       rule->start_Bps ? rule->start_Bps * rule->weight / PAUSE_WEIGHT_ONE
				       : rule->line_Bps);
	flow->calm = PAUSE_CALM;
}

/*
 * Before pause_depart() of each packet; @retransmitted: it was sent before. The first
 * retransmission of a series is a loss: the rate is halved, and again when the series is longer
 * than any window, since retransmissions have no delay samples.
 */
PAUSE_INLINE void pause_repeat(struct pause_flow *flow, const struct pause_rule *rule,
			       pause_u32 retransmitted, pause_u64 now_ns)
{
	pause_u32 bytes = flow->bytes, more = bytes - flow->lost_bytes;

	if (retransmitted && rule->flags & PAUSE_RATE && flow->rate_Bps &&
	    (!flow->repeats ||
	     (more > PAUSE_SERIES_BYTES && now_ns - flow->lost_ns > 2 * flow->loop_ns))) {
		pause_set_rate(flow, rule, flow->rate_Bps / 2);
		flow->lost_ns = now_ns;
		flow->lost_bytes = bytes;
		flow->calm = 0;
	}
	flow->repeats = retransmitted;
}

/* Bytes at line rate at the start or on an empty path. */
PAUSE_INLINE pause_u32 pause_opening(const struct pause_rule *rule, pause_u32 packet_bytes)
{
	pause_u64 threshold_ns =
		rule->threshold_ns < PAUSE_SECOND_NS ? rule->threshold_ns : PAUSE_SECOND_NS;
	pause_u64 lasts = threshold_ns * (rule->line_Bps / 1024) / (PAUSE_SECOND_NS / 1024);
	pause_u64 bytes = PAUSE_OPEN_PACKETS * packet_bytes;

	if (bytes > lasts / PAUSE_OPEN_MOST)
		bytes = lasts / PAUSE_OPEN_MOST;
	if (bytes < lasts / PAUSE_OPEN)
		bytes = lasts / PAUSE_OPEN;
	return bytes < 1u << 30 ? bytes : 1u << 30;
}

PAUSE_INLINE void pause_reopen(struct pause_flow *flow)
{
	flow->open_end = (pause_u32)flow->bytes + flow->opened_bytes;
	flow->open_bytes = flow->opened_bytes;
}

/*
 * After an idle period a flow that had a queue starts at its mean rate: the last of many flows
 * that end together has all of the port, and next time they are many again.
 */
PAUSE_INLINE void pause_after_idle(struct pause_flow *flow, const struct pause_rule *rule,
				   pause_u32 packet_bytes, pause_u64 now_ns)
{
	pause_u64 rest_ns = 2 * (flow->loop_ns + rule->threshold_ns);
	pause_u64 bytes = flow->bytes - flow->began_bytes, span_ns;

	if (now_ns < flow->departed_ns + rest_ns)
		return;
	span_ns = flow->departed_ns - flow->began_ns;
	if (flow->queued && span_ns && bytes < PAUSE_RATE_MAX_BPS / 16 &&
	    bytes * PAUSE_SECOND_NS / span_ns < flow->rate_Bps)
		pause_set_rate(flow, rule, bytes * PAUSE_SECOND_NS / span_ns);
	flow->began_ns = flow->rate_set_ns = now_ns;
	flow->began_bytes = flow->bytes;
	/* The path or the clocks may have changed. */
	if (flow->departed_ns && now_ns - flow->departed_ns > 10 * PAUSE_SECOND_NS)
		flow->floor_ns = 0;
	flow->queued = 0;
	flow->calm = PAUSE_CALM;
	flow->opened_bytes = pause_opening(rule, packet_bytes);
	pause_reopen(flow);
	flow->round++;
	flow->ref_departure_ns = 0;
}

/* No sample for no_feedback_ns: the rate doubles. */
PAUSE_INLINE void pause_lose_feedback(struct pause_flow *flow, const struct pause_rule *rule,
				      pause_u64 now_ns)
{
	pause_u64 since_ns =
		flow->sampled_ns > flow->no_feedback_ns ? flow->sampled_ns : flow->no_feedback_ns;

	if (since_ns < flow->lost_ns)
		since_ns = flow->lost_ns;
	if (flow->repeats || now_ns <= since_ns || now_ns - since_ns < rule->no_feedback_ns)
		return;
	/* Not at the first packet after an idle period: there could be no sample. */
	if (now_ns <= flow->departed_ns || now_ns - flow->departed_ns < rule->no_feedback_ns)
		pause_set_rate(flow, rule, flow->rate_Bps * 2);
	flow->no_feedback_ns = now_ns;
}

/* Departure by the rate; by the line rate during an opening. */
PAUSE_INLINE pause_u64 pause_base(const struct pause_flow *flow, const struct pause_rule *rule,
				  pause_u32 bytes, pause_u64 now_ns)
{
	pause_u64 open_ns;

	if (flow->open_bytes) {
		open_ns = flow->departed_ns + bytes * PAUSE_SECOND_NS / rule->line_Bps;
		return open_ns > now_ns ? open_ns : now_ns;
	}
	if (flow->next_ns + rule->credit_ns > now_ns)
		return flow->next_ns;
	return now_ns - rule->credit_ns;
}

/*
 * Departure of a packet of @bytes that is handed over at @now_ns: then or later. @mark, if not
 * NULL: state to keep until its sample.
 */
PAUSE_INLINE pause_u64 pause_depart(struct pause_flow *flow, const struct pause_rule *rule,
				    pause_u32 bytes, pause_u64 now_ns, struct pause_mark *mark)
{
	pause_u64 last_ns = flow->departed_ns > now_ns ? flow->departed_ns : now_ns;
	pause_u64 base_ns = now_ns, at_ns, step_ns, limit_ns = now_ns + rule->hold_max_ns;

	if (rule->flags & PAUSE_RATE) {
		if (!flow->rate_Bps)
			pause_start(flow, rule);
		pause_after_idle(flow, rule, bytes, now_ns);
		pause_lose_feedback(flow, rule, now_ns);
		base_ns = pause_base(flow, rule, bytes, now_ns);
		flow->open_bytes -= flow->open_bytes < bytes ? flow->open_bytes : bytes;
	}
	at_ns = base_ns > last_ns ? base_ns : last_ns;
	if (flow->until_ns > at_ns) {
		step_ns = last_ns + rule->quantum_ns;
		if (step_ns > flow->until_ns)
			step_ns = flow->until_ns;
		if (step_ns > at_ns) {
			flow->taken_ns += step_ns - at_ns;
			at_ns = base_ns = step_ns;
		}
	}
	if (at_ns > limit_ns)
		at_ns = base_ns = limit_ns;
	flow->next_ns = base_ns + pause_gap(flow, bytes);
	if (at_ns > last_ns)
		flow->held_ns += at_ns - last_ns;
	flow->departed_ns = at_ns;
	flow->bytes += bytes;
	if (mark) {
		mark->paused_ns = flow->paused_ns;
		mark->taken_ns = flow->taken_ns;
		mark->bytes = flow->bytes;
		mark->round = flow->round;
		mark->ahead_ns = at_ns - now_ns;
	}
	return at_ns;
}

/* floor(sqrt(@value)) */
PAUSE_INLINE pause_u64 pause_root(pause_u64 value)
{
	pause_u64 root = 0, more, left;
	int i;

	if (value > 0xffffffffull)
		value = 0xffffffffull;
#ifdef __bpf__
#pragma unroll
#endif
	for (i = 15; i >= 0; i--) {
		more = root + (1ull << i);
		left = value - more * more;
		pause_hide(left);
		root += (~left >> 63) << i;
	}
	return root;
}

/*
 * The queue's part of the threshold: less the floor, the delay of the empty path. At least a
 * quarter, for any floor: else every delay is above.
 */
PAUSE_INLINE pause_u64 pause_room(const struct pause_flow *flow, const struct pause_rule *rule)
{
	pause_u64 least_ns = rule->threshold_ns / 4;

	if (flow->floor_ns + least_ns >= rule->threshold_ns)
		return least_ns;
	return flow->floor_ns ? rule->threshold_ns - flow->floor_ns + 1 : rule->threshold_ns;
}

/* Duration of a rate: at least the feedback delay and the queue's part of the threshold. */
PAUSE_INLINE pause_u64 pause_interval(const struct pause_flow *flow, pause_u64 room_ns,
				      pause_u64 now_ns)
{
	pause_u64 interval_ns = now_ns - flow->rate_set_ns;

	if (interval_ns > PAUSE_SECOND_NS)
		interval_ns = PAUSE_SECOND_NS;
	/* Against others that do not react the share counts. */
	if (interval_ns < flow->loop_ns || pause_is_ineffective(flow))
		interval_ns = flow->loop_ns;
	if (interval_ns < room_ns)
		interval_ns = room_ns;
	return interval_ns + 1;
}

/*
 * Increment per round, relative to the rate: the square root of the line rate over the rate per
 * unit of weight, so that 256 flows add 16 times as much as one, not 256 times.
 */
PAUSE_INLINE pause_u64 pause_step(const struct pause_flow *flow, const struct pause_rule *rule,
				  pause_u64 room_ns, pause_u64 interval_ns)
{
	pause_u64 share = (rule->line_Bps * rule->weight << 12) / flow->rate_Bps;
	pause_u64 base = room_ns * (PAUSE_ONE / PAUSE_ADDED) / interval_ns;
	pause_u32 doublings = flow->calm;
	pause_u64 step, most;

	if (doublings > 16)
		doublings = 16;
	step = ((base + 1) * pause_root(share) >> 8) << doublings;
	most = room_ns * (2 * PAUSE_ONE) / (flow->loop_ns + 1);
	if (most > PAUSE_ONE)
		most = PAUSE_ONE;
	return step < most ? step : most;
}

/* @load: of all senders, relative to the queue's capacity; @queue_ns: the delay above the floor. */
PAUSE_INLINE void pause_set_next_rate(struct pause_flow *flow, const struct pause_rule *rule,
				      pause_u64 load, pause_u64 queue_ns, pause_u64 now_ns)
{
	pause_u64 room_ns = pause_room(flow, rule);
	pause_u64 interval_ns = pause_interval(flow, room_ns, now_ns);
	pause_u64 rate = flow->rate_Bps, added, level;

	if (load > 256ull * PAUSE_ONE)
		load = 256ull * PAUSE_ONE;
	if (load < PAUSE_ONE / 2)
		load = PAUSE_ONE / 2;
	rate = rate * PAUSE_ONE / load;
	/* Relative to the same rate as the decrease: else the larger share loses more. */
	added = rate * pause_step(flow, rule, room_ns, interval_ns) / PAUSE_ONE;
	if (queue_ns > 4 * room_ns)
		flow->ineffective += flow->rate_Bps > rule->floor_Bps ? 1 : PAUSE_PATIENCE / 8;
	else if (queue_ns < room_ns)
		flow->ineffective = 0;
	if (pause_is_ineffective(flow))
		queue_ns = 0;
	if (queue_ns > room_ns)
		queue_ns += 2 * (queue_ns - room_ns);
	level = queue_ns * (PAUSE_ONE / PAUSE_LEVEL) / interval_ns;
	if (level > PAUSE_ONE / 4)
		level = PAUSE_ONE / 4;
	pause_set_rate(flow, rule, rate + added - rate * level / PAUSE_ONE);
	if (!flow->calm)
		flow->queued = 1;
	flow->rate_set_ns = now_ns;
	flow->round++;
	flow->ref_departure_ns = 0;
}

/* The first sample of a round: the reference of the others. */
PAUSE_INLINE void pause_set_reference(struct pause_flow *flow, const struct pause_mark *mark,
				      pause_u64 departure_ns, pause_u64 delay_ns)
{
	flow->ref_departure_ns = departure_ns;
	flow->ref_delay_ns = delay_ns;
	flow->ref_taken_ns = mark->taken_ns;
	flow->ref_bytes = mark->bytes;
	flow->ref_samples = 1;
	flow->end_samples = 0;
}

/*
 * Adds a sample @span_ns after the reference. Timestamps have random delays, so both ends are
 * means: of the first eighth of a round, and of the part behind three quarters. True: the round
 * is long enough.
 */
PAUSE_INLINE pause_u32 pause_add_sample(struct pause_flow *flow, pause_u64 span_ns,
					pause_u64 delay_ns)
{
	pause_u64 gap_ns = pause_gap(flow, PAUSE_ROUND_BYTES), need_ns = flow->loop_ns / 2, far_ns;
	pause_s64 rise_ns = (pause_s64)(delay_ns - flow->ref_delay_ns);
	pause_u32 count;

	if (need_ns < gap_ns)
		need_ns = gap_ns;
	if (!flow->end_samples && span_ns < need_ns / 8) {
		count = ++flow->ref_samples;
		flow->ref_departure_ns += span_ns / count;
		if (rise_ns > 0)
			flow->ref_delay_ns += (pause_u64)rise_ns / count;
		else
			flow->ref_delay_ns -= (pause_u64)-rise_ns / count;

		return 0;
	}
	/* The feedback delay at the start of the round: it increases with the queue. */
	far_ns = span_ns + (rise_ns > 0 ? (pause_u64)rise_ns / 2 : 0);
	if (!flow->end_samples) {
		if (far_ns < need_ns - need_ns / 4)
			return 0;
		flow->end_span_ns = 0;
		flow->end_rise_ns = 0;
	}
	count = ++flow->end_samples;
	flow->end_span_ns += (pause_u32)(span_ns - flow->end_span_ns) / count;
	rise_ns -= flow->end_rise_ns;
	if (rise_ns > 0)
		flow->end_rise_ns += (pause_s32)((pause_u64)rise_ns / count);
	else
		flow->end_rise_ns -= (pause_s32)((pause_u64)-rise_ns / count);
	far_ns = span_ns + (flow->end_rise_ns > 0 ? (pause_u32)flow->end_rise_ns / 2 : 0);
	return span_ns >= gap_ns && far_ns >= need_ns;
}

/*
 * During an opening more than the rate was sent. Its queue is in the round's reference, so the
 * load is that of all traffic behind it, and this flow's throughput is its share. At most one
 * opening per round trip, where that is more than the rate.
 */
PAUSE_INLINE void pause_apply_opening(struct pause_flow *flow, const struct pause_rule *rule,
				      pause_u64 used_Bps, pause_u64 load)
{
	pause_u64 window_Bps = flow->opened_bytes * PAUSE_SECOND_NS / (flow->rtt_ns + 1);

	if (used_Bps < flow->rate_Bps + flow->rate_Bps / 2)
		return;
	if (window_Bps > rule->line_Bps)
		window_Bps = rule->line_Bps;
	if (load > 256ull * PAUSE_ONE)
		load = 256ull * PAUSE_ONE;
	window_Bps = window_Bps * load / PAUSE_ONE;
	if (used_Bps > window_Bps)
		used_Bps = window_Bps;
	if (used_Bps > flow->rate_Bps)
		pause_set_rate(flow, rule, used_Bps);
}

/* Evaluates a round: the load of all senders, from samples that are far enough apart. */
PAUSE_INLINE void pause_evaluate(struct pause_flow *flow, const struct pause_rule *rule,
				 const struct pause_mark *mark, pause_u64 departure_ns,
				 pause_u64 delay_ns, pause_u64 now_ns)
{
	pause_u64 span_ns = departure_ns - flow->ref_departure_ns, used, load;
	pause_u32 taken_ns = mark->taken_ns - flow->ref_taken_ns;
	pause_u64 room_ns = pause_room(flow, rule);
	pause_u64 queue_ns = delay_ns + 1 - flow->floor_ns;
	pause_u32 calm = queue_ns < room_ns / 4;
	pause_s64 arrival_ns;

	if (!flow->rate_Bps || mark->round != flow->round)
		return;
	/* The path is empty, by a recent sample of a packet behind the last opening. */
	if (queue_ns < room_ns / 8 && flow->rtt_ns < 2 * room_ns &&
	    (pause_s32)(mark->bytes - flow->open_end) >= 0)
		pause_reopen(flow);
	/* One or two packets in flight show no load; at the start it is not needed. */
	if (flow->calm >= PAUSE_CALM && calm && pause_gap(flow, PAUSE_FEW_BYTES) > flow->rtt_ns) {
		pause_set_next_rate(flow, rule, PAUSE_ONE, queue_ns, now_ns);
		return;
	}
	if (!flow->ref_departure_ns || span_ns >= 2 * PAUSE_SECOND_NS || span_ns <= taken_ns) {
		pause_set_reference(flow, mark, departure_ns, delay_ns);
		return;
	}
	span_ns -= taken_ns;
	if (!pause_add_sample(flow, span_ns, delay_ns))
		return;
	flow->calm = calm && delay_ns < flow->ref_delay_ns + room_ns / 8 ? flow->calm + 1 : 0;
	used = (pause_u64)(pause_u32)(mark->bytes - flow->ref_bytes) * PAUSE_SECOND_NS / span_ns;
	/* An unused rate is not increased. */
	if (used * 2 < flow->rate_Bps && delay_ns <= flow->ref_delay_ns) {
		pause_set_reference(flow, mark, departure_ns, delay_ns);
		return;
	}
	arrival_ns = (pause_s64)flow->end_span_ns + taken_ns + flow->end_rise_ns;
	load = arrival_ns > 0 ? arrival_ns * PAUSE_ONE / (flow->end_span_ns + 1ull) : 0;
	pause_apply_opening(flow, rule, used, load);
	pause_set_next_rate(flow, rule, load, queue_ns, now_ns);
}

/* Rises at once, falls slowly: with too short a delay a reaction would be repeated. */
PAUSE_INLINE pause_u64 pause_smooth(pause_u64 old_ns, pause_u64 new_ns)
{
	return new_ns > old_ns ? new_ns : (7 * old_ns + new_ns) / 8;
}

/*
 * A sample: the packet of @mark, with departure @departure_ns, had @delay_ns; received at
 * @now_ns. Returns the pause that was added.
 */
PAUSE_INLINE pause_u64 pause_sample(struct pause_flow *flow, const struct pause_rule *rule,
				    const struct pause_mark *mark, pause_u64 departure_ns,
				    pause_s64 delay_ns, pause_u64 now_ns)
{
	pause_u64 delay = delay_ns > 0 ? (pause_u64)delay_ns : 0, pause_ns = 0, rtt_ns, loop_ns;
	pause_u32 last_ns = (pause_u32)flow->paused_ns - mark->paused_ns;

	rtt_ns = now_ns > departure_ns ? now_ns - departure_ns : 0;
	loop_ns = rtt_ns + mark->ahead_ns;
	if (delay > 4 * PAUSE_SECOND_NS || loop_ns > 4 * PAUSE_SECOND_NS)
		return 0;
	if (!flow->floor_ns || delay + 1 < flow->floor_ns)
		flow->floor_ns = delay + 1;
	if (!pause_is_ineffective(flow))
		pause_ns = pause_for(delay + 1 - flow->floor_ns, last_ns, pause_room(flow, rule),
				     rule->gain);
	if (pause_ns)
		pause_ns = pause_extend(flow, rule, pause_ns, now_ns);
	flow->over += delay > rule->threshold_ns;
	flow->delay_ns = delay;
	flow->sampled_ns = now_ns;
	if (rule->flags & PAUSE_RATE) {
		flow->loop_ns = pause_smooth(flow->loop_ns, loop_ns);
		flow->rtt_ns = pause_smooth(flow->rtt_ns, rtt_ns);
		pause_evaluate(flow, rule, mark, departure_ns, delay, now_ns);
	}
	return pause_ns;
}

#ifndef __bpf__
#include <stdbool.h>
#include <stdint.h>

/*
 * Default rule of a port with @line_Bps. Weight and gain 1, PAUSE_RATE set; to be cleared for
 * transports with congestion control.
 */
void pause_rule_default(struct pause_rule *rule, uint64_t threshold_ns, uint64_t line_Bps);

/*
 * Detects a flow that is paused for more than half of the time: its transport does not converge.
 * One per flow, initially zero.
 */
struct pause_watch {
	uint64_t polled_ns, paused_ns;
	uint64_t since_ns; /* start of the condition; 0: it does not hold */
	bool reported;
};

#define PAUSE_WATCH_LONG_NS 1000000000ull

/*
 * Polls at local time @now_ns, at intervals of some 100 ms or more. True once per occurrence,
 * when the condition has lasted for PAUSE_WATCH_LONG_NS.
 */
bool pause_watch_poll(struct pause_watch *watch, uint64_t paused_ns, uint64_t now_ns);
#endif

#endif

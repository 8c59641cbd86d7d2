/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Congestion window of a TCP connection, controlled by the one-way delay of its own data; in
 * 1/1024 of a segment, so that it can be below one. What exceeds the window of one
 * acknowledgement is paced by the socket at window / RTT, which replaces whole segments below
 * two: 40 connections with two segments in flight fill a switch's queue.
 *
 * Each delay sample moves the window in proportion to its distance from a target below the
 * threshold: the mean counts, independent of the number of samples and of the waits of segments
 * within a burst. An additive increase, equal for all of a weight, makes equal delays mean equal
 * windows: connections of one bottleneck converge.
 *
 * Clocks have an offset, and an empty path has a delay. A constant part of the delay is not
 * queueing: a windowed minimum is subtracted, up to the error of the clocks. Connections of one
 * bottleneck observe it empty at the same times, so they agree.
 *
 * Shared by the kernel programs and user space: unsigned 64-bit division only.
 */
#ifndef ESC_PACING_TCPWINDOW_H
#define ESC_PACING_TCPWINDOW_H

#include "maps/tcp.h"

#define TCP_WINDOW_ONE 1024u
#define TCP_WINDOW_MIN (TCP_WINDOW_ONE / 8)
#define TCP_WINDOW_MAX (TCP_WINDOW_ONE << 16)
/* Initial window: two segments, at times three. */
#define TCP_WINDOW_NEW (5 * TCP_WINDOW_ONE / 2)
/*
 * Initial window of a connection that was limited with data in flight; maximum after an idle
 * period.
 */
#define TCP_WINDOW_AGAIN (4 * TCP_WINDOW_ONE)
#define TCP_WINDOW_REST (8 * TCP_WINDOW_ONE)
/* Start: times four per round trip on an empty path up to this window, then times two. */
#define TCP_WINDOW_LEAP (16 * TCP_WINDOW_ONE)
/*
 * Below, the rate alone is the limit, and two segments leave room for a delayed acknowledgement;
 * above, the rate only separates bursts.
 */
#define TCP_WINDOW_PACED (2 * TCP_WINDOW_ONE)
/* From here on there is no pacing but the socket's own. */
#define TCP_WINDOW_FREE (64 * TCP_WINDOW_ONE)
/*
 * Target, in 1/1024 of the threshold: bursts of a third of a window, as the kernel sends, use a
 * path fully if their mean wait is that of half a burst.
 */
#define TCP_WINDOW_TARGET 720u
/* Gain per round trip of the window's distance from the target, in 1/1024. */
#define TCP_WINDOW_GAIN 768u
/*
 * Additive increase of a large window, in 1/1024 of a segment per threshold, with its minimum and
 * maximum per round trip; half of it at a window of 3/2.
 */
#define TCP_WINDOW_STEP 680u
#define TCP_WINDOW_STEP_LEAST 128u
#define TCP_WINDOW_STEP_MOST 256u
/* Part of the gain for decreases of small and of large windows, in 1/1024. */
#define TCP_WINDOW_DECREASE_LEAST 900u
#define TCP_WINDOW_DECREASE_MOST 1536u
/*
 * Duration and number of samples of each of the two windows of the minimum; its maximum is 1 /
 * 2^shift of the threshold, the clocks' error (ESC_TCP_BOUND_SHIFT).
 */
#define TCP_WINDOW_FLOOR_NS 500000000ull
#define TCP_WINDOW_FLOOR_COUNT 64u
#define TCP_WINDOW_FLOOR_SHIFT 2

static inline void tcp_window_begin(struct tcp_window *w, unsigned int window, unsigned int memory)
{
	w->window = window < TCP_WINDOW_NEW ? TCP_WINDOW_NEW : window;
	w->waiting = 0;
	w->starting = 1;
	w->memory = memory;
}

static inline void tcp_window_start(struct tcp_window *w, unsigned int window)
{
	tcp_window_begin(w, window, 0);
	w->weight = 1;
	w->floor_since_ns = 0;
	w->round = 0;
	w->base_us = w->pace_us = 0;
}

/*
 * Window after an idle period: a quarter, as all others that were idle too may start together. If
 * the path is then empty, the old window is restored.
 */
static inline unsigned int tcp_window_rested(const struct tcp_window *w)
{
	unsigned int window = w->window / 4;

	if (window < TCP_WINDOW_NEW)
		window = TCP_WINDOW_NEW;
	return window < TCP_WINDOW_REST ? window : TCP_WINDOW_REST;
}

static inline void tcp_window_rest(struct tcp_window *w)
{
	tcp_window_begin(w, tcp_window_rested(w), w->window);
}

/* @delay_ns, which may be negative, less its minimum; not negative. @now_ns: not 0. */
static inline unsigned long long tcp_window_above(struct tcp_window *w, long long delay_ns,
						  unsigned long long threshold_ns,
						  unsigned long long now_ns)
{
	long long most = (long long)(threshold_ns >> TCP_WINDOW_FLOOR_SHIFT), floor;

	if (!w->floor_since_ns) {
		w->floor_ns = w->floor_before_ns = delay_ns;
		w->floor_since_ns = now_ns;
		w->floor_count = 0;
	} else if (now_ns - w->floor_since_ns > TCP_WINDOW_FLOOR_NS &&
		   w->floor_count >= TCP_WINDOW_FLOOR_COUNT) {
		w->floor_before_ns = w->floor_ns;
		w->floor_ns = delay_ns;
		w->floor_since_ns = now_ns;
		w->floor_count = 0;
	}
	w->floor_count++;
	if (delay_ns < w->floor_ns)
		w->floor_ns = delay_ns;
	floor = w->floor_ns < w->floor_before_ns ? w->floor_ns : w->floor_before_ns;
	if (floor > most)
		floor = most;
	if (floor < -most)
		floor = -most;
	return delay_ns > floor ? (unsigned long long)(delay_ns - floor) : 0;
}

static inline void tcp_window_bound(struct tcp_window *w, unsigned long long window)
{
	if (window < TCP_WINDOW_MIN)
		window = TCP_WINDOW_MIN;
	w->window = window > TCP_WINDOW_MAX ? TCP_WINDOW_MAX : (unsigned int)window;
}

/*
 * Part of a step, in 1/1024, for @acked segments: one step per round trip in all. A window below
 * one acknowledgement has samples that are as much rarer, so a step lasts longer and has to be
 * smaller.
 */
static inline unsigned long long tcp_window_share(const struct tcp_window *w, unsigned int acked)
{
	unsigned long long window = w->window,
			   segments = (unsigned long long)acked * TCP_WINDOW_ONE;

	if (!acked)
		return 0;
	return segments < window ? segments * TCP_WINDOW_ONE / window : window / acked;
}

/*
 * Start, with a delay below the target: times four per round trip on an empty path, then times
 * two.
 */
static inline void tcp_window_grow(struct tcp_window *w, unsigned int acked,
				   unsigned long long delay_ns, unsigned long long target_ns)
{
	unsigned long long room = (target_ns - delay_ns) * TCP_WINDOW_ONE / target_ns;
	unsigned int times = w->window < TCP_WINDOW_LEAP ? 3 : 1;

	if (room > TCP_WINDOW_ONE / 2 && w->memory > w->window)
		w->window = w->memory;
	tcp_window_bound(w, w->window + acked * room * times);
}

/*
 * The first delay above the threshold after a start, with a window of any size: removes four
 * fifths of the connection's part of the queue above the threshold, window * (delay - threshold)
 * / rtt, at most half of the window.
 */
static inline void tcp_window_cut(struct tcp_window *w, unsigned int acked, unsigned int next_seq,
				  unsigned long long delay_ns, unsigned long long threshold_ns,
				  unsigned long long rtt_ns)
{
	unsigned long long cut, window = w->window;

	cut = (delay_ns - threshold_ns) * (TCP_WINDOW_ONE * 4 / 5) / rtt_ns;
	if (cut > TCP_WINDOW_ONE / 2)
		cut = TCP_WINDOW_ONE / 2;
	if ((unsigned long long)acked * TCP_WINDOW_ONE > window)
		cut = cut * (window / acked) / TCP_WINDOW_ONE;
	tcp_window_bound(w, (window * (TCP_WINDOW_ONE - cut)) >> 10);
	w->waiting = 1;
	w->wait_seq = next_seq;
}

static inline unsigned long long tcp_window_target(unsigned long long threshold_ns)
{
	return threshold_ns * TCP_WINDOW_TARGET / 1024;
}

/*
 * The queue above the target that the increase causes is step * RTT: with a longer RTT the step
 * is smaller, and the queue of many connections no longer.
 */
static inline unsigned long long tcp_window_step(unsigned long long threshold_ns,
						 unsigned long long rtt_ns)
{
	unsigned long long step = TCP_WINDOW_STEP * threshold_ns / rtt_ns;

	if (step < TCP_WINDOW_STEP_LEAST)
		return TCP_WINDOW_STEP_LEAST;
	return step < TCP_WINDOW_STEP_MOST ? step : TCP_WINDOW_STEP_MOST;
}

/*
 * The connection's part of the queue above (below) the target, window * (delay - target) / rtt,
 * times the gain, is removed (added) per round trip. The increase is relatively larger for
 * smaller windows: at equilibrium all that observe one delay have equal windows. An increase of
 * constant size would converge faster, with a delay that grows with the number of connections.
 * Large windows decrease by more than their part and small ones by less: when many start
 * together, established ones release capacity.
 */
static inline int tcp_window_move(struct tcp_window *w, unsigned int acked,
				  unsigned long long delay_ns, unsigned long long threshold_ns,
				  unsigned long long rtt_ns)
{
	unsigned long long target_ns = tcp_window_target(threshold_ns);
	unsigned long long window = w->window, share = tcp_window_share(w, acked), up, down = 0,
			   one = (unsigned long long)w->weight * TCP_WINDOW_ONE,
			   part = window * TCP_WINDOW_GAIN / TCP_WINDOW_ONE, decrease;

	up = w->weight * tcp_window_step(threshold_ns, rtt_ns) * window / (window + one * 3 / 2);
	if (delay_ns < target_ns) {
		up += part * (target_ns - delay_ns) / rtt_ns;
	} else {
		decrease = 2 * TCP_WINDOW_ONE * window / (window + 2 * one);
		if (decrease < TCP_WINDOW_DECREASE_LEAST)
			decrease = TCP_WINDOW_DECREASE_LEAST;
		if (decrease > TCP_WINDOW_DECREASE_MOST)
			decrease = TCP_WINDOW_DECREASE_MOST;
		down = part * (delay_ns - target_ns) / rtt_ns * decrease / TCP_WINDOW_ONE;
	}
	if (down > window / 2)
		down = window / 2;
	up = share * up / TCP_WINDOW_ONE;
	down = share * down / TCP_WINDOW_ONE;
	tcp_window_bound(w, window + up > down ? window + up - down : 0);
	return down > up;
}

/*
 * The fraction of a segment is rounded by a threshold that changes in each round trip, evenly
 * distributed (golden ratio) with a random start: rounded up by all together, the windows of
 * many, and the queue, would jump by a segment each.
 */
static inline void tcp_window_next_round(struct tcp_window *w, unsigned int acked_seq,
					 unsigned int next_seq)
{
	if (!w->round)
		w->round = (acked_seq * 2654435761u) >> 22;
	else if ((int)(acked_seq - w->round_seq) < 0)
		return;
	w->round = (w->round + 633) % TCP_WINDOW_ONE;
	w->round_seq = next_seq;
}

/*
 * Pacing over the RTT reduces the rate as the queue grows, at once if acknowledgements are
 * frequent. With a window below two they arrive every 2 / window round trips: a rate by an RTT of
 * that age would oscillate, and the queue between none and twice the threshold. So the measured
 * queue counts by the ratio of the window to two, and for the rest the target.
 */
static inline void tcp_window_spread(struct tcp_window *w, unsigned long long delay_ns,
				     unsigned long long target_ns, unsigned long long rtt_ns)
{
	unsigned int base_us = (unsigned int)((rtt_ns - delay_ns) / 1000);
	unsigned long long part = w->window < TCP_WINDOW_PACED ? w->window : TCP_WINDOW_PACED;
	unsigned long long queue_ns =
		(delay_ns * part + target_ns * (TCP_WINDOW_PACED - part)) / TCP_WINDOW_PACED;

	w->base_us = w->base_us ? (3 * w->base_us + base_us) / 4 : base_us;
	w->pace_us = w->base_us + (unsigned int)(queue_ns / 1000);
}

/*
 * A sample: @acked segments up to @acked_seq had @delay_ns (tcp_window_above); @next_seq is sent
 * next. @rtt_ns: more than the delay. @full: the connection used its window, else a larger one is
 * not learned. Returns whether the window decreased.
 */
static inline int tcp_window_sample(struct tcp_window *w, unsigned int acked,
				    unsigned int acked_seq, unsigned int next_seq,
				    unsigned long long delay_ns, unsigned long long threshold_ns,
				    unsigned long long rtt_ns, int full)
{
	unsigned long long target_ns = tcp_window_target(threshold_ns);

	tcp_window_next_round(w, acked_seq, next_seq);
	tcp_window_spread(w, delay_ns, target_ns, rtt_ns);
	if (delay_ns <= target_ns && !full)
		return 0;
	if (w->starting && delay_ns < target_ns) {
		tcp_window_grow(w, acked, delay_ns, target_ns);
		return 0;
	}
	if (w->starting) {
		w->starting = 0;
		if (delay_ns <= threshold_ns)
			return 0;
		tcp_window_cut(w, acked, next_seq, delay_ns, threshold_ns, rtt_ns);
		return 1;
	}
	if (w->waiting && (int)(acked_seq - w->wait_seq) <= 0)
		return 0;
	w->waiting = 0;
	return tcp_window_move(w, acked, delay_ns, threshold_ns, rtt_ns);
}

/*
 * The window in whole segments, exact in the mean of many round trips; never one, which would
 * wait for a delayed acknowledgement.
 */
static inline unsigned int tcp_window_segments(const struct tcp_window *w)
{
	unsigned int whole = (w->window + w->round) / TCP_WINDOW_ONE;

	return whole < 2 ? 2 : whole;
}

/* Pacing rate in bytes per second; 0: the window alone is the limit. */
static inline unsigned long long tcp_window_rate(const struct tcp_window *w,
						 unsigned int segment_bytes, unsigned int rtt_us)
{
	unsigned long long bytes = (unsigned long long)w->window * segment_bytes / TCP_WINDOW_ONE;

	if (!rtt_us || w->window >= TCP_WINDOW_FREE)
		return 0;
	if (w->window >= TCP_WINDOW_PACED || w->starting)
		bytes += bytes / 4;
	else if (w->pace_us)
		rtt_us = w->pace_us;
	return bytes * 1000000 / rtt_us;
}

#endif

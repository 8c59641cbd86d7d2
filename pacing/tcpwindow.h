/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much a TCP connection may have in the network, by the delay of its own
 * data: a window in 1/1024 of a segment, so that it goes below one. What is
 * above the window of one acknowledgement is held by the socket's own pacing
 * at window / round trip, which is where a window of whole segments ends:
 * 40 connections that have two segments each under way fill a switch's queue,
 * and that of a window of two cannot be made less but by waiting.
 *
 * Each delay moves the window by how far it is from an aim below the threshold, in proportion: what
 * counts is the mean, so it does not matter how many delays a connection hears of in a time, nor
 * how the segments of a burst wait for each other. A step upwards of its own, the same for all of a
 * weight, makes equal delays mean equal windows: so connections of one bottleneck come together.
 *
 * Two clocks are never quite right, and a path takes its time when it is empty. A part of the delay
 * that is always there is not the queue's: the least of some time is taken off, as far as a clock
 * may be wrong. Those of one bottleneck see it empty at the same moments, and so they agree.
 *
 * One text for the kernel programs and user space: 64-bit division unsigned only.
 */
#ifndef ESC_PACING_TCPWINDOW_H
#define ESC_PACING_TCPWINDOW_H

#include "maps/tcp.h"

#define TCP_WINDOW_ONE 1024u
#define TCP_WINDOW_MIN (TCP_WINDOW_ONE / 8)
#define TCP_WINDOW_MAX (TCP_WINDOW_ONE << 16)
/* A connection that starts: two segments, or three now and then. */
#define TCP_WINDOW_NEW (5 * TCP_WINDOW_ONE / 2)
/* One that was limited while data was under way, and the most after a rest. */
#define TCP_WINDOW_AGAIN (4 * TCP_WINDOW_ONE)
#define TCP_WINDOW_REST (8 * TCP_WINDOW_ONE)
/* Starting: four times a round trip on an empty path up to here, then twice. */
#define TCP_WINDOW_LEAP (16 * TCP_WINDOW_ONE)
/* Below it the rate alone is the limit, and two segments leave room for a delayed
 * acknowledgement; above it the rate only keeps bursts apart. */
#define TCP_WINDOW_PACED (2 * TCP_WINDOW_ONE)
/* From it on there is no pacing but the socket's own. */
#define TCP_WINDOW_FREE (64 * TCP_WINDOW_ONE)
/* The aim, in 1/1024 of the threshold: bursts of a third of a window, which is what the kernel
 * sends, keep a path busy alone if their mean wait is that of half of a burst. */
#define TCP_WINDOW_AIM 720u
/* Of what is too much or too little in the queue, a round trip's part, in 1/1024. */
#define TCP_WINDOW_GAIN 768u
/* The step upwards of a large window, in 1/1024 of a segment a threshold, and the least and the
 * most in a round trip; half of it at 3/2. */
#define TCP_WINDOW_STEP 680u
#define TCP_WINDOW_STEP_LEAST 128u
#define TCP_WINDOW_STEP_MOST 256u
/* What is too much goes at that part of the gain from small windows and from large ones. */
#define TCP_WINDOW_GIVE_LEAST 900u
#define TCP_WINDOW_GIVE_MOST 1536u
/* The least delay is one of that time and that many, twice; and at most 1 / 2^shift of the
 * threshold, which is what a clock may be wrong by (ESC_TCP_BOUND_SHIFT). */
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
 * All that the application wrote was acknowledged: what comes next starts gently, with a quarter of
 * what there was, as all others may that rested with it. Where it finds the path empty, the window
 * is the old one again.
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

/* A delay at @now_ns (not 0), less the least of the last time. It may be negative; what is left is
 * not. */
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
 * Part of a step, in 1/1024, that is due for @acked segments: one a round trip in all. A window
 * below what one acknowledgement stands for hears seldom, and what it does lasts so much
 * longer until it hears of it again: then the step has to be as much smaller.
 */
static inline unsigned long long tcp_window_share(const struct tcp_window *w, unsigned int acked)
{
	unsigned long long window = w->window,
			   segments = (unsigned long long)acked * TCP_WINDOW_ONE;

	if (!acked)
		return 0;
	return segments < window ? segments * TCP_WINDOW_ONE / window : window / acked;
}

/* Starting, with a delay of less than the aim: on an empty path four times, then twice a round
 * trip.
 */
static inline void tcp_window_grow(struct tcp_window *w, unsigned int acked,
				   unsigned long long delay_ns, unsigned long long aim_ns)
{
	unsigned long long room = (aim_ns - delay_ns) * TCP_WINDOW_ONE / aim_ns;
	unsigned int times = w->window < TCP_WINDOW_LEAP ? 3 : 1;

	if (room > TCP_WINDOW_ONE / 2 && w->memory > w->window)
		w->window = w->memory;
	tcp_window_bound(w, w->window + acked * room * times);
}

/*
 * The first delay above the threshold after a start, whose windows may be of any size: four fifths
 * of what the connection has in the queue above the threshold go, window * (delay - threshold) /
 * rtt, at most half of the window.
 */
static inline void tcp_window_cut(struct tcp_window *w, unsigned int acked, unsigned int next_seq,
				  unsigned long long delay_ns, unsigned long long threshold_ns,
				  unsigned long long rtt_ns)
{
	unsigned long long much, window = w->window;

	much = (delay_ns - threshold_ns) * (TCP_WINDOW_ONE * 4 / 5) / rtt_ns;
	if (much > TCP_WINDOW_ONE / 2)
		much = TCP_WINDOW_ONE / 2;
	if ((unsigned long long)acked * TCP_WINDOW_ONE > window)
		much = much * (window / acked) / TCP_WINDOW_ONE;
	tcp_window_bound(w, (window * (TCP_WINDOW_ONE - much)) >> 10);
	w->waiting = 1;
	w->wait_seq = next_seq;
}

static inline unsigned long long tcp_window_aim(unsigned long long threshold_ns)
{
	return threshold_ns * TCP_WINDOW_AIM / 1024;
}

/*
 * What the queue stands above the aim for the step's sake is the step times the round trip: where
 * that is long the step is less, and the queue of many no longer.
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
 * What of the connection is in the queue above the aim, or lacks there, is window * (delay - aim) /
 * rtt: a part of it goes, or comes, in a round trip. So does the step upwards, which is the more of
 * the window the smaller that is: where both are the same, so are the windows of all who see that
 * delay. A step of the same size for all would bring them together sooner, and have a delay that
 * grows with their number. Of what is too much a large window gives more than its part, a small one
 * less: when many begin at once, those that were there make room.
 */
static inline int tcp_window_move(struct tcp_window *w, unsigned int acked,
				  unsigned long long delay_ns, unsigned long long threshold_ns,
				  unsigned long long rtt_ns)
{
	unsigned long long aim_ns = tcp_window_aim(threshold_ns);
	unsigned long long window = w->window, share = tcp_window_share(w, acked), up, down = 0,
			   one = (unsigned long long)w->weight * TCP_WINDOW_ONE,
			   part = window * TCP_WINDOW_GAIN / TCP_WINDOW_ONE, give;

	up = w->weight * tcp_window_step(threshold_ns, rtt_ns) * window / (window + one * 3 / 2);
	if (delay_ns < aim_ns) {
		up += part * (aim_ns - delay_ns) / rtt_ns;
	} else {
		give = 2 * TCP_WINDOW_ONE * window / (window + 2 * one);
		if (give < TCP_WINDOW_GIVE_LEAST)
			give = TCP_WINDOW_GIVE_LEAST;
		if (give > TCP_WINDOW_GIVE_MOST)
			give = TCP_WINDOW_GIVE_MOST;
		down = part * (delay_ns - aim_ns) / rtt_ns * give / TCP_WINDOW_ONE;
	}
	if (down > window / 2)
		down = window / 2;
	up = share * up / TCP_WINDOW_ONE;
	down = share * down / TCP_WINDOW_ONE;
	tcp_window_bound(w, window + up > down ? window + up - down : 0);
	return down > up;
}

/*
 * The part of a segment that makes one more is another one in each round trip, evenly spread (the
 * golden ratio), and begins anywhere: rounded up by all at once, windows of many would jump by a
 * segment each, and the queue with them.
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
 * What is spread over a round trip lets go of the queue as that becomes longer, at once if
 * acknowledgements come at once. Those of a window below two come every 2 / window round trips: a
 * rate that followed a round trip of so long ago would swing, and the queue with it, between none
 * and twice the threshold. So it follows the queue by the part that the window is of two, and for
 * the rest the queue is taken to be as long as it should be.
 */
static inline void tcp_window_spread(struct tcp_window *w, unsigned long long delay_ns,
				     unsigned long long aim_ns, unsigned long long rtt_ns)
{
	unsigned int base_us = (unsigned int)((rtt_ns - delay_ns) / 1000);
	unsigned long long part = w->window < TCP_WINDOW_PACED ? w->window : TCP_WINDOW_PACED;
	unsigned long long queue_ns =
		(delay_ns * part + aim_ns * (TCP_WINDOW_PACED - part)) / TCP_WINDOW_PACED;

	w->base_us = w->base_us ? (3 * w->base_us + base_us) / 4 : base_us;
	w->pace_us = w->base_us + (unsigned int)(queue_ns / 1000);
}

/*
 * @acked segments up to @acked_seq came through in @delay_ns (tcp_window_above); @next_seq is sent
 * next. The round trip was @rtt_ns (more than the delay). @full: the connection used its window;
 * else nothing is learnt of a larger one. Returns whether the window became less.
 */
static inline int tcp_window_take(struct tcp_window *w, unsigned int acked, unsigned int acked_seq,
				  unsigned int next_seq, unsigned long long delay_ns,
				  unsigned long long threshold_ns, unsigned long long rtt_ns,
				  int full)
{
	unsigned long long aim_ns = tcp_window_aim(threshold_ns);

	tcp_window_next_round(w, acked_seq, next_seq);
	tcp_window_spread(w, delay_ns, aim_ns, rtt_ns);
	if (delay_ns <= aim_ns && !full)
		return 0;
	if (w->starting && delay_ns < aim_ns) {
		tcp_window_grow(w, acked, delay_ns, aim_ns);
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

/* The window in whole segments, in the mean of many round trips; never one, which would wait for a
 * delayed acknowledgement. */
static inline unsigned int tcp_window_segments(const struct tcp_window *w)
{
	unsigned int whole = (w->window + w->round) / TCP_WINDOW_ONE;

	return whole < 2 ? 2 : whole;
}

/* Bytes a second; 0: the window alone is the limit. */
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

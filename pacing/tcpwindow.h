/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much a TCP connection may have in the network, by the delay of its own
 * data: a window in 1/1024 of a segment, so that it goes below one. What is
 * above the window of one acknowledgement is held by the socket's own pacing
 * at window / round trip, which is where a window of whole segments ends:
 * 40 connections that have two segments each under way fill a switch's queue,
 * and that of a window of two cannot be made less but by waiting.
 *
 * The window grows with the room below the threshold, and shrinks when a delay
 * is above it, by what the delay is too long, once a round trip: data that
 * left before the last cut says nothing about it (as in Swift, SIGCOMM 2020).
 * A small pull towards nothing, in proportion to the window, makes equal
 * delays mean equal windows, so connections of one bottleneck come together.
 *
 * One text for the kernel programs and user space: unsigned, 64-bit division only.
 */
#ifndef ESC_PACING_TCPWINDOW_H
#define ESC_PACING_TCPWINDOW_H

#define TCP_WINDOW_ONE 1024u
#define TCP_WINDOW_MIN (TCP_WINDOW_ONE / 8)
#define TCP_WINDOW_MAX (TCP_WINDOW_ONE << 16)
/* A connection that starts, or starts again after all was acknowledged. */
#define TCP_WINDOW_NEW (2 * TCP_WINDOW_ONE)
#define TCP_WINDOW_AGAIN (4 * TCP_WINDOW_ONE)
/* Starting: four times a round trip on an empty path up to here, then twice. */
#define TCP_WINDOW_LEAP (16 * TCP_WINDOW_ONE)
/* Below it the rate is the limit, and the window in segments leaves room for a delayed
 * acknowledgement. */
#define TCP_WINDOW_PACED (8 * TCP_WINDOW_ONE)
/* Delays that a least one is taken of; a heavier connection hears of more of them in a time. */
#define TCP_WINDOW_SAMPLES 12u
/* From it on there is no pacing but the socket's own. */
#define TCP_WINDOW_FREE (64 * TCP_WINDOW_ONE)

struct tcp_window {
	unsigned int window;   /* 1/1024 of a segment */
	unsigned int wait_seq; /* after a cut: what is sent from here on knows of it */
	unsigned int waiting;  /* wait_seq is in force */
	unsigned int starting; /* no delay above the threshold since the start */
	unsigned int memory;   /* the window before a rest; 0: none */
	unsigned int low_ns;   /* least delay of the span under way */
	unsigned int low_before_ns;
	unsigned int low_seq;	/* that span does not end before this is acknowledged */
	unsigned int low_count; /* delays in it */
	unsigned int weight; /* times the window of a connection of weight 1; set after a start */
};

static inline void tcp_window_start(struct tcp_window *w, unsigned int window)
{
	w->window = window;
	w->waiting = 0;
	w->starting = 1;
	w->weight = 1;
	w->memory = 0;
	w->low_ns = w->low_before_ns = ~0u;
	w->low_count = 0;
}

/*
 * All that the application wrote was acknowledged: what comes next starts gently. Where it finds
 * the path empty, the window is the old one again.
 */
static inline void tcp_window_rest(struct tcp_window *w)
{
	unsigned int memory = w->window;

	tcp_window_start(w, memory < TCP_WINDOW_AGAIN ? memory : TCP_WINDOW_AGAIN);
	if (w->window < TCP_WINDOW_NEW)
		w->window = TCP_WINDOW_NEW;
	w->memory = memory / 2;
}

/*
 * The delay that a window grows by: for three quarters the least of two spans, each a round trip
 * and a number of delays long. Segments leave in bursts, and the end of a burst waits for its
 * beginning; what stands in the queue is what is there before it. The least of many is less than
 * that of few: in spans of a round trip alone a connection that had most of a path would see
 * shorter delays than the others, and keep it. Below one segment there are too few for a least one.
 */
static inline unsigned long long tcp_window_standing(struct tcp_window *w, unsigned int acked_seq,
						     unsigned int next_seq,
						     unsigned long long delay_ns)
{
	unsigned int delay = delay_ns > ~0u ? ~0u : (unsigned int)delay_ns, low;

	w->low_count++;
	if (w->low_ns == ~0u || ((int)(acked_seq - w->low_seq) >= 0 &&
				 w->low_count >= TCP_WINDOW_SAMPLES * w->weight)) {
		w->low_count = 0;
		w->low_before_ns = w->low_ns;
		w->low_ns = delay;
		w->low_seq = next_seq;
	}
	if (delay < w->low_ns)
		w->low_ns = delay;
	low = w->low_ns < w->low_before_ns ? w->low_ns : w->low_before_ns;
	return w->window < TCP_WINDOW_ONE ? delay_ns : (3ull * low + delay_ns) / 4;
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

/*
 * @acked segments came through in @delay_ns, which is not above @threshold_ns (not 0); the round
 * trip was @rtt_ns (not 0, and more than the delay). Each round trip half of a segment, less the
 * less room there is. Below half of the threshold also half of what the connection lacks to get
 * there, which is window * (threshold / 2 - delay) / rtt: others have gone, or never were. And back
 * goes an eighth of the window, at most half of what an empty path adds. Where both are the same,
 * so are the windows of all who see that delay, and those of who see another one by a wrong clock
 * not much different.
 */
static inline void tcp_window_grow(struct tcp_window *w, unsigned int acked,
				   unsigned long long delay_ns, unsigned long long threshold_ns,
				   unsigned long long rtt_ns)
{
	unsigned long long window = w->window, share = tcp_window_share(w, acked), room, up, down;

	room = (threshold_ns - delay_ns) * TCP_WINDOW_ONE / threshold_ns;
	if (w->starting) {
		up = acked * room * (window < TCP_WINDOW_LEAP ? 3 : 1);
		if (room > TCP_WINDOW_ONE / 2 && w->memory > window)
			window = w->memory;
		tcp_window_bound(w, window + up);
		return;
	}
	up = w->weight * room / 2;
	if (delay_ns < threshold_ns / 2)
		up += window * (threshold_ns / 2 - delay_ns) / (2 * rtt_ns);
	down = w->weight * TCP_WINDOW_ONE / 4 + window * threshold_ns / (8 * rtt_ns);
	if (down > window / 8)
		down = window / 8;
	window += share * up / TCP_WINDOW_ONE;
	down = share * down / TCP_WINDOW_ONE;
	tcp_window_bound(w, window > down ? window - down : 0);
}

/*
 * A delay above the threshold, told with @acked segments up to @acked_seq; @next_seq is sent next.
 * What of the connection stands in the queue above the threshold is window * (delay - threshold) /
 * rtt: four fifths of it go, at most half of the window. Returns whether the window was cut.
 */
static inline int tcp_window_cut(struct tcp_window *w, unsigned int acked, unsigned int acked_seq,
				 unsigned int next_seq, unsigned long long delay_ns,
				 unsigned long long threshold_ns, unsigned long long rtt_ns)
{
	unsigned long long much, window = w->window;

	w->starting = 0;
	if (w->waiting && (int)(acked_seq - w->wait_seq) <= 0)
		return 0;
	much = (delay_ns - threshold_ns) * (TCP_WINDOW_ONE * 4 / 5) / rtt_ns;
	if (much > TCP_WINDOW_ONE / 2)
		much = TCP_WINDOW_ONE / 2;
	if ((unsigned long long)acked * TCP_WINDOW_ONE > window)
		much = much * (window / acked) / TCP_WINDOW_ONE;
	tcp_window_bound(w, (window * (TCP_WINDOW_ONE - much)) >> 10);
	w->waiting = 1;
	w->wait_seq = next_seq;
	return 1;
}

/* The window in whole segments: never one, which would wait for a delayed acknowledgement. */
static inline unsigned int tcp_window_segments(const struct tcp_window *w)
{
	unsigned int whole = (w->window + TCP_WINDOW_ONE - 1) / TCP_WINDOW_ONE;

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
	return bytes * 1000000 / rtt_us;
}

#endif

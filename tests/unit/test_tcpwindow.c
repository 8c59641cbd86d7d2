// SPDX-License-Identifier: BSD-2-Clause
/* The window of a TCP connection by its delay, alone and many at one queue; the option's one-byte
 * bound. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "maps/maps.h"
#include "maps/tcp.h"
#include "pacing/tcpwindow.h"

#define MICROSECOND 1000ull
#define THRESHOLD (500 * MICROSECOND)
#define BASE_RTT (1000 * MICROSECOND)
#define PACKET (60 * MICROSECOND) /* 1500 bytes at 200 Mbit/s */
#define FLOWS_MAX 64
#define CUT 204
#define AIM (THRESHOLD * TCP_WINDOW_TARGET / 1024)

/* As many segments as there are in a window, acknowledged at once; all of it was used. */
static int take(struct tcp_window *w, unsigned int acked, unsigned int acked_seq,
		unsigned int next_seq, unsigned long long delay_ns)
{
	return tcp_window_sample(w, acked, acked_seq, next_seq, delay_ns, THRESHOLD,
				 BASE_RTT + delay_ns, 1);
}

Test(tcpwindow, an_empty_path_is_filled_quickly)
{
	struct tcp_window w;

	tcp_window_start(&w, TCP_WINDOW_NEW);
	w.window = 2 * TCP_WINDOW_ONE;
	take(&w, 2, 1000, 2000, 0);
	cr_assert_eq(w.window, 8 * TCP_WINDOW_ONE);
	take(&w, 8, 2000, 3000, AIM / 2);
	cr_assert_eq(w.window, 20 * TCP_WINDOW_ONE, "half of the room, half of the step");
	take(&w, 20, 3000, 4000, 0);
	cr_assert_eq(w.window, 40 * TCP_WINDOW_ONE, "twice from here on");
	cr_assert(w.starting);
	take(&w, 40, 4000, 5000, AIM);
	cr_assert_not(w.starting);
	cr_assert_eq(w.window, 40 * TCP_WINDOW_ONE, "as much as there should be in the queue");
}

Test(tcpwindow, one_cut_at_the_end_of_a_start)
{
	struct tcp_window w;

	tcp_window_start(&w, 10 * TCP_WINDOW_ONE);
	cr_assert(take(&w, 2, 1000, 5000, 2 * THRESHOLD));
	cr_assert_eq(w.window, 10 * TCP_WINDOW_ONE * (1024 - CUT) / 1024,
		     "four fifths of a quarter");
	cr_assert_not(take(&w, 2, 5000, 9000, 2 * THRESHOLD), "of data that left before");
	cr_assert_not(take(&w, 2, 5000, 9000, 0), "whatever the delay");
	cr_assert_eq(w.window, 10 * TCP_WINDOW_ONE * (1024 - CUT) / 1024);
	cr_assert(take(&w, 2, 5001, 9000, 2 * THRESHOLD));
	cr_assert(take(&w, 2, 5002, 9000, 2 * THRESHOLD), "each counts from here on");
}

Test(tcpwindow, sequence_numbers_wrap)
{
	struct tcp_window w;

	tcp_window_start(&w, 10 * TCP_WINDOW_ONE);
	cr_assert(take(&w, 1, 0xfffff000, 0x10, 2 * THRESHOLD));
	cr_assert_not(take(&w, 1, 0xfffffff0, 0x20, 2 * THRESHOLD));
	cr_assert(take(&w, 1, 0x11, 0x30, 2 * THRESHOLD));
}

Test(tcpwindow, it_stays_within_its_bounds)
{
	struct tcp_window w;

	tcp_window_start(&w, TCP_WINDOW_NEW);
	for (unsigned int i = 0; i < 100000; i++)
		take(&w, 1, i * 10 + 10, i * 10 + 9, 1000 * THRESHOLD);
	cr_assert_eq(w.window, TCP_WINDOW_MIN);
	cr_assert_eq(tcp_window_segments(&w), 2, "less is the pacing's");
	/* Of the queue, half a second, it follows a sixteenth; the rest is as long as the aim. */
	cr_assert_float_eq(w.pace_us, 1000 + 31250 + AIM / 1000 * 15 / 16, 2, "%u", w.pace_us);
	cr_assert_eq(tcp_window_rate(&w, 1000, 1000), 125000000 / w.pace_us,
		     "an eighth of a segment");
	tcp_window_start(&w, TCP_WINDOW_NEW);
	for (unsigned int i = 0; i < 100000; i++)
		take(&w, 64, i, i + 1, 0);
	cr_assert_eq(w.window, TCP_WINDOW_MAX);
	cr_assert_eq(tcp_window_rate(&w, 1000, 1000), 0, "the window alone is the limit");
}

/* Below two segments the rate follows the queue by as much as the window is of two. */
Test(tcpwindow, a_small_window_is_spread_over_a_steadier_round_trip)
{
	const unsigned int base_us = BASE_RTT / 1000, aim_us = AIM / 1000;
	struct tcp_window w;

	for (unsigned int delay_us = 0; delay_us <= 4 * aim_us; delay_us += aim_us) {
		tcp_window_start(&w, TCP_WINDOW_NEW);
		w.starting = 0;
		w.window = TCP_WINDOW_ONE / 2;
		take(&w, 0, 1000, 2000, delay_us * MICROSECOND);
		cr_assert_float_eq(w.pace_us, base_us + aim_us * 0.75 + delay_us * 0.25, 2,
				   "%u at %u", w.pace_us, delay_us);
		cr_assert_eq(tcp_window_rate(&w, 1000, 5000), 500000000ull / w.pace_us);
		w.window = TCP_WINDOW_PACED;
		take(&w, 0, 2000, 3000, delay_us * MICROSECOND);
		cr_assert_float_eq(w.pace_us, base_us + delay_us, 2, "the round trip itself");
	}
}

Test(tcpwindow, where_the_round_trip_is_long_the_step_is_less)
{
	cr_assert_eq(tcp_window_step(THRESHOLD, THRESHOLD), TCP_WINDOW_STEP_MOST);
	cr_assert_eq(tcp_window_step(THRESHOLD, 4 * THRESHOLD), TCP_WINDOW_STEP / 4);
	cr_assert_eq(tcp_window_step(THRESHOLD, 100 * THRESHOLD), TCP_WINDOW_STEP_LEAST);
}

Test(tcpwindow, what_is_not_used_does_not_grow)
{
	struct tcp_window w;

	tcp_window_start(&w, 10 * TCP_WINDOW_ONE);
	tcp_window_sample(&w, 2, 1000, 2000, 0, THRESHOLD, BASE_RTT, 0);
	cr_assert_eq(w.window, 10 * TCP_WINDOW_ONE);
	w.starting = 0;
	tcp_window_sample(&w, 2, 1000, 2000, 0, THRESHOLD, BASE_RTT, 0);
	cr_assert_eq(w.window, 10 * TCP_WINDOW_ONE);
	tcp_window_sample(&w, 2, 1000, 2000, 2 * THRESHOLD, THRESHOLD, BASE_RTT + 2 * THRESHOLD, 0);
	cr_assert_lt(w.window, 10 * TCP_WINDOW_ONE, "but it becomes less");
}

Test(tcpwindow, after_a_rest_it_starts_gently_and_remembers)
{
	struct tcp_window w;

	tcp_window_start(&w, 24 * TCP_WINDOW_ONE);
	cr_assert_eq(tcp_window_rested(&w), 6 * TCP_WINDOW_ONE);
	tcp_window_rest(&w);
	cr_assert_eq(w.window, 6 * TCP_WINDOW_ONE);
	take(&w, 1, 1000, 2000, AIM * 3 / 4);
	cr_assert_lt(w.window, 7 * TCP_WINDOW_ONE, "another flow is present");
	tcp_window_start(&w, 24 * TCP_WINDOW_ONE);
	tcp_window_rest(&w);
	take(&w, 1, 1000, 2000, 0);
	cr_assert_geq(w.window, 24 * TCP_WINDOW_ONE, "no other flow is present");
	tcp_window_start(&w, TCP_WINDOW_MAX);
	cr_assert_eq(tcp_window_rested(&w), TCP_WINDOW_REST);
	tcp_window_start(&w, TCP_WINDOW_MIN);
	tcp_window_rest(&w);
	cr_assert_eq(w.window, TCP_WINDOW_NEW);
}

/* What a window of a segment and a half is, in whole ones, in the mean of many round trips. */
Test(tcpwindow, a_part_of_a_segment_is_one_more_now_and_then)
{
	struct tcp_window w;

	for (unsigned int window = 2 * TCP_WINDOW_ONE; window < 5 * TCP_WINDOW_ONE; window += 300) {
		unsigned int from = window * 2654435761u; /* sequence numbers begin anywhere */
		double sum = 0;

		tcp_window_start(&w, window);
		w.window = window;
		w.starting = 0;
		for (unsigned int i = 1; i <= 1000; i++) {
			tcp_window_sample(&w, 2, from + i * 100, from + i * 100 + 100, 0, THRESHOLD,
					  BASE_RTT, 0);
			sum += tcp_window_segments(&w);
		}
		cr_assert_float_eq(sum / 1000, window / (double)TCP_WINDOW_ONE, 0.01, "%u: %f",
				   window, sum / 1000);
	}
}

/* Delays that are all wrong by the same: after a short time nothing is different. */
Test(tcpwindow, a_clock_that_is_wrong_changes_nothing)
{
	static const long long errors[] = {0, -50000, 50000, -100000, 100000};
	unsigned int windows[5] = {};

	for (size_t i = 0; i < 5; i++) {
		unsigned long long now = 1000000, state = 7;
		struct tcp_window w;

		tcp_window_start(&w, TCP_WINDOW_NEW);
		w.starting = 0;
		for (unsigned int turn = 1; turn < 20000; turn++, now += 300000) {
			long long delay = 20000 + (long long)((state >> 33) % 600) * 1000;
			unsigned long long above;

			state = state * 6364136223846793005ull + 1442695040888963407ull;
			if (turn % 200 == 1)
				delay = 20000;
			above = tcp_window_above(&w, delay + errors[i], THRESHOLD, now);
			if (turn > 1000)
				take(&w, 2, turn * 10, turn * 10 + 5, above);
		}
		windows[i] = w.window;
		cr_assert_eq(windows[i], windows[0], "%lld: %u, %u", errors[i], windows[i],
			     windows[0]);
	}
}

Test(tcpwindow, a_floor_is_part_of_the_threshold_and_expires)
{
	unsigned long long now = 1000000;
	struct tcp_window w;

	tcp_window_start(&w, TCP_WINDOW_NEW);
	cr_assert_eq(tcp_window_above(&w, 2 * THRESHOLD, THRESHOLD, now),
		     2 * THRESHOLD - THRESHOLD / 4, "a standing queue does not count as floor");
	cr_assert_eq(tcp_window_above(&w, -1000000, THRESHOLD, now), 0);
	cr_assert_eq(tcp_window_above(&w, 0, THRESHOLD, now), THRESHOLD / 4,
		     "nor is a clock worse");
	for (unsigned int i = 0; i < 3 * TCP_WINDOW_FLOOR_COUNT;
	     i++, now += TCP_WINDOW_FLOOR_NS / 50)
		tcp_window_above(&w, 30000, THRESHOLD, now);
	cr_assert_eq(tcp_window_above(&w, 30000, THRESHOLD, now), 0, "of the last time only");
}

struct path {
	struct tcp_window flows[FLOWS_MAX];
	double credit[FLOWS_MAX];
	unsigned int count, sequence;
	unsigned long long delay, before; /* now, and a round trip ago */
};

/* A round trip: all windows are under way, what the path does not hold is in the queue. */
static void path_turn(struct path *path, bool fresh)
{
	unsigned long long under_way = 0, rtt = BASE_RTT + path->before + 1;

	for (unsigned int i = 0; i < path->count; i++)
		under_way += path->flows[i].window;
	under_way = under_way * PACKET / TCP_WINDOW_ONE;
	path->before = path->delay;
	path->delay = under_way > BASE_RTT ? under_way - BASE_RTT : 0;
	path->sequence += 1000;
	for (unsigned int i = 0; i < path->count; i++) {
		struct tcp_window *w = &path->flows[i];
		unsigned int acked;

		path->credit[i] += w->window / (double)TCP_WINDOW_ONE;
		acked = path->credit[i] < 2 && !fresh ? 0 : (unsigned int)path->credit[i];
		path->credit[i] -= acked;
		if (acked)
			tcp_window_sample(w, acked, path->sequence + 1, path->sequence + 500,
					  path->before, THRESHOLD, rtt, 1);
	}
}

static double path_jain(const struct path *path)
{
	double sum = 0, squares = 0;

	for (unsigned int i = 0; i < path->count; i++) {
		sum += path->flows[i].window;
		squares += (double)path->flows[i].window * path->flows[i].window;
	}
	return sum * sum / (path->count * squares);
}

/* From windows that are as unequal as they come, a few seconds of round trips. */
static void settles(unsigned int count)
{
	struct path path = {.count = count};
	unsigned int idle = 0, above = 0;

	for (unsigned int i = 0; i < count; i++) {
		tcp_window_start(&path.flows[i], (i % 4 + 1) * TCP_WINDOW_ONE / 2);
		path.flows[i].starting = 0;
	}
	for (int i = 0; i < 10000; i++)
		path_turn(&path, false);
	for (int i = 0; i < 1000; i++) {
		path_turn(&path, false);
		idle += !path.delay;
		above += path.delay > THRESHOLD * 3 / 2;
	}
	cr_assert_leq(idle, 10, "%u flows: idle in %u of 1000 round trips", count, idle);
	cr_assert_leq(above, 10, "%u flows: far above the threshold in %u", count, above);
	/* Instantaneous windows: below one segment they move by a large part of themselves. */
	cr_assert_geq(path_jain(&path), count > 16 ? 0.93 : 0.98, "%u flows: Jain %f", count,
		      path_jain(&path));
}

Test(tcpwindow, any_number_of_flows_settles_below_the_threshold)
{
	static const unsigned int counts[] = {1, 2, 4, 8, 16, 40, 64};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		settles(counts[i]);
}

/* Half of @count have @weight, the others 1; their windows over some seconds. */
static double weighted_ratio(unsigned int count, unsigned int weight)
{
	struct path path = {.count = count};
	double heavy = 0, light = 0;

	for (unsigned int i = 0; i < count; i++) {
		tcp_window_start(&path.flows[i], TCP_WINDOW_NEW);
		path.flows[i].starting = 0;
		path.flows[i].weight = i < count / 2 ? weight : 1;
	}
	for (int turn = 0; turn < 20000; turn++) {
		path_turn(&path, false);
		for (unsigned int i = 0; turn >= 10000 && i < count; i++)
			*(i < count / 2 ? &heavy : &light) += path.flows[i].window;
	}
	return heavy / light;
}

Test(tcpwindow, shares_are_as_the_weights)
{
	static const unsigned int counts[] = {2, 4, 8, 16};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (unsigned int weight = 1; weight <= 4; weight++) {
			double ratio = weighted_ratio(counts[i], weight);

			cr_expect(ratio > 0.9 * weight && ratio < 1.1 * weight,
				  "%u flows, weights %u and 1: %f", counts[i], weight, ratio);
		}
}

Test(tcpwindow, a_bound_in_a_byte_is_never_too_small)
{
	for (uint64_t ns = 0; ns < ESC_TCP_BOUND_MAX_NS; ns += 1 + ns / 50) {
		uint32_t told = esc_tcp_bound_ns(esc_tcp_bound_code(ns));

		cr_assert(told >= ns && told <= ns + ns / 8 + 16, "%llu is reported as %u",
			  (unsigned long long)ns, told);
	}
	cr_assert_eq(esc_tcp_bound_ns(esc_tcp_bound_code(0)), 0);
	cr_assert_geq(esc_tcp_bound_ns(255), 8000000);
}

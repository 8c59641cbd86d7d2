// SPDX-License-Identifier: BSD-2-Clause
/*
 * The network of tests/lab/test_tcp_pace without its machine: the window's law (pacing/tcpwindow.h)
 * with 1, 2, 8, 16 and 40 connections, wrong clocks, weights and requests. TAP. Argument: the seed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/tap.h"
#include "tests/lib/sim/seeds.h"
#include "tests/lib/sim/tcp_net.h"

#define RATIO_RUNS 8

static struct seeds seeds = {.fixed = 1};
static struct tnet net;

struct figures {
	double load, median_us, p99_us, request_ms, request99_ms, jain;
	uint64_t dropped;
};

static struct figures run(const char *name)
{
	struct figures f;

	tnet_run(&net);
	f = (struct figures){
		.load = tnet_load(&net),
		.median_us = stats_percentile(&net.delays_us, 0.5),
		.p99_us = stats_percentile(&net.delays_us, 0.99),
		.request_ms = stats_percentile(&net.completions_ms, 0.5),
		.request99_ms = stats_percentile(&net.completions_ms, 0.99),
		.jain = tnet_jain(&net),
		.dropped = net.dropped,
	};
	printf("# %s: used %.3f, dropped %lu, delay %.0f/%.0f us, requests %.1f/%.1f ms, Jain "
	       "%.3f\n",
	       name, f.load, (unsigned long)f.dropped, f.median_us, f.p99_us, f.request_ms,
	       f.request99_ms, f.jain);
	tnet_free(&net);
	return f;
}

/* @longs and @shorts of eight hosts each; the clocks of four hosts are behind by so much. */
static struct figures incast(const char *name, unsigned int longs, unsigned int shorts,
			     double error_us)
{
	tnet_init(&net, seeds.seed);
	for (unsigned int i = 0; i < 8 * (longs + shorts); i++)
		tnet_add(&net, i >= 8 * longs)->clock_ns =
			(int64_t)(i % 8 < 4 ? -error_us * 1e3 : 0);
	return run(name);
}

static void test_incast(void)
{
	struct figures f = incast("8 long, 8 short", 1, 1, 0), many;

	tap_ok(!f.dropped, "16 connections: nothing is dropped");
	tap_ok(f.median_us < 500 && f.p99_us < 1600,
	       "delay: the median below the threshold, the 99th not far above a millisecond more");
	tap_ok(f.load > 0.97 && f.jain > 0.98, "the link is used, alike");
	many = incast("16 long, 24 short", 2, 3, 0);
	tap_ok(many.jain > 0.97 && many.median_us < 500 && many.load > 0.98,
	       "40 connections, more than the queue has room for: the median below the threshold");
	many = incast("40 long", 5, 0, 0);
	tap_ok(!many.dropped && many.p99_us < 1.5 * many.median_us && many.load > 0.98,
	       "40 that receive seldom: the queue does not swing");
}

/* With errors that the floor does not reach the shares do differ: the simulation can fail. */
static void test_clocks(void)
{
	tap_ok(incast("clocks behind by 25 us", 1, 1, 25).jain > 0.98 &&
		       incast("by 50 us", 1, 1, 50).jain > 0.98,
	       "half of the clocks behind by a tenth of the threshold: shares as without");
	tap_ok(incast("ahead by 50 us", 1, 1, -50).jain > 0.98, "and ahead");
	tap_ok(incast("behind by 300 us", 1, 1, 300).jain < 0.9,
	       "a clock worse than a quarter of the threshold has its effect");
}

static void test_alone(void)
{
	struct figures f;

	tnet_init(&net, seeds.seed);
	tnet_add(&net, false);
	f = run("one alone");
	tap_ok(f.load > 0.97 && f.median_us < 500, "one connection alone uses the link");
	for (int again = 0; again < 3; again++) {
		tnet_init(&net, seeds.seed + (uint64_t)again);
		net.warm_s = 2;
		tnet_add(&net, false);
		tnet_add(&net, false)->start_ns = 1000000000;
		tap_ok(run("two, a second apart").jain > 0.96, "the second one gets as much");
	}
}

/* A threshold of 5 ms on a path of 0.25: the window of each is in the queue. */
static void test_short_path(void)
{
	struct figures f;

	tnet_init(&net, seeds.seed);
	net.link_bps = 100e6;
	net.queue_bytes = 250000;
	net.threshold_ns = 5e6;
	net.back_ns = 100e3;
	for (int i = 0; i < 16; i++)
		tnet_add(&net, false);
	f = run("16 long, a threshold of twenty RTTs");
	tap_ok(f.jain > 0.9 && f.load > 0.97 && !f.dropped,
	       "a threshold of twenty RTTs: 16 get alike");
}

static void test_request(void)
{
	double took[2];

	for (int limited = 0; limited < 2; limited++) {
		tnet_init(&net, seeds.seed);
		net.least = net.most = 70;
		tnet_add(&net, true)->free = !limited;
		took[limited] = run(limited ? "a request alone" : "not limited").request_ms;
	}
	tap_ok(took[1] < 1.2 * took[0],
	       "100 KB on an idle network take less than 1.2 times as long");
}

static double ratio_once(unsigned int weight, uint64_t seed)
{
	double heavy = 0, light = 0;

	tnet_init(&net, seed);
	net.warm_s = 2;
	for (int i = 0; i < 8; i++)
		tnet_add(&net, false)->weight = i < 4 ? weight : 1;
	run("8 by weight");
	for (int i = 0; i < 8; i++)
		*(i < 4 ? &heavy : &light) += (double)net.flows[i].arrived;
	return heavy / light;
}

/* In the mean of some runs: the shares of a single one are up to 6% from equal. */
static double ratio(unsigned int weight)
{
	double sum = 0;

	for (uint64_t i = 0; i < RATIO_RUNS; i++)
		sum += ratio_once(weight, seeds.seed + i);
	return sum / RATIO_RUNS;
}

/* The lab is nearer to the weights: a larger weight has longer bursts, here even more so. */
static void test_weights(void)
{
	double equal = ratio(1), three = ratio(3);

	tap_ok(equal > 0.95 && equal < 1.05, "equal weights: %.2f", equal);
	tap_ok(three > 2 && three < 3.3, "weights of 3 and 1: %.2f", three);
}

static void test(void)
{
	test_incast();
	test_clocks();
	test_alone();
	test_short_path();
	test_request();
	test_weights();
}

int main(int count, char **words)
{
	seeds.argument = count > 1 ? words[1] : NULL;
	seeds_plan(&seeds, 16);
	while (seeds_next(&seeds))
		test();
	return tap.failed ? 1 : 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* Pairs, the line between the clouds, and an edge's memory of its path. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "clocksync/edge.h"
#include "tests/lib/rng.h"

#define SEED 20240607
#define MS 1000000ll

Test(clock_pairs, a_pair_keeps_its_spacing_or_is_dropped)
{
	struct pairs_filter filter;
	struct clock_probe probe = {1000, 5000, 1};

	pairs_init(&filter);
	cr_assert_eq(pairs_add(&filter, CLOCK_FORWARD, &probe), PAIRS_FIRST);
	probe.tx_ns += 5000;
	probe.rx_ns += 5010;
	cr_assert_eq(pairs_add(&filter, CLOCK_FORWARD, &probe), PAIRS_KEPT);
	probe = (struct clock_probe){20000, 24000, 2};
	cr_assert_eq(pairs_add(&filter, CLOCK_FORWARD, &probe), PAIRS_FIRST);
	probe.tx_ns += 5000;
	probe.rx_ns += 9000;
	cr_assert_eq(pairs_add(&filter, CLOCK_FORWARD, &probe), PAIRS_STRETCHED);
}

Test(clock_pairs, a_lost_half_and_the_other_direction_are_distinguished)
{
	struct pairs_filter filter;
	struct clock_probe probe = {1000, 5000, 1};

	pairs_init(&filter);
	pairs_add(&filter, CLOCK_FORWARD, &probe);
	cr_assert_eq(pairs_add(&filter, CLOCK_BACKWARD, &probe), PAIRS_FIRST);
	probe.pair = 2;
	cr_assert_eq(pairs_add(&filter, CLOCK_FORWARD, &probe), PAIRS_FIRST);
}

static void feed_pairs(struct pairs_filter *filter, struct rng *rng, double noise, double load)
{
	pairs_init(filter);
	for (uint32_t round = 0, pair = 0; round < 40; round++) {
		for (int i = 0; i < 200; i++, pair++) {
			int64_t t = 1000000000 + pair * MS;
			double wait = rng_unit(rng) < load ? 20000 * rng_unit(rng) : 0;
			struct clock_probe probe = {t + (int64_t)(noise * rng_normal(rng)),
						    t + (int64_t)(noise * rng_normal(rng)), pair};

			pairs_add(filter, CLOCK_FORWARD, &probe);
			probe.tx_ns = t + 5000 + (int64_t)(noise * rng_normal(rng));
			probe.rx_ns = t + 5000 + (int64_t)(wait + noise * rng_normal(rng));
			pairs_add(filter, CLOCK_FORWARD, &probe);
		}
		pairs_adapt(filter);
	}
}

Test(clock_pairs, the_tolerance_follows_the_noise_of_the_timestamps)
{
	static const double noises[] = {4, 15, 40};
	struct pairs_filter filter;
	struct rng rng;

	rng_seed(&rng, SEED);
	for (int i = 0; i < 3; i++) {
		feed_pairs(&filter, &rng, noises[i], 0.3);
		cr_assert_not(filter.no_knee);
		cr_assert(filter.noise_ns > 0.6 * noises[i] && filter.noise_ns < 1.6 * noises[i],
			  "noise %.1f taken for %.1f", noises[i], filter.noise_ns);
		cr_assert(filter.tolerance_ns >= 2 * noises[i] &&
			  filter.tolerance_ns <= 12 * noises[i]);
	}
	feed_pairs(&filter, &rng, 4, 1);
	cr_assert(filter.no_knee, "with queues only there is no knee");
}

/* As between emulated machines: of 1,000 pairs in five rounds some 15 keep their spacing, and few
 * nearly do. */
Test(clock_pairs, chance_is_no_knee)
{
	struct pairs_filter filter;
	struct rng rng;

	rng_seed(&rng, SEED);
	pairs_init(&filter);
	for (uint32_t round = 0, pair = 0; round < 500; round++) {
		for (int i = 0; i < 200; i++, pair++) {
			struct clock_probe probe = {pair * MS, pair * MS, pair};
			double spread_ns = rng_unit(&rng) < 0.015 ? 60 : 100000;

			pairs_add(&filter, CLOCK_FORWARD, &probe);
			probe.tx_ns += 5000;
			probe.rx_ns += 5000 + (int64_t)(spread_ns * (rng_unit(&rng) - 0.5));
			pairs_add(&filter, CLOCK_FORWARD, &probe);
		}
		pairs_adapt(&filter);
		cr_assert(filter.no_knee, "round %u: noise %.1f", round, filter.noise_ns);
	}
}

Test(clock_pairs, timestamps_of_a_falseticker_do_not_overflow)
{
	struct pairs_filter filter;
	struct clock_probe probe = {INT64_MIN, INT64_MAX, 1};

	pairs_init(&filter);
	pairs_add(&filter, CLOCK_FORWARD, &probe);
	probe = (struct clock_probe){INT64_MAX, INT64_MIN, 1};
	pairs_add(&filter, CLOCK_FORWARD, &probe);
}

Test(clock_edgefit, too_few_points_are_refused)
{
	double x[2] = {0, 1}, y[2] = {5, 5}, scratch[4];
	struct edgefit_side side[2] = {{x, y, 2}, {x, y, 1}};
	struct edgefit_hint hint = EDGEFIT_NO_HINT;
	struct edgefit_line line;
	size_t k[2] = {2, 2};

	cr_assert_eq(edgefit_solve(side, k, &hint, scratch, &line), -EINVAL);
	cr_assert_eq(edgefit_adapt(side, k, 16, &hint, scratch, &line), -EINVAL);
}

Test(clock_edgefit, no_slope_is_better_than_the_one_found)
{
	double x[2][60], y[2][60], scratch[120];
	struct edgefit_side side[2] = {{x[0], y[0], 60}, {x[1], y[1], 60}};
	struct rng rng;

	rng_seed(&rng, SEED);
	for (int p = 0; p < 300; p++) {
		size_t k[2] = {1 + rng_below(&rng, 20), 1 + rng_below(&rng, 20)};
		struct edgefit_hint hint = EDGEFIT_NO_HINT;
		struct edgefit_line line, other;

		for (int s = 0; s < 2; s++)
			for (int i = 0; i < 60; i++) {
				x[s][i] = 2 * rng_unit(&rng) - 1;
				y[s][i] = (s ? -1 : 1) * 3000 * rng_exponential(&rng) +
					  20000 * x[s][i];
			}
		cr_assert_eq(edgefit_solve(side, k, &hint, scratch, &line), 0);
		for (int i = 0; i < 40; i++) {
			double slope = line.slope_ppb + 100 * rng_normal(&rng) * pow(10, -(i % 5));

			hint.slope_ppb = hint.least_ppb = hint.most_ppb = slope;
			edgefit_solve(side, k, &hint, scratch, &other);
			cr_assert_leq(other.value, line.value + 1e-6);
		}
	}
}

/* Probes both ways for @seconds; returns local time at the end. */
struct path {
	double offset_ns, drift_ppb, forward_ns, backward_ns, load, noise_ns;
	double wait_ns; /* up to it; the shorter the rarer, by its fifth power */
};

static int64_t feed(struct edge *edge, struct rng *rng, const struct path *path, int64_t from_ns,
		    double seconds, struct edge_scratch *scratch)
{
	int64_t to_ns = from_ns + (int64_t)(seconds * 1e9);
	uint32_t pair = (uint32_t)(from_ns / MS);

	for (int64_t t = from_ns; t < to_ns; t += MS, pair++) {
		for (int half = 0; half < 2; half++)
			for (int s = 0; s < 2; s++) {
				int64_t at = t + half * 5000;
				double delay = s ? path->backward_ns : path->forward_ns, remote;
				struct clock_probe probe = {.pair = pair};

				if (path->wait_ns > 0)
					delay += path->wait_ns * pow(rng_unit(rng), 0.2);
				for (int hop = 0; hop < 3; hop++)
					if (rng_unit(rng) < path->load)
						delay += 8000 * rng_exponential(rng);
				remote = path->offset_ns + path->drift_ppb * 1e-9 * (double)at;
				if (s) {
					probe.tx_ns =
						at + (int64_t)(remote - delay +
							       path->noise_ns * rng_normal(rng));
					probe.rx_ns =
						at + (int64_t)(path->noise_ns * rng_normal(rng));
				} else {
					probe.tx_ns =
						at + (int64_t)(path->noise_ns * rng_normal(rng));
					probe.rx_ns =
						at + (int64_t)(remote + delay +
							       path->noise_ns * rng_normal(rng));
				}
				edge_add(edge, (enum clock_side)s, &probe, at + 100000);
			}
		if (t % (250 * MS) == 0)
			edge_fit(edge, t, NULL, scratch);
	}
	edge_fit(edge, to_ns, NULL, scratch);
	return to_ns;
}

static double error_of(const struct edge_estimate *estimate, const struct path *path)
{
	return (double)estimate->offset_ns + estimate->offset_fraction_ns - path->offset_ns -
	       path->drift_ppb * 1e-9 * (double)estimate->local_ns;
}

Test(clock_edge, offset_drift_and_floor_are_found_at_every_load)
{
	struct edge *edge = malloc(sizeof(*edge));
	struct edge_scratch *scratch = malloc(sizeof(*scratch));
	struct rng rng;

	rng_seed(&rng, SEED);
	for (int i = 0; i < 3; i++) {
		struct path path = {123456789, 21000, 1500, 1500, 0.35 * i, 4, 0};

		edge_init(edge, 2000 * MS);
		feed(edge, &rng, &path, 10000 * MS, 4, scratch);
		cr_assert(edge->estimate.valid && !edge->estimate.flagged);
		cr_assert_lt(fabs(error_of(&edge->estimate, &path)), 8, "load %d", i);
		cr_assert_lt(fabs(edge->estimate.drift_ppb - path.drift_ppb), 25);
		cr_assert_lt(fabs(edge->estimate.floor_ns - 1500), 10);
		cr_assert_lt(edge->estimate.noise_ns, 8);
	}
	free(edge);
	free(scratch);
}

/* Near the clock models' drift, unless packets had then arrived before they were sent. */
Test(clock_edge, a_prior_that_the_points_refute_is_not_used)
{
	static const struct {
		double off_ppb;
		bool used;
	} cases[] = {{100, true}, {-1000, true}, {20000, false}, {-90000, false}};
	struct edge *edge = malloc(sizeof(*edge));
	struct edge_scratch *scratch = malloc(sizeof(*scratch));
	struct path path = {123456789, 21000, 1500, 1500, 0.35, 4, 0};
	struct rng rng;

	rng_seed(&rng, SEED);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct edge_prior prior = {.known = true, .span_ppb = 200};
		double away_ppb;
		int64_t now_ns;

		prior.drift_ppb = path.drift_ppb + cases[i].off_ppb;
		edge_init(edge, 2000 * MS);
		now_ns = feed(edge, &rng, &path, 10000 * MS, 4, scratch);
		cr_assert_eq(edge_fit(edge, now_ns, &prior, scratch), 0);
		away_ppb = fabs(edge->estimate.drift_ppb - prior.drift_ppb);
		cr_expect_eq(away_ppb <= prior.span_ppb + 1e-6, cases[i].used, "%g ppb off: %g",
			     cases[i].off_ppb, away_ppb);
		if (!cases[i].used)
			cr_expect_lt(fabs(edge->estimate.drift_ppb - path.drift_ppb), 25);
	}
	free(edge);
	free(scratch);
}

/*
 * As between emulated machines: the lowest of thousands of delays are microseconds apart, and
 * scatter so. Once packets are clean they alone count.
 */
Test(clock_edge, where_no_packet_is_clean_the_lowest_are_averaged)
{
	struct edge *edge = malloc(sizeof(*edge));
	struct edge_scratch *scratch = malloc(sizeof(*scratch));
	struct path path = {123456789, 0, 50000, 50000, 0, 0, 200000};
	struct edge_prior prior = {.known = true, .span_ppb = 1000};
	double squares = 0, sigma = 0;
	int64_t now_ns = 10000 * MS;
	const int windows = 60;
	struct rng rng;

	rng_seed(&rng, SEED);
	edge_init(edge, 2000 * MS);
	now_ns = feed(edge, &rng, &path, now_ns, 15, scratch);
	for (int i = 0; i < windows; i++) {
		now_ns = feed(edge, &rng, &path, now_ns, 2, scratch);
		cr_assert_eq(edge_fit(edge, now_ns, &prior, scratch), 0);
		squares += pow(error_of(&edge->estimate, &path), 2) / windows;
		sigma += edge->estimate.offset_sigma_ns / windows;
	}
	cr_expect_lt(sqrt(squares), 4000, "off by %.0f ns", sqrt(squares));
	cr_expect(sigma > sqrt(squares) / 2 && sigma < 3 * sqrt(squares),
		  "off by %.0f ns, said to be by %.0f", sqrt(squares), sigma);
	cr_expect_eq(edge_pair_interval(edge, 8000), 8000);
	cr_expect_geq(edge->estimate.averaged, 4);
	path.wait_ns = 0;
	path.noise_ns = 20;
	feed(edge, &rng, &path, now_ns, 10, scratch);
	cr_expect_lt(fabs(error_of(&edge->estimate, &path)), 20);
	cr_expect_lt(edge->estimate.noise_ns, 40);
	cr_expect_lt(edge->estimate.offset_sigma_ns, 20);
	cr_expect_eq(edge->estimate.averaged, 0);
	/* Of a longer window a part. */
	path.wait_ns = 200000;
	edge_init(edge, 10000 * MS);
	feed(edge, &rng, &path, 10000 * MS, 15, scratch);
	cr_expect_float_eq(edge->estimate.window_s, 2.5, 1e-9);
	free(edge);
	free(scratch);
}

Test(clock_edge, no_points_no_fit_and_old_ones_are_dropped)
{
	struct edge *edge = malloc(sizeof(*edge));
	struct edge_scratch *scratch = malloc(sizeof(*scratch));
	struct path path = {0, 0, 1000, 1000, 0, 4, 0};
	struct rng rng;
	int64_t now;

	rng_seed(&rng, SEED);
	edge_init(edge, 2000 * MS);
	cr_assert_eq(edge_fit(edge, 10000 * MS, NULL, scratch), -ENODATA);
	now = feed(edge, &rng, &path, 10000 * MS, 3, scratch);
	cr_assert(edge->estimate.valid);
	cr_assert_eq(edge_fit(edge, now + 2500 * MS, NULL, scratch), -ENODATA);
	cr_assert_not(edge->estimate.valid);
	free(edge);
	free(scratch);
}

Test(clock_edge, a_new_path_does_not_move_the_offset_until_it_has_stayed)
{
	struct edge *edge = malloc(sizeof(*edge));
	struct edge_scratch *scratch = malloc(sizeof(*scratch));
	struct path path = {5000, 0, 1000, 1000, 0, 4, 0};
	struct rng rng;
	int64_t now;

	rng_seed(&rng, SEED);
	edge_init(edge, 2000 * MS);
	now = feed(edge, &rng, &path, 10000 * MS, 4, scratch);
	cr_assert_lt(edge->estimate.offset_sigma_ns, 3);
	path.forward_ns += 600;
	now = feed(edge, &rng, &path, now, 0.7, scratch);
	path.forward_ns -= 600;
	cr_assert(fabs(error_of(&edge->estimate, &path)) < 20 ||
		  edge->estimate.offset_sigma_ns > 20);
	path.forward_ns += 600;
	feed(edge, &rng, &path, now, 5, scratch);
	cr_assert_lt(edge->estimate.offset_sigma_ns, 3);
	cr_assert_lt(fabs(edge->estimate.floor_ns - 1300), 10);
	free(edge);
	free(scratch);
}

Test(clock_edge, a_peer_with_wrong_copies_of_our_timestamps_does_not_stop_the_window)
{
	struct edge *edge = malloc(sizeof(*edge));
	struct edge_scratch *scratch = malloc(sizeof(*scratch));
	struct path path = {5000, 0, 1000, 1000, 0, 4, 0};
	struct clock_probe probe = {INT64_MAX - 5, 7, 9};
	struct rng rng;
	int64_t now;

	rng_seed(&rng, SEED);
	edge_init(edge, 2000 * MS);
	now = feed(edge, &rng, &path, 10000 * MS, 1, scratch);
	edge_add(edge, CLOCK_FORWARD, &probe, now);
	probe.tx_ns = now + 3600000 * MS;
	edge_add(edge, CLOCK_FORWARD, &probe, now);
	probe.tx_ns = -5;
	edge_add(edge, CLOCK_FORWARD, &probe, now);
	feed(edge, &rng, &path, now, 2, scratch);
	cr_assert(edge->estimate.valid);
	cr_assert_lt(fabs(error_of(&edge->estimate, &path)), 5);
	free(edge);
	free(scratch);
}

Test(clock_edge, together_edges_send_no_more_than_the_budget)
{
	cr_assert_eq(edge_stretch(40, 10), 4);
	cr_assert_eq(edge_stretch(4, 10), 1); /* fewer are not made more */
	cr_assert_eq(edge_stretch(40, 0), 1);
}

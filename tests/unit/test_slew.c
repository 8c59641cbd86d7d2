// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "clocksync/slew.h"
#include "tests/lib/rng.h"

#define ROUND_NS 250000000ll
#define WIDTH_NS 60

/* A local clock that runs @ppb faster than raw time from @at_ns of it on; a reading each round. */
struct clocks {
	struct rng rng;
	struct slew slew;
	double ppb;
	int64_t at_ns;
	double total_ppb; /* of all changes, one after another */
	unsigned int changes, first;
};

static int64_t local_at(const struct clocks *clocks, int64_t raw_ns)
{
	double since_ns = (double)(raw_ns - clocks->at_ns);

	/* CLOCK_MONOTONIC and the counter have rates of their own before, too. */
	return 5000000000ll + raw_ns + llrint((double)raw_ns * 12345e-9) +
	       (since_ns > 0 ? llrint(since_ns * clocks->ppb * 1e-9) : 0);
}

static void run(struct clocks *clocks, unsigned int from, unsigned int to, int64_t width_ns)
{
	for (unsigned int i = from; i < to; i++) {
		int64_t raw_ns =
			1000000000000ll + i * ROUND_NS + (int64_t)rng_below(&clocks->rng, 3000000);
		struct slew_reading reading = {
			.local_ns = local_at(clocks, raw_ns) +
				    (int64_t)rng_below(&clocks->rng, (uint64_t)width_ns + 1) -
				    width_ns / 2,
			.raw_ns = raw_ns,
			.width_ns = width_ns};
		struct slew_change change;

		if (!slew_add(&clocks->slew, &reading, &change))
			continue;
		clocks->first = clocks->changes++ ? clocks->first : i;
		clocks->total_ppb += change.ppb * (1 + clocks->total_ppb * 1e-9);
		cr_expect_leq(change.from_ns, change.until_ns);
		cr_expect_leq(change.until_ns, reading.local_ns);
	}
}

Test(slew, a_steady_rate_is_no_change)
{
	struct clocks clocks = {};

	rng_seed(&clocks.rng, 1);
	run(&clocks, 0, 2000, WIDTH_NS);
	cr_expect_eq(clocks.changes, 0);
	/* A process that is delayed between the readings widens them. */
	run(&clocks, 2000, 2040, 40000);
	run(&clocks, 2040, 3000, WIDTH_NS);
	cr_expect_eq(clocks.changes, 0);
	cr_expect_float_eq(clocks.slew.rate_ppb, 12345, 1);
}

Test(slew, a_change_is_seen_in_the_next_round_and_known_after_two)
{
	static const double changes_ppb[] = {1000, 5000, 100000, -500000, 80000000};

	for (unsigned int i = 0; i < sizeof(changes_ppb) / sizeof(changes_ppb[0]); i++) {
		struct clocks clocks = {.ppb = changes_ppb[i],
					.at_ns = 1000000000000ll + 100 * ROUND_NS + 70000000};

		rng_seed(&clocks.rng, i + 2);
		run(&clocks, 0, 400, WIDTH_NS);
		cr_expect_geq(clocks.changes, 1, "%g ppb", changes_ppb[i]);
		cr_expect_leq(clocks.first, 102, "%g ppb: round %u", changes_ppb[i], clocks.first);
		cr_expect_geq(clocks.first, 101);
		/* In all: two readings of a round are off by half of their width each. */
		cr_expect_float_eq(clocks.total_ppb, changes_ppb[i],
				   2.0 * WIDTH_NS / (ROUND_NS * 1e-9) + 1e-4 * fabs(changes_ppb[i]),
				   "%g ppb: %g", changes_ppb[i], clocks.total_ppb);
		cr_expect_eq(clocks.slew.changes, 1, "%g ppb: %u", changes_ppb[i],
			     (unsigned int)clocks.slew.changes);
	}
}

/* Below the noise of one round: it shows over several, and is dated to when it began. */
Test(slew, a_small_change_is_seen_later_and_known_as_well)
{
	static const double changes_ppb[] = {50, -100, 200, 300};

	for (unsigned int i = 0; i < sizeof(changes_ppb) / sizeof(changes_ppb[0]); i++) {
		struct clocks clocks = {.ppb = changes_ppb[i],
					.at_ns = 1000000000000ll + 400 * ROUND_NS + 70000000};

		rng_seed(&clocks.rng, i + 20);
		run(&clocks, 0, 401, WIDTH_NS);
		cr_expect_eq(clocks.changes, 0);
		run(&clocks, 401, 700, WIDTH_NS);
		cr_expect_geq(clocks.changes, 1, "%g ppb", changes_ppb[i]);
		cr_expect_leq(clocks.first, 432, "%g ppb: round %u", changes_ppb[i], clocks.first);
		cr_expect_float_eq(clocks.total_ppb, changes_ppb[i], 25, "%g ppb: %g",
				   changes_ppb[i], clocks.total_ppb);
		cr_expect(clocks.slew.noise_ns > 0.6 * WIDTH_NS / sqrt(12) &&
				  clocks.slew.noise_ns < 1.6 * WIDTH_NS / sqrt(12),
			  "%g", clocks.slew.noise_ns);
		/* For the bound it counts for minutes, and is forgotten. */
		cr_expect_geq(clocks.slew.peak_ppb, 0.5 * fabs(changes_ppb[i]));
		run(&clocks, 700, 30000, WIDTH_NS);
		cr_expect_lt(clocks.slew.peak_ppb, 1);
	}
}

/* What a neighbor sends: points of before its clock's change are on one line with those after. */
Test(slew, a_peers_points_are_those_of_its_new_rate)
{
	enum { ROUND = 250000000, CHANGE = 20 };
	static const double ppb = 1000, true_ppb = 4000;
	struct clock_view view = {.state = CLOCK_SYNCED, .bound_ns = 100};
	struct clock_line line = {.fabric_ns = 7000000000ll, .rate_ppb = -true_ppb};
	struct edge edge;
	double worst = 0;

	edge_init(&edge, 2000000000ll);
	for (int64_t at = 1; at < 24 * 50; at++) {
		int64_t now_ns = at * ROUND / 50, since = now_ns - (int64_t)CHANGE * ROUND;
		double ahead_ns = true_ppb * 1e-9 * (double)now_ns +
				  (since > 0 ? ppb * 1e-9 * (double)since : 0);
		struct clock_probe probe = {now_ns, now_ns + llrint(ahead_ns) + 500, (uint32_t)at};

		edge_add(&edge, CLOCK_FORWARD, &probe, now_ns);
		if (at % 50)
			continue;
		line = clock_line_move(&line, now_ns + llrint(ahead_ns), 0.5 * (at % 3));
		line.rate_ppb = -true_ppb - (at > CHANGE * 50 ? ppb : 0) + (double)(at % 7) / 7;
		if (at == (CHANGE + 1) * 50) /* its clock was slewed since the view before */
			line = clock_line_move(&line, line.local_ns, -ppb * 1e-9 * ROUND);
		clock_view_put(&view, &line);
		slew_peer(&edge, &view);
	}
	for (int b = 0; b < EDGE_BUCKETS; b++)
		for (int p = 0; p < edge.buckets[b].all[0].count; p++) {
			const struct edge_point *point = &edge.buckets[b].all[0].points[p];
			double after_s = ((double)point->x_ns - (double)CHANGE * ROUND) * 1e-9;
			double from = (double)CHANGE * ROUND * 1e-9 * true_ppb + 500;

			worst = fmax(worst,
				     fabs((double)point->y_ns - from - (true_ppb + ppb) * after_s));
		}
	/* Corrections of a nanosecond date the change to a millisecond, 1 ns of it. */
	cr_expect_lt(worst, 12, "%g", worst);
}

Test(slew, a_clock_that_was_set_is_another_one)
{
	struct slew slew = {};
	struct slew_change change;
	struct slew_reading reading = {.width_ns = WIDTH_NS};

	for (unsigned int i = 0; i < 20; i++) {
		reading.raw_ns += ROUND_NS;
		reading.local_ns += ROUND_NS;
		cr_expect_not(slew_add(&slew, &reading, &change));
	}
	reading.raw_ns += ROUND_NS;
	reading.local_ns += 3600000000000ll;
	cr_expect_not(slew_add(&slew, &reading, &change));
	reading.raw_ns -= 2 * ROUND_NS;
	cr_expect_not(slew_add(&slew, &reading, &change));
	cr_expect_eq(slew.readings, 1);
}

/* Points of before are where they would be had the clock always run as it does now. */
Test(slew, points_and_lines_are_those_of_the_new_rate)
{
	const struct slew_change change = {
		.from_ns = 10000000000ll, .until_ns = 10250000000ll, .ppb = 100000};
	static struct edge edge;
	static struct hostclock host;
	struct edge_cell *cell;
	double fraction_ns;
	int64_t x_ns = 9000000000ll, bucket;

	edge_init(&edge, 2000000000ll);
	bucket = x_ns / edge.bucket_ns;
	cell = &edge.buckets[bucket % EDGE_BUCKETS].all[0];
	edge.buckets[bucket % EDGE_BUCKETS].index = bucket;
	cell->points[cell->count++] = (struct edge_point){.x_ns = x_ns, .y_ns = 777000};
	edge.buckets[(bucket + 18) % EDGE_BUCKETS].index = 10100000000ll / edge.bucket_ns;
	edge.slope_ppb = 500;
	slew_edge(&edge, &change);
	/* A second before the change it is 100 us earlier by the clock that runs faster. */
	cr_expect_eq(cell->points[0].x_ns, x_ns - 100000);
	cr_expect_eq(cell->points[0].y_ns, 777000 + 100000);
	cr_expect_eq(edge.buckets[(bucket + 18) % EDGE_BUCKETS].index, -1);
	cr_expect_float_eq(edge.slope_ppb, 500 - 100000, 20);

	hostclock_init(&host, &(struct hostclock_config){.degree = 4}, 0);
	host.consensus.has_line = true;
	host.consensus.line = (struct clock_line){
		.local_ns = 9900000000ll, .fabric_ns = 5000000000ll, .rate_ppb = 2000};
	slew_host(&host, &change);
	/* At the change as before; a second of the faster clock later 100 us less. */
	cr_expect_eq(clock_line_at(&host.consensus.line, 10000000000ll, &fraction_ns) +
			     llrint(fraction_ns),
		     5100000200ll);
	cr_expect_float_eq(
		(double)clock_line_at(&host.consensus.line, 11000000000ll, &fraction_ns) +
			fraction_ns,
		6100000200.0 + 2000 - 100000, 15);
}

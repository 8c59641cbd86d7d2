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

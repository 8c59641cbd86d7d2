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

/* A peer whose line changes its rate by PEER_PPB, and its clock by a part of that. */
struct peer_run {
	struct edge edge;
	struct rng rng;
	double shown;	   /* 1: its clock was slewed, 0: it corrected its line */
	double wait_ns;	   /* mean that a packet waits */
	int64_t interval;  /* rounds / this: between probes */
	double span_ppb;   /* of the clock models' drift */
	unsigned unproven; /* rounds in which it was not known which */
	double worst_ns;   /* of a point, off the line with its rate of now */
};

#define PEER_CHANGE 20 /* the round */
#define PEER_PPB 1000.0
#define PEER_TRUE_PPB 4000.0
#define PEER_PATH_NS 500

static double peer_ahead_ns(const struct peer_run *run, int64_t now_ns)
{
	int64_t since_ns = now_ns - (int64_t)PEER_CHANGE * ROUND_NS;

	return PEER_TRUE_PPB * 1e-9 * (double)now_ns +
	       (since_ns > 0 ? run->shown * PEER_PPB * 1e-9 * (double)since_ns : 0);
}

static void peer_probe(struct peer_run *run, int64_t now_ns, uint32_t pair)
{
	double wait_ns[2] = {run->wait_ns * rng_exponential(&run->rng),
			     run->wait_ns * rng_exponential(&run->rng)};
	int64_t remote_ns = now_ns + llrint(peer_ahead_ns(run, now_ns));
	struct clock_probe there = {now_ns, remote_ns + PEER_PATH_NS + llrint(wait_ns[0]), pair};
	struct clock_probe back = {remote_ns, now_ns + PEER_PATH_NS + llrint(wait_ns[1]), pair};

	edge_add(&run->edge, CLOCK_FORWARD, &there, now_ns);
	edge_add(&run->edge, CLOCK_BACKWARD, &back, now_ns);
}

static void peer_view(const struct peer_run *run, struct clock_line *line, int64_t now_ns,
		      int64_t round)
{
	bool after = round > PEER_CHANGE;

	*line = clock_line_move(line, now_ns + llrint(peer_ahead_ns(run, now_ns)),
				0.5 * (double)(round % 3));
	line->rate_ppb = -PEER_TRUE_PPB - (after ? PEER_PPB : 0) + (double)(round % 7) / 7;
	if (round == PEER_CHANGE + 1) /* in effect since the view before */
		*line = clock_line_move(line, line->local_ns, -PEER_PPB * 1e-9 * ROUND_NS);
}

static void peer_run(struct peer_run *run, int64_t rounds)
{
	static struct edge_scratch scratch;
	struct clock_view view = {.state = CLOCK_SYNCED, .bound_ns = 300000};
	struct clock_line line = {.fabric_ns = 7000000000ll, .rate_ppb = -PEER_TRUE_PPB};
	struct edge_prior prior = {.known = true, .span_ppb = run->span_ppb};

	rng_seed(&run->rng, 7);
	edge_init(&run->edge, 2000000000ll);
	for (int64_t at = 1; at < rounds * run->interval; at++) {
		int64_t now_ns = at * ROUND_NS / run->interval;

		peer_probe(run, now_ns, (uint32_t)at);
		if (at % run->interval)
			continue;
		peer_view(run, &line, now_ns, at / run->interval);
		clock_view_put(&view, &line);
		slew_peer(&run->edge, &view, now_ns, &scratch);
		run->unproven += run->edge.peer.unproven;
		prior.drift_ppb = -line.rate_ppb;
		edge_fit(&run->edge, now_ns, &prior, &scratch);
		if (run->edge.peer.unproven)
			cr_expect_float_eq(run->edge.estimate.drift_ppb, prior.drift_ppb, 1e-3);
	}
	for (int b = 0; b < EDGE_BUCKETS; b++)
		for (int p = 0; p < run->edge.buckets[b].all[0].count; p++) {
			const struct edge_point *point = &run->edge.buckets[b].all[0].points[p];
			double ahead_ns = (double)PEER_CHANGE * ROUND_NS * 1e-9 * PEER_TRUE_PPB +
					  ((double)point->x_ns - (double)PEER_CHANGE * ROUND_NS) *
						  1e-9 * (PEER_TRUE_PPB + run->shown * PEER_PPB);

			run->worst_ns = fmax(run->worst_ns,
					     fabs((double)point->y_ns - ahead_ns - PEER_PATH_NS));
		}
}

/* What a neighbor sends: points of before its clock's change are on one line with those after. */
Test(slew, a_peers_points_are_those_of_its_new_rate)
{
	struct peer_run run = {.shown = 1, .interval = 50, .span_ppb = 200};

	peer_run(&run, 24);
	/* Corrections of a nanosecond date the change to a millisecond, 1 ns of it. */
	cr_expect_lt(run.worst_ns, 12, "%g", run.worst_ns);
	cr_expect_leq(run.unproven, 3, "%u", run.unproven);
}

/* The same view where it had corrected its line: its points show that its clock runs as before. */
Test(slew, a_peers_correction_is_no_change_of_its_clock)
{
	struct peer_run run = {.shown = 0, .interval = 50, .span_ppb = 200};

	peer_run(&run, 24);
	cr_expect_lt(run.worst_ns, 12, "%g", run.worst_ns);
	cr_expect(run.unproven >= 1 && run.unproven <= 3, "%u", run.unproven);
}

/* Where packets wait, the points show later which it was; with a wrong choice the floor is less. */
Test(slew, a_peers_change_is_told_from_a_correction_beside_waits)
{
	for (int shown = 0; shown < 2; shown++) {
		struct peer_run run = {
			.shown = shown, .interval = 50, .wait_ns = 300, .span_ppb = 2000};

		peer_run(&run, 26);
		cr_expect(run.unproven >= 1 && run.unproven <= 6, "%u", run.unproven);
		cr_expect_not(run.edge.peer.unproven);
		cr_expect(run.edge.estimate.floor_ns >= PEER_PATH_NS &&
				  run.edge.estimate.floor_ns <= PEER_PATH_NS + run.wait_ns,
			  "%d: %g", shown, run.edge.estimate.floor_ns);
	}
}

/* And where they wait for longer than what it makes in a window, it is left alone. */
Test(slew, a_peers_change_below_the_noise_is_none)
{
	struct peer_run run = {.shown = 1, .interval = 10, .wait_ns = 200000, .span_ppb = 200};

	peer_run(&run, 40);
	cr_expect_eq(run.unproven, 0, "%u", run.unproven);
	cr_expect(run.edge.estimate.valid);
	cr_expect_float_eq(run.edge.estimate.drift_ppb, PEER_TRUE_PPB + PEER_PPB, 210);
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

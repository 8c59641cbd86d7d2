// SPDX-License-Identifier: BSD-2-Clause
/* The steering policy in leaf-spine fabrics, wide margins; `steer_bench` has the figures. TAP. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/sim/seeds.h"
#include "tests/lib/sim/steer_collective.h"
#include "tests/lib/sim/steer_silence.h"
#include "tests/lib/sim/steer_trial.h"

static int tests, failures;
static struct seeds seeds = {.fixed = 20240607};
static unsigned draws; /* of each trial */

/*
 * Where draws differ so much that a median or a mean of a few is outside its limits on some dates:
 * with 4 to 11 draws of them six of the 31 dates of a month failed.
 */
#define DRAWS_MANY 100

static void report(int good, const char *format, ...)
{
	va_list arguments;

	tests++;
	failures += !good;
	printf("%s %d - ", good ? "ok" : "not ok", tests);
	if (seeds.drawn)
		printf("seed %lu: ", (unsigned long)seeds.seed);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
}

static struct trial_result run(const struct trial *trial, unsigned count)
{
	struct trial_result r;

	trial_run(trial, seeds.seed, count, &r);
	printf("# %s: ecmp %.2f, ours %.3f (least %.2f), settled %.2f/%.2f s, moves %.1f (most "
	       "%.0f), "
	       "late %.2f, queue %.0f us (ecmp %.0f), overtaken %lu\n",
	       trial->name, r.ecmp, r.ours, r.ours_least, r.settled_median_s, r.settled_most_s,
	       r.moves, r.moves_most, r.late_moves, r.queue_worst_ns * 1e-3, r.queue_ecmp_ns * 1e-3,
	       (unsigned long)r.overtaken);
	return r;
}

static void test_elephants(void)
{
	static const struct trial trials[] = {
		{.name = "2 spines, 4 queue pairs", .spines = 2, .qps = 4},
		{.name = "3 spines, 3 queue pairs", .spines = 3, .qps = 3},
		{.name = "4 spines, 4 queue pairs", .spines = 4, .qps = 4},
		{.name = "4 spines, 8 of 2 hosts",
		 .spines = 4,
		 .qps = 8,
		 .hosts = 2,
		 .host_part = 4},
		{.name = "4 spines, 16 queue pairs", .spines = 4, .qps = 16},
		{.name = "8 spines, 8 queue pairs", .spines = 8, .qps = 8},
	};

	for (size_t t = 0; t < sizeof(trials) / sizeof(*trials); t++) {
		struct trial trial = trials[t];
		struct trial_result r;

		trial.capacity_known = true;
		r = run(&trial, draws);
		report(r.ours >= 0.97 && r.held * 10 >= r.seeds * 8,
		       "%s: as much as the best placement half a second after the onset",
		       trial.name);
		report(r.moves_most <= 4 * trial.qps && r.late_moves <= 1 && !r.overtaken,
		       "%s: few moves, none for long, nothing overtaken", trial.name);
	}
}

static void test_delay(void)
{
	struct trial trial = {.name = "4 spines, 4 at 80%",
			      .spines = 4,
			      .qps = 4,
			      .demand_part = 0.8,
			      .capacity_known = true};
	struct trial_result r = run(&trial, draws);

	report(r.queue_worst_ns < r.floor_ns && r.queue_ecmp_ns > 2 * r.floor_ns,
	       "delays are back within twice the floor; those of static ECMP are not");
}

static void test_quiet(void)
{
	struct trial trial = {.name = "8 at 10%", .spines = 4, .qps = 8, .demand_part = 0.1};
	/* All eight on one spine are still no contention. */
	struct trial_result r = run(&trial, draws);

	report(r.moves_most == 0, "nothing is contended, nothing moves");
	trial = (struct trial){.name = "noise and clock 20 us",
			       .spines = 4,
			       .qps = 8,
			       .demand_part = 0.1,
			       .noise_ns = 20000,
			       .clock_ns = 20000};
	r = run(&trial, draws);
	report(r.moves_most == 0, "nor does it by noise and a poor clock");
	trial = (struct trial){.name = "incast of 4",
			       .flows = TRIAL_INCAST,
			       .spines = 4,
			       .qps = 4,
			       .host_part = 0.5,
			       .capacity_known = true};
	r = run(&trial, draws);
	/* Seed 20260314 has one move in 30 draws, a known defect (tests/README.md): all of it is
	 * evaluated with a seed of the command line. */
	report(r.moves_most <= seeds.few && r.moves * r.seeds <= 2 * seeds.few,
	       "an incast is contended everywhere: nothing moves");
	trial = (struct trial){.name = "one elephant with a queue of its own",
			       .spines = 4,
			       .qps = 1,
			       .host_part = 4};
	r = run(&trial, draws);
	report(r.moves_most <= 8 && r.late_moves <= 2,
	       "an elephant with its own queue stops soon, the capacity unknown");
}

static void test_one_moves(void)
{
	struct trial trial = {.name = "two elephants of one host, one spine free",
			      .spines = 2,
			      .qps = 2,
			      .hosts = 1,
			      .host_part = 2,
			      .all_on_one = true};
	struct trial_result r = run(&trial, draws);

	report(r.moves == 1 && r.moves_most == 1 && r.held == r.seeds,
	       "two elephants of one host on one link: exactly one moves");
	trial.name = "two elephants of two hosts, one spine free";
	trial.hosts = 2;
	trial.host_part = 1;
	trial.capacity_known = true;
	r = run(&trial, draws);
	report(r.moves <= 3 && r.late_moves <= 0.2 && r.held * 10 >= r.seeds * 8,
	       "of two hosts: about one");
}

static void test_jobs(void)
{
	struct trial trial = {TRIAL_JOBS("two rings", TRIAL_RINGS, 16, 4)};
	struct trial_result r = run(&trial, draws / 3 + 1);

	report(r.ours >= 0.9 && r.ours > 1.5 * r.ecmp && r.moves_of_one <= 10,
	       "two rings that start at different times run nearly as if placed");
	trial.name = "two all-to-alls";
	trial.flows = TRIAL_ALL_TO_ALL;
	trial.hosts = 2;
	trial.qps = 8;
	r = run(&trial, draws / 3 + 1);
	report(r.ours >= 0.93 && r.moves_of_one <= 10,
	       "two all-to-alls that start at different times run nearly as if placed");
	trial.name = "a ring, and an all-to-all later";
	trial.flows = TRIAL_MIXED;
	r = run(&trial, DRAWS_MANY / 3);
	report(r.ours >= 0.9 && r.ours > 1.2 * r.ecmp && r.moves_of_one <= 10,
	       "so do a ring and an all-to-all that starts later");
}

static void test_drawn(void)
{
	static const char *const names[] = {"2 spines, 4 to 16 that fit",
					    "3 spines, 4 to 16 that fit",
					    "4 spines, 4 to 16 that fit"};

	for (unsigned s = 0; s < 3; s++) {
		struct trial trial = {TRIAL_FIT(names[s], 2 + s)};
		struct trial_result r = run(&trial, draws);

		report(r.ours >= 0.98 && r.half_second * 10 >= r.seeds * 9 &&
			       r.queue_worst_ns < r.floor_ns,
		       "%s: in half a second as if placed, delays within twice the floor",
		       trial.name);
		report(r.moves_most <= trial.qps && r.late_moves <= 0.2,
		       "%s: few moves, none for long", trial.name);
	}
}

static void test_two_jobs(void)
{
	static const char *const names[] = {"a ring and an all-to-all, 2 spines",
					    "a ring and an all-to-all, 3 spines",
					    "a ring and an all-to-all, 4 spines"};

	for (unsigned s = 0; s < 3; s++) {
		struct trial trial = {TRIAL_LAB(names[s], 2 + s)};
		struct trial_result r = run(&trial, draws / 3 + 1);

		report(r.ours >= 0.98 && r.late_moves <= 0.2 && r.queue_worst_ns < r.floor_ns,
		       "%s of fixed rates: as if placed, delays within twice the floor, then rest",
		       trial.name);
	}
}

static void test_herd(void)
{
	struct trial trial = {.name = "128 hosts see one path contended and seven free",
			      .spines = 8,
			      .qps = 128,
			      .all_on_one = true,
			      .capacity_known = true,
			      .fabric_bps = 1e9,
			      .host_part = 0.25};
	struct trial_result r = run(&trial, draws / 10 + 1);

	report(r.ours >= 0.97 && r.moves <= 3 * trial.qps && r.late_moves <= trial.qps / 8.0,
	       "hundreds of hosts spread without a herd");
}

static void test_poor_sight(void)
{
	struct trial trial = {.name = "noise 20 us, clock 20 us, 3 ticks late",
			      .spines = 4,
			      .qps = 4,
			      .noise_ns = 20000,
			      .clock_ns = 20000,
			      .late = 3,
			      .capacity_known = true};
	struct trial_result r = run(&trial, draws);

	report(r.ours >= 0.93 && r.moves_most <= 8 * trial.qps,
	       "poor and late sight: found anyway");
}

static struct silence_result silence(const struct silence_trial *trial, unsigned count)
{
	struct silence_result r;

	silence_run(trial, seeds.seed, count, &r);
	printf("# %s: parted %u of %u, in %.2f s, 95%% in %.2f, moves %.1f (most %.0f), "
	       "timeouts %.1f\n",
	       trial->name, r.parted, r.seeds, r.median_s, r.part95_s, r.moves, r.moves_most,
	       r.timeouts);
	return r;
}

/* A queue pair that is alone while another waits for its timeout fills the path. */
static void test_silence(void)
{
	static const struct silence_trial crowded[] = {
		{.name = "silent: a ring of 4 on one spine of 2",
		 .hosts = 4,
		 .spines = 2,
		 .pattern = STEER_RING},
		{.name = "silent: a ring of 8 on one spine of 4",
		 .hosts = 8,
		 .spines = 4,
		 .pattern = STEER_RING},
		{.name = "silent: 2 streams on one spine of 2", .hosts = 4, .spines = 2},
		{.name = "silent: a ring of 4, the capacity not known",
		 .hosts = 4,
		 .spines = 2,
		 .pattern = STEER_RING,
		 .capacity_not_known = true},
	};
	static const struct silence_trial placed = {.name = "silent: a ring of 8, placed on 4",
						    .hosts = 8,
						    .spines = 4,
						    .pattern = STEER_RING,
						    .placed = true};
	static const struct silence_trial alone = {.name = "silent: one alone, by its own queue",
						   .hosts = 2,
						   .spines = 2,
						   .host_part = 3};
	struct silence_result r;

	for (size_t t = 0; t < sizeof(crowded) / sizeof(*crowded); t++) {
		r = silence(&crowded[t], DRAWS_MANY);
		report(r.parted * 10 >= r.seeds * 9 && r.median_s <= 3 * crowded[t].hosts / 2.0 &&
			       r.moves <= 2 * crowded[t].hosts,
		       "%s: parted, by few moves", crowded[t].name);
	}
	r = silence(&placed, DRAWS_MANY);
	report(!r.moves_most, "%s: nothing moves", placed.name);
	r = silence(&alone, draws);
	report(r.timeouts > 5 && r.moves_most <= 12, "%s: it does not wander for ever", alone.name);
}

/* Pacing and steering together, beside the better of the two. */
static void test_together(void)
{
	enum { DRAWS = DRAWS_MANY * 2 / 5, ROUNDS = 12 };

	for (unsigned pattern = 0; pattern < COLLECTIVES; pattern++) {
		const char *name = collective_name(pattern);
		struct collective_result r;

		collective_run(pattern, false, seeds.seed, DRAWS, ROUNDS, &r);
		printf("# %s: %.0f, paced %.0f, steered %.0f, both %.0f ms, %.1f moves\n", name,
		       r.took_ns[LAW_NEITHER] * 1e-6, r.took_ns[LAW_PACING] * 1e-6,
		       r.took_ns[LAW_STEERING] * 1e-6, r.took_ns[LAW_BOTH] * 1e-6,
		       r.moves[LAW_BOTH]);
		report(r.part <= 1.05, "%s: with both at most 5%% longer than with the better one",
		       name);
		collective_run(pattern, true, seeds.seed, DRAWS, ROUNDS, &r);
		report(r.moves[LAW_BOTH] <= (pattern == COLLECTIVE_TO_ALL ? 4 : 0.4) &&
			       r.part <= 1.05,
		       "%s, placed well: %.1f moves, %.3f of the better one", name,
		       r.moves[LAW_BOTH], r.part);
	}
}

static void test(void)
{
	printf("# %u draws of most\n", draws);
	test_elephants();
	test_delay();
	test_quiet();
	test_one_moves();
	test_drawn();
	test_two_jobs();
	test_jobs();
	test_herd();
	test_poor_sight();
	test_silence();
	test_together();
}

int main(int argc, char **argv)
{
	unsigned most = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 30;

	seeds.argument = argc > 1 ? argv[1] : NULL;
	seeds_plan(&seeds, 47);
	while (seeds_next(&seeds)) {
		draws = seeds.few ? 1 + most / 3 : most;
		test();
	}
	return failures ? 1 : 0;
}

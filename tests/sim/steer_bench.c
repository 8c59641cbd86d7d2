// SPDX-License-Identifier: BSD-2-Clause
/*
 * The steering policy beside static ECMP and the best placement; collectives with neither law, with
 * pacing, steering and both: steer_bench [SEED [SEEDS [trials|collectives]]].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim/steer_collective.h"
#include "tests/lib/sim/steer_trial.h"

#define ROUNDS 12
#define LAB 138000 /* window of soft-RoCE: 128 packets of 1,024 bytes */

static const struct trial trials[] = {
	{.name = "2 spines, 4 QPs", .spines = 2, .qps = 4, .capacity_known = true},
	{.name = "3 spines, 4 QPs", .spines = 3, .qps = 4, .capacity_known = true},
	{.name = "4 spines, 4 QPs", .spines = 4, .qps = 4, .capacity_known = true},
	{.name = "4 spines, 8 QPs", .spines = 4, .qps = 8, .capacity_known = true},
	{.name = "4 spines, 16 QPs", .spines = 4, .qps = 16, .capacity_known = true},
	{.name = "8 spines, 8 QPs", .spines = 8, .qps = 8, .capacity_known = true},
	{.name = "... 4 leaves, random pairs, 8 QPs",
	 .flows = TRIAL_RANDOM,
	 .leaves = 4,
	 .hosts = 4,
	 .spines = 4,
	 .qps = 8,
	 .capacity_known = true},
	{.name = "4 of 4, capacity not known", .spines = 4, .qps = 4},
	{.name = "4 of 4, window of 138 KB",
	 .spines = 4,
	 .qps = 4,
	 .window_bytes = LAB,
	 .capacity_known = true},
	{.name = "4 of 4 at 80%",
	 .spines = 4,
	 .qps = 4,
	 .demand_part = 0.8,
	 .capacity_known = true},
	{.name = "5 of 4 at 90% (one too many)",
	 .spines = 4,
	 .qps = 5,
	 .demand_part = 0.9,
	 .capacity_known = true},
	{.name = "8 of 4 at 20%: nothing to do", .spines = 4, .qps = 8, .demand_part = 0.2},
	{.name = "4 of 4, clock and noise 20 us",
	 .spines = 4,
	 .qps = 4,
	 .noise_ns = 20000,
	 .clock_ns = 20000,
	 .capacity_known = true},
	{.name = "4 of 4, sight 3 ticks late",
	 .spines = 4,
	 .qps = 4,
	 .late = 3,
	 .capacity_known = true},
	{.name = "4 of 4 at 1 Gb/s, 138 KB",
	 .spines = 4,
	 .qps = 4,
	 .fabric_bps = 1e9,
	 .window_bytes = LAB,
	 .capacity_known = true,
	 .seconds = 1.7},
	{TRIAL_FIT("2 spines, 4-16 QPs that fit", 2)},
	{TRIAL_FIT("3 spines, 4-16 QPs that fit", 3)},
	{TRIAL_FIT("4 spines, 4-16 QPs that fit", 4)},
	{TRIAL_JOBS("two rings of 8, 4 leaves", TRIAL_RINGS, 16, 4)},
	{TRIAL_JOBS("two all-to-alls of 4, 4 leaves", TRIAL_ALL_TO_ALL, 8, 2)},
	{TRIAL_JOBS("ring of 4, all-to-all of 4, 4 leaves", TRIAL_MIXED, 8, 2)},
	{TRIAL_JOBS("of 8 each: all that links carry", TRIAL_MIXED, 16, 4)},
	{TRIAL_LAB("the lab's two jobs, 2 spines", 2)},
	{TRIAL_LAB("the lab's two jobs, 3 spines", 3)},
	{TRIAL_LAB("the lab's two jobs, 4 spines", 4)},
	{.name = "128 hosts on one path of 8",
	 .spines = 8,
	 .qps = 128,
	 .all_on_one = true,
	 .capacity_known = true,
	 .fabric_bps = 1e9,
	 .host_part = 0.25},
};

static void print_collectives(uint64_t seed, unsigned seeds)
{
	printf("# collectives, %u rounds, median over %u seeds, ms of a round with neither / "
	       "pacing "
	       "/ steering / both; both beside the better one; moves; timeouts; retransmitted\n",
	       ROUNDS, seeds);
	for (unsigned pattern = 0; pattern < COLLECTIVES; pattern++) {
		struct collective_result r;

		collective_run(pattern, false, seed, seeds, ROUNDS, &r);
		printf("%-12s", collective_name(pattern));
		for (unsigned law = 0; law < LAWS; law++)
			printf(" %7.0f", r.took_ns[law] * 1e-6);
		printf("  %.3f ", r.part);
		for (unsigned law = 0; law < LAWS; law++)
			printf(" %5.1f moves, %5.1f timeouts, %4.1f%%;", r.moves[law],
			       r.timeouts[law], 100 * r.again[law]);
		printf("\n");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	unsigned seeds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 30;

	if (argc <= 3 || strcmp(argv[3], "trials"))
		print_collectives(seed, seeds);
	if (argc > 3 && !strcmp(argv[3], "collectives"))
		return 0;
	printf("# steering, seed %lu, %u of them: rate from half a second after the onset as part "
	       "of the "
	       "best placement's (mean, least, seeds at 95%%), of the first half second; until "
	       "95%% "
	       "permanently (median, most, s); moves a run, most of a run, later than 1.5 s, "
	       "useless; "
	       "longest queue in the fabric at the end, us (static ECMP's); packets overtaken\n",
	       (unsigned long)seed, seeds);
	printf("%-36s %5s %6s %5s %6s %5s %6s %6s %5s %4s %5s %5s %7s %8s %4s\n", "scenario",
	       "ecmp", "ours", "least", "95%", "half", "median", "most", "moves", "most", "late",
	       "vain", "queue", "(ecmp)", "over");
	for (size_t t = 0; t < sizeof(trials) / sizeof(*trials); t++) {
		unsigned count = trials[t].qps > 64 ? seeds / 10 + 1 : seeds;
		struct trial_result r;

		trial_run(&trials[t], seed, count, &r);
		printf("%-36s %5.2f %6.3f %5.2f %3u/%-2u %5.2f %6.2f %6.2f %5.1f %4.0f %5.2f %5.1f "
		       "%7.0f %8.0f %4lu\n",
		       trials[t].name, r.ecmp, r.ours, r.ours_least, r.held, r.seeds, r.half,
		       r.settled_median_s, r.settled_most_s, r.moves, r.moves_most, r.late_moves,
		       r.useless, r.queue_worst_ns * 1e-3, r.queue_ecmp_ns * 1e-3,
		       (unsigned long)r.overtaken);
		fflush(stdout);
	}
	return 0;
}

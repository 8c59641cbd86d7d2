/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trials of the steering policy: the same traffic, from the same start, placed as well as can be,
 * left where ECMP put it, and steered; over many seeds. One text for the tests and the table.
 */
#ifndef ESC_TESTS_SIM_STEER_TRIAL_H
#define ESC_TESTS_SIM_STEER_TRIAL_H

#include "tests/lib/sim/stats.h"
#include "tests/lib/sim/steer_sim.h"

enum trial_flows {
	TRIAL_TWO_LEAVES, /* host i of the first leaf to host i of the second */
	TRIAL_RANDOM,	  /* between hosts of different leaves, drawn */
	TRIAL_INCAST,	  /* all to one host */
	TRIAL_RINGS,	  /* jobs: every host to the next one of its job, on another leaf */
	TRIAL_ALL_TO_ALL, /* jobs: every host to all others of its job on other leaves */
	TRIAL_MIXED,	  /* a ring, and an all-to-all that starts later */
	TRIAL_LAB_JOBS,	  /* the same as the lab has it: two leaves, streams of fixed rates */
};

#define QPS_LEAST 4

struct trial {
	const char *name;
	enum trial_flows flows;
	unsigned leaves, spines, qps,
		hosts;		      /* hosts: senders that share the queue pairs; 0: one each */
	double fabric_bps, host_part; /* the host's link in parts of a fabric's */
	double demand_part;	      /* of a fabric's link; 0: as much as goes */
	uint64_t window_bytes;
	double noise_ns, clock_ns;
	unsigned late;
	bool capacity_known;
	bool all_on_one; /* all start on one spine, not drawn */
	/*
	 * As the lab has them, not 0: QPS_LEAST to `qps` queue pairs, drawn, which ask each link
	 * for this part of it when placed well, and start where the demand on some link is too
	 * high.
	 */
	double placed_part;
	double seconds;
};

/* Jobs over 4 leaves and 4 spines; members of a struct trial. */
#define TRIAL_JOBS(text, which, count, senders)                                                    \
	.name = (text), .flows = (which), .leaves = 4, .spines = 4, .qps = (count),                \
	.hosts = (senders), .capacity_known = true, .seconds = 3

/* Random; the demand on each link is 75% when they are placed well. */
#define TRIAL_FIT(text, count)                                                                     \
	.name = (text), .spines = (count), .qps = 16, .hosts = 2, .host_part = 10,                 \
	.window_bytes = 33000, .placed_part = 0.75, .capacity_known = true

/* tests/lab/test_contention's two jobs; links of 60 Mbit/s. */
#define TRIAL_LAB(text, count)                                                                     \
	.name = (text), .flows = TRIAL_LAB_JOBS, .spines = (count), .hosts = 4, .qps = 16,         \
	.fabric_bps = 60e6, .host_part = 10, .window_bytes = 33000, .capacity_known = true,        \
	.seconds = 4.4

/* Of all seeds of a trial; rates as parts of the best placement's. */
struct trial_result {
	unsigned seeds, held, half_second; /* at least 95% after half a second; and from then on */
	double ecmp, ours, ours_least, half, half_ecmp;
	double settled_median_s, settled_most_s;
	double moves, moves_most, late_moves, useless, moves_of_one;
	double queue_worst_ns, queue_ecmp_ns, floor_ns;
	uint64_t overtaken;
};

void trial_run(const struct trial *trial, uint64_t seed, unsigned seeds,
	       struct trial_result *result);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows that go back to what was lost, and are silent for a whole timeout when a message's end
 * was: each link of a collective is as fast as a host's, so whoever is left alone fills
 * it. How long until flows that can be on paths of their own are.
 */
#ifndef ESC_TESTS_SIM_STEER_SILENCE_H
#define ESC_TESTS_SIM_STEER_SILENCE_H

#include "tests/lib/sim/stats.h"
#include "tests/lib/sim/steer_sim.h"

struct silence_trial {
	const char *name;
	unsigned hosts,
		spines; /* hosts of both leaves; every other one's neighbour is on the other */
	enum steer_pattern pattern;
	bool placed;	   /* from the start; else all are on one spine */
	double host_part;  /* the host's link in parts of a fabric's; 0: 1 */
	double rest_s;	   /* of an all-to-all, between its rounds */
	double timeout_ms; /* 0: 1,073 */
	double seconds;	   /* 0: 25 */
	bool capacity_not_known;
};

struct silence_result {
	unsigned seeds, parted;
	double median_s, part95_s, most_s; /* until they were separated permanently */
	double moves, moves_most;	   /* of a run */
	double rounds, timeouts;	   /* of a run */
};

void silence_run(const struct silence_trial *trial, uint64_t seed, unsigned seeds,
		 struct silence_result *result);

#endif

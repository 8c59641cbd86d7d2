/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rounds of collectives by go-back-N flows with neither law, with pacing, with steering, with both:
 * the fabric and the messages of tests/lib/collectives.py. They start where ECMP put more on one
 * spine than on the other, or placed well.
 */
#ifndef ESC_TESTS_SIM_STEER_COLLECTIVE_H
#define ESC_TESTS_SIM_STEER_COLLECTIVE_H

#include "tests/lib/sim/steer_sim.h"

#define COLLECTIVE_PATTERNS(X)                                                                     \
	X(RING, "ring")                                                                            \
	X(TO_ALL, "all-to-all")                                                                    \
	X(INCAST, "incast")                                                                        \
	X(TWO_JOBS, "two jobs")
enum collective_pattern {
#define X(id, text) COLLECTIVE_##id,
	COLLECTIVE_PATTERNS(X)
#undef X
		COLLECTIVES
};

enum collective_law { LAW_NEITHER, LAW_PACING, LAW_STEERING, LAW_BOTH, LAWS };

struct collective_result {
	double took_ns[LAWS]; /* of a round; median of the seeds' medians */
	double part;	    /* of both beside the better of pacing and steering, of these medians */
	double moves[LAWS]; /* mean of a run */
	double again[LAWS], timeouts[LAWS]; /* retransmitted, part of the packets; mean of a run */
};

const char *collective_name(enum collective_pattern pattern);
/* @rounds that count, behind two that do not; seeds @seed to @seed + @seeds - 1. */
void collective_run(enum collective_pattern pattern, bool placed, uint64_t seed, unsigned seeds,
		    unsigned rounds, struct collective_result *result);

#endif

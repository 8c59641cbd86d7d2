/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How well a window of an edge can be known at all when its probes have a priority class
 * on full links: each of four hops has a packet of the lower class on the wire 9 times
 * in 10, and no packet is cut short. Pitman's estimator, the best one without knowledge of
 * the result, is given what no host has: the exact distribution of the waits, the
 * floor and the drift.
 */
#ifndef ESC_TESTS_SIM_CLASS_ORACLE_H
#define ESC_TESTS_SIM_CLASS_ORACLE_H

#include "tests/lib/rng.h"

struct class_oracle {
	unsigned windows;
	double best_ns, ours_ns; /* errors of the offset, root mean square */
};

/* Over @windows windows of 2 s, a pair each 0.5 ms a side, links of @rate_bps. */
struct class_oracle class_oracle_run(double rate_bps, unsigned windows, uint64_t seed);

#endif

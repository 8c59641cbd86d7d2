/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How wrong a reading can be, against the time the fleet agrees on. Not a
 * proof: a sum of what was seen lately, with a factor found by simulation so
 * that one reading in 10,000 or less is outside (tests/sim).
 */
#ifndef ESC_CLOCKSYNC_BOUND_H
#define ESC_CLOCKSYNC_BOUND_H

#include <stdint.h>

#include "clocksync/consensus.h"

struct bound {
	double now_ns;	   /* at the time of the round */
	double growth_ppb; /* ns per second of age of the model */
	double late_ppb;   /* and more than that when no round comes after it */
};

/*
 * @asymmetry_ns: what this host's two directions may differ by that no loop of
 * the graph can show, halved, after calibration (0 when both stamps are at one
 * place). @behind_ns: what readings still have to slew.
 */
void bound_compute(const struct consensus *consensus, int64_t now_ns, double asymmetry_ns,
		   double behind_ns, struct bound *bound);

/* Difference between two hosts' readings that both bounds allow. */
static inline int64_t bound_pair(int64_t one_ns, int64_t other_ns)
{
	return one_ns + other_ns;
}

#endif

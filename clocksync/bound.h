/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bound of a reading's error against the fleet's consensus time. Statistical, not a proof: a
 * sum of recent error estimates with factors found by simulation, so that at most one reading
 * in 10,000 is outside (tests/sim).
 */
#ifndef ESC_CLOCKSYNC_BOUND_H
#define ESC_CLOCKSYNC_BOUND_H

#include <stdint.h>

#include "clocksync/consensus.h"

struct bound {
	double most_ns;	    /* error against most of the fleet */
	int64_t most_at_ns; /* when that was estimated last; 0: never */
	double now_ns;	    /* at the time of the round */
	double growth_ppb;  /* ns per second of age of the model */
	double late_ppb;    /* added to growth_ppb when the next round is late */
};

/*
 * @asymmetry_ns: half of the difference between this host's tx and rx delay that no loop of
 * the graph shows, after calibration (0 when both timestamps are taken at one point).
 * @behind_ns: the remaining slew of the readings.
 */
void bound_compute(const struct consensus *consensus, int64_t now_ns, double asymmetry_ns,
		   double behind_ns, struct bound *bound);

/* Bound of the difference between two hosts' readings. */
static inline int64_t bound_pair(int64_t one_ns, int64_t other_ns)
{
	return one_ns + other_ns;
}

#endif

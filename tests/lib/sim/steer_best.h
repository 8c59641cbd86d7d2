/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The best placement of flows on spines: the one whose max-min fair rates sum up to most.
 * All placements are tried where they are few, else hill climbing from many starts.
 */
#ifndef ESC_TESTS_SIM_STEER_BEST_H
#define ESC_TESTS_SIM_STEER_BEST_H

#include "tests/lib/sim/steer_net.h"

#define BEST_FLOWS_MAX 512

struct best_flow {
	unsigned from, to;
	double demand_bps; /* at most that; 0: no end */
};

/* Total rate of @flows placed as in @spines, bit/s. */
double best_total_bps(const struct net_shape *shape, const struct best_flow *flows, size_t count,
		      const unsigned *spines);
/* Fills @spines; returns the total. *@exhaustive: nothing better exists. */
double best_place(const struct net_shape *shape, const struct best_flow *flows, size_t count,
		  struct rng *rng, unsigned *spines, bool *exhaustive);

#endif

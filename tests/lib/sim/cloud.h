/* SPDX-License-Identifier: BSD-2-Clause */
/* The points of one edge's window, drawn: a line, a floor, noise of timestamps, waits of queues. */
#ifndef ESC_TESTS_SIM_CLOUD_H
#define ESC_TESTS_SIM_CLOUD_H

#include <stddef.h>

#include "tests/lib/rng.h"

struct cloud_config {
	size_t count; /* a side */
	double seconds, slope_ppb, offset_ns, floor_ns, timestamp_ns;
	double load; /* a point is clean with (1 - load)^hops, else it waits */
	int hops;
	double wait_ns; /* mean of a hop's wait */
};

/* Fills x and y of both sides. */
void cloud_draw(struct rng *rng, const struct cloud_config *config, double *x[2], double *y[2]);

#endif

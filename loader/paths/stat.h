/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The delay of one direction of a candidate path, from its probes: floor, now, deviation, and a
 * histogram of the last seconds. Pure; times are one local clock. All zero but for
 * pathstat_clear(): empty.
 */
#ifndef ESC_PATHS_STAT_H
#define ESC_PATHS_STAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/delayhist.h"
#include "base/quantiles.h"

#define PATHSTAT_RECENT 16
#define PATHSTAT_WINDOW_NS 5000000000ll	 /* histograms: this one and the one before */
#define PATHSTAT_FLOOR_NS 300000000000ll /* floors: likewise */
#define PATHSTAT_YOUNG_NS 30000000000ll /* until then its floor may be of a standing queue */

struct pathstat {
	uint64_t samples;
	double floor_ns, floor_before_ns; /* of this window and the one before; NAN: none */
	int64_t floor_begun_ns;
	struct delayhist now, before;
	int64_t now_begun_ns;
	int64_t now_min_ns, now_max_ns, before_min_ns, before_max_ns;
	struct {
		int64_t at_ns;
		double delay_ns, bound_ns;
	} recent[PATHSTAT_RECENT]; /* by samples % PATHSTAT_RECENT */
	double mean_ns, spread_ns; /* as RFC 6298 smooths them */
};

void pathstat_clear(struct pathstat *stat);
void pathstat_free(struct pathstat *stat);

/* A delay that was measured at @at_ns (not going back), true within @bound_ns. */
void pathstat_add(struct pathstat *stat, int64_t at_ns, double delay_ns, double bound_ns);

/* Of the newest samples: those within @span_ns of the newest one. NAN: not known. */
struct pathstat_now {
	double floor_ns, delay_ns, worst_ns, noise_ns, bound_ns;
	double spread_ns; /* mean deviation */
	int64_t at_ns;	  /* of the newest; 0: none */
};
void pathstat_now(const struct pathstat *stat, int64_t span_ns, struct pathstat_now *out);

/*
 * The floor as it is published for pacing: a delay and 1, 0 for not known. @mesh_ns (NAN: not
 * known), the floor of the clock's probes on another path to the same address, stands for one
 * without samples, and bounds the floor of a young one.
 */
uint32_t pathstat_published_floor(const struct pathstat *stat, int64_t now_ns, double mesh_ns);

/* Of the last 5 to 10 s before @now_ns. */
void pathstat_quantiles(const struct pathstat *stat, int64_t now_ns, struct quantiles *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The fit of one window of an edge, in numbers that windows can be compared by. */
#ifndef ESC_CLOCKSYNC_EDGETRIAL_H
#define ESC_CLOCKSYNC_EDGETRIAL_H

#include "clocksync/edge.h"

/* Points that hold a side, at least, before it is believed without the path's floor. */
#define TRIAL_SUPPORT_ENOUGH 4

struct edge_window {
	int64_t first, last;  /* bucket indices */
	int64_t x0_ns, y0_ns; /* where its points are centred */
	bool kept;	      /* of pairs that kept their spacing, or of all */
	size_t count[2];
};

struct edge_trial {
	struct edge_window window;
	struct edgefit_line line;
	double slope_ppb;	   /* refined from line's */
	double upper_ns, lower_ns; /* the middle of each cloud's edge at x0 */
	size_t inliers[2];
	double x_mean_s[2];
	double middle_s;  /* of the inliers, after x0 */
	double spread_s;  /* their standard deviation */
	double offset_ns; /* against y0 at the middle */
	double excess_ns; /* of half the width over the path's known floor */
	double offset_sigma_ns, drift_sigma_ppb, live_sigma_ns;
	/*
	 * Deviation of one timestamp by the clouds' edges: how far the residuals of
	 * clean packets spread before there is a gap; 0 when there is none to be seen.
	 */
	double noise_ns;
	bool flagged;
	bool one_side; /* the offset is that of one side and the known floor */
};

/* -EINVAL when a side has fewer than two points, or none that are 100 ms apart. */
int edge_trial_run(const struct edge *edge, struct edge_trial *trial,
		   const struct edgefit_hint *hint, struct edge_scratch *scratch);

/* Residuals this far apart are timestamp noise; farther, a queue. */
double edge_gap_ns(const struct edge *edge);

static inline double edge_trial_half_ns(const struct edge_trial *trial)
{
	return (trial->upper_ns - trial->lower_ns) / 2;
}

static inline double edge_trial_seconds(const struct edge *edge, const struct edge_trial *trial)
{
	return (double)(trial->window.last - trial->window.first + 1) * (double)edge->bucket_ns *
	       1e-9;
}

#endif

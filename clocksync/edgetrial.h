/* SPDX-License-Identifier: BSD-2-Clause */
/* The fit of one window of an edge, and its figures of merit. */
#ifndef ESC_CLOCKSYNC_EDGETRIAL_H
#define ESC_CLOCKSYNC_EDGETRIAL_H

#include "clocksync/edge.h"

/* Minimum number of support points of a side that is used without the path's floor. */
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
	uint32_t averaged; /* lowest points of a side: edge->tail; 0: the clean ones were fitted */
	double x_mean_s[2];
	double middle_s;  /* of the inliers, relative to x0 */
	double spread_s;  /* their standard deviation */
	double offset_ns; /* against y0 at the middle */
	double excess_ns; /* of half the width over the path's known floor */
	double late_ns;	  /* of it over the least floor of a minute; 0 below the gap */
	double offset_sigma_ns, drift_sigma_ppb, live_sigma_ns;
	/* Deviation of one timestamp: spread of the residuals below the first gap; 0: no gap. */
	double noise_ns;
	bool flagged;
	bool one_side; /* the offset is from one side and the known floor */
};

/* -EINVAL when a side has fewer than two points, or none that are 100 ms apart. */
int edge_trial_run(const struct edge *edge, struct edge_trial *trial,
		   const struct edgefit_hint *hint, struct edge_scratch *scratch);

/*
 * The widest gap between the clouds of a window at any slope, in ns: the floor's double where one
 * line fits all of it, less where the line is bent. *@spread_ns: how far its support points are
 * apart. NAN: as above.
 */
double edge_trial_margin_ns(const struct edge *edge, struct edge_window *window,
			    struct edge_scratch *scratch, double *spread_ns);

/*
 * How delays rise from the edges of the clouds: from the k-th lowest to the 2k-th, means of both
 * sides, k = 1, 2, 4 ... False: too few points.
 */
bool edge_trial_tail(const struct edge_trial *trial, struct edge_scratch *scratch,
		     double rises_ns[EDGE_TAIL]);

/* What queues and timestamps may change of a gap with that spread. */
double edge_margin_noise_ns(const struct edge *edge, double spread_ns);

/* Residuals closer than this differ by timestamp noise, others by queueing delay. */
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

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The line between the two clouds of one edge. Forward points (x: local time,
 * y: remote receive minus local send) lie above the offset, backward points
 * below. For k violators a side the line is the maximum over its slope of
 *
 *	mean of the k lowest forward residuals - mean of the k highest backward
 *
 * where the k-th counts half, so that the k-th residual itself is the edge of
 * the cloud and the optimum is unique. This is the soft-margin line of Huygens
 * (Geng et al., NSDI 2018) with C = 1/(2k - 1), a linear program of three unknowns;
 * it is concave in the slope alone and solved exactly by cutting planes. The number
 * of violators depends on the load: edgefit_adapt() chooses it.
 */
#ifndef ESC_CLOCKSYNC_EDGEFIT_H
#define ESC_CLOCKSYNC_EDGEFIT_H

#include <stdbool.h>
#include <stddef.h>

/* Points of one side; x in seconds, y in ns, both centred by the caller. */
struct edgefit_side {
	const double *x;
	const double *y;
	size_t count;
};

struct edgefit_line {
	double slope_ppb; /* ns per second */
	double upper_ns;  /* the k-th residuals at x = 0 */
	double lower_ns;
	double value; /* of the objective */
	size_t k[2];
	double x_mean[2];   /* of the support points: up to the k-th residual */
	double x_spread[2]; /* their standard deviation, seconds */
	double y_spread[2]; /* from the outermost to the k-th residual */
	unsigned steps;	    /* evaluations of the objective */
	bool clamped;	    /* the slope is at the limit it was given */
};

/* Range of slopes, start of the search, and the known width of the empty path. */
struct edgefit_hint {
	double slope_ppb;
	double least_ppb;
	double most_ppb;
	double width_ns; /* edgefit_adapt(): limit of upper - lower */
	size_t first_k;	 /* edgefit_adapt(): first k to try, if both sides have enough points */
};

/* Of both sides, the larger. */
static inline double edgefit_spread_ns(const struct edgefit_line *line)
{
	return line->y_spread[0] > line->y_spread[1] ? line->y_spread[0] : line->y_spread[1];
}

#define EDGEFIT_SLOPE_MAX_PPB 500000.0
#define EDGEFIT_NO_HINT                                                                            \
	((struct edgefit_hint){0, -EDGEFIT_SLOPE_MAX_PPB, EDGEFIT_SLOPE_MAX_PPB, 1e300, 2})

/*
 * The line for @k[0] violators of the forward and @k[1] of the backward side,
 * each between 1 and the side's count. @scratch holds twice as many doubles as the
 * larger side has points. -EINVAL when a side has fewer points than its k.
 */
int edgefit_solve(const struct edgefit_side side[2], const size_t k[2],
		  const struct edgefit_hint *hint, double *scratch, struct edgefit_line *line);

/*
 * Chooses k for each side and solves with them: the largest of 2, 4, 8 ... @most[side] at
 * which the residuals of the cloud's edge are within @gap_ns of each other and the width is not
 * above the hint's, so that they contain no queueing delay. A k of 2: too few clean packets.
 */
int edgefit_adapt(const struct edgefit_side side[2], const size_t most[2], double gap_ns,
		  const struct edgefit_hint *hint, double *scratch, struct edgefit_line *line);

#endif

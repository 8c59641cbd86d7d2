// SPDX-License-Identifier: BSD-2-Clause
/*
 * A window is fitted in three steps. The soft-margin line is the edge of each cloud at any
 * load. The points within timestamp noise of that edge (without queueing delay) are averaged by
 * least squares with one slope: the k-th of an unknown number of clean points is a biased
 * estimate. The path's floor, known from earlier windows, gives the rest of the width that is
 * queueing delay. Where no point is clean (edge.h, `tail`) the mean of the k lowest stands for the
 * least squares: the k-th scatters more.
 */
#include "clocksync/edgetrial.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define K_MOST 32
#define K_PART 4 /* and at most this part of the points */
#define GAP_PER_NOISE 4.0
#define GAP_MIN_NS 16.0
#define GAP_UNKNOWN_NS 200.0
#define DEPTH_DEVIATIONS 3.0
#define INLIER_BELOW 5.0 /* of a passage's deviation, from the soft-margin edge */
#define INLIER_ABOVE 3.5
#define INLIER_AGAIN 3.0 /* from the mean of the first pass */
#define WEAK_SIGMA_FACTOR 4.0
#define EXCESS_SIGMA 0.8
/* Error of the floor, in deviations of a timestamp. */
#define ONE_SIDE_NOISES 1.0
#define CLUSTER_FIRST_NS 4.0
#define CLUSTER_WIDTHS 9 /* up to 1 us */
#define CLUSTER_ENOUGH 7
#define MARGIN_SPREADS 2.0 /* of the support points: noise of the gap */
#define SPREAD_LEAST 0.05  /* part of the window that points must span to determine a slope */

double edge_gap_ns(const struct edge *edge)
{
	return edge->noise_known ? fmax(GAP_MIN_NS, GAP_PER_NOISE * edge->noise_ns)
				 : GAP_UNKNOWN_NS;
}

/*
 * Deviation of a clean passage. As long as timestamp noise is not known (every packet waits a
 * little, as in a priority class on a full link, and the clouds' edges have no clean cluster)
 * the depth of the soft margin is used instead.
 */
static double passage_ns(const struct edge *edge, const struct edge_trial *trial)
{
	double depth = edgefit_spread_ns(&trial->line);

	if (edge->noise_known || trial->noise_ns > 0)
		return M_SQRT2 * edge->noise_ns;
	return fmax(M_SQRT2 * edge->noise_ns, depth / DEPTH_DEVIATIONS);
}

static void gather_cell(const struct edge_cell *cell, int s, struct edge_window *window,
			struct edge_scratch *scratch)
{
	for (int p = 0; p < cell->count; p++) {
		const struct edge_point *point = &cell->points[p];
		size_t n = window->count[s]++;

		if (window->count[0] + window->count[1] == 1)
			window->y0_ns = point->y_ns;
		scratch->x[s][n] = (double)(point->x_ns - window->x0_ns) * 1e-9;
		scratch->y[s][n] = (double)ns_sub(point->y_ns, window->y0_ns);
	}
}

static void gather(const struct edge *edge, struct edge_window *window,
		   struct edge_scratch *scratch)
{
	window->count[0] = window->count[1] = 0;
	window->x0_ns = (window->first + window->last + 1) * edge->bucket_ns / 2;
	for (int i = 0; i < EDGE_BUCKETS; i++) {
		const struct edge_bucket *bucket = &edge->buckets[i];

		if (bucket->index < window->first || bucket->index > window->last)
			continue;
		for (int s = 0; s < 2; s++)
			gather_cell(window->kept ? &bucket->kept[s] : &bucket->all[s], s, window,
				    scratch);
	}
}

static double residual(const struct edge_trial *trial, const struct edge_scratch *scratch, int s,
		       size_t i)
{
	double r = scratch->y[s][i] - trial->line.slope_ppb * scratch->x[s][i];

	return s ? -r : r;
}

/* Width of one side's cluster of clean points, its deviation in *@sigma; 0: no gap above it. */
static double cluster_width(const struct edge_trial *trial, const struct edge_scratch *scratch,
			    int s, double *sigma)
{
	double least = residual(trial, scratch, s, 0), sum = 0, squares = 0, width;
	unsigned within[CLUSTER_WIDTHS] = {0};
	int w;

	for (size_t i = 1; i < trial->window.count[s]; i++)
		least = fmin(least, residual(trial, scratch, s, i));
	for (size_t i = 0; i < trial->window.count[s]; i++) {
		double r = residual(trial, scratch, s, i) - least;

		for (w = CLUSTER_WIDTHS - 1, width = CLUSTER_FIRST_NS * (1 << w);
		     w >= 0 && r <= width; w--, width /= 2)
			within[w]++;
	}
	for (w = 0; w < CLUSTER_WIDTHS - 1; w++)
		if (within[w] >= CLUSTER_ENOUGH && within[w + 1] * 4 <= within[w] * 5)
			break;
	if (w == CLUSTER_WIDTHS - 1)
		return 0;
	width = CLUSTER_FIRST_NS * (1 << w);
	for (size_t i = 0; i < trial->window.count[s]; i++) {
		double r = residual(trial, scratch, s, i) - least;

		if (r > width)
			continue;
		sum += r;
		squares += r * r;
	}
	*sigma = sqrt(fmax(0, squares / within[w] - sum / within[w] * (sum / within[w])));
	return width;
}

static double noise_of(const struct edge_trial *trial, const struct edge_scratch *scratch)
{
	double sigma[2] = {0, 0};

	for (int s = 0; s < 2; s++)
		if (!cluster_width(trial, scratch, s, &sigma[s]))
			return 0;
	return hypot(sigma[0], sigma[1]) / 2; /* two sides of two timestamps each */
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

bool edge_trial_tail(const struct edge_trial *trial, struct edge_scratch *scratch,
		     double rises_ns[EDGE_TAIL])
{
	memset(rises_ns, 0, EDGE_TAIL * sizeof(*rises_ns));
	for (int s = 0; s < 2; s++) {
		double *sorted = scratch->residuals;
		size_t count = trial->window.count[s];

		if (count < K_PART << (EDGE_TAIL - 1))
			return false;
		for (size_t i = 0; i < count; i++)
			sorted[i] = residual(trial, scratch, s, i);
		qsort(sorted, count, sizeof(*sorted), by_value);
		for (int i = 0; i < EDGE_TAIL; i++)
			rises_ns[i] += (sorted[(2 << i) - 1] - sorted[(1 << i) - 1]) / 2;
	}
	return true;
}

/* Sums for a least-squares line of one side. */
struct sums {
	double n, x, y, xx, xy;
};

static struct sums inliers_sum(const struct edge_trial *trial, const struct edge_scratch *scratch,
			       int s, double centre, double least, double most)
{
	struct sums sums = {0};

	for (size_t i = 0; i < trial->window.count[s]; i++) {
		double x = scratch->x[s][i], y = scratch->y[s][i];
		double r = (s ? -1 : 1) * (y - trial->slope_ppb * x - centre);

		if (r < least || r > most)
			continue;
		sums.n++;
		sums.x += x;
		sums.y += y;
		sums.xx += x * x;
		sums.xy += x * y;
	}
	return sums;
}

/* One slope for both sides, a level for each. False: a side has no point. */
static bool level_both(struct edge_trial *trial, const struct sums side[2], bool tilt,
		       const struct edgefit_hint *hint)
{
	double xx = 0, xy = 0, n = side[0].n + side[1].n;

	if (side[0].n < 1 || side[1].n < 1)
		return false;
	for (int s = 0; s < 2; s++) {
		xx += side[s].xx - side[s].x * side[s].x / side[s].n;
		xy += side[s].xy - side[s].x * side[s].y / side[s].n;
		trial->inliers[s] = (size_t)side[s].n;
		trial->x_mean_s[s] = side[s].x / side[s].n;
	}
	trial->spread_s = sqrt(fmax(0, xx / n));
	if (tilt && xx > 0)
		trial->slope_ppb = fmin(fmax(xy / xx, hint->least_ppb), hint->most_ppb);
	trial->upper_ns = (side[0].y - trial->slope_ppb * side[0].x) / side[0].n;
	trial->lower_ns = (side[1].y - trial->slope_ppb * side[1].x) / side[1].n;
	trial->middle_s = (trial->x_mean_s[0] + trial->x_mean_s[1]) / 2;
	return true;
}

static void refine(const struct edge *edge, struct edge_trial *trial,
		   const struct edgefit_hint *hint, const struct edge_scratch *scratch)
{
	double passage = passage_ns(edge, trial),
	       least = SPREAD_LEAST * edge_trial_seconds(edge, trial);
	double centre[2] = {trial->line.upper_ns, trial->line.lower_ns};
	double below = -INLIER_BELOW * passage, above = INLIER_ABOVE * passage;

	trial->slope_ppb = trial->line.slope_ppb;
	if (edge->tail.k) {
		below = -INFINITY;
		above = 0.5; /* the k-th itself: points are whole nanoseconds */
	}
	for (int pass = 0; pass < (edge->tail.k ? 1 : 2); pass++) {
		struct sums sums[2];

		for (int s = 0; s < 2; s++)
			sums[s] = inliers_sum(trial, scratch, s, centre[s], below, above);
		if (!level_both(trial, sums, pass && trial->spread_s > least, hint))
			return;
		centre[0] = trial->upper_ns;
		centre[1] = trial->lower_ns;
		below = -INLIER_AGAIN * passage;
		above = INLIER_AGAIN * passage;
	}
}

static bool has_support(const struct edge_trial *trial, int s)
{
	return trial->line.k[s] >= TRIAL_SUPPORT_ENOUGH &&
	       trial->inliers[s] >= TRIAL_SUPPORT_ENOUGH;
}

/*
 * Half the width over the least floor. Where one side's clean points are early in the window and
 * the other's late, a wrong slope hides lateness: the clock models' counts as well. An offset from
 * one side contains no lateness of the other.
 */
static double late_of(const struct edge *edge, const struct edge_trial *trial,
		      const struct edgefit_hint *hint)
{
	double half = edge_trial_half_ns(trial), apart_s = trial->x_mean_s[0] - trial->x_mean_s[1];
	double models_ppb = (hint->least_ppb + hint->most_ppb) / 2;

	if (!edge->floor_known || !edge->floor_least_ns || trial->one_side)
		return 0;
	if (hint->most_ppb < EDGEFIT_SLOPE_MAX_PPB)
		half = fmax(half, half + (trial->slope_ppb - models_ppb) * apart_s / 2);
	half -= edge->floor_least_ns;
	return half > edge_gap_ns(edge) ? half : 0;
}

/*
 * With support on one side only, the offset is computed from that side and the known floor. With
 * a standing queue on the other side it is that side's alone.
 */
static void use_floor(const struct edge *edge, struct edge_trial *trial,
		      const struct edgefit_hint *hint)
{
	bool good[2] = {has_support(trial, 0), has_support(trial, 1)};
	double middle_ns = (trial->upper_ns + trial->lower_ns) / 2;

	trial->excess_ns = edge->floor_known ? edge_trial_half_ns(trial) - edge->floor_ns : 0;
	trial->one_side = good[0] != good[1] && trial->excess_ns > edge_gap_ns(edge);
	trial->late_ns = late_of(edge, trial, hint);
	if (edge->floor_known && good[0] != good[1] && trial->excess_ns > 0)
		middle_ns += good[0] ? trial->excess_ns : -trial->excess_ns;
	if (trial->one_side)
		trial->middle_s = trial->x_mean_s[good[1]];
	trial->offset_ns = middle_ns + trial->slope_ppb * trial->middle_s;
}

static double side_sigma(const struct edge *edge, const struct edge_trial *trial, int s)
{
	double passage = passage_ns(edge, trial);

	if (!edge->floor_known && !has_support(trial, s))
		return WEAK_SIGMA_FACTOR * fmax(trial->line.y_spread[s], 16 * passage);
	/* The mean of a tail's lowest is one reading, with that noise. */
	return edge->tail.k ? passage : passage / sqrt((double)trial->inliers[s]);
}

static void evaluate(const struct edge *edge, struct edge_trial *trial)
{
	double seconds = edge_trial_seconds(edge, trial), late, drift;
	double sigma = hypot(side_sigma(edge, trial, 0), side_sigma(edge, trial, 1)) / 2;
	double lever = fmax(trial->spread_s, SPREAD_LEAST * seconds);
	bool weak = !has_support(trial, 0) || !has_support(trial, 1);

	if (trial->one_side)
		trial->offset_sigma_ns = hypot(side_sigma(edge, trial, has_support(trial, 1)),
					       ONE_SIDE_NOISES * edge->noise_ns);
	else
		trial->offset_sigma_ns = hypot(sigma, EXCESS_SIGMA * trial->excess_ns);
	trial->flagged = edge->floor_known ? fabs(trial->excess_ns) > edge_gap_ns(edge) : weak;
	drift = trial->offset_sigma_ns / lever;
	trial->drift_sigma_ppb = drift;
	/* Error of a line at its end if the drift wanders: about wander * window^2 / 12. */
	late = edge->wander_ppb * seconds * seconds / 6;
	trial->live_sigma_ns =
		hypot(hypot(trial->offset_sigma_ns, drift * (seconds / 2 - trial->middle_s)), late);
}

/* Minimum span of the points of each side. */
#define SPAN_LEAST_S 0.1

static bool spans_enough(const struct edge_window *window, const struct edge_scratch *scratch)
{
	for (int s = 0; s < 2; s++) {
		double least = INFINITY, most = -INFINITY;

		for (size_t i = 0; i < window->count[s]; i++) {
			least = fmin(least, scratch->x[s][i]);
			most = fmax(most, scratch->x[s][i]);
		}
		if (!(most - least >= SPAN_LEAST_S))
			return false;
	}
	return true;
}

/* The window's points in the scratch space; -EINVAL: too few. */
static int sides_of(const struct edge *edge, struct edge_window *window,
		    struct edge_scratch *scratch, struct edgefit_side side[2])
{
	gather(edge, window, scratch);
	if (!spans_enough(window, scratch))
		return -EINVAL;
	for (int s = 0; s < 2; s++)
		side[s] = (struct edgefit_side){scratch->x[s], scratch->y[s], window->count[s]};
	return 0;
}

int edge_trial_run(const struct edge *edge, struct edge_trial *trial,
		   const struct edgefit_hint *hint, struct edge_scratch *scratch)
{
	struct edgefit_side side[2];
	size_t most[2];
	int err = sides_of(edge, &trial->window, scratch, side);

	if (err)
		return err;
	for (int s = 0; s < 2; s++) {
		most[s] = trial->window.count[s] / K_PART;
		if (most[s] > K_MOST)
			most[s] = K_MOST;
	}
	if (edge->tail.k) {
		for (int s = 0; s < 2; s++) {
			if (most[s] > edge->tail.k)
				most[s] = edge->tail.k;
			if (most[s] < 2)
				most[s] = 2;
		}
		trial->averaged = (uint32_t)(most[0] < most[1] ? most[0] : most[1]);
		trial->line.steps = 0;
		err = edgefit_solve(side, most, hint, scratch->residuals, &trial->line);
	} else {
		trial->averaged = 0;
		err = edgefit_adapt(side, most, edge_gap_ns(edge), hint, scratch->residuals,
				    &trial->line);
	}
	if (err)
		return err;
	trial->noise_ns = noise_of(trial, scratch);
	refine(edge, trial, hint, scratch);
	use_floor(edge, trial, hint);
	evaluate(edge, trial);
	return 0;
}

double edge_trial_margin_ns(const struct edge *edge, struct edge_window *window,
			    struct edge_scratch *scratch, double *spread_ns)
{
	const size_t k[2] = {TRIAL_SUPPORT_ENOUGH, TRIAL_SUPPORT_ENOUGH};
	struct edgefit_hint hint = EDGEFIT_NO_HINT;
	struct edgefit_side side[2];
	struct edgefit_line line;

	hint.slope_ppb = edge->slope_ppb;
	if (sides_of(edge, window, scratch, side) ||
	    edgefit_solve(side, k, &hint, scratch->residuals, &line))
		return NAN;
	*spread_ns = edgefit_spread_ns(&line);
	return line.value;
}

double edge_margin_noise_ns(const struct edge *edge, double spread_ns)
{
	return MARGIN_SPREADS * spread_ns + edge_gap_ns(edge);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/edge.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define PAIRS_ENOUGH 16
#define SUPPORT_ENOUGH 4
#define HALVINGS_MAX 2
#define GAP_PER_NOISE 4.0
#define GAP_MIN_NS 16.0
/* Wander that is assumed before it is measured, and never less than that. */
#define WANDER_START_PPB 10.0
#define WANDER_MIN_PPB 3.0
#define WANDER_GAIN 0.05
#define FLOOR_GAIN 0.1
/* Stamps of a NIC may be read before the clock that says now. */
#define AHEAD_MAX_NS 10000000
#define WEAK_SIGMA_FACTOR 4.0

void edge_init(struct edge *edge, int64_t window_ns)
{
	memset(edge, 0, sizeof(*edge));
	edge->bucket_ns = window_ns / EDGE_BUCKETS;
	edge->wander_ppb = WANDER_START_PPB;
	for (int i = 0; i < EDGE_BUCKETS; i++)
		edge->buckets[i].index = -1;
	pairs_init(&edge->pairs);
}

static void cell_add(struct edge_cell *cell, const struct edge_point *point)
{
	uint8_t highest = 0;

	if (cell->count < EDGE_KEEP)
		cell->points[cell->count++] = *point;
	else if (point->height_ns < cell->points[cell->highest].height_ns)
		cell->points[cell->highest] = *point;
	else
		return;
	for (uint8_t i = 1; i < cell->count; i++)
		if (cell->points[i].height_ns > cell->points[highest].height_ns)
			highest = i;
	cell->highest = highest;
}

static struct edge_bucket *bucket_at(struct edge *edge, int64_t x_ns)
{
	int64_t index = x_ns / edge->bucket_ns;
	struct edge_bucket *bucket;

	if (x_ns < 0)
		return NULL;
	bucket = &edge->buckets[index % EDGE_BUCKETS];
	if (bucket->index > index)
		return NULL; /* older than the window */
	if (bucket->index < index) {
		memset(bucket, 0, sizeof(*bucket));
		bucket->index = index;
	}
	return bucket;
}

/* Height above a line of the last slope through the bucket's beginning. */
static double height_of(const struct edge *edge, enum clock_side side, int64_t x_ns, int64_t y_ns)
{
	double tilt = edge->slope_ppb * 1e-9 * (double)(x_ns % edge->bucket_ns);

	return side == CLOCK_FORWARD ? (double)y_ns - tilt : tilt - (double)y_ns;
}

void edge_add(struct edge *edge, enum clock_side side, const struct clock_probe *probe,
	      int64_t now_ns)
{
	int64_t x_ns = side == CLOCK_FORWARD ? probe->tx_ns : probe->rx_ns;
	int64_t remote_ns = side == CLOCK_FORWARD ? probe->rx_ns : probe->tx_ns;
	struct edge_point point = {x_ns, ns_sub(remote_ns, x_ns), 0};
	int64_t age_ns = ns_sub(now_ns, x_ns);
	enum pairs_verdict verdict;
	struct edge_bucket *bucket;

	if (age_ns < -AHEAD_MAX_NS || age_ns > EDGE_BUCKETS * edge->bucket_ns)
		return;
	verdict = pairs_judge(&edge->pairs, side, probe);
	bucket = bucket_at(edge, x_ns);
	if (!bucket)
		return;
	point.height_ns = height_of(edge, side, x_ns, point.y_ns);
	bucket->seen[side]++;
	cell_add(&bucket->all[side], &point);
	if (verdict == PAIRS_KEPT) {
		bucket->pairs_kept[side]++;
		cell_add(&bucket->kept[side], &edge->first[side]);
		cell_add(&bucket->kept[side], &point);
	}
	edge->first[side] = point;
}

/* What a window holds, before it is centred. */
struct window {
	int64_t first, last; /* bucket indices */
	int64_t x0_ns, y0_ns;
	bool kept;
	size_t count[2];
};

static void window_count(struct edge *edge, const struct window *window)
{
	struct edge_estimate *estimate = &edge->estimate;
	uint32_t kept[2] = {0, 0};

	estimate->points[0] = estimate->points[1] = 0;
	for (int i = 0; i < EDGE_BUCKETS; i++) {
		const struct edge_bucket *bucket = &edge->buckets[i];

		if (bucket->index < window->first || bucket->index > window->last)
			continue;
		for (int s = 0; s < 2; s++) {
			estimate->points[s] += bucket->seen[s];
			kept[s] += bucket->pairs_kept[s];
		}
	}
	estimate->pairs_kept = kept[0] + kept[1];
	estimate->pairs_seen = (estimate->points[0] + estimate->points[1]) / 2;
	estimate->used_pairs = kept[0] >= PAIRS_ENOUGH && kept[1] >= PAIRS_ENOUGH;
}

static void window_gather(const struct edge *edge, struct window *window,
			  struct edge_scratch *scratch)
{
	bool anchored = false;

	window->count[0] = window->count[1] = 0;
	window->x0_ns = (window->first + window->last + 1) * edge->bucket_ns / 2;
	for (int i = 0; i < EDGE_BUCKETS; i++) {
		const struct edge_bucket *bucket = &edge->buckets[i];

		if (bucket->index < window->first || bucket->index > window->last)
			continue;
		for (int s = 0; s < 2; s++) {
			const struct edge_cell *cell =
				window->kept ? &bucket->kept[s] : &bucket->all[s];

			for (int p = 0; p < cell->count; p++) {
				const struct edge_point *point = &cell->points[p];
				size_t n = window->count[s]++;

				if (!anchored)
					window->y0_ns = point->y_ns;
				anchored = true;
				scratch->x[s][n] = (double)(point->x_ns - window->x0_ns) * 1e-9;
				scratch->y[s][n] = (double)ns_sub(point->y_ns, window->y0_ns);
			}
		}
	}
}

/* A fit of one window, in numbers that windows can be compared by. */
struct trial {
	struct window window;
	struct edgefit_line line;
	double middle_s;   /* of the points that hold the line, after x0 */
	double offset_ns;  /* against y0 there */
	double excess_ns;  /* of the width over the path's known floor */
	double offset_sigma_ns, drift_sigma_ppb, live_sigma_ns;
	bool flagged;
};

/* Where the fit is trusted less on one side, the known floor tells the offset from the other. */
static void trial_use_floor(const struct edge *edge, struct trial *trial)
{
	const struct edgefit_line *line = &trial->line;
	double half = (line->upper_ns - line->lower_ns) / 2;
	bool good[2] = {line->k[0] >= SUPPORT_ENOUGH, line->k[1] >= SUPPORT_ENOUGH};

	trial->middle_s = (line->x_mean[0] + line->x_mean[1]) / 2;
	trial->offset_ns = (line->upper_ns + line->lower_ns) / 2 + line->slope_ppb * trial->middle_s;
	trial->excess_ns = edge->floor_known ? 2 * (half - edge->floor_ns) : 0;
	if (!edge->floor_known || good[0] == good[1] || trial->excess_ns <= 0)
		return;
	trial->middle_s = line->x_mean[good[0] ? 0 : 1];
	trial->offset_ns = (good[0] ? line->upper_ns - edge->floor_ns :
				      line->lower_ns + edge->floor_ns) +
			   line->slope_ppb * trial->middle_s;
}

static void trial_sigma(const struct edge *edge, struct trial *trial)
{
	const struct edgefit_line *line = &trial->line;
	double window_s = (double)(trial->window.last - trial->window.first + 1) *
			  (double)edge->bucket_ns * 1e-9;
	double side_sigma[2], lever[2], noise = edge->pairs.noise_ns, both, late;
	bool weak = line->k[0] < SUPPORT_ENOUGH && line->k[1] < SUPPORT_ENOUGH;

	for (int s = 0; s < 2; s++) {
		double k = (double)line->k[s];

		side_sigma[s] = fmax(line->y_spread[s], noise) / sqrt(k);
		lever[s] = fmax(line->x_spread[s], 0.05 * window_s);
		if (line->k[s] < SUPPORT_ENOUGH && !edge->floor_known)
			side_sigma[s] = WEAK_SIGMA_FACTOR * fmax(line->y_spread[s], 16 * noise);
	}
	both = hypot(side_sigma[0], side_sigma[1]) / 2;
	trial->flagged = line->k[0] < SUPPORT_ENOUGH || line->k[1] < SUPPORT_ENOUGH;
	if (edge->floor_known && trial->flagged) {
		/* Each side is off by some part of the excess, and the floor by its own error. */
		if (weak)
			both = hypot(both, trial->excess_ns / 2);
		else
			both = 2 * both;
		trial->flagged = fabs(trial->excess_ns) > 2 * fmax(GAP_MIN_NS, GAP_PER_NOISE * noise);
	}
	trial->offset_sigma_ns = both;
	trial->drift_sigma_ppb =
		hypot(side_sigma[0] / lever[0], side_sigma[1] / lever[1]) / 2;
	/* A line through a wandering drift is off by about wander * window^2 / 12 at its end. */
	late = edge->wander_ppb * window_s * window_s / 6;
	trial->live_sigma_ns =
		hypot(hypot(both, trial->drift_sigma_ppb * (window_s / 2 - trial->middle_s)), late);
}

static int trial_run(struct edge *edge, struct trial *trial, const struct edgefit_hint *hint,
		     struct edge_scratch *scratch)
{
	struct edgefit_side side[2];
	size_t most[2];
	int err;

	window_gather(edge, &trial->window, scratch);
	for (int s = 0; s < 2; s++) {
		side[s] = (struct edgefit_side){scratch->x[s], scratch->y[s],
						trial->window.count[s]};
		most[s] = trial->window.count[s] / 4;
	}
	err = edgefit_adapt(side, most, fmax(GAP_MIN_NS, GAP_PER_NOISE * edge->pairs.noise_ns),
			    hint, scratch->residuals, &trial->line);
	if (err)
		return err;
	trial_use_floor(edge, trial);
	trial_sigma(edge, trial);
	return 0;
}

static struct edgefit_hint hint_of(const struct edge *edge, const struct edge_prior *prior)
{
	struct edgefit_hint hint = EDGEFIT_NO_HINT;

	hint.slope_ppb = edge->slope_ppb;
	if (prior && prior->known) {
		hint.slope_ppb = prior->drift_ppb;
		hint.least_ppb = prior->drift_ppb - prior->span_ppb;
		hint.most_ppb = prior->drift_ppb + prior->span_ppb;
	}
	return hint;
}

/* The floor is learnt from fits that both sides hold; one that stays elsewhere is a new path. */
static void floor_learn(struct edge *edge, const struct trial *trial)
{
	double half = (trial->line.upper_ns - trial->line.lower_ns) / 2;
	double allowed = 2 * fmax(GAP_MIN_NS, GAP_PER_NOISE * edge->pairs.noise_ns);

	if (trial->line.k[0] < SUPPORT_ENOUGH || trial->line.k[1] < SUPPORT_ENOUGH)
		return;
	if (edge->floor_known && fabs(half - edge->floor_ns) > allowed &&
	    ++edge->floor_misses < EDGE_PATH_ROUNDS)
		return;
	if (!edge->floor_known || edge->floor_misses >= EDGE_PATH_ROUNDS)
		edge->floor_ns = half;
	edge->floor_known = true;
	edge->floor_misses = 0;
	edge->floor_ns += FLOOR_GAIN * (half - edge->floor_ns);
}

/* Drift now against drift a second ago, less what the fits' own errors make. */
static void wander_learn(struct edge *edge, const struct edge_estimate *estimate)
{
	unsigned slot = edge->past_next % 4;
	double span_s = (double)(estimate->local_ns - edge->past[slot].local_ns) * 1e-9;

	if (edge->past[slot].local_ns && span_s > 0.5 && span_s < 2) {
		double moved = (estimate->drift_ppb - edge->past[slot].drift_ppb) / span_s;
		double noise = hypot(estimate->drift_sigma_ppb, edge->past[slot].sigma_ppb) / span_s;
		double square = fmax(0, moved * moved - noise * noise);

		square = edge->wander_ppb * edge->wander_ppb * (1 - WANDER_GAIN) +
			 WANDER_GAIN * fmin(square, 100 * edge->wander_ppb * edge->wander_ppb);
		edge->wander_ppb = fmax(sqrt(square), WANDER_MIN_PPB);
	}
	edge->past[slot].local_ns = estimate->local_ns;
	edge->past[slot].drift_ppb = estimate->drift_ppb;
	edge->past[slot].sigma_ppb = estimate->drift_sigma_ppb;
	edge->past_next++;
}

static void publish(struct edge *edge, const struct trial *trial)
{
	struct edge_estimate *estimate = &edge->estimate;
	double whole = floor(trial->offset_ns);

	estimate->valid = true;
	estimate->flagged = trial->flagged;
	estimate->local_ns = trial->window.x0_ns + (int64_t)rint(trial->middle_s * 1e9);
	estimate->offset_ns = ns_add(trial->window.y0_ns, (int64_t)whole);
	estimate->offset_fraction_ns = trial->offset_ns - whole;
	estimate->drift_ppb = trial->line.slope_ppb;
	estimate->floor_ns = (trial->line.upper_ns - trial->line.lower_ns) / 2;
	estimate->residual_ns = fmax(trial->line.y_spread[0], trial->line.y_spread[1]);
	estimate->offset_sigma_ns = trial->offset_sigma_ns;
	estimate->drift_sigma_ppb = trial->drift_sigma_ppb;
	estimate->window_s = (double)(trial->window.last - trial->window.first + 1) *
			     (double)edge->bucket_ns * 1e-9;
	estimate->noise_ns = edge->pairs.noise_ns;
	estimate->support[0] = (uint32_t)trial->line.k[0];
	estimate->support[1] = (uint32_t)trial->line.k[1];
}

int edge_fit(struct edge *edge, int64_t now_ns, const struct edge_prior *prior,
	     struct edge_scratch *scratch)
{
	int64_t last = now_ns / edge->bucket_ns;
	struct edgefit_hint hint = hint_of(edge, prior);
	struct trial best, trial = {.window = {.first = last - EDGE_BUCKETS + 1, .last = last}};
	int err;

	pairs_adapt(&edge->pairs);
	edge->estimate.valid = false;
	window_count(edge, &trial.window);
	trial.window.kept = edge->estimate.used_pairs;
	err = trial_run(edge, &trial, &hint, scratch);
	if (err)
		return -ENODATA;
	best = trial;
	for (int halving = 1; halving <= HALVINGS_MAX && !best.flagged; halving++) {
		hint.slope_ppb = best.line.slope_ppb;
		trial.window.first = last - (EDGE_BUCKETS >> halving) + 1;
		if (trial_run(edge, &trial, &hint, scratch) ||
		    trial.live_sigma_ns > best.live_sigma_ns)
			break;
		best = trial;
	}
	floor_learn(edge, &best);
	publish(edge, &best);
	edge->slope_ppb = best.line.slope_ppb;
	wander_learn(edge, &edge->estimate);
	edge->fitted = true;
	return 0;
}

int64_t edge_pair_interval(const struct edge *edge, int64_t base_ns)
{
	const struct edge_estimate *estimate = &edge->estimate;
	uint32_t least = estimate->support[0] < estimate->support[1] ? estimate->support[0] :
								       estimate->support[1];

	if (!estimate->valid || !edge->floor_known)
		return base_ns;
	if (estimate->flagged || least < SUPPORT_ENOUGH)
		return base_ns / 4;
	if (least < 2 * SUPPORT_ENOUGH)
		return base_ns / 2;
	if (estimate->window_s < (double)edge->bucket_ns * EDGE_BUCKETS * 0.4e-9)
		return base_ns * 5;
	return base_ns;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/edge.h"
#include "clocksync/edgetrial.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define PAIRS_ENOUGH 16
#define HALVINGS_MAX 2
#define WIDTH_PER_NOISE 3.0
/* Wander before it is measured, and its minimum. */
#define WANDER_START_PPB 10.0
#define WANDER_MIN_PPB 3.0
#define WANDER_GAIN 0.05
#define NOISE_START_NS 20.0
#define NOISE_MIN_NS 1.0
#define NOISE_GAIN 0.2
#define FLOOR_GAIN 0.1
/* Rises are means of some ten seconds, and so long there was no clean packet. */
#define TAIL_GAIN 0.02
#define TAIL_ROUNDS 40
#define TAIL_LEAST 2 /* 2^2 points, TRIAL_SUPPORT_ENOUGH: of fewer the lowest say more */
#define TAIL_WINDOW_NS 2000000000LL
#define TAIL_CLEAN 8 /* fits in a row with clean packets: there are */
/* A direction without a probe for this long and for this many of its mean gaps is lost. */
#define SILENT_NS 250000000
#define SILENT_GAPS 8
/* Timestamps of a NIC may be ahead of the clock of @now_ns. */
#define AHEAD_MAX_NS 10000000

void edge_init(struct edge *edge, int64_t window_ns)
{
	memset(edge, 0, sizeof(*edge));
	edge->bucket_ns = window_ns / EDGE_BUCKETS;
	edge->wander_ppb = WANDER_START_PPB;
	edge->noise_ns = NOISE_START_NS;
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
	enum pairs_result status;
	struct edge_bucket *bucket;

	if (age_ns < -AHEAD_MAX_NS || age_ns > EDGE_BUCKETS * edge->bucket_ns)
		return;
	edge->received_ns[side] = now_ns;
	status = pairs_add(&edge->pairs, side, probe);
	bucket = bucket_at(edge, x_ns);
	if (!bucket)
		return;
	point.height_ns = height_of(edge, side, x_ns, point.y_ns);
	bucket->seen[side]++;
	cell_add(&bucket->all[side], &point);
	if (status == PAIRS_KEPT) {
		bucket->pairs_kept[side]++;
		cell_add(&bucket->kept[side], &edge->first[side]);
		cell_add(&bucket->kept[side], &point);
	}
	edge->first[side] = point;
}

static void window_count(struct edge *edge, int64_t last)
{
	struct edge_estimate *estimate = &edge->estimate;
	uint32_t kept[2] = {0, 0};

	estimate->points[0] = estimate->points[1] = 0;
	for (int i = 0; i < EDGE_BUCKETS; i++) {
		const struct edge_bucket *bucket = &edge->buckets[i];

		if (bucket->index <= last - EDGE_BUCKETS || bucket->index > last)
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

static bool is_silent(const struct edge *edge, int64_t now_ns)
{
	for (int s = 0; s < 2; s++) {
		int64_t gap_ns = EDGE_BUCKETS * edge->bucket_ns / (1 + edge->estimate.points[s]);
		int64_t silent_ns = ns_sub(now_ns, edge->received_ns[s]);

		if (silent_ns > SILENT_NS && silent_ns > SILENT_GAPS * gap_ns)
			return true;
	}
	return false;
}

static struct edgefit_hint hint_of(const struct edge *edge, const struct edge_prior *prior)
{
	struct edgefit_hint hint = EDGEFIT_NO_HINT;

	hint.slope_ppb = edge->slope_ppb;
	hint.first_k = edge->first_k;
	if (edge->floor_known)
		hint.width_ns = 2 * (edge->floor_ns + WIDTH_PER_NOISE * edge->noise_ns);
	if (prior && prior->known) {
		hint.slope_ppb = prior->drift_ppb;
		hint.least_ppb = prior->drift_ppb - prior->span_ppb;
		hint.most_ppb = prior->drift_ppb + prior->span_ppb;
		/* With that slope the offset of now is right, whichever it was. */
		if (edge->peer.unproven)
			hint.least_ppb = hint.most_ppb = prior->drift_ppb;
	}
	return hint;
}

/*
 * The least floor of the last EDGE_LEASTS intervals, this one (@index) included: a path that has
 * become longer counts as late until the last interval before it is forgotten.
 */
static void least_learn(struct edge *edge, int64_t index)
{
	int64_t missed = index - edge->least_index;
	double lasting = 0, least;

	/* Until a change of a rate is known its points are on a bent line, which seems narrower. */
	edge->floors_ns[edge->floors++ % EDGE_LASTING] = edge->floor_ns;
	for (unsigned i = 0; i < EDGE_LASTING && i < edge->floors; i++)
		lasting = fmax(lasting, edge->floors_ns[i]);
	least = lasting;
	if (missed > EDGE_LEASTS || !edge->floor_least_ns)
		missed = EDGE_LEASTS;
	for (int64_t i = 0; i < missed; i++)
		edge->leasts_ns[(index + EDGE_LEASTS - i) % EDGE_LEASTS] = lasting;
	edge->least_index = index;
	edge->leasts_ns[index % EDGE_LEASTS] = fmin(edge->leasts_ns[index % EDGE_LEASTS], lasting);
	for (int i = 0; i < EDGE_LEASTS; i++)
		least = fmin(least, edge->leasts_ns[i]);
	edge->floor_least_ns = least;
}

/* Learns the floor from fits with support on both sides; a persistent change is a new path. */
static void floor_learn(struct edge *edge, const struct edge_trial *trial)
{
	double half = edge_trial_half_ns(trial), noise = edge->noise_ns;

	if (trial->line.k[0] < TRIAL_SUPPORT_ENOUGH || trial->line.k[1] < TRIAL_SUPPORT_ENOUGH)
		return;
	if (edge->floor_known && fabs(half - edge->floor_ns) > edge_gap_ns(edge) &&
	    ++edge->floor_misses < EDGE_PATH_ROUNDS)
		return;
	if (!edge->floor_known || edge->floor_misses >= EDGE_PATH_ROUNDS)
		edge->floor_ns = half;
	edge->floor_known = true;
	edge->floor_misses = 0;
	/* Queues only add delay: values above the floor have less weight than values below. */
	edge->floor_ns += FLOOR_GAIN * fmin(fmax(half - edge->floor_ns, -4 * noise), noise / 2);
	least_learn(edge, trial->window.last * edge->bucket_ns / EDGE_LEAST_NS);
}

/* Noise and floor were those of the tail. */
static void tail_end(struct edge *edge)
{
	edge->tail.k = 0;
	edge->tail.rounds = 0;
	edge->noise_known = edge->floor_known = false;
}

/*
 * Until timestamp noise is known by clean packets, and there may be none: emulated machines, links
 * that are always full. Then the lowest delays scatter by microseconds, and how they rise from the
 * k-th to the 2k-th shows how many are to be averaged: the mean of k scatters by about
 * rise / ln 2 / sqrt(k), that of a fit by the root of a half of it.
 */
static void tail_learn(struct edge *edge, const struct edge_trial *trial,
		       struct edge_scratch *scratch)
{
	bool clean = trial->noise_ns > 0 || !edge->pairs.no_knee;
	double rises_ns[EDGE_TAIL], gain, least = INFINITY;
	int best = 0;

	edge->tail.clean = clean ? edge->tail.clean + 1 : 0;
	if (edge->tail.k && edge->tail.clean >= TAIL_CLEAN)
		tail_end(edge);
	if (clean || (edge->noise_known && !edge->tail.k) ||
	    !edge_trial_tail(trial, scratch, rises_ns))
		return;
	gain = fmax(TAIL_GAIN, 1.0 / ++edge->tail.rounds);
	for (int i = 0; i < EDGE_TAIL; i++) {
		double *rise = &edge->tail.log_rises[i], sigma_ns;

		/* Small k vary the most, and have lower logarithms: in doubt it is the lowest. */
		*rise += gain * (log(fmax(rises_ns[i], NOISE_MIN_NS)) - *rise);
		sigma_ns = exp(*rise) / (M_LN2 * sqrt(1 << i));
		if (sigma_ns < least) {
			least = sigma_ns;
			best = i;
		}
	}
	if (edge->tail.rounds < TAIL_ROUNDS)
		return;
	if (best < TAIL_LEAST) {
		if (edge->tail.k)
			tail_end(edge);
		return;
	}
	if (!edge->tail.k)
		edge->tail.rounds = 0; /* the window changes: tail_halvings() */
	edge->tail.k = (size_t)1 << best;
	edge->noise_known = true;
	edge->noise_ns = least / M_SQRT2; /* two timestamps each */
}

/* The smaller of the pairs' and the clouds' estimate: queues only add to either. */
static void noise_learn(struct edge *edge, double cluster_ns)
{
	double noise = cluster_ns;

	if (!edge->pairs.no_knee && edge->pairs.measured &&
	    (noise <= 0 || edge->pairs.noise_ns < noise))
		noise = edge->pairs.noise_ns;
	if (noise <= 0)
		return;
	noise = fmax(noise, NOISE_MIN_NS);
	edge->noise_ns *= edge->noise_known ? pow(noise / edge->noise_ns, NOISE_GAIN)
					    : noise / edge->noise_ns;
	edge->noise_known = true;
}

/* Change of the drift in a second, less the fits' own error. */
static void wander_learn(struct edge *edge, const struct edge_estimate *estimate)
{
	unsigned slot = edge->past_next % 4;
	double span_s = (double)(estimate->local_ns - edge->past[slot].local_ns) * 1e-9;

	if (edge->past[slot].local_ns && span_s > 0.5 && span_s < 2) {
		double moved = (estimate->drift_ppb - edge->past[slot].drift_ppb) / span_s;
		double noise =
			hypot(estimate->drift_sigma_ppb, edge->past[slot].sigma_ppb) / span_s;
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

static void publish(struct edge *edge, const struct edge_trial *trial)
{
	struct edge_estimate *estimate = &edge->estimate;
	double whole = floor(trial->offset_ns);

	estimate->valid = true;
	estimate->flagged = trial->flagged;
	estimate->one_side = trial->one_side;
	estimate->averaged = trial->averaged;
	estimate->local_ns = trial->window.x0_ns + (int64_t)rint(trial->middle_s * 1e9);
	estimate->offset_ns = ns_add(trial->window.y0_ns, (int64_t)whole);
	estimate->offset_fraction_ns = trial->offset_ns - whole;
	estimate->drift_ppb = trial->slope_ppb;
	estimate->floor_ns = edge_trial_half_ns(trial);
	estimate->residual_ns = edgefit_spread_ns(&trial->line);
	estimate->offset_sigma_ns = trial->offset_sigma_ns;
	estimate->drift_sigma_ppb = trial->drift_sigma_ppb;
	estimate->window_s = edge_trial_seconds(edge, trial);
	estimate->noise_ns = edge->noise_ns;
	estimate->late_ns = trial->late_ns;
	for (int s = 0; s < 2; s++)
		estimate->support[s] = (uint32_t)trial->inliers[s];
}

static int try_window(struct edge *edge, int64_t last, unsigned halvings,
		      const struct edgefit_hint *hint, struct edge_scratch *scratch,
		      struct edge_trial *trial)
{
	trial->window.last = last;
	trial->window.first = last - (EDGE_BUCKETS >> halvings) + 1;
	trial->window.kept = edge->estimate.used_pairs;
	return edge_trial_run(edge, trial, hint, scratch);
}

/*
 * The mean of the lowest delays of a long window is no better than that of several fits, and a
 * clock that is slewed meanwhile bends it.
 */
static unsigned tail_halvings(const struct edge *edge)
{
	int64_t window_ns = EDGE_BUCKETS * edge->bucket_ns;
	unsigned halvings = 0;

	while (halvings < HALVINGS_MAX && window_ns >> (halvings + 1) >= TAIL_WINDOW_NS)
		halvings++;
	return halvings;
}

/* Tries the window of the last fit and, alternately, the next shorter or longer one. */
static int best_window(struct edge *edge, int64_t last, struct edgefit_hint *hint,
		       struct edge_scratch *scratch, struct edge_trial *best)
{
	struct edge_trial other;
	unsigned beside;

	if (edge->tail.k)
		edge->halvings = tail_halvings(edge);
	for (;; edge->halvings--) {
		int err = try_window(edge, last, edge->halvings, hint, scratch, best);

		if (!edge->halvings && err)
			return err;
		if (!edge->halvings || (!err && (!best->flagged || edge->tail.k)))
			break;
	}
	if (best->flagged || edge->tail.k)
		return 0;
	edge->shorter = !edge->shorter;
	if (edge->shorter ? edge->halvings == HALVINGS_MAX : !edge->halvings)
		edge->shorter = !edge->shorter;
	beside = edge->halvings + (edge->shorter ? 1 : -1u);
	hint->slope_ppb = best->slope_ppb;
	if (try_window(edge, last, beside, hint, scratch, &other) || other.flagged ||
	    other.live_sigma_ns >= best->live_sigma_ns)
		return 0;
	*best = other;
	edge->halvings = beside;
	return 0;
}

/*
 * A standing queue in one direction also tilts the line: with the slope of the clock models
 * the other direction may be clean.
 */
static void one_side(struct edge *edge, int64_t last, const struct edgefit_hint *hint,
		     const struct edge_prior *prior, struct edge_scratch *scratch,
		     struct edge_trial *best)
{
	struct edgefit_hint fixed = *hint;
	struct edge_trial trial;

	fixed.slope_ppb = fixed.least_ppb = fixed.most_ppb = prior->drift_ppb;
	fixed.width_ns = 1e300;
	if (best->one_side || try_window(edge, last, 0, &fixed, scratch, &trial) || !trial.one_side)
		return;
	trial.drift_sigma_ppb = fmax(trial.drift_sigma_ppb, prior->span_ppb);
	*best = trial;
}

/*
 * No packet arrives before it was sent: where the clouds overlap at all slopes near that of the
 * clock models these are wrong, as after a slew that was too fast to follow. False: they are not.
 */
static bool without_prior(struct edge *edge, int64_t last, struct edgefit_hint *hint,
			  struct edge_scratch *scratch, struct edge_trial *best)
{
	double noise_ns = edge_margin_noise_ns(edge, edgefit_spread_ns(&best->line));
	struct edge_trial trial;

	if (2 * edge_trial_half_ns(best) >= -noise_ns)
		return false;
	hint->least_ppb = -EDGEFIT_SLOPE_MAX_PPB;
	hint->most_ppb = EDGEFIT_SLOPE_MAX_PPB;
	if (!try_window(edge, last, 0, hint, scratch, &trial))
		*best = trial;
	return true;
}

int edge_fit(struct edge *edge, int64_t now_ns, const struct edge_prior *prior,
	     struct edge_scratch *scratch)
{
	int64_t last = now_ns / edge->bucket_ns;
	struct edgefit_hint hint = hint_of(edge, prior);
	struct edge_trial best, learned;

	pairs_adapt(&edge->pairs);
	edge->estimate.valid = false;
	window_count(edge, last);
	if (is_silent(edge, now_ns) || best_window(edge, last, &hint, scratch, &best))
		return -ENODATA;
	if (prior && prior->known && without_prior(edge, last, &hint, scratch, &best))
		prior = NULL;
	tail_learn(edge, &best, scratch);
	if (!edge->tail.k)
		noise_learn(edge, best.noise_ns);
	if (best.flagged && edge->floor_known && prior && prior->known)
		one_side(edge, last, &hint, prior, scratch, &best);
	learned = best;
	if (edge->floor_known && best.flagged) {
		/* A standing queue, or another path: fit without the old floor. */
		hint.width_ns = 1e300;
		try_window(edge, last, 0, &hint, scratch, &learned);
	}
	floor_learn(edge, &learned);
	publish(edge, &best);
	edge->slope_ppb = best.slope_ppb;
	edge->first_k = best.line.k[0] < best.line.k[1] ? best.line.k[0] : best.line.k[1];
	wander_learn(edge, &edge->estimate);
	return 0;
}

int64_t edge_pair_interval(const struct edge *edge, int64_t base_ns)
{
	const struct edge_estimate *estimate = &edge->estimate;
	uint32_t least = estimate->support[0] < estimate->support[1] ? estimate->support[0]
								     : estimate->support[1];

	if (!estimate->valid || !edge->floor_known || edge->tail.k)
		return base_ns;
	if (estimate->flagged || least < TRIAL_SUPPORT_ENOUGH)
		return base_ns / 4;
	if (least < 3 * TRIAL_SUPPORT_ENOUGH)
		return base_ns / 2;
	if (edge->halvings == HALVINGS_MAX)
		return base_ns * 5;
	return base_ns;
}

double edge_stretch(double pairs, double budget)
{
	return budget > 0 && pairs > budget ? pairs / budget : 1;
}

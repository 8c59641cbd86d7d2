// SPDX-License-Identifier: BSD-2-Clause
/* Internal to consensus: adapts the gate's width, the residual and the prediction error. */
#include <math.h>
#include <string.h>

#include "clocksync/reports.h"

#define SCALE_RISE 1.25 /* a round: falsetickers cannot widen the gate at once */
#define SCALE_FALL 0.9
#define RESIDUAL_FADE 0.9
#define FLAGGED_FADE 0.97 /* half in six seconds: the bound stays wide until TCP's next burst */
#define LATE_FADE 0.95
#define CLEAN_FACTOR 10.0
#define PREDICTION_ERROR_FADE 0.95
/* Part of the neighbours that is unlikely to be within one of two partitions. */
#define WHOLE_PART 0.6
/* Start values decay faster than observations. */
#define FADE_FIRST 0.8
#define ROUNDS_FIRST 40

static double follow_scale(double scale, double measured, double least)
{
	measured = fmin(fmax(measured, scale * SCALE_FALL), scale * SCALE_RISE);
	return fmax(measured, least);
}

/*
 * Deviation of a good neighbour, from the shortest interval with more than a third of the
 * reports: neither falsetickers nor a second group widen the gate. The factor is that of a
 * dozen normally distributed reports.
 */
#define SHORTEST_FACTOR 1.4

static double shortest_third(double *v, size_t count)
{
	size_t part = count / 3 + 1;
	double least;

	reports_median(v, count); /* sorts */
	least = v[part - 1] - v[0];
	for (size_t i = 1; i + part <= count; i++)
		least = fmin(least, v[i + part - 1] - v[i]);
	return SHORTEST_FACTOR * least;
}

static void learn_scale(struct consensus *consensus, const struct reports *reports)
{
	double offset[CONSENSUS_PEERS_MAX], drift[CONSENSUS_PEERS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < reports->count; i++) {
		if (reports->at[i].unsure)
			continue;
		offset[count] = reports->at[i].offset;
		drift[count++] = reports->at[i].drift;
	}
	if (count < 3)
		return;
	consensus->scale_ns =
		follow_scale(consensus->scale_ns, shortest_third(offset, count), SCALE_MIN_NS);
	consensus->scale_ppb =
		follow_scale(consensus->scale_ppb, shortest_third(drift, count), SCALE_MIN_PPB);
}

static double fade(const struct consensus *consensus, double later)
{
	return consensus->generation < ROUNDS_FIRST ? FADE_FIRST : later;
}

static void learn_residual(struct consensus *consensus, const struct reports *reports,
			   double offset)
{
	double squares = 0, weights = 0, residual, flagged = 0, mean = 0;
	double sigma[CONSENSUS_PEERS_MAX], one_side = 0, late = 0;
	size_t used = 0, whole = 0;

	for (size_t i = 0; i < reports->count; i++) {
		const struct report *report = &reports->at[i];
		double away = report->offset - offset;

		if (!report->in)
			continue;
		squares += report->weight * away * away;
		weights += report->weight;
		late += report->weight * report->late_error;
		flagged += report->flagged;
		mean += report->weight * report->sigma;
		sigma[used++] = report->sigma;
		if (report->one_side)
			one_side = fmax(one_side, report->sigma);
		else
			whole++;
	}
	consensus->one_side_ns = (double)whole < WHOLE_PART * consensus->degree ? one_side : 0;
	if (weights > 0)
		consensus->late_ns = fmax(late / weights, consensus->late_ns * LATE_FADE);
	residual = weights > 0 ? sqrt(squares / weights) : 0;
	/* The residual of one or two of many reports is no estimate of their error. */
	if (used < 3 && reports->count > used)
		residual = fmax(residual, consensus->scale_ns);
	consensus->residual_ns =
		fmax(residual, consensus->residual_ns * fade(consensus, RESIDUAL_FADE));
	if (!used)
		return;
	consensus->flagged = flagged / (double)used;
	consensus->flagged_peak = fmax(consensus->flagged, consensus->flagged_peak * FLAGGED_FADE);
	/* A clean fit has most of the weight beside many with queueing delay. */
	consensus->sigma_ns = fmin(reports_median(sigma, used), CLEAN_FACTOR * mean / weights);
}

/*
 * Error of the mean of most neighbors: the largest sigma of the part that no partition has alone.
 * In the formal error a few precise edges, which may all be of one rack, count for all.
 */
static void learn_most(struct consensus *consensus, const struct reports *reports)
{
	size_t count = 0, most = (size_t)ceil(WHOLE_PART * consensus->degree);
	double sigma[CONSENSUS_PEERS_MAX];

	for (size_t i = 0; i < reports->count; i++) {
		enum consensus_status status = consensus->peers[reports->at[i].slot].status;

		if (status == CONSENSUS_USED || status == CONSENSUS_UNSURE)
			sigma[count++] = reports->at[i].sigma;
	}
	if (!most || count < most)
		return;
	reports_median(sigma, count); /* sorts */
	consensus->most_sigma_ns = sigma[most - 1] / sqrt((double)count);
}

/* Distance of the line of @back rounds ago to the current one; negative: none recorded. */
static double prediction_error(const struct consensus *consensus, unsigned back, int64_t now_ns)
{
	unsigned slot = (consensus->past_next - back) % CONSENSUS_PAST;
	double span_s = (double)ns_sub(now_ns, consensus->past_ns[slot]) * 1e-9, error;

	if (!consensus->past_ns[slot])
		return -1;
	error = fabs(clock_line_gap(&consensus->past[slot], &consensus->line, now_ns));
	return span_s > 1 ? error / span_s : error;
}

static void learn_prediction_error(struct consensus *consensus, int64_t now_ns, bool fresh)
{
	unsigned slot = consensus->past_next % CONSENSUS_PAST;
	double keep = fade(consensus, PREDICTION_ERROR_FADE), error;

	if (fresh) {
		memset(consensus->past_ns, 0, sizeof(consensus->past_ns));
		consensus->prediction_error_ns =
			fmax(consensus->prediction_error_ns, PREDICTION_ERROR_START_NS);
		consensus->step_error_ns =
			fmax(consensus->step_error_ns, PREDICTION_ERROR_START_NS);
	}
	error = prediction_error(consensus, CONSENSUS_PAST, now_ns);
	if (error >= 0)
		consensus->prediction_error_ns = fmax(error, consensus->prediction_error_ns * keep);
	error = prediction_error(consensus, 1, now_ns);
	if (error >= 0)
		consensus->step_error_ns = fmax(error, consensus->step_error_ns * keep);
	consensus->past[slot] = consensus->line;
	consensus->past_ns[slot] = now_ns;
	consensus->past_next++;
}

void consensus_learn_reach(struct consensus *consensus, const struct reports *reports)
{
	double reach[CONSENSUS_PEERS_MAX + 1];
	size_t count = 0;
	unsigned degree = consensus->degree ? consensus->degree : 1;
	double mine = (double)consensus->used / degree;

	for (size_t i = 0; i < reports->count; i++)
		if (reports->at[i].in)
			reach[count++] = reports->at[i].reach;
	if (mine > 1)
		mine = 1;
	reach[count++] = consensus->reach;
	consensus->reach = (mine + 4 * reports_median(reach, count)) / 5;
}

void consensus_learn(struct consensus *consensus, const struct reports *reports, int64_t now_ns,
		     double offset, bool fresh)
{
	learn_scale(consensus, reports);
	learn_residual(consensus, reports, offset);
	learn_most(consensus, reports);
	learn_prediction_error(consensus, now_ns, fresh);
}

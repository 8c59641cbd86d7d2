// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/bound.h"

#include <math.h>

#define RESIDUAL_FACTOR 3.6
#define FLAGGED_FACTOR 1.4
#define SIGMA_FACTOR 0.2 /* the sigma of a weak fit is at least four times its error */
#define FORMAL_FACTOR 3.0
/* The floor is half the width; an offset from one side has twice the floor's error. */
#define ONE_SIDE_FACTOR 4.0
#define FORMAL_PPB_FACTOR 1.0
#define STEP_ERROR_FACTOR 1.3
/* Unobserved wander of the drift since the middle of the fits' windows. */
#define LAG_FACTOR 1.0
/* Peak of a dozen predictions whose only error is noise, in deviations. */
#define NOISE_PEAK 2.0
#define WANDER_LEAST_PART 0.5 /* of the prediction error */
#define PREDICTION_ERROR_PER_S 1.6
/* Alone or in the smaller partition: the drift wanders at the observed rate for this long. */
#define WANDER_LASTS_S 40.0
#define HOLDOVER_BEGINS_S 0.6
#define GROWTH_MAX_PPB 400000.0

static double seconds(int64_t from_ns, int64_t to_ns)
{
	return (double)ns_sub(to_ns, from_ns) * 1e-9;
}

/* A model without a next round continues at the round's rate, not at the holdover rate. */
static double unattended_ppb(const struct consensus *consensus)
{
	double holdover_rate = holdover_ppb(&consensus->holdover, &consensus->line);

	return holdover_error_ppb(&consensus->holdover) +
	       fabs(consensus->line.rate_ppb - holdover_rate);
}

static double alone_s(const struct consensus *consensus, int64_t now_ns)
{
	double unused = seconds(consensus->last_used_ns, now_ns), small = 0;

	if (consensus->last_whole_ns)
		small = seconds(consensus->last_whole_ns, now_ns);
	return fmax(0, fmax(unused, small) - HOLDOVER_BEGINS_S);
}

/* The oscillators' part of the prediction error: the fits' noise is in the other terms. */
static double wandered_ppb(const struct consensus *consensus, double used)
{
	double error = consensus->prediction_error_ns;
	double noise = NOISE_PEAK *
		       hypot(M_SQRT2 * consensus->residual_ns / sqrt(used), consensus->formal_ppb);

	return fmax(WANDER_LEAST_PART * error, sqrt(fmax(0, error * error - noise * noise)));
}

void bound_compute(const struct consensus *consensus, int64_t now_ns, double asymmetry_ns,
		   double behind_ns, struct bound *bound)
{
	double used = fmax(1, consensus->used), apart = alone_s(consensus, now_ns);
	/*
	 * Errors of clean fits are independent and shrink in the mean. A saturated link of the
	 * host biases all its edges alike; some fits are then flagged, or were shortly before.
	 */
	double flagged = consensus->flagged_peak;
	double shrink = FLAGGED_FACTOR * flagged + (1 - flagged) / sqrt(used);
	double mean = fmax(RESIDUAL_FACTOR * consensus->residual_ns * shrink,
			   FORMAL_FACTOR * consensus->formal_ns);
	double late, error, known;

	mean = fmax(mean, ONE_SIDE_FACTOR * consensus->one_side_ns);
	mean = fmax(mean, SIGMA_FACTOR * consensus->flagged * consensus->sigma_ns);
	bound->growth_ppb = fmin(PREDICTION_ERROR_PER_S * consensus->prediction_error_ns +
					 FORMAL_PPB_FACTOR * consensus->formal_ppb,
				 GROWTH_MAX_PPB);
	bound->late_ppb =
		fmin(fmax(unattended_ppb(consensus) - bound->growth_ppb, 0), GROWTH_MAX_PPB);
	late = fmax(STEP_ERROR_FACTOR * consensus->step_error_ns,
		    LAG_FACTOR * wandered_ppb(consensus, used) * consensus->lag_s);
	error = hypot(mean, late) + consensus->late_ns;
	/*
	 * Neighbors with precise edges may all be of one rack, whose uplinks are congested. The
	 * rack's error against the fleet is that of the other edges, now or when they were better.
	 */
	if (apart <= 0) {
		known = FORMAL_FACTOR * consensus->most_sigma_ns;
		if (bound->most_at_ns && consensus->settled)
			known = fmin(known,
				     bound->most_ns + bound->growth_ppb *
							      seconds(bound->most_at_ns, now_ns));
		bound->most_ns = known;
		bound->most_at_ns = now_ns;
	}
	error = fmax(error, bound->most_ns);
	bound->now_ns = asymmetry_ns + error + fabs(behind_ns);
	if (apart > 0) {
		double wander = holdover_wander(&consensus->holdover);
		double moves_s = fmin(apart, WANDER_LASTS_S);

		bound->growth_ppb += bound->late_ppb;
		bound->late_ppb = 0;
		bound->now_ns +=
			bound->growth_ppb * apart + wander * moves_s * (apart - moves_s / 2);
		bound->growth_ppb += wander * moves_s;
	}
}

// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/bound.h"

#include <math.h>

#define RESIDUAL_FACTOR 3.6
#define FLAGGED_FACTOR 1.4
#define SIGMA_FACTOR 0.2 /* a weak fit says four times and more what it is wrong by */
#define FORMAL_FACTOR 3.0
/* A floor is half of what two sides show; one side alone shows how wrong that is, twice. */
#define ONE_SIDE_FACTOR 4.0
#define FORMAL_PPB_FACTOR 1.0
#define JOLT_FACTOR 1.3
/* Since the middle of the fits' windows the drift has wandered unseen. */
#define LAG_FACTOR 1.0
/* The peak of a dozen predictions that nothing but noise is wrong with, in deviations. */
#define NOISE_PEAK 2.0
#define WANDER_LEAST_PART 0.5 /* of what was surprising */
#define SURPRISE_PER_S 1.6
/* Alone or with the smaller part: the drift wanders on, as it was seen to, for that long. */
#define WANDER_LASTS_S 40.0
#define HOLDOVER_BEGINS_S 0.6
#define GROWTH_MAX_PPB 400000.0

static double seconds(int64_t from_ns, int64_t to_ns)
{
	return (double)ns_sub(to_ns, from_ns) * 1e-9;
}

/* A model that is left alone goes on with the round's rate, which is not the held one. */
static double left_alone_ppb(const struct consensus *consensus)
{
	double held = holdover_ppb(&consensus->held, &consensus->line);

	return holdover_error_ppb(&consensus->held) + fabs(consensus->line.rate_ppb - held);
}

static double apart_s(const struct consensus *consensus, int64_t now_ns)
{
	double unused = seconds(consensus->last_used_ns, now_ns), small = 0;

	if (consensus->last_whole_ns)
		small = seconds(consensus->last_whole_ns, now_ns);
	return fmax(0, fmax(unused, small) - HOLDOVER_BEGINS_S);
}

/*
 * The part of the surprise that is the oscillators': what the fits' noise makes of a
 * prediction is in the other terms.
 */
static double wandered_ppb(const struct consensus *consensus, double used)
{
	double surprise = consensus->surprise_ns;
	double noise = NOISE_PEAK *
		       hypot(M_SQRT2 * consensus->residual_ns / sqrt(used), consensus->formal_ppb);

	return fmax(WANDER_LEAST_PART * surprise,
		    sqrt(fmax(0, surprise * surprise - noise * noise)));
}

void bound_compute(const struct consensus *consensus, int64_t now_ns, double asymmetry_ns,
		   double behind_ns, struct bound *bound)
{
	double used = fmax(1, consensus->used), apart = apart_s(consensus, now_ns);
	/*
	 * Errors of clean fits are each edge's own and shrink in the mean. A host's full
	 * link biases all its edges alike, and that is when fits are flagged, some of them or
	 * a moment before.
	 */
	double flagged = consensus->flagged_lately;
	double shrink = FLAGGED_FACTOR * flagged + (1 - flagged) / sqrt(used);
	double mean = fmax(RESIDUAL_FACTOR * consensus->residual_ns * shrink,
			   FORMAL_FACTOR * consensus->formal_ns);
	double late;

	mean = fmax(mean, ONE_SIDE_FACTOR * consensus->one_side_ns);
	mean = fmax(mean, SIGMA_FACTOR * consensus->flagged * consensus->sigma_ns);
	bound->growth_ppb = fmin(SURPRISE_PER_S * consensus->surprise_ns +
					 FORMAL_PPB_FACTOR * consensus->formal_ppb,
				 GROWTH_MAX_PPB);
	bound->late_ppb =
		fmin(fmax(left_alone_ppb(consensus) - bound->growth_ppb, 0), GROWTH_MAX_PPB);
	late = fmax(JOLT_FACTOR * consensus->jolt_ns,
		    LAG_FACTOR * wandered_ppb(consensus, used) * consensus->lag_s);
	bound->now_ns = asymmetry_ns + hypot(mean, late) + fabs(behind_ns);
	if (apart > 0) {
		double wander = holdover_wander(&consensus->held);
		double moves_s = fmin(apart, WANDER_LASTS_S);

		bound->growth_ppb += bound->late_ppb;
		bound->late_ppb = 0;
		bound->now_ns +=
			bound->growth_ppb * apart + wander * moves_s * (apart - moves_s / 2);
		bound->growth_ppb += wander * moves_s;
	}
}

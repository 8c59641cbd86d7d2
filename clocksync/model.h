/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The clock as it is read: a multiply, shifts and adds on 64-bit integers, the
 * same text in the kernel programs and in user space. No floating point, no
 * 128-bit product, no division.
 *
 * A model is a straight line from the value last shown to where the fabric's
 * clock will be at `turn`, and the fabric's clock from there on; so readings
 * are continuous and never go back, and a daemon that dies leaves the best
 * rate it knew, not the slope of its last correction.
 *
 * Rates are signed in units of 2^-40 (0.91e-12, 0.00091 ppb), at most
 * CLOCK_RATE_MAX (976 ppm). The product is exact: a reading is the real line
 * rounded down, so arithmetic costs less than 1 ns, plus half a unit of rate
 * times the age of the model: 0.5 ps a second, 1.6 ns an hour. Valid for
 * 2^52 ns (52 days) to either side of the reference.
 */
#ifndef ESC_CLOCKSYNC_MODEL_H
#define ESC_CLOCKSYNC_MODEL_H

#include "maps/clock.h"

#define CLOCK_RATE_SHIFT 40
#define CLOCK_RATE_MAX ((1 << 30) - 1)
/* An older model is in holdover: its rate is kept, and may be wrong. */
#define CLOCK_LATE_NS 1000000000ll

/*
 * A bound wider than this is no clock: free_running. An emulated machine on a busy host has
 * bounds of a millisecond, and delays of a hundred.
 */
#define CLOCK_BOUND_MAX_NS 10000000

/* @delta_ns * @rate * 2^-40 rounded down; |delta| < 2^52, |rate| < 2^30. */
static inline long long clock_scale(long long delta_ns, long long rate)
{
	long long high = delta_ns >> 20;
	long long low = delta_ns & 0xfffff;

	return (high * rate + ((low * rate) >> 20)) >> 20;
}

/* Fabric time at the local time @local_ns. */
static inline long long clock_model_read(const struct clock_model *model, long long local_ns)
{
	long long delta = local_ns - model->turn_local_ns;

	if (delta >= 0)
		return model->turn_fabric_ns + delta + clock_scale(delta, model->rate);
	delta = local_ns - model->ref_local_ns;
	return model->ref_fabric_ns + delta + clock_scale(delta, model->line_rate);
}

/* Half the width of [earliest, latest] at @local_ns. */
static inline long long clock_model_bound(const struct clock_model *model, long long local_ns)
{
	long long age = local_ns - model->bound_local_ns;

	if (age < 0)
		age = 0;
	age = clock_scale(age, model->bound_growth & CLOCK_RATE_MAX) +
	      (age > CLOCK_LATE_NS ? clock_scale(age, model->bound_late & CLOCK_RATE_MAX) : 0);
	return (long long)model->bound_ns + age + 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading the clock: a multiply, shifts and adds on 64-bit integers, shared by the
 * kernel programs and user space. No floating point, no 128-bit product, no division.
 *
 * A model has two lines: from ref, the last reading, a slew at ref_rate that ends on the
 * fabric's clock at slew_end, and from there the fabric's clock at `rate`. So readings are
 * continuous and monotone, and when the daemon dies the clock continues at the last
 * estimate of the rate, not at the rate of its last correction.
 *
 * Rates are signed in units of 2^-40 (0.91e-12, 0.00091 ppb), at most
 * CLOCK_RATE_MAX (976 ppm). The product is exact: a reading is the real line
 * rounded down, so the arithmetic error is below 1 ns, plus half a unit of rate
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
 * With a wider bound the state is free_running. An emulated machine on a busy host has
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
	long long delta = local_ns - model->slew_end_local_ns;

	if (delta >= 0)
		return model->slew_end_fabric_ns + delta + clock_scale(delta, model->rate);
	delta = local_ns - model->ref_local_ns;
	return model->ref_fabric_ns + delta + clock_scale(delta, model->ref_rate);
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

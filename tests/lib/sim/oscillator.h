/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's oscillator: offset, drift, a random walk of the drift, a slow sine
 * (the room's temperature) and steps of it (a fan, a job). Advanced by ticks.
 */
#ifndef ESC_TESTS_SIM_OSCILLATOR_H
#define ESC_TESTS_SIM_OSCILLATOR_H

#include "tests/lib/rng.h"

struct oscillator_config {
	double offset_max_ns;
	double drift_max_ppb;
	double walk_ppb; /* per square root of a second */
	double sine_ppb;
	double sine_period_s[2];
	double step_ppb;     /* of a temperature step */
	double step_every_s; /* 0: none */
};

struct oscillator {
	int64_t start_ns; /* of the clock: its value at true time 0 */
	double phase_ns;  /* local minus true minus start, at tick_ns */
	double rate_ppb;  /* during this tick */
	double base_ppb, walk_ppb, step_ppb, step_left_ppb;
	double sine_phase, sine_speed;
	int64_t tick_ns; /* true time at which this tick began */
};

void oscillator_init(struct oscillator *oscillator, const struct oscillator_config *config,
		     struct rng *rng);
void oscillator_tick(struct oscillator *oscillator, const struct oscillator_config *config,
		     struct rng *rng, int64_t tick_ns, int64_t length_ns);

/* Local time at the true time @true_ns of this tick; the rest below 1 ns goes to @fraction. */
static inline int64_t oscillator_read(const struct oscillator *oscillator, int64_t true_ns,
				      double *fraction)
{
	double phase = oscillator->phase_ns +
		       oscillator->rate_ppb * 1e-9 * (double)(true_ns - oscillator->tick_ns);
	double whole = floor(phase);

	*fraction = phase - whole;
	return oscillator->start_ns + true_ns + (int64_t)whole;
}

#endif

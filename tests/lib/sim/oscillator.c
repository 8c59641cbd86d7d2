// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/oscillator.h"

#include <string.h>

/* A temperature step reaches the crystal with this time constant. */
#define STEP_SETTLES_S 5.0

void oscillator_init(struct oscillator *oscillator, const struct oscillator_config *config,
		     struct rng *rng)
{
	double period = config->sine_period_s[0] +
			rng_unit(rng) * (config->sine_period_s[1] - config->sine_period_s[0]);

	memset(oscillator, 0, sizeof(*oscillator));
	oscillator->start_ns =
		1000000000000LL + (int64_t)((2 * rng_unit(rng) - 1) * config->offset_max_ns);
	oscillator->base_ppb = (2 * rng_unit(rng) - 1) * config->drift_max_ppb;
	oscillator->sine_phase = 2 * M_PI * rng_unit(rng);
	oscillator->sine_speed = period > 0 ? 2 * M_PI / period : 0;
	oscillator->rate_ppb = oscillator->base_ppb;
}

void oscillator_tick(struct oscillator *oscillator, const struct oscillator_config *config,
		     struct rng *rng, int64_t tick_ns, int64_t length_ns)
{
	double length_s = (double)length_ns * 1e-9, settle;

	oscillator->phase_ns +=
		oscillator->rate_ppb * 1e-9 * (double)(tick_ns - oscillator->tick_ns);
	oscillator->tick_ns = tick_ns;
	oscillator->walk_ppb += config->walk_ppb * sqrt(length_s) * rng_normal(rng);
	if (config->step_every_s > 0 && rng_unit(rng) < length_s / config->step_every_s)
		oscillator->step_left_ppb += config->step_ppb * (rng_next(rng) & 1 ? 1 : -1);
	settle = oscillator->step_left_ppb * length_s / STEP_SETTLES_S;
	oscillator->step_left_ppb -= settle;
	oscillator->step_ppb += settle;
	oscillator->rate_ppb =
		oscillator->base_ppb + oscillator->walk_ppb + oscillator->step_ppb +
		config->sine_ppb * sin(oscillator->sine_phase +
				       oscillator->sine_speed * (double)tick_ns * 1e-9);
}

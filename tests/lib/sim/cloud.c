// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/cloud.h"

void cloud_draw(struct rng *rng, const struct cloud_config *config, double *x[2], double *y[2])
{
	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; i < config->count; i++) {
			double wait = 0;

			for (int hop = 0; hop < config->hops; hop++)
				if (rng_unit(rng) < config->load)
					wait += config->wait_ns * rng_exponential(rng);
			x[s][i] = (rng_unit(rng) - 0.5) * config->seconds;
			y[s][i] = config->offset_ns + config->slope_ppb * x[s][i] +
				  config->timestamp_ns * rng_normal(rng) +
				  (s ? -1 : 1) * (config->floor_ns + wait);
		}
	}
}

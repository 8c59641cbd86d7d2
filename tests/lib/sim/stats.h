/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples, kept; percentiles, when requested. */
#ifndef ESC_TESTS_SIM_STATS_H
#define ESC_TESTS_SIM_STATS_H

#include <stddef.h>

struct stats {
	float *samples;
	size_t count, room;
	double sum, squares;
	int sorted;
};

void stats_add(struct stats *stats, double sample);
double stats_mean(const struct stats *stats);
double stats_rms(const struct stats *stats);
double stats_percentile(struct stats *stats, double part); /* 0..1; 0 when empty */
void stats_free(struct stats *stats);

#endif

// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stats_add(struct stats *stats, double sample)
{
	if (stats->count == stats->room) {
		stats->room = stats->room ? 2 * stats->room : 4096;
		stats->samples = realloc(stats->samples, stats->room * sizeof(*stats->samples));
		if (!stats->samples) {
			fprintf(stderr, "stats: out of memory\n");
			abort();
		}
	}
	stats->samples[stats->count++] = (float)sample;
	stats->sum += sample;
	stats->squares += sample * sample;
	stats->sorted = 0;
}

double stats_mean(const struct stats *stats)
{
	return stats->count ? stats->sum / (double)stats->count : 0;
}

double stats_rms(const struct stats *stats)
{
	return stats->count ? sqrt(stats->squares / (double)stats->count) : 0;
}

static int compare(const void *a, const void *b)
{
	float l = *(const float *)a, r = *(const float *)b;

	return (l > r) - (l < r);
}

double stats_percentile(struct stats *stats, double part)
{
	size_t at;

	if (!stats->count)
		return 0;
	if (!stats->sorted)
		qsort(stats->samples, stats->count, sizeof(*stats->samples), compare);
	stats->sorted = 1;
	at = (size_t)(part * (double)stats->count);
	return stats->samples[at < stats->count ? at : stats->count - 1];
}

void stats_free(struct stats *stats)
{
	free(stats->samples);
	memset(stats, 0, sizeof(*stats));
}

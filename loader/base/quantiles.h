/* SPDX-License-Identifier: BSD-2-Clause */
/* Least, median, 99th percentile and greatest of some delays. */
#ifndef ESC_BASE_QUANTILES_H
#define ESC_BASE_QUANTILES_H

#include <stddef.h>
#include <stdint.h>

struct quantiles {
	size_t samples; /* 0: nothing below is known */
	int64_t min_ns, p50_ns, p99_ns, max_ns;
};

/* One of them as it is named in the metrics: min, p50, p99, max. */
struct quantile_stat {
	const char *name;
	double seconds;
};
#define QUANTILE_STATS 4

/* How many of @out are filled in: none without samples. */
size_t quantiles_stats(const struct quantiles *delays, struct quantile_stat out[QUANTILE_STATS]);

/* Sorts @values. */
void quantiles_of(int64_t *values, size_t count, struct quantiles *out);

#endif

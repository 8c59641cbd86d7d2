/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays: quantiles, and a histogram in the buckets of owd.h, of those that have a count. */
#ifndef ESC_LOADER_DELAYHIST_H
#define ESC_LOADER_DELAYHIST_H

#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

struct delayhist_bar {
	uint64_t bucket : 16, count : 48;
};

/* All zero: empty. */
struct delayhist {
	struct delayhist_bar *bars; /* by bucket, none of 0 */
	size_t count, room;
};

void delayhist_free(struct delayhist *hist);
/* Keeps its memory. */
void delayhist_clear(struct delayhist *hist);

/* Adds @more, or what @now has beyond @before (NULL: nothing), or nothing and -ENOMEM. */
int delayhist_add(struct delayhist *hist, const struct delayhist *more);
int delayhist_add_since(struct delayhist *hist, const uint32_t now[ESC_OWD_BUCKETS],
			const uint32_t before[ESC_OWD_BUCKETS]);

/* One sample more. */
int delayhist_count(struct delayhist *hist, uint32_t bucket);

uint64_t delayhist_samples(const struct delayhist *hist);
/* The middle of the bucket of quantile 0 < @q <= 1, wrong by 1.6% at most; 0 without samples. */
int64_t delayhist_quantile(const struct delayhist *hist, double q);
/* By the middles of the buckets. */
double delayhist_sum(const struct delayhist *hist);
/*
 * How many samples are up to each of @bounds_ns, which rise, by the middles of the buckets: a bound
 * is wrong by 1.6% at most. @below: @count of them.
 */
void delayhist_below(const struct delayhist *hist, const int64_t *bounds_ns, size_t count,
		     uint64_t *below);
/* Extremes over another period, brought into the buckets of the least and the largest sample. */
void delayhist_clamp(const struct delayhist *hist, int64_t *min_ns, int64_t *max_ns);

/* --- quantiles of a list --- */

struct quantiles {
	size_t samples; /* 0: nothing below is known */
	int64_t min_ns, p50_ns, p99_ns, max_ns;
};

/* One of them, as the metrics list them: min, p50, p99, max. NAN without samples. */
#define QUANTILE_STATS 4
double quantiles_seconds(const struct quantiles *delays, unsigned int stat);

/* Changes the order of @values. */
void quantiles_of(int64_t *values, size_t count, struct quantiles *out);

#endif

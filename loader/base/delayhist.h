/* SPDX-License-Identifier: BSD-2-Clause */
/* A histogram of delays in the buckets of owd.h that holds only those that have a count. Pure. */
#ifndef ESC_LOADER_DELAYHIST_H
#define ESC_LOADER_DELAYHIST_H

#include <stdbool.h>
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

/* Adds @more, or what @now has beyond @before (NULL: nothing). 0 or -ENOMEM, then nothing is added.
 */
int delayhist_add(struct delayhist *hist, const struct delayhist *more);
int delayhist_add_since(struct delayhist *hist, const uint32_t now[ESC_OWD_BUCKETS],
			const uint32_t before[ESC_OWD_BUCKETS]);

/* One sample more. */
int delayhist_count(struct delayhist *hist, uint32_t bucket);

uint64_t delayhist_samples(const struct delayhist *hist);
/*
 * The delay that a part @q of the samples does not exceed, 0 < q <= 1: the
 * middle of its bucket, so wrong by half a bucket at most, 1.6%. 0 of none.
 */
int64_t delayhist_quantile(const struct delayhist *hist, double q);
/* By the middles of the buckets. */
double delayhist_sum(const struct delayhist *hist);
/* @ns, an extreme over another period, brought into the bucket of the least (largest) sample. */
int64_t delayhist_clamp_min(const struct delayhist *hist, int64_t ns);
int64_t delayhist_clamp_max(const struct delayhist *hist, int64_t ns);

#endif

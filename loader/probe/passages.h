/* SPDX-License-Identifier: BSD-2-Clause */
/* The newest passages of an edge's probes, and what they say of its delay. Pure. */
#ifndef ESC_LOADER_PASSAGES_H
#define ESC_LOADER_PASSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clocksync/line.h"

#define PASSAGES_KEPT 2048 /* a window of 2 s at 1000 probes a second */

/* One probe from one end to the other, in the local clocks of both. */
struct passage {
	int64_t tx_ns, rx_ns;
};

struct passages {
	uint64_t count; /* that there have been */
	struct passage at[PASSAGES_KEPT];
};

void passages_clear(struct passages *passages);
void passages_add(struct passages *passages, int64_t tx_ns, int64_t rx_ns);

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

/*
 * One-way delays of what left or came since @since_ns of our local clock, in
 * fabric time by the lines of the two ends. @out_going: we are the sender.
 */
void passages_delays(const struct passages *passages, bool out_going, int64_t since_ns,
		     const struct clock_line *ours, const struct clock_line *theirs,
		     struct quantiles *out);

#endif

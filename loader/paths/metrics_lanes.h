/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Single candidate paths in escapement.prom: as many as textfile.top_paths allows, those that are
 * not up first, then those with most queue pairs.
 */
#ifndef ESC_LOADER_METRICS_LANES_H
#define ESC_LOADER_METRICS_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "probe/probe.h"
#include "paths.h"

struct metrics_facts;

struct metrics_lane {
	const struct path_pair_facts *pair; /* as paths_pairs() gave it */
	struct path_lane_facts lane;
	struct quantiles out, in; /* of one-way delays; no samples: not known */
};

struct metrics_lanes {
	struct metrics_lane *list; /* owner: whoever gathered */
	size_t count, left_out;
};

/* At most @most of @paths' lanes, NULL: none. The list is the caller's to free. */
void metrics_lanes_gather(const struct paths *paths, uint32_t most, struct metrics_lanes *out);
/* Those that come first are at the beginning then. */
void metrics_lanes_sort(struct metrics_lane *list, size_t count);

/* 16 series of each at most. */
void metrics_write_lanes(FILE *out, const struct metrics_facts *facts);

#endif

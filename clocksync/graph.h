/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The probe graph: a random regular graph that every host computes alike from the member
 * list. degree/2 rings; a ring is sorted by a keyed hash of the member's id, and each member
 * is connected to the next. Adding or removing a member changes only the edges of its two
 * neighbours on each ring. Where rings repeat an edge (small lists), further rings add
 * edges, so that a member has at least `degree` neighbours, or all members.
 */
#ifndef ESC_CLOCKSYNC_GRAPH_H
#define ESC_CLOCKSYNC_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#define GRAPH_DEGREE_MAX 24

/* The id of a member from its name (FNV-1a, mixed); 0 is never an id. */
uint64_t graph_member_id(const char *name);

/* Compressed adjacency: neighbours of i are peers[start[i]] .. peers[start[i + 1] - 1]. */
struct graph {
	size_t count;
	uint32_t *start;
	uint32_t *peers;
};

/*
 * The graph of @count distinct ids (in any order; indices below are into @ids).
 * @mesh: number of the mesh, one graph for each over the same list: 0, 1...
 * Odd degrees are rounded up. -EINVAL for a degree of 0 or above the maximum,
 * -ENOMEM. Freed by graph_free().
 */
int graph_build(struct graph *graph, const uint64_t *ids, size_t count, unsigned degree,
		uint64_t mesh);
void graph_free(struct graph *graph);

/* Rank of ids[@self] for the bootstrap of fabric time: 0 bootstraps first. */
size_t graph_rank(const uint64_t *ids, size_t count, size_t self, uint64_t mesh);

#endif

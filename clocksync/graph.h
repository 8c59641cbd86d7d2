/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who probes whom: a random regular graph that every host computes alike from
 * the member list. degree/2 rings; on each ring members stand in the order of a
 * keyed hash of their id, and each is joined to the next. A member that comes
 * or goes touches its own two neighbours on each ring and no other edge. Where
 * rings repeat an edge (small lists), further rings add edges for those who
 * are short, so that a member has at least `degree` neighbours, or all of them.
 */
#ifndef ESC_CLOCKSYNC_GRAPH_H
#define ESC_CLOCKSYNC_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#define GRAPH_DEGREE_MAX 24

/* The id of a member from its name (FNV-1a, mixed); 0 is never an id. */
uint64_t graph_member_id(const char *name);

/* Adjacency in one array: neighbours of i are peers[start[i]] .. peers[start[i + 1] - 1]. */
struct graph {
	size_t count;
	uint32_t *start;
	uint32_t *peers;
};

/*
 * The graph of @count distinct ids (in any order; indices below are into @ids).
 * @mesh tells graphs over one list apart, for a mesh on each interface: 0, 1...
 * Odd degrees are rounded up. -EINVAL for a degree of 0 or above the maximum,
 * -ENOMEM. Freed by graph_free().
 */
int graph_build(struct graph *graph, const uint64_t *ids, size_t count, unsigned degree,
		uint64_t mesh);
void graph_free(struct graph *graph);

/* Place of ids[@self] in the order of founding: 0 founds fabric time. */
size_t graph_rank(const uint64_t *ids, size_t count, size_t self, uint64_t mesh);

#endif

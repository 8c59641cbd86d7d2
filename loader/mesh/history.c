// SPDX-License-Identifier: BSD-2-Clause
/*
 * The one-way delays of all probes since the start, of each peer and of each plane. The window that
 * `peers` shows is of the last seconds: what happens between two scrapes is only here.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/*
 * 1-2-5 from 1 us to 10 ms; of a peer fewer, and of the direction to it alone: that from it is in
 * its own metrics. All of it would be 320 series for ten peers.
 */
static const int64_t plane_bounds_ns[] = {
	1000,	2000,	5000,	 10000,	  20000,   50000,    100000,
	200000, 500000, 1000000, 2000000, 5000000, 10000000,
};
static const int64_t peer_bounds_ns[] = {10000, 100000, 1000000, 5000000};
#define BOUNDS_MAX CONFIG_COUNT_OF(plane_bounds_ns)

/* --- counting --- */

/* What came since the last call, into the histograms of peer and plane. */
static void count(struct mesh *mesh, const struct passages *passages, uint64_t *counted,
		  const struct clock_line *sender, const struct clock_line *receiver,
		  struct delayhist *of_plane, struct delayhist *of_peer)
{
	delayhist_clear(&mesh->scratch);
	if (passages_count(passages, counted, sender, receiver, &mesh->scratch))
		return;
	delayhist_add(of_plane, &mesh->scratch);
	if (of_peer)
		delayhist_add(of_peer, &mesh->scratch);
}

static void count_floor(struct mesh_floor *floor, const struct clock_edge *edge, int64_t local_ns)
{
	int64_t ns = passages_least_round_trip(&edge->out, &edge->back, &floor->counted);
	int64_t index = local_ns / MESH_FLOOR_NS;
	int64_t *least_ns = &floor->least_ns[index % MESH_FLOOR_INTERVALS];

	if (ns == INT64_MAX)
		return;
	if (index - floor->index > MESH_FLOOR_INTERVALS)
		floor->index = index - MESH_FLOOR_INTERVALS;
	while (floor->index < index)
		floor->least_ns[++floor->index % MESH_FLOOR_INTERVALS] = INT64_MAX;
	*least_ns = ns < *least_ns ? ns : *least_ns;
}

int64_t mesh_floor_at(const struct mesh_floor *floor, int64_t local_ns)
{
	int64_t least_ns = INT64_MAX, oldest = local_ns / MESH_FLOOR_NS - MESH_FLOOR_INTERVALS + 1;

	for (int64_t i = oldest > 0 ? oldest : 0; floor->index && i <= floor->index; i++)
		if (floor->least_ns[i % MESH_FLOOR_INTERVALS] < least_ns)
			least_ns = floor->least_ns[i % MESH_FLOOR_INTERVALS];
	return least_ns;
}

void mesh_count_delays(struct mesh *mesh, uint64_t now_ns)
{
	const struct clock_line *ours = &clock_host(mesh->clock)->consensus.line;
	int64_t local_ns = clock_local_at(mesh->clock, now_ns);
	struct mesh_peer *peer;

	for_each_peer (mesh, peer) {
		const struct clock_edge *edge = peer->edge;
		struct mesh_plane *plane = &mesh->planes[edge->plane];
		struct mesh_history *history = &peer->history;
		struct clock_line theirs;

		count_floor(&history->floor, edge, local_ns);
		if (mesh_delay_bound(mesh, edge, local_ns, &theirs) < 0) {
			history->out_counted = edge->out.count;
			history->in_counted = edge->in.count;
			history->back_counted = edge->back.count;
			continue;
		}
		count(mesh, &edge->out, &history->out_counted, ours, &theirs, &plane->owd_out,
		      &history->out);
		/* As in `peers`: replies stand for probes that do not arrive. */
		if (edge->one_sided) {
			history->in_counted = edge->in.count;
			count(mesh, &edge->back, &history->back_counted, &theirs, ours,
			      &plane->owd_in, NULL);
		} else {
			history->back_counted = edge->back.count;
			count(mesh, &edge->in, &history->in_counted, &theirs, ours, &plane->owd_in,
			      NULL);
		}
	}
}

void mesh_free_history(struct mesh_history *history)
{
	delayhist_free(&history->out);
}

/* --- metrics --- */

static void write_one(struct prom_family *family, const struct delayhist *delays,
		      const int64_t *bounds_ns, size_t bound_count, const struct prom_label *labels)
{
	uint64_t below[BOUNDS_MAX];
	double bounds[BOUNDS_MAX];

	if (!delays->count)
		return;
	for (size_t i = 0; i < bound_count; i++)
		bounds[i] = (double)bounds_ns[i] / 1e9;
	delayhist_below(delays, bounds_ns, bound_count, below);
	prom_sample_histogram(family,
			      &(struct prom_histogram){.bounds = bounds,
						       .below = below,
						       .bound_count = bound_count,
						       .count = delayhist_samples(delays),
						       .sum = delayhist_sum(delays) / 1e9},
			      labels);
}

void mesh_write_history(const struct mesh *mesh, struct prom_family *of_plane,
			struct prom_family *of_peer)
{
	struct prom_label labels[MESH_PEER_LABELS] = {};
	struct mesh_peer_facts facts = {};
	const struct mesh_peer *peer;

	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];

		write_one(of_plane, &plane->owd_out, plane_bounds_ns,
			  CONFIG_COUNT_OF(plane_bounds_ns),
			  PROM_LABELS("plane", config_plane_name(i), "direction", "out", NULL));
		write_one(of_plane, &plane->owd_in, plane_bounds_ns,
			  CONFIG_COUNT_OF(plane_bounds_ns),
			  PROM_LABELS("plane", config_plane_name(i), "direction", "in", NULL));
	}
	for_each_peer (mesh, peer) {
		snprintf(facts.host, sizeof(facts.host), "%s", peer->edge->host);
		memcpy(facts.interface, peer->facts.interface, sizeof(facts.interface));
		memcpy(facts.peer_rail, peer->facts.peer_rail, sizeof(facts.peer_rail));
		facts.plane = peer->edge->plane;
		write_one(of_peer, &peer->history.out, peer_bounds_ns,
			  CONFIG_COUNT_OF(peer_bounds_ns), mesh_labels_out(&facts, labels));
	}
}

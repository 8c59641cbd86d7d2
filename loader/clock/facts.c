// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "internal.h"

static bool is_one_sided(const struct clock *clock)
{
	for (size_t slot = 0; slot < CLOCK_EDGES_MAX; slot++)
		if (clock->edges[slot] && clock->edges[slot]->one_sided)
			return true;
	return false;
}

void clock_get(const struct clock *clock, struct clock_facts *out)
{
	const struct hostclock *host = &clock->host;
	const struct consensus *consensus = &host->consensus;

	memset(out, 0, sizeof(*out));
	out->state = host->state;
	out->monotonic_ns = (int64_t)time_local_ns();
	out->local_ns = clock_local_at(clock, (uint64_t)out->monotonic_ns);
	out->used = consensus->used;
	out->heard = consensus->heard;
	out->degree = consensus->degree;
	out->rounds = clock->rounds;
	out->moves = consensus->moves;
	out->one_sided = is_one_sided(clock);
	out->last_used_age_ns =
		consensus->last_used_ns ? out->local_ns - consensus->last_used_ns : -1;
	out->known = host->model.generation && host->state != CLOCK_FREE_RUNNING;
	if (!out->known)
		return;
	out->model = host->model;
	out->fabric_ns = clock_model_read(&host->model, out->local_ns);
	out->bound_ns = clock_model_bound(&host->model, out->local_ns);
	out->residual_ns = consensus->residual_ns;
	out->reach = consensus->reach;
	clock_get_tai(clock, out);
}

static void get_peer(const struct clock *clock, const struct clock_edge *edge,
		     struct clock_peer_facts *out)
{
	const struct consensus_peer *peer;

	memset(out, 0, sizeof(*out));
	snprintf(out->host, sizeof(out->host), "%s", edge->host);
	out->plane = edge->plane;
	out->one_sided = edge->one_sided;
	out->fit = edge->fit.estimate;
	out->fitted = out->fit.valid;
	if (edge->slot >= CONSENSUS_PEERS_MAX)
		return;
	peer = &clock->host.consensus.peers[edge->slot];
	out->in_clock = true;
	out->verdict = peer->status;
	out->error_ns = peer->offset_ns;
	out->error_ppb = peer->drift_ppb;
}

static int peer_compare(const void *a, const void *b)
{
	const struct clock_peer_facts *one = a, *two = b;

	if (one->plane != two->plane)
		return one->plane < two->plane ? -1 : 1;
	return strverscmp(one->host, two->host);
}

size_t clock_get_peers(const struct clock *clock, struct clock_peer_facts *out, size_t max)
{
	size_t count = 0;

	for (size_t slot = 0; slot < CLOCK_EDGES_MAX && count < max; slot++)
		if (clock->edges[slot])
			get_peer(clock, clock->edges[slot], &out[count++]);
	qsort(out, count, sizeof(*out), peer_compare);
	return count;
}

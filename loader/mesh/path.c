// SPDX-License-Identifier: BSD-2-Clause
/*
 * The source port of the probes to a peer, and so which of the fabric's equal paths they take. A
 * path that is full for long is left for another one, in the direction of our own requests: the
 * peer draws for its own. Nothing has to be announced: points of the full path are above those of
 * the new one and hold no line, and a floor that stays elsewhere is taken for that of a new path,
 * as when a switch rehashes.
 */
#include <jansson.h>
#include <string.h>

#include "base/log.h"
#include "core/core.h"
#include "internal.h"

#define ROUNDS_FULL 2 /* beyond the window's two seconds, after which a fit is flagged */
#define RECENT_NS 500000000ll
#define RECENT_ENOUGH 16
#define ROUNDS_CLEAN 8 /* after which a port is remembered */
#define WAIT_FIRST_NS 1000000000ll
#define DOUBLINGS_MAX 6 /* of that wait, up to a minute */
#define EXCESS_LEAST_NS 1000
#define SUPPORT_ENOUGH 4

/*
 * By fabric time, which distinguishes the directions: the least recent delay against that of the
 * empty path, beyond the error of the clocks. Without it, by how few points the direction has.
 */
static bool forward_is_full(const struct mesh *mesh, const struct clock_edge *edge, int64_t now_ns)
{
	const struct hostclock *host = clock_host(mesh->clock);
	const struct edge_estimate *estimate = &edge->fit.estimate;
	const struct clock_line *ours = &host->consensus.line;
	struct quantiles out = {0};
	struct clock_line theirs;

	if (!estimate->valid || !estimate->flagged)
		return false;
	if (host->state != CLOCK_FREE_RUNNING && edge->view_known && edge->fit.floor_known &&
	    clock_view_get(&edge->view, &theirs)) {
		/* Of the last half second, where that holds enough. */
		passages_delays(&edge->out, true, now_ns - RECENT_NS, ours, &theirs, &out);
		if (out.samples < RECENT_ENOUGH)
			passages_delays(&edge->out, true,
					now_ns - (int64_t)mesh->core->config->clock.window_ns, ours,
					&theirs, &out);
	}
	if (!out.samples)
		return estimate->support[CLOCK_FORWARD] < SUPPORT_ENOUGH;
	return (double)out.min_ns >
	       edge->fit.floor_ns + EXCESS_LEAST_NS +
		       (double)bound_pair(clock_model_bound(&host->model, now_ns),
					  edge->view.bound_ns);
}

/* Ports that were clean before, the latest first, then any. */
static uint16_t draw(struct mesh_path *path, uint16_t now, uint64_t random)
{
	while (path->next_good < MESH_PORTS_GOOD) {
		uint16_t port = path->good[path->next_good++];

		if (port && port != now)
			return port;
	}
	return (uint16_t)(PROBESOCK_PORT_BASE + ((random * 0x9e3779b97f4a7c15ull) >> 50));
}

static void change_port(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	struct mesh_path *path = &peer->path;
	uint16_t before = peer->source_port, port = draw(path, before, now_ns ^ peer->edge->id);
	unsigned int doublings = path->tries < DOUBLINGS_MAX ? path->tries : DOUBLINGS_MAX;

	path->tries++;
	path->full = 0;
	path->next_ns = now_ns + ((uint64_t)WAIT_FIRST_NS << doublings);
	if (port == before || mesh_move_peer(mesh, peer, port))
		return;
	log_debug("probes to %s leave by source port %u instead of %u: its path is full",
		  peer->edge->host, port, before);
	events_add(mesh->core->events, &(struct event){
					       .kind = &mesh_events[MESH_PEER_PATH_CHANGED],
					       .subject = peer->edge->host,
					       .seen = json_pack("{s:i}", "sport", before),
					       .done = json_pack("{s:i}", "sport", port),
				       });
}

void mesh_check_path(struct mesh *mesh, struct mesh_peer *peer, int64_t local_ns)
{
	const struct clock_edge *edge = peer->edge;
	struct mesh_path *path = &peer->path;
	uint64_t now_ns = time_local_ns();
	unsigned int i = 0;

	if (peer->state != PEER_UP || !edge->sending)
		return;
	if (!forward_is_full(mesh, edge, local_ns)) {
		path->full = 0;
		if (!edge->fit.estimate.valid || ++path->clean != ROUNDS_CLEAN)
			return;
		/* The latest good port first, each once. */
		while (i < MESH_PORTS_GOOD - 1 && path->good[i] != peer->source_port)
			i++;
		memmove(path->good + 1, path->good, i * sizeof(path->good[0]));
		path->good[0] = peer->source_port;
		path->tries = path->next_good = 0;
		return;
	}
	path->clean = 0;
	if (++path->full >= ROUNDS_FULL && now_ns >= path->next_ns)
		change_port(mesh, peer, now_ns);
}

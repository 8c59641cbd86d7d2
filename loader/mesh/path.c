// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which source port an edge's probes leave by, and so which of the fabric's equal
 * paths they take. One that stands full for long is left for another: the direction
 * that our own requests go, since the peer draws for its own. Neither end is told:
 * points of the full path lie above those of the new one and hold no line, and a
 * floor that stays elsewhere is taken for a new path's, as when a switch rehashes.
 */
#include <jansson.h>

#include "clocksync/edge.h"
#include "daemon/daemon.h"
#include "core/events.h"
#include "base/log.h"
#include "internal.h"

#define ROUNDS_FULL 2 /* beyond the window's two seconds, after which a fit is flagged */
#define LOOK_NS 500000000ll
#define LOOK_ENOUGH 16
#define ROUNDS_CLEAN 8 /* after which a port is remembered */
#define WAIT_FIRST_NS 1000000000ll
#define DOUBLINGS_MAX 6 /* of that wait, up to a minute */
#define EXCESS_LEAST_NS 1000
#define SUPPORT_ENOUGH 4

/* Delays of our requests lately: of the last half second, where that holds enough. */
static void delays_lately(const struct mesh *mesh, const struct mesh_edge *edge, int64_t now_ns,
			  const struct clock_line *theirs, struct quantiles *out)
{
	const struct clock_line *ours = &mesh->clock.consensus.line;

	passages_delays(&edge->out, true, now_ns - LOOK_NS, ours, theirs, out);
	if (out->samples < LOOK_ENOUGH)
		passages_delays(&edge->out, true,
				now_ns - (int64_t)mesh->daemon->config->clock.window_ns, ours,
				theirs, out);
}

/*
 * By fabric time, which tells the directions apart: the least delay lately against
 * the empty path's, beyond what the clocks may be wrong by. Without it, by how few
 * points the side's edge has.
 */
static bool forward_is_full(const struct mesh *mesh, const struct mesh_edge *edge, int64_t now_ns)
{
	const struct edge_estimate *estimate = &edge->edge.estimate;
	struct quantiles out = {0};
	struct clock_line theirs;

	if (!estimate->valid || !estimate->flagged)
		return false;
	if (mesh->clock.state != CLOCK_FREE_RUNNING && edge->view_known && edge->edge.floor_known &&
	    clock_view_get(&edge->view, &theirs))
		delays_lately(mesh, edge, now_ns, &theirs, &out);
	if (!out.samples)
		return estimate->support[CLOCK_FORWARD] < SUPPORT_ENOUGH;
	return (double)out.min_ns >
	       edge->edge.floor_ns + EXCESS_LEAST_NS +
		       (double)bound_pair(clock_model_bound(&mesh->clock.model, now_ns),
					  edge->view.bound_ns);
}

static void remember(struct mesh_path *path, uint16_t port)
{
	unsigned int i = 0;

	while (i < MESH_PORTS_GOOD - 1 && path->good[i] != port)
		i++;
	for (; i; i--)
		path->good[i] = path->good[i - 1];
	path->good[0] = port;
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

static void leave(struct mesh *mesh, struct mesh_edge *edge, uint64_t now_ns)
{
	const struct mesh_plane *plane = &mesh->planes[edge->plane];
	uint16_t before = edge->source_port, port = draw(&edge->path, before, now_ns ^ edge->id);
	unsigned int doublings =
		edge->path.tries < DOUBLINGS_MAX ? edge->path.tries : DOUBLINGS_MAX;

	edge->path.tries++;
	edge->path.full = 0;
	edge->path.next_ns = now_ns + ((uint64_t)WAIT_FIRST_NS << doublings);
	if (port == before || mesh_plane_move(mesh, plane, edge, port))
		return;
	log_debug("probes to %s leave by source port %u instead of %u: its path stood full",
		  edge->host, port, before);
	events_record(mesh->daemon->ledger, "peer_path_changed", edge->host,
		   json_pack("{s:i}", "sport", before), json_pack("{s:i}", "sport", port), NULL,
		   NULL);
}

void mesh_path_round(struct mesh *mesh, struct mesh_edge *edge, int64_t local_ns)
{
	struct mesh_path *path = &edge->path;
	uint64_t now_ns = mesh_monotonic_ns();

	if (edge->state != PEER_UP || !edge->sending)
		return;
	if (!forward_is_full(mesh, edge, local_ns)) {
		path->full = 0;
		if (!edge->edge.estimate.valid || ++path->clean != ROUNDS_CLEAN)
			return;
		remember(path, edge->source_port);
		path->tries = path->next_good = 0;
		return;
	}
	path->clean = 0;
	if (++path->full >= ROUNDS_FULL && now_ns >= path->next_ns)
		leave(mesh, edge, now_ns);
}

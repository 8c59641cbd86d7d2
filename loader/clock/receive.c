// SPDX-License-Identifier: BSD-2-Clause
/* Records of probes, from the ring buffer to the edges. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "daemon/daemon.h"
#include "base/explain.h"
#include "core/events.h"
#include "base/log.h"
#include "mesh/internal.h"

/* The peer began anew: what was known of its clock and its path is of another run. */
static void edge_restart(struct mesh *mesh, struct mesh_edge *edge, uint64_t epoch, int64_t now_ns)
{
	if (edge->epoch)
		events_record(mesh->daemon->ledger, "peer_restarted", edge->host, NULL, NULL, NULL,
			   NULL);
	edge->epoch = epoch;
	edge->begun_local_ns = now_ns;
	edge->view_known = false;
	edge->anchor.sequence = 0;
	edge->request_local_ns = edge->reply_local_ns = 0;
	edge->one_sided = false;
	edge_init(&edge->edge, (int64_t)mesh->daemon->config->clock.window_ns);
	passages_clear(&edge->out);
	passages_clear(&edge->in);
	passages_clear(&edge->back);
}

/*
 * A view that says the same for more rounds than get lost is of a daemon that
 * is gone: the kernel programs go on answering for a while. Its age counts from
 * when it last changed.
 */
static void edge_take_view(struct mesh_edge *edge, const struct esc_probe_event *event,
			   int64_t local_ns)
{
	if (!(event->flags & ESC_PROBE_VIEW))
		return;
	if (!edge->view_known || edge->view.generation != event->view_generation ||
	    edge->view.ref_local_ns != event->view_ref_local_ns)
		edge->view_fresh_ns = local_ns;
	edge->view = (struct clock_view){
		.ref_local_ns = event->view_ref_local_ns,
		.ref_fabric_ns = event->view_ref_fabric_ns,
		.rate_q40 = event->view_rate_q40,
		.ref_fraction = event->view_ref_fraction,
		.bound_ns = event->view_bound_ns,
		.generation = event->view_generation,
		.reach = event->view_reach,
		.state = event->view_state,
	};
	edge->view_known = true;
	edge->view_local_ns = local_ns;
}

static struct clock_probe passage_of(uint64_t tx_ns, uint64_t rx_ns, uint32_t pair)
{
	return (struct clock_probe){(int64_t)tx_ns, (int64_t)rx_ns, pair};
}

static void take_reply(struct mesh_edge *edge, const struct esc_probe_event *event, int64_t now_ns)
{
	struct clock_probe forward = passage_of(event->t1, event->t2, event->pair);
	struct clock_probe backward = passage_of(event->t3, event->t4, event->pair);

	edge->replies++;
	edge->reply_local_ns = (int64_t)event->t4;
	losses_reply(&edge->losses, event->sequence);
	if (event->flags & ESC_PROBE_ASKS)
		return; /* of no pair, and no path was warmed for it */
	passages_add(&edge->out, (int64_t)event->t1, (int64_t)event->t2);
	passages_add(&edge->back, (int64_t)event->t3, (int64_t)event->t4);
	edge_add(&edge->edge, CLOCK_FORWARD, &forward, now_ns);
	if (edge->one_sided)
		edge_add(&edge->edge, CLOCK_BACKWARD, &backward, now_ns);
}

/*
 * The peer's request went the way that ours go, from tc egress to XDP, so that
 * what the two directions have in common cancels; a reply leaves from XDP.
 */
static void take_request(struct mesh_edge *edge, const struct esc_probe_event *event,
			 int64_t now_ns)
{
	struct clock_probe backward = passage_of(event->t1, event->t2, event->pair);

	edge->requests++;
	edge->request_local_ns = (int64_t)event->t2;
	if (event->flags & ESC_PROBE_ASKS)
		return;
	passages_add(&edge->in, (int64_t)event->t1, (int64_t)event->t2);
	if (!edge->one_sided)
		edge_add(&edge->edge, CLOCK_BACKWARD, &backward, now_ns);
}

static void take_record(struct mesh *mesh, const struct esc_probe_event *event, int64_t now_ns)
{
	enum fleet_plane plane =
		event->flags & ESC_PROBE_PLANE ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND;
	struct mesh_edge *edge = mesh_find_edge(mesh, plane, event->peer);
	bool reply = event->kind == ESC_PROBE_EVENT_REPLY;

	if (reply && event->flags & ESC_PROBE_ASKS)
		mesh_inquiry_answer(mesh, event);
	if (!edge)
		return; /* a stranger's question, or a neighbour of before */
	if (event->epoch != edge->epoch) {
		if (event->epoch < edge->epoch)
			return; /* it stood in the ring while the peer restarted */
		edge_restart(mesh, edge, event->epoch, now_ns);
	}
	edge_take_view(edge, event, (int64_t)(reply ? event->t4 : event->t2));
	mesh_take_anchor(edge, event);
	if (reply)
		take_reply(edge, event, now_ns);
	else if (event->kind == ESC_PROBE_EVENT_REQUEST)
		take_request(edge, event, now_ns);
}

static int on_record(void *context, void *data, size_t bytes)
{
	struct mesh *mesh = context;

	if (bytes >= sizeof(struct esc_probe_event))
		take_record(mesh, data, mesh_local_ns(mesh, mesh_monotonic_ns()));
	return 0;
}

int mesh_ring_open(struct mesh *mesh, char **error)
{
	mesh->ring = ring_buffer__new(mesh->maps.probes_fd, on_record, mesh, NULL);
	return mesh->ring ? 0
			  : explain(error, -errno, "the ring buffer of probes cannot be read: %s",
				    strerror(errno));
}

void mesh_ring_read(struct mesh *mesh)
{
	ring_buffer__consume(mesh->ring);
}

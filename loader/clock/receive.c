// SPDX-License-Identifier: BSD-2-Clause
/* Records of probes, from the ring buffer to the edges. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "base/explain.h"
#include "core/core.h"
#include "internal.h"

/* The peer began anew: what is known of its clock and its path is of another run. */
static void restart(struct clock *clock, struct clock_edge *edge, uint64_t epoch, int64_t now_ns)
{
	if (edge->epoch)
		clock_report(clock, CLOCK_PEER_RESTARTED, edge->host, NULL);
	edge->epoch = epoch;
	edge->begun_local_ns = now_ns;
	edge->view_known = false;
	edge->anchor.sequence = 0;
	edge->request_local_ns = edge->reply_local_ns = 0;
	edge->one_sided = false;
	edge_init(&edge->fit, (int64_t)clock->core->config->clock.window_ns);
	passages_clear(&edge->out);
	passages_clear(&edge->in);
	passages_clear(&edge->back);
}

/*
 * A view that stays the same for more rounds than get lost is of a daemon that is gone: the kernel
 * programs go on replying for a while. Its age counts from when it last changed.
 */
static void take_view(struct clock_edge *edge, const struct esc_probe_event *event,
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

static void take_reply(struct clock_edge *edge, const struct esc_probe_event *event, int64_t now_ns)
{
	struct clock_probe forward = passage_of(event->t1, event->t2, event->pair);
	struct clock_probe backward = passage_of(event->t3, event->t4, event->pair);

	edge->replies++;
	edge->reply_local_ns = (int64_t)event->t4;
	losses_reply(&edge->losses, event->sequence);
	if (event->flags & ESC_PROBE_QUERY)
		return; /* of no pair: no warm-up packet preceded it */
	passages_add(&edge->out, (int64_t)event->t1, (int64_t)event->t2);
	passages_add(&edge->back, (int64_t)event->t3, (int64_t)event->t4);
	edge_add(&edge->fit, CLOCK_FORWARD, &forward, now_ns);
	if (edge->one_sided)
		edge_add(&edge->fit, CLOCK_BACKWARD, &backward, now_ns);
}

/*
 * The peer's request went from tc egress to XDP, as ours do, so that what the two directions have
 * in common cancels; a reply leaves from XDP.
 */
static void take_request(struct clock_edge *edge, const struct esc_probe_event *event,
			 int64_t now_ns)
{
	struct clock_probe backward = passage_of(event->t1, event->t2, event->pair);

	edge->requests++;
	edge->request_local_ns = (int64_t)event->t2;
	if (event->flags & ESC_PROBE_QUERY)
		return;
	passages_add(&edge->in, (int64_t)event->t1, (int64_t)event->t2);
	if (!edge->one_sided)
		edge_add(&edge->fit, CLOCK_BACKWARD, &backward, now_ns);
}

static void take_record(struct clock *clock, const struct esc_probe_event *event, int64_t now_ns)
{
	enum fleet_plane plane =
		event->flags & ESC_PROBE_PLANE ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND;
	bool reply = event->kind == ESC_PROBE_EVENT_REPLY;
	struct clock_edge *edge, *from = NULL;

	if (reply && event->flags & ESC_PROBE_QUERY && clock->listener)
		clock->listener->query_replied(clock->listener_context, event);
	for_each_edge (clock, edge)
		if (edge->id == event->peer && edge->plane == plane)
			from = edge;
	if (!from)
		return; /* a query of no neighbor, or a neighbor of before */
	if (event->epoch != from->epoch) {
		if (event->epoch < from->epoch)
			return; /* it was in the ring while the peer restarted */
		restart(clock, from, event->epoch, now_ns);
	}
	take_view(from, event, (int64_t)(reply ? event->t4 : event->t2));
	clock_take_anchor(from, event);
	if (reply)
		take_reply(from, event, now_ns);
	else if (event->kind == ESC_PROBE_EVENT_REQUEST)
		take_request(from, event, now_ns);
}

static int on_record(void *context, void *data, size_t bytes)
{
	struct clock *clock = context;

	if (bytes >= sizeof(struct esc_probe_event))
		take_record(clock, data, clock_local_at(clock, time_local_ns()));
	return 0;
}

int clock_open_ring(struct clock *clock, int probes_fd, char **error)
{
	clock->ring = ring_buffer__new(probes_fd, on_record, clock, NULL);
	return clock->ring ? 0
			   : explain(error, -errno, "the ring buffer of probes cannot be read: %s",
				     strerror(errno));
}

void clock_read_records(struct clock *clock)
{
	ring_buffer__consume(clock->ring);
}

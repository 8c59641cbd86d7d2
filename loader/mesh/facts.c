// SPDX-License-Identifier: BSD-2-Clause
/* What is known of peers, for the verbs, the metrics and the modules above. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "internal.h"

/* --- delays --- */

/* Both ends have to have fabric time, and the peer's view of its own has to be fresh. */
static bool has_time(const struct mesh *mesh, const struct clock_edge *edge, int64_t now_ns,
		     struct clock_line *theirs)
{
	return clock_host(mesh->clock)->state != CLOCK_FREE_RUNNING && edge->view_known &&
	       now_ns - edge->view_fresh_ns <= CLOCK_VIEW_FRESH_NS &&
	       clock_view_get(&edge->view, theirs);
}

static int64_t delay_bound(const struct mesh *mesh, const struct clock_edge *edge, int64_t now_ns)
{
	return bound_pair(clock_model_bound(&clock_host(mesh->clock)->model, now_ns),
			  edge->view.bound_ns);
}

static const struct mesh_peer *peer_at(const struct mesh *mesh, const struct esc_address *address)
{
	const struct mesh_peer *peer;

	for_each_peer (mesh, peer)
		if (!memcmp(&peer->address, address, sizeof(*address)))
			return peer;
	return NULL;
}

bool mesh_get_out(const struct mesh *mesh, const struct esc_address *address, int64_t window_ns,
		  struct mesh_out_facts *out)
{
	const struct mesh_peer *peer = peer_at(mesh, address);
	int64_t now_ns = clock_local_at(mesh->clock, time_local_ns());
	struct clock_line theirs;

	*out = (struct mesh_out_facts){};
	if (!peer)
		return false;
	out->state = peer->state;
	out->source_port = peer->source_port;
	if (!has_time(mesh, peer->edge, now_ns, &theirs))
		return true;
	passages_delays(&peer->edge->out, true, now_ns - window_ns,
			&clock_host(mesh->clock)->consensus.line, &theirs, &out->owd);
	out->bound_ns = delay_bound(mesh, peer->edge, now_ns);
	return true;
}

double mesh_get_floor(const struct mesh *mesh, const struct esc_address *address)
{
	const struct mesh_peer *peer = mesh ? peer_at(mesh, address) : NULL;

	return peer && peer->edge->fit.floor_known ? peer->edge->fit.floor_ns : NAN;
}

/* --- peers --- */

static void put_note(const struct mesh_peer *peer, const struct sender_counts *counts,
		     struct mesh_peer_facts *out)
{
	if (peer->open_error)
		snprintf(out->note, sizeof(out->note), "cannot be probed: %s",
			 strerror(-peer->open_error));
	else if (counts->failed && !counts->requests)
		snprintf(out->note, sizeof(out->note), "the kernel sends no probe to it: %s",
			 strerror(-counts->last_error));
	else if (peer->unanswered && peer->state != PEER_DOWN)
		snprintf(out->note, sizeof(out->note),
			 "its probes arrive, but it does not reply to ours");
	else if (peer->edge->one_sided && peer->state != PEER_DOWN)
		snprintf(out->note, sizeof(out->note),
			 "it replies, but does not probe: the delay from it is of its replies, "
			 "which leave sooner than probes");
}

static void get_peer(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t monotonic_ns,
		     struct mesh_peer_facts *out)
{
	const struct clock_edge *edge = peer->edge;
	const struct clock_line *ours = &clock_host(mesh->clock)->consensus.line;
	int64_t now_ns = clock_local_at(mesh->clock, monotonic_ns);
	int64_t since_ns = now_ns - (int64_t)mesh->core->config->clock.window_ns;
	uint64_t heard_ns = peer->heard_ns;
	struct sender_counts counts = {};
	struct clock_line theirs;
	struct esc_peer read;

	if (edge->sending)
		sender_counts(edge->sending, &counts);
	/* From the map itself: what the daemon knows is up to 100 ms old. */
	if (!mesh_read_peer(mesh, edge->plane, edge->id, &read) &&
	    read.received_local_ns > heard_ns && read.received_local_ns >= peer->since_ns)
		heard_ns = read.received_local_ns;
	*out = (struct mesh_peer_facts){
		.plane = edge->plane,
		.address = peer->address,
		.source_port = peer->source_port,
		.state = peer->state,
		.blame = peer->state == PEER_DOWN ? peer->blame : NULL,
		.heard = heard_ns,
		.silent_ns = heard_ns && monotonic_ns > heard_ns ? monotonic_ns - heard_ns : 0,
		.sent = peer->sent_before + counts.requests,
		.failed = peer->failed_before + counts.failed,
		.answered = edge->losses.replied,
		.lost = peer->lost,
		.late = edge->losses.late,
		.reordered = edge->losses.reordered,
		.received = edge->requests,
		.disconnects = peer->disconnects,
		.pair_interval_ns = edge->pair_interval_ns,
	};
	memcpy(out->host, edge->host, sizeof(out->host));
	memcpy(out->interface, mesh->planes[edge->plane].interface, sizeof(out->interface));
	put_note(peer, &counts, out);
	passages_round_trips(&edge->out, &edge->back, since_ns, &out->rtt);
	if (!has_time(mesh, edge, now_ns, &theirs))
		return;
	passages_delays(&edge->out, true, since_ns, ours, &theirs, &out->owd_out);
	passages_delays(edge->one_sided ? &edge->back : &edge->in, false, since_ns, ours, &theirs,
			&out->owd_in);
	out->owd_bound_ns = delay_bound(mesh, edge, now_ns);
}

static int peer_compare(const void *a, const void *b)
{
	const struct mesh_peer_facts *one = a, *two = b;

	if (one->plane != two->plane)
		return one->plane < two->plane ? -1 : 1;
	return strverscmp(one->host, two->host);
}

size_t mesh_get_peers(const struct mesh *mesh, struct mesh_peer_facts *out, size_t max)
{
	uint64_t now_ns = time_local_ns();
	const struct mesh_peer *peer;
	size_t count = 0;

	for_each_peer (mesh, peer)
		if (count < max)
			get_peer(mesh, peer, now_ns, &out[count++]);
	qsort(out, count, sizeof(*out), peer_compare);
	return count;
}

// SPDX-License-Identifier: BSD-2-Clause
/* What the mesh knows, for the verbs and the metrics. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "mesh/internal.h"

void mesh_get(const struct mesh *mesh, struct mesh_facts *out)
{
	const struct config *config = mesh->daemon->config;

	memset(out, 0, sizeof(*out));
	out->authority = config->keys.have[0] || config->keys.have[1];
	out->two_keys = config->keys.have[0] && config->keys.have[1];
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];
		struct mesh_plane_facts *facts = &out->planes[i];

		facts->configured = plane->configured;
		facts->on = plane->on && !mesh->paused;
		facts->members = plane->roster.count;
		memcpy(facts->interface, plane->interface, sizeof(facts->interface));
		if (plane->on && mesh->paused)
			snprintf(facts->note, sizeof(facts->note), "the kill switch is on");
		else
			memcpy(facts->note, plane->note, sizeof(facts->note));
	}
}

static bool mesh_is_one_sided(const struct mesh *mesh)
{
	for (size_t i = 0; i < MESH_EDGES_MAX; i++)
		if (mesh->edges[i] && mesh->edges[i]->one_sided)
			return true;
	return false;
}

void mesh_get_clock(const struct mesh *mesh, struct mesh_clock_facts *out)
{
	const struct hostclock *clock = &mesh->clock;
	const struct consensus *consensus = &clock->consensus;

	memset(out, 0, sizeof(*out));
	out->state = clock->state;
	out->monotonic_ns = (int64_t)mesh_monotonic_ns();
	out->local_ns = mesh_local_ns(mesh, (uint64_t)out->monotonic_ns);
	out->used = consensus->used;
	out->heard = consensus->heard;
	out->degree = consensus->degree;
	out->rounds = mesh->rounds;
	out->moves = consensus->moves;
	out->one_sided = mesh_is_one_sided(mesh);
	out->last_used_age_ns =
		consensus->last_used_ns ? out->local_ns - consensus->last_used_ns : -1;
	out->known = clock->model.generation && clock->state != CLOCK_FREE_RUNNING;
	if (!out->known)
		return;
	out->model = clock->model;
	out->fabric_ns = clock_model_read(&clock->model, out->local_ns);
	out->bound_ns = clock_model_bound(&clock->model, out->local_ns);
	out->residual_ns = consensus->residual_ns;
	out->reach = consensus->reach;
	mesh_get_tai(mesh, out);
}

static void get_rtt(const struct mesh_edge *edge, int64_t since_ns, struct quantiles *out)
{
	uint64_t first = edge->out.count > PASSAGES_KEPT ? edge->out.count - PASSAGES_KEPT : 0;
	int64_t values[PASSAGES_KEPT];
	size_t count = 0;

	for (uint64_t i = first; i < edge->out.count; i++) {
		const struct passage *there = &edge->out.at[i % PASSAGES_KEPT];
		const struct passage *back = &edge->back.at[i % PASSAGES_KEPT];

		if (there->tx_ns < since_ns)
			continue;
		values[count++] = ns_sub(ns_sub(back->rx_ns, there->tx_ns),
					 ns_sub(back->tx_ns, there->rx_ns));
	}
	quantiles_of(values, count, out);
}

/* Both ends have to have fabric time, and the peer's word of its own has to be fresh. */
static bool edge_has_time(const struct mesh *mesh, const struct mesh_edge *edge, int64_t now_ns,
			  struct clock_line *theirs)
{
	return mesh->clock.state != CLOCK_FREE_RUNNING && edge->view_known &&
	       now_ns - edge->view_fresh_ns <= MESH_VIEW_ROUNDS_NS &&
	       clock_view_get(&edge->view, theirs);
}

static void get_delays(const struct mesh *mesh, const struct mesh_edge *edge, int64_t now_ns,
		       int64_t since_ns, struct mesh_peer_facts *out)
{
	const struct clock_line *ours = &mesh->clock.consensus.line;
	struct clock_line theirs;

	if (!edge_has_time(mesh, edge, now_ns, &theirs))
		return;
	passages_delays(&edge->out, true, since_ns, ours, &theirs, &out->owd_out);
	passages_delays(edge->one_sided ? &edge->back : &edge->in, false, since_ns, ours, &theirs,
			&out->owd_in);
	out->owd_bound_ns =
		bound_pair(clock_model_bound(&mesh->clock.model, now_ns), edge->view.bound_ns);
}

static const struct mesh_edge *edge_to(const struct mesh *mesh, const struct esc_address *address)
{
	for (size_t i = 0; i < MESH_EDGES_MAX; i++)
		if (mesh->edges[i] && !memcmp(&mesh->edges[i]->address, address, sizeof(*address)))
			return mesh->edges[i];
	return NULL;
}

bool mesh_get_out(const struct mesh *mesh, const struct esc_address *address, int64_t window_ns,
		  struct mesh_out_facts *out)
{
	const struct mesh_edge *edge = edge_to(mesh, address);
	int64_t now_ns = mesh_local_ns(mesh, mesh_monotonic_ns());
	const struct clock_line *ours;
	struct clock_line theirs;

	*out = (struct mesh_out_facts){};
	if (!edge)
		return false;
	out->state = edge->state;
	out->source_port = edge->source_port;
	if (!edge_has_time(mesh, edge, now_ns, &theirs))
		return true;
	ours = &mesh->clock.consensus.line;
	passages_delays(&edge->out, true, now_ns - window_ns, ours, &theirs, &out->owd);
	out->bound_ns =
		bound_pair(clock_model_bound(&mesh->clock.model, now_ns), edge->view.bound_ns);
	return true;
}

double mesh_get_floor(const struct mesh *mesh, const struct esc_address *address)
{
	const struct mesh_edge *edge = mesh ? edge_to(mesh, address) : NULL;

	return edge && edge->edge.floor_known ? edge->edge.floor_ns : NAN;
}

static void get_counts(const struct mesh_edge *edge, struct mesh_peer_facts *out)
{
	struct sender_counts counts = {};

	if (edge->sending)
		sender_counts(edge->sending, &counts);
	out->sent = edge->sent_before + counts.requests;
	out->failed = edge->failed_before + counts.failed;
	out->answered = edge->losses.replied;
	out->lost = edge->lost;
	out->late = edge->losses.late;
	out->reordered = edge->losses.reordered;
	out->received = edge->requests;
	out->disconnects = edge->disconnects;
	if (edge->open_error)
		snprintf(out->note, sizeof(out->note), "cannot be probed: %s",
			 strerror(-edge->open_error));
	else if (counts.failed && !counts.requests)
		snprintf(out->note, sizeof(out->note), "the kernel sends no probe to it: %s",
			 strerror(-counts.last_error));
}

static void get_note(const struct mesh_edge *edge, struct mesh_peer_facts *out)
{
	if (out->note[0] || edge->state == PEER_DOWN)
		return;
	if (edge->unanswered)
		snprintf(out->note, sizeof(out->note),
			 "it is heard, but does not answer our probes");
	else if (edge->one_sided)
		snprintf(out->note, sizeof(out->note),
			 "it answers, but does not probe: the delay from it is of its answers, "
			 "which "
			 "leave sooner than probes");
}

static void get_clock_word(const struct mesh *mesh, size_t slot, struct mesh_peer_facts *out)
{
	const struct consensus_peer *peer;

	out->fit = mesh->edges[slot]->edge.estimate;
	out->fitted = out->fit.valid;
	if (slot >= CONSENSUS_PEERS_MAX)
		return;
	peer = &mesh->clock.consensus.peers[slot];
	out->in_clock = true;
	out->verdict = peer->verdict;
	out->word_ns = peer->offset_ns;
	out->word_ppb = peer->drift_ppb;
}

/* From the map itself: what the daemon knows is up to 100 ms old. */
static void get_silence(const struct mesh *mesh, const struct mesh_edge *edge,
			uint64_t monotonic_ns, struct mesh_peer_facts *out)
{
	uint64_t heard_ns = edge->heard_ns;
	struct esc_peer peer;

	if (!mesh_read_peer(mesh, edge->plane, edge->id, &peer) && peer.heard_local_ns > heard_ns &&
	    peer.heard_local_ns >= edge->since_ns)
		heard_ns = peer.heard_local_ns;
	out->heard = heard_ns != 0;
	if (out->heard && monotonic_ns > heard_ns)
		out->silent_ns = monotonic_ns - heard_ns;
}

static void get_peer(const struct mesh *mesh, size_t slot, uint64_t monotonic_ns,
		     struct mesh_peer_facts *out)
{
	const struct mesh_edge *edge = mesh->edges[slot];
	int64_t now_ns = mesh_local_ns(mesh, monotonic_ns);
	int64_t since_ns = now_ns - (int64_t)mesh->daemon->config->clock.window_ns;

	memset(out, 0, sizeof(*out));
	snprintf(out->host, sizeof(out->host), "%s", edge->host);
	out->plane = edge->plane;
	memcpy(out->interface, mesh->planes[edge->plane].interface, sizeof(out->interface));
	out->address = edge->address;
	out->source_port = edge->source_port;
	out->state = edge->state;
	out->blame = edge->state == PEER_DOWN ? edge->blame : NULL;
	get_silence(mesh, edge, monotonic_ns, out);
	out->pair_interval_ns = edge->pair_interval_ns;
	out->one_sided = edge->one_sided;
	get_counts(edge, out);
	get_note(edge, out);
	get_rtt(edge, since_ns, &out->rtt);
	get_delays(mesh, edge, now_ns, since_ns, out);
	get_clock_word(mesh, slot, out);
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
	uint64_t now_ns = mesh_monotonic_ns();
	size_t count = 0;

	for (size_t slot = 0; slot < MESH_EDGES_MAX && count < max; slot++)
		if (mesh->edges[slot])
			get_peer(mesh, slot, now_ns, &out[count++]);
	qsort(out, count, sizeof(*out), peer_compare);
	return count;
}

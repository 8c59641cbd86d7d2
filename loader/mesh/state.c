// SPDX-License-Identifier: BSD-2-Clause
/* Up, suspect, down: by when a peer was last heard, ten times a second. */
#include <jansson.h>
#include <string.h>

#include "base/address.h"
#include "daemon/daemon.h"
#include "core/events.h"
#include "base/log.h"
#include "internal.h"

/* Never heard for so long: told once, since a host that is not installed yet is no failure. */
#define ABSENT_AFTER_NS 10000000000ull

const char *peer_state_name(enum peer_state state)
{
	static const char *const names[] = {"down", "suspect", "up"};

	return names[state];
}

static void put_ms(json_t *object, const char *key, uint64_t ns)
{
	json_object_set_new(object, key, json_integer((json_int_t)(ns / 1000000)));
}

static const char *plane_word(const struct mesh_edge *edge)
{
	return edge->plane == FLEET_PLANE_FRONTEND ? "frontend" : "backend";
}

static json_t *evidence(const struct mesh *mesh, const struct mesh_edge *edge, uint64_t now_ns)
{
	const struct mesh_inquiry *inquiry = &edge->inquiry;
	json_t *seen = json_pack("{s:s}", "plane", plane_word(edge));

	put_ms(seen, "silent_ms", now_ns - edge->heard_ns);
	json_object_set_new(seen, "own_peers", json_integer(mesh_plane_edges(mesh, edge->plane)));
	json_object_set_new(seen, "own_peers_silent",
			    json_integer(mesh_silent_edges(mesh, edge->plane, now_ns)));
	if (!inquiry->open)
		return seen;
	json_object_set_new(seen, "asked", json_integer(inquiry->asked));
	json_object_set_new(seen, "answered", json_integer(inquiry->answered));
	json_object_set_new(seen, "that_hear_it", json_integer(inquiry->hearing));
	if (inquiry->asked_elsewhere)
		json_object_set_new(seen, "heard_on_other_plane",
				    json_boolean(inquiry->heard_elsewhere));
	return seen;
}

static void edge_goes_down(struct mesh *mesh, struct mesh_edge *edge, uint64_t now_ns)
{
	const char *blame = mesh_blame(mesh, edge, now_ns);

	edge->state = PEER_DOWN;
	edge->down_ns = now_ns;
	edge->blame = blame;
	if (!edge->heard_ns)
		return; /* it has not come yet */
	edge->disconnects++;
	log_warning("peer %s (%s) is down: nothing heard for %llu ms%s%s", edge->host,
		    plane_word(edge), (unsigned long long)((now_ns - edge->heard_ns) / 1000000),
		    blame ? ", to blame: " : "", blame ? blame : "");
	events_record(mesh->daemon->ledger, "peer_down", edge->host, evidence(mesh, edge, now_ns),
		   NULL, NULL, blame ? json_pack("{s:s}", "blame", blame) : NULL);
}

static void edge_comes_up(struct mesh *mesh, struct mesh_edge *edge, uint64_t now_ns)
{
	bool was_down = edge->state == PEER_DOWN && edge->disconnects;
	json_t *seen;

	edge->state = PEER_UP;
	edge->blame = NULL;
	memset(&edge->inquiry, 0, sizeof(edge->inquiry));
	edge->absent_told = false;
	if (!was_down)
		return;
	seen = json_pack("{s:s}", "plane", plane_word(edge));
	put_ms(seen, "down_ms", now_ns - edge->down_ns);
	log_info("peer %s (%s) is up again", edge->host, plane_word(edge));
	events_record(mesh->daemon->ledger, "peer_up", edge->host, seen, NULL, NULL, NULL);
}

static void tell_absent(struct mesh *mesh, struct mesh_edge *edge, uint64_t now_ns)
{
	char text[ADDRESS_TEXT_BYTES];

	if (edge->heard_ns || edge->absent_told || now_ns - edge->since_ns < ABSENT_AFTER_NS)
		return;
	edge->absent_told = true;
	events_record(mesh->daemon->ledger, "peer_absent", edge->host,
		   json_pack("{s:s, s:s}", "plane", plane_word(edge), "address",
			     address_format(&edge->address, text)),
		   NULL, NULL, NULL);
}

static void tell_failures(struct mesh_edge *edge)
{
	struct sender_counts counts;

	if (!edge->sending)
		return;
	sender_counts(edge->sending, &counts);
	if (counts.failed && !edge->told_failed)
		log_warning("probes to %s are refused by the kernel: %s", edge->host,
			    strerror(-counts.last_error));
	edge->told_failed = counts.failed;
}

/* A third of down_after: silence that is not yet a failure. */
static void edge_judge(struct mesh *mesh, struct mesh_edge *edge, uint64_t now_ns)
{
	uint64_t down_after_ns = mesh->daemon->config->mesh.down_after_ns;
	uint64_t begun_ns = edge->heard_ns ? edge->heard_ns : edge->since_ns;
	uint64_t silent_ns = now_ns > begun_ns ? now_ns - begun_ns : 0;
	uint64_t replied_ns = edge->replied_ns > edge->since_ns ? edge->replied_ns : edge->since_ns;

	edge->unanswered =
		edge->heard_ns && now_ns > replied_ns && now_ns - replied_ns >= down_after_ns;
	if (silent_ns >= down_after_ns) {
		if (edge->state != PEER_DOWN)
			edge_goes_down(mesh, edge, now_ns);
		else if (edge->heard_ns)
			edge->blame = mesh_blame(mesh, edge, now_ns);
		tell_absent(mesh, edge, now_ns);
	} else if (silent_ns >= down_after_ns / 3 || edge->unanswered || !edge->heard_ns) {
		if (edge->state == PEER_DOWN)
			edge_comes_up(mesh, edge, now_ns);
		edge->state = PEER_SUSPECT;
	} else if (edge->state != PEER_UP) {
		edge_comes_up(mesh, edge, now_ns);
	}
	/* Asked in time, so that the event of its loss has the answers. */
	if (edge->heard_ns && silent_ns >= down_after_ns * 2 / 3)
		mesh_inquire(mesh, edge, now_ns);
}

/* A reply that XDP took and whose record found no room in the ring is not lost. */
static void edge_sum_losses(struct mesh_edge *edge)
{
	uint64_t heard = edge->replies_map - edge->replies_base;
	uint64_t unrecorded = heard > edge->replies ? heard - edge->replies : 0;

	if (edge->losses.lost > unrecorded && edge->losses.lost - unrecorded > edge->lost)
		edge->lost = edge->losses.lost - unrecorded;
}

/* Requests have a second to be answered in; those to a host that has not come yet are not lost. */
static void edge_judge_losses(struct mesh_edge *edge)
{
	struct sender_counts counts;

	if (!edge->sending)
		return;
	sender_counts(edge->sending, &counts);
	if (!edge->heard_ns) {
		losses_skip(&edge->losses, counts.next_sequence);
		for (unsigned int i = 0; i < MESH_HORIZON; i++)
			edge->horizon[i] = counts.next_sequence;
		return;
	}
	losses_expire(&edge->losses, edge->horizon[edge->horizon_next]);
	edge->horizon[edge->horizon_next] = counts.next_sequence;
	edge->horizon_next = (edge->horizon_next + 1) % MESH_HORIZON;
	edge_sum_losses(edge);
}

static void edge_read_map(const struct mesh *mesh, struct mesh_edge *edge)
{
	struct esc_peer peer;

	if (mesh_read_peer(mesh, edge->plane, edge->id, &peer))
		return;
	/* What the daemon before us heard is no news of now. */
	if (peer.heard_local_ns >= edge->since_ns)
		edge->heard_ns = peer.heard_local_ns;
	if (peer.replied_local_ns >= edge->since_ns)
		edge->replied_ns = peer.replied_local_ns;
	edge->replies_map = peer.replies_heard;
	/* Counted on over a restart of the daemon; from nothing when the member came anew. */
	if (!edge->replies_known || edge->replies_map < edge->replies_base)
		edge->replies_base = edge->replies_map - edge->replies;
	edge->replies_known = true;
}

void mesh_watch_peers(struct mesh *mesh, uint64_t now_ns)
{
	for (size_t i = 0; i < MESH_EDGES_MAX; i++)
		if (mesh->edges[i])
			edge_read_map(mesh, mesh->edges[i]);
	for (size_t i = 0; i < MESH_EDGES_MAX; i++) {
		struct mesh_edge *edge = mesh->edges[i];

		if (!edge)
			continue;
		edge_judge_losses(edge);
		if (mesh->paused)
			continue;
		edge_judge(mesh, edge, now_ns);
		tell_failures(edge);
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a silence is due to. Up to five other neighbors of the silent peer are queried how long ago
 * they received from it, and the peer itself on the other plane; their kernel programs reply, by
 * what they receive themselves.
 */
#include <endian.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "internal.h"

#define QUERY_AGAIN_NS 1000000000ull

/* A request to a member that is no neighbor of ours. */
static int query_other(struct mesh *mesh, const struct mesh_plane *plane,
			const struct roster_member *member, uint64_t about)
{
	struct probe_datagram datagram;
	struct probe_route route;
	int err = mesh_route(plane, member, &route), fd;

	if (err)
		return err;
	fd = probesock_open(&route);
	if (fd < 0)
		return fd;
	probe_datagram_init(&datagram, plane->roster.ids[plane->roster.self], member->id,
			    clock_epoch(mesh->clock),
			    plane->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0);
	mesh->sequence++;
	probe_datagram_number(&datagram, ESC_PROBE_OPCODE_REQUEST, mesh->sequence, mesh->sequence,
			      ESC_PROBE_QUERY);
	datagram.probe.about = htobe64(about);
	err = probe_datagram_send(fd, &datagram);
	close(fd);
	return err;
}

static int query(struct mesh *mesh, const struct mesh_plane *plane,
		 const struct roster_member *member, uint64_t about)
{
	const struct mesh_peer *peer = mesh_find_peer(mesh, plane->plane, member->id);

	if (peer && peer->edge->sending)
		return sender_query(mesh->sender, peer->edge->sending, about);
	return query_other(mesh, plane, member, about);
}

/* The peer's neighbors by the graph, which is the same on every host. */
static void query_neighbors(struct mesh *mesh, const struct mesh_plane *plane, uint64_t id,
			    struct mesh_inquiry *inquiry)
{
	const struct roster *roster = &plane->roster;
	const struct graph *graph = &plane->graph;
	size_t peer = 0;

	while (peer < roster->count && roster->ids[peer] != id)
		peer++;
	if (peer == roster->count)
		return;
	for (uint32_t i = graph->start[peer];
	     i < graph->start[peer + 1] && inquiry->asked < MESH_QUERIES_MAX; i++) {
		uint32_t other = graph->peers[i];

		if (other == roster->self || query(mesh, plane, &roster->list[other], id))
			continue;
		inquiry->ids[inquiry->asked++] = roster->ids[other];
	}
}

static const struct mesh_plane *other_plane(const struct mesh *mesh, const struct mesh_peer *peer)
{
	return &mesh->planes[peer->edge->plane == FLEET_PLANE_BACKEND];
}

void mesh_inquire(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	const struct mesh_plane *plane = &mesh->planes[peer->edge->plane];
	const struct mesh_plane *other = other_plane(mesh, peer);
	struct mesh_inquiry *inquiry = &peer->inquiry;
	uint64_t id = peer->edge->id;
	const struct roster_member *elsewhere;

	if (inquiry->open && now_ns - inquiry->begun_ns < QUERY_AGAIN_NS)
		return;
	memset(inquiry, 0, sizeof(*inquiry));
	inquiry->open = true;
	inquiry->begun_ns = now_ns;
	query_neighbors(mesh, plane, id, inquiry);
	elsewhere = other->on ? roster_find(&other->roster, id) : NULL;
	if (elsewhere && !query(mesh, other, elsewhere, id))
		inquiry->asked_elsewhere = true;
}

static void take_reply(struct mesh *mesh, struct mesh_inquiry *inquiry,
		       const struct esc_probe_event *event)
{
	uint64_t hears_ns = mesh->core->config->mesh.down_after_ns / 3;

	for (unsigned int i = 0; i < inquiry->asked; i++) {
		if (inquiry->ids[i] != event->peer || inquiry->has_answered[i])
			continue;
		inquiry->has_answered[i] = true;
		inquiry->answered++;
		inquiry->hearing += event->about_age_us != ESC_PROBE_NEVER &&
				    event->about_age_us * 1000ull < hears_ns;
	}
}

void mesh_take_query_reply(struct mesh *mesh, const struct esc_probe_event *event)
{
	enum fleet_plane plane =
		event->flags & ESC_PROBE_PLANE ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND;

	for (size_t i = 0; i < MESH_PEERS_MAX; i++) {
		struct mesh_peer *peer = mesh->peers[i];

		if (!peer || !peer->inquiry.open || peer->edge->id != event->about)
			continue;
		if (peer->edge->plane == plane)
			take_reply(mesh, &peer->inquiry, event);
		else if (event->peer == peer->edge->id)
			peer->inquiry.heard_elsewhere = true;
	}
}

unsigned int mesh_count_silent(const struct mesh *mesh, enum fleet_plane plane, uint64_t now_ns)
{
	uint64_t silence_ns = mesh->core->config->mesh.down_after_ns / 2;
	unsigned int count = 0;

	for (size_t i = 0; i < MESH_PEERS_MAX; i++) {
		const struct mesh_peer *peer = mesh->peers[i];

		count += peer && peer->edge->plane == plane && peer->heard_ns &&
			 now_ns > peer->heard_ns && now_ns - peer->heard_ns >= silence_ns;
	}
	return count;
}

const char *mesh_blame(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t now_ns)
{
	const struct mesh_inquiry *inquiry = &peer->inquiry;
	unsigned int peers = mesh_count_peers(mesh, peer->edge->plane);

	if (!peer->heard_ns)
		return NULL;
	if (peers > 1 && 2 * mesh_count_silent(mesh, peer->edge->plane, now_ns) > peers)
		return "own_nic";
	if (!inquiry->open)
		return NULL;
	if (inquiry->answered)
		return 2 * inquiry->hearing >= inquiry->answered && inquiry->hearing ? "pair"
		       : inquiry->heard_elsewhere				     ? "nic"
										     : "peer";
	return inquiry->heard_elsewhere ? "nic" : peer->blame;
}

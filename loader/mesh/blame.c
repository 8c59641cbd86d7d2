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

static int query(struct mesh *mesh, const struct mesh_plane *plane,
		 const struct roster_member *member, uint64_t about)
{
	const struct mesh_peer *peer = mesh_find_peer(mesh, plane->plane, member->id);
	struct probe_datagram datagram;
	struct probe_route route;
	int err, fd;

	if (peer && peer->edge->sending)
		return sender_query(mesh->sender, peer->edge->sending, about);
	/* It is no neighbor of ours. */
	err = mesh_route(plane, member, &route);
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

void mesh_inquire(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	enum fleet_plane plane = peer->edge->plane;
	const struct mesh_plane *other = &mesh->planes[plane == FLEET_PLANE_BACKEND];
	uint64_t id = peer->edge->id;
	const struct roster_member *elsewhere;

	if (peer->inquiry.open && now_ns - peer->inquiry.begun_ns < QUERY_AGAIN_NS)
		return;
	peer->inquiry = (struct mesh_inquiry){.open = true, .begun_ns = now_ns};
	query_neighbors(mesh, &mesh->planes[plane], id, &peer->inquiry);
	elsewhere = other->on ? roster_find(&other->roster, id) : NULL;
	peer->inquiry.asked_elsewhere = elsewhere && !query(mesh, other, elsewhere, id);
}

void mesh_take_query_reply(void *context, const struct esc_probe_event *event)
{
	enum fleet_plane plane =
		event->flags & ESC_PROBE_PLANE ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND;
	struct mesh *mesh = context;
	bool reachable = event->about_age_us != ESC_PROBE_NEVER &&
			 event->about_age_us * 1000ull < mesh->core->config->mesh.down_after_ns / 3;
	struct mesh_peer *peer;

	for_each_peer (mesh, peer) {
		struct mesh_inquiry *inquiry = &peer->inquiry;

		if (!inquiry->open || peer->edge->id != event->about)
			continue;
		if (peer->edge->plane != plane) {
			inquiry->heard_elsewhere |= event->peer == peer->edge->id;
			continue;
		}
		for (unsigned int i = 0; i < inquiry->asked; i++) {
			if (inquiry->ids[i] != event->peer || inquiry->has_answered[i])
				continue;
			inquiry->has_answered[i] = true;
			inquiry->answered++;
			inquiry->hearing += reachable;
		}
	}
}

unsigned int mesh_count_silent(const struct mesh *mesh, enum fleet_plane plane, uint64_t now_ns)
{
	uint64_t silence_ns = mesh->core->config->mesh.down_after_ns / 2;
	const struct mesh_peer *peer;
	unsigned int count = 0;

	for_each_peer (mesh, peer)
		count += peer->edge->plane == plane && peer->heard_ns && now_ns > peer->heard_ns &&
			 now_ns - peer->heard_ns >= silence_ns;
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

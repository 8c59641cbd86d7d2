// SPDX-License-Identifier: BSD-2-Clause
/*
 * Whose fault a silence is. Up to five other neighbours of the silent peer are
 * asked how long ago they heard it, the peer itself on the other plane; their
 * kernel programs answer, and they see with their own eyes.
 */
#include <endian.h>
#include <string.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "internal.h"

#define ASK_AGAIN_NS 1000000000ull

/* A request to somebody who is no neighbour of ours. */
static int ask_stranger(struct mesh *mesh, const struct mesh_plane *plane,
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
			    mesh->epoch,
			    plane->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0);
	mesh->sequence++;
	probe_datagram_number(&datagram, ESC_PROBE_OPCODE_REQUEST, mesh->sequence, mesh->sequence,
			      ESC_PROBE_ASKS);
	datagram.probe.about = htobe64(about);
	err = probe_datagram_send(fd, &datagram);
	close(fd);
	return err;
}

static int ask(struct mesh *mesh, const struct mesh_plane *plane,
	       const struct roster_member *member, uint64_t about)
{
	struct mesh_edge *edge = mesh_find_edge(mesh, plane->plane, member->id);

	if (edge && edge->sending)
		return sender_query(mesh->sender, edge->sending, about);
	return ask_stranger(mesh, plane, member, about);
}

/* The peer's neighbours by the graph, which every host knows alike. */
static void ask_neighbours(struct mesh *mesh, const struct mesh_plane *plane,
			   const struct mesh_edge *edge, struct mesh_inquiry *inquiry)
{
	const struct roster *roster = &plane->roster;
	const struct graph *graph = &plane->graph;
	size_t peer = 0;

	while (peer < roster->count && roster->ids[peer] != edge->id)
		peer++;
	if (peer == roster->count)
		return;
	for (uint32_t i = graph->start[peer];
	     i < graph->start[peer + 1] && inquiry->asked < MESH_ASKED_MAX; i++) {
		uint32_t other = graph->peers[i];

		if (other == roster->self || ask(mesh, plane, &roster->list[other], edge->id))
			continue;
		inquiry->ids[inquiry->asked++] = roster->ids[other];
	}
}

static const struct mesh_plane *other_plane(const struct mesh *mesh, const struct mesh_edge *edge)
{
	return &mesh->planes[edge->plane == FLEET_PLANE_BACKEND];
}

void mesh_inquire(struct mesh *mesh, struct mesh_edge *edge, uint64_t now_ns)
{
	const struct mesh_plane *plane = &mesh->planes[edge->plane];
	const struct mesh_plane *other = other_plane(mesh, edge);
	struct mesh_inquiry *inquiry = &edge->inquiry;
	const struct roster_member *elsewhere;

	if (inquiry->open && now_ns - inquiry->begun_ns < ASK_AGAIN_NS)
		return;
	memset(inquiry, 0, sizeof(*inquiry));
	inquiry->open = true;
	inquiry->begun_ns = now_ns;
	ask_neighbours(mesh, plane, edge, inquiry);
	elsewhere = other->on ? roster_find(&other->roster, edge->id) : NULL;
	if (elsewhere && !ask(mesh, other, elsewhere, edge->id))
		inquiry->asked_elsewhere = true;
}

static void answer_about(struct mesh *mesh, struct mesh_inquiry *inquiry,
			 const struct esc_probe_event *event)
{
	uint64_t hears_ns = mesh->daemon->config->mesh.down_after_ns / 3;

	for (unsigned int i = 0; i < inquiry->asked; i++) {
		if (inquiry->ids[i] != event->peer || inquiry->has_answered[i])
			continue;
		inquiry->has_answered[i] = true;
		inquiry->answered++;
		inquiry->hearing += event->about_age_us != ESC_PROBE_NEVER &&
				    event->about_age_us * 1000ull < hears_ns;
	}
}

void mesh_inquiry_answer(struct mesh *mesh, const struct esc_probe_event *event)
{
	enum fleet_plane plane =
		event->flags & ESC_PROBE_PLANE ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND;

	for (size_t i = 0; i < MESH_EDGES_MAX; i++) {
		struct mesh_edge *edge = mesh->edges[i];

		if (!edge || !edge->inquiry.open || edge->id != event->about)
			continue;
		if (edge->plane == plane)
			answer_about(mesh, &edge->inquiry, event);
		else if (event->peer == edge->id)
			edge->inquiry.heard_elsewhere = true;
	}
}

unsigned int mesh_silent_edges(const struct mesh *mesh, enum fleet_plane plane, uint64_t now_ns)
{
	uint64_t silence_ns = mesh->daemon->config->mesh.down_after_ns / 2;
	unsigned int count = 0;

	for (size_t i = 0; i < MESH_EDGES_MAX; i++) {
		const struct mesh_edge *edge = mesh->edges[i];

		count += edge && edge->plane == plane && edge->heard_ns &&
			 now_ns > edge->heard_ns && now_ns - edge->heard_ns >= silence_ns;
	}
	return count;
}

const char *mesh_blame(const struct mesh *mesh, const struct mesh_edge *edge, uint64_t now_ns)
{
	const struct mesh_inquiry *inquiry = &edge->inquiry;
	unsigned int peers = mesh_plane_edges(mesh, edge->plane);

	if (!edge->heard_ns)
		return NULL;
	if (peers > 1 && 2 * mesh_silent_edges(mesh, edge->plane, now_ns) > peers)
		return "own_nic";
	if (!inquiry->open)
		return NULL;
	if (inquiry->answered)
		return 2 * inquiry->hearing >= inquiry->answered && inquiry->hearing ? "pair"
		       : inquiry->heard_elsewhere				     ? "nic"
										     : "peer";
	return inquiry->heard_elsewhere ? "nic" : edge->blame;
}

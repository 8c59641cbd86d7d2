// SPDX-License-Identifier: BSD-2-Clause
/* Who is probed on a plane, and from which of our interfaces. */
#include <errno.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "core/events.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "internal.h"

__attribute__((format(printf, 2, 3))) static void plane_off(struct mesh_plane *plane,
							    const char *format, ...)
{
	va_list arguments;

	plane->on = false;
	va_start(arguments, format);
	vsnprintf(plane->note, sizeof(plane->note), format, arguments);
	va_end(arguments);
}

/* --- which interface --- */

static bool interface_has(const struct ifaddrs *list, const char *name,
			  const struct esc_address *address)
{
	struct esc_address here;

	for (const struct ifaddrs *at = list; at; at = at->ifa_next)
		if (!strcmp(at->ifa_name, name) && address_of_socket(at->ifa_addr, &here) &&
		    !memcmp(&here, address, sizeof(here)))
			return true;
	return false;
}

/* The interface of the plane that has an address of ours in the list; which families it has. */
static const struct config_interface *choose_interface(const struct config *config,
						       enum fleet_plane plane,
						       const struct roster_member *self,
						       bool has[ROSTER_FAMILIES])
{
	const struct config_interface *chosen = NULL;
	struct ifaddrs *list = NULL;

	if (getifaddrs(&list))
		return NULL;
	for (size_t i = 0; i < config->interface_count && !chosen; i++) {
		const struct config_interface *interface = &config->interfaces[i];

		if (interface->plane != plane)
			continue;
		for (int family = 0; family < ROSTER_FAMILIES; family++) {
			has[family] = self->has[family] &&
				      interface_has(list, interface->name, &self->address[family]);
			if (has[family])
				chosen = interface;
		}
	}
	freeifaddrs(list);
	return chosen;
}

static bool plane_is_configured(const struct config *config, enum fleet_plane plane)
{
	for (size_t i = 0; i < config->interface_count; i++)
		if (config->interfaces[i].plane == plane)
			return true;
	return false;
}

/* Stamps are made in XDP and tc egress; without both there is nothing to probe with. */
static void plane_check_attached(const struct mesh *mesh, struct mesh_plane *plane)
{
	const char *missing = dataplane_stamps_missing(mesh->daemon->dataplane, plane->interface);

	if (missing)
		plane_off(plane, "%s has no %s of ours, by which probes are stamped",
			  plane->interface, missing);
}

static void plane_choose(const struct mesh *mesh, struct mesh_plane *plane)
{
	const struct config *config = mesh->daemon->config;
	const struct roster *roster = &plane->roster;
	const struct config_interface *interface;

	plane->on = true;
	plane->note[0] = plane->interface[0] = '\0';
	plane->configured = plane_is_configured(config, plane->plane);
	if (!plane->configured)
		return plane_off(plane, "no interface is of this plane");
	if (!fleet_members(mesh->daemon->core.fleet))
		return plane_off(plane, "there is no members file: name one with `members`");
	if (roster->self == ROSTER_NOBODY)
		return plane_off(plane,
				 "host %.64s is not in %.120s: add it there, or set `host` to its "
				 "name in it",
				 config->host, config->members);
	interface = choose_interface(config, plane->plane, &roster->list[roster->self],
				     plane->has_address);
	if (!interface)
		return plane_off(
			plane, "no interface of this plane has an address that %.120s gives %.64s",
			config->members, config->host);
	snprintf(plane->interface, sizeof(plane->interface), "%s", interface->name);
	plane->probe_port = interface->probe_port;
	plane->ifindex = if_nametoindex(interface->name);
	plane_check_attached(mesh, plane);
}

/* --- edges --- */

struct mesh_edge *mesh_find_edge(const struct mesh *mesh, enum fleet_plane plane, uint64_t id)
{
	for (size_t i = 0; i < MESH_EDGES_MAX; i++)
		if (mesh->edges[i] && mesh->edges[i]->id == id && mesh->edges[i]->plane == plane)
			return mesh->edges[i];
	return NULL;
}

unsigned int mesh_plane_edges(const struct mesh *mesh, enum fleet_plane plane)
{
	unsigned int count = 0;

	for (size_t i = 0; i < MESH_EDGES_MAX; i++)
		count += mesh->edges[i] && mesh->edges[i]->plane == plane;
	return count;
}

int mesh_route(const struct mesh_plane *plane, const struct roster_member *member,
	       struct probe_route *route)
{
	const struct roster_member *self = &plane->roster.list[plane->roster.self];

	for (int family = 0; family < ROSTER_FAMILIES; family++) {
		if (!plane->has_address[family] || !member->has[family])
			continue;
		route->interface = plane->interface;
		route->from = self->address[family];
		route->to = member->address[family];
		route->from_port = probe_source_port(self->id, member->id);
		route->to_port = plane->probe_port;
		return 0;
	}
	return -EAFNOSUPPORT;
}

/* Numbers are never used twice in a run, whoever they were sent to. */
static void mesh_note_sequence(struct mesh *mesh, struct mesh_edge *edge)
{
	struct sender_counts counts;

	if (!edge->sending)
		return;
	sender_counts(edge->sending, &counts);
	if ((int32_t)(counts.next_sequence - mesh->sequence) > 0)
		mesh->sequence = counts.next_sequence;
	edge->sent_before += counts.requests;
	edge->failed_before += counts.failed;
}

static void edge_open(struct mesh *mesh, const struct mesh_plane *plane, struct mesh_edge *edge,
		      const struct roster_member *member)
{
	struct sender_edge_config config = {
		.self = plane->roster.ids[plane->roster.self],
		.target = edge->id,
		.epoch = mesh->epoch,
		.flags = plane->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0,
		.interval_ns = mesh->daemon->config->mesh.pair_interval_ns,
	};
	char text[ADDRESS_TEXT_BYTES];
	int err = mesh_route(plane, member, &config.route);

	if (edge->path.port)
		config.route.from_port = edge->path.port;
	config.first_sequence = mesh->sequence + 1;
	edge->pair_interval_ns = (int64_t)config.interval_ns;
	if (!err) {
		edge->address = config.route.to;
		edge->source_port = config.route.from_port;
		err = sender_add(mesh->sender, &config, &edge->sending);
	}
	if (err && err != edge->open_error)
		log_warning("%s (%s) cannot be probed from %s: %s", edge->host,
			    address_format(&edge->address, text), plane->interface,
			    err == -EAFNOSUPPORT ? "no address family in common" : strerror(-err));
	edge->open_error = err;
	losses_begin(&edge->losses, config.first_sequence);
	for (unsigned int i = 0; i < MESH_HORIZON; i++)
		edge->horizon[i] = config.first_sequence;
}

int mesh_plane_move(struct mesh *mesh, const struct mesh_plane *plane, struct mesh_edge *edge,
		    uint16_t port)
{
	struct probe_route route;
	int err = -ENOENT;

	for (size_t i = 0; err == -ENOENT && i < plane->roster.count; i++)
		if (plane->roster.list[i].id == edge->id)
			err = mesh_route(plane, &plane->roster.list[i], &route);
	if (err)
		return err;
	route.from_port = port;
	err = sender_move(mesh->sender, edge->sending, &route);
	if (!err)
		edge->source_port = edge->path.port = port;
	return err;
}

static void edge_close(struct mesh *mesh, struct mesh_edge *edge)
{
	mesh_note_sequence(mesh, edge);
	sender_remove(mesh->sender, edge->sending);
	edge->sending = NULL;
	edge->told_failed = 0;
}

static void edge_remove(struct mesh *mesh, size_t slot)
{
	edge_close(mesh, mesh->edges[slot]);
	free(mesh->edges[slot]);
	mesh->edges[slot] = NULL;
	if (slot < CONSENSUS_PEERS_MAX)
		consensus_peer_init(&mesh->clock.consensus, slot);
}

static void edge_add_new(struct mesh *mesh, const struct mesh_plane *plane,
			 const struct roster_member *member)
{
	struct mesh_edge *edge;
	size_t slot = 0;

	while (slot < MESH_EDGES_MAX && mesh->edges[slot])
		slot++;
	edge = slot < MESH_EDGES_MAX ? calloc(1, sizeof(*edge)) : NULL;
	if (!edge)
		return;
	edge->id = member->id;
	edge->plane = plane->plane;
	edge->address = member->address[!member->has[ROSTER_IPV4]];
	snprintf(edge->host, sizeof(edge->host), "%s", member->host);
	edge->since_ns = mesh_monotonic_ns();
	edge->state = PEER_SUSPECT;
	edge->begun_local_ns = mesh_local_ns(mesh, edge->since_ns);
	edge_init(&edge->edge, (int64_t)mesh->daemon->config->clock.window_ns);
	mesh->edges[slot] = edge;
	edge_open(mesh, plane, edge, member);
}

static bool plane_wants(const struct mesh_plane *plane, const struct mesh_edge *edge,
			const struct roster_member **member)
{
	const struct graph *graph = &plane->graph;
	size_t self = plane->roster.self;

	if (!plane->on)
		return false;
	for (uint32_t i = graph->start[self]; i < graph->start[self + 1]; i++) {
		*member = &plane->roster.list[graph->peers[i]];
		if ((*member)->id == edge->id)
			return true;
	}
	return false;
}

static bool address_moved(const struct mesh_plane *plane, const struct mesh_edge *edge,
			  const struct roster_member *member)
{
	struct probe_route route;

	return !mesh_route(plane, member, &route) &&
	       memcmp(&route.to, &edge->address, sizeof(route.to));
}

/* Edges that stay are not touched: their windows go on. */
static void plane_reconcile(struct mesh *mesh, const struct mesh_plane *plane, bool reopen)
{
	const struct graph *graph = &plane->graph;
	const struct roster_member *member;
	size_t self = plane->roster.self;

	for (size_t slot = 0; slot < MESH_EDGES_MAX; slot++) {
		struct mesh_edge *edge = mesh->edges[slot];

		if (!edge || edge->plane != plane->plane)
			continue;
		if (!plane_wants(plane, edge, &member)) {
			edge_remove(mesh, slot);
		} else if (reopen || !edge->sending || address_moved(plane, edge, member)) {
			edge_close(mesh, edge);
			edge_open(mesh, plane, edge, member);
		}
	}
	for (uint32_t i = plane->on ? graph->start[self] : 0;
	     plane->on && i < graph->start[self + 1]; i++) {
		member = &plane->roster.list[graph->peers[i]];
		if (!mesh_find_edge(mesh, plane->plane, member->id))
			edge_add_new(mesh, plane, member);
	}
}

/* --- the members --- */

/* A few by name, the rest as a number: a new rack is one event, not forty. */
#define NAMED_MAX 8

static void tell_moved(struct mesh *mesh, const struct mesh_plane *plane, const char *kind,
		       const struct roster *of, const struct roster *not_in)
{
	json_t *names = json_array();
	size_t count = 0, at = 0;

	/* Both are sorted by host. */
	for (size_t i = 0; i < of->count; i++) {
		while (at < not_in->count && strcmp(not_in->list[at].host, of->list[i].host) < 0)
			at++;
		if (at < not_in->count && !strcmp(not_in->list[at].host, of->list[i].host))
			continue;
		if (count++ < NAMED_MAX)
			json_array_append_new(names, json_string(of->list[i].host));
	}
	if (!count) {
		json_decref(names);
		return;
	}
	events_record(mesh->daemon->ledger, kind,
		   plane->plane == FLEET_PLANE_FRONTEND ? "frontend" : "backend",
		   json_pack("{s:I, s:o}", "hosts", (json_int_t)count, "names", names), NULL, NULL,
		   NULL);
}

static void plane_apply(struct mesh *mesh, struct mesh_plane *plane, bool first)
{
	const struct config *config = mesh->daemon->config;
	const struct members *members = fleet_members(mesh->daemon->core.fleet);
	struct mesh_plane before = *plane;
	int err = 0;

	plane->roster = (struct roster){.self = ROSTER_NOBODY};
	plane->graph = (struct graph){};
	if (members)
		err = roster_build(&plane->roster, members, plane->plane, config->host);
	plane_choose(mesh, plane);
	if (!err && plane->on)
		err = graph_build(&plane->graph, plane->roster.ids, plane->roster.count,
				  config->mesh.degree, plane->plane);
	if (err)
		plane_off(plane, "the mesh cannot be made: %s", strerror(-err));
	if (!plane->on && plane->configured && members &&
	    strcmp(before.note, plane->note))
		log_warning("no probes on the %s plane: %s",
			    plane->plane == FLEET_PLANE_FRONTEND ? "frontend" : "backend",
			    plane->note);
	plane_reconcile(mesh, plane,
			before.on && (before.ifindex != plane->ifindex ||
				      before.probe_port != plane->probe_port ||
				      strcmp(before.interface, plane->interface)));
	mesh_write_peers(mesh, plane);
	if (!first && plane->configured) {
		tell_moved(mesh, plane, "members_joined", &plane->roster, &before.roster);
		tell_moved(mesh, plane, "members_left", &before.roster, &plane->roster);
	}
	graph_free(&before.graph);
	roster_free(&before.roster);
}

void mesh_planes_apply(struct mesh *mesh)
{
	bool first = !mesh->rounds && !mesh_plane_edges(mesh, FLEET_PLANE_BACKEND);

	for (unsigned int i = 0; i < MESH_PLANES; i++)
		plane_apply(mesh, &mesh->planes[i], first);
	mesh_write_addresses(mesh);
	mesh_write_fleet(mesh);
}

void mesh_planes_free(struct mesh *mesh)
{
	for (size_t slot = 0; slot < MESH_EDGES_MAX; slot++)
		if (mesh->edges[slot])
			edge_remove(mesh, slot);
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		graph_free(&mesh->planes[i].graph);
		roster_free(&mesh->planes[i].roster);
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* The peers that are probed on a plane, and the interface they are probed from. */
#include <errno.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/log.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
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

/* The interface of the plane that has an address of ours in the list; which families it has. */
static const struct config_interface *choose_interface(const struct config *config,
						       enum fleet_plane plane,
						       const struct roster_member *self,
						       bool has[ROSTER_FAMILIES])
{
	const struct config_interface *chosen = NULL;
	struct ifaddrs *list = NULL;
	struct esc_address here;

	if (getifaddrs(&list))
		return NULL;
	for (size_t i = 0; i < config->interface_count && !chosen; i++) {
		const struct config_interface *interface = &config->interfaces[i];

		memset(has, 0, ROSTER_FAMILIES * sizeof(*has));
		if (interface->plane != plane)
			continue;
		for (const struct ifaddrs *at = list; at; at = at->ifa_next)
			for (int family = 0; family < ROSTER_FAMILIES; family++)
				if (self->has[family] && !strcmp(at->ifa_name, interface->name) &&
				    address_of_socket(at->ifa_addr, &here) &&
				    !memcmp(&here, &self->address[family], sizeof(here))) {
					has[family] = true;
					chosen = interface;
				}
	}
	freeifaddrs(list);
	return chosen;
}

static void plane_choose(const struct mesh *mesh, struct mesh_plane *plane)
{
	const struct config *config = mesh->core->config;
	const struct roster *roster = &plane->roster;
	const struct config_interface *interface;
	const char *missing;

	plane->on = true;
	plane->note[0] = plane->interface[0] = '\0';
	plane->configured = false;
	for (size_t i = 0; i < config->interface_count; i++)
		plane->configured |= config->interfaces[i].plane == plane->plane;
	if (!plane->configured)
		return plane_off(plane, "no interface is of this plane");
	if (!fleet_members(mesh->core->fleet))
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
	/* Timestamps are taken in XDP and tc egress; without both there is nothing to probe with.
	 */
	missing = dataplane_stamps_missing(mesh->dataplane, plane->interface);
	if (missing)
		plane_off(plane, "%s has no %s of ours, by which probes are stamped",
			  plane->interface, missing);
}

/* --- peers --- */

struct mesh_peer *mesh_find_peer(const struct mesh *mesh, enum fleet_plane plane, uint64_t id)
{
	struct mesh_peer *peer;

	for_each_peer (mesh, peer)
		if (peer->edge->id == id && peer->edge->plane == plane)
			return peer;
	return NULL;
}

unsigned int mesh_count_peers(const struct mesh *mesh, enum fleet_plane plane)
{
	const struct mesh_peer *peer;
	unsigned int count = 0;

	for_each_peer (mesh, peer)
		count += peer->edge->plane == plane;
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

static void peer_open(struct mesh *mesh, const struct mesh_plane *plane, struct mesh_peer *peer,
		      const struct roster_member *member)
{
	struct clock_edge *edge = peer->edge;
	struct sender_edge_config config = {
		.self = plane->roster.ids[plane->roster.self],
		.target = edge->id,
		.epoch = clock_epoch(mesh->clock),
		.flags = plane->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0,
		.interval_ns = mesh->core->config->mesh.pair_interval_ns,
	};
	char text[ADDRESS_TEXT_BYTES];
	int err = mesh_route(plane, member, &config.route);

	if (peer->path.port)
		config.route.from_port = peer->path.port;
	config.first_sequence = mesh->sequence + 1;
	edge->pair_interval_ns = (int64_t)config.interval_ns;
	if (!err) {
		peer->address = config.route.to;
		peer->source_port = config.route.from_port;
		err = sender_add(mesh->sender, &config, &edge->sending);
	}
	if (err && err != peer->open_error)
		log_warning("%s (%s) cannot be probed from %s: %s", edge->host,
			    address_format(&peer->address, text), plane->interface,
			    err == -EAFNOSUPPORT ? "no address family in common" : strerror(-err));
	peer->open_error = err;
	losses_begin(&edge->losses, config.first_sequence);
	for (unsigned int i = 0; i < MESH_HORIZON; i++)
		peer->horizon[i] = config.first_sequence;
}

int mesh_move_peer(struct mesh *mesh, struct mesh_peer *peer, uint16_t port)
{
	const struct mesh_plane *plane = &mesh->planes[peer->edge->plane];
	const struct roster_member *member = roster_find(&plane->roster, peer->edge->id);
	struct probe_route route;
	int err = member ? mesh_route(plane, member, &route) : -ENOENT;

	if (err)
		return err;
	route.from_port = port;
	err = sender_move(mesh->sender, peer->edge->sending, &route);
	if (!err)
		peer->source_port = peer->path.port = port;
	return err;
}

/* Numbers are never used twice in a run, for no two peers. */
static void peer_close(struct mesh *mesh, struct mesh_peer *peer)
{
	struct sender_counts counts;

	peer->failed_reported = 0;
	if (!peer->edge->sending)
		return;
	sender_counts(peer->edge->sending, &counts);
	if ((int32_t)(counts.next_sequence - mesh->sequence) > 0)
		mesh->sequence = counts.next_sequence;
	peer->sent_before += counts.requests;
	peer->failed_before += counts.failed;
	sender_remove(mesh->sender, peer->edge->sending);
	peer->edge->sending = NULL;
}

static void peer_remove(struct mesh *mesh, struct mesh_peer *peer)
{
	peer_close(mesh, peer);
	mesh->peers[peer->edge->slot] = NULL;
	clock_remove_edge(mesh->clock, peer->edge);
	free(peer);
}

static void peer_add(struct mesh *mesh, const struct mesh_plane *plane,
		     const struct roster_member *member)
{
	struct mesh_peer *peer = calloc(1, sizeof(*peer));

	if (peer)
		peer->edge = clock_add_edge(mesh->clock, plane->plane, member->id, member->host);
	if (!peer || !peer->edge) {
		free(peer);
		return;
	}
	peer->address = member->address[!member->has[ROSTER_IPV4]];
	peer->since_ns = time_local_ns();
	mesh_set_state(peer, PEER_SUSPECT);
	mesh->peers[peer->edge->slot] = peer;
	peer_open(mesh, plane, peer, member);
}

/* The member that @peer is, if the plane still probes it; NULL: it does not. */
static const struct roster_member *neighbor(const struct mesh_plane *plane,
					    const struct mesh_peer *peer)
{
	const struct graph *graph = &plane->graph;
	size_t self = plane->roster.self;

	for (uint32_t i = plane->on ? graph->start[self] : 0;
	     plane->on && i < graph->start[self + 1]; i++)
		if (plane->roster.list[graph->peers[i]].id == peer->edge->id)
			return &plane->roster.list[graph->peers[i]];
	return NULL;
}

/* Peers that stay are left as they are: their windows go on. */
static void plane_reconcile(struct mesh *mesh, const struct mesh_plane *plane, bool reopen)
{
	const struct graph *graph = &plane->graph;
	const struct roster_member *member;
	size_t self = plane->roster.self;
	struct probe_route route;
	struct mesh_peer *peer;

	for_each_peer (mesh, peer) {
		if (peer->edge->plane != plane->plane)
			continue;
		member = neighbor(plane, peer);
		if (!member) {
			peer_remove(mesh, peer);
		} else if (reopen || !peer->edge->sending ||
			   (!mesh_route(plane, member, &route) &&
			    memcmp(&route.to, &peer->address, sizeof(route.to)))) {
			peer_close(mesh, peer);
			peer_open(mesh, plane, peer, member);
		}
	}
	for (uint32_t i = plane->on ? graph->start[self] : 0;
	     plane->on && i < graph->start[self + 1]; i++) {
		member = &plane->roster.list[graph->peers[i]];
		if (!mesh_find_peer(mesh, plane->plane, member->id))
			peer_add(mesh, plane, member);
	}
}

/* --- the members --- */

/* A few by name, the rest as a number: a new rack is one event, not forty. */
#define NAMED_MAX 8

static void report_moved(struct mesh *mesh, const struct mesh_plane *plane, unsigned int kind,
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
	mesh_report(mesh, kind, config_plane_name(plane->plane),
		    json_pack("{s:I, s:o}", "hosts", (json_int_t)count, "names", names));
}

static void plane_apply(struct mesh *mesh, struct mesh_plane *plane, bool first)
{
	const struct config *config = mesh->core->config;
	const struct members *members = fleet_members(mesh->core->fleet);
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
	if (!plane->on && plane->configured && members && strcmp(before.note, plane->note))
		log_warning("no probes on the %s plane: %s", config_plane_name(plane->plane),
			    plane->note);
	plane_reconcile(mesh, plane,
			before.on && (before.ifindex != plane->ifindex ||
				      before.probe_port != plane->probe_port ||
				      strcmp(before.interface, plane->interface)));
	mesh_write_peers(mesh, plane);
	if (!first && plane->configured) {
		report_moved(mesh, plane, MESH_MEMBERS_JOINED, &plane->roster, &before.roster);
		report_moved(mesh, plane, MESH_MEMBERS_LEFT, &before.roster, &plane->roster);
	}
	graph_free(&before.graph);
	roster_free(&before.roster);
}

void mesh_apply_planes(struct mesh *mesh)
{
	bool first = !clock_rounds(mesh->clock) && !mesh_count_peers(mesh, FLEET_PLANE_BACKEND);

	for (unsigned int i = 0; i < MESH_PLANES; i++)
		plane_apply(mesh, &mesh->planes[i], first);
	mesh_write_addresses(mesh);
	mesh_write_fleet(mesh);
}

void mesh_free_planes(struct mesh *mesh)
{
	struct mesh_peer *peer;

	for_each_peer (mesh, peer)
		peer_remove(mesh, peer);
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		graph_free(&mesh->planes[i].graph);
		roster_free(&mesh->planes[i].roster);
	}
}

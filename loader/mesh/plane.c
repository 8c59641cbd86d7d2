// SPDX-License-Identifier: BSD-2-Clause
/* The peers that are probed on a plane, from which interface and which source port. */
#include <errno.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/log.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "internal.h"

#define ROUNDS_FULL 2 /* beyond the window's two seconds, after which a fit is flagged */
#define RECENT_NS 500000000ll
#define RECENT_ENOUGH 16
#define ROUNDS_CLEAN 8 /* after which a port is remembered */
#define WAIT_FIRST_NS 1000000000ll
#define DOUBLINGS_MAX 6 /* of that wait, up to a minute */
#define EXCESS_LEAST_NS 1000
#define SUPPORT_ENOUGH 4

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
	const struct config_interface *interface = NULL;
	const char *missing = NULL;

	plane->on = plane->configured = false;
	plane->interface[0] = '\0';
	for (size_t i = 0; i < config->interface_count; i++)
		plane->configured |= config->interfaces[i].plane == plane->plane;
	if (roster->self != ROSTER_NONE)
		interface = choose_interface(config, plane->plane, &roster->list[roster->self],
					     plane->has_address);
	if (interface) {
		snprintf(plane->interface, sizeof(plane->interface), "%s", interface->name);
		plane->probe_port = interface->probe_port;
		plane->ifindex = if_nametoindex(interface->name);
		missing = dataplane_lacks(mesh->dataplane, plane->interface);
	}
	plane->note[0] = '\0';
	if (!plane->configured)
		snprintf(plane->note, sizeof(plane->note), "no interface is of this plane");
	else if (!fleet_members(mesh->core->fleet))
		snprintf(plane->note, sizeof(plane->note),
			 "there is no members file: name one with `members`");
	else if (roster->self == ROSTER_NONE)
		snprintf(plane->note, sizeof(plane->note),
			 "host %.64s is not in %.120s: add it there, or set `host` to its name in "
			 "it",
			 config->host, config->members);
	else if (!interface)
		snprintf(plane->note, sizeof(plane->note),
			 "no interface of this plane has an address that %.120s gives %.64s",
			 config->members, config->host);
	/* Timestamps are taken in XDP and tc egress. */
	else if (missing)
		snprintf(plane->note, sizeof(plane->note),
			 "%s has no %s of ours, by which probes are stamped", plane->interface,
			 missing);
	else
		plane->on = true;
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
		peer->facts.address = config.route.to;
		peer->facts.source_port = config.route.from_port;
		err = sender_add(mesh->sender, &config, &edge->sending);
	}
	if (err && err != peer->open_error)
		log_warning("%s (%s) cannot be probed from %s: %s", edge->host,
			    address_format(&peer->facts.address, text), plane->interface,
			    err == -EAFNOSUPPORT ? "no address family in common" : strerror(-err));
	peer->open_error = err;
	losses_begin(&edge->losses, config.first_sequence);
	for (unsigned int i = 0; i < MESH_HORIZON; i++)
		peer->horizon[i] = config.first_sequence;
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
	peer->facts.sent += counts.requests;
	peer->facts.failed += counts.failed;
	sender_remove(mesh->sender, peer->edge->sending);
	peer->edge->sending = NULL;
}

static void peer_remove(struct mesh *mesh, struct mesh_peer *peer)
{
	peer_close(mesh, peer);
	mesh->peers[peer->edge->slot] = NULL;
	clock_remove_edge(mesh->clock, peer->edge);
	mesh_free_history(&peer->history);
	free(peer);
}

/* What was wrong with it is over. */
static void report_left(struct mesh *mesh, const struct mesh_peer *peer)
{
	const struct clock_edge *edge = peer->edge;

	if (peer->facts.state == PEER_DOWN || edge->one_sided || edge->refused_reported)
		mesh_report_peer(mesh, peer, MESH_PEER_LEFT, NULL);
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
	peer->facts.address = member->address[!member->has[ROSTER_IPV4]];
	peer->since_ns = time_local_ns();
	mesh_set_state(peer, PEER_SUSPECT);
	mesh->peers[peer->edge->slot] = peer;
	peer_open(mesh, plane, peer, member);
}

/* Indices into the roster of those that this host probes. Returns how many. */
static size_t neighbors(const struct mesh_plane *plane, const uint32_t **out)
{
	const uint32_t *start = plane->on ? plane->graph.start + plane->roster.self : NULL;

	*out = start ? plane->graph.peers + start[0] : NULL;
	return start ? start[1] - start[0] : 0;
}

/* Peers that stay are left as they are: their windows go on. */
static void plane_reconcile(struct mesh *mesh, const struct mesh_plane *plane, bool reopen)
{
	const struct roster *roster = &plane->roster;
	const struct roster_member *member;
	struct probe_route route;
	struct mesh_peer *peer;
	const uint32_t *list;
	size_t count = neighbors(plane, &list);

	for_each_peer (mesh, peer) {
		if (peer->edge->plane != plane->plane)
			continue;
		member = NULL;
		for (size_t i = 0; i < count && !member; i++)
			if (roster->ids[list[i]] == peer->edge->id)
				member = &roster->list[list[i]];
		if (!member) {
			report_left(mesh, peer);
			peer_remove(mesh, peer);
		} else if (reopen || !peer->edge->sending ||
			   (!mesh_route(plane, member, &route) &&
			    memcmp(&route.to, &peer->facts.address, sizeof(route.to)))) {
			peer_close(mesh, peer);
			peer_open(mesh, plane, peer, member);
		}
	}
	for (size_t i = 0; i < count; i++)
		if (!mesh_find_peer(mesh, plane->plane, roster->ids[list[i]]))
			peer_add(mesh, plane, &roster->list[list[i]]);
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

bool mesh_apply_plane(struct mesh *mesh, struct mesh_plane *plane, bool first)
{
	const struct config *config = mesh->core->config;
	const struct members *members = fleet_members(mesh->core->fleet);
	struct mesh_plane before = *plane;
	unsigned int peers = mesh_count_peers(mesh, plane->plane);
	bool changed;
	int err = 0;

	if (mesh->stale) {
		plane->roster = (struct roster){.self = ROSTER_NONE};
		plane->graph = (struct graph){};
	}
	if (mesh->stale && members)
		err = roster_build(&plane->roster, members, plane->plane, config->host);
	plane_choose(mesh, plane);
	if (!err && plane->on && !plane->graph.count)
		err = graph_build(&plane->graph, plane->roster.ids, plane->roster.count,
				  config->mesh.degree, plane->plane);
	if (err) {
		plane->on = false;
		snprintf(plane->note, sizeof(plane->note), "the mesh cannot be made: %s",
			 strerror(-err));
	}
	if (!plane->on && plane->configured && members && strcmp(before.note, plane->note))
		log_warning("no probes on the %s plane: %s", config_plane_name(plane->plane),
			    plane->note);
	plane_reconcile(mesh, plane,
			before.on && (before.ifindex != plane->ifindex ||
				      before.probe_port != plane->probe_port ||
				      strcmp(before.interface, plane->interface)));
	changed = before.on != plane->on || strcmp(before.interface, plane->interface) ||
		  memcmp(before.has_address, plane->has_address, sizeof(plane->has_address)) ||
		  peers != mesh_count_peers(mesh, plane->plane);
	if (!mesh->stale)
		return changed;
	if (!first && plane->configured) {
		report_moved(mesh, plane, MESH_MEMBERS_JOINED, &plane->roster, &before.roster);
		report_moved(mesh, plane, MESH_MEMBERS_LEFT, &before.roster, &plane->roster);
	}
	graph_free(&before.graph);
	roster_free(&before.roster);
	return true;
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

/*
 * --- the source port, and so which of the fabric's equal paths probes take ---
 *
 * A path that is full for long is left for another one, in the direction of our own requests: the
 * peer draws for its own. Nothing has to be announced: points of the full path are above those of
 * the new one and hold no line, and a floor that stays elsewhere is taken for that of a new path,
 * as when a switch rehashes.
 */

/*
 * By fabric time, which distinguishes the directions: the least recent delay against that of the
 * empty path, beyond the error of the clocks. Without it, by how few points the direction has.
 */
static bool forward_is_full(const struct mesh *mesh, const struct clock_edge *edge, int64_t now_ns)
{
	const struct hostclock *host = clock_host(mesh->clock);
	const struct edge_estimate *estimate = &edge->fit.estimate;
	const struct clock_line *ours = &host->consensus.line;
	struct quantiles out = {0};
	struct clock_line theirs;

	if (!estimate->valid || !estimate->flagged)
		return false;
	if (host->state != CLOCK_FREE_RUNNING && edge->view_known && edge->fit.floor_known &&
	    clock_view_get(&edge->view, &theirs)) {
		/* Of the last half second, where that holds enough. */
		passages_delays(&edge->out, true, now_ns - RECENT_NS, ours, &theirs, &out);
		if (out.samples < RECENT_ENOUGH)
			passages_delays(&edge->out, true,
					now_ns - (int64_t)mesh->core->config->clock.window_ns, ours,
					&theirs, &out);
	}
	if (!out.samples)
		return estimate->support[CLOCK_FORWARD] < SUPPORT_ENOUGH;
	return (double)out.min_ns >
	       edge->fit.floor_ns + EXCESS_LEAST_NS +
		       (double)bound_pair(clock_model_bound(&host->model, now_ns),
					  edge->view.bound_ns);
}

/* The numbers of its probes go on. */
static void change_port(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	const struct mesh_plane *plane = &mesh->planes[peer->edge->plane];
	const struct roster_member *member = roster_find(&plane->roster, peer->edge->id);
	struct mesh_path *path = &peer->path;
	unsigned int doublings = path->tries < DOUBLINGS_MAX ? path->tries : DOUBLINGS_MAX;
	uint16_t before = peer->facts.source_port, port = 0;
	struct probe_route route;

	path->tries++;
	path->full = 0;
	path->next_ns = now_ns + ((uint64_t)WAIT_FIRST_NS << doublings);
	/* Ports that were clean before, the latest first, then any. */
	while (path->next_good < MESH_PORTS_GOOD && (!port || port == before))
		port = path->good[path->next_good++];
	if (!port || port == before)
		port = probe_source_port(now_ns, peer->edge->id);
	if (port == before || !member || mesh_route(plane, member, &route))
		return;
	route.from_port = port;
	if (sender_move(mesh->sender, peer->edge->sending, &route))
		return;
	peer->facts.source_port = path->port = port;
	log_debug("probes to %s leave by source port %u instead of %u: its path is full",
		  peer->edge->host, port, before);
	events_add(mesh->core->events, &(struct event){
					       .kind = &mesh_events[MESH_PEER_PATH_CHANGED],
					       .subject = peer->edge->host,
					       .seen = json_pack("{s:i}", "sport", before),
					       .done = json_pack("{s:i}", "sport", port),
				       });
}

void mesh_check_path(struct mesh *mesh, struct mesh_peer *peer, int64_t local_ns)
{
	const struct clock_edge *edge = peer->edge;
	struct mesh_path *path = &peer->path;
	uint64_t now_ns = time_local_ns();
	unsigned int i = 0;

	if (peer->facts.state != PEER_UP || !edge->sending)
		return;
	if (!forward_is_full(mesh, edge, local_ns)) {
		path->full = 0;
		if (!edge->fit.estimate.valid || ++path->clean != ROUNDS_CLEAN)
			return;
		/* The latest good port first, each once. */
		while (i < MESH_PORTS_GOOD - 1 && path->good[i] != peer->facts.source_port)
			i++;
		memmove(path->good + 1, path->good, i * sizeof(path->good[0]));
		path->good[0] = peer->facts.source_port;
		path->tries = path->next_good = 0;
		return;
	}
	path->clean = 0;
	if (++path->full >= ROUNDS_FULL && now_ns >= path->next_ns)
		change_port(mesh, peer, now_ns);
}

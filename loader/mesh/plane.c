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

/* --- which interfaces --- */

/* The interface of the plane that has an address of @own; which families it has. */
static const struct config_interface *
choose_interface(const struct config *config, const struct ifaddrs *list, enum fleet_plane plane,
		 const struct fleet_nic *own, bool has[ROSTER_FAMILIES])
{
	const struct config_interface *chosen = NULL;
	struct esc_address here;

	for (size_t i = 0; i < config->interface_count && !chosen; i++) {
		const struct config_interface *interface = &config->interfaces[i];

		memset(has, 0, ROSTER_FAMILIES * sizeof(*has));
		if (interface->plane != plane)
			continue;
		for (const struct ifaddrs *at = list; at; at = at->ifa_next)
			for (int family = 0; family < ROSTER_FAMILIES; family++)
				if (own->has[family] && !strcmp(at->ifa_name, interface->name) &&
				    address_of_socket(at->ifa_addr, &here) &&
				    !memcmp(&here, &own->address[family], sizeof(here))) {
					has[family] = true;
					chosen = interface;
				}
	}
	return chosen;
}

static bool is_taken(const struct mesh_plane *plane, unsigned int before, const char *interface)
{
	for (unsigned int i = 0; i < before; i++)
		if (!strcmp(plane->nics[i].interface, interface))
			return true;
	return false;
}

static void nic_choose(const struct mesh *mesh, struct mesh_plane *plane, unsigned int number,
		       const struct ifaddrs *list)
{
	const struct config *config = mesh->core->config;
	const struct fleet_nic *own = &plane->mesh->own[number];
	struct mesh_nic *nic = &plane->nics[number];
	const struct config_interface *interface =
		choose_interface(config, list, plane->plane, own, nic->has_address);
	char text[ADDRESS_TEXT_BYTES];
	const char *missing;
	int slot;

	address_format(&own->address[!own->has[ROSTER_IPV4]], text);
	if (!interface) {
		snprintf(nic->note, sizeof(nic->note),
			 "no interface of this plane has the address %s", text);
		return;
	}
	if (is_taken(plane, number, interface->name)) {
		snprintf(nic->note, sizeof(nic->note),
			 "%s has the address %s, and that of another rail", interface->name, text);
		return;
	}
	snprintf(nic->interface, sizeof(nic->interface), "%s", interface->name);
	nic->probe_port = interface->probe_port;
	nic->ifindex = if_nametoindex(interface->name);
	missing = dataplane_lacks(mesh->dataplane, nic->interface);
	slot = dataplane_slot_of(mesh->dataplane, nic->interface);
	nic->port = slot < 0 ? 0 : (unsigned int)slot;
	nic->on = !missing && slot >= 0;
	/* Timestamps are taken in XDP and tc egress. */
	if (!nic->on)
		snprintf(nic->note, sizeof(nic->note),
			 "%s has no %s of ours, by which probes are stamped", nic->interface,
			 missing ? missing : "programs");
}

static void nics_choose(const struct mesh *mesh, struct mesh_plane *plane)
{
	struct ifaddrs *list = NULL;

	memset(plane->nics, 0, sizeof(plane->nics));
	if (getifaddrs(&list))
		list = NULL;
	for (unsigned int i = 0; i < plane->mesh->own_count; i++) {
		nic_choose(mesh, plane, i, list);
		plane->on |= plane->nics[i].on;
	}
	if (list)
		freeifaddrs(list);
}

static void plane_choose(const struct mesh *mesh, struct mesh_plane *plane)
{
	const struct config *config = mesh->core->config;
	bool has_interface = false;

	plane->on = plane->configured = false;
	for (size_t i = 0; i < config->interface_count; i++)
		plane->configured |= config->interfaces[i].plane == plane->plane;
	nics_choose(mesh, plane);
	for (unsigned int i = 0; i < plane->mesh->own_count; i++)
		has_interface |= plane->nics[i].interface[0] != '\0';
	plane->note[0] = '\0';
	if (!plane->configured)
		snprintf(plane->note, sizeof(plane->note), "no interface is of this plane");
	else if (!fleet_members(mesh->core->fleet))
		snprintf(plane->note, sizeof(plane->note),
			 "there is no members file: name one with `members`");
	else if (plane->roster->self == ROSTER_NONE)
		snprintf(plane->note, sizeof(plane->note),
			 "host %.64s is not in %.120s: add it there, or set `host` to its name in "
			 "it",
			 config->host, config->members);
	else if (!has_interface)
		snprintf(plane->note, sizeof(plane->note),
			 "no interface of this plane has an address that %.120s gives %.64s",
			 config->members, config->host);
	else if (!plane->on)
		for (unsigned int i = 0; i < plane->mesh->own_count && !plane->note[0]; i++)
			if (plane->nics[i].interface[0])
				snprintf(plane->note, sizeof(plane->note), "%s",
					 plane->nics[i].note);
}

/* --- peers --- */

struct mesh_peer *mesh_find_peer(const struct mesh *mesh, enum fleet_plane plane, uint64_t id,
				 unsigned int port, uint32_t nic)
{
	struct mesh_peer *peer;

	for_each_peer (mesh, peer)
		if (peer->edge->id == id && peer->edge->plane == plane &&
		    peer->edge->port == port && peer->edge->nic == nic)
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

uint32_t mesh_nic_number(const struct esc_address *address)
{
	uint32_t word[4];

	memcpy(word, address->bytes, sizeof(word));
	return esc_nic_number(word[0], word[1], word[2], word[3]);
}

int mesh_route(const struct mesh_plane *plane, unsigned int own, const struct fleet_nic *to,
	       uint64_t id, struct probe_route *route)
{
	const struct mesh_nic *nic = &plane->nics[own];

	for (int family = 0; family < ROSTER_FAMILIES; family++) {
		if (!nic->has_address[family] || !to->has[family])
			continue;
		route->interface = nic->interface;
		route->from = plane->mesh->own[own].address[family];
		route->to = to->address[family];
		route->from_port = probe_source_port(plane->roster->ids[plane->roster->self], id);
		route->to_port = nic->probe_port;
		return 0;
	}
	return -EAFNOSUPPORT;
}

static void peer_open(struct mesh *mesh, const struct mesh_plane *plane, struct mesh_peer *peer,
		      const struct probe_route *route)
{
	struct clock_edge *edge = peer->edge;
	struct sender_edge_config config = {
		.route = *route,
		.self = plane->roster->ids[plane->roster->self],
		.target = edge->id,
		.epoch = clock_epoch(mesh->clock),
		.flags = plane->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0,
		.interval_ns = mesh->core->config->mesh.pair_interval_ns,
	};
	char text[ADDRESS_TEXT_BYTES];
	int err;

	if (peer->path.port)
		config.route.from_port = peer->path.port;
	config.first_sequence = mesh->sequence + 1;
	edge->pair_interval_ns = (int64_t)config.interval_ns;
	peer->facts.source_port = config.route.from_port;
	err = sender_add(mesh->sender, &config, &edge->sending);
	if (err && err != peer->open_error)
		log_warning("%s (%s) cannot be probed from %s: %s", edge->host,
			    address_format(&peer->facts.address, text), peer->facts.interface,
			    strerror(-err));
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
	bool refused = clock_edge_is_last_refused(mesh->clock, edge);
	const char *plane = config_plane_name(edge->plane);

	if (peer->facts.state == PEER_DOWN || edge->one_sided ||
	    (refused && !strcmp(edge->part, plane)))
		mesh_report_peer(mesh, peer, MESH_PEER_LEFT, NULL);
	if (refused && strcmp(edge->part, plane) != 0)
		events_add(mesh->core->events, &(struct event){.kind = &mesh_events[MESH_PEER_LEFT],
							       .subject = edge->host,
							       .part = plane});
}

/* With one rail the plane tells the edges to a host apart. */
static void name_part(const struct mesh_plane *plane, const struct probe_route *route, char *out,
		      size_t room)
{
	char text[ADDRESS_TEXT_BYTES];

	if (plane->mesh->rail_count < 2)
		snprintf(out, room, "%s", config_plane_name(plane->plane));
	else
		snprintf(out, room, "%s %s>%s", config_plane_name(plane->plane), route->interface,
			 address_format(&route->to, text));
}

static const char *rail_name(const struct mesh_plane *plane, unsigned int rail)
{
	return plane->mesh->rails[rail].name ? plane->mesh->rails[rail].name : "";
}

/* What the list says of it, which may have changed. */
static void peer_describe(const struct mesh_plane *plane, struct mesh_peer *peer,
			  const struct fleet_edge *edge)
{
	struct mesh_peer_facts *facts = &peer->facts;

	peer->kind = edge->kind;
	peer->rail = edge->nic.number;
	snprintf(facts->rail, sizeof(facts->rail), "%s",
		 rail_name(plane, plane->mesh->own[edge->own].number));
	snprintf(facts->peer_rail, sizeof(facts->peer_rail), "%s",
		 rail_name(plane, edge->nic.number));
}

static void peer_add(struct mesh *mesh, const struct mesh_plane *plane,
		     const struct fleet_edge *wanted, const struct probe_route *route)
{
	struct mesh_peer *peer = calloc(1, sizeof(*peer));
	char part[96];
	struct clock_edge_config config = {
		.plane = plane->plane,
		.id = wanted->id,
		.host = wanted->host,
		.part = part,
		.port = plane->nics[wanted->own].port,
		.interface = plane->nics[wanted->own].interface,
		.nic = mesh_nic_number(&route->to),
	};

	name_part(plane, route, part, sizeof(part));
	if (peer)
		peer->edge = clock_add_edge(mesh->clock, &config);
	if (!peer || !peer->edge) {
		mesh->edges_left_out++;
		free(peer);
		return;
	}
	peer_describe(plane, peer, wanted);
	peer->facts.address = route->to;
	snprintf(peer->facts.interface, sizeof(peer->facts.interface), "%s", route->interface);
	peer->since_ns = time_local_ns();
	mesh_set_state(peer, PEER_SUSPECT);
	mesh->peers[peer->edge->slot] = peer;
	peer_open(mesh, plane, peer, route);
}

/* The route of an edge of the mesh. False: it is not probed from here. */
static bool edge_route(const struct mesh_plane *plane, const struct fleet_edge *edge,
		       struct probe_route *route)
{
	return plane->on && plane->nics[edge->own].on &&
	       !mesh_route(plane, edge->own, &edge->nic, edge->id, route);
}

static struct mesh_peer *peer_of(const struct mesh *mesh, const struct mesh_plane *plane,
				 const struct fleet_edge *edge, const struct probe_route *route)
{
	return mesh_find_peer(mesh, plane->plane, edge->id, plane->nics[edge->own].port,
			      mesh_nic_number(&route->to));
}

/* Peers that stay are left as they are: their windows go on. */
static void plane_reconcile(struct mesh *mesh, const struct mesh_plane *plane, uint32_t reopen)
{
	const struct fleet_mesh *wanted = plane->mesh;
	bool stays[MESH_PEERS_MAX] = {};
	struct probe_route route;
	struct mesh_peer *peer;

	for (size_t i = 0; i < wanted->edge_count; i++) {
		peer = edge_route(plane, &wanted->edges[i], &route)
			       ? peer_of(mesh, plane, &wanted->edges[i], &route)
			       : NULL;
		if (!peer)
			continue;
		stays[peer->edge->slot] = true;
		peer_describe(plane, peer, &wanted->edges[i]);
		if (!peer->edge->sending || reopen >> peer->edge->port & 1) {
			peer_close(mesh, peer);
			peer_open(mesh, plane, peer, &route);
		}
	}
	for_each_peer (mesh, peer) {
		if (peer->edge->plane != plane->plane || stays[peer->edge->slot])
			continue;
		report_left(mesh, peer);
		peer_remove(mesh, peer);
	}
	for (size_t i = 0; i < wanted->edge_count; i++)
		if (edge_route(plane, &wanted->edges[i], &route) &&
		    !peer_of(mesh, plane, &wanted->edges[i], &route))
			peer_add(mesh, plane, &wanted->edges[i], &route);
}

/* --- the members --- */

/* A few by name, the rest as a number: a new rack is one event, not forty. */
#define NAMED_MAX 8

struct moved {
	json_t *names;
};

static void name_moved(void *context, const char *host)
{
	struct moved *moved = context;

	if (json_array_size(moved->names) < NAMED_MAX)
		json_array_append_new(moved->names, json_string(host));
}

static void report_moved(struct mesh *mesh, const struct mesh_plane *plane, unsigned int kind,
			 const struct roster *of, const struct roster *not_in)
{
	struct moved moved = {json_array()};
	size_t count = roster_missing(of, not_in, name_moved, &moved);

	if (!count) {
		json_decref(moved.names);
		return;
	}
	mesh_report(mesh, kind, config_plane_name(plane->plane),
		    json_pack("{s:I, s:o}", "hosts", (json_int_t)count, "names", moved.names));
}

/* A bit for each port whose interface is another one, or probes another port. */
static uint32_t moved_ports(const struct mesh_plane *before, const struct mesh_plane *now)
{
	uint32_t moved = 0;

	for (unsigned int i = 0; i < FLEET_RAILS_MAX; i++)
		for (unsigned int k = 0; now->nics[i].on && k < FLEET_RAILS_MAX; k++)
			if (before->nics[k].on && before->nics[k].port == now->nics[i].port &&
			    (before->nics[k].ifindex != now->nics[i].ifindex ||
			     before->nics[k].probe_port != now->nics[i].probe_port))
				moved |= 1u << now->nics[i].port;
	return moved;
}

struct fleet_plan *mesh_use_plan(struct mesh *mesh, struct fleet_plan *plan)
{
	struct fleet_plan *before = mesh->plan;

	mesh->plan = plan;
	return before;
}

void mesh_plane_use_plan(const struct mesh *mesh, struct mesh_plane *plane)
{
	static const struct roster no_roster = {.self = ROSTER_NONE};
	static const struct fleet_mesh no_mesh;

	plane->roster = mesh->plan ? &mesh->plan->rosters[plane->plane] : &no_roster;
	plane->mesh = mesh->plan ? &mesh->plan->meshes[plane->plane] : &no_mesh;
}

static bool nics_are_same(const struct mesh_plane *a, const struct mesh_plane *b)
{
	for (size_t i = 0; i < sizeof(a->nics) / sizeof(a->nics[0]); i++) {
		const struct mesh_nic *x = &a->nics[i], *y = &b->nics[i];

		if (x->on != y->on || strcmp(x->interface, y->interface) != 0 ||
		    x->ifindex != y->ifindex || x->port != y->port ||
		    x->probe_port != y->probe_port ||
		    memcmp(x->has_address, y->has_address, sizeof(x->has_address)) != 0 ||
		    strcmp(x->note, y->note) != 0)
			return false;
	}
	return true;
}

bool mesh_apply_plane(struct mesh *mesh, struct mesh_plane *plane, bool first)
{
	const struct members *members = fleet_members(mesh->core->fleet);
	struct mesh_plane before = *plane;
	unsigned int peers = mesh_count_peers(mesh, plane->plane);
	bool changed;

	if (mesh->stale)
		mesh_plane_use_plan(mesh, plane);
	plane_choose(mesh, plane);
	if (mesh->plan_error) {
		plane->on = false;
		snprintf(plane->note, sizeof(plane->note), "the mesh cannot be made: %s",
			 strerror(-mesh->plan_error));
	}
	if (!plane->on && plane->configured && members && strcmp(before.note, plane->note) != 0)
		log_warning("no probes on the %s plane: %s", config_plane_name(plane->plane),
			    plane->note);
	plane_reconcile(mesh, plane, moved_ports(&before, plane));
	changed = before.on != plane->on || !nics_are_same(&before, plane) ||
		  peers != mesh_count_peers(mesh, plane->plane);
	if (!mesh->stale)
		return changed;
	if (!first && plane->configured) {
		report_moved(mesh, plane, MESH_MEMBERS_JOINED, plane->roster, before.roster);
		report_moved(mesh, plane, MESH_MEMBERS_LEFT, before.roster, plane->roster);
	}
	return true;
}

void mesh_free_planes(struct mesh *mesh)
{
	struct mesh_peer *peer;

	for_each_peer (mesh, peer)
		peer_remove(mesh, peer);
	fleet_plan_drop(mesh_use_plan(mesh, NULL));
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

bool mesh_route_of(const struct mesh *mesh, const struct mesh_peer *peer, struct probe_route *route)
{
	const struct mesh_plane *plane = &mesh->planes[peer->edge->plane];

	for (size_t i = 0; i < plane->mesh->edge_count; i++)
		if (edge_route(plane, &plane->mesh->edges[i], route) &&
		    peer_of(mesh, plane, &plane->mesh->edges[i], route) == peer)
			return true;
	return false;
}

/* The numbers of its probes go on. */
static void change_port(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
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
	if (port == before || !mesh_route_of(mesh, peer, &route))
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
					       .part = peer->edge->part,
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

// SPDX-License-Identifier: BSD-2-Clause
/* Which NIC probes which: the edges of the mesh of a plane, the same on every host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/array.h"
#include "fleet.h"

/* Of a rail where a host has several: so many observe each NIC, for a vote. */
#define RAIL_DEGREE_LEAST 4
#define RING_DEGREE 2
/* Numbers of the graphs, in bits that those of rails do not use. */
#define RACK_RING 0x40000000ull
#define CROSS_RING 0x20000000ull
#define RAIL_MASK 0x1ffffffeull

/* --- rails and NICs --- */

static const struct member *target_of(const struct members *members, const struct member_host *host,
				      uint32_t i)
{
	return &members->list[members->by_host[host->first + i]];
}

static int rail_compare(const void *a, const void *b)
{
	const struct fleet_rail *one = a, *two = b;

	return strverscmp(one->name, two->name);
}

/* The number of a rail; rail_count: it is not there. */
static unsigned int rail_number(const struct fleet_mesh *mesh, const char *name)
{
	unsigned int i = 0;

	while (name && i < mesh->rail_count && strcmp(mesh->rails[i].name, name) != 0)
		i++;
	return i;
}

static void find_rails(struct fleet_mesh *mesh, const struct members *members,
		       enum fleet_plane plane)
{
	const char *last = NULL; /* mostly the label is that of the target before */

	for (size_t i = 0; i < members->count; i++) {
		const struct member *member = &members->list[i];

		if (!member->probed || !member->rail || !member_is_on(member, plane) ||
		    (last && !strcmp(last, member->rail)) ||
		    rail_number(mesh, member->rail) < mesh->rail_count)
			continue;
		if (mesh->rail_count == FLEET_RAILS_MAX) {
			mesh->rails_left_out++;
			continue;
		}
		last = mesh->rails[mesh->rail_count++].name = member->rail;
	}
	if (mesh->rail_count)
		qsort(mesh->rails, mesh->rail_count, sizeof(mesh->rails[0]), rail_compare);
	else
		mesh->rail_count = 1;
}

/* The NICs of a host, by rail: those that a label gives a rail go before one without. */
static unsigned int find_nics(const struct fleet_mesh *mesh, const struct members *members,
			      enum fleet_plane plane, const struct member_host *host,
			      struct fleet_nic out[FLEET_RAILS_MAX])
{
	const struct member *chosen[FLEET_RAILS_MAX][ROSTER_FAMILIES] = {};
	unsigned int count = 0;

	for (uint32_t i = 0; i < host->count; i++) {
		const struct member *member = target_of(members, host, i), **best;
		unsigned int rail;

		if (!member_is_on(member, plane))
			continue;
		rail = member->rail ? rail_number(mesh, member->rail) : 0;
		if (rail >= mesh->rail_count)
			continue;
		best = &chosen[rail][!address_is_ipv4(&member->address)];
		if (!*best || (!(*best)->rail && member->rail) ||
		    (!(*best)->rail == !member->rail && member_precedes(member, *best)))
			*best = member;
	}
	for (unsigned int rail = 0; rail < mesh->rail_count; rail++) {
		struct fleet_nic *nic = &out[count];

		if (!chosen[rail][ROSTER_IPV4] && !chosen[rail][ROSTER_IPV6])
			continue;
		*nic = (struct fleet_nic){.number = rail};
		for (int family = 0; family < ROSTER_FAMILIES; family++) {
			const struct member *member = chosen[rail][family];

			if (!member)
				continue;
			nic->rail = member->rail;
			nic->has[family] = true;
			nic->address[family] = member->address;
		}
		count++;
	}
	return count;
}

bool fleet_mesh_nic(const struct fleet_mesh *mesh, const struct members *members,
		    enum fleet_plane plane, const struct member_host *host, unsigned int rail,
		    struct fleet_nic *out)
{
	struct fleet_nic nics[FLEET_RAILS_MAX];
	unsigned int count = find_nics(mesh, members, plane, host, nics);

	for (unsigned int i = 0; i < count; i++)
		if (nics[i].number == rail) {
			*out = nics[i];
			return true;
		}
	return false;
}

/* --- building --- */

struct wiring {
	struct fleet_mesh *mesh;
	const struct members *members;
	enum fleet_plane plane;
	size_t self; /* index into members->hosts */
	uint64_t id;
	size_t room;
};

static uint64_t host_id(const struct members *members, size_t host)
{
	return graph_member_id(members_host_name(members, &members->hosts[host]));
}

static int fill_rails(struct wiring *wiring)
{
	struct fleet_mesh *mesh = wiring->mesh;
	const struct members *members = wiring->members;
	size_t room = members->host_count + 1;
	struct fleet_nic nics[FLEET_RAILS_MAX];

	for (unsigned int i = 0; i < mesh->rail_count; i++) {
		mesh->rails[i].ids = calloc(room, sizeof(uint64_t));
		mesh->rails[i].hosts = calloc(room, sizeof(uint32_t));
		if (!mesh->rails[i].ids || !mesh->rails[i].hosts)
			return -ENOMEM;
	}
	for (size_t host = 0; host < members->host_count; host++) {
		unsigned int count =
			find_nics(mesh, members, wiring->plane, &members->hosts[host], nics);
		uint64_t id = count ? host_id(members, host) : 0;

		for (unsigned int i = 0; i < count; i++) {
			struct fleet_rail *rail = &mesh->rails[nics[i].number];

			rail->ids[rail->count] = id;
			rail->hosts[rail->count++] = (uint32_t)host;
		}
		if (host != wiring->self)
			continue;
		memcpy(mesh->own, nics, sizeof(nics));
		mesh->own_count = count;
	}
	return 0;
}

/* Both ends have the NIC pair once. */
static int add_edge(struct wiring *wiring, enum fleet_edge_kind kind, unsigned int own, size_t host,
		    const struct fleet_nic *nic)
{
	struct fleet_mesh *mesh = wiring->mesh;
	uint64_t id = host_id(wiring->members, host);
	struct fleet_edge *edge;

	for (size_t i = 0; i < mesh->edge_count; i++)
		if (mesh->edges[i].id == id && mesh->edges[i].own == own &&
		    mesh->edges[i].nic.number == nic->number)
			return 0;
	edge = array_add(&mesh->edges, &mesh->edge_count, &wiring->room, sizeof(*edge));
	if (!edge)
		return -ENOMEM;
	*edge = (struct fleet_edge){
		.kind = kind,
		.own = own,
		.id = id,
		.host = members_host_name(wiring->members, &wiring->members->hosts[host]),
		.nic = *nic,
	};
	return 0;
}

size_t fleet_rail_neighbors(const struct fleet_rail *rail, uint64_t id, const uint32_t **out)
{
	size_t at = 0;

	while (at < rail->count && rail->ids[at] != id)
		at++;
	if (at == rail->count || at >= rail->graph.count)
		return 0;
	*out = rail->graph.peers + rail->graph.start[at];
	return rail->graph.start[at + 1] - rail->graph.start[at];
}

const struct member_host *fleet_mesh_host(const struct fleet_mesh *mesh,
					  const struct members *members, uint64_t id)
{
	for (unsigned int i = 0; i < mesh->rail_count; i++)
		for (size_t k = 0; k < mesh->rails[i].count; k++)
			if (mesh->rails[i].ids[k] == id)
				return &members->hosts[mesh->rails[i].hosts[k]];
	return NULL;
}

/* The graph of the first rail is that of a plane with one: of its number, and of no name. */
static uint64_t rail_graph(const struct wiring *wiring, unsigned int rail)
{
	uint64_t name = rail ? graph_member_id(wiring->mesh->rails[rail].name) & RAIL_MASK : 0;

	return name + wiring->plane;
}

static int wire_rail(struct wiring *wiring, unsigned int own)
{
	struct fleet_mesh *mesh = wiring->mesh;
	unsigned int number = mesh->own[own].number;
	struct fleet_rail *rail = &mesh->rails[number];
	const uint32_t *list = NULL;
	struct fleet_nic nic;
	int err = graph_build(&rail->graph, rail->ids, rail->count, mesh->degree,
			      rail_graph(wiring, number));
	size_t count = err ? 0 : fleet_rail_neighbors(rail, wiring->id, &list);

	for (size_t i = 0; i < count && !err; i++)
		if (fleet_mesh_nic(mesh, wiring->members, wiring->plane,
				   &wiring->members->hosts[rail->hosts[list[i]]], number, &nic))
			err = add_edge(wiring, FLEET_EDGE_RAIL, own, rail->hosts[list[i]], &nic);
	return err;
}

/* The same at both ends. */
static uint64_t pair_hash(uint64_t one, uint64_t other, uint64_t ring)
{
	uint64_t low = one < other ? one : other, high = one < other ? other : one;

	low ^= (high + ring) * 0x9e3779b97f4a7c15ull;
	low = (low ^ low >> 32) * 0xd6e8feb86659fd93ull;
	return low ^ low >> 32;
}

/* To a host of the rack: on a rail that both have. */
static int wire_rack_pair(struct wiring *wiring, size_t host, uint64_t hash)
{
	const struct fleet_mesh *mesh = wiring->mesh;
	struct fleet_nic nic;

	for (unsigned int i = 0; i < mesh->rail_count; i++) {
		unsigned int rail = (unsigned int)((hash + i) % mesh->rail_count);

		for (unsigned int own = 0; own < mesh->own_count; own++)
			if (mesh->own[own].number == rail &&
			    fleet_mesh_nic(mesh, wiring->members, wiring->plane,
					   &wiring->members->hosts[host], rail, &nic))
				return add_edge(wiring, FLEET_EDGE_RACK, own, host, &nic);
	}
	return 0;
}

/* To a host with several NICs, as this one has: between two rails. */
static int wire_cross_pair(struct wiring *wiring, size_t host, uint64_t hash)
{
	const struct fleet_mesh *mesh = wiring->mesh;
	struct fleet_nic nics[FLEET_RAILS_MAX];
	unsigned int count = find_nics(mesh, wiring->members, wiring->plane,
				       &wiring->members->hosts[host], nics);
	bool low = wiring->id < host_id(wiring->members, host);
	unsigned int own, other;

	if (mesh->own_count < 2 || count < 2)
		return 0;
	/* The host of the lower ID draws first. */
	own = (unsigned int)((low ? hash : hash >> 32) % mesh->own_count);
	other = (unsigned int)((low ? hash >> 32 : hash) % count);
	if (nics[other].number == mesh->own[own].number && low)
		other = (other + 1) % count;
	else if (nics[other].number == mesh->own[own].number)
		own = (own + 1) % mesh->own_count;
	return add_edge(wiring, FLEET_EDGE_CROSS, own, host, &nics[other]);
}

/* A ring of @count hosts, by the graph of that number. */
static int wire_ring(struct wiring *wiring, const uint32_t *hosts, const uint64_t *ids,
		     size_t count, uint64_t number,
		     int (*wire)(struct wiring *wiring, size_t host, uint64_t hash))
{
	struct graph graph;
	size_t self = 0;
	int err = graph_build(&graph, ids, count, RING_DEGREE, number);

	while (self < count && ids[self] != wiring->id)
		self++;
	for (uint32_t i = err || self == count ? 0 : graph.start[self];
	     !err && self < count && i < graph.start[self + 1]; i++)
		err = wire(wiring, hosts[graph.peers[i]],
			   pair_hash(wiring->id, ids[graph.peers[i]], number));
	graph_free(&graph);
	return err;
}

/* All hosts of the plane, or with @rack those of this host's rack. */
static int wire_hosts(struct wiring *wiring, bool rack)
{
	const struct members *members = wiring->members;
	const char *name = members_host_rack(members, &members->hosts[wiring->self]), *other;
	uint64_t *ids = calloc(members->host_count + 1, sizeof(*ids));
	uint32_t *hosts = calloc(members->host_count + 1, sizeof(*hosts));
	struct fleet_nic nics[FLEET_RAILS_MAX];
	size_t count = 0;
	int err = ids && hosts ? 0 : -ENOMEM;

	for (size_t i = 0; !err && (name || !rack) && i < members->host_count; i++) {
		other = rack ? members_host_rack(members, &members->hosts[i]) : NULL;
		if ((rack && (!other || strcmp(name, other) != 0)) ||
		    !find_nics(wiring->mesh, members, wiring->plane, &members->hosts[i], nics))
			continue;
		ids[count] = host_id(members, i);
		hosts[count++] = (uint32_t)i;
	}
	if (!err && count > 1)
		err = wire_ring(wiring, hosts, ids, count,
				(rack ? RACK_RING : CROSS_RING) + wiring->plane,
				rack ? wire_rack_pair : wire_cross_pair);
	free(ids);
	free(hosts);
	return err;
}

static size_t find_self(const struct members *members, const char *host)
{
	for (size_t i = 0; i < members->host_count; i++)
		if (!strcmp(members_host_name(members, &members->hosts[i]), host))
			return i;
	return SIZE_MAX;
}

/* Rails that one host alone has do not divide the degree. */
static unsigned int rail_degree(const struct fleet_mesh *mesh, unsigned int degree)
{
	unsigned int shared = 0, part;

	for (unsigned int i = 0; i < mesh->rail_count; i++)
		shared += mesh->rails[i].count > 1;
	if (shared < 2)
		return degree;
	part = (degree + shared - 1) / shared;
	part = part > RAIL_DEGREE_LEAST ? part : RAIL_DEGREE_LEAST;
	return part < degree ? part : degree;
}

int fleet_mesh_build(struct fleet_mesh *out, const struct members *members, enum fleet_plane plane,
		     const char *host, unsigned int degree)
{
	struct wiring wiring = {.mesh = out,
				.members = members,
				.plane = plane,
				.self = find_self(members, host),
				.id = graph_member_id(host)};
	int err;

	*out = (struct fleet_mesh){};
	if (wiring.self == SIZE_MAX)
		return 0;
	find_rails(out, members, plane);
	err = fill_rails(&wiring);
	out->degree = rail_degree(out, degree);
	for (unsigned int own = 0; !err && own < out->own_count; own++)
		err = wire_rail(&wiring, own);
	if (!err && out->own_count)
		err = wire_hosts(&wiring, true);
	/* With one rail there is none to cross. */
	if (!err && out->own_count > 1)
		err = wire_hosts(&wiring, false);
	if (err)
		fleet_mesh_free(out);
	return err;
}

void fleet_mesh_free(struct fleet_mesh *mesh)
{
	for (unsigned int i = 0; i < mesh->rail_count; i++) {
		graph_free(&mesh->rails[i].graph);
		free(mesh->rails[i].ids);
		free(mesh->rails[i].hosts);
	}
	free(mesh->edges);
	*mesh = (struct fleet_mesh){};
}

// SPDX-License-Identifier: BSD-2-Clause
/* The edges of the mesh: the same at both ends, within rails, racks and across rails. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/fleet.h"

#define TEXT_BYTES (1 << 20)

/* @hosts hosts with @rails back-end NICs each, 4 to a rack, and one front-end NIC. */
static struct members *fleet(unsigned int hosts, unsigned int rails)
{
	char *text = malloc(TEXT_BYTES), *error = NULL;
	struct members *members = NULL;
	size_t at = 0;

	at += (size_t)snprintf(text + at, TEXT_BYTES - at, "[");
	for (unsigned int host = 0; host < hosts; host++) {
		for (unsigned int rail = 0; rail < rails; rail++)
			at += (size_t)snprintf(text + at, TEXT_BYTES - at,
					       "{\"targets\": [\"10.%u.%u.%u\"], \"labels\": "
					       "{\"host\": \"h%u\", \"rail\": \"%u\", \"rack\": "
					       "\"r%u\", \"plane\": \"backend\"}},",
					       rail, host / 200, host % 200 + 1, host, rail + 1,
					       host / 4);
		at += (size_t)snprintf(text + at, TEXT_BYTES - at,
				       "{\"targets\": [\"10.100.%u.%u\"], \"labels\": {\"host\": "
				       "\"h%u\", \"plane\": \"frontend\"}}%s",
				       host / 200, host % 200 + 1, host,
				       host + 1 < hosts ? "," : "]");
	}
	members_parse("m.json", text, at, &members, &error);
	cr_assert_not_null(members, "%s", error);
	free(text);
	return members;
}

static const struct fleet_edge *find(const struct fleet_mesh *mesh, const char *host,
				     unsigned int rail, unsigned int own_rail)
{
	for (size_t i = 0; i < mesh->edge_count; i++)
		if (!strcmp(mesh->edges[i].host, host) && mesh->edges[i].nic.number == rail &&
		    mesh->own[mesh->edges[i].own].number == own_rail)
			return &mesh->edges[i];
	return NULL;
}

/* Each host of a fleet as it sees itself: *@kinds counts the edges, by kind. */
static void check_fleet(unsigned int hosts, unsigned int rails, unsigned int degree,
			size_t least_of_nic, size_t kinds[3])
{
	struct members *members = fleet(hosts, rails);
	struct fleet_mesh *meshes = calloc(hosts, sizeof(*meshes));
	char name[16], other[16];

	memset(kinds, 0, 3 * sizeof(*kinds));
	for (unsigned int i = 0; i < hosts; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		cr_assert_eq(
			fleet_mesh_build(&meshes[i], members, FLEET_PLANE_BACKEND, name, degree),
			0);
		cr_assert_eq(meshes[i].own_count, rails);
	}
	for (unsigned int i = 0; i < hosts; i++) {
		size_t of_nic[FLEET_RAILS_MAX] = {};

		snprintf(name, sizeof(name), "h%u", i);
		for (size_t k = 0; k < meshes[i].edge_count; k++) {
			const struct fleet_edge *edge = &meshes[i].edges[k], *back;
			unsigned int to = (unsigned int)atoi(edge->host + 1);
			unsigned int own = meshes[i].own[edge->own].number;

			snprintf(other, sizeof(other), "h%u", to);
			cr_assert_str_eq(other, edge->host);
			cr_assert_str_neq(other, name);
			back = find(&meshes[to], name, own, edge->nic.number);
			cr_assert_not_null(back,
					   "%s rail %u -> %s rail %u is not there from the "
					   "other end",
					   name, own, other, edge->nic.number);
			cr_assert_eq(back->kind, edge->kind);
			cr_assert_eq(edge->kind == FLEET_EDGE_CROSS, own != edge->nic.number);
			kinds[edge->kind]++;
			of_nic[edge->own]++;
		}
		for (unsigned int own = 0; own < rails; own++)
			cr_assert_geq(of_nic[own], least_of_nic, "%s rail %u has %zu", name, own,
				      of_nic[own]);
	}
	for (unsigned int i = 0; i < hosts; i++)
		fleet_mesh_free(&meshes[i]);
	free(meshes);
	members_free(members);
}

Test(edges, the_same_at_both_ends)
{
	size_t kinds[3];

	check_fleet(60, 1, 10, 10, kinds);
	cr_expect_eq(kinds[FLEET_EDGE_CROSS], 0, "one rail has none to cross");
	check_fleet(60, 4, 10, 4, kinds);
	cr_expect_geq(kinds[FLEET_EDGE_CROSS], 60, "%zu", kinds[FLEET_EDGE_CROSS]);
	cr_expect_gt(kinds[FLEET_EDGE_RACK], 0);
	cr_expect_lt(kinds[FLEET_EDGE_RAIL], 60 * 4 * 6, "part of the degree for each rail");
	check_fleet(40, 8, 10, 4, kinds);
	check_fleet(2, 2, 10, 1, kinds);
	check_fleet(4, 2, 10, 3, kinds);
}

/* What a release that knows one NIC for each plane computes is computed with one rail. */
Test(edges, with_one_rail_the_graph_is_that_of_the_hosts)
{
	struct members *members = fleet(40, 1);
	struct fleet_mesh mesh;
	struct roster roster;
	struct graph graph;

	cr_assert_eq(fleet_mesh_build(&mesh, members, FLEET_PLANE_BACKEND, "h7", 10), 0);
	cr_assert_eq(roster_build(&roster, members, FLEET_PLANE_BACKEND, "h7"), 0);
	cr_assert_eq(graph_build(&graph, roster.ids, roster.count, 10, FLEET_PLANE_BACKEND), 0);
	for (uint32_t i = graph.start[roster.self]; i < graph.start[roster.self + 1]; i++)
		cr_expect_not_null(find(&mesh, roster.list[graph.peers[i]].host, 0, 0), "%s",
				   roster.list[graph.peers[i]].host);
	graph_free(&graph);
	roster_free(&roster);
	fleet_mesh_free(&mesh);
	members_free(members);
}

Test(edges, planes_and_nics_without_a_label)
{
	struct members *members = fleet(6, 2);
	struct fleet_mesh mesh;

	cr_assert_eq(fleet_mesh_build(&mesh, members, FLEET_PLANE_FRONTEND, "h1", 10), 0);
	cr_expect_eq(mesh.own_count, 1);
	cr_expect_null(mesh.own[0].rail);
	cr_expect_eq(mesh.edge_count, 5, "%zu", mesh.edge_count);
	fleet_mesh_free(&mesh);
	cr_assert_eq(fleet_mesh_build(&mesh, members, FLEET_PLANE_BACKEND, "nowhere", 10), 0);
	cr_expect_eq(mesh.edge_count, 0);
	fleet_mesh_free(&mesh);
	members_free(members);
}

/* One host without labels among hosts with them: on the first rail. */
Test(edges, a_host_without_labels_is_on_the_first_rail)
{
	static const char text[] =
		"[{\"targets\": [\"10.0.0.1\"], \"labels\": {\"host\": \"a\", \"rail\": \"1\"}},"
		" {\"targets\": [\"10.1.0.1\"], \"labels\": {\"host\": \"a\", \"rail\": \"2\"}},"
		" {\"targets\": [\"10.0.0.9\", \"10.0.0.2\"], \"labels\": {\"host\": \"b\"}}]";
	struct members *members = NULL;
	struct fleet_mesh mesh;
	char *error = NULL;

	members_parse("m.json", text, strlen(text), &members, &error);
	cr_assert_not_null(members, "%s", error);
	cr_assert_eq(fleet_mesh_build(&mesh, members, FLEET_PLANE_BACKEND, "b", 10), 0);
	cr_assert_eq(mesh.own_count, 1, "of several addresses the least");
	cr_expect_eq(mesh.own[0].address[ROSTER_IPV4].bytes[15], 2);
	cr_assert_eq(mesh.edge_count, 1);
	cr_expect_str_eq(mesh.edges[0].nic.rail, "1");
	fleet_mesh_free(&mesh);
	members_free(members);
}

// SPDX-License-Identifier: BSD-2-Clause
/* Whose fault a silence is, from what was seen and what others said. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "mesh/internal.h"

#define S 1000000000ull
#define NOW (100 * S)

static struct config config = {.mesh = {.down_after_ns = S}};
static struct daemon daemon_of_all = {.config = &config};
static struct mesh mesh = {.daemon = &daemon_of_all};

/* @silent of @count peers are silent for a second; the first of them is returned. */
static struct mesh_edge *peers(unsigned int count, unsigned int silent)
{
	for (unsigned int i = 0; i < count; i++) {
		mesh.edges[i] = calloc(1, sizeof(*mesh.edges[i]));
		mesh.edges[i]->id = 100 + i;
		mesh.edges[i]->heard_ns = i < silent ? NOW - S : NOW - 1000;
	}
	return mesh.edges[0];
}

static void forget(void)
{
	for (size_t i = 0; i < MESH_EDGES_MAX; i++) {
		free(mesh.edges[i]);
		mesh.edges[i] = NULL;
	}
}

static void ask_of(struct mesh_edge *edge, unsigned int asked)
{
	edge->inquiry = (struct mesh_inquiry){.open = true, .begun_ns = NOW, .asked = asked};
	for (unsigned int i = 0; i < asked; i++)
		edge->inquiry.ids[i] = 200 + i;
}

static void answer(uint64_t from, uint32_t age_us, uint8_t flags)
{
	struct esc_probe_event event = {.peer = from,
					.about = 100,
					.about_age_us = age_us,
					.flags = ESC_PROBE_ASKS | flags,
					.kind = ESC_PROBE_EVENT_REPLY};

	mesh_inquiry_answer(&mesh, &event);
}

TestSuite(blame, .fini = forget);

Test(blame, nobody_said_anything)
{
	struct mesh_edge *edge = peers(4, 1);

	cr_expect_null(mesh_blame(&mesh, edge, NOW));
	ask_of(edge, 3);
	cr_expect_null(mesh_blame(&mesh, edge, NOW), "asked, and nobody answered");
}

Test(blame, the_others_hear_it)
{
	struct mesh_edge *edge = peers(4, 1);

	ask_of(edge, 3);
	answer(200, 2000, 0);
	answer(201, 900000, 0);
	answer(202, 1000, 0);
	cr_expect_str_eq(mesh_blame(&mesh, edge, NOW), "pair", "two of three");
}

Test(blame, nobody_hears_it)
{
	struct mesh_edge *edge = peers(4, 1);

	ask_of(edge, 3);
	answer(200, 900000, 0);
	answer(201, ESC_PROBE_NEVER, 0);
	cr_expect_str_eq(mesh_blame(&mesh, edge, NOW), "peer");
}

Test(blame, heard_on_the_other_plane)
{
	struct mesh_edge *edge = peers(4, 1);

	ask_of(edge, 3);
	edge->inquiry.asked_elsewhere = true;
	answer(200, 900000, 0);
	answer(201, 900000, ESC_PROBE_PLANE);
	cr_expect_str_eq(mesh_blame(&mesh, edge, NOW), "peer", "another's word of the other plane");
	answer(100, 0, ESC_PROBE_PLANE);
	cr_expect_str_eq(mesh_blame(&mesh, edge, NOW), "nic", "its own answer");
}

Test(blame, most_of_our_own_are_silent)
{
	struct mesh_edge *edge = peers(4, 3);

	ask_of(edge, 1);
	answer(200, 900000, 0);
	cr_expect_str_eq(mesh_blame(&mesh, edge, NOW), "own_nic");
}

Test(blame, two_hosts_cannot_tell)
{
	struct mesh_edge *edge = peers(1, 1);

	cr_expect_null(mesh_blame(&mesh, edge, NOW));
}

Test(blame, who_never_came_is_not_to_blame)
{
	struct mesh_edge *edge = peers(4, 4);

	for (int i = 0; i < 4; i++)
		mesh.edges[i]->heard_ns = 0;
	cr_expect_null(mesh_blame(&mesh, edge, NOW));
	mesh.edges[0]->heard_ns = NOW - S;
	cr_expect_null(mesh_blame(&mesh, edge, NOW), "of one that came nothing follows for us");
}

Test(blame, an_answer_counts_once_and_only_of_those_asked)
{
	struct mesh_edge *edge = peers(4, 1);

	ask_of(edge, 2);
	answer(200, 900000, 0);
	answer(201, 1000, 0);
	answer(201, 1000, 0);
	answer(209, 1000, 0);
	cr_expect_eq(edge->inquiry.answered, 2);
	cr_expect_eq(edge->inquiry.hearing, 1);
}

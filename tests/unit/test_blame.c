// SPDX-License-Identifier: BSD-2-Clause
/* What a silence is due to, by what was received here and what other hosts replied. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "core/core.h"
#include "mesh/internal.h"

#define S 1000000000ull
#define NOW (100 * S)

static struct config config = {.mesh = {.down_after_ns = S}};
static struct core core = {.config = &config};
static struct mesh mesh = {.core = &core};

/* @silent of @count peers are silent for a second; the first of them is returned. */
static struct mesh_peer *peers(unsigned int count, unsigned int silent)
{
	for (unsigned int i = 0; i < count; i++) {
		mesh.peers[i] = calloc(1, sizeof(*mesh.peers[i]));
		mesh.peers[i]->edge = calloc(1, sizeof(*mesh.peers[i]->edge));
		mesh.peers[i]->edge->id = 100 + i;
		mesh.peers[i]->edge->nic = 1;
		mesh.peers[i]->received_ns = i < silent ? NOW - S : NOW - 1000;
	}
	return mesh.peers[0];
}

static void forget(void)
{
	for (size_t i = 0; i < MESH_PEERS_MAX; i++) {
		if (mesh.peers[i])
			free(mesh.peers[i]->edge);
		free(mesh.peers[i]);
		mesh.peers[i] = NULL;
	}
}

static void query_of(struct mesh_peer *peer, unsigned int queried)
{
	peer->inquiry = (struct mesh_inquiry){.open = true, .begun_ns = NOW, .queried = queried};
	for (unsigned int i = 0; i < queried; i++) {
		peer->inquiry.ids[i] = 200 + i;
		peer->inquiry.nics[i] = 1;
	}
}

/* Each host has NIC 1 on the plane, and NIC 2 on the other one. */
static void reply(uint64_t from, uint32_t age_us, uint8_t flags)
{
	struct esc_probe_event event = {.peer = from,
					.about = 100,
					.about_age_us = age_us,
					.flags = ESC_PROBE_QUERY | flags,
					.nic = flags & ESC_PROBE_PLANE ? 2 : 1,
					.kind = ESC_PROBE_EVENT_REPLY};

	mesh_take_query_reply(&mesh, &event);
}

TestSuite(blame, .fini = forget);

Test(blame, nothing_is_known)
{
	struct mesh_peer *peer = peers(4, 1);

	cr_expect_null(mesh_blame(&mesh, peer, NOW));
	query_of(peer, 3);
	cr_expect_null(mesh_blame(&mesh, peer, NOW), "queried, and none replied");
}

Test(blame, others_receive_it)
{
	struct mesh_peer *peer = peers(4, 1);

	query_of(peer, 3);
	reply(200, 2000, 0);
	reply(201, 900000, 0);
	reply(202, 1000, 0);
	cr_expect_str_eq(mesh_blame(&mesh, peer, NOW), "pair", "two of three");
}

Test(blame, none_receives_it)
{
	struct mesh_peer *peer = peers(4, 1);

	query_of(peer, 3);
	reply(200, 900000, 0);
	reply(201, ESC_PROBE_NEVER, 0);
	cr_expect_str_eq(mesh_blame(&mesh, peer, NOW), "peer");
}

Test(blame, received_on_the_other_plane)
{
	struct mesh_peer *peer = peers(4, 1);

	query_of(peer, 3);
	peer->inquiry.queried_elsewhere = true;
	reply(200, 900000, 0);
	reply(201, 900000, ESC_PROBE_PLANE);
	cr_expect_str_eq(mesh_blame(&mesh, peer, NOW), "peer",
			 "another's report of the other plane");
	reply(100, 0, ESC_PROBE_PLANE);
	cr_expect_str_eq(mesh_blame(&mesh, peer, NOW), "nic", "its own reply");
}

Test(blame, most_of_our_own_are_silent)
{
	struct mesh_peer *peer = peers(4, 3);

	query_of(peer, 1);
	reply(200, 900000, 0);
	cr_expect_str_eq(mesh_blame(&mesh, peer, NOW), "own_nic");
}

Test(blame, two_hosts_do_not_decide_it)
{
	struct mesh_peer *peer = peers(1, 1);

	cr_expect_null(mesh_blame(&mesh, peer, NOW));
}

Test(blame, one_that_was_never_received_is_not_to_blame)
{
	struct mesh_peer *peer = peers(4, 4);

	for (int i = 0; i < 4; i++)
		mesh.peers[i]->received_ns = 0;
	cr_expect_null(mesh_blame(&mesh, peer, NOW));
	mesh.peers[0]->received_ns = NOW - S;
	cr_expect_null(mesh_blame(&mesh, peer, NOW),
		       "of one that was received nothing follows for this host");
}

Test(blame, a_reply_counts_once_and_only_of_those_queried)
{
	struct mesh_peer *peer = peers(4, 1);

	query_of(peer, 2);
	reply(200, 900000, 0);
	reply(201, 1000, 0);
	reply(201, 1000, 0);
	reply(209, 1000, 0);
	cr_expect_eq(peer->inquiry.replied, 2);
	cr_expect_eq(peer->inquiry.reachable, 1);
}

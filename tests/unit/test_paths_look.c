// SPDX-License-Identifier: BSD-2-Clause
/* What becomes of a path that died, while its peer speaks and when it does so no more. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
#include "core/events.h"
#include "paths/internal.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define OWN 0
#define OTHER 1

static struct daemon daemon_;
static struct paths paths;
static struct paths_pair *pair;
static uint64_t now_ns;

static void setup(void)
{
	memset(&daemon_, 0, sizeof(daemon_));
	memset(&paths, 0, sizeof(paths));
	cr_assert_eq(events_new(&daemon_.ledger, 64, NULL), 0);
	paths.daemon = &daemon_;
	paths.map = calloc(ESC_PATH_SLOTS_MAX, sizeof(*paths.map));
	pathlive_config_default(&paths.live);
	pair = calloc(1, sizeof(*pair));
	paths.by_slot[0] = pair;
	now_ns = time_local_ns();
	for (unsigned int i = 0; i < 2; i++) {
		pair->lanes[i].sport = paths.map[0].lanes[i].sport = (uint16_t)(50000 + i);
		pair->lanes[i].standby = (int)!i;
		pair->lanes[i].deadline_ns = 3 * MS;
	}
	pair->replied_ns = now_ns;
}

static void teardown(void)
{
	paths_pair_forget(pair);
	free(paths.map);
	events_free(daemon_.ledger);
}

TestSuite(paths_poll, .init = setup, .fini = teardown);

static enum pathlive_state look(uint64_t later_ns)
{
	now_ns += later_ns;
	paths_evaluate(&paths, pair, now_ns);
	return pair->lanes[OWN].damp.state;
}

/* The programs found it dead, and took the standby. */
static void die(void)
{
	paths.map[0].lanes[OWN].diverted_ns = now_ns;
	cr_assert_eq(look(10 * MS), PATHLIVE_DOWN);
}

static void fall_silent(void)
{
	pair->replied_ns = now_ns - 60 * SECOND;
	for (unsigned int i = 0; i < 2; i++)
		pair->lanes[i].deadline_ns = 0; /* as paths_update_uses() has it then */
}

Test(paths_poll, a_path_that_lives_is_used_again)
{
	die();
	cr_expect_eq(look(10 * MS), PATHLIVE_HELD);
	cr_expect_eq(look(4 * SECOND), PATHLIVE_HELD);
	cr_expect_eq(look(2 * SECOND), PATHLIVE_UP);
	cr_expect_eq(paths.map[0].lanes[OWN].diverted_ns, 0);
}

Test(paths_poll, what_a_silent_peer_does_not_say_is_no_life)
{
	die();
	fall_silent();
	for (int i = 0; i < 20; i++)
		cr_expect_eq(look(10 * SECOND), PATHLIVE_HELD);
	cr_expect_neq(paths.map[0].lanes[OWN].diverted_ns, 0, "packets stay on the standby");
	/* It speaks again: from then on the time counts. */
	pair->lanes[OWN].deadline_ns = 3 * MS;
	cr_expect_eq(look(10 * MS), PATHLIVE_HELD);
	cr_expect_eq(look(4 * SECOND), PATHLIVE_HELD);
	cr_expect_eq(look(2 * SECOND), PATHLIVE_UP);
}

Test(paths_poll, a_path_that_is_well_stays_so_when_the_peer_falls_silent)
{
	fall_silent();
	cr_expect_eq(look(10 * SECOND), PATHLIVE_UP);
}

Test(paths_poll, a_standby_is_let_go_only_when_the_peer_is_silent)
{
	die();
	cr_expect_not(paths_release(&paths, 0, OWN), "its words are better");
	cr_expect_neq(paths.map[0].lanes[OWN].diverted_ns, 0);
	fall_silent();
	cr_expect(paths_release(&paths, 0, OWN));
	cr_expect_eq(paths.map[0].lanes[OWN].diverted_ns, 0);
	cr_expect_neq(look(10 * MS), PATHLIVE_DOWN, "and that is no new death");
	cr_expect_not(paths_release(&paths, 0, 5), "no such lane");
	cr_expect_not(paths_release(&paths, ESC_PATH_SLOTS_MAX, OWN), "no such slot");
	cr_expect_not(paths_release(&paths, 7, OWN), "nobody's slot");
}

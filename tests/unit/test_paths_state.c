// SPDX-License-Identifier: BSD-2-Clause
/* State of a path after a failure, while its peer reports and when it no longer does. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "paths/internal.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define OWN 0
#define OTHER 1

static struct core core;
static struct paths paths;
static struct paths_pair *pair;
static uint64_t now_ns;

static void setup(void)
{
	memset(&core, 0, sizeof(core));
	memset(&paths, 0, sizeof(paths));
	cr_assert_eq(events_new(&core.events, 64, NULL), 0);
	paths.core = &core;
	paths.map = calloc(ESC_PATH_SLOTS_MAX, sizeof(*paths.map));
	pathlive_config_default(&paths.live);
	now_ns = time_local_ns();
	pair = paths_pair_new(&paths, 0, &(struct esc_path_key){}, 0, "h2", now_ns);
	cr_assert_not_null(pair);
	paths.by_slot[0] = pair;
	for (unsigned int i = 0; i < 2; i++) {
		struct path_facts *path = &pair->candidates[i].facts;

		path->sport = paths.map[0].paths[i].sport = (uint16_t)(50000 + i);
		path->backup = (int)!i;
		path->deadline_ns = 3 * MS;
	}
	pair->replied_ns = now_ns;
}

static void teardown(void)
{
	paths_pair_forget(pair);
	free(paths.map);
	events_free(core.events);
}

TestSuite(paths_poll, .init = setup, .fini = teardown);

static enum pathlive_state evaluate(uint64_t later_ns)
{
	now_ns += later_ns;
	paths_evaluate(&paths, pair, now_ns);
	return pair->candidates[OWN].damp.state;
}

/* The programs found it dead, and took the backup. */
static void die(void)
{
	paths.map[0].paths[OWN].diverted_ns = now_ns;
	cr_assert_eq(evaluate(10 * MS), PATHLIVE_DOWN);
}

static void fall_silent(void)
{
	pair->replied_ns = now_ns - 60 * SECOND;
	for (unsigned int i = 0; i < 2; i++)
		pair->candidates[i].facts.deadline_ns = 0; /* as paths_update_uses() has it then */
}

Test(paths_poll, a_path_that_is_up_is_used_again)
{
	die();
	cr_expect_eq(evaluate(10 * MS), PATHLIVE_HOLD_DOWN);
	cr_expect_eq(evaluate(4 * SECOND), PATHLIVE_HOLD_DOWN);
	cr_expect_eq(evaluate(2 * SECOND), PATHLIVE_UP);
	cr_expect_eq(paths.map[0].paths[OWN].diverted_ns, 0);
}

Test(paths_poll, a_silent_peer_reports_no_path_up)
{
	die();
	fall_silent();
	for (int i = 0; i < 20; i++)
		cr_expect_eq(evaluate(10 * SECOND), PATHLIVE_HOLD_DOWN);
	cr_expect_neq(paths.map[0].paths[OWN].diverted_ns, 0, "packets stay on the backup");
	/* It reports again: from then on the time counts. */
	pair->candidates[OWN].facts.deadline_ns = 3 * MS;
	cr_expect_eq(evaluate(10 * MS), PATHLIVE_HOLD_DOWN);
	cr_expect_eq(evaluate(4 * SECOND), PATHLIVE_HOLD_DOWN);
	cr_expect_eq(evaluate(2 * SECOND), PATHLIVE_UP);
}

Test(paths_poll, a_path_that_is_up_stays_so_when_the_peer_falls_silent)
{
	fall_silent();
	cr_expect_eq(evaluate(10 * SECOND), PATHLIVE_UP);
}

/* The daemon may have put it on the backup after it had the longer deadline of a rare probe. */
Test(paths_poll, a_failover_has_its_time_whatever_the_deadline_is_now)
{
	struct esc_path *own = &paths.map[0].paths[OWN];

	own->live = (struct pathlive_path){.unconfirmed = 9,
					   .since_ns = now_ns - 4 * MS,
					   .received_peer_ns = SECOND,
					   .report_peer_ns = SECOND + 4 * MS,
					   .report_ns = now_ns};
	pair->candidates[OWN].facts.deadline_ns = 150 * MS;
	die();
	cr_expect_eq(paths.facts.failovers, 1);
	cr_expect_float_eq(paths.facts.failover_sum_s, 4e-3, 1e-9);
}

/* Probes of the backup bring the reports on a path from which nothing comes back. */
Test(paths_poll, a_backup_is_probed_as_often_while_its_path_is_silent)
{
	struct esc_path *own = &paths.map[0].paths[OWN];

	pair->candidates[OWN].facts.qps = 1;
	own->live = (struct pathlive_path){.unconfirmed = 2, .since_ns = now_ns};
	evaluate(2 * MS);
	cr_expect_not(paths.uses_changed, "two may be on their way");
	own->live = (struct pathlive_path){.unconfirmed = 3, .since_ns = now_ns};
	evaluate(1 * MS);
	cr_expect_not(paths.uses_changed, "it is silent for less than half its deadline");
	evaluate(1 * MS);
	cr_expect(paths.uses_changed);
	pair->urgent = 1u << OTHER;
	paths.uses_changed = false;
	evaluate(10 * MS);
	cr_expect_not(paths.uses_changed, "known already");
	pair->urgent = 0;
	pair->candidates[OWN].facts.qps = 0;
	evaluate(10 * MS);
	cr_expect_not(paths.uses_changed, "nothing uses the path");
}

Test(paths_poll, a_backup_is_probed_as_often_while_packets_take_it)
{
	pair->candidates[OWN].facts.qps = 1;
	paths.map[0].paths[OTHER].live.received_peer_ns = 1;
	die();
	cr_expect(paths.uses_changed);
}

Test(paths_poll, a_backup_is_released_only_when_the_peer_is_silent)
{
	die();
	cr_expect_not(paths_release(&paths, 0, OWN), "its reports are better");
	cr_expect_neq(paths.map[0].paths[OWN].diverted_ns, 0);
	fall_silent();
	cr_expect(paths_release(&paths, 0, OWN));
	cr_expect_eq(paths.map[0].paths[OWN].diverted_ns, 0);
	cr_expect_neq(evaluate(10 * MS), PATHLIVE_DOWN, "and that is no new failure");
	cr_expect_not(paths_release(&paths, 0, 5), "no such candidate");
	cr_expect_not(paths_release(&paths, ESC_PATH_SLOTS_MAX, OWN), "no such slot");
	cr_expect_not(paths_release(&paths, 7, OWN), "a free slot");
}

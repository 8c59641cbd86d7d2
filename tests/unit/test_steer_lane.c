// SPDX-License-Identifier: BSD-2-Clause
/* Orders by lane where the map takes none: what is full stays full, and nothing is half done. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "steer/internal.h"

static struct esc_control control;
static struct steer steer;
static struct esc_qp_key key;

static void setup(void)
{
	memset(&control, 0, sizeof(control));
	steer = (struct steer){.control = &control, .steers_fd = -1, .qps_fd = -1};
	key = (struct esc_qp_key){.dest_qpn = 17, .direction = ESC_DIRECTION_TX};
}

static struct steered *entry_of(void)
{
	struct steered *entry = steer_add(&steer, &key);

	entry->by_itself = true;
	entry->state = STEERED_COVERED;
	entry->reason = STEER_BY_COVER;
	entry->done = true;
	entry->home = 3;
	entry->has_back = true;
	entry->back.dest_qpn = 99;
	entry->want = (struct esc_steer){.order = 7, .flags = ESC_STEER_LANE, .lane = 3, .slot = 2};
	return entry;
}

Test(steer_lane, an_order_that_is_refused_changes_nothing, .init = setup)
{
	const struct steer_lane_order order = {
		.slot = 2, .lane = 5, .sport = 51000, .reason = STEER_BY_CONTENTION, .hold_ns = 9};
	struct steered *entry = entry_of(), was = *entry;

	cr_expect_lt(steer_order_lane(&steer, entry, &order, 1000), 0);
	cr_expect(!memcmp(entry, &was, sizeof(was)));
	cr_expect_eq(control.steer_generation, 0, "no program is asked to look");
	cr_expect_lt(steer_go_home(&steer, entry, 1000), 0);
	cr_expect(!memcmp(entry, &was, sizeof(was)));
	free(steer.list);
}

Test(steer_lane, no_room_for_an_order, .init = setup)
{
	struct steered *full = calloc(ESC_STEERS_MAX, sizeof(*full));
	struct esc_qp qp = {.sport = 50000, .first_local_ns = 1};

	steer.list = full;
	steer.count = steer.room = ESC_STEERS_MAX;
	cr_expect_null(steer_cover(&steer, &key, &qp, 0, 0, 1000));
	cr_expect_eq(steer.count, ESC_STEERS_MAX);
	free(full);
}

Test(steer_lane, who_stays_is_dropped_and_not_told, .init = setup)
{
	entry_of();
	key.dest_qpn = 18;
	entry_of()->by_itself = false; /* by hand */
	steer_uncover_all(&steer);
	cr_assert_eq(steer.count, 1);
	cr_expect_eq(steer.list[0].key.dest_qpn, 18, "what was set by hand stays");
	cr_expect_neq(control.steer_generation, 0, "the programs are told");
	free(steer.list);
}

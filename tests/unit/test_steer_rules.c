// SPDX-License-Identifier: BSD-2-Clause
/* Automatic rules where the map takes none: it stays full, and nothing is half done. */
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

static void teardown(void)
{
	free(steer.rules);
	free(steer.autos);
}

TestSuite(steer_rules, .init = setup, .fini = teardown);

static struct auto_rule *tracked(void)
{
	struct auto_rule *one = steer_auto_add(&steer, &key);

	one->rule.state = RULE_TRACKING;
	one->reason = STEER_BY_TRACKING;
	one->rule.in_effect = true;
	one->home = 3;
	one->rule.has_back = true;
	one->rule.back.dest_qpn = 99;
	one->rule.want =
		(struct esc_steer){.number = 7, .flags = ESC_STEER_PATH, .path = 3, .slot = 2};
	return one;
}

Test(steer_rules, a_rule_that_is_refused_changes_nothing)
{
	const struct esc_steer want = {.slot = 2, .path = 5, .sport = 51000, .flowlet_gap_ns = 9};
	struct auto_rule *one = tracked(), was = *one;

	cr_expect_lt(steer_auto_publish(&steer, one, want, STEER_BY_CONTENTION, 1000), 0);
	cr_expect(!memcmp(one, &was, sizeof(was)));
	cr_expect_eq(control.steer_generation, 0, "the programs are not notified");
}

Test(steer_rules, no_room_for_a_rule)
{
	struct esc_qp qp = {.sport = 50000, .first_local_ns = 1};

	steer.autos = calloc(ESC_STEERS_MAX, sizeof(*steer.autos));
	steer.auto_count = steer.auto_room = ESC_STEERS_MAX - 1;
	cr_assert_not_null(steer_rule_add(&steer, &key));
	key.dest_qpn = 18;
	cr_expect_null(steer_track(&steer, &key, &qp, 0, 0, 1000), "both lists share the map");
	cr_expect_eq(steer.auto_count, ESC_STEERS_MAX - 1);
}

Test(steer_rules, what_is_only_tracked_ends_at_once)
{
	tracked();
	key.dest_qpn = 18;
	cr_assert_not_null(steer_rule_add(&steer, &key));
	steer_untrack(&steer, &steer.autos[0]);
	cr_expect_eq(steer.auto_count, 0);
	cr_assert_eq(steer.rule_count, 1, "a rule of the operator stays");
	cr_expect_eq(steer.rules[0].key.dest_qpn, 18);
	cr_expect_neq(control.steer_generation, 0, "the programs are notified");
}

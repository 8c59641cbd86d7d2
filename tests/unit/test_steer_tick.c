// SPDX-License-Identifier: BSD-2-Clause
/* The tick of steering: observe, decide, act, verify. */
#include "steer_world.h"

TestSuite(steer_tick, .fini = close_world);

static struct flow *the_one_on(bool free_path)
{
	return &world.flows[is_on_free(&world.flows[0]) == free_path ? 0 : 1];
}

/* --- observe and decide --- */

Test(steer_tick, each_queue_pair_is_tracked_on_its_own_path)
{
	open_steer("auto");
	world.paths[FREE].usable = false;
	run(SECOND);
	cr_assert_eq(world.steer_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct esc_steer *rule = rule_of(&world.flows[i].key);

		cr_expect_eq(rule->sport, 0, "its own port");
		cr_expect_eq(rule->flags & ESC_STEER_PATH, ESC_STEER_PATH);
		cr_expect_eq(rule->path, SHARED);
		cr_expect_eq(rule->slot, SLOT);
		cr_expect_eq(steer->autos[i].rule.state, RULE_TRACKING);
	}
	world.flows[1].gone = true;
	run(SECOND);
	cr_expect_eq(world.steer_count, 1, "its rule ends with it");
	cr_expect_eq(events_of("steering_ended"), 0, "it was never moved");
}

Test(steer_tick, one_leaves_a_contended_path)
{
	const struct flow *moved;
	const struct esc_steer *rule;

	open_steer("auto");
	run(2 * SECOND);
	cr_assert_eq(on_free(), 1, "one moved, and one move was enough");
	moved = the_one_on(true);
	rule = rule_of(&moved->key);
	cr_expect_eq(rule->path, FREE);
	cr_expect_eq(rule->sport, 50001);
	cr_expect_geq(rule->flowlet_gap_ns, (uint64_t)(QUEUE_NS - FLOOR_NS),
		      "no packet is overtaken");
	cr_expect_eq(rule->start_local_ns, UINT64_MAX, "steer.overtake is `never`");
	cr_expect_eq(rule->force_local_ns, UINT64_MAX);
	cr_expect_eq(rule_of(&the_one_on(false)->key)->path, SHARED);
	cr_expect_eq(events_of("path_switched"), 1);
	cr_expect_eq(steer->switches[STEER_BY_CONTENTION], 1);
	run(10 * SECOND);
	cr_expect_eq(on_free(), 1, "it stays there");
	cr_expect_eq(steer->switches[STEER_BY_CONTENTION], 1);
	cr_expect_eq(events_of("path_rolled_back"), 0);
}

Test(steer_tick, a_path_in_hold_down_takes_no_queue_pair)
{
	open_steer("auto");
	world.paths[FREE].usable = false; /* it returned a moment ago */
	run(3 * SECOND);
	cr_expect_eq(on_free(), 0);
	cr_expect_eq(steer->acts[CONTEND_MOVE], 0);
	world.paths[FREE].usable = true;
	run(2 * SECOND);
	cr_expect_eq(on_free(), 1);
}

/* --- act --- */

static bool a_rule_waits(void)
{
	for (size_t i = 0; i < steer->auto_count; i++)
		if (steer->autos[i].rule.state == RULE_WAITING)
			return true;
	return false;
}

Test(steer_tick, a_transport_that_waits_for_its_timer_is_reported)
{
	json_t *all, *one;
	unsigned int found = 0;
	size_t i;

	open_steer("auto");
	world.paths[FREE].usable = false;
	run(SECOND);
	world.obeys = false;
	world.paths[FREE].usable = true;
	run(SECOND / 2);
	cr_assert_geq(events_of("move_scheduled"), 1);
	for (i = 0; i < 2; i++) {
		struct flow *flow = &world.flows[i];

		flow->qp.requests.flags = flow->back.responses.flags = ESC_PSN_VALID;
		flow->qp.requests.next = 5;
		flow->back.responses.next = ESC_PSN_MASK - 4;
	}
	world.stopped = true;
	run(SECOND / 4);
	/* A move whose path is left alone is withdrawn; when, is drawn at random. */
	for (unsigned int tries = 0; tries < 50 && !a_rule_waits(); tries++) {
		world.stopped = false;
		run(SECOND / 2);
		world.stopped = true;
		run(SECOND / 4);
	}
	cr_assert(a_rule_waits());
	cr_expect_eq(events_of("switch_waits"), 0, "not before a second is over");
	run(3 * SECOND);
	all = events_since(core.events, 0);
	json_array_foreach (all, i, one) {
		const json_t *seen = json_object_get(one, "seen");

		if (strcmp(json_text(one, "kind"), "switch_waits"))
			continue;
		found++;
		cr_expect_eq(json_integer_value(json_object_get(seen, "unacked_psns")), 10);
		if (!strstr(json_text(one, "subject"), "/17"))
			continue;
		cr_expect_eq(json_integer_value(json_object_get(seen, "ack_timeout_us")), 67108);
		cr_expect_eq(json_integer_value(json_object_get(seen, "retry_count")), 7);
	}
	cr_expect(found >= 1 && found <= 2, "%u", found);
	json_decref(all);
}

/* Its path dies while it waits for acknowledgements: the kernel programs divert its next packet. */
Test(steer_tick, one_that_does_not_take_its_backup_is_reported)
{
	json_t *all, *one;
	size_t i;

	open_steer("auto");
	world.paths[FREE].usable = false; /* nothing moves there */
	for (i = 0; i < 2; i++) {
		struct flow *flow = &world.flows[i];

		flow->qp.requests.flags = flow->back.responses.flags = ESC_PSN_VALID;
		flow->qp.requests.next = flow->back.responses.next = 5;
	}
	run(SECOND);
	world.paths[SHARED].state = PATHLIVE_DOWN;
	world.paths[SHARED].backup = FREE;
	world.paths[SHARED].usable = false;
	world.stopped = true;
	run(SECOND);
	cr_expect_eq(events_of("switch_waits"), 0, "all is acknowledged: it has nothing to send");
	world.stopped = false;
	run(SECOND / 2);
	world.stopped = true;
	world.flows[0].qp.requests.next = 15;
	run(4 * SECOND / 10);
	cr_expect_eq(events_of("switch_waits"), 0, "not at once");
	run(6 * SECOND / 10);
	cr_assert_eq(events_of("switch_waits"), 1, "within a second, once");
	all = events_since(core.events, 0);
	json_array_foreach (all, i, one) {
		const json_t *seen = json_object_get(one, "seen");
		const json_t *to = json_object_get(json_object_get(one, "expected"), "to");

		if (strcmp(json_text(one, "kind"), "switch_waits"))
			continue;
		cr_expect_eq(json_integer_value(json_object_get(seen, "unacked_psns")), 10);
		cr_expect_eq(json_integer_value(json_object_get(seen, "ack_timeout_us")), 67108);
		cr_expect_eq(json_integer_value(json_object_get(to, "sport")), 50001);
	}
	json_decref(all);
	run(5 * SECOND);
	cr_expect_eq(events_of("switch_waits"), 1);
	world.flows[0].qp.steer.flags |= ESC_QP_STEER_DIVERTED;
	world.stopped = false;
	run(SECOND / 2);
	world.stopped = true;
	run(2 * SECOND);
	cr_expect_eq(events_of("switch_waits"), 1, "it has taken it");
}

Test(steer_tick, a_rule_that_never_takes_effect_is_withdrawn)
{
	const struct esc_steer *rule;

	open_steer("auto");
	world.paths[FREE].usable = false;
	run(SECOND);
	world.paths[FREE].usable = true;
	world.obeys = false; /* no gap occurs that is long enough */
	for (int i = 0; i < 200 && !steer->acts[CONTEND_MOVE]; i++)
		run(TICK_NS);
	cr_assert_eq(steer->acts[CONTEND_MOVE], 1);
	rule = rule_of(&world.flows[0].key)->sport ? rule_of(&world.flows[0].key)
						   : rule_of(&world.flows[1].key);
	cr_assert_eq(rule->path, FREE);
	world.paths[FREE].usable = false; /* from here on the policy decides nothing new */
	for (int i = 0; i < 1000 && !steer->acts[CONTEND_UNDONE]; i++)
		run(TICK_NS);
	cr_assert_eq(steer->acts[CONTEND_UNDONE], 1);
	cr_expect_eq(rule->path, SHARED, "it would stay where it is");
	cr_expect_eq(rule->sport, 0);
	cr_expect_eq(events_of("path_switched"), 0);
}

/* --- verify --- */

Test(steer_tick, an_automatic_move_that_is_worse_is_rolled_back)
{
	const struct penalty *penalty;
	struct flow *moved;
	uint64_t moved_ns;

	open_steer("auto");
	world.silent = true;
	for (int i = 0; i < 300 && !on_free(); i++)
		run(TICK_NS);
	cr_assert_eq(on_free(), 1);
	moved = the_one_on(true);
	moved_ns = world.now_ns;
	for (int i = 0; i < 300 && on_free(); i++)
		run(TICK_NS);
	cr_assert_eq(on_free(), 0, "back on its own path");
	cr_expect_lt(world.now_ns - moved_ns, VERIFY_DIED_NS + 3 * STEER_VERIFY_NS);
	cr_expect_eq(events_of("path_rolled_back"), 1);
	cr_expect_eq(steer->switches[STEER_BY_ROLLBACK], 1);
	cr_expect_eq(rule_of(&moved->key)->sport, 0);
	cr_expect_eq(rule_of(&moved->key)->path, SHARED, "still tracked");
	penalty = steer_penalty(steer, &moved->key, world.now_ns);
	cr_assert_not_null(penalty);
	cr_expect_eq(penalty->why, VERIFY_SILENT);
	cr_expect_eq(penalty->length_ns, 10 * SECOND);
}

Test(steer_tick, a_queue_pair_with_a_penalty_is_not_moved)
{
	open_steer("auto");
	world.silent = true;
	world.standing = true; /* the contention goes on */
	run(8 * SECOND);
	cr_expect_eq(steer->switches[STEER_BY_ROLLBACK], 2, "each was tried once");
	cr_expect_eq(steer->penalty_count, 2);
	for (size_t i = 0; i < steer->penalty_count; i++)
		cr_expect_eq(steer->penalties[i].length_ns, 10 * SECOND);
	cr_expect_eq(on_free(), 0);
}

Test(steer_tick, a_rule_of_the_operator_that_is_worse_is_rolled_back)
{
	open_steer("manual");
	run(SECOND);
	cr_expect_eq(world.steer_count, 0, "nothing is automatic");
	world.silent = true;
	set();
	run(3 * SECOND);
	cr_expect_eq(world.steer_count, 0);
	cr_expect_eq(steer->rule_count, 0);
	cr_expect_eq(events_of("path_switched"), 1);
	cr_expect_eq(events_of("path_rolled_back"), 1);
	expect_refusal("steer set", SET_FLOW_0, 1, "rolled back");
}

Test(steer_tick, a_rule_that_is_as_good_is_verified)
{
	open_steer("manual");
	run(SECOND);
	set();
	run(VERIFY_PROVED_NS + SECOND);
	cr_assert_eq(steer->rule_count, 1);
	cr_expect_eq(steer->rules[0].state, RULE_VERIFIED);
	cr_expect_eq(events_of("path_verified"), 1);
	cr_expect_eq(events_of("path_rolled_back"), 0);
	cr_expect_eq(rule_of(&world.flows[0].key)->sport, 50001);
	/* The queue pair's number is used again: that is another one. */
	world.flows[0].qp.first_local_ns = 2;
	run(SECOND);
	cr_expect_eq(world.steer_count, 0);
	cr_expect_eq(events_of("steering_ended"), 1);
}

Test(steer_tick, each_penalty_is_twice_as_long)
{
	static const uint64_t want_s[] = {10, 20, 40};
	struct esc_qp_key *key = &world.flows[0].key;

	open_steer("manual");
	run(SECOND);
	world.silent = true;
	for (size_t i = 0; i < 3; i++) {
		struct penalty *penalty;

		set();
		run(3 * SECOND);
		penalty = (struct penalty *)steer_penalty(steer, key, world.now_ns);
		cr_assert_not_null(penalty, "%zu", i);
		cr_expect_eq(penalty->length_ns, want_s[i] * SECOND, "%zu", i);
		cr_expect_leq(penalty->until_local_ns, world.now_ns + want_s[i] * SECOND);
		run(want_s[i] * SECOND);
		cr_expect_null(steer_penalty(steer, key, world.now_ns), "it has ended");
		/* `steer set` compares with the clock of this machine. */
		penalty->until_local_ns = time_local_ns();
	}
}

Test(steer_tick, a_backup_over_which_nothing_returns_is_released)
{
	open_steer("auto");
	world.paths[FREE].usable = false;
	run(SECOND);
	for (size_t i = 0; i < 2; i++) {
		world.flows[i].qp.steer.flags = ESC_QP_STEER_DIVERTED;
		world.flows[i].qp.steer.sport = 50001;
	}
	run(2 * SECOND);
	cr_expect_eq(world.released, 0, "what is sent is acknowledged");
	world.silent = true;
	run(3 * SECOND);
	cr_expect_geq(world.released, 1);
	cr_expect_eq(events_of("path_rolled_back"), 0);
}

/* --- the kill switch --- */

static void expect_nothing_steered(void)
{
	cr_expect_eq(world.steer_count, 0, "no rule is left in the map");
	cr_expect_eq(steer->rule_count + steer->auto_count, 0);
	cr_expect_eq(world.control.steer_ports, 0);
	cr_expect_not(world.control.flags & ESC_CONTROL_STEER);
	cr_expect_not(steer->automatic);
}

Test(steer_tick, the_kill_switch_ends_all_rules)
{
	char *error = NULL;

	open_steer("auto");
	run(2 * SECOND);
	cr_assert_eq(on_free(), 1);
	world.off = true;
	cr_assert_eq(steer_capability.off(steer, "command", &error), 0);
	expect_nothing_steered();
	cr_expect_eq(events_of("steering_ended"), 1, "of the one that had been moved");
	cr_expect_eq(events_of("mode_changed"), 1);
	run(SECOND);
	cr_expect_eq(on_free(), 0);
	expect_nothing_steered();
	expect_refusal("steer set", SET_FLOW_0, 1, "kill switch");
	expect_refusal("steer auto", "{\"state\":\"on\"}", 1, "kill switch");
}

/* Another program writes the map, as its kill switch does. */
Test(steer_tick, the_flag_in_the_map_is_obeyed)
{
	open_steer("auto");
	run(2 * SECOND);
	cr_assert_eq(on_free(), 1);
	world.control.flags |= ESC_CONTROL_OFF;
	run(STEER_VERIFY_NS + TICK_NS);
	expect_nothing_steered();
	cr_expect_eq(events_of("steering_ended"), 1);
	run(SECOND);
	expect_nothing_steered();
}

// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of steering: their arguments, and what becomes of the rules. */
#include "steer_world.h"

TestSuite(steer_reply, .fini = close_world);

Test(steer_reply, what_set_and_clear_publish)
{
	struct flow *flow = &world.flows[0];
	const struct esc_steer *rule;
	json_t *object;

	open_steer("manual");
	world.obeys = false;
	flow->qp.ip_version = 6;
	json_decref(result("steer set", "{" FLOW_0 ",\"sport\":50001}"));
	rule = rule_of(&flow->key);
	cr_assert_not_null(rule);
	cr_expect_eq(rule->sport, 50001);
	cr_expect_eq(rule->flags, 0);
	cr_expect_eq(rule->flowlet_gap_ns, MS);
	cr_expect_eq(rule->force_local_ns - rule->start_local_ns, 500 * MS);
	cr_expect_leq(rule->start_local_ns, steer->rules[0].published_local_ns + 500 * MS);
	cr_expect_gt(rule->start_local_ns, steer->rules[0].published_local_ns);
	json_decref(result("steer set", "{" FLOW_0 ",\"flow_label\":0,\"flowlet_gap_ns\":7,"
					"\"deadline_ns\":8,\"src\":\"::1\"}"));
	cr_expect_eq(rule->sport, 0);
	cr_expect_eq(rule->flags, ESC_STEER_LABEL);
	cr_expect_eq(rule->flowlet_gap_ns, 7);
	cr_expect_eq(rule->force_local_ns - rule->start_local_ns, 8);
	json_decref(result("steer set", "{" FLOW_0 ",\"flow_label\":5,\"force\":true}"));
	cr_expect_eq(rule->flow_label, 5);
	cr_expect_eq(rule->start_local_ns, 0);
	cr_expect_eq(rule->force_local_ns, 0);
	cr_expect_eq(steer->rule_count, 1, "one rule, changed");
	object = result("steer clear", "{" FLOW_0 "}");
	cr_expect_eq(json_array_size(json_object_get(object, "clearing")), 1);
	json_decref(object);
	cr_expect_eq(rule->flags, 0);
	cr_expect_eq(rule->force_local_ns - rule->start_local_ns, 500 * MS);
	cr_expect_eq(steer->rules[0].state, RULE_CLEARING);
	json_decref(result("steer set", "{" FLOW_0 ",\"sport\":50001}"));
	object = result("steer clear", "{\"all\":true,\"force\":true}");
	cr_expect_eq(json_array_size(json_object_get(object, "clearing")), 1);
	json_decref(object);
	cr_expect_eq(rule->sport, 0);
	cr_expect_eq(rule->start_local_ns, 0);
	world.obeys = true;
	run(SECOND);
	cr_expect_eq(steer->rule_count, 0);
	expect_refusal("steer clear", "{" FLOW_0 "}", 1, "is steered");
	expect_refusal("steer set", "{\"dst\":\"::9\",\"qpn\":17,\"sport\":50001}", 1,
		       "no queue pair here sends to ::9");
	flow->qp.ip_version = 4;
	expect_refusal("steer set", "{" FLOW_0 ",\"flow_label\":5}", 1, "no flow label");
}

Test(steer_reply, automatic_steering_is_switched)
{
	json_t *plan;

	open_steer("manual");
	json_decref(result("steer auto", "{\"state\":\"on\"}"));
	cr_expect(steer->automatic);
	run(SECOND);
	cr_expect_eq(steer->auto_count, 2);
	json_decref(result("steer auto", "{\"state\":\"off\"}"));
	cr_expect_not(steer->automatic);
	plan = result("steer plan", "{}");
	cr_expect_eq(json_array_size(json_object_get(plan, "pairs")), 1);
	json_decref(plan);
}

Test(steer_reply, what_is_not_understood)
{
	open_steer("manual");
	expect_refusal("steer auto", "{}", 2, "one of on, off");
	expect_refusal("steer auto", "{\"state\":\"maybe\"}", 2, "one of on, off");
	expect_refusal("steer auto", "{\"state\":1}", 2, "one of on, off");
	expect_refusal("steer set", "{\"sport\":50000}", 2, "--dst");
	expect_refusal("steer set", "{\"qpn\":1,\"sport\":50000}", 2, "--dst");
	expect_refusal("steer set", "{" FLOW_0 "}", 2, "--sport");
	expect_refusal("steer set", "{" FLOW_0 ",\"sport\":65536}", 2, "65535");
	expect_refusal("steer set", "{" FLOW_0 ",\"sport\":-1}", 2, "sport");
	expect_refusal("steer set", "{" FLOW_0 ",\"flow_label\":1048576}", 2, "flow_label");
	expect_refusal("steer set", "{" FLOW_0 ",\"force\":1}", 2, "force");
	expect_refusal("steer clear", "{\"all\":1}", 2, "all");
	expect_refusal("steer clear", "{}", 2, "--dst");
}

Test(steer_reply, the_list)
{
	struct esc_qp_key key = {.dest_qpn = 17, .direction = ESC_DIRECTION_TX, .port = 2};
	struct qp_entry entry = {.key = key, .qp.steer.sport = 51000};
	json_t *object, *one, *qp = json_object();
	struct rule *rule;

	open_steer("manual");
	rule = steer_rule_add(steer, &key);
	rule->own_sport = 50000;
	rule->now.sport = rule->want.sport = 51000;
	key.dest_qpn = 18;
	steer_auto_add(steer, &key)->rule.state = RULE_TRACKING;
	steer->penalties = calloc(2, sizeof(*steer->penalties));
	steer->penalties[0].until_local_ns = time_local_ns() + 5000000000ull;
	steer->penalties[0].why = VERIFY_SILENT;
	steer->penalties[1].until_local_ns = 1; /* over */
	steer->penalty_count = 2;
	object = result("steer", "{}");
	cr_expect_str_eq(json_text(object, "mode"), "steer");
	cr_expect_str_eq(
		json_string_value(json_array_get(json_object_get(object, "interfaces"), 0)),
		"esc-none0");
	cr_assert_eq(json_array_size(json_object_get(object, "steers")), 2);
	one = json_array_get(json_object_get(object, "steers"), 0);
	cr_expect_eq(json_count(one, "steered_sport"), 51000);
	cr_expect_eq(json_count(one, "sport"), 50000);
	cr_expect_str_eq(json_text(one, "state"), "waiting");
	cr_expect_null(json_object_get(one, "trigger"), "it has not taken effect");
	one = json_array_get(json_object_get(object, "steers"), 1);
	cr_expect_str_eq(json_text(one, "state"), "tracked");
	cr_expect_null(json_object_get(one, "steered_sport"));
	cr_assert_eq(json_array_size(json_object_get(object, "penalties")), 1);
	one = json_array_get(json_object_get(object, "penalties"), 0);
	cr_expect_str_eq(json_text(one, "reason"), "silent");
	cr_expect_leq(json_count(one, "left_ms"), 5000);
	json_decref(object);
	steer_put_qp(steer, &entry, qp);
	cr_expect_eq(json_count(qp, "steered_sport"), 51000);
	json_object_clear(qp);
	entry.key.dest_qpn = 99;
	steer_put_qp(steer, &entry, qp);
	cr_expect_eq(json_object_size(qp), 0, "its rule has ended");
	json_decref(qp);
}

// SPDX-License-Identifier: BSD-2-Clause
/* From events to alerts: what begins, continues and ends, with restarts of the daemon and of ours.
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert.h"
#include "base/json.h"

#define NOW (1769860800ull * ALERT_S)

static struct alerts alerts;
static uint64_t start, number;

/* Of the daemon `start`, at @now_ns. */
static void take(uint64_t now_ns, const char *kind, const char *severity, const char *fault,
		 const char *more)
{
	char text[1024];
	json_t *event;

	snprintf(text, sizeof(text),
		 "{\"id\":\"h1:%llx:%llu\",\"host\":\"h1\",\"time_ns\":%llu,\"kind\":\"%s\","
		 "\"severity\":\"%s\",\"fault\":\"%s\",\"subject\":\"path_up\"%s}",
		 (unsigned long long)start, (unsigned long long)number++,
		 (unsigned long long)now_ns, kind, severity, fault, more);
	event = json_loads(text, 0, NULL);
	cr_assert(alerts_take(&alerts, event, false, now_ns), "%s", text);
	json_decref(event);
}

static void down(uint64_t now_ns, const char *fault)
{
	take(now_ns, "path_down", "warning", fault, ",\"begins\":\"path_down\"");
}

static void up(uint64_t now_ns, const char *fault)
{
	take(now_ns, "path_up", "notice", fault, ",\"ends\":\"path_down\"");
}

static size_t firing(void)
{
	size_t count = 0;

	for (size_t i = 0; i < alerts.count; i++)
		count += !alerts.list[i].ended_ns;
	return count;
}

static void begin(void)
{
	alerts = (struct alerts){.severity = 2};
	start = 100;
	number = 0;
}

static void end(void)
{
	alerts_free(&alerts);
}

TestSuite(alerts, .init = begin, .fini = end);

Test(alerts, a_condition_fires_from_its_begin_to_its_end)
{
	uint64_t changes;

	down(NOW, "path:a");
	down(NOW + 1, "path:b");
	cr_expect_eq(firing(), 2);
	changes = alerts.changes;
	down(NOW + 2, "path:a");
	cr_expect_eq(alerts.changes, changes, "it continues: nothing to be sent");
	up(NOW + 3, "path:a");
	cr_expect_eq(firing(), 1);
	up(NOW + 4, "path:c");
	cr_expect_eq(firing(), 1);
	alerts_tick(&alerts, NOW + 3600 * ALERT_S);
	cr_expect_eq(alerts.count, 1, "what has ended is forgotten, what has not is not");
	take(NOW + 5, "peer_left", "notice", "path:b", ",\"ends\":\"all\"");
	cr_expect_eq(firing(), 0);
}

Test(alerts, less_severe_events_are_none)
{
	take(NOW, "qp_seen", "info", "qp:a", "");
	take(NOW, "path_x", "notice", "path:a", ",\"begins\":\"path_down\"");
	cr_expect_eq(alerts.count, 0);
	down(NOW, "path:a");
	take(NOW, "path_x", "notice", "path:a", ",\"begins\":\"path_down\"");
	cr_expect_eq(firing(), 1, "it continues one");
}

Test(alerts, a_single_event_is_one_for_five_minutes)
{
	take(NOW, "loop_delayed", "warning", "host:h1/daemon", "");
	alerts_tick(&alerts, NOW + ALERT_SINGLE_NS - 1);
	cr_expect_eq(firing(), 1);
	alerts_tick(&alerts, NOW + ALERT_SINGLE_NS);
	cr_expect_eq(firing(), 0);
}

Test(alerts, after_a_restart_of_the_daemon_it_has_to_be_reported_again)
{
	down(NOW, "path:a");
	down(NOW, "path:b");
	start = 200;
	number = 0;
	take(NOW + ALERT_S, "daemon_started", "notice", "host:h1", "");
	down(NOW + 2 * ALERT_S, "path:a");
	alerts_tick(&alerts, NOW + ALERT_CONFIRM_NS);
	cr_expect_eq(firing(), 2);
	alerts_tick(&alerts, NOW + ALERT_S + ALERT_CONFIRM_NS);
	cr_expect_eq(firing(), 1);
	for (size_t i = 0; i < alerts.count; i++)
		cr_expect_eq(!alerts.list[i].ended_ns, !strcmp(alerts.list[i].fault, "path:a"));
}

/* The memory of the daemon is read again after each connection. */
Test(alerts, an_event_counts_once)
{
	json_t *old =
		json_loads("{\"id\":\"h1:64:0\",\"host\":\"h1\",\"time_ns\":1769860800000000000,"
			   "\"kind\":\"path_down\",\"severity\":\"warning\",\"fault\":\"path:a\","
			   "\"begins\":\"path_down\"}",
			   0, NULL);

	down(NOW, "path:a");
	up(NOW + 1, "path:a");
	cr_expect(alerts_take(&alerts, old, false, NOW + 2));
	cr_expect_eq(firing(), 0);
	start = 300;
	take(NOW + 3, "daemon_started", "notice", "host:h1", "");
	cr_expect(alerts_take(&alerts, old, false, NOW + 4));
	cr_expect_eq(firing(), 0);
	cr_expect(alerts_take(&alerts, old, true, NOW + 5));
	cr_expect_eq(firing(), 1, "of a daemon that started after the clock was set back");
	json_decref(old);
}

Test(alerts, events_that_were_left_out_may_have_been_ends)
{
	down(NOW, "path:a");
	down(NOW, "path:b");
	up(NOW, "path:b");
	take(NOW + 1, "events_limited", "warning", "host:h1/path_up", "");
	alerts_tick(&alerts, NOW + 1 + ALERT_CONFIRM_NS);
	for (size_t i = 0; i < alerts.count; i++)
		cr_expect(strcmp(alerts.list[i].fault, "path:a") || alerts.list[i].ended_ns);
}

Test(alerts, the_state_is_kept_over_a_restart)
{
	json_t *saved, *again, *before, *after;

	down(NOW, "path:a");
	down(NOW, "path:b");
	up(NOW + 1, "path:b");
	alerts.list[0].begin_hooked = true;
	alerts.list[0].hold_ns = alerts.list[1].hold_ns = 0;
	before = alerts_json(&alerts, NOW);
	saved = alerts_save(&alerts);
	alerts_free(&alerts);
	alerts = (struct alerts){.severity = 2};
	cr_assert(alerts_load(&alerts, saved));
	after = alerts_json(&alerts, NOW);
	again = alerts_save(&alerts);
	cr_expect(json_equal(before, after));
	cr_expect(json_equal(saved, again));
	number = 1;
	down(NOW + 2, "path:b");
	cr_expect_eq(firing(), 1, "the event was taken before the restart");
	json_decref(saved);
	json_decref(again);
	json_decref(before);
	json_decref(after);
}

Test(alerts, what_is_sent)
{
	json_t *json, *labels;

	take(NOW, "peer_down", "warning", "host:h7/backend",
	     ",\"begins\":\"peer_down\",\"pid\":5,\"seen\":{\"silent_ms\":1000}");
	json = alert_json(&alerts.list[0], NOW + 60 * ALERT_S);
	labels = json_object_get(json, "labels");
	cr_expect_str_eq(json_text(labels, "alertname"), "EscapementPeerDown");
	cr_expect_str_eq(json_text(labels, "fault_group"), "host:h7");
	cr_expect_str_eq(json_text(labels, "host"), "h1");
	cr_expect_null(json_object_get(labels, "pid"));
	cr_expect_str_eq(json_text(json, "startsAt"), "2026-01-31T12:00:00.000000000Z");
	cr_expect_str_eq(json_text(json, "endsAt"), "2026-01-31T12:01:00.000000000Z");
	cr_expect_str_eq(json_text(json_object_get(json, "annotations"), "seen"),
			 "{\"silent_ms\":1000}");
	json_decref(json);
}

/* Of what is sent: the last of this fault. */
static bool is_sent_as_firing(const char *fault)
{
	json_t *list, *one;
	bool firing = false;
	size_t i;

	alerts_release(&alerts, NOW + 30 * ALERT_S);
	list = alerts_json(&alerts, NOW + 60 * ALERT_S);
	json_array_foreach (list, i, one)
		if (!strcmp(json_text(json_object_get(one, "labels"), "fault"), fault)) {
			firing =
				!strcmp(json_text(one, "endsAt"), "2026-01-31T12:01:00.000000000Z");
			cr_expect_gt(strcmp(json_text(one, "endsAt"), json_text(one, "startsAt")),
				     0, "an Alertmanager refuses others");
		}
	json_decref(list);
	return firing;
}

static void leaf_down(uint64_t now_ns, const char *members)
{
	char more[256];

	snprintf(more, sizeof(more), ",\"begins\":\"leaf_down\",\"seen\":{\"members\":[%s]}",
		 members);
	take(now_ns, "leaf_down", "critical", "leaf:1", more);
}

Test(alerts, what_another_one_explains_is_not_sent_beside_it)
{
	uint64_t changes;

	down(NOW, "path:a");
	down(NOW, "path:b");
	cr_expect(is_sent_as_firing("path:a"));
	leaf_down(NOW + 5, "\"path:a\",\"path:c\"");
	cr_expect(!is_sent_as_firing("path:a"), "it began before");
	cr_expect(is_sent_as_firing("path:b"));
	cr_expect(is_sent_as_firing("leaf:1"));
	down(NOW + 9, "path:c");
	cr_expect(!is_sent_as_firing("path:c"), "it began after");
	changes = alerts.changes;
	leaf_down(NOW + 10, "\"path:a\",\"path:c\"");
	cr_expect_eq(alerts.changes, changes);
	leaf_down(NOW + 11, "\"path:a\",\"path:b\",\"leaf:1\"");
	cr_expect_gt(alerts.changes, changes, "other members have to be sent");
	cr_expect(!is_sent_as_firing("path:b"));
	cr_expect(is_sent_as_firing("path:c"));
	cr_expect(is_sent_as_firing("leaf:1"), "it does not explain itself");
	take(NOW + 12, "leaf_up", "notice", "leaf:1", ",\"ends\":\"leaf_down\"");
	cr_expect(is_sent_as_firing("path:a"), "it is over before what it explained");
	cr_expect(is_sent_as_firing("path:b"));
}

static size_t sent(void)
{
	json_t *list = alerts_json(&alerts, NOW + 60 * ALERT_S);
	size_t count = json_array_size(list);

	json_decref(list);
	return count;
}

/* A daemon that has started has not yet observed all that its fault explains. */
Test(alerts, what_was_explained_before_a_restart_stays_so)
{
	down(NOW, "path:a");
	down(NOW, "path:b");
	leaf_down(NOW + 5, "\"path:a\",\"path:b\"");
	start = 200;
	number = 0;
	take(NOW + ALERT_S, "daemon_started", "notice", "host:h1", "");
	leaf_down(NOW + 2 * ALERT_S, "\"path:b\"");
	cr_expect(!is_sent_as_firing("path:a"), "it was not reported again yet");
	down(NOW + 3 * ALERT_S, "path:a");
	leaf_down(NOW + 4 * ALERT_S, "\"path:b\"");
	cr_expect(is_sent_as_firing("path:a"), "this daemon does not explain it");
}

Test(alerts, one_that_explains_no_others_is_held)
{
	uint64_t changes;

	down(NOW, "path:a");
	cr_expect_eq(sent(), 0);
	cr_expect_eq(alerts_release(&alerts, NOW + 1), ALERT_HOLD_NS - 1);
	cr_expect_eq(sent(), 0);
	changes = alerts.changes;
	cr_expect_eq(alerts_release(&alerts, NOW + ALERT_HOLD_NS), UINT64_MAX);
	cr_expect_eq(sent(), 1);
	cr_expect_gt(alerts.changes, changes, "it has to be sent");
	leaf_down(NOW + ALERT_HOLD_NS, "\"path:c\"");
	cr_expect_eq(sent(), 2, "one that explains others is sent at once");
	down(NOW + 2 * ALERT_HOLD_NS, "path:d");
	cr_expect_eq(alerts_release(&alerts, NOW), UINT64_MAX, "the system clock was set back");
	cr_expect_eq(sent(), 3);
}

Test(alerts, one_that_is_explained_is_held_until_that_ends)
{
	down(NOW, "path:a");
	leaf_down(NOW + 5, "\"path:a\"");
	cr_expect_eq(alerts_release(&alerts, NOW + 2 * ALERT_HOLD_NS), UINT64_MAX);
	cr_expect_eq(sent(), 1, "not even as resolved, beside others of its group");
	take(NOW + 3 * ALERT_HOLD_NS, "leaf_up", "notice", "leaf:1", ",\"ends\":\"leaf_down\"");
	alerts_release(&alerts, NOW + 3 * ALERT_HOLD_NS);
	cr_expect(is_sent_as_firing("path:a"));
}

Test(alerts, what_ends_while_it_is_held_is_not_sent)
{
	uint64_t changes = alerts.changes;

	down(NOW, "path:a");
	up(NOW + 1, "path:a");
	cr_expect_eq(alerts.changes, changes);
	cr_expect_eq(alerts_release(&alerts, NOW + 2 * ALERT_HOLD_NS), UINT64_MAX);
	cr_expect_eq(sent(), 0);
	down(NOW + 2, "path:a");
	cr_expect_eq(alerts_release(&alerts, NOW + 2), ALERT_HOLD_NS, "it began again");
	alerts_release(&alerts, NOW + 2 + ALERT_HOLD_NS);
	cr_expect_eq(sent(), 1);
}

Test(alerts, an_event_of_the_past_is_not_held)
{
	json_t *old =
		json_loads("{\"id\":\"h1:64:0\",\"host\":\"h1\",\"time_ns\":1769860800000000000,"
			   "\"kind\":\"path_down\",\"severity\":\"warning\",\"fault\":\"path:a\","
			   "\"begins\":\"path_down\"}",
			   0, NULL);

	cr_expect(alerts_take(&alerts, old, false, NOW + ALERT_HOLD_NS));
	cr_expect_eq(sent(), 1);
	json_decref(old);
}

Test(alerts, two_that_explain_each_other_stay)
{
	take(NOW, "x", "warning", "path:a",
	     ",\"begins\":\"x\",\"seen\":{\"members\":[\"path:b\"]}");
	take(NOW, "x", "warning", "path:b",
	     ",\"begins\":\"x\",\"seen\":{\"members\":[\"path:a\",7]}");
	cr_expect(is_sent_as_firing("path:a"));
	cr_expect(is_sent_as_firing("path:b"));
}

Test(alerts, the_table_is_bounded_and_what_ended_makes_room)
{
	char fault[32];

	for (int i = 0; i < ALERTS_MAX + 10; i++) {
		snprintf(fault, sizeof(fault), "path:%d", i);
		down(NOW + (uint64_t)i, fault);
	}
	cr_expect_eq(alerts.count, ALERTS_MAX);
	cr_expect_eq(alerts.refused, 10);
	up(NOW + 5000, "path:3");
	down(NOW + 5001, "path:new");
	cr_expect_eq(alerts.refused, 10);
	cr_expect_eq(firing(), ALERTS_MAX);
}

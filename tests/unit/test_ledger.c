// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/events.h"

static int64_t number_at(json_t *events, size_t i)
{
	return json_integer_value(
		json_object_get(json_object_get(json_array_get(events, i), "seen"), "n"));
}

static void add(struct events *ledger, int n)
{
	events_add(ledger, &(struct event){.kind = &(struct event_kind){.name = "kind"},
					   .subject = "subject",
					   .seen = json_pack("{s:i}", "n", n)});
}

Test(ledger, keeps_the_newest)
{
	struct events *ledger;
	json_t *events;

	cr_assert_eq(events_new(&ledger, 3, NULL), 0);
	for (int n = 1; n <= 5; n++)
		add(ledger, n);
	events = events_since(ledger, 0);
	cr_assert_eq(json_array_size(events), 3);
	cr_expect_eq(number_at(events, 0), 3);
	cr_expect_eq(number_at(events, 2), 5);
	cr_expect_eq(events_total(ledger), 5);
	json_decref(events);
	events_free(ledger);
}

static bool fabric_time(void *context, int64_t *fabric_ns, int64_t *bound_ns)
{
	*fabric_ns = 5000;
	*bound_ns = 70;
	return *(const bool *)context;
}

static json_t *newest(struct events *ledger)
{
	json_t *events = events_since(ledger, 0);
	json_t *event = json_incref(json_array_get(events, json_array_size(events) - 1));

	json_decref(events);
	return event;
}

Test(ledger, an_event_has_an_id_and_fabric_time_where_it_is_known)
{
	bool known = true;
	struct events *ledger;
	json_t *one, *two;

	cr_assert_eq(events_new(&ledger, 8, NULL), 0);
	events_set_host(ledger, "h1");
	events_set_clock(ledger, fabric_time, &known);
	add(ledger, 1);
	one = newest(ledger);
	cr_expect_str_eq(json_string_value(json_object_get(one, "host")), "h1");
	cr_expect_eq(json_integer_value(json_object_get(one, "fabric_ns")), 5000);
	cr_expect_eq(json_integer_value(json_object_get(one, "bound_ns")), 70);
	cr_expect_str_eq(json_string_value(json_object_get(one, "severity")), "info");
	known = false;
	add(ledger, 2);
	two = newest(ledger);
	cr_expect_null(json_object_get(two, "fabric_ns"));
	cr_expect_null(json_object_get(two, "bound_ns"));
	cr_expect(!strncmp(json_string_value(json_object_get(two, "id")), "h1:", 3));
	cr_expect_str_neq(json_string_value(json_object_get(one, "id")),
			  json_string_value(json_object_get(two, "id")));
	json_decref(one);
	json_decref(two);
	events_free(ledger);
}

Test(ledger, events_are_counted_by_kind)
{
	const struct event_count *counts;
	struct events *ledger;

	cr_assert_eq(events_new(&ledger, 1, NULL), 0);
	cr_expect_eq(events_counts(ledger, &counts), 0);
	add(ledger, 1);
	add(ledger, 2);
	events_add(ledger, &(struct event){.kind = &(struct event_kind){
						   .name = "other", .severity = EVENT_WARNING}});
	cr_assert_eq(events_counts(ledger, &counts), 2);
	cr_expect_str_eq(counts[0].kind, "kind");
	cr_expect_eq(counts[0].count, 2);
	cr_expect_str_eq(counts[1].kind, "other");
	cr_expect_eq(counts[1].severity, EVENT_WARNING);
	cr_expect_eq(counts[1].count, 1);
	events_free(ledger);
}

Test(ledger, an_event_has_what_it_was_given_and_no_more)
{
	struct events *ledger;
	json_t *events, *event;

	cr_assert_eq(events_new(&ledger, 8, NULL), 0);
	events_add(ledger, &(struct event){.kind = &(struct event_kind){.name = "qp_seen"},
					   .subject = "a>b/1",
					   .done = json_pack("{s:i}", "x", 1)});
	events = events_since(ledger, 0);
	event = json_array_get(events, 0);
	cr_expect_str_eq(json_string_value(json_object_get(event, "kind")), "qp_seen");
	cr_expect_str_eq(json_string_value(json_object_get(event, "subject")), "a>b/1");
	cr_expect_not_null(json_object_get(event, "done"));
	cr_expect_null(json_object_get(event, "seen"));
	cr_expect_null(json_object_get(event, "result"));
	cr_expect_gt(json_integer_value(json_object_get(event, "time_ns")), 1500000000000000000);
	json_decref(events);
	events_free(ledger);
}

Test(ledger, since_is_a_time)
{
	struct events *ledger;
	json_t *events;
	int64_t second_ns;

	cr_assert_eq(events_new(&ledger, 8, NULL), 0);
	add(ledger, 1);
	usleep(1000);
	add(ledger, 2);
	events = events_since(ledger, 0);
	second_ns = json_integer_value(json_object_get(json_array_get(events, 1), "time_ns"));
	json_decref(events);
	events = events_since(ledger, second_ns);
	cr_assert_eq(json_array_size(events), 1);
	cr_expect_eq(number_at(events, 0), 2);
	json_decref(events);
	events_free(ledger);
}

struct listening {
	struct events *ledger;
	int heard;
	bool leave;
};

static void hear(const json_t *event, void *context)
{
	struct listening *listening = context;

	(void)event;
	listening->heard++;
	if (listening->leave)
		events_unlisten(listening->ledger, hear, listening);
}

Test(ledger, listeners_may_leave_while_they_are_told)
{
	struct listening stays = {}, leaves = {.leave = true};
	struct events *ledger;

	cr_assert_eq(events_new(&ledger, 8, NULL), 0);
	leaves.ledger = stays.ledger = ledger;
	events_listen(ledger, hear, &leaves);
	events_listen(ledger, hear, &stays);
	add(ledger, 1);
	add(ledger, 2);
	cr_expect_eq(leaves.heard, 1);
	cr_expect_eq(stays.heard, 2);
	events_unlisten(ledger, hear, &stays);
	add(ledger, 3);
	cr_expect_eq(stays.heard, 2);
	events_free(ledger);
}

static size_t count_lines(const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0, lines = 0;
	ssize_t bytes;

	cr_assert_not_null(file);
	while ((bytes = getline(&line, &room, file)) > 0) {
		json_t *event = json_loadb(line, bytes, 0, NULL);

		lines += event != NULL;
		json_decref(event);
	}
	free(line);
	fclose(file);
	return lines;
}

Test(ledger, the_file_is_followed_when_it_is_rotated)
{
	char folder[] = "/tmp/esc-ledger-XXXXXX", path[64], moved[64];
	struct events *ledger;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.jsonl", folder);
	snprintf(moved, sizeof(moved), "%s/events.1", folder);
	cr_assert_eq(events_new(&ledger, 2, path), 0);
	for (int n = 0; n < 5; n++)
		add(ledger, n);
	cr_expect_eq(count_lines(path), 5, "the file keeps all, the memory two");
	cr_assert_eq(rename(path, moved), 0);
	add(ledger, 5);
	cr_expect_eq(count_lines(path), 1);
	events_free(ledger);
	unlink(path);
	unlink(moved);
	rmdir(folder);
}

/* A full disk cuts a line in two; the next whole one must not be lost with it. */
Test(ledger, a_cut_line_does_not_swallow_the_next)
{
	char folder[] = "/tmp/esc-ledger-XXXXXX", path[64];
	struct rlimit limit, tight;
	struct events *ledger;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.jsonl", folder);
	cr_assert_eq(events_new(&ledger, 8, path), 0);
	add(ledger, 1);
	getrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_IGN);
	tight = (struct rlimit){100, limit.rlim_max};
	setrlimit(RLIMIT_FSIZE, &tight);
	add(ledger, 2);
	add(ledger, 3);
	setrlimit(RLIMIT_FSIZE, &limit);
	add(ledger, 4);
	cr_expect_eq(count_lines(path), 2, "the first and the last");
	cr_expect_eq(events_total(ledger), 4);
	events_free(ledger);
	unlink(path);
	rmdir(folder);
}

Test(ledger, a_file_that_cannot_be_is_not_fatal)
{
	struct events *ledger;
	json_t *events;

	cr_assert_eq(events_new(&ledger, 8, "/nowhere/events.jsonl"), 0);
	add(ledger, 1);
	add(ledger, 2);
	events = events_since(ledger, 0);
	cr_expect_eq(json_array_size(events), 2);
	json_decref(events);
	events_free(ledger);
}

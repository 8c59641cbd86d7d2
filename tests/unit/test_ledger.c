// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/eventlog.h"
#include "core/events.h"

#define FLUSH_MS 10000

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

static uint64_t total(const struct events *ledger)
{
	const struct event_count *counts;
	size_t count = events_counts(ledger, &counts);
	uint64_t sum = 0;

	for (size_t k = 0; k < count; k++)
		sum += counts[k].count;
	return sum;
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
	cr_expect_eq(total(ledger), 5);
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

/* A flood of one kind leaves the others alone, and is counted. */
Test(ledger, events_of_a_kind_are_limited)
{
	const struct event_kind other = {.name = "other"};
	const struct event_count *counts;
	struct events *ledger;
	uint64_t suppressed = 0;
	json_t *events, *last;
	size_t limited = 0, kept, i;

	cr_assert_eq(events_new(&ledger, 10000, NULL), 0);
	events_limit(ledger);
	for (int n = 0; n < 5000; n++)
		add(ledger, n);
	events_add(ledger, &(struct event){.kind = &other});
	events = events_since(ledger, 0);
	kept = json_array_size(events);
	json_array_foreach (events, i, last)
		limited +=
			!strcmp(json_string_value(json_object_get(last, "kind")), "events_limited");
	cr_expect_eq(limited, 1);
	cr_expect(kept >= EVENTS_KIND_BURST + 2 && kept < EVENTS_KIND_BURST + 2 + 200, "%zu", kept);
	cr_expect_str_eq(
		json_string_value(json_object_get(json_array_get(events, kept - 1), "kind")),
		"other");
	json_decref(events);
	for (i = 0; i < events_counts(ledger, &counts); i++)
		suppressed += counts[i].suppressed;
	cr_expect_eq(suppressed + kept, 5002);
	usleep(1100000 / EVENTS_KIND_PER_S);
	add(ledger, 5000);
	events = events_since(ledger, 0);
	last = json_array_get(events, json_array_size(events) - 1);
	cr_expect_eq((uint64_t)json_integer_value(json_object_get(last, "suppressed")), suppressed);
	json_decref(events);
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

Test(ledger, listeners_may_leave_while_they_are_reported)
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
	cr_expect(events_flush(ledger, FLUSH_MS));
	cr_expect_eq(count_lines(path), 5, "the file keeps all, the memory two");
	cr_assert_eq(rename(path, moved), 0);
	add(ledger, 5);
	cr_expect(events_flush(ledger, FLUSH_MS));
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
	struct events_losses losses;
	struct rlimit limit, tight;
	struct events *ledger;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.jsonl", folder);
	cr_assert_eq(events_new(&ledger, 8, path), 0);
	add(ledger, 1);
	cr_expect(events_flush(ledger, FLUSH_MS));
	getrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_IGN);
	tight = (struct rlimit){100, limit.rlim_max};
	setrlimit(RLIMIT_FSIZE, &tight);
	add(ledger, 2);
	add(ledger, 3);
	cr_expect(events_flush(ledger, FLUSH_MS));
	events_losses(ledger, &losses);
	cr_expect_eq(losses.file, 2);
	setrlimit(RLIMIT_FSIZE, &limit);
	add(ledger, 4);
	cr_expect(events_flush(ledger, FLUSH_MS));
	cr_expect_eq(count_lines(path), 2, "the first and the last");
	cr_expect_eq(total(ledger), 4);
	events_free(ledger);
	unlink(path);
	rmdir(folder);
}

Test(ledger, a_file_that_cannot_be_is_not_fatal)
{
	struct events_losses losses;
	struct events *ledger;
	json_t *events;

	cr_assert_eq(events_new(&ledger, 8, "/nowhere/deeper/events.jsonl"), 0);
	add(ledger, 1);
	add(ledger, 2);
	events = events_since(ledger, 0);
	cr_expect_eq(json_array_size(events), 2);
	json_decref(events);
	cr_expect(events_flush(ledger, FLUSH_MS));
	events_losses(ledger, &losses);
	cr_expect_eq(losses.error, -ENOENT);
	cr_expect_eq(losses.file, 2);
	events_free(ledger);
}

Test(ledger, a_file_that_fails_and_recovers_is_an_event)
{
	char folder[] = "/tmp/esc-ledger-XXXXXX", path[64];
	struct events *ledger;
	sd_event *loop;
	json_t *event;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/var/log/events.jsonl", folder);
	cr_assert_eq(sd_event_new(&loop), 0);
	cr_assert_eq(events_new(&ledger, 8, path), 0);
	cr_assert_geq(events_watch_file(ledger, loop), 0);
	add(ledger, 1);
	cr_assert_geq(sd_event_run(loop, FLUSH_MS * 1000), 1);
	event = newest(ledger);
	cr_expect_str_eq(json_string_value(json_object_get(event, "kind")), "events_file_failed");
	json_decref(event);
	cr_expect(events_flush(ledger, FLUSH_MS));
	path[strlen(folder) + 4] = '\0';
	cr_assert_eq(mkdir(path, 0700), 0);
	add(ledger, 2);
	cr_assert_geq(sd_event_run(loop, FLUSH_MS * 1000), 1);
	event = newest(ledger);
	cr_expect_str_eq(json_string_value(json_object_get(event, "kind")),
			 "events_file_recovered");
	json_decref(event);
	cr_expect(events_flush(ledger, FLUSH_MS));
	events_free(ledger);
	sd_event_unref(loop);
	path[strlen(folder) + 4] = '/';
	cr_expect_eq(count_lines(path), 2, "the second, and that it is written again");
	unlink(path);
	path[strlen(folder) + 8] = '\0';
	rmdir(path);
	path[strlen(folder) + 4] = '\0';
	rmdir(path);
	rmdir(folder);
}

/* A disk that does not respond, here a lock that is not released: what waits for it is bounded,
 * and the caller does not wait. */
Test(ledger, the_backlog_is_bounded)
{
	static char long_text[64 << 10];
	struct events_losses losses;
	struct events *ledger;
	char folder[] = "/tmp/esc-ledger-XXXXXX", path[64];
	int lock;

	memset(long_text, 'x', sizeof(long_text) - 1);
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.jsonl", folder);
	lock = open(path, O_RDWR | O_CREAT, 0600);
	cr_assert_eq(flock(lock, LOCK_EX), 0); /* the thread waits for it */
	cr_assert_eq(events_new(&ledger, 8, path), 0);
	for (int n = 0; n < 40; n++)
		events_add(ledger, &(struct event){.kind = &(struct event_kind){.name = "kind"},
						   .subject = long_text});
	cr_expect(!events_flush(ledger, 10));
	events_losses(ledger, &losses);
	cr_expect_eq(losses.error, -EBUSY);
	cr_expect_gt(losses.file, 15);
	cr_expect_lt(losses.file, 40);
	cr_expect_eq(total(ledger), 40);
	close(lock);
	cr_expect(events_flush(ledger, FLUSH_MS));
	cr_expect_eq(count_lines(path), 40 - losses.file);
	events_free(ledger);
	unlink(path);
	rmdir(folder);
}

Test(ledger, an_earlier_daemons_events_are_recalled_over_rotated_files)
{
	char folder[] = "/tmp/esc-ledger-XXXXXX", path[64], old[72];
	struct events *ledger;
	struct stat status;
	json_t *events;
	int files = 0;
	FILE *file;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.jsonl", folder);
	cr_assert_eq(events_new(&ledger, 4, path), 0);
	events_set_host(ledger, "h1");
	add(ledger, 1);
	cr_expect(events_flush(ledger, FLUSH_MS));
	cr_assert_eq(truncate(path, EVENTLOG_FILE_BYTES), 0); /* NULs: no event */
	add(ledger, 2);
	add(ledger, 3);
	events_free(ledger);
	cr_assert_eq(stat(path, &status), 0);
	cr_expect_lt(status.st_size, 4096, "the long file was rotated");
	file = fopen(path, "a");
	fputs("{\"host\":\"h2\",\"kind\":\"other\",\"time_ns\":1}\nnot JSON\n{\"cut\": \n", file);
	fclose(file);

	cr_assert_eq(events_new(&ledger, 4, path), 0);
	events_set_host(ledger, "h1");
	events_recall(ledger);
	add(ledger, 4);
	events = events_since(ledger, 0);
	cr_assert_eq(json_array_size(events), 4);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(number_at(events, i), i + 1);
	cr_expect_eq(total(ledger), 1, "only those since the start are counted");
	json_decref(events);
	events_free(ledger);
	for (int i = 0; i < 6; i++) {
		snprintf(old, sizeof(old), i ? "%s.%d" : "%s", path, i);
		files += !unlink(old);
	}
	cr_expect_eq(files, 2);
	rmdir(folder);
}

Test(ledger, the_files_are_bounded)
{
	char folder[] = "/tmp/esc-ledger-XXXXXX", path[64], old[72];
	struct events *ledger;
	int files = 0;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.jsonl", folder);
	cr_assert_eq(events_new(&ledger, 4, path), 0);
	for (int n = 0; n < 8; n++) {
		add(ledger, n);
		cr_expect(events_flush(ledger, FLUSH_MS));
		cr_assert_eq(truncate(path, EVENTLOG_FILE_BYTES), 0);
	}
	events_free(ledger);
	for (int i = 0; i < 9; i++) {
		snprintf(old, sizeof(old), i ? "%s.%d" : "%s", path, i);
		files += !unlink(old);
	}
	cr_expect_eq(files, EVENTLOG_FILES);
	rmdir(folder);
}

/* --- the journal --- */

static int listen_as_journal(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

Test(journal, an_event_is_an_entry_with_fields)
{
	char folder[] = "/tmp/esc-ledger-XXXXXX", path[64], got[2048] = "", id[MESSAGE_ID_BYTES];
	json_t *event = json_pack("{s:s, s:s, s:i, s:{s:i}}", "kind", "path_down", "subject",
				  "two\nlines", "bound_ns", 7, "seen", "lost", 3);
	int journal, fd = -1;
	ssize_t bytes;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/socket", folder);
	cr_expect_eq(journal_send(&fd, path, event, 4, NULL), -ENOENT);
	journal = listen_as_journal(path);
	cr_assert_eq(journal_send(&fd, path, event, 4, "A path is down."), 0);
	bytes = recv(journal, got, sizeof(got) - 1, 0);
	cr_assert_gt(bytes, 0);
	event_message_id("path_down", id);
	cr_expect(memmem(got, bytes, id, strlen(id)));
	cr_expect(memmem(got, bytes, "\nPRIORITY=4\n", 12));
	cr_expect(memmem(got, bytes, "\nESCAPEMENT_KIND=path_down\n", 27));
	cr_expect(memmem(got, bytes, "\nESCAPEMENT_BOUND_NS=7\n", 23));
	cr_expect(memmem(got, bytes, "\nESCAPEMENT_SEEN={\"lost\":3}\n", 28));
	cr_expect(memmem(got, bytes, "\nESCAPEMENT_SUBJECT\n\x09\0\0\0\0\0\0\0two\nlines\n", 38));
	json_decref(event);
	close(fd);
	close(journal);
	unlink(path);
	rmdir(folder);
}

Test(journal, one_that_is_stopped_is_not_waited_for)
{
	char folder[] = "/tmp/esc-ledger-XXXXXX", path[64];
	json_t *event = json_pack("{s:s}", "kind", "path_down");
	int journal, fd = -1, err = 0;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/socket", folder);
	journal = listen_as_journal(path);
	for (int i = 0; !err && i < 100000; i++)
		err = journal_send(&fd, path, event, 4, NULL);
	cr_expect_eq(err, -EAGAIN);
	json_decref(event);
	close(fd);
	close(journal);
	unlink(path);
	rmdir(folder);
}

/* Monitoring has them: they may never change. */
Test(journal, message_ids_are_fixed)
{
	char id[MESSAGE_ID_BYTES];

	event_message_id("path_down", id);
	cr_expect_str_eq(id, "344b076242a58aee9d945d617a5eef82");
	event_message_id("path_up", id);
	cr_expect_str_neq(id, "344b076242a58aee9d945d617a5eef82");
}

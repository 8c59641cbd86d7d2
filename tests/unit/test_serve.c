// SPDX-License-Identifier: BSD-2-Clause
/* The paths of escapement-serve, its connections and its replies. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/verbs.h"
#include "serve/serve.h"

/* --- paths --- */

TestSuite(serve_route);

Test(serve_route, no_verb_that_writes_has_a_path)
{
	const struct verb *verb = NULL;
	size_t served = 0, others = 0;
	char path[ROUTE_PATH_BYTES];
	struct route route;
	char *error;

	while ((verb = verbs_next(verb))) {
		bool found;

		route_path(verb, path);
		found = route_find(&route, path, &error);
		if (found) {
			served++;
			cr_expect(verb->reads, "%s", path);
			cr_expect(route.kind == ROUTE_HEALTH || verbs_reads_alone(verb), "%s",
				  path);
			route_clear(&route);
		} else {
			others++;
			cr_expect(strstr(error, "not served over HTTP"), "%s: %s", path, error);
			free(error);
		}
	}
	cr_expect_gt(served, 10);
	cr_expect_gt(others, 10);
}

/* What is sent to the daemon is a verb with `reads`, whatever the path and its arguments are. */
Test(serve_route, each_request_only_reads)
{
	static const char *const paths[] = {"/metrics", "/health", "/report"};
	const struct verb *verb = NULL, *sent;
	char path[ROUTE_PATH_BYTES], room[64];
	const char *name;
	struct route route;
	char *error;
	json_t *args;
	size_t i = 0, count;

	for (;; i++) {
		if (i < 3)
			snprintf(path, sizeof(path), "%s", paths[i]);
		else if ((verb = verbs_next(verb)))
			route_path(verb, path);
		else
			break;
		if (!route_find(&route, path, &error)) {
			free(error);
			continue;
		}
		for (count = 0; route_request(&route, count, &name, room, &args); count++) {
			sent = verbs_of_request(name, args, &error);
			cr_assert(sent, "%s: %s", path, error);
			cr_expect(sent->reads, "%s sends %s", path, sent->name);
			json_decref(args);
		}
		cr_expect_gt(count, 0, "%s", path);
		route_clear(&route);
	}
}

static void expect_args(const char *path, const char *name, const char *value, const char *wanted)
{
	struct route route;
	char *error = NULL, *args;

	cr_assert(route_find(&route, path, &error), "%s", error);
	if (route_take(&route, name, value, &error)) {
		args = json_dumps(route.args, JSON_COMPACT);
		cr_expect_str_eq(args, wanted);
		free(args);
	} else {
		cr_expect(strstr(error, wanted), "%s=%s: %s", name, value, error);
		free(error);
	}
	route_clear(&route);
}

Test(serve_route, arguments_are_those_of_the_verb)
{
	expect_args("/api/v1/qp", "key", "10.0.0.2", "{\"key\":\"10.0.0.2\"}");
	expect_args("/api/v1/qp", "top", "3", "{\"top\":3}");
	expect_args("/api/v1/qp", "top", NULL, "whole number");
	expect_args("/api/v1/qp", "top", "-3", "whole number");
	expect_args("/api/v1/qp", "sort", "size", "one of");
	expect_args("/api/v1/qp", "srot", "delay", "did you mean `sort`");
	expect_args("/api/v1/qp", "key", "\xff", "a text");
	expect_args("/api/v1/mesh", "all", NULL, "{\"all\":true}");
	expect_args("/api/v1/mesh", "all", "no", "or be left out");
	expect_args("/api/v1/events", "since", "@5", "{\"since_ns\":5000000000}");
	expect_args("/api/v1/events", "follow", NULL, "there is no argument `follow`");
	expect_args("/api/v1/events", "merge", NULL, "there is no argument `merge`");
	expect_args("/health", "severity", "critical", "{\"severity\":\"critical\"}");
	expect_args("/health", "format", "npd", "there is no argument `format`");
	expect_args("/metrics", "x", "y", "there is no argument `x`");
	expect_args("/", "x", "y", "there is no argument `x`");
}

/* --- connections --- */

TestSuite(serve_slots);

static struct slots slots;

static struct slot *open_slot(uint8_t host, uint64_t now_ns)
{
	const uint8_t address[16] = {10, 0, 0, host};

	return slots_open(&slots, address, (int)now_ns, now_ns);
}

static void fill(uint8_t host, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cr_assert(open_slot(host, i + 1));
}

Test(serve_slots, the_one_that_waited_longest_is_displaced)
{
	struct slot *newest, *closes;

	fill(1, SLOTS_MAX);
	slots.list[0].state = SLOT_REPLIES; /* the oldest has its request */
	newest = open_slot(1, 1000);
	closes = slots_displace(&slots, newest);
	cr_assert_eq(closes, &slots.list[1]);
	cr_expect_eq(closes->state, SLOT_CLOSES);
	cr_expect_null(slots_displace(&slots, newest), "there is room now");
}

Test(serve_slots, the_address_with_most_gives_way)
{
	struct slot *other = open_slot(2, 0), *newest;

	fill(1, SLOTS_MAX - 1);
	newest = open_slot(3, 1000);
	cr_expect_eq(slots_displace(&slots, newest), &slots.list[1]);
	cr_expect_eq(other->state, SLOT_WAITS, "it is older, but alone");
}

Test(serve_slots, without_one_that_waits_the_new_one_is_refused)
{
	struct slot *newest;

	fill(1, SLOTS_MAX);
	for (size_t i = 0; i < SLOTS_MAX; i++)
		slots.list[i].state = SLOT_REPLIES;
	newest = open_slot(1, 1000);
	cr_expect_eq(slots_displace(&slots, newest), newest);
	cr_expect_eq(slots.refused, 1);
}

Test(serve_slots, none_beyond_the_room)
{
	fill(1, SLOTS_ROOM);
	cr_expect_null(open_slot(1, 1000));
	cr_expect_eq(slots.refused, 1);
}

Test(serve_slots, each_state_has_its_time)
{
	struct slot *fresh = open_slot(1, 0), *kept = open_slot(1, 0), *replies = open_slot(1, 0);
	struct slot *waits = open_slot(1, 0);

	kept->served = true;
	replies->state = waits->state = SLOT_REPLIES;
	waits->suspended = true; /* the daemon has its own time */
	cr_expect_null(slots_expire(&slots, SLOTS_FIRST_NS - 1));
	cr_expect_eq(slots_expire(&slots, SLOTS_FIRST_NS), fresh);
	cr_expect_null(slots_expire(&slots, SLOTS_REPLY_NS - 1));
	cr_expect_eq(slots_expire(&slots, SLOTS_REPLY_NS), replies);
	cr_expect_null(slots_expire(&slots, SLOTS_KEEP_NS - 1));
	cr_expect_eq(slots_expire(&slots, SLOTS_KEEP_NS), kept);
	cr_expect_null(slots_expire(&slots, 2 * SLOTS_KEEP_NS));
	cr_expect_eq(slots.expired, 3);
}

/* --- replies, of a daemon that is played --- */

static char socket_path[64];
static int listener, accepted;
static struct cache cache;
static uint64_t now_ns = 100 * SERVE_S;

static void begin(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(socket_path, sizeof(socket_path), "/tmp/escapement-test-serve-%d", getpid());
	unlink(socket_path);
	strcpy(address.sun_path, socket_path);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 8), 0);
	cache.socket = socket_path;
}

static void end(void)
{
	cache_free(&cache);
	close(listener);
	unlink(socket_path);
}

TestSuite(serve_cache, .init = begin, .fini = end);

static struct reply *get(const char *path)
{
	struct route route;
	char *error;

	cr_assert(route_find(&route, path, &error));
	return cache_get(&cache, &route, now_ns);
}

/* The daemon's turn: reads the request, which has to have @word, and replies with @line. */
static void play(const char *word, const char *line)
{
	char request[4096] = "";

	cache_run(&cache, now_ns);
	accepted = accept(listener, NULL, NULL);
	cr_assert_geq(accepted, 0);
	cache_run(&cache, now_ns);
	cr_assert_gt(read(accepted, request, sizeof(request) - 1), 0);
	cr_expect(strstr(request, word), "%s", request);
	cr_assert_eq(write(accepted, line, strlen(line)), (ssize_t)strlen(line));
	close(accepted);
	cache_run(&cache, now_ns);
}

Test(serve_cache, one_request_a_second_for_all)
{
	struct reply *first = get("/api/v1/status"), *second = get("/api/v1/status");

	cr_expect_eq(first, second);
	cr_expect(!first->ready);
	play("\"status\"", "{\"ok\":true,\"result\":{\"host\":\"h1\"}}\n");
	cr_assert(first->ready);
	cr_expect_eq(first->status, 200);
	cr_expect_str_eq(first->type, "application/json");
	cr_expect_eq(first->bytes, strlen("{\"host\":\"h1\"}\n"));
	cr_expect_eq(memcmp(first->body, "{\"host\":\"h1\"}\n", first->bytes), 0);
	now_ns += CACHE_AGE_NS - 1;
	cr_expect_eq(get("/api/v1/status"), first);
	now_ns += 1;
	second = get("/api/v1/status");
	cr_expect_neq(second, first, "after a second it is asked for again");
	cr_expect(!second->ready);
	cr_expect_eq(cache.asked, 1);
}

Test(serve_cache, an_error_of_the_daemon_has_its_status)
{
	static const struct {
		const char *line;
		unsigned int status;
	} cases[] = {
		{"{\"ok\":false,\"error\":\"e\",\"exit\":2}\n", 400},
		{"{\"ok\":false,\"error\":\"e\",\"exit\":1}\n", 404},
		{"{\"ok\":false,\"error\":\"e\",\"exit\":4}\n", 503},
		{"{\"ok\":true}\n", 503},
		{"garbage\n", 503},
		{"\n", 503},
		{"{\"ok\":true,\"result\":\n", 503},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reply *reply = get("/api/v1/peers");

		play("\"peers\"", cases[i].line);
		cr_assert(reply->ready);
		cr_expect_eq(reply->status, cases[i].status, "%s: %u", cases[i].line,
			     reply->status);
		cr_expect(reply->bytes && strstr(reply->body, "\"error\""));
		cache_release(reply);
		now_ns += 2 * CACHE_AGE_NS;
	}
}

Test(serve_cache, a_scrape_is_the_text_of_the_metrics)
{
	struct reply *reply = get("/metrics");

	play("\"metrics\"", "{\"ok\":true,\"result\":{\"text\":\"escapement_up 1\\n\"}}\n");
	cr_assert(reply->ready);
	cr_expect_eq(reply->bytes, strlen("escapement_up 1\n"));
	cr_expect_eq(memcmp(reply->body, "escapement_up 1\n", reply->bytes), 0);
}

Test(serve_cache, health_is_made_of_two_replies)
{
	struct reply *reply = get("/health");

	play("\"status\"", "{\"ok\":true,\"result\":{\"host\":\"h1\",\"kill_switch\":true,\"kill_"
			   "switch_reason\":\"why\"}}\n");
	cr_assert(!reply->ready);
	play("\"findings\"", "{\"ok\":true,\"result\":{\"findings\":[]}}\n");
	cr_assert(reply->ready);
	cr_expect_eq(reply->status, 503);
	cr_expect(strstr(reply->body, "kill switch"), "%s", reply->body);
}

Test(serve_cache, a_daemon_that_hangs_fails_all_that_wait)
{
	struct reply *scrape = get("/metrics"), *peers = get("/api/v1/peers");
	struct reply *health = get("/health");

	cache_run(&cache, now_ns);
	now_ns += ASK_TIMEOUT_NS - 1;
	cache_run(&cache, now_ns);
	cr_expect(!scrape->ready && !peers->ready && !health->ready);
	now_ns += 1;
	cache_run(&cache, now_ns);
	cr_assert(scrape->ready && peers->ready && health->ready);
	cr_expect_eq(scrape->status, 200);
	cr_expect(strstr(scrape->body, "\nescapement_up 0\n"), "%s", scrape->body);
	cr_expect_eq(peers->status, 503);
	cr_expect_eq(health->status, 503);
	cr_expect(strstr(health->body, "\"healthy\":false"), "%s", health->body);
}

Test(serve_cache, no_daemon_is_found_at_once)
{
	struct reply *reply;

	close(listener);
	unlink(socket_path);
	reply = get("/api/v1/status");
	cache_run(&cache, now_ns);
	cr_assert(reply->ready);
	cr_expect_eq(reply->status, 503);
	cr_expect(strstr(reply->body, "no daemon replies"), "%s", reply->body);
}

Test(serve_cache, there_is_a_limit_to_what_is_waited_for)
{
	struct route route;
	char *error, top[16];
	struct reply *reply = NULL;

	for (int i = 0; i <= CACHE_ENTRIES; i++) {
		cr_assert(route_find(&route, "/api/v1/qp", &error));
		snprintf(top, sizeof(top), "%d", i);
		cr_assert(route_take(&route, "top", top, &error));
		reply = cache_get(&cache, &route, now_ns);
		cr_expect_eq(reply != NULL, i < CACHE_ENTRIES);
	}
}

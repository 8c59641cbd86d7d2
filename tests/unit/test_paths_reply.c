// SPDX-License-Identifier: BSD-2-Clause
/* The verb `paths` and the paths in `status`, over pairs that a test makes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "core/core.h"
#include "paths/internal.h"
#include "replies.h"

#define SECOND 1000000000ull

static struct config config;
static struct core core = {.config = &config};
static struct paths paths;
static struct paths_pair *pair;

static void candidate(unsigned int id, uint16_t sport)
{
	struct candidate *path = &pair->candidates[id];

	paths_candidate_clear(path, sport);
	path->facts.interval_ns = 1000000;
	paths.map[2].paths[id].sport = sport;
	paths.map[2].paths[id].backup = ESC_PATH_NONE;
}

static void setup(void)
{
	struct esc_path_key key;

	config.paths.per_peer = 8;
	memset(&paths, 0, sizeof(paths));
	paths.core = &core;
	paths.facts.on = true;
	paths.map = calloc(ESC_PATH_SLOTS_MAX, sizeof(*paths.map));
	cr_assert_eq(pathsend_new(&paths.send), 0);
	address_parse("10.0.0.1", &key.src);
	address_parse("10.0.0.2", &key.dst);
	pair = paths_pair_new(&paths, 2, &key, 0, "h2", time_local_ns());
	cr_assert_not_null(pair);
	pair->replied_ns = pair->since_ns;
	candidate(0, 50000);
	candidate(5, 50005);
	paths.by_slot[2] = pair;
	paths.facts.pairs = 1;
}

static void teardown(void)
{
	paths_pair_forget(pair);
	pathsend_free(paths.send);
	free(paths.map);
}

TestSuite(paths_reply, .init = setup, .fini = teardown);

static json_t *reply(const char *args, struct request *request)
{
	return replies_get(paths_verb_handlers, &paths, "paths", args, request);
}

static json_t *result(const char *args)
{
	struct request request;
	json_t *object = reply(args, &request);

	cr_assert_not_null(object, "%s: %s", args, request.error);
	return object;
}

Test(paths_reply, candidates_of_each_pair)
{
	json_t *all, *list, *one;

	pair->candidates[0].facts.backup = 5;
	pair->candidates[0].facts.deadline_ns = 3000000;
	pair->candidates[0].facts.qps = 2;
	paths.map[2].paths[0].probes = 9;
	paths.map[2].paths[0].replies = 7;
	paths.map[2].paths[0].diverted = 3;
	paths.map[2].paths[0].diverted_ns = 1;
	pathstat_add(&pair->candidates[0].out, 1, 5000, 40);
	pathstat_add(&pair->candidates[0].rtt, 1, 9000, 0);
	all = result("{}");
	list = json_object_get(all, "paths");
	cr_assert_eq(json_array_size(list), 2);
	one = json_array_get(list, 0);
	cr_expect_str_eq(json_text(one, "peer"), "h2");
	cr_expect_str_eq(json_text(one, "from"), "10.0.0.1");
	cr_expect_str_eq(json_text(one, "to"), "10.0.0.2");
	cr_expect_eq(json_count(one, "sport"), 50000);
	cr_expect_eq(json_count(one, "sent"), 9);
	cr_expect_eq(json_count(one, "replied"), 7);
	cr_expect_eq(json_count(one, "backup_sport"), 50005);
	cr_expect_eq(json_count(one, "dead_after_ns"), 3000000);
	cr_expect_eq(json_count(one, "diverted_packets"), 3);
	cr_expect(json_is_true(json_object_get(one, "diverted")));
	cr_expect(json_is_false(json_object_get(one, "standby")));
	cr_expect_str_eq(json_text(one, "state"), "up");
	cr_expect_eq(json_count(json_object_get(one, "owd_out_ns"), "floor"), 5000);
	cr_expect_null(json_object_get(one, "owd_in_ns"), "not known");
	cr_expect_null(json_object_get(one, "group"), "not known");
	one = json_array_get(list, 1);
	cr_expect_eq(json_count(one, "path_id"), 5);
	cr_expect_str_eq(json_text(one, "state"), "suspect", "never replied to");
	cr_expect_null(json_object_get(one, "dead_after_ns"));
	cr_expect_null(json_object_get(one, "diverted_packets"));
	one = json_array_get(json_object_get(all, "pairs"), 0);
	cr_expect_eq(json_count(one, "candidates"), 2);
	cr_expect(json_is_true(json_object_get(one, "replying")));
	json_decref(all);
}

Test(paths_reply, one_peer)
{
	struct request request;
	json_t *object = result("{\"peer\":\"h2\"}");

	cr_expect_eq(json_array_size(json_object_get(object, "pairs")), 1);
	json_decref(object);
	object = result("{\"peer\":\"10.0.0.2\"}");
	cr_expect_eq(json_array_size(json_object_get(object, "pairs")), 1);
	json_decref(object);
	cr_expect_null(reply("{\"peer\":\"h9\"}", &request));
	cr_expect_eq(request.exit, 2);
	cr_expect(strstr(request.error, "`h9`"), "%s", request.error);
	free(request.error);
	cr_expect_null(reply("{\"peer\":7}", &request));
	cr_expect_eq(request.exit, 2);
	free(request.error);
}

Test(paths_reply, why_there_is_nothing)
{
	json_t *status = json_object(), *object;

	pair->replied_ns = 0;
	pair->since_ns -= 3 * SECOND;
	pair->sending = (struct pathsend_pair *)&core; /* never read */
	snprintf(paths.facts.note, sizeof(paths.facts.note), "raw sockets");
	object = result("{}");
	cr_expect_str_eq(json_text(object, "note"), "raw sockets");
	cr_expect(strstr(json_text(json_array_get(json_object_get(object, "pairs"), 0), "note"),
			 "is escapementd running"));
	json_decref(object);
	paths_put_status(&paths, status);
	object = json_object_get(status, "paths");
	cr_expect_eq(json_count(object, "up"), 2);
	cr_expect_eq(json_count(object, "peers"), 1);
	cr_expect_str_eq(json_text(object, "note"), "raw sockets");
	json_decref(status);
}

// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>

#include "fakes.h"
#include "api/internal.h"
#include "api/verbs.h"

static struct fake_world the_daemon;

static void begin(void)
{
	cr_assert_eq(fake_daemon(&the_daemon, "interfaces: [{name: eth1}]\n"), 0);
	fake_port("eth1");
	fake_qp(ESC_DIRECTION_TX, "10.0.0.1", "10.0.0.2", 17)->qp.bytes = 5;
	fake_qp(ESC_DIRECTION_RX, "10.0.0.2", "10.0.0.1", 18)->qp.bytes = 9;
}

static void end(void)
{
	events_free(the_daemon.ledger);
	config_free(the_daemon.config);
}

TestSuite(request, .init = begin, .fini = end);

static enum access client_may = ACCESS_CONTROL;

static json_t *answer(const char *line, bool *follow)
{
	struct request reply;
	json_t *object;

	request_reply(&the_daemon.core, line, strlen(line), client_may, &reply);
	cr_assert_not_null(reply.text, "%s", line);
	cr_assert_eq(reply.text[reply.bytes - 1], '\n');
	cr_assert_eq(strchr(reply.text, '\n'), reply.text + reply.bytes - 1, "one line");
	object = json_loads(reply.text, 0, NULL);
	cr_assert_not_null(object, "%s", reply.text);
	if (follow)
		*follow = reply.follow;
	free(reply.text);
	return object;
}

/* The result of a good request (new reference). */
static json_t *result(const char *line)
{
	json_t *object = answer(line, NULL), *part = json_object_get(object, "result");

	cr_assert(json_is_true(json_object_get(object, "ok")), "%s", line);
	json_incref(part);
	json_decref(object);
	return part;
}

static void expect_refusal(const char *line, int code, const char *word)
{
	json_t *object = answer(line, NULL);
	const char *error = json_string_value(json_object_get(object, "error"));

	cr_expect(json_is_false(json_object_get(object, "ok")), "%s", line);
	cr_expect_eq(json_integer_value(json_object_get(object, "exit")), code, "%s", line);
	cr_assert_not_null(error);
	cr_expect(strstr(error, word), "%s: lacks \"%s\": %s", line, word, error);
	json_decref(object);
}

Test(request, misuse_has_an_error_reply)
{
	expect_refusal("", 2, "JSON");
	expect_refusal("garbage", 2, "JSON");
	expect_refusal("[]", 2, "verb");
	expect_refusal("{}", 2, "verb");
	expect_refusal("{\"verb\":7}", 2, "verb");
	expect_refusal("{\"verb\":\"statsu\"}", 2, "`status`");
	expect_refusal("{\"verb\":\"zzz\"}", 2, "zzz");
	expect_refusal("{\"verb\":\"fabric\"}", 2, "`fabric` is not a verb");
	expect_refusal("{\"verb\":\"qp\",\"args\":{\"kye\":\"a\"}}", 2, "did you mean `key`");
	expect_refusal("{\"verb\":\"failover\",\"args\":{\"what\":\"dummy add\"}}", 2,
		       "without the daemon");
	expect_refusal("{\"verb\":\"qp\",\"args\":[]}", 2, "args");
	expect_refusal("{\"verb\":\"qp\",\"args\":{\"key\":1}}", 2, "key");
	expect_refusal("{\"verb\":\"qp\",\"args\":{\"sort\":\"x\"}}", 2, "bytes, packets");
	expect_refusal("{\"verb\":\"qp\",\"args\":{\"top\":-1}}", 2, "top");
	expect_refusal("{\"verb\":\"qp\",\"args\":{\"key\":\"/x\"}}", 2, "/x");
	expect_refusal("{\"verb\":\"events\",\"args\":{\"follow\":1}}", 2, "follow");
	expect_refusal("{\"verb\":\"mode\",\"args\":{\"mode\":\"x\"}}", 2, "observe");
	expect_refusal("{\"verb\":\"mode\"}", 2, "observe");
	/* A quoted word that is cut inside a character. */
	expect_refusal("{\"verb\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa9\xc3\xa9\"}", 2,
		       "shown");
}

Test(request, qps_are_filtered_sorted_and_cut)
{
	json_t *all = result("{\"verb\":\"qp\"}");
	json_t *list = json_object_get(all, "qps"), *one, *first;

	cr_assert_eq(json_array_size(list), 2);
	first = json_array_get(list, 0);
	cr_expect_eq(json_integer_value(json_object_get(first, "dest_qpn")), 18, "most bytes");
	cr_expect_str_eq(json_string_value(json_object_get(first, "interface")), "eth1");
	cr_expect_eq(json_integer_value(json_object_get(all, "tracked")), 2);
	cr_expect_null(json_object_get(all, "not_shown"));
	json_decref(all);
	one = result("{\"verb\":\"qp\",\"args\":{\"key\":\"17\"}}");
	cr_expect_eq(json_array_size(json_object_get(one, "qps")), 1);
	json_decref(one);
	one = result("{\"verb\":\"qp\",\"args\":{\"top\":1}}");
	cr_expect_eq(json_array_size(json_object_get(one, "qps")), 1);
	cr_expect_eq(json_integer_value(json_object_get(one, "not_shown")), 1);
	json_decref(one);
	one = result("{\"verb\":\"qp\",\"args\":{\"key\":\"no such\"}}");
	cr_expect_eq(json_array_size(json_object_get(one, "qps")), 0);
	json_decref(one);
}

Test(request, events_and_their_followers)
{
	json_t *object;
	bool follow;

	events_add(the_daemon.ledger,
		   &(struct event){.kind = &(struct event_kind){.name = "k"}, .subject = "s"});
	object = result("{\"verb\":\"events\"}");
	cr_expect_eq(json_array_size(json_object_get(object, "events")), 1);
	json_decref(object);
	object = result("{\"verb\":\"events\",\"args\":{\"since_ns\":9000000000000000000}}");
	cr_expect_eq(json_array_size(json_object_get(object, "events")), 0);
	json_decref(object);
	object = answer("{\"verb\":\"events\",\"args\":{\"follow\":true}}", &follow);
	cr_expect(follow);
	cr_expect_eq(json_array_size(json_object_get(json_object_get(object, "result"), "events")),
		     0, "a follower gets future events");
	json_decref(object);
	object = answer("{\"verb\":\"events\",\"args\":{\"follow\":true,\"since_ns\":0}}", &follow);
	cr_expect_eq(json_array_size(json_object_get(json_object_get(object, "result"), "events")),
		     1);
	json_decref(object);
	object = answer("{\"verb\":\"events\",\"args\":{\"follow\":true,\"since_ns\":\"x\"}}",
			&follow);
	cr_expect(!follow, "a refused request follows nothing");
	json_decref(object);
}

Test(request, the_switches)
{
	json_decref(result("{\"verb\":\"off\"}"));
	cr_expect(fake.off);
	json_decref(result("{\"verb\":\"mode\",\"args\":{\"mode\":\"observe\"}}"));
	cr_expect(!fake.off);
	json_decref(result("{\"verb\":\"reload\"}"));
	cr_expect(!fake.reload_forced);
	json_decref(result("{\"verb\":\"reload\",\"args\":{\"force\":true}}"));
	cr_expect(fake.reload_forced);
	fake.reload_error = -EINVAL;
	expect_refusal("{\"verb\":\"reload\"}", 1, "reload refused");
}

Test(request, the_mode)
{
	json_t *object = result("{\"verb\":\"mode\",\"args\":{\"mode\":\"steer\"}}");

	cr_expect_str_eq(json_string_value(json_object_get(object, "mode")), "steer");
	json_decref(object);
	object = result("{\"verb\":\"status\"}");
	cr_expect_str_eq(json_string_value(json_object_get(object, "mode")), "steer");
	json_decref(object);
	fake.off = true;
	json_decref(result("{\"verb\":\"mode\",\"args\":{\"mode\":\"observe\","
			   "\"interfaces\":[\"eth1\"]}}"));
	cr_expect(fake.off, "one interface's mode is not the kill switch");
	cr_expect_eq(fake.steer_ports, 0);
	fake.steer_error = -EPERM;
	expect_refusal("{\"verb\":\"mode\",\"args\":{\"mode\":\"steer\"}}", 1, "steering refused");
}

static const char *find(const char *first, const char *second, char **error)
{
	char *words[] = {(char *)first, (char *)second};
	size_t used;
	const struct verb *verb = verbs_find(words, second ? 2 : 1, &used, error);

	return verb ? verb->name : "";
}

Test(verbs, prefixes)
{
	char *error = NULL;

	cr_expect_str_eq(find("q", NULL, &error), "qp");
	cr_expect_str_eq(find("stat", NULL, &error), "status");
	cr_expect_str_eq(find("mode", NULL, &error), "mode");
	cr_expect_str_eq(find("mode", "observe", &error), "mode");
	cr_expect_str_eq(find("steer", "pl", &error), "steer plan");
	cr_expect_str_eq(find("pace", "set", &error), "pace set",
			 "a whole word before a beginning");
	cr_expect_str_eq(find("pace", "setu", &error), "pace setup-fq");
	cr_expect_str_eq(find("st", NULL, &error), "");
	cr_expect(strstr(error, "`status` or `steer`"), "%s", error);
	cr_expect_str_eq(find("steer", "pln", &error), "");
	cr_expect(strstr(error, "did you mean `steer plan`"), "%s", error);
	cr_expect_str_eq(find("config", NULL, &error), "");
	cr_expect(strstr(error, "followed by `show`"), "%s", error);
	cr_expect_null(verbs_of_request("stat", NULL, &error), "a request has the whole name");
	cr_expect(strstr(error, "did you mean `status`"), "%s", error);
	cr_expect_str_eq(find("", NULL, &error), "");
	free(error);
}

/* A new verb is for root until its table says that it changes nothing. */
Test(request, the_group_may_use_what_changes_nothing)
{
	static const char reads[] =
		" status health findings events report config.show features version clock "
		"clock.wait peers mesh pairs failover links pace paths qp top steer steer.plan job "
		"metrics serve sysdump baseline topo topo.diff topo.sla place "
		"cycles colocation ";
	const struct verb *verb = NULL;
	char name[64];

	while ((verb = verbs_next(verb))) {
		snprintf(name, sizeof(name), " %s ", verb->name);
		for (char *at = name + 1; at[1]; at++)
			*at = *at == ' ' ? '.' : *at;
		cr_expect_eq(verb->reads, strstr(reads, name) != NULL, "%s", name);
	}
	client_may = ACCESS_READ;
	json_decref(result("{\"verb\":\"status\"}"));
	json_decref(result("{\"verb\":\"config\"}"));
	json_decref(result("{\"verb\":\"events\",\"args\":{\"follow\":true}}"));
	expect_refusal("{\"verb\":\"off\"}", 4, "`off` needs root");
	expect_refusal("{\"verb\":\"reload\"}", 4, "needs root");
	expect_refusal("{\"verb\":\"mode\",\"args\":{\"mode\":\"steer\"}}", 4, "needs root");
	expect_refusal("{\"verb\":\"pace\",\"args\":{\"what\":\"on\"}}", 4, "`pace on` needs root");
	expect_refusal("{\"verb\":\"steer\",\"args\":{\"what\":\"auto\",\"mode\":\"on\"}}", 4,
		       "needs root");
	expect_refusal("{\"verb\":\"pace\",\"args\":{\"what\":\"tcp\",\"mode\":\"off\"}}", 4,
		       "needs root");
	expect_refusal("{\"verb\":\"nothing\"}", 2, "is not a verb");
	client_may = ACCESS_CONTROL;
}

Test(request, access_follows_from_credentials)
{
	static const struct {
		uid_t uid;
		gid_t gid, groups[2];
		gid_t group;
		enum access access;
	} cases[] = {
		{0, 0, {}, 50, ACCESS_CONTROL},		{0, 0, {}, -1, ACCESS_CONTROL},
		{77, 1, {}, 50, ACCESS_CONTROL},	{1000, 1000, {4, 50}, 50, ACCESS_READ},
		{1000, 50, {}, 50, ACCESS_READ},	{1000, 1000, {4, 5}, 50, ACCESS_NONE},
		{1000, 1000, {4, 50}, -1, ACCESS_NONE}, {1000, 0, {}, 50, ACCESS_NONE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ucred client = {.uid = cases[i].uid, .gid = cases[i].gid};

		cr_expect_eq(access_of(&client, cases[i].groups, 2, 77, cases[i].group),
			     cases[i].access, "case %zu", i);
	}
}

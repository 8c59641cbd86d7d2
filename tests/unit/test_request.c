// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>

#include "fakes.h"
#include "api/request.h"
#include "api/verbs.h"

static struct daemon the_daemon;

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

static json_t *answer(const char *line, bool *follow)
{
	struct reply reply;
	json_t *object;

	request_reply(&the_daemon.core, line, strlen(line), &reply);
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

Test(request, misuse_is_answered)
{
	expect_refusal("", 2, "JSON");
	expect_refusal("garbage", 2, "JSON");
	expect_refusal("[]", 2, "verb");
	expect_refusal("{}", 2, "verb");
	expect_refusal("{\"verb\":7}", 2, "verb");
	expect_refusal("{\"verb\":\"statsu\"}", 2, "`status`");
	expect_refusal("{\"verb\":\"zzz\"}", 2, "zzz");
	expect_refusal("{\"verb\":\"topo\"}", 2, "`topo` is not a verb");
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
	cr_expect_null(json_object_get(all, "left_out"));
	json_decref(all);
	one = result("{\"verb\":\"qp\",\"args\":{\"key\":\"17\"}}");
	cr_expect_eq(json_array_size(json_object_get(one, "qps")), 1);
	json_decref(one);
	one = result("{\"verb\":\"qp\",\"args\":{\"top\":1}}");
	cr_expect_eq(json_array_size(json_object_get(one, "qps")), 1);
	cr_expect_eq(json_integer_value(json_object_get(one, "left_out")), 1);
	json_decref(one);
	one = result("{\"verb\":\"qp\",\"args\":{\"key\":\"no such\"}}");
	cr_expect_eq(json_array_size(json_object_get(one, "qps")), 0);
	json_decref(one);
}

Test(request, events_and_their_followers)
{
	json_t *object;
	bool follow;

	events_record(the_daemon.ledger, "k", "s", NULL, NULL, NULL, NULL);
	object = result("{\"verb\":\"events\"}");
	cr_expect_eq(json_array_size(json_object_get(object, "events")), 1);
	json_decref(object);
	object = result("{\"verb\":\"events\",\"args\":{\"since_ns\":9000000000000000000}}");
	cr_expect_eq(json_array_size(json_object_get(object, "events")), 0);
	json_decref(object);
	object = answer("{\"verb\":\"events\",\"args\":{\"follow\":true}}", &follow);
	cr_expect(follow);
	cr_expect_eq(json_array_size(json_object_get(json_object_get(object, "result"), "events")),
		     0, "who follows wants what is to come");
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
	fake.reload_error = -EINVAL;
	expect_refusal("{\"verb\":\"reload\"}", 1, "reload refused");
}

#define STEER(args) "{\"verb\":\"steer\",\"args\":{" args "}}"
#define WHICH "\"dst\":\"10.0.0.2\",\"qpn\":17"

Test(request, steering_is_ordered)
{
	json_decref(result(STEER("")));
	json_decref(result(STEER("\"what\":\"set\"," WHICH ",\"sport\":50000")));
	cr_expect_str_eq(fake.order_dst, "10.0.0.2");
	cr_expect_eq(fake.order.qpn, 17);
	cr_expect_eq(fake.order.sport, 50000);
	cr_expect_null(fake.order.src);
	cr_expect(!fake.order.label && !fake.order.now);
	cr_expect_eq(fake.order.hold_ns, 1000000);
	cr_expect_eq(fake.order.within_ns, 500000000);
	json_decref(result(STEER("\"what\":\"set\"," WHICH ",\"flow_label\":0,\"force\":true,"
				 "\"flowlet_gap_ns\":7,\"deadline_ns\":8,\"src\":\"fd00::1\"")));
	cr_expect(fake.order.label && fake.order.now);
	cr_expect_eq(fake.order.sport, 0);
	cr_expect_eq(fake.order.hold_ns, 7);
	cr_expect_eq(fake.order.within_ns, 8);
	json_decref(result(STEER("\"what\":\"clear\"," WHICH)));
	cr_expect(!fake.cleared_all);
	json_decref(result(STEER("\"what\":\"clear\",\"all\":true")));
	cr_expect(fake.cleared_all);
	json_decref(result(STEER("\"what\":\"auto\",\"state\":\"on\"")));
	cr_expect(fake.steer.by_itself);
	json_decref(result(STEER("\"what\":\"plan\"")));
	json_decref(result(STEER("\"what\":\"auto\",\"state\":\"off\"")));
	cr_expect(!fake.steer.by_itself);
	fake.steer_error = -EPERM;
	expect_refusal(STEER("\"what\":\"set\"," WHICH ",\"sport\":50000"), 1, "steering refused");
	expect_refusal("{\"verb\":\"mode\",\"args\":{\"mode\":\"steer\"}}", 1, "steering refused");
}

Test(request, steering_that_is_not_understood)
{
	expect_refusal(STEER("\"what\":\"auto\""), 2, "one of on, off");
	expect_refusal(STEER("\"what\":\"auto\",\"state\":\"maybe\""), 2, "one of on, off");
	expect_refusal(STEER("\"what\":\"auto\",\"state\":1"), 2, "one of on, off");
	expect_refusal(STEER("\"what\":\"sett\""), 2, "steer set");
	expect_refusal(STEER("\"what\":7"), 2, "what");
	expect_refusal(STEER("\"what\":\"set\",\"sport\":50000"), 2, "--dst");
	expect_refusal(STEER("\"what\":\"set\",\"qpn\":1,\"sport\":50000"), 2, "--dst");
	expect_refusal(STEER("\"what\":\"set\"," WHICH), 2, "--sport");
	expect_refusal(STEER("\"what\":\"set\"," WHICH ",\"sport\":65536"), 2, "65535");
	expect_refusal(STEER("\"what\":\"set\"," WHICH ",\"sport\":-1"), 2, "sport");
	expect_refusal(STEER("\"what\":\"set\"," WHICH ",\"flow_label\":1048576"), 2, "flow_label");
	expect_refusal(STEER("\"what\":\"set\"," WHICH ",\"force\":1"), 2, "force");
	expect_refusal(STEER("\"what\":\"clear\",\"all\":1"), 2, "all");
	expect_refusal(STEER("\"what\":\"clear\""), 2, "--dst");
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
}

/* A request that gives what the table requires. */
static json_t *request_of(const struct verb *verb)
{
	char name[64];
	const char *what = strchr(verb->request ? verb->request : verb->name, ' ');
	json_t *args = json_object(), *one;

	snprintf(name, sizeof(name), "%s", verb->request ? verb->request : verb->name);
	name[strcspn(name, " ")] = '\0';
	if (what)
		json_object_set_new(args, "what", json_string(what + 1));
	for (const struct verb_arg *arg = verb->args; arg && arg->name; arg++) {
		if (!arg->required || arg->local)
			continue;
		one = arg->type == VERB_CHOICE ? json_stringn(arg->choices, strcspn(arg->choices, "|"))
					       : json_string("eth1");
		json_object_set_new(args, arg->key, one);
	}
	return json_pack("{s:s, s:o}", "verb", name, "args", args);
}

/* What the tables of verbs promise is replied to, or refused with a reason of its own. */
Test(request, every_verb_has_a_reply)
{
	const struct verb *verb = NULL;

	while ((verb = verbs_next(verb))) {
		json_t *request, *object;
		const char *error;
		char *line;

		if (verb->place == VERB_HERE || !strcmp(verb->name, "features"))
			continue; /* asks the kernel */
		if (!strncmp(verb->name, "pace", 4) || !strcmp(verb->name, "failover"))
			continue; /* tests/unit/test_pace_reply.c; tests/lab/test_nic_failover */
		request = request_of(verb);
		line = json_dumps(request, JSON_COMPACT);
		object = answer(line, NULL);
		error = json_string_value(json_object_get(object, "error"));
		cr_expect(!error || (!strstr(error, "not a verb") && !strstr(error, "has no")),
			  "%s: %s", line, error);
		cr_expect(json_is_true(json_object_get(object, "ok")) ||
				  !strcmp(verb->name, "steer set") ||
				  !strcmp(verb->name, "steer clear"),
			  "%s: %s", line, error);
		json_decref(object);
		json_decref(request);
		free(line);
	}
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
	cr_expect_str_eq(find("pace", "set", &error), "pace set", "a whole word before a beginning");
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

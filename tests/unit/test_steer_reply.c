// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of steering: their arguments, and what they call. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "qp/qp.h"
#include "steer/internal.h"
#include "replies.h"

static struct {
	struct steer_args order; /* the newest of `steer set` or `steer clear` */
	char dst[64];		  /* copied: the order borrows it */
	bool cleared_all, automatic;
	int error; /* 0 or -errno */
} fake;

int steer_set(struct steer *steer, const struct steer_args *order, json_t **result, char **error)
{
	(void)steer;
	fake.order = *order;
	snprintf(fake.dst, sizeof(fake.dst), "%s", order->dst);
	*result = fake.error ? NULL : json_object();
	return fake.error ? explain(error, fake.error, "steering refused") : 0;
}

int steer_clear(struct steer *steer, const struct steer_args *order, json_t **result, char **error)
{
	int err = steer_set(steer, order, result, error);

	json_decref(*result);
	*result = err ? NULL : json_array();
	return err;
}

void steer_clear_all(struct steer *steer, bool force, json_t **result)
{
	(void)steer;
	(void)force;
	fake.cleared_all = true;
	*result = json_array();
}

uint16_t steer_ports(const struct steer *steer)
{
	return steer->control->steer_ports;
}

int steer_set_automatic(struct steer *steer, bool on, const char *by, char **error)
{
	(void)steer;
	(void)by;
	if (fake.error)
		return explain(error, fake.error, "steering refused");
	fake.automatic = on;
	return 0;
}

void steer_put_ns(json_t *object, const char *key, double ns)
{
	json_put_real(object, key, ns);
}

void steer_put_rate(json_t *object, const char *key, double Bps)
{
	json_put_real(object, key, Bps);
}

json_t *steer_route_json(const struct pair *pair, uint32_t route, double delay_ns)
{
	(void)pair;
	(void)route;
	(void)delay_ns;
	return NULL;
}

json_t *steer_plan(struct steer *steer)
{
	(void)steer;
	return json_pack("{s:[]}", "pairs");
}

const char *dataplane_port_name(const struct dataplane *dataplane, unsigned int index)
{
	(void)dataplane;
	return index == 2 ? "eth1" : NULL;
}

static struct esc_control control;
static struct steer steer;

static void setup(void)
{
	memset(&fake, 0, sizeof(fake));
	memset(&control, 0, sizeof(control));
	steer = (struct steer){.control = &control, .steers_fd = -1, .qps_fd = -1};
}

static void teardown(void)
{
	free(steer.rules);
	free(steer.autos);
	free(steer.penalties);
}

TestSuite(steer_reply, .init = setup, .fini = teardown);

/* @verb: "steer set" */
static json_t *reply(const char *verb, const char *args, struct request *request)
{
	return replies_get(steer_verb_handlers, &steer, verb, args, request);
}

static json_t *result(const char *verb, const char *args)
{
	struct request request;
	json_t *object = reply(verb, args, &request);

	cr_assert_not_null(object, "%s %s: %s", verb, args, request.error);
	return object;
}

static void expect_refusal(const char *verb, const char *args, int code, const char *word)
{
	struct request request;

	cr_expect_null(reply(verb, args, &request), "%s", args);
	cr_expect_eq(request.exit, code, "%s", args);
	cr_assert_not_null(request.error, "%s", args);
	cr_expect(strstr(request.error, word), "%s: lacks \"%s\": %s", args, word, request.error);
	free(request.error);
}

#define WHICH "\"dst\":\"10.0.0.2\",\"qpn\":17"

Test(steer_reply, orders)
{
	json_decref(result("steer set", "{" WHICH ",\"sport\":50000}"));
	cr_expect_str_eq(fake.dst, "10.0.0.2");
	cr_expect_eq(fake.order.qpn, 17);
	cr_expect_eq(fake.order.sport, 50000);
	cr_expect_null(fake.order.src);
	cr_expect(!fake.order.label && !fake.order.force);
	cr_expect_eq(fake.order.flowlet_gap_ns, 1000000);
	cr_expect_eq(fake.order.deadline_ns, 500000000);
	json_decref(result("steer set",
			   "{" WHICH ",\"flow_label\":0,\"force\":true,"
			   "\"flowlet_gap_ns\":7,\"deadline_ns\":8,\"src\":\"fd00::1\"}"));
	cr_expect(fake.order.label && fake.order.force);
	cr_expect_eq(fake.order.sport, 0);
	cr_expect_eq(fake.order.flowlet_gap_ns, 7);
	cr_expect_eq(fake.order.deadline_ns, 8);
	json_decref(result("steer clear", "{" WHICH "}"));
	cr_expect(!fake.cleared_all);
	json_decref(result("steer clear", "{\"all\":true}"));
	cr_expect(fake.cleared_all);
	json_decref(result("steer auto", "{\"state\":\"on\"}"));
	cr_expect(fake.automatic);
	json_decref(result("steer plan", "{}"));
	json_decref(result("steer auto", "{\"state\":\"off\"}"));
	cr_expect(!fake.automatic);
	fake.error = -EPERM;
	expect_refusal("steer set", "{" WHICH ",\"sport\":50000}", 1, "steering refused");
	expect_refusal("steer auto", "{\"state\":\"on\"}", 1, "steering refused");
}

Test(steer_reply, what_is_not_understood)
{
	expect_refusal("steer auto", "{}", 2, "one of on, off");
	expect_refusal("steer auto", "{\"state\":\"maybe\"}", 2, "one of on, off");
	expect_refusal("steer auto", "{\"state\":1}", 2, "one of on, off");
	expect_refusal("steer set", "{\"sport\":50000}", 2, "--dst");
	expect_refusal("steer set", "{\"qpn\":1,\"sport\":50000}", 2, "--dst");
	expect_refusal("steer set", "{" WHICH "}", 2, "--sport");
	expect_refusal("steer set", "{" WHICH ",\"sport\":65536}", 2, "65535");
	expect_refusal("steer set", "{" WHICH ",\"sport\":-1}", 2, "sport");
	expect_refusal("steer set", "{" WHICH ",\"flow_label\":1048576}", 2, "flow_label");
	expect_refusal("steer set", "{" WHICH ",\"force\":1}", 2, "force");
	expect_refusal("steer clear", "{\"all\":1}", 2, "all");
	expect_refusal("steer clear", "{}", 2, "--dst");
}

Test(steer_reply, the_list)
{
	struct esc_qp_key key = {.dest_qpn = 17, .direction = ESC_DIRECTION_TX, .port = 2};
	struct rule *rule = steer_rule_add(&steer, &key);
	struct qp_entry entry = {.key = key, .qp.steer.sport = 51000};
	json_t *object, *one, *qp = json_object();

	rule->own_sport = 50000;
	rule->now.sport = rule->want.sport = 51000;
	key.dest_qpn = 18;
	steer_auto_add(&steer, &key)->rule.state = RULE_TRACKING;
	control.steer_ports = 4;
	steer.penalties = calloc(2, sizeof(*steer.penalties));
	steer.penalties[0].until_local_ns = time_local_ns() + 5000000000ull;
	steer.penalties[0].why = VERIFY_SILENT;
	steer.penalties[1].until_local_ns = 1; /* over */
	steer.penalty_count = 2;
	object = result("steer", "{}");
	cr_expect_str_eq(json_text(object, "mode"), "steer");
	cr_expect_str_eq(
		json_string_value(json_array_get(json_object_get(object, "interfaces"), 0)),
		"eth1");
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
	steer_put_qp(&steer, &entry, qp);
	cr_expect_eq(json_count(qp, "steered_sport"), 51000);
	json_object_clear(qp);
	entry.key.dest_qpn = 99;
	steer_put_qp(&steer, &entry, qp);
	cr_expect_eq(json_object_size(qp), 0, "its rule has ended");
	json_decref(qp);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The verb `pace`: its arguments, and what it calls. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "pace/internal.h"
#include "replies.h"

static struct {
	bool paced;	 /* by the newest pace_set_mode() */
	uint32_t weight; /* the newest of `pace set` */
	uint64_t threshold_ns;
	struct pace_assignment pace_assigned;
	const char *pace_fq; /* the newest of `pace setup-fq` */
	int pace_error;
} fake;

int pace_set_mode(void *self, bool on, const json_t *interfaces, const char *by, char **error)
{
	(void)self;
	(void)interfaces;
	(void)by;
	if (on && fake.pace_error)
		return explain(error, fake.pace_error, "cannot pace: eth1 has fq_codel");
	fake.paced = on;
	return 0;
}

int pace_set_class(struct pace *pace, const char *name, uint32_t weight, uint64_t threshold_ns,
		   char **error)
{
	(void)name;
	(void)pace;
	(void)error;
	fake.weight = weight;
	fake.threshold_ns = threshold_ns;
	return 0;
}

int pace_assign(struct pace *pace, const struct pace_assignment *want, json_t **result,
		char **error)
{
	(void)pace;
	(void)error;
	fake.pace_assigned = *want;
	*result = json_object();
	return 0;
}

int pace_setup_fq(struct pace *pace, const char *interface, bool on, char **error)
{
	(void)pace;
	(void)error;
	fake.pace_fq = on ? interface : NULL;
	return 0;
}

json_t *pace_show(struct pace *pace)
{
	(void)pace;
	return json_pack("{s:[]}", "interfaces");
}

static json_t *reply(const char *args, struct request *request)
{
	return replies_get(pace_verb_handlers, &(struct pace){}, "pace", args, request);
}

static json_t *result(const char *args)
{
	struct request request;
	json_t *object = reply(args, &request);

	cr_assert_not_null(object, "%s: %s", args, request.error);
	return object;
}

static void expect_refusal(const char *args, int code, const char *word)
{
	struct request request;

	cr_expect_null(reply(args, &request), "%s", args);
	cr_expect_eq(request.exit, code, "%s", args);
	cr_assert_not_null(request.error, "%s", args);
	cr_expect(strstr(request.error, word), "%s: lacks \"%s\": %s", args, word, request.error);
	free(request.error);
}

/* The table requires it, so the handler is not called without. */
static void expect_missing(const char *verb, const char *name)
{
	json_t *args = json_object();
	char *error = NULL;

	cr_expect(!verbs_check(verbs_named(verb), args, &error), "%s", verb);
	cr_expect(error && strstr(error, name), "%s: %s", verb, error);
	free(error);
	json_decref(args);
}

#define PACE(more) "{" more "}"
#define WHICH "\"dst\":\"10.0.0.2\",\"qpn\":17"

Test(pace_reply, pace)
{
	json_decref(result(PACE("\"what\":\"on\"")));
	cr_expect(fake.paced);
	json_decref(result(PACE("\"what\":\"off\"")));
	cr_expect(!fake.paced);
	json_decref(result(PACE("\"what\":\"set\",\"class\":\"a\",\"weight\":3")));
	cr_expect_eq(fake.weight, 3);
	cr_expect_eq(fake.threshold_ns, 0, "as it is");
	json_decref(result(PACE("\"what\":\"set\"," WHICH ",\"class\":\"b\"")));
	cr_expect_not_null(fake.pace_assigned.class);
	json_decref(result(PACE("\"what\":\"set\"," WHICH)));
	cr_expect_null(fake.pace_assigned.class, "as it fits");
	json_decref(result(PACE("\"what\":\"setup-fq\",\"interface\":\"eth1\"")));
	cr_expect_not_null(fake.pace_fq);
	fake.pace_error = -ENOTSUP;
	expect_refusal(PACE("\"what\":\"on\""), 1, "fq_codel");
	expect_refusal(PACE("\"what\":\"fast\""), 2, "setup-fq");
	expect_refusal(PACE("\"what\":\"set\""), 2, "--class");
	expect_refusal(PACE("\"what\":\"set\",\"class\":\"a\""), 2, "--weight");
	expect_refusal(PACE("\"what\":\"set\",\"class\":\"a\",\"weight\":16"), 2, "1 to 15");
	expect_refusal(PACE("\"what\":\"set\",\"class\":\"a\",\"threshold_ns\":1"), 2,
		       "threshold_ns");
	expect_refusal(PACE("\"what\":\"set\",\"qpn\":1,\"class\":\"a\""), 2, "--dst");
	expect_missing("pace setup-fq", "INTERFACE");
}

// SPDX-License-Identifier: BSD-2-Clause
/* The values of arguments: what they have to be, and the check of a request. */
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/explain.h"
#include "base/nearest.h"
#include "base/units.h"
#include "verbs.h"

#define ARGS_MOST 32

static bool is_choice(const char *choices, const char *text)
{
	size_t bytes = strlen(text);

	for (const char *at = choices; bytes && at; at = strchr(at, '|')) {
		at += *at == '|';
		if (!strncmp(at, text, bytes) && (at[bytes] == '|' || !at[bytes]))
			return true;
	}
	return false;
}

const char *verbs_should(const struct verb_arg *arg, char out[VERBS_SHOULD_BYTES])
{
	char least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];

	size_t used = 0;

	switch (arg->type) {
	case VERB_CHOICE:
		used = snprintf(out, VERBS_SHOULD_BYTES, "one of ");
		for (const char *at = arg->choices; *at && used + 3 < VERBS_SHOULD_BYTES; at++) {
			if (*at == '|')
				out[used++] = ',';
			out[used++] = *at == '|' ? ' ' : *at;
		}
		out[used] = '\0';
		return out;
	case VERB_COUNT:
		if (!arg->most)
			return "a whole number, such as 10";
		snprintf(out, VERBS_SHOULD_BYTES, "a whole number, %llu to %llu",
			 (unsigned long long)arg->least, (unsigned long long)arg->most);
		return out;
	case VERB_DURATION:
		if (!arg->most)
			return "a time with its unit, such as 50us or 30s";
		snprintf(out, VERBS_SHOULD_BYTES, "a time with its unit, %s to %s",
			 units_duration(least, arg->least), units_duration(most, arg->most));
		return out;
	case VERB_SINCE:
		return "how long ago (10min), a time (12:00, 2026-01-31T12:00:00) or @SECONDS";
	case VERB_ADDRESS:
		return "an IPv4 or IPv6 address";
	case VERB_INTERFACE:
		return "the name of an interface";
	case VERB_QP:
		return "a queue pair, SRC>DST/QPN as `escapement qp` shows it";
	case VERB_FLAG:
		return "true or false";
	case VERB_TEXT:
		break;
	}
	return "a text";
}

/* --- requests --- */

bool verbs_value_is_good(const struct verb_arg *arg, const json_t *value)
{
	const char *text = json_string_value(value);
	struct esc_address address;

	switch (arg->type) {
	case VERB_COUNT:
	case VERB_DURATION:
	case VERB_SINCE:
		return json_is_integer(value) && json_integer_value(value) >= 0 &&
		       (uint64_t)json_integer_value(value) >= arg->least &&
		       (!arg->most || (uint64_t)json_integer_value(value) <= arg->most);
	case VERB_FLAG:
		return json_is_boolean(value);
	case VERB_CHOICE:
		return text && is_choice(arg->choices, text);
	case VERB_ADDRESS:
		return text && address_parse(text, &address);
	case VERB_TEXT:
	case VERB_INTERFACE:
	case VERB_QP:
		break;
	}
	return text != NULL;
}

static bool check_value(const struct verb_arg *arg, const json_t *value, char **error)
{
	char should[VERBS_SHOULD_BYTES];
	bool good = verbs_value_is_good(arg, value);
	size_t i;
	json_t *one;

	if (arg->repeated) {
		good = json_is_array(value);
		json_array_foreach (value, i, one)
			good = good && verbs_value_is_good(arg, one);
	}
	if (!good)
		explain(error, 0, "argument `%s` should be %s%s", arg->key,
			arg->repeated ? "an array, each " : "", verbs_should(arg, should));
	return good;
}

static bool check_argument(const struct verb *verb, const char *key, const json_t *value,
			   char **error)
{
	const char *keys[ARGS_MOST], *near;
	size_t count = 0;

	if (!strcmp(key, "what") && strchr(verb->name, ' '))
		return true;
	verb_for_each_arg (arg, verb) {
		if (!arg->key || arg->local)
			continue;
		if (!strcmp(arg->key, key))
			return json_is_null(value) || check_value(arg, value, error);
		if (count < ARGS_MOST)
			keys[count++] = arg->key;
	}
	near = nearest_name(key, keys, count);
	explain(error, 0,
		near ? "`%s` takes no argument `%.40s`; did you mean `%s`?"
		     : "`%s` takes no argument `%.40s`%s",
		verb->name, key, near ? near : "");
	return false;
}

bool verbs_check(const struct verb *verb, const json_t *args, char **error)
{
	char should[VERBS_SHOULD_BYTES];
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)args, key, value)
		if (!check_argument(verb, key, value, error))
			return false;
	verb_for_each_arg (arg, verb) {
		const json_t *given = arg->key ? json_object_get(args, arg->key) : NULL;

		if (!arg->required || arg->local || (given && !json_is_null(given)))
			continue;
		explain(error, 0, "`%s` needs %s: %s", verb->name, arg->name,
			verbs_should(arg, should));
		return false;
	}
	return true;
}

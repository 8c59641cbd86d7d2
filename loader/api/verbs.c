// SPDX-License-Identifier: BSD-2-Clause
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/address.h"
#include "base/explain.h"
#include "base/units.h"
#include "colocation/colocation.h"
#include "place/place.h"
#include "topo/topo.h"

#define ARGS_MOST 32

#define CAPABILITY(name) extern const struct verb_set name##_verbs;
#include "capabilities.def"
#undef CAPABILITY

const struct verb_set *const verbs_sets[] = {
	&status_verbs,
#define CAPABILITY(name) &name##_verbs,
#include "capabilities.def"
#undef CAPABILITY
	&audit_verbs,  &topo_verbs, &place_verbs, &colocation_verbs, &general_verbs, NULL,
};

json_t *verbs_features(void)
{
	json_t *list = json_array();

	for (size_t i = 0; verbs_sets[i]; i++)
		if (verbs_sets[i]->features)
			verbs_sets[i]->features(list);
	return json_pack("{s:o}", "features", list);
}

const struct verb *verbs_next(const struct verb *last)
{
	bool found = !last;

	for (size_t i = 0; verbs_sets[i]; i++)
		for (const struct verb *verb = verbs_sets[i]->verbs; verb && verb->name; verb++) {
			if (found)
				return verb;
			found = verb == last;
		}
	return NULL;
}

const struct verb *verbs_named(const char *name)
{
	const struct verb *verb = NULL;

	while ((verb = verbs_next(verb)))
		if (!strcmp(verb->name, name))
			return verb;
	return NULL;
}

bool verbs_reads_alone(const struct verb *verb)
{
	return verb->reads && verb->place != VERB_HERE &&
	       !(verb->request && verbs_named(verb->request));
}

/* --- by the words of a command line --- */

void verbs_following(const char *prefix, struct verbs_words *out)
{
	size_t bytes = strlen(prefix);
	const struct verb *verb = NULL;

	out->count = 0;
	while ((verb = verbs_next(verb)) && out->count < VERBS_WORDS_MOST) {
		const char *rest = verb->name + bytes + (bytes != 0);
		char *text = out->text[out->count];
		size_t i = 0;

		if (strncmp(verb->name, prefix, bytes) || (bytes && verb->name[bytes] != ' '))
			continue;
		snprintf(text, VERBS_NAME_BYTES, "%.*s", (int)strcspn(rest, " "), rest);
		while (i < out->count && strcmp(out->list[i], text))
			i++;
		if (i == out->count)
			out->list[out->count++] = text;
	}
}

/* The one of @from that @word names, in full or by its beginning; NULL, or one of several that
 * begin so with *@other another of them. */
static const char *choose(const struct verbs_words *from, const char *word, const char **other)
{
	const char *found = NULL;
	size_t bytes = strlen(word);

	*other = NULL;
	for (size_t i = 0; bytes && i < from->count; i++) {
		if (strncmp(from->list[i], word, bytes))
			continue;
		if (!from->list[i][bytes]) {
			*other = NULL;
			return from->list[i];
		}
		if (!found)
			found = from->list[i];
		else if (!*other)
			*other = from->list[i];
	}
	return found;
}

/* @wrong: what follows @prefix instead; NULL: nothing does. */
static void explain_followed(const char *prefix, const struct verbs_words *from, const char *wrong,
			     char **error)
{
	char list[512] = "", begin[160] = "";
	size_t used = 0;

	if (wrong)
		snprintf(begin, sizeof(begin), "`%s %.40s` is not a verb; ", prefix, wrong);
	for (size_t i = 0; i < from->count && used < sizeof(list); i++) {
		const char *between = i + 1 == from->count ? " or " : ", ";

		used += snprintf(list + used, sizeof(list) - used, "%s`%s`", i ? between : "",
				 from->list[i]);
	}
	explain(error, 0, "%s`%s` is followed by %s", begin, prefix, list);
}

/* No verb: the sentence, with what was probably meant. */
static void explain_unknown(const struct verbs_words *from, const char *prefix, const char *word,
			    char **error)
{
	const char *near = nearest_name(word, from->list, from->count);

	if (near)
		explain(error, 0, "`%s%s%.40s` is not a verb; did you mean `%s%s%s`?", prefix,
			*prefix ? " " : "", word, prefix, *prefix ? " " : "", near);
	else if (*prefix)
		explain_followed(prefix, from, word, error);
	else
		explain(error, 0, "`%.40s` is not a verb; `escapement help` lists them", word);
}

const struct verb_arg *verbs_positional(const struct verb_arg *arg)
{
	while (arg && arg->name && verb_arg_is_option(arg))
		arg++;
	return arg && arg->name ? arg : NULL;
}

const struct verb *verbs_find(char *const *words, size_t count, size_t *used, char **error)
{
	char name[VERBS_NAME_BYTES] = "";
	const struct verb *verb = NULL;
	struct verbs_words next;

	*error = NULL;
	verbs_following(name, &next);
	for (*used = 0; *used < count && next.count; ++*used) {
		const char *word = words[*used], *other, *found = choose(&next, word, &other);

		if (!found && verb && verbs_positional(verb->args))
			break; /* its first argument */
		if (other)
			explain(error, 0, "`%.40s` could be `%s` or `%s`; write more of it", word,
				found, other);
		else if (!found)
			explain_unknown(&next, name, word, error);
		if (*error)
			return NULL;
		text_append(name, sizeof(name), " ", found);
		verb = verbs_named(name);
		verbs_following(name, &next);
	}
	if (!verb)
		explain_followed(name, &next, NULL, error);
	return verb;
}

/* --- the values of arguments --- */

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
	static const char *const should[] = {
		[VERB_TEXT] = "a text",
		[VERB_COUNT] = "a whole number, such as 10",
		[VERB_DURATION] = "a time with its unit, such as 50us or 30s",
		[VERB_SINCE] =
			"how long ago (10min), a time (12:00, 2026-01-31T12:00:00) or @SECONDS",
		[VERB_ADDRESS] = "an IPv4 or IPv6 address",
		[VERB_INTERFACE] = "the name of an interface",
		[VERB_QP] = "a queue pair, SRC>DST/QPN as `escapement qp` shows it",
		[VERB_FLAG] = "true or false",
	};
	char least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];
	size_t used;

	if (arg->type == VERB_CHOICE) {
		used = snprintf(out, VERBS_SHOULD_BYTES, "one of ");
		for (const char *at = arg->choices; *at && used + 3 < VERBS_SHOULD_BYTES; at++) {
			if (*at == '|')
				out[used++] = ',';
			out[used++] = *at == '|' ? ' ' : *at;
		}
		out[used] = '\0';
	} else if (arg->type == VERB_COUNT && arg->most) {
		snprintf(out, VERBS_SHOULD_BYTES, "a whole number, %llu to %llu",
			 (unsigned long long)arg->least, (unsigned long long)arg->most);
	} else if (arg->type == VERB_DURATION && arg->most) {
		snprintf(out, VERBS_SHOULD_BYTES, "a time with its unit, %s to %s",
			 units_duration(least, arg->least), units_duration(most, arg->most));
	} else {
		return should[arg->type];
	}
	return out;
}

bool verbs_value_is_good(const struct verb_arg *arg, const json_t *value)
{
	const char *text = json_string_value(value);
	struct esc_address address;
	json_int_t number;

	switch (arg->type) {
	case VERB_COUNT:
	case VERB_DURATION:
	case VERB_SINCE:
		number = json_integer_value(value);
		return json_is_integer(value) && number >= 0 && (uint64_t)number >= arg->least &&
		       (!arg->most || (uint64_t)number <= arg->most);
	case VERB_FLAG:
		return json_is_boolean(value);
	case VERB_CHOICE:
		return text && is_choice(arg->choices, text);
	case VERB_ADDRESS:
		return text && address_parse(text, &address);
	default:
		return text != NULL;
	}
}

/* --- requests --- */

static const struct verb *sent_as(const char *name)
{
	const struct verb *verb = verbs_named(name), *next = NULL;

	while (!verb && (next = verbs_next(next)))
		if (next->request && !strcmp(next->request, name))
			verb = next;
	return verb;
}

const struct verb *verbs_of_request(const char *verb, const json_t *args, char **error)
{
	const json_t *what = json_object_get(args, "what");
	const char *rest = json_string_value(what);
	char name[VERBS_NAME_BYTES];
	const struct verb *found;
	struct verbs_words next;

	*error = NULL;
	if (what && !json_is_null(what) && !rest) {
		explain(error, 0, "argument `what` should be a text");
		return NULL;
	}
	snprintf(name, sizeof(name), "%s%s%s", verb, rest ? " " : "", rest ? rest : "");
	found = sent_as(name);
	if (found && found->place != VERB_HERE)
		return found;
	if (found) {
		explain(error, 0, "`%s` is done by the command line, without the daemon", name);
	} else {
		bool known = rest && sent_as(verb);

		verbs_following(known ? verb : "", &next);
		explain_unknown(&next, known ? verb : "", known ? rest : verb, error);
	}
	return NULL;
}

static bool check_argument(const struct verb *verb, const char *key, const json_t *value,
			   char **error)
{
	char should[VERBS_SHOULD_BYTES];
	const char *keys[ARGS_MOST], *near;
	size_t count = 0, i;
	json_t *one;

	if (!strcmp(key, "what") && strchr(verb->name, ' '))
		return true;
	verb_for_each_arg (arg, verb) {
		bool good = arg->repeated ? json_is_array(value) : verbs_value_is_good(arg, value);

		if (!arg->key || arg->local)
			continue;
		if (strcmp(arg->key, key)) {
			if (count < ARGS_MOST)
				keys[count++] = arg->key;
			continue;
		}
		if (arg->repeated)
			json_array_foreach (value, i, one)
				good = good && verbs_value_is_good(arg, one);
		if (!good && !json_is_null(value))
			explain(error, 0, "argument `%s` should be %s%s", key,
				arg->repeated ? "an array, each " : "", verbs_should(arg, should));
		return good || json_is_null(value);
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

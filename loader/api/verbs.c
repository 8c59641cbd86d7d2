// SPDX-License-Identifier: BSD-2-Clause
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "base/explain.h"
#include "base/nearest.h"

#define CAPABILITY(name) extern const struct verb_set name##_verbs;
#include "capabilities.def"
#undef CAPABILITY

const struct verb_set *const verbs_sets[] = {
	&status_verbs,
#define CAPABILITY(name) &name##_verbs,
#include "capabilities.def"
#undef CAPABILITY
	&general_verbs,
	NULL,
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

/* --- by the words of a command line --- */

static bool has_word(const struct verbs_words *words, const char *word)
{
	for (size_t i = 0; i < words->count; i++)
		if (!strcmp(words->list[i], word))
			return true;
	return false;
}

void verbs_following(const char *prefix, struct verbs_words *out)
{
	size_t bytes = strlen(prefix);
	const struct verb *verb = NULL;

	out->count = 0;
	while ((verb = verbs_next(verb)) && out->count < VERBS_WORDS_MOST) {
		const char *rest = verb->name + bytes + (bytes != 0);
		char *text = out->text[out->count];

		if (strncmp(verb->name, prefix, bytes) || (bytes && verb->name[bytes] != ' '))
			continue;
		snprintf(text, VERBS_NAME_BYTES, "%.*s", (int)strcspn(rest, " "), rest);
		if (!has_word(out, text))
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

static void explain_followed(const char *prefix, const struct verbs_words *from, const char *begin,
			     char **error)
{
	char list[512] = "";
	size_t used = 0;

	for (size_t i = 0; i < from->count && used < sizeof(list); i++)
		used += snprintf(list + used, sizeof(list) - used, "%s`%s`",
				 !i			? ""
				 : i + 1 == from->count ? " or "
							: ", ",
				 from->list[i]);
	explain(error, 0, "%s`%s` is followed by %s", begin, prefix, list);
}

/* No verb: the sentence, with what was probably meant. */
static void explain_unknown(const struct verbs_words *from, const char *prefix, const char *word,
			    char **error)
{
	const char *near = nearest_name(word, from->list, from->count);
	char begin[160];

	if (near) {
		explain(error, 0, "`%s%s%.40s` is not a verb; did you mean `%s%s%s`?", prefix,
			*prefix ? " " : "", word, prefix, *prefix ? " " : "", near);
	} else if (*prefix) {
		snprintf(begin, sizeof(begin), "`%s %.40s` is not a verb; ", prefix, word);
		explain_followed(prefix, from, begin, error);
	} else {
		explain(error, 0, "`%.40s` is not a verb; `escapement help` lists them", word);
	}
}

static bool has_positional(const struct verb *verb)
{
	verb_for_each_arg (arg, verb)
		if (!verb_arg_is_option(arg))
			return true;
	return false;
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
		size_t bytes = strlen(name);

		if (!found && verb && has_positional(verb))
			break; /* its first argument */
		if (other)
			explain(error, 0, "`%.40s` could be `%s` or `%s`; write more of it", word,
				found, other);
		else if (!found)
			explain_unknown(&next, name, word, error);
		if (*error)
			return NULL;
		snprintf(name + bytes, sizeof(name) - bytes, "%s%s", bytes ? " " : "", found);
		verb = verbs_named(name);
		verbs_following(name, &next);
	}
	if (!verb)
		explain_followed(name, &next, "", error);
	return verb;
}

/* --- requests --- */

static const struct verb *sent_as(const char *name)
{
	const struct verb *verb = verbs_named(name);

	if (verb)
		return verb;
	while ((verb = verbs_next(verb)))
		if (verb->request && !strcmp(verb->request, name))
			return verb;
	return NULL;
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

// SPDX-License-Identifier: BSD-2-Clause
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "base/explain.h"
#include "base/nearest.h"

#define WORDS_MOST 128 /* different words at one place of the names */
#define NAME_BYTES 64

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

/* The words that may follow @prefix, which is "" or a name that was found so far. */
struct following {
	char words[WORDS_MOST][NAME_BYTES];
	const char *names[WORDS_MOST];
	size_t count;
};

static void add_word(struct following *out, const char *word, size_t bytes)
{
	for (size_t i = 0; i < out->count; i++)
		if (strlen(out->words[i]) == bytes && !strncmp(out->words[i], word, bytes))
			return;
	if (out->count == WORDS_MOST || bytes >= NAME_BYTES)
		return;
	memcpy(out->words[out->count], word, bytes);
	out->words[out->count][bytes] = '\0';
	out->names[out->count] = out->words[out->count];
	out->count++;
}

static void list_following(struct following *out, const char *prefix)
{
	size_t bytes = strlen(prefix);
	const struct verb *verb = NULL;

	out->count = 0;
	while ((verb = verbs_next(verb))) {
		const char *rest = verb->name + bytes;

		if (strncmp(verb->name, prefix, bytes) || (bytes && *rest != ' '))
			continue;
		rest += bytes != 0;
		add_word(out, rest, strcspn(rest, " "));
	}
}

/* The one of @from that @word names, whole or by its beginning; NULL, with *@other when it is
 * ambiguous. */
static const char *choose(const struct following *from, const char *word, const char **other)
{
	const char *found = NULL;
	size_t bytes = strlen(word);

	*other = NULL;
	for (size_t i = 0; i < from->count; i++)
		if (!strcmp(from->words[i], word))
			return from->words[i];
	for (size_t i = 0; bytes && i < from->count; i++) {
		if (strncmp(from->words[i], word, bytes))
			continue;
		if (found) {
			*other = from->words[i];
			return found;
		}
		found = from->words[i];
	}
	return found;
}

static void list_names(const struct following *from, char *out, size_t bytes)
{
	size_t used = 0;

	*out = '\0';
	for (size_t i = 0; i < from->count && used < bytes; i++)
		used += snprintf(out + used, bytes - used, "%s`%s`",
				 !i			? ""
				 : i + 1 == from->count ? " or "
							: ", ",
				 from->words[i]);
}

/* No verb: the sentence, with what was probably meant. */
static void explain_unknown(const struct following *from, const char *prefix, const char *word,
			    char **error)
{
	const char *near = nearest_name(word, from->names, from->count);
	char list[512];

	if (near)
		explain(error, 0, "`%s%s%.40s` is not a verb; did you mean `%s%s%s`?", prefix,
			*prefix ? " " : "", word, prefix, *prefix ? " " : "", near);
	else if (*prefix) {
		list_names(from, list, sizeof(list));
		explain(error, 0, "`%s %.40s` is not a verb; `%s` is followed by %s", prefix, word,
			prefix, list);
	} else {
		explain(error, 0, "`%.40s` is not a verb; `escapement help` lists them", word);
	}
}

static bool has_positional(const struct verb *verb)
{
	for (const struct verb_arg *arg = verb->args; arg && arg->name; arg++)
		if (arg->name[0] != '-')
			return true;
	return false;
}

/* Appends the word to @name; false when @words ends with it, *@error set when it must not. */
static bool take_word(struct following *next, char name[NAME_BYTES], const char *word, char **error)
{
	const struct verb *verb = *name ? verbs_named(name) : NULL;
	const char *other, *found = choose(next, word, &other);
	size_t used = strlen(name);

	if (other)
		explain(error, 0, "`%.40s` could be `%s` or `%s`; write more of it", word, found,
			other);
	else if (!found && !(verb && has_positional(verb)))
		explain_unknown(next, name, word, error);
	if (!found || other)
		return false;
	snprintf(name + used, NAME_BYTES - used, "%s%s", used ? " " : "", found);
	return true;
}

const struct verb *verbs_find(char *const *words, size_t count, size_t *used, char **error)
{
	char name[NAME_BYTES] = "", list[512];
	struct following next;
	const struct verb *verb;

	*error = NULL;
	list_following(&next, name);
	for (*used = 0; *used < count && next.count; ++*used) {
		if (!take_word(&next, name, words[*used], error))
			break;
		list_following(&next, name);
	}
	if (*error)
		return NULL;
	verb = verbs_named(name);
	if (verb)
		return verb;
	list_names(&next, list, sizeof(list));
	explain(error, 0, "`%s` is followed by %s", name, list);
	return NULL;
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

static void explain_request(const char *verb, const char *rest, char **error)
{
	bool known = rest && sent_as(verb);
	struct following next;

	list_following(&next, known ? verb : "");
	explain_unknown(&next, known ? verb : "", known ? rest : verb, error);
}

const struct verb *verbs_of_request(const char *verb, const json_t *args, char **error)
{
	const json_t *what = json_object_get(args, "what");
	const char *rest = json_string_value(what);
	const struct verb *found;
	char name[NAME_BYTES];

	*error = NULL;
	if (what && !json_is_null(what) && !rest) {
		explain(error, 0, "argument `what` should be a text");
		return NULL;
	}
	snprintf(name, sizeof(name), "%s%s%s", verb, rest ? " " : "", rest ? rest : "");
	found = sent_as(name);
	if (found && found->place != VERB_HERE)
		return found;
	if (found)
		explain(error, 0, "`%s` is done by the command line, without the daemon", name);
	else
		explain_request(verb, rest, error);
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* All verbs: those of no capability (general.c) and those of each, by loader/capabilities.def. */
#ifndef ESC_API_VERBS_H
#define ESC_API_VERBS_H

#include "base/verb.h"

/* The verbs that belong to no capability. */
extern const struct verb_set status_verbs, general_verbs;

/* In the order of `help`; ends with NULL. */
extern const struct verb_set *const verbs_sets[];

/* The reply to `features`: what the modules probe of this kernel (new reference). */
json_t *verbs_features(void);

/* Each verb in order: NULL for @last begins, NULL is the end. */
const struct verb *verbs_next(const struct verb *last);

/* The verb of this name, or NULL. */
const struct verb *verbs_named(const char *name);

/* It only reads, and its reply is the daemon's own: not made of that of another verb. */
bool verbs_reads_alone(const struct verb *verb);

/* The different words that follow @prefix, "" or the words so far, in the names of verbs. */
#define VERBS_WORDS_MOST 128
#define VERBS_NAME_BYTES 64
struct verbs_words {
	char text[VERBS_WORDS_MOST][VERBS_NAME_BYTES];
	const char *list[VERBS_WORDS_MOST];
	size_t count;
};
void verbs_following(const char *prefix, struct verbs_words *out);

/*
 * The verb that the first of @words name, each written in full or to a beginning that no other
 * has; *@used is how many they are. NULL with *@error, a malloc'd sentence, when there is none or
 * more than one.
 */
const struct verb *verbs_find(char *const *words, size_t count, size_t *used, char **error);

/*
 * The verb of a request {"verb": @verb, "args": {"what": ...}}: @verb, and behind a space `what`.
 * NULL with *@error when there is none, or it is not for the daemon.
 */
const struct verb *verbs_of_request(const char *verb, const json_t *args, char **error);

/* The first from @arg on that is given by its position; NULL: none. */
const struct verb_arg *verbs_positional(const struct verb_arg *arg);

/* The arguments of a request by the table: false with *@error when one is unknown or wrong. */
bool verbs_check(const struct verb *verb, const json_t *args, char **error);

/* "a whole number, 1 to 15": what a value of @arg has to be. Returns @out. */
#define VERBS_SHOULD_BYTES 160
const char *verbs_should(const struct verb_arg *arg, char out[VERBS_SHOULD_BYTES]);
/* One value of @arg in a request: its type and range. */
bool verbs_value_is_good(const struct verb_arg *arg, const json_t *value);

#endif

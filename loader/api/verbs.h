/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs, as the command line and the socket know them. */
#ifndef ESC_LOADER_VERBS_H
#define ESC_LOADER_VERBS_H

#include <stdbool.h>
#include <stddef.h>

struct verb {
	const char *name;
	const char *arguments; /* for the usage text */
	const char *summary;
	bool later; /* reserved for a feature that this version does not have */
};

/* All of them, those of this version first. */
const struct verb *verbs_all(size_t *count);

/*
 * The verb that @word names: the whole name, or with @prefix a beginning that
 * only one verb has. NULL with *@error, a malloc'd sentence, when there is
 * none or more than one.
 */
const struct verb *verbs_find(const char *word, bool prefix, char **error);

/* The sentence for a verb of a later version; @out is returned. */
const char *verbs_later(const char *what, char out[160]);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The name that was probably meant. */
#ifndef ESC_LOADER_NEAREST_H
#define ESC_LOADER_NEAREST_H

#include <stddef.h>

/* Insertions, deletions, replacements and swaps of neighbours that turn @a into @b. */
unsigned int nearest_distance(const char *a, const char *b);

/* The member of @names nearest to @word, or NULL when none is near. */
const char *nearest_name(const char *word, const char *const *names, size_t count);

#endif

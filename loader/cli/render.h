/* SPDX-License-Identifier: BSD-2-Clause */
/* A reply as text, by the sections, keys, conditions and templates of base/verb.h. */
#ifndef ESC_CLI_RENDER_H
#define ESC_CLI_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <jansson.h>

#include "base/verb.h"

/* Returns how many lines were written. @args may be NULL. */
size_t render(FILE *out, const struct verb_section *sections, const json_t *object,
	      const json_t *args);

/* A line `key : value` for each member of an object. */
void render_plain(FILE *out, const json_t *object);

/* --- tables --- */

/* What keys are members of: an object, and those with an '@' the arguments, or NULL. */
struct scope {
	const json_t *object, *args;
};

struct table_shape {
	const char *only; /* condition on rows; NULL: all */
	size_t most;	  /* rows; 0: all */
	bool live;	  /* the columns of a live table, with a heading in any case */
	size_t fit;	  /* columns of the terminal that lines have to fit into; 0: any */
};

/* Which of @columns are in a live table, or in another. */
bool table_has(const struct column *column, bool live);

/* Each column is as wide as it has to be. Returns how many rows were written. */
size_t table_write(FILE *out, const struct column *columns, struct scope scope, const json_t *rows,
		   const struct table_shape *shape);

/* --- values --- */

/* The value at a path, borrowed, or NULL. @bytes of @path are used. */
const json_t *value_at(struct scope scope, const char *path, size_t bytes);

/* False when it is missing, else appended to @out. */
bool value_write(FILE *out, struct scope scope, const char *key, size_t bytes,
		 enum column_format format);

/* NULL holds always. */
bool value_holds(struct scope scope, const char *condition);

/* The text of a template, malloc'd; "" when a value outside of <|...|> is missing. */
char *value_expand(struct scope scope, const char *template);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys, conditions and templates of base/verb.h on the JSON of a reply. */
#ifndef ESC_CLI_VALUE_H
#define ESC_CLI_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <jansson.h>

#include "base/verb.h"

/* Where keys are looked up: an object, and for those with an '@' the arguments, or NULL. */
struct scope {
	const json_t *object, *args;
};

/* The value at a path, borrowed, or NULL. @bytes of @path are used. */
const json_t *value_at(struct scope scope, const char *path, size_t bytes);

/* False when a value of the key is missing or no number. */
bool value_number(struct scope scope, const char *key, size_t bytes, double *out);

/* False when it is missing, else appended to @out. */
bool value_write(FILE *out, struct scope scope, const char *key, size_t bytes,
		 enum column_format format);

/* NULL holds always. */
bool value_holds(struct scope scope, const char *condition);

/* The text of a template, malloc'd; "" when a value outside of <|...|> is missing. */
char *value_expand(struct scope scope, const char *template);

/* False for a template with a format that is unknown, or parts that do not end. */
bool value_template_is_good(const char *template);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* A reply as text, by the sections of base/verb.h. */
#ifndef ESC_CLI_RENDER_H
#define ESC_CLI_RENDER_H

#include <stdio.h>
#include <jansson.h>

#include "base/verb.h"

/* Returns how many lines were written. @args may be NULL. */
size_t render(FILE *out, const struct verb_section *sections, const json_t *object,
	      const json_t *args);

/* A line `key : value` for each member of an object. */
void render_plain(FILE *out, const json_t *object);

#endif

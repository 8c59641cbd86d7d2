/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of the verbs as help, as a part of escapement(1), and as completion of shells. */
#ifndef ESC_CLI_REFERENCE_H
#define ESC_CLI_REFERENCE_H

#include <stdio.h>
#include <jansson.h>

#include "base/verb.h"

/* The first verb that has this output, or NULL. */
const struct verb *reference_owner(const struct verb_section *output);

/* mdoc: a list of the verbs, for man/escapement.1. */
void reference_man(FILE *out);

/* The completion script for "bash" or "zsh". */
void reference_script(FILE *out, const char *shell);
/* What may stand in place of the last of @words, one a line. */
void reference_candidates(FILE *out, const json_t *words);

#endif

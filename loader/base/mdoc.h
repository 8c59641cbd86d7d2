/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of tables in manual pages. */
#ifndef ESC_BASE_MDOC_H
#define ESC_BASE_MDOC_H

#include <stdio.h>

/* Sentences, in which `x` is literal and page(1) a reference, as lines of mdoc. */
void mdoc_write(FILE *out, const char *text);

#endif

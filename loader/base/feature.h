/* SPDX-License-Identifier: BSD-2-Clause */
/* A kernel feature as `features` shows it. */
#ifndef ESC_BASE_FEATURE_H
#define ESC_BASE_FEATURE_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Appends to @list: @name is available or not, @detail is what the kernel returned (NULL or "":
 * nothing), @cost one sentence on what is missing without it.
 */
void feature_add(json_t *list, const char *name, bool here, const char *detail, const char *cost);
/* The same for a trial that returned 0 or -errno. */
void feature_add_trial(json_t *list, const char *name, int err, const char *cost);

#endif

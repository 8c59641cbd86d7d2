/* SPDX-License-Identifier: BSD-2-Clause */
/* The page that applications read fabric time from: lib/page.h. */
#ifndef ESC_LOADER_CLOCKPAGE_H
#define ESC_LOADER_CLOCKPAGE_H

#include <stdint.h>

struct clock_model;
struct clockpage;

/*
 * Makes the page at @path, or goes on with the one there: processes that have
 * it mapped see the new daemon. *@error is a malloc'd sentence on failure.
 */
int clockpage_open(struct clockpage **out, const char *path, int64_t lab_offset_ns,
		   int64_t lab_drift_ppb, char **error);
/* The page stays: its model ages, and readers see that. */
void clockpage_close(struct clockpage *page);
void clockpage_write(struct clockpage *page, const struct clock_model *model);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What `paths` answers, and what `status` says of candidate paths. */
#ifndef ESC_LOADER_REPORT_PATHS_H
#define ESC_LOADER_REPORT_PATHS_H

#include <jansson.h>

struct daemon;

/* @peer: a host, or a part of an address of one; NULL: all. NULL when nothing is of that name. */
json_t *report_paths(const struct daemon *daemon, const char *peer);
/* `paths` in the object of `status`. */
void report_put_paths(json_t *status, const struct daemon *daemon);

#endif

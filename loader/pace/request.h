/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket's verb `pace`. */
#ifndef ESC_LOADER_REQUEST_PACE_H
#define ESC_LOADER_REQUEST_PACE_H

#include <jansson.h>

struct daemon;

/*
 * The answer, or NULL with *@error, a malloc'd sentence, and the command line's exit code
 * in *@exit. @args: "what" (absent, "show", "on", "off", "set", "setup-fq", "undo-fq"),
 * "interfaces"; of "set" "class" with "weight" and "threshold_ns", or "dst", "qpn", "src" with
 * "class".
 */
json_t *request_pace(struct daemon *daemon, const json_t *args, int *exit, char **error);

#endif

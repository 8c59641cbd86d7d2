/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket's verb `steer`: arguments in, orders out. */
#ifndef ESC_LOADER_REQUEST_STEER_H
#define ESC_LOADER_REQUEST_STEER_H

#include <jansson.h>

struct daemon;

/*
 * The answer, or NULL with *@error, a malloc'd sentence, and the command line's exit code
 * in *@exit. @args: "what" (absent, "set", "clear"), "src", "dst", "qpn", "sport",
 * "flow_label", "hold_ns", "within_ns", "now", "all".
 */
json_t *request_steer(struct daemon *daemon, const json_t *args, int *exit, char **error);

#endif

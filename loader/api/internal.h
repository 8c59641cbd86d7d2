/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of api/ have of each other. */
#ifndef ESC_API_INTERNAL_H
#define ESC_API_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"

/* --- requests --- */

/*
 * One request of the socket and its reply, both a line of JSON:
 *   {"verb": "qp", "args": {"key": "10.0.0.2", "sort": "rate"}}
 *   {"ok": true, "result": {...}}
 *   {"ok": false, "error": "...", "exit": 2}
 * The exit is the one of the command line: 1 it failed, 2 it was wrong.
 */
#define REQUEST_BYTES_MAX 65536

struct reply {
	char *text; /* malloc'd, with its newline; NULL: no memory */
	size_t bytes;
	bool follow; /* `events --follow`: each later event is a reply too */
};

/* The reply of the capability that has the verb, or of api/ itself. */
void request_reply(struct core *core, const char *line, size_t bytes, struct reply *reply);

/* {"ok": true, "result": @result} and a newline, malloc'd; @result is borrowed. */
char *request_wrap(const json_t *result, size_t *bytes);
/* {"ok": false, ...} and a newline, malloc'd. */
char *request_refuse(int exit_code, const char *error, size_t *bytes);

/* --- verbs of no capability: status, events, mode, off, config, features, reload --- */

/* self is the struct core. */
extern const struct verb_handler api_verb_handlers[];

/* What the command line does itself where no daemon replies; see struct verb. */
json_t *local_off(const json_t *args, int *exit, char **error);
json_t *local_features(const json_t *args, int *exit, char **error);
json_t *local_version(const json_t *args, int *exit, char **error);

/* --- one daemon's listening socket: never two on a path, never a stale one --- */

struct server_listener {
	char *path;
	int fd;
	int lock_fd; /* PATH.lock, locked as long as the daemon runs */
};

/* -EADDRINUSE: another daemon is there. *@error is a malloc'd sentence on failure. */
int server_listen(struct server_listener *out, const char *path, char **error);
/* Removes the socket and unlocks its path. */
void server_unlisten(struct server_listener *listener);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request of the socket and its reply, both a line of JSON:
 *   {"verb": "qp", "args": {"key": "10.0.0.2", "sort": "rate"}}
 *   {"ok": true, "result": {...}}
 *   {"ok": false, "error": "...", "exit": 2}
 * The exit is the one of the command line: 1 it failed, 2 it was wrong.
 */
#ifndef ESC_API_REQUEST_H
#define ESC_API_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define REQUEST_BYTES_MAX 65536

struct core;

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

#endif

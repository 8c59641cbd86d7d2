/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request of the socket and its answer, both a line of JSON:
 *   {"verb": "qp", "args": {"key": "10.0.0.2", "sort": "rate"}}
 *   {"ok": true, "result": {...}}
 *   {"ok": false, "error": "...", "exit": 2}
 * The exit is the one of the command line: 1 it did not work, 2 asked wrongly.
 */
#ifndef ESC_LOADER_REQUEST_H
#define ESC_LOADER_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

struct daemon;

#define REQUEST_BYTES_MAX 65536

struct reply {
	char *text; /* malloc'd, with its newline; NULL: no memory */
	size_t bytes;
	bool follow; /* `events --follow`: each later event is an answer too */
};

void request_answer(struct daemon *daemon, const char *line, size_t bytes, struct reply *reply);

/* {"ok": true, "result": @result} and a newline, malloc'd; @result is borrowed. */
char *request_wrap(const json_t *result, size_t *bytes);
/* {"ok": false, ...} and a newline, malloc'd. */
char *request_refuse(int exit_code, const char *error, size_t *bytes);

#endif

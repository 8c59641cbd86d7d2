/* SPDX-License-Identifier: BSD-2-Clause */
/* A request of the socket, as the handler of its verb sees it. */
#ifndef ESC_CORE_REQUEST_H
#define ESC_CORE_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The exit status that the command line ends with. */
#define REQUEST_FAILED 1
#define REQUEST_MISUSE 2

struct request {
	const json_t *args; /* an object or NULL */
	char *error;	    /* set: refused, with @exit */
	int exit;
	char *text; /* set: the whole reply, with its newline; see request_raw() */
	size_t bytes;
	bool follow; /* each later event is a reply too */
};

/* Refuses with @error, malloc'd and taken over (NULL: no memory). Returns NULL. */
json_t *request_fail(struct request *request, int exit, char *error);
/* Refuses a request that is wrong. Returns NULL. */
json_t *request_misuse(struct request *request, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Takes @text, malloc'd, as the whole line of the reply. Returns NULL. */
json_t *request_raw(struct request *request, char *text, size_t bytes);

/* An argument, or @fallback when it is not given: the verb's table checked its type and range. */
const char *request_text(const struct request *request, const char *name, const char *fallback);
uint64_t request_count(const struct request *request, const char *name, uint64_t fallback);
bool request_flag(const struct request *request, const char *name);
bool request_has(const struct request *request, const char *name);

#endif

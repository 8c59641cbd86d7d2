// SPDX-License-Identifier: BSD-2-Clause
/* Paths and arguments of HTTP: what is sent to the daemon is a verb that only reads, always. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs.h"
#include "serve/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_requests(const struct route *route)
{
	const struct verb *verb;
	const char *name;
	char room[64], *error = NULL;
	json_t *args;

	for (size_t i = 0; route_request(route, i, &name, room, &args); i++) {
		verb = verbs_of_request(name, args, &error);
		if (!verb || !verb->reads || i > 64)
			abort();
		/* The daemon checks them again: what was taken here is right there. */
		if (!verbs_check(verb, args, &error))
			free(error);
		json_decref(args);
	}
}

/* PATH, then a line for each argument: NAME or NAME=VALUE. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = strndup((const char *)bytes, size), *save = NULL, *error = NULL, *key;
	char *path = strtok_r(text, "\n", &save), *line;
	struct route route;

	if (path && route_find(&route, path, &error)) {
		while ((line = strtok_r(NULL, "\n", &save))) {
			char *value = strchr(line, '=');

			if (value)
				*value++ = '\0';
			if (!route_take(&route, line, value, &error)) {
				if (!error)
					abort();
				free(error);
			}
		}
		check_requests(&route);
		key = route_key(&route);
		if (!key)
			abort();
		free(key);
		route_clear(&route);
	} else if (path) {
		if (!error)
			abort();
		free(error);
	}
	free(text);
	return 0;
}

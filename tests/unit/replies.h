/* SPDX-License-Identifier: BSD-2-Clause */
/* A request to a capability's handlers, with the daemon's check of its arguments. */
#ifndef ESC_TESTS_REPLIES_H
#define ESC_TESTS_REPLIES_H

#include <criterion/criterion.h>
#include <string.h>

#include "api/verbs.h"
#include "core/core.h"

/* @name: "steer set"; @args: JSON text. NULL: refused, see @request, whose error is malloc'd. */
static inline json_t *replies_get(const struct verb_handler *handler, void *self, const char *name,
				  const char *args, struct request *request)
{
	json_t *object = json_loads(args, 0, NULL), *result = NULL;
	char *error = NULL;
	const struct verb *verb = verbs_of_request(name, object, &error);

	*request = (struct request){.args = object};
	if (!verb || !verbs_check(verb, object, &error)) {
		request_fail(request, REQUEST_MISUSE, error);
	} else {
		while (handler->verb && strcmp(handler->verb, verb->name))
			handler++;
		cr_assert_not_null(handler->verb, "%s", verb->name);
		result = handler->reply(self, request);
	}
	json_decref(object);
	return result;
}

#endif

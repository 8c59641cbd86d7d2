// SPDX-License-Identifier: BSD-2-Clause
#include "request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

json_t *request_fail(struct request *request, int exit, char *error)
{
	free(request->error);
	request->exit = exit;
	request->error = error ? error : strdup("out of memory");
	return NULL;
}

json_t *request_misuse(struct request *request, const char *format, ...)
{
	va_list arguments;
	char *error;

	va_start(arguments, format);
	if (vasprintf(&error, format, arguments) < 0)
		error = NULL;
	va_end(arguments);
	return request_fail(request, REQUEST_MISUSE, error);
}

json_t *request_raw(struct request *request, char *text, size_t bytes)
{
	request->text = text;
	request->bytes = bytes;
	return NULL;
}

bool request_has(const struct request *request, const char *name)
{
	const json_t *value = json_object_get(request->args, name);

	return value && !json_is_null(value);
}

const char *request_text(const struct request *request, const char *name, const char *fallback)
{
	const char *given = json_string_value(json_object_get(request->args, name));

	return given ? given : fallback;
}

uint64_t request_count(const struct request *request, const char *name, uint64_t fallback)
{
	return request_has(request, name) ? json_count(request->args, name) : fallback;
}

bool request_flag(const struct request *request, const char *name)
{
	return json_is_true(json_object_get(request->args, name));
}

// SPDX-License-Identifier: BSD-2-Clause
#include "request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool request_text(struct request *request, const char *name, const char *fallback, const char **out)
{
	*out = fallback;
	if (!request_has(request, name))
		return true;
	*out = json_string_value(json_object_get(request->args, name));
	if (!*out)
		request_misuse(request, "argument `%s` should be a text", name);
	return *out != NULL;
}

bool request_count(struct request *request, const char *name, uint64_t least, uint64_t most,
		   uint64_t fallback, uint64_t *out)
{
	const json_t *value = json_object_get(request->args, name);
	json_int_t given = json_integer_value(value);

	*out = fallback;
	if (!request_has(request, name))
		return true;
	if (!json_is_integer(value) || given < 0 || (uint64_t)given < least ||
	    (uint64_t)given > most) {
		if (most == UINT64_MAX)
			request_misuse(request, "argument `%s` should be a whole number", name);
		else
			request_misuse(request,
				       "argument `%s` should be a whole number, %llu to %llu", name,
				       (unsigned long long)least, (unsigned long long)most);
		return false;
	}
	*out = (uint64_t)given;
	return true;
}

bool request_flag(struct request *request, const char *name, bool *out)
{
	const json_t *value = json_object_get(request->args, name);

	*out = json_is_true(value);
	if (!request_has(request, name) || json_is_boolean(value))
		return true;
	request_misuse(request, "argument `%s` should be true or false", name);
	return false;
}

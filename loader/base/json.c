// SPDX-License-Identifier: BSD-2-Clause
#include "json.h"

#include <math.h>

void json_put(json_t *object, const char *key, json_t *value)
{
	if (value)
		json_object_set_new(object, key, value);
}

void json_put_count(json_t *object, const char *key, uint64_t value)
{
	json_put(object, key, json_integer((json_int_t)value));
}

void json_put_integer(json_t *object, const char *key, int64_t value)
{
	json_put(object, key, json_integer((json_int_t)value));
}

void json_put_real(json_t *object, const char *key, double value)
{
	if (isfinite(value))
		json_put(object, key, json_real(value));
}

void json_put_bool(json_t *object, const char *key, bool value)
{
	json_put(object, key, json_boolean(value));
}

void json_put_text(json_t *object, const char *key, const char *value)
{
	if (value && *value)
		json_put(object, key, json_string(value));
}

uint64_t json_count(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

const char *json_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

// SPDX-License-Identifier: BSD-2-Clause
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_put(json_t *object, const char *key, json_t *value)
{
	if (value)
		json_object_set_new(object, key, value);
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

/* Of the character at @text, by the same rules as in json_string(); 0: it is no UTF-8. */
static size_t character_bytes(const char *text)
{
	size_t most = strnlen(text, 4);

	for (size_t bytes = 1; bytes <= most; bytes++) {
		json_t *one = json_stringn(text, bytes);

		json_decref(one);
		if (one)
			return bytes;
	}
	return 0;
}

void json_put_name(json_t *object, const char *key, const char *value)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = value ? open_memstream(&text, &bytes) : NULL;

	if (!out)
		return;
	while (*value) {
		size_t good = character_bytes(value);

		if (good)
			fwrite(value, 1, good, out);
		else
			fprintf(out, "\\x%02x", (unsigned char)*value);
		value += good ? good : 1;
	}
	if (!fclose(out))
		json_put_text(object, key, text);
	free(text);
}

/* DEL, or C1 in its two bytes. How many; 0: another character. */
static size_t control_bytes(const char *text)
{
	if (*text == 0x7f)
		return 1;
	return *text == '\xc2' && (unsigned char)text[1] < 0xa0 ? 2 : 0;
}

char *json_line(const json_t *value, size_t flags)
{
	char *plain = json_dumps(value, flags), *text = NULL;
	size_t bytes;
	FILE *out = plain ? open_memstream(&text, &bytes) : NULL;

	for (const char *at = plain; out && *at;) {
		size_t control = control_bytes(at);

		if (control)
			fprintf(out, "\\u%04X", (unsigned char)at[control - 1]);
		else
			fputc(*at, out);
		at += control ? control : 1;
	}
	free(plain);
	if (out && fclose(out)) {
		free(text);
		text = NULL;
	}
	return text;
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

void feature_add(json_t *list, const char *name, bool here, const char *detail, const char *cost)
{
	json_t *feature = json_object();

	json_put_text(feature, "name", name);
	json_put_bool(feature, "supported", here);
	json_put_text(feature, "detail", detail);
	json_put_text(feature, "cost", cost);
	json_array_append_new(list, feature);
}

void feature_add_trial(json_t *list, const char *name, int err, const char *cost)
{
	feature_add(list, name, !err, err ? strerror(-err) : NULL, cost);
}

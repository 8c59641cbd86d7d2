// SPDX-License-Identifier: BSD-2-Clause
/* The types that keys have: from a file's text, to JSON, and their bounds. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "internal.h"

#define TEXT_BYTES_MAX 4096

/* An integer of the key's size, on a little-endian machine. */
static int64_t load(const struct config_key *key, const void *value)
{
	int64_t number = 0;

	memcpy(&number, value, key->bytes);
	return number;
}

static void store(const struct config_key *key, void *value, int64_t number)
{
	memcpy(value, &number, key->bytes);
}

static int check_range(struct config_reading *reading, const struct config_key *key,
		       const char *text, int64_t number)
{
	char least[CONFIG_NUMBER_BYTES], most[CONFIG_NUMBER_BYTES];

	if (number >= key->least && number <= key->most)
		return 0;
	key->type->format(least, key->least);
	key->type->format(most, key->most);
	return config_refuse(reading, key->name, "`%s: %.64s` is out of range; give %s to %s",
			     key->name, text, least, most);
}

/* --- texts --- */

/* A relative path starts from the directory of the file. */
static int parse_text(struct config_reading *reading, const struct config_key *key,
		      const char *text, void *value)
{
	const char *slash = strrchr(reading->path, '/');
	size_t most = key->most ? (size_t)key->most : TEXT_BYTES_MAX;
	bool relative = key->type == &config_type_path && text[0] != '/' && slash;
	char *copy;

	if (strlen(text) > most)
		return config_refuse(reading, key->name, "`%s` is %zu bytes long; at most %zu fit",
				     key->name, strlen(text), most);
	if (asprintf(&copy, "%.*s%s", relative ? (int)(slash + 1 - reading->path) : 0,
		     reading->path, text) < 0)
		return -ENOMEM;
	free(*(char **)value);
	*(char **)value = copy;
	return 0;
}

static json_t *show_text(const struct config_key *key, const void *value)
{
	const char *text = *(char *const *)value;

	(void)key;
	return text ? json_string(text) : NULL;
}

static void clear_text(const struct config_key *key, void *value)
{
	(void)key;
	free(*(char **)value);
	*(char **)value = NULL;
}

const struct config_type config_type_text = {"text", parse_text, show_text, clear_text, NULL};
const struct config_type config_type_path = {"path", parse_text, show_text, clear_text, NULL};

/* --- one of some words --- */

static int parse_word(struct config_reading *reading, const struct config_key *key,
		      const char *text, void *value)
{
	static const char *const boolean[] = {"false", "true", NULL};
	const char *const *words = key->words ? key->words : boolean;
	char list[256] = "";
	const char *near;
	size_t count = 0;

	for (; words[count]; count++) {
		if (!strcmp(words[count], text)) {
			store(key, value, (int64_t)count);
			return 0;
		}
		text_append(list, sizeof(list), ", ", words[count]);
	}
	near = nearest_name(text, words, count);
	if (near)
		return config_refuse(reading, key->name,
				     "`%s: %.64s` is not understood; did you mean `%s`? (%s)",
				     key->name, text, near, list);
	return config_refuse(reading, key->name, "`%s: %.64s` is not understood; give one of %s",
			     key->name, text, list);
}

static json_t *show_word(const struct config_key *key, const void *value)
{
	return key->words ? json_string(key->words[load(key, value)])
			  : json_boolean(load(key, value));
}

const struct config_type config_type_word = {NULL, parse_word, show_word, NULL, NULL};
const struct config_type config_type_boolean = {"boolean", parse_word, show_word, NULL, NULL};

/* --- numbers and durations --- */

static void format_number(char out[CONFIG_NUMBER_BYTES], int64_t number)
{
	snprintf(out, CONFIG_NUMBER_BYTES, "%" PRId64, number);
}

static int parse_number(struct config_reading *reading, const struct config_key *key,
			const char *text, void *value)
{
	const char *at = text + (key->least < 0 && *text == '-');
	size_t digits = strspn(at, "0123456789");
	int64_t number;
	int err;

	if (!digits || at[digits] || digits > 18 || (*at == '0' && digits > 1))
		return config_refuse(reading, key->name,
				     "`%s: %.64s` should be a plain whole number, such as %s",
				     key->name, text, key->fallback ? key->fallback : key->example);
	number = strtoll(text, NULL, 10);
	err = check_range(reading, key, text, number);
	if (!err)
		store(key, value, number);
	return err;
}

void config_format_duration(char out[CONFIG_NUMBER_BYTES], int64_t ns)
{
	static const struct {
		int64_t ns;
		const char *name;
	} units[] = {
		{3600 * CONFIG_S, "h"}, {CONFIG_S, "s"}, {CONFIG_MS, "ms"},
		{CONFIG_US, "us"},	{1, "ns"},
	};
	unsigned int i = ns ? 0 : CONFIG_COUNT_OF(units) - 1;

	while (ns % units[i].ns)
		i++;
	snprintf(out, CONFIG_NUMBER_BYTES, "%" PRId64 "%s", ns / units[i].ns, units[i].name);
}

static int parse_duration(struct config_reading *reading, const struct config_key *key,
			  const char *text, void *value)
{
	const char *usual = key->fallback ? key->fallback : key->example;
	size_t digits = strspn(text, "0123456789.");
	bool negative = text[0] == '-' && key->least < 0;
	uint64_t size;
	char hint[32];
	int64_t ns;
	int err = units_parse_duration(text + negative, &size, hint);

	if (err == -EINVAL) {
		/* A bare number most likely has the unit of the default. */
		if (digits && !text[digits] && digits < 16)
			snprintf(hint, sizeof(hint), "%s%s", text,
				 usual + strspn(usual, "0123456789.-"));
		return config_refuse(reading, key->name,
				     "`%s: %.64s` is not a duration; units are " UNITS_UNDERSTOOD
				     ", right behind the number: write `%s`%s",
				     key->name, text, hint[0] ? hint : usual,
				     hint[0] ? "" : ", for example");
	}
	ns = err || size > INT64_MAX ? INT64_MAX : (int64_t)size;
	ns = negative ? -ns : ns;
	err = check_range(reading, key, text, ns);
	if (!err)
		store(key, value, ns);
	return err;
}

/* Without a default 0 is the same as not set. */
static json_t *show_number(const struct config_key *key, const void *value)
{
	char text[CONFIG_NUMBER_BYTES];
	int64_t number = load(key, value);

	if (!number && !key->fallback)
		return NULL;
	if (key->type == &config_type_number)
		return json_integer(number);
	config_format_duration(text, number);
	return json_string(text);
}

const struct config_type config_type_number = {"number", parse_number, show_number, NULL,
					       format_number};
const struct config_type config_type_duration = {"duration", parse_duration, show_number, NULL,
						 config_format_duration};

/* --- rates --- */

static void format_bit_rate(char out[CONFIG_NUMBER_BYTES], int64_t bps)
{
	static const char *const names[] = {"", "k", "M", "G", "T"};
	double value = (double)bps;
	size_t i = 0;

	for (; value >= 1000 && i + 1 < CONFIG_COUNT_OF(names); i++)
		value /= 1000;
	snprintf(out, CONFIG_NUMBER_BYTES, "%.15g%sbit", value, names[i]);
}

static int parse_bit_rate(struct config_reading *reading, const struct config_key *key,
			  const char *text, void *value)
{
	char least[CONFIG_NUMBER_BYTES], most[CONFIG_NUMBER_BYTES];
	double bps = 0;

	if (strcmp(text, "auto") && (units_parse_bit_rate(text, &bps) || bps < (double)key->least ||
				     bps > (double)key->most)) {
		format_bit_rate(least, key->least);
		format_bit_rate(most, key->most);
		return config_refuse(reading, key->name,
				     "`%s: %.64s` should be `auto`, or a rate in bits a second, "
				     "such as `%s`; %s to %s",
				     key->name, text, key->example, least, most);
	}
	*(double *)value = bps;
	return 0;
}

static json_t *show_bit_rate(const struct config_key *key, const void *value)
{
	char text[CONFIG_NUMBER_BYTES] = "auto";

	(void)key;
	if (*(const double *)value > 0)
		format_bit_rate(text, (int64_t) * (const double *)value);
	return json_string(text);
}

const struct config_type config_type_bit_rate = {"rate", parse_bit_rate, show_bit_rate, NULL,
						 format_bit_rate};

/* --- lists --- */

size_t *config_list_count(const struct config_key *key, void *value)
{
	return (size_t *)((char *)value - key->offset + key->list->count_offset);
}

static json_t *show_list(const struct config_key *key, const void *value)
{
	const struct config_list *list = key->list;
	size_t count = *config_list_count(key, (void *)value);
	json_t *array = count ? json_array() : NULL;

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array,
				      config_show_keys(list->keys, *(char *const *)value +
									   i * list->entry_bytes));
	return array;
}

static void clear_list(const struct config_key *key, void *value)
{
	const struct config_list *list = key->list;
	size_t *count = config_list_count(key, value);

	for (size_t i = 0; i < *count; i++)
		config_clear_keys(list->keys, *(char **)value + i * list->entry_bytes);
	free(*(void **)value);
	*(void **)value = NULL;
	*count = 0;
}

const struct config_type config_type_list = {"list", NULL, show_list, clear_list, NULL};

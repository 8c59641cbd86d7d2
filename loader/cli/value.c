// SPDX-License-Identifier: BSD-2-Clause
/* Keys, conditions and templates of base/verb.h on the JSON of a reply. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli.h"

/* --- paths --- */

const json_t *value_at(struct scope scope, const char *path, size_t bytes)
{
	const json_t *value = scope.object;
	const char *end = path + bytes;

	if (bytes && *path == '@') {
		value = scope.args;
		path++;
	}
	while (value && path < end) {
		const char *dot = memchr(path, '.', end - path);
		size_t name = (dot ? dot : end) - path;

		value = json_object_getn(value, path, name);
		path += name + (dot != NULL);
	}
	return value && !json_is_null(value) ? value : NULL;
}

/* The bytes up to @separator, or to the end. */
static size_t part_bytes(const char *text, size_t bytes, char separator)
{
	const char *found = memchr(text, separator, bytes);

	return found ? (size_t)(found - text) : bytes;
}

/* The first of "a|b" that is there; *@bytes becomes its own. Else the last. */
static const char *first_present(struct scope scope, const char *key, size_t *bytes)
{
	for (;;) {
		size_t part = part_bytes(key, *bytes, '|');

		if (part == *bytes || value_at(scope, key, part)) {
			*bytes = part;
			return key;
		}
		key += part + 1;
		*bytes -= part + 1;
	}
}

/* The sum of "a+b"; false when none of them is a number. */
static bool value_number(struct scope scope, const char *key, size_t bytes, double *out)
{
	const char *at = first_present(scope, key, &bytes), *end = at + bytes;
	bool found = false;

	*out = 0;
	while (at < end) {
		size_t part = part_bytes(at, end - at, '+');
		const json_t *value = value_at(scope, at, part);

		if (json_is_number(value)) {
			*out += json_number_value(value);
			found = true;
		}
		at += part + 1;
	}
	return found;
}

/* --- formats --- */

static bool ends_with(const char *text, size_t bytes, const char *end)
{
	size_t length = strlen(end);

	return bytes >= length && !strncmp(text + bytes - length, end, length);
}

/* ns of one: by the unit that the path, or the object around it, has in its name. */
static double scale_of(const char *key, size_t bytes)
{
	static const struct {
		const char *end;
		double ns;
	} units[] = {{"_ns", 1}, {"_us", 1e3}, {"_ms", 1e6}, {"_s", 1e9}};

	while (bytes) {
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
			if (ends_with(key, bytes, units[i].end))
				return units[i].ns;
		while (bytes && key[bytes - 1] != '.')
			bytes--;
		bytes -= bytes != 0;
	}
	return 1;
}

static bool write_share(FILE *out, struct scope scope, const char *key, size_t bytes)
{
	size_t part = part_bytes(key, bytes, '/');
	double share, of = 1;

	if (!value_number(scope, key, part, &share))
		return false;
	if (part < bytes &&
	    (!value_number(scope, key + part + 1, bytes - part - 1, &of) || !(of > 0)))
		return false;
	fprintf(out, "%.3g%%", 100 * share / of);
	return true;
}

/* Members for which a flag is true: "ways[usable].way". */
static bool write_members(FILE *out, struct scope scope, const char *key, size_t bytes)
{
	size_t path = part_bytes(key, bytes, '['), flag = part_bytes(key, bytes, ']') - path - 1;
	const char *name = key + path + flag + 3, *between = "";
	json_t *one;
	size_t i;

	json_array_foreach (value_at(scope, key, path), i, one) {
		struct scope inner = {one, scope.args};
		const json_t *text = value_at(inner, name, key + bytes - name);

		if (!json_is_true(value_at(inner, key + path + 1, flag)) || !text)
			continue;
		fprintf(out, "%s%s", between, json_string_value(text));
		between = ",";
	}
	return *between;
}

static bool write_value(FILE *out, const json_t *value)
{
	const char *between = "", *key;
	json_t *one;
	size_t i;

	if (json_is_string(value))
		return fputs(json_string_value(value), out), *json_string_value(value);
	if (json_is_boolean(value))
		return fputs(json_is_true(value) ? "yes" : "no", out), true;
	if (json_is_integer(value))
		return fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value)) > 0;
	if (json_is_real(value))
		return fprintf(out, "%.6g", json_real_value(value)) > 0;
	json_array_foreach (value, i, one) {
		fputs(between, out);
		if (json_is_null(one))
			fputc('*', out);
		else
			write_value(out, one);
		between = ",";
	}
	json_object_foreach ((json_t *)value, key, one) {
		fprintf(out, "%s%s ", between, key);
		write_value(out, one);
		between = ", ";
	}
	return *between;
}

static bool write_text(FILE *out, struct scope scope, const char *key, size_t bytes)
{
	double sum;

	if (memchr(key, '[', bytes))
		return write_members(out, scope, key, bytes);
	key = first_present(scope, key, &bytes);
	if (!memchr(key, '+', bytes))
		return write_value(out, value_at(scope, key, bytes));
	return value_number(scope, key, bytes, &sum) && fprintf(out, "%.0f", sum) > 0;
}

/* "1.50 GiB" is "1.50GiB" in a column, and everywhere. */
static bool write_narrow(FILE *out, const char *text)
{
	size_t bytes = strcspn(text, " ");

	return fprintf(out, "%.*s%s", (int)bytes, text, text + bytes + (text[bytes] == ' ')) > 0;
}

bool value_write(FILE *out, struct scope scope, const char *key, size_t bytes,
		 enum column_format format)
{
	bool in_bytes = ends_with(key, bytes, "bytes_per_second");
	char text[UNITS_TEXT_BYTES];
	double number;
	int places;

	if (format == FORMAT_TEXT)
		return write_text(out, scope, key, bytes);
	if (format == FORMAT_SHARE)
		return write_share(out, scope, key, bytes);
	if (!value_number(scope, key, bytes, &number))
		return false;
	switch (format) {
	case FORMAT_COUNT:
		return write_narrow(out, units_count(text, number));
	case FORMAT_BYTES:
		return write_narrow(out, units_bytes(text, number));
	case FORMAT_RATE:
		return write_narrow(out, units_bit_rate(text, in_bytes ? number : number / 8));
	case FORMAT_GBPS:
		number *= (in_bytes ? 8 : 1) / 1e9;
		places = number >= 99.995 ? 1 : number >= 9.9995 ? 2 : 3;
		return fprintf(out, "%.*f", places, number) > 0;
	case FORMAT_TIME:
		return write_narrow(out, units_delay(text, number * scale_of(key, bytes)));
	case FORMAT_AGE:
		number *= scale_of(key, bytes);
		if (number < 1e9)
			return fprintf(out, "%.3gms", number / 1e6) > 0;
		if (number < 60e9)
			return fprintf(out, "%.3gs", number / 1e9) > 0;
		return fputs(units_duration(text, number), out) >= 0;
	case FORMAT_PPM:
		return fprintf(out, "%+.3f", number / 1000) > 0;
	case FORMAT_REAL:
		return fprintf(out, "%.3g", number) > 0;
	case FORMAT_HEX:
		return fprintf(out, "0x%llx", (unsigned long long)number) > 0;
	default:
		return false;
	}
}

/* --- conditions --- */

static bool is_set(const json_t *value)
{
	return json_is_string(value)   ? *json_string_value(value)
	       : json_is_number(value) ? json_number_value(value) != 0
	       : json_is_array(value)  ? json_array_size(value) != 0
	       : json_is_object(value) ? json_object_size(value) != 0
				       : json_is_true(value);
}

/* One test, without its '!'. */
static bool test_holds(struct scope scope, const char *test, size_t bytes)
{
	size_t left = part_bytes(test, bytes, '=');
	char sign = left < bytes && left ? test[left - 1] : '\0';
	size_t key = left - (sign == '^' || sign == '>');
	const char *right = test + left + 1, *have;
	double a, b;

	if (left == bytes && memchr(test, '+', bytes))
		return value_number(scope, test, bytes, &a) && a != 0;
	if (left == bytes) {
		test = first_present(scope, test, &bytes);
		return is_set(value_at(scope, test, bytes));
	}
	if (sign == '>')
		return value_number(scope, test, key, &a) &&
		       value_number(scope, right, test + bytes - right, &b) && a >= b;
	bytes = test + bytes - right;
	have = json_string_value(value_at(scope, test, key));
	return have && !strncmp(have, right, bytes) && (sign == '^' || !have[bytes]);
}

bool value_holds(struct scope scope, const char *condition)
{
	while (condition && *condition) {
		size_t bytes = strcspn(condition, " ");
		bool negated = *condition == '!';

		if (test_holds(scope, condition + negated, bytes - negated) == negated)
			return false;
		condition += bytes + (condition[bytes] == ' ');
	}
	return true;
}

/* --- templates --- */

/* What is between the braces: "key", "key:time", "key:?up|down". */
static bool write_slot(FILE *out, struct scope scope, const char *slot, size_t bytes)
{
	static const char *const names[] = {
#define X(id, name) [FORMAT_##id] = name,
		COLUMN_FORMATS(X)
#undef X
	};
	size_t key = part_bytes(slot, bytes, ':'), yes;
	const char *how = slot + key + 1, *end = slot + bytes;
	enum column_format format = FORMAT_TEXT;
	const json_t *value;

	if (key == bytes)
		return value_write(out, scope, slot, key, format);
	if (*how == '?') {
		value = value_at(scope, slot, key);
		yes = part_bytes(how + 1, end - how - 1, '|');
		if (!value)
			return false;
		if (is_set(value))
			return fwrite(how + 1, 1, yes, out) > 0;
		how += yes + 2;
		return how < end && fwrite(how, 1, end - how, out) > 0;
	}
	while (format < FORMATS && (strlen(names[format]) != (size_t)(end - how) ||
				    strncmp(names[format], how, end - how)))
		format++;
	return format < FORMATS && value_write(out, scope, slot, key, format);
}

/*
 * Up to "|>" in an optional part, else to the end. False: a value is missing. @out is in memory:
 * what is written of a part that is left out is overwritten.
 */
static bool expand_part(FILE *out, struct scope scope, const char **at, bool optional)
{
	bool whole = true;

	while (**at && !(optional && !strncmp(*at, "|>", 2))) {
		if (!strncmp(*at, "<|", 2)) {
			long begin = ftell(out);

			*at += 2;
			if (!expand_part(out, scope, at, true))
				fseek(out, begin, SEEK_SET);
			*at += **at ? 2 : 0;
		} else if (**at == '{') {
			size_t bytes = strcspn(*at, "}");

			whole = write_slot(out, scope, *at + 1, bytes - 1) && whole;
			*at += bytes + ((*at)[bytes] == '}');
		} else {
			fputc(*(*at)++, out);
		}
	}
	return whole;
}

char *value_expand(struct scope scope, const char *template)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	bool whole = out && expand_part(out, scope, &template, false);

	if (out && !fclose(out) && whole)
		return text;
	free(text);
	return strdup("");
}

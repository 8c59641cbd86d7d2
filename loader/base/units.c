// SPDX-License-Identifier: BSD-2-Clause
#include "units.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>

struct unit {
	const char *name;
	uint64_t ns;
};

static const struct unit units[] = {
	{"ns", 1},
	{"us", 1000},
	{"ms", 1000000},
	{"s", 1000000000},
	{"min", 60 * 1000000000ull},
	{"m", 60 * 1000000000ull},
	{"h", 3600 * 1000000000ull},
};

/* What people write instead. */
static const struct {
	const char *written, *meant;
} spellings[] = {
	{"nsec", "ns"},		{"nanosecond", "ns"}, {"nanoseconds", "ns"},
	{"\xc2\xb5s", "us"},	{"usec", "us"},	      {"microsecond", "us"},
	{"microseconds", "us"}, {"msec", "ms"},	      {"millisecond", "ms"},
	{"milliseconds", "ms"}, {"sec", "s"},	      {"secs", "s"},
	{"second", "s"},	{"seconds", "s"},     {"mins", "min"},
	{"minute", "min"},	{"minutes", "min"},   {"hr", "h"},
	{"hour", "h"},		{"hours", "h"},	      {"", "s"},
};

static const struct unit *unit_find(const char *name)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(units[i].name, name))
			return &units[i];
	return NULL;
}

/* Exact: no floating point between "0.1s" and 100000000. */
static int scale(const char *number, size_t bytes, uint64_t unit_ns, uint64_t *ns)
{
	unsigned __int128 total = 0;
	uint64_t place = unit_ns;
	size_t i = 0;

	for (; i < bytes && number[i] != '.'; i++) {
		total = total * 10 + (number[i] - '0');
		if (total > UINT64_MAX)
			return -ERANGE;
	}
	total *= unit_ns;
	for (i++; i < bytes; i++) {
		if (place % 10 && number[i] != '0')
			return -EINVAL; /* finer than a nanosecond, or than the unit divides */
		place /= 10;
		total += (uint64_t)(number[i] - '0') * place;
	}
	if (total > UINT64_MAX)
		return -ERANGE;
	*ns = (uint64_t)total;
	return 0;
}

int units_parse_duration(const char *text, uint64_t *ns, char hint[32])
{
	size_t bytes = strspn(text, "0123456789"), part;
	const struct unit *unit;
	const char *rest, *meant;

	/* Digits, with at most one point among them. */
	part = bytes && text[bytes] == '.' ? strspn(text + bytes + 1, "0123456789") : 0;
	bytes += part ? part + 1 : 0;
	unit = bytes ? unit_find(text + bytes) : NULL;
	if (hint)
		hint[0] = '\0';
	if (!strcmp(text, "0")) {
		*ns = 0;
		return 0;
	}
	if (unit)
		return scale(text, bytes, unit->ns, ns);
	rest = text + bytes + strspn(text + bytes, " \t");
	meant = unit_find(rest) ? rest : NULL;
	for (size_t i = 0; !meant && i < sizeof(spellings) / sizeof(spellings[0]); i++)
		if (!strcasecmp(spellings[i].written, rest))
			meant = spellings[i].meant;
	if (hint && meant && bytes && bytes < 24)
		snprintf(hint, 32, "%.*s%s", (int)bytes, text, meant);
	return -EINVAL;
}

static const char *scaled(char out[UNITS_TEXT_BYTES], double value, double base,
			  const char *const names[], size_t count, const char *space)
{
	size_t i = 0;

	/* 999.5 reads "1.00k" rather than "1000". */
	while (i + 1 < count && value >= (base == 1000 ? 999.5 : 1023.5)) {
		value /= base;
		i++;
	}
	snprintf(out, UNITS_TEXT_BYTES, "%.*f%s%s",
		 i == 0 || value >= 99.95 ? 0
		 : value >= 9.995	  ? 1
					  : 2,
		 value, names[i][0] ? space : "", names[i]);
	return out;
}

const char *units_count(char out[UNITS_TEXT_BYTES], double count)
{
	static const char *const names[] = {"", "k", "M", "G", "T", "P", "E"};

	return scaled(out, count, 1000, names, 7, "");
}

const char *units_bytes(char out[UNITS_TEXT_BYTES], double bytes)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

	return scaled(out, bytes, 1024, names, 7, " ");
}

const char *units_bit_rate(char out[UNITS_TEXT_BYTES], double bytes_per_second)
{
	static const char *const names[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};

	return scaled(out, bytes_per_second * 8, 1000, names, 5, " ");
}

const char *units_duration(char out[UNITS_TEXT_BYTES], uint64_t ns)
{
	static const struct {
		const char *name;
		unsigned int s;
	} parts[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
	uint64_t s = ns / 1000000000, rest;
	int used;

	for (size_t i = 0; i < 3; i++) {
		if (s < parts[i].s)
			continue;
		rest = s % parts[i].s / parts[i + 1].s;
		used = snprintf(out, UNITS_TEXT_BYTES, "%llu%s", (unsigned long long)s / parts[i].s,
				parts[i].name);
		if (rest)
			snprintf(out + used, UNITS_TEXT_BYTES - used, " %llu%s",
				 (unsigned long long)rest, parts[i + 1].name);
		return out;
	}
	if (s)
		snprintf(out, UNITS_TEXT_BYTES, "%gs", (double)(ns / 1000000) / 1000);
	else if (ns >= 1000000)
		snprintf(out, UNITS_TEXT_BYTES, "%gms", (double)(ns / 1000) / 1000);
	else if (ns >= 1000)
		snprintf(out, UNITS_TEXT_BYTES, "%gus", (double)ns / 1000);
	else
		snprintf(out, UNITS_TEXT_BYTES, "%uns", (unsigned int)ns);
	return out;
}

const char *units_delay(char out[UNITS_TEXT_BYTES], double ns)
{
	static const char *const names[] = {"us", "ms", "s"};
	double value = ns / 1e3, size = value < 0 ? -value : value;
	unsigned int i = 0;

	/* Rounded before the unit is chosen: 999.7 us is 1.00ms. */
	for (; i < 2 && size >= 999.5; i++) {
		value /= 1e3;
		size /= 1e3;
	}
	snprintf(out, UNITS_TEXT_BYTES, "%.*f%s",
		 size < 0.9995	? 3
		 : size < 9.995 ? 2
		 : size < 99.95 ? 1
				: 0,
		 value, names[i]);
	return out;
}

int units_parse_bit_rate(const char *text, double *bps)
{
	static const struct {
		const char *name;
		double factor;
	} scales[] = {{"", 1}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12}};
	char *end;
	double value;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	value = strtod(text, &end);
	for (size_t i = 0; i < sizeof(scales) / sizeof(*scales); i++) {
		size_t bytes = strlen(scales[i].name);
		const char *rest = end + bytes;

		if (strncasecmp(end, scales[i].name, bytes) ||
		    (*rest && strcasecmp(rest, "bit") && strcasecmp(rest, "bit/s")))
			continue;
		*bps = value * scales[i].factor;
		return *bps >= 1e3 && *bps <= 1e14 ? 0 : -EINVAL;
	}
	return -EINVAL;
}

/* --- texts --- */

void text_append(char *out, size_t bytes, const char *separator, const char *text)
{
	size_t used = strlen(out);

	snprintf(out + used, bytes - used, "%s%s", used ? separator : "", text);
}

bool text_next_line(const char **text, char *line, size_t bytes)
{
	size_t length = strcspn(*text, "\n");

	if (!**text)
		return false;
	snprintf(line, bytes, "%.*s", (int)(length < bytes ? length : bytes), *text);
	*text += length + ((*text)[length] == '\n');
	return true;
}

#define NEAREST_BYTES 48 /* longer ones are cut: no name of ours is so long */

/* Optimal string alignment: Damerau-Levenshtein without touching a place twice. */
unsigned int nearest_distance(const char *a, const char *b)
{
	unsigned int rows[3][NEAREST_BYTES + 1];
	unsigned int *before = rows[0], *last = rows[1], *row = rows[2], *spare;
	size_t a_bytes = strnlen(a, NEAREST_BYTES), b_bytes = strnlen(b, NEAREST_BYTES);

	for (size_t j = 0; j <= b_bytes; j++)
		before[j] = last[j] = j;
	for (size_t i = 1; i <= a_bytes; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_bytes; j++) {
			row[j] = MIN(last[j], row[j - 1]) + 1;
			row[j] = MIN(row[j], last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[b_bytes];
}

const char *nearest_name(const char *word, const char *const *names, size_t count)
{
	size_t bytes = strnlen(word, NEAREST_BYTES);
	unsigned int best = MAX(1u, (unsigned int)bytes / 3) + 1;
	const char *name = NULL;

	for (size_t i = 0; i < count; i++) {
		unsigned int distance = nearest_distance(word, names[i]);

		/* "dir" for "directory", "intervals" for "interval". */
		if (bytes >= 3 &&
		    (!strncmp(names[i], word, bytes) ||
		     (strlen(names[i]) >= 3 && !strncmp(names[i], word, strlen(names[i])))))
			distance = MIN(distance, 1u);
		if (distance < best) {
			best = distance;
			name = names[i];
		}
	}
	return name;
}

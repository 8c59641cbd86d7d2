// SPDX-License-Identifier: BSD-2-Clause
/* Names of hosts in formats of others. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define DIGITS_MOST 9
#define DNS_BYTES_MOST 253

bool topo_is_node_name(const char *name)
{
	size_t bytes = strlen(name);

	for (size_t i = 0; i < bytes; i++)
		if (!isalnum((unsigned char)name[i]) && (!i || !strchr("._-", name[i])))
			return false;
	return bytes > 0;
}

/* RFC 1123, as names of Kubernetes are. */
bool names_are_dns(const char *name)
{
	size_t bytes = strlen(name);

	for (size_t i = 0; i < bytes; i++) {
		bool inner = i && i + 1 < bytes && name[i - 1] != '.' && name[i + 1] != '.';

		if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) &&
		    !(inner && (name[i] == '-' || name[i] == '.')))
			return false;
	}
	return bytes > 0 && bytes <= DNS_BYTES_MOST;
}

/* Where the number at the end of @name begins; its length when there is none. */
static size_t number_at(const char *name)
{
	size_t bytes = strlen(name), at = bytes;

	while (at && isdigit((unsigned char)name[at - 1]) && bytes - at < DIGITS_MOST)
		at--;
	return at;
}

static bool has_prefix_of(const char *name, const char *other)
{
	size_t at = number_at(name);

	return at == number_at(other) && name[at] && other[at] && !strncmp(name, other, at);
}

/* Whether a range goes on from @name to @next: n9 n10, n09 n10, but not n9 n09. */
static bool is_next(const char *name, const char *next)
{
	const char *one = name + number_at(name), *two = next + number_at(next);

	return atol(two) == atol(one) + 1 &&
	       (strlen(one) == strlen(two) || (*one != '0' && *two != '0'));
}

/* Names from @at that have its prefix: prefix[1-3,7]; returns the first that has another. */
static size_t write_folded(FILE *out, const char *const *names, size_t at, size_t count)
{
	const char *first = names[at];
	size_t end = at + 1;

	while (end < count && has_prefix_of(first, names[end]))
		end++;
	if (end == at + 1) {
		fputs(first, out);
		return end;
	}
	fprintf(out, "%.*s[", (int)number_at(first), first);
	for (size_t i = at, last; i < end; i = last + 1) {
		last = i;
		while (last + 1 < end && is_next(names[last], names[last + 1]))
			last++;
		fprintf(out, "%s%s", i > at ? "," : "", names[i] + number_at(names[i]));
		if (last > i)
			fprintf(out, "-%s", names[last] + number_at(names[last]));
	}
	fputc(']', out);
	return end;
}

static int by_version(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	int order = strverscmp(x, y);

	return order ? order : strcmp(x, y);
}

char *topo_fold_names(const json_t *names)
{
	size_t count = json_array_size(names), bytes, i;
	const char **list = calloc(count + 1, sizeof(*list));
	char *text = NULL;
	const json_t *name;
	FILE *out = list ? open_memstream(&text, &bytes) : NULL;

	if (out) {
		json_array_foreach (names, i, name)
			list[i] = json_string_value(name);
		qsort(list, count, sizeof(*list), by_version);
		for (i = 0; i < count;) {
			fputs(i ? "," : "", out);
			i = write_folded(out, list, i, count);
		}
		fclose(out);
	}
	free(list);
	return text;
}

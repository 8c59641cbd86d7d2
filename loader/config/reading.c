// SPDX-License-Identifier: BSD-2-Clause
#include "reading.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "yamltree.h"

int fail_at(struct reading *reading, unsigned int line, const char *format, ...)
{
	va_list arguments;
	char *what;

	va_start(arguments, format);
	if (vasprintf(&what, format, arguments) < 0)
		what = NULL;
	va_end(arguments);
	if (!what || asprintf(reading->error, "%s:%u: %s", reading->path, line, what) < 0)
		*reading->error = NULL;
	free(what);
	return -EINVAL;
}

unsigned int line_of(const struct reading *reading, const char *section, const char *key)
{
	const struct yamltree_child *child = section ? yamltree_get(reading->root, section) : NULL;

	child = yamltree_get(section ? (child ? child->node : NULL) : reading->root, key);
	return child ? child->line : 1;
}

unsigned int interface_line(const struct reading *reading, size_t i, const char *key)
{
	const struct yamltree_child *list = yamltree_get(reading->root, "interfaces");
	const struct yamltree_child *child = yamltree_get(list->node->children[i].node, key);

	return child ? child->line : list->node->children[i].line;
}

int take_duration(struct reading *reading, const char *section, const char *key, const char *text,
		  uint64_t least_ns, uint64_t most_ns, uint64_t *ns)
{
	char hint[32], low[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
	int err;

	if (!text)
		return 0;
	err = units_parse_duration(text, ns, hint);
	if (err == -EINVAL)
		return fail_at(reading, line_of(reading, section, key),
			       "`%s: %.64s` is not a duration; units are " UNITS_UNDERSTOOD
			       ", right behind the number%s%s%s",
			       key, text, hint[0] ? ": write `" : ", such as `5s", hint, "`");
	if (err || *ns < least_ns || *ns > most_ns)
		return fail_at(reading, line_of(reading, section, key),
			       "`%s: %.64s` is out of range; give %s to %s", key, text,
			       units_duration(low, least_ns), units_duration(high, most_ns));
	return 0;
}

int take_number(struct reading *reading, const char *section, const char *key,
		const uint64_t *given, uint64_t least, uint64_t most, uint32_t *number)
{
	if (!given)
		return 0;
	if (*given < least || *given > most)
		return fail_at(reading, line_of(reading, section, key),
			       "`%s: %llu` is out of range; give %llu to %llu", key,
			       (unsigned long long)*given, (unsigned long long)least,
			       (unsigned long long)most);
	*number = *given;
	return 0;
}

bool interface_name_valid(const char *name)
{
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	for (; *name; name++)
		if (*name == '/' || *name == ':' || isspace((unsigned char)*name))
			return false;
	return true;
}

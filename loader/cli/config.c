// SPDX-License-Identifier: BSD-2-Clause
/* `config show`: the configuration as YAML. */
#include <string.h>

#include "base/json.h"
#include "cli.h"

/* Plain where YAML cannot take it for something else, else in double quotes. */
static void write_scalar(FILE *out, const json_t *value)
{
	const char *text = json_string_value(value);
	bool plain = text && *text && !strpbrk(text, " \t\n\"'#:,[]{}&*!|>%@`\\") && *text != '-';

	if (plain)
		fputs(text, out);
	else
		json_dumpf(value, out, JSON_ENCODE_ANY | JSON_COMPACT);
	fputc('\n', out);
}

static void write_pairs(FILE *out, const json_t *object, const char *first, const char *rest)
{
	const char *key, *indent = first;
	json_t *value, *entry;
	size_t i;

	json_object_foreach ((json_t *)object, key, value) {
		fprintf(out, "%s%s:%s", indent, key, json_is_array(value) ? "\n" : " ");
		if (!json_is_array(value))
			write_scalar(out, value);
		json_array_foreach (value, i, entry)
			write_pairs(out, entry, "    - ", "      ");
		indent = rest;
	}
}

/* The daemon accepts it as a configuration. */
void cli_write_config(FILE *out, const struct verb *verb, const json_t *config, const json_t *args)
{
	const char *key;
	json_t *value, *entry;
	size_t i;

	(void)verb;
	(void)args;
	fprintf(out, "# in force, from %s\n", json_text(config, "path"));
	json_object_foreach ((json_t *)config, key, value) {
		if (!strcmp(key, "path"))
			continue;
		fprintf(out, "%s:%s", key, json_is_string(value) ? " " : "\n");
		if (json_is_object(value))
			write_pairs(out, value, "  ", "  ");
		else if (json_is_string(value))
			write_scalar(out, value);
		json_array_foreach (value, i, entry)
			write_pairs(out, entry, "  - ", "    ");
	}
}

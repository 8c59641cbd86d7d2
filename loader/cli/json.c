// SPDX-License-Identifier: BSD-2-Clause
#include "cli.h"

void cli_write_json(const struct cli *cli, const json_t *value)
{
	json_dumpf(value, stdout, cli->format == CLI_PRETTY ? JSON_INDENT(2) : JSON_COMPACT);
	putchar('\n');
}

uint64_t cli_count(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

const char *cli_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

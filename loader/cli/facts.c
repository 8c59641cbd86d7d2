// SPDX-License-Identifier: BSD-2-Clause
/* `config show`, `probe-support`, `reload`, `version`. */
#include <ctype.h>
#include <string.h>

#include "cli.h"
#include "client.h"
#include "api/report.h"
#include "maps/maps.h"

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

/* As YAML that the daemon would take again. */
void cli_write_config(FILE *out, const json_t *config)
{
	const char *key;
	json_t *value, *entry;
	size_t i;

	fprintf(out, "# in force, from %s\n", cli_text(config, "path"));
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

int cli_config(const struct cli *cli)
{
	json_t *config;
	int code;

	if (cli->word_count != 1 || strcmp(cli->words[0], "show")) {
		fprintf(stderr, "escapement: `config` can only show: `escapement config show`\n");
		return CLI_USAGE;
	}
	code = cli_ask(cli->places.socket, "config", NULL, &config);
	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		cli_write_config(stdout, config);
	else
		cli_write_json(cli, config);
	json_decref(config);
	return CLI_GOOD;
}

void cli_write_support(FILE *out, const json_t *support)
{
	size_t i;
	json_t *feature;

	json_array_foreach (json_object_get(support, "features"), i, feature) {
		bool here = json_is_true(json_object_get(feature, "here"));
		const char *detail = cli_text(feature, "detail");

		fprintf(out, "%s %-18s %s\n", here ? "yes" : "no ", cli_text(feature, "name"),
			here ? detail : cli_text(feature, "cost"));
		if (!here && *detail)
			fprintf(out, "    %-18s (%s)\n", "", detail);
	}
}

/* The daemon's word where there is one: it knows what its confinement leaves. */
static int ask_support(const struct cli *cli, json_t **support)
{
	struct cli_client client;
	int code;

	if (!cli_client_open(&client, cli->places.socket)) {
		code = cli_client_ask(&client, "features", NULL, support);
		cli_client_close(&client);
		return code;
	}
	*support = report_support();
	if (*support)
		return CLI_GOOD;
	fprintf(stderr, "escapement: the kernel could not be probed: run it as root\n");
	return CLI_FAILED;
}

int cli_support(const struct cli *cli)
{
	json_t *support;
	int code = ask_support(cli, &support);

	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		cli_write_support(stdout, support);
	else
		cli_write_json(cli, support);
	json_decref(support);
	return CLI_GOOD;
}

int cli_reload(const struct cli *cli)
{
	json_t *result;
	int code = cli_ask(cli->places.socket, "reload", NULL, &result);

	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		printf("%s is in force.\n", cli_text(result, "config"));
	else
		cli_write_json(cli, result);
	json_decref(result);
	return CLI_GOOD;
}

int cli_version(const struct cli *cli)
{
	json_t *version = json_pack("{s:s, s:i}", "version", ESC_VERSION, "abi", ESC_ABI), *theirs = NULL;
	struct cli_client client;
	int code = CLI_GOOD;

	if (!cli_client_open(&client, cli->places.socket)) {
		code = cli_client_ask(&client, "version", NULL, &theirs);
		cli_client_close(&client);
	}
	if (theirs)
		json_object_set(version, "daemon", theirs);
	if (cli->format != CLI_TEXT)
		cli_write_json(cli, version);
	else
		printf("escapement %s, map ABI %llu; %s%s\n", cli_text(version, "version"),
		       (unsigned long long)cli_count(version, "abi"),
		       theirs ? "the daemon is " : "no daemon answers at ",
		       theirs ? cli_text(theirs, "version") : cli->places.socket);
	json_decref(theirs);
	json_decref(version);
	return code;
}

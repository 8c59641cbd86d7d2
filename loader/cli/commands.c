// SPDX-License-Identifier: BSD-2-Clause
/* From a verb to its reply on stdout: by its table, or by a function that is registered here. */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli.h"
#include "render.h"

static const struct command {
	const char *verb;
	int (*run)(const struct cli *cli);
	void (*write)(FILE *out, const struct verb *verb, const json_t *result, const json_t *args);
} commands[] = {
	{"help", .run = cli_help},	{"completion", .run = cli_completion},
	{"health", .run = cli_health},	{"version", .run = cli_version},
	{"events", .run = cli_events},	{"clock wait", .run = cli_clock_wait},
	{"top", .run = cli_top},	{"status", .write = cli_write_status},
	{"qp", .write = cli_write_qps}, {"config show", .write = cli_write_config},
};

static const struct command *find_command(const struct verb *verb)
{
	static const struct command plain = {};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].verb, verb->name))
			return &commands[i];
	return &plain;
}

void cli_write_json(const struct cli *cli, const json_t *value)
{
	json_dumpf(value, stdout, cli->format == CLI_PRETTY ? JSON_INDENT(2) : JSON_COMPACT);
	putchar('\n');
}

void cli_write(FILE *out, const struct verb *verb, const json_t *result, const json_t *args)
{
	const struct command *command = find_command(verb);

	if (command->write)
		command->write(out, verb, result, args);
	else if (verb->output)
		render(out, verb->output, result, args);
	else
		render_plain(out, result);
}

int cli_show(const struct cli *cli, const json_t *result)
{
	if (cli->format == CLI_TEXT)
		cli_write(stdout, cli->verb, result, cli->args);
	else
		cli_write_json(cli, result);
	return fflush(stdout) ? CLI_FAILED : CLI_GOOD;
}

/* What the command line does itself. */
static int run_here(const struct cli *cli, json_t **result)
{
	json_t *args = json_copy(cli->args);
	char *error = NULL;
	int code = CLI_FAILED;

	json_object_set_new(args, "socket", json_string(cli->socket));
	*result = cli->verb->run(args, &code, &error);
	json_decref(args);
	if (*result)
		return CLI_GOOD;
	cli_fail(code, "%s", error ? error : "out of memory");
	free(error);
	return code;
}

static bool daemon_is_absent(const char *socket)
{
	struct cli_client client;
	int err = cli_client_open(&client, socket);

	if (!err)
		cli_client_close(&client);
	return cli_client_absent(err);
}

int cli_run(const struct cli *cli)
{
	const struct command *command = find_command(cli->verb);
	enum verb_place place = cli->verb->place;
	json_t *result;
	int code;

	if (command->run)
		return command->run(cli);
	if (place == VERB_HERE || (place == VERB_EITHER && daemon_is_absent(cli->socket)))
		code = run_here(cli, &result);
	else
		code = cli_query(cli, &result);
	if (code)
		return code;
	code = cli_show(cli, result);
	json_decref(result);
	return code;
}

/* --- version --- */

int cli_version(const struct cli *cli)
{
	struct cli_client client;
	json_t *version, *daemon = NULL;
	int code = run_here(cli, &version), err;

	if (code)
		return code;
	err = cli_client_open(&client, cli->socket);
	if (!err) {
		code = cli_client_query(&client, "version", NULL, &daemon);
		cli_client_close(&client);
	}
	if (daemon)
		json_object_set_new(version, "daemon", daemon);
	if (!code)
		code = cli_show(cli, version);
	if (cli_client_absent(err) && cli->format == CLI_TEXT)
		printf("No daemon replies at %s.\n", cli->socket);
	json_decref(version);
	return code;
}

/* --- status and health: each capability has its part --- */

void cli_write_status(FILE *out, const struct verb *verb, const json_t *result, const json_t *args)
{
	render(out, verb->output, result, args);
	for (size_t i = 0; verbs_sets[i]; i++)
		if (verbs_sets[i]->status)
			render(out, verbs_sets[i]->status, result, args);
}

json_t *cli_health_reasons(const json_t *status)
{
	char *text = NULL, *save = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	json_t *reasons = json_array();

	for (size_t i = 0; out && verbs_sets[i]; i++)
		if (verbs_sets[i]->health)
			render(out, verbs_sets[i]->health, status, NULL);
	if (out && !fclose(out))
		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save))
			json_array_append_new(reasons, json_string(line));
	free(text);
	return reasons;
}

int cli_health(const struct cli *cli)
{
	json_t *status, *reasons, *result, *reason;
	int code = cli_query(cli, &status);
	bool good;
	size_t i;

	if (code)
		return code;
	reasons = cli_health_reasons(status);
	good = !json_array_size(reasons);
	result = json_pack("{s:b, s:O*, s:o}", "healthy", good, "host",
			   json_object_get(status, "host"), "reasons", reasons);
	if (cli->format != CLI_TEXT)
		cli_write_json(cli, result);
	else if (good)
		printf("%s: healthy\n", json_text(status, "host"));
	else
		json_array_foreach (reasons, i, reason)
			printf("%s: %s\n", json_text(status, "host"), json_string_value(reason));
	json_decref(result);
	json_decref(status);
	return good ? CLI_GOOD : CLI_FAILED;
}

/* --- the whole --- */

int cli_main(int argc, char **argv)
{
	struct cli cli = {};
	int code;

	setlocale(LC_TIME, "");
	code = cli_parse(&cli, argc, argv);
	if (code < 0)
		code = cli_run(&cli);
	json_decref(cli.args);
	if (fflush(stdout) || ferror(stdout)) {
		cli_fail(CLI_FAILED, "the output cannot be written: %s", strerror(errno));
		return code ? code : CLI_FAILED;
	}
	return code;
}

// SPDX-License-Identifier: BSD-2-Clause
/* `events`: a line for each. */
#include <time.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/json.h"
#include "cli.h"

/* "packets 3, why \"...\"": an object in one line. */
static void write_part(FILE *out, const json_t *event, const char *name)
{
	json_t *part = json_object_get(event, name), *value;
	const char *key, *between = " ";

	if (!part)
		return;
	fprintf(out, "  %s:", name);
	if (!json_is_object(part)) {
		fputc(' ', out);
		json_dumpf(part, out, JSON_COMPACT | JSON_ENCODE_ANY);
		return;
	}
	json_object_foreach (part, key, value) {
		fprintf(out, "%s%s ", between, key);
		if (json_is_string(value))
			fputs(json_string_value(value), out);
		else if (json_is_real(value))
			fprintf(out, "%.6g", json_real_value(value));
		else
			json_dumpf(value, out, JSON_COMPACT | JSON_ENCODE_ANY);
		between = ", ";
	}
}

void cli_write_event(FILE *out, const json_t *event)
{
	uint64_t time_ns = json_count(event, "time_ns");
	time_t seconds = time_ns / 1000000000;
	struct tm tm;
	char when[32];

	localtime_r(&seconds, &tm);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	fprintf(out, "%s.%03u  %s  %s", when, (unsigned int)(time_ns % 1000000000 / 1000000),
		json_text(event, "kind"), json_text(event, "subject"));
	write_part(out, event, "seen");
	write_part(out, event, "done");
	write_part(out, event, "expected");
	write_part(out, event, "result");
	fputc('\n', out);
}

static void show(const struct cli *cli, const json_t *event)
{
	if (cli->format == CLI_TEXT)
		cli_write_event(stdout, event);
	else
		cli_write_json(cli, event);
}

/* Those of the log, and with --follow each new one. */
int cli_events(const struct cli *cli)
{
	struct timeval forever = {};
	struct cli_client client;
	json_t *result, *event;
	int err = cli_client_open(&client, cli->socket), code;
	size_t i;

	if (err)
		return cli_client_explain(cli->socket, err);
	code = cli_client_query(&client, "events", cli_request_args(cli), &result);
	if (!code) {
		json_array_foreach (json_object_get(result, "events"), i, event)
			show(cli, event);
		json_decref(result);
	}
	setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
	while (!code && json_is_true(json_object_get(cli->args, "follow"))) {
		code = fflush(stdout) ? CLI_FAILED : cli_client_next(&client, &event);
		if (code)
			break;
		show(cli, event);
		json_decref(event);
	}
	cli_client_close(&client);
	return code;
}

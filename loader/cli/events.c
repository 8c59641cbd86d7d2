// SPDX-License-Identifier: BSD-2-Clause
/* The event log: shown, followed, and merged from the files of several hosts. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/socket.h>
#include <time.h>

#include "base/json.h"
#include "base/units.h"
#include "cli.h"

/* --- as text --- */

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

/* --- which events are shown --- */

static bool has_text(const json_t *event, const char *key, const char *text)
{
	return strstr(json_text(event, key), text);
}

bool cli_event_matches(const json_t *args, const json_t *event)
{
	static const char *const severities[] = {"info", "notice", "warning", "critical"};
	const char *subject = json_string_value(json_object_get(args, "subject"));
	const char *least = json_text(args, "severity"), *is = json_text(event, "severity");
	const json_t *kinds = json_object_get(args, "kinds"), *kind;
	bool good = !json_array_size(kinds);
	size_t i;

	json_array_foreach (kinds, i, kind)
		good = good || !fnmatch(json_string_value(kind), json_text(event, "kind"), 0);
	if (subject && !has_text(event, "subject", subject) && !has_text(event, "fault", subject) &&
	    !has_text(event, "job", subject))
		return false;
	for (i = 0; *least && i < sizeof(severities) / sizeof(severities[0]); i++) {
		if (!strcmp(severities[i], least))
			break;
		if (!strcmp(severities[i], is))
			return false;
	}
	return good;
}

static void show_event(const struct cli *cli, const json_t *event)
{
	if (!cli_event_matches(cli->args, event))
		return;
	if (cli->format == CLI_TEXT)
		cli_write_event(stdout, event);
	else
		cli_write_json(cli, event);
}

/* --- the logs of several hosts in one order: merge.c --- */

/* By fabric time: the time since the line before, and the bound. */
static void write_merged(const struct merged *one, const struct merged *before)
{
	const json_t *fabric = json_object_get(one->event, "fabric_ns");
	char time[UNITS_TEXT_BYTES], bound[UNITS_TEXT_BYTES];
	int64_t passed_ns = 0;

	if (one->timed && before && before->timed)
		passed_ns = json_integer_value(fabric) -
			    json_integer_value(json_object_get(before->event, "fabric_ns"));
	if (one->timed)
		printf("%10s +-%-8s ", before ? units_delay(time, (double)passed_ns) : "0",
		       units_delay(bound, (double)json_count(one->event, "bound_ns")));
	else
		printf("%10s   %-8s ", "-", "-");
	printf("%s  ", one->host);
	if (one->not_ordered)
		printf("(not ordered with %zu above)  ", one->not_ordered);
	cli_write_event(stdout, one->event);
}

static int read_log(struct merge *merge, const char *path)
{
	FILE *file = fopen(path, "re");
	size_t room = 0, number = 0, first = 0, wrong = 0;
	char *line = NULL;
	ssize_t bytes;
	int err;

	if (!file)
		return cli_fail(CLI_FAILED,
				"%s: %s; give event logs, lines of JSON as "
				"`escapement -j events` prints",
				path, strerror(errno));
	errno = 0;
	while ((bytes = getline(&line, &room, file)) > 0) {
		bool bad = !merge_line(merge, line, (size_t)bytes);

		number++;
		first = bad && !wrong ? number : first;
		wrong += bad;
	}
	err = ferror(file) ? errno : 0;
	free(line);
	fclose(file);
	if (err)
		return cli_fail(CLI_FAILED, "%s: %s", path, strerror(err));
	if (wrong)
		return cli_fail(CLI_FAILED,
				"%s:%zu: not an event with id, host, kind and time_ns; %zu such "
				"lines were left out: give lines of `escapement -j events`",
				path, first, wrong);
	return CLI_GOOD;
}

/* What can be read is shown; CLI_FAILED when some could not. */
static int merge_logs(struct cli *cli, const json_t *files)
{
	const struct merged *before = NULL;
	struct merge merge = {};
	size_t i, not_ordered;
	int code = CLI_GOOD;
	json_t *file;

	json_array_foreach (files, i, file)
		code |= read_log(&merge, json_string_value(file));
	merge_sort(&merge);
	not_ordered = merge_count_not_ordered(&merge, cli->args);
	for (i = 0; i < merge.count; i++) {
		struct merged *one = &merge.list[i];

		if (!one->shown)
			continue;
		if (cli->format == CLI_TEXT) {
			render_escape(one->event, false);
			write_merged(one, before);
		} else {
			if (one->not_ordered)
				merge_put_not_ordered(&merge, one);
			cli_write_json(cli, one->event);
		}
		before = one;
	}
	if (not_ordered && cli->format == CLI_TEXT)
		printf("%zu events are not ordered with some above them: their error bounds "
		       "overlap.\n",
		       not_ordered);
	merge_free(&merge);
	return code;
}

/* --- the verb --- */

/* Those of the log, and with --follow each new one. */
int cli_events(struct cli *cli)
{
	const json_t *files = json_object_get(cli->args, "files");
	bool follow = json_is_true(json_object_get(cli->args, "follow"));
	struct timeval forever = {};
	json_t *result, *event;
	size_t i;
	int code;

	if (json_is_true(json_object_get(cli->args, "merge")) != (files != NULL))
		return cli_fail(CLI_USAGE, files ? "files are for `events --merge FILE...`"
						 : "--merge needs files: `events --merge FILE...`");
	if (files && follow)
		return cli_fail(CLI_USAGE, "--merge reads files: it cannot --follow");
	if (files)
		return merge_logs(cli, files);
	code = cli_open(cli);
	if (code)
		return code;
	code = cli_query(cli, "events", cli_request_args(cli), &result);
	if (!code) {
		json_array_foreach (json_object_get(result, "events"), i, event)
			show_event(cli, event);
		json_decref(result);
	}
	setsockopt(cli->fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
	while (!code && follow) {
		code = fflush(stdout) ? CLI_FAILED : cli_next(cli, &event);
		if (code)
			break;
		show_event(cli, event);
		json_decref(event);
	}
	cli_close(cli);
	return code;
}

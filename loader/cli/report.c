// SPDX-License-Identifier: BSD-2-Clause
/* The verb report: an export of this host, or the page of exports. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/now.h"
#include "base/readfile.h"
#include "cli.h"
#include "report/report.h"

#define SAMPLE_NS 1000000000ull
#define FILE_BYTES_MAX (1ul << 30)

static int put_reply(struct cli *cli, json_t *export, const struct report_verb *verb)
{
	json_t *reply = NULL;
	int code = cli_open(cli);

	if (code)
		return code;
	code = cli_query(cli, verb->verb, verb->flag ? json_pack("{s:b}", verb->flag, 1) : NULL,
			 &reply);
	cli_close(cli);
	if (!code)
		report_export_put(export, verb->verb, reply);
	return code;
}

static int take_sample(struct cli *cli, json_t *export)
{
	int code = 0;

	for (const struct report_verb *verb = report_verbs; !code && verb->verb; verb++)
		if (verb->sampled)
			code = put_reply(cli, export, verb);
	return code;
}

/* Verbs that this release does not have are no error. */
static int take_rest(struct cli *cli, json_t *export)
{
	int code = 0;

	for (const struct report_verb *verb = report_verbs; !code && verb->verb; verb++)
		if (!verb->sampled && verbs_named(verb->verb))
			code = put_reply(cli, export, verb);
	return code;
}

/* A sample a second for @for_ns, and everything at the end. */
static int take_export(struct cli *cli, uint64_t for_ns, json_t **out)
{
	const struct timespec step = {.tv_sec = SAMPLE_NS / 1000000000};
	json_t *export = report_export_new(time_realtime_ns());
	int code = take_sample(cli, export);

	for (uint64_t spent_ns = 0; !code && spent_ns < for_ns; spent_ns += SAMPLE_NS) {
		nanosleep(&step, NULL);
		report_export_sample(export, time_realtime_ns());
		code = take_sample(cli, export);
	}
	if (!code)
		code = take_rest(cli, export);
	*out = export;
	return code;
}

static int add_file(struct report *report, const char *path)
{
	char *bytes = NULL, *error = NULL;
	size_t size = 0;
	int err = readfile(path, FILE_BYTES_MAX, &bytes, &size, NULL, &error);

	if (!err)
		err = report_add_text(report, path, bytes, size, &error);
	if (err)
		cli_fail(CLI_FAILED,
			 "%s; give files of `escapement -j report` or `escapement -j events`",
			 error ? error : strerror(-err));
	free(error);
	free(bytes);
	return err ? CLI_FAILED : CLI_GOOD;
}

static int write_page(struct report *report)
{
	int err = report_write(report, stdout);

	if (err == -ENODATA)
		return cli_fail(CLI_FAILED, "no export of a host is among the files; make one with "
					    "`escapement -j report`");
	return err ? cli_fail(CLI_FAILED, "the page cannot be made: %s", strerror(-err)) : CLI_GOOD;
}

int cli_report(struct cli *cli)
{
	const json_t *files = json_object_get(cli->args, "files");
	bool html = json_object_get(cli->args, "html");
	struct report *report;
	json_t *export = NULL, *file;
	int code = CLI_GOOD;
	size_t i;

	if (html == (cli->format != CLI_TEXT))
		return cli_fail(CLI_USAGE, "`report --html` writes the page, `-j report` an export "
					   "of this host: give one of them");
	if (files && !html)
		return cli_fail(CLI_USAGE, "-j report takes no FILE: it writes an export of this "
					   "host; `report --html FILE...` reads them");
	if (files && json_object_get(cli->args, "for_ns"))
		return cli_fail(CLI_USAGE, "--for is for the live host: give it without FILE");
	if (!files)
		code = take_export(cli, json_count(cli->args, "for_ns"), &export);
	report = report_new();
	if (!code && !html)
		cli_write_json(cli, export);
	else if (!code && export)
		report_add(report, export, NULL);
	json_array_foreach (files, i, file)
		code = code ? code : add_file(report, json_string_value(file));
	if (!code && html)
		code = write_page(report);
	report_free(report);
	json_decref(export);
	return code;
}

// SPDX-License-Identifier: BSD-2-Clause
/* `health`: the reasons for which this host is not healthy, also as plugins of monitors print them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/now.h"
#include "cli.h"

#define REPLY_SECONDS 10	 /* a daemon that hangs is one more reason */
#define CLOCK_BOUND_NS 100000ull /* when no limit is given */
#define NPD_BYTES 80		 /* max_output_length of node-problem-detector */
#define NAGIOS_BYTES 4096	 /* MAX_PLUGIN_OUTPUT_LENGTH of NRPE 3 */

/* Exit status of the plugins. */
enum { NPD_OK, NPD_PROBLEM, NPD_UNKNOWN };
enum { NAGIOS_OK, NAGIOS_WARNING, NAGIOS_CRITICAL, NAGIOS_UNKNOWN };

/* --- reasons --- */

static void find_in(const json_t *list, const char *kind, const json_t **oldest)
{
	json_t *one;
	size_t i;

	json_array_foreach (list, i, one) {
		if (!strcmp(json_text(one, "kind"), kind) &&
		    (!*oldest || json_count(one, "since_ns") < json_count(*oldest, "since_ns")))
			*oldest = one;
		find_in(json_object_get(one, "conditions"), kind, oldest);
	}
}

/* Since when the oldest open condition of that kind has been there. */
static void put_since(json_t *reason, const json_t *findings, const char *kind)
{
	static const char *const keys[] = {"since_ns", "since_fabric_ns", "bound_ns"};
	uint64_t now_ns = time_realtime_ns(), since_ns;
	const json_t *oldest = NULL;

	if (kind)
		find_in(findings, kind, &oldest);
	if (!oldest)
		return;
	since_ns = json_count(oldest, "since_ns");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_object_get(oldest, keys[i]))
			json_put_integer(reason, keys[i], (int64_t)json_count(oldest, keys[i]));
	if (now_ns > since_ns)
		json_put_count(reason, "for_ns", now_ns - since_ns);
}

static json_t *new_reason(bool critical, const char *what, const char *remedy)
{
	json_t *reason = json_object();

	json_put_text(reason, "severity", critical ? "critical" : "warning");
	json_put_text(reason, "what", what);
	json_put_text(reason, "remedy", remedy);
	return reason;
}

static bool is_critical(const json_t *object)
{
	return !strcmp(json_text(object, "severity"), "critical");
}

/* Each line that @section writes. */
static void add_section(json_t *reasons, const struct verb_section *section, struct scope scope,
			const json_t *findings)
{
	const struct verb_section alone[] = {*section, {}};
	char *text = NULL, *save = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	render_sections(out, alone, scope);
	if (!fclose(out))
		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save)) {
			json_t *reason = new_reason(section->critical, line, section->remedy);

			put_since(reason, findings, section->began);
			json_array_append_new(reasons, reason);
		}
	free(text);
}

/* Such a condition is a reason already. */
static bool has_critical_section(const char *kind)
{
	for (size_t i = 0; verbs_sets[i]; i++)
		for (const struct verb_section *section = verbs_sets[i]->health;
		     section && section->text; section++)
			if (section->critical && section->began && !strcmp(section->began, kind))
				return true;
	return false;
}

/* Of this host: another one's, and what is between them, is reported there or by the fabric's. */
static bool is_own(const json_t *finding)
{
	const char *about = json_text(finding, "about");

	return !strcmp(about, "host") || !strcmp(about, "nic") || !strcmp(about, "qp");
}

static void add_findings(json_t *reasons, const json_t *findings)
{
	json_t *one, *reason;
	char what[512];
	size_t i;

	json_array_foreach (findings, i, one) {
		const char *kind = json_text(one, "kind");

		if (!is_critical(one) || !is_own(one) || has_critical_section(kind))
			continue;
		snprintf(what, sizeof(what), "%s: %s", kind, json_text(one, "id"));
		reason = new_reason(true, what, json_text(one, "remedy"));
		put_since(reason, findings, kind);
		json_array_append_new(reasons, reason);
	}
}

json_t *cli_health_reasons(const json_t *status, const json_t *findings, uint64_t clock_bound_ns,
			   bool critical_only)
{
	json_t *args = json_pack("{s:I}", "clock_bound_ns", (json_int_t)clock_bound_ns);
	json_t *all = json_array(), *reasons = json_array(), *one;
	size_t i;

	for (size_t set = 0; verbs_sets[set]; set++)
		for (const struct verb_section *section = verbs_sets[set]->health;
		     section && section->text; section++)
			add_section(all, section, (struct scope){status, args}, findings);
	add_findings(all, findings);
	/* The critical ones first. */
	for (int critical = 1; critical >= critical_only; critical--)
		json_array_foreach (all, i, one)
			if (is_critical(one) == (bool)critical)
				json_array_append(reasons, one);
	json_decref(all);
	json_decref(args);
	return reasons;
}

/* --- as text --- */

/* "WHAT, for 2min 5s: REMEDY", malloc'd. */
static char *reason_line(const json_t *reason)
{
	static const char template[] = "{what}<|, for {for_ns:age}|><|: {remedy}|>";

	return value_expand((struct scope){reason, NULL}, template);
}

static void write_text(const json_t *result)
{
	const char *host = json_text(result, "host");
	json_t *reason;
	char *line;
	size_t i;

	if (json_is_true(json_object_get(result, "healthy")))
		printf("%s: healthy\n", host);
	json_array_foreach (json_object_get(result, "reasons"), i, reason) {
		line = reason_line(reason);
		printf("%s: %s\n", host, line ? line : "");
		free(line);
	}
}

/* One line of at most @most bytes without its end, cut between two characters. */
static void print_cut(const char *text, size_t most)
{
	size_t bytes = strlen(text);

	if (bytes > most) {
		bytes = most - 3;
		while (bytes && ((unsigned char)text[bytes] & 0xc0) == 0x80)
			bytes--;
		printf("%.*s...\n", (int)bytes, text);
	} else {
		puts(text);
	}
}

/* What node-problem-detector makes the message of a condition: the first reason, and how many. */
static int write_npd(const json_t *reasons)
{
	size_t count = json_array_size(reasons);
	char text[1024];

	if (!count) {
		puts("healthy");
		return NPD_OK;
	}
	if (count > 1)
		snprintf(text, sizeof(text), "(%zu reasons) %s", count,
			 json_text(json_array_get(reasons, 0), "what"));
	else
		snprintf(text, sizeof(text), "%s", json_text(json_array_get(reasons, 0), "what"));
	print_cut(text, NPD_BYTES);
	return NPD_PROBLEM;
}

/* Nagios separates performance data by a bar. */
static void write_nagios_line(FILE *out, const json_t *reason)
{
	char *line = reason_line(reason);

	for (char *at = line; at && *at; at++)
		if (*at == '|')
			*at = '/';
	fputs(line ? line : "", out);
	free(line);
}

static int write_nagios(const json_t *status, const json_t *reasons, uint64_t clock_bound_ns)
{
	const json_t *bound = json_object_get(json_object_get(status, "clock"), "bound_ns");
	const json_t *first = json_array_get(reasons, 0);
	bool critical = is_critical(first);
	char *text = NULL;
	size_t bytes, i;
	FILE *out = open_memstream(&text, &bytes);
	json_t *reason;

	if (!out)
		return NAGIOS_UNKNOWN;
	fprintf(out, "ESCAPEMENT %s - ", !first ? "OK" : critical ? "CRITICAL" : "WARNING");
	if (first)
		write_nagios_line(out, first);
	else
		fprintf(out, "%s is healthy", json_text(status, "host"));
	if (json_is_integer(bound))
		fprintf(out, " | clock_bound=%.9fs;%.9f", json_number_value(bound) / 1e9,
			(double)clock_bound_ns / 1e9);
	json_array_foreach (reasons, i, reason) {
		if (!i)
			continue;
		fputc('\n', out);
		write_nagios_line(out, reason);
	}
	if (!fclose(out))
		print_cut(text, NAGIOS_BYTES);
	free(text);
	return !first ? NAGIOS_OK : critical ? NAGIOS_CRITICAL : NAGIOS_WARNING;
}

/* --- the verb --- */

/* The status could not be had, for a reason that was printed to stderr. */
static int fail(const char *format, int code)
{
	const char *why = code == CLI_DENIED	  ? "permission denied: it may not use the socket"
			  : code == CLI_NO_DAEMON ? "escapementd does not reply: is it running?"
						  : "escapementd refuses to reply";

	if (!strcmp(format, "npd")) {
		puts(why);
		return code == CLI_NO_DAEMON ? NPD_PROBLEM : NPD_UNKNOWN;
	}
	if (!strcmp(format, "nagios")) {
		printf("ESCAPEMENT %s - %s\n", code == CLI_NO_DAEMON ? "CRITICAL" : "UNKNOWN", why);
		return code == CLI_NO_DAEMON ? NAGIOS_CRITICAL : NAGIOS_UNKNOWN;
	}
	return code;
}

static int write_result(struct cli *cli, const json_t *status, json_t *reasons)
{
	bool good = !json_array_size(reasons);
	json_t *result = json_pack("{s:b, s:O*, s:O}", "healthy", good, "host",
				   json_object_get(status, "host"), "reasons", reasons);

	if (cli->format == CLI_TEXT)
		write_text(result);
	else
		cli_write_json(cli, result);
	json_decref(result);
	return good ? CLI_GOOD : CLI_FAILED;
}

int cli_health(struct cli *cli)
{
	const char *format = json_text(cli->args, "format");
	uint64_t bound_ns = json_count(cli->args, "clock_bound_ns");
	bool critical = is_critical(cli->args);
	json_t *status, *reply = NULL, *reasons;
	int code;

	cli->reply_seconds = REPLY_SECONDS;
	code = cli_query_once(cli, "status", &status);
	if (code)
		return fail(format, code);
	if (verbs_named("findings"))
		code = cli_query_once(cli, "findings", &reply);
	if (code) {
		json_decref(status);
		return fail(format, code);
	}
	bound_ns = bound_ns ? bound_ns : CLOCK_BOUND_NS;
	reasons =
		cli_health_reasons(status, json_object_get(reply, "findings"), bound_ns, critical);
	if (!strcmp(format, "npd"))
		code = write_npd(reasons);
	else if (!strcmp(format, "nagios"))
		code = write_nagios(status, reasons, bound_ns);
	else
		code = write_result(cli, status, reasons);
	json_decref(reasons);
	json_decref(reply);
	json_decref(status);
	return code;
}

// SPDX-License-Identifier: BSD-2-Clause
/* `paths`: the candidate paths to each peer, as a table. */
#include <string.h>

#include "cli.h"
#include "client.h"
#include "table.h"
#include "base/units.h"

static double real_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

/* "2.3/2.5/8.1/40": floor, now, median and 99th in microseconds. */
static void delay_cell(struct cli_table *table, const json_t *path, const char *key)
{
	static const char *const parts[] = {"floor", "now", "p50", "p99"};
	const json_t *delay = json_object_get(path, key);
	char text[96];
	size_t used = 0;

	for (size_t i = 0; delay && i < 4 && used < sizeof(text); i++) {
		const json_t *part = json_object_get(delay, parts[i]);

		used += (size_t)snprintf(text + used, sizeof(text) - used, part ? "%s%.3g" : "%s-",
					 i ? "/" : "", json_number_value(part) / 1e3);
	}
	cli_table_cell(table, "%s", used ? text : "-");
}

static void loss_cell(struct cli_table *table, const json_t *path)
{
	double sent = real_of(path, "sent");

	if (sent > 0)
		cli_table_cell(table, "%.3g%%", 100 * real_of(path, "lost") / sent);
	else
		cli_table_cell(table, "-");
}

/* By what the switches are told apart: the whole list is in the JSON. */
static void hops_cell(struct cli_table *table, const json_t *path)
{
	const json_t *hops = json_object_get(path, "hops"), *hop;
	char text[256] = "";
	size_t i, used = 0;

	json_array_foreach (hops, i, hop)
		if (used < sizeof(text))
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "%s%s", i ? " " : "",
				json_is_string(hop) ? json_string_value(hop) : "*");
	cli_table_cell(table, "%s", used ? text : "-");
}

static void path_row(struct cli_table *table, const json_t *path)
{
	char interval[UNITS_TEXT_BYTES];
	uint64_t group = cli_count(path, "group"), standby = cli_count(path, "standby_sport");

	cli_table_cell(table, "%s", cli_text(path, "peer"));
	cli_table_cell(table, "%s", cli_text(path, "to"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(path, "sport"));
	cli_table_cell(table, group ? "%llu" : "?", (unsigned long long)group);
	cli_table_cell(table, "%s%s", cli_text(path, "state"),
		       json_is_true(json_object_get(path, "diverted")) ? ":diverted" : "");
	delay_cell(table, path, "owd_out_ns");
	delay_cell(table, path, "owd_in_ns");
	if (json_object_get(path, "bound_ns"))
		cli_table_cell(table, "%.3g", real_of(path, "bound_ns") / 1e3);
	else
		cli_table_cell(table, "-");
	loss_cell(table, path);
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(path, "qps"));
	cli_table_cell(table, standby ? "%llu" : "-", (unsigned long long)standby);
	cli_table_cell(table, "%s",
		       cli_count(path, "interval_ns")
			       ? units_duration(interval, cli_count(path, "interval_ns"))
			       : "-");
	hops_cell(table, path);
}

static void write_notes(FILE *out, const json_t *result)
{
	const json_t *budget = json_object_get(result, "budget"), *pair;
	size_t i;

	json_array_foreach (json_object_get(result, "pairs"), i, pair) {
		fprintf(out, "%s (%s): ", cli_text(pair, "peer"), cli_text(pair, "to"));
		if (cli_count(pair, "groups"))
			fprintf(out, "%llu path%s%s", (unsigned long long)cli_count(pair, "groups"),
				cli_count(pair, "groups") == 1 ? "" : "s",
				json_is_true(json_object_get(pair, "complete"))
					? ""
					: ", more are looked for");
		else
			fprintf(out, "paths are not told apart yet");
		fprintf(out, "%s%s\n", *cli_text(pair, "note") ? "; " : "", cli_text(pair, "note"));
	}
	if (json_is_true(json_object_get(budget, "short")))
		fprintf(out,
			"paths.probe_budget_pps (%llu) is short: %llu would be wanted, paths are "
			"probed less often than configured\n",
			(unsigned long long)cli_count(budget, "budget_pps"),
			(unsigned long long)cli_count(budget, "wanted_pps"));
}

void cli_write_lanes(FILE *out, const json_t *result)
{
	const json_t *paths = json_object_get(result, "paths");

	if (*cli_text(result, "note"))
		fprintf(out, "%s\n", cli_text(result, "note"));
	if (!json_array_size(paths)) {
		fprintf(out, json_is_true(json_object_get(result, "on"))
				     ? "No paths: there is no queue pair to a member's address.\n"
				     : "No paths are probed: `paths.probe` is off, or there are no "
				       "members.\n");
		return;
	}
	cli_table_rows(out,
		       "<peer <to sport path <state <out_us <in_us bound_us lost qps "
		       "standby every <hops",
		       paths, path_row);
	fprintf(out, "\nDelays: floor/now/median/99th, true within the bound. Ports with one "
		     "number share a path.\n");
	write_notes(out, result);
}

int cli_paths(const struct cli *cli)
{
	json_t *args = cli->word_count ? json_pack("{s:s}", "peer", cli->words[0]) : NULL, *result;
	int code = cli_ask(cli->places.socket, "paths", args, &result);

	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		cli_write_lanes(stdout, result);
	else
		cli_write_json(cli, result);
	json_decref(result);
	return CLI_GOOD;
}

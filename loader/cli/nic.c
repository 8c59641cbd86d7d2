// SPDX-License-Identifier: BSD-2-Clause
/* `escapement nic`: pairs of NICs, and by which of them whose packets go. */
#include <string.h>

#include "cli.h"
#include "client.h"
#include "table.h"
#include "base/units.h"

#define PAIR_HEADINGS "<NIC <STATE <SIBLING <STATE <DUMMY"
#define USED_HEADINGS "<FROM <TO <PEER <GOES <WHY FOR <USABLE"

static void add_device(struct cli_table *table, const json_t *device)
{
	const char *why = cli_text(device, "why");

	cli_table_cell(table, "%s", cli_text(device, "name"));
	cli_table_cell(table, "%s%s%s", cli_text(device, "state"), *why ? ":" : "", why);
}

static void add_pair(struct cli_table *table, const json_t *pair)
{
	const char *dummy = cli_text(pair, "dummy");

	add_device(table, json_object_get(pair, "nic"));
	add_device(table, json_object_get(pair, "sibling"));
	cli_table_cell(table, "%s", *dummy ? dummy : "-");
}

/* "direct,second_to_second"; "none". */
static const char *usable_ways(const json_t *used, char *out, size_t bytes)
{
	size_t i, at = 0;
	json_t *way;

	snprintf(out, bytes, "none");
	json_array_foreach (json_object_get(used, "ways"), i, way)
		if (json_is_true(json_object_get(way, "usable")) && at < bytes)
			at += snprintf(out + at, bytes - at, "%s%s", at ? "," : "",
				       cli_text(way, "way"));
	return out;
}

static void add_used(struct cli_table *table, const json_t *used)
{
	char since[UNITS_TEXT_BYTES], ways[128];
	const char *why = cli_text(used, "why");

	cli_table_cell(table, "%s", cli_text(used, "src"));
	cli_table_cell(table, "%s", cli_text(used, "dst"));
	cli_table_cell(table, "%s", cli_text(used, "peer"));
	cli_table_cell(table, "%s", cli_text(used, "taken"));
	cli_table_cell(table, "%s", *why ? why : "-");
	cli_table_cell(table, "%s", units_duration(since, cli_count(used, "since_ms") * 1000000));
	cli_table_cell(table, "%s", usable_ways(used, ways, sizeof(ways)));
}

void cli_write_nics(FILE *out, const json_t *nics)
{
	const json_t *pairs = json_object_get(nics, "pairs"), *used = json_object_get(nics, "used");
	const char *note = cli_text(nics, "note");
	uint64_t port = cli_count(nics, "port");

	if (*note) {
		fprintf(out, "NIC failover is off: %s\n", note);
		return;
	}
	if (!json_array_size(pairs)) {
		fprintf(out,
			"No NIC has a `sibling` in the configuration, or the kill switch is on: "
			"nothing fails over\n");
		return;
	}
	fprintf(out, "NIC failover: %s, %s (UDP ports %llu to %llu)\n",
		json_is_true(json_object_get(nics, "on")) ? "on" : "off (kill switch)",
		strcmp(cli_text(nics, "mode"), "plain") ? "packets in UDP between the NICs"
							: "packets as they are by the other NIC",
		(unsigned long long)port, (unsigned long long)port + 2);
	fprintf(out,
		"Packets: %llu put into UDP, %llu redirected, %llu taken out, %llu without a "
		"way, %llu sent again\n\n",
		(unsigned long long)cli_count(nics, "wrapped"),
		(unsigned long long)cli_count(nics, "redirected"),
		(unsigned long long)cli_count(nics, "unwrapped"),
		(unsigned long long)cli_count(nics, "held"),
		(unsigned long long)cli_count(nics, "resent"));
	cli_table_rows(out, PAIR_HEADINGS, pairs, add_pair);
	if (json_array_size(used)) {
		fputc('\n', out);
		cli_table_rows(out, USED_HEADINGS, used, add_used);
	}
	if (cli_count(nics, "left_out"))
		fprintf(out, "%llu more pairs of addresses are not probed\n",
			(unsigned long long)cli_count(nics, "left_out"));
}

void cli_write_nics_short(FILE *out, const json_t *nics)
{
	const char *note = cli_text(nics, "note");

	if (!nics)
		return;
	if (*note)
		fprintf(out, "NIC failover: off: %s\n", note);
	else if (!json_is_true(json_object_get(nics, "on")))
		fprintf(out, "NIC failover: off\n");
	else
		fprintf(out,
			"NIC failover: %llu pairs, %llu NICs dead; %llu of %llu pairs of addresses "
			"go by "
			"another NIC (`escapement nic`)\n",
			(unsigned long long)cli_count(nics, "pairs"),
			(unsigned long long)cli_count(nics, "dead"),
			(unsigned long long)cli_count(nics, "failed_over"),
			(unsigned long long)cli_count(nics, "used"));
}

int cli_nic(const struct cli *cli)
{
	json_t *result;
	int code = cli_ask(cli->places.socket, "failover", NULL, &result);

	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		cli_write_nics(stdout, result);
	else
		cli_write_json(cli, result);
	json_decref(result);
	return CLI_GOOD;
}

// SPDX-License-Identifier: BSD-2-Clause
/* `steer`: the queue pairs that were given a path, and giving one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "client.h"
#include "table.h"
#include "base/units.h"

#define HEADINGS "<FROM <TO QPN <NETDEV OWN LEAVES WANTED <BY <STATE <MOMENT PACKETS"
#define PLAN_PATHS "LANE SPORT DELAY FLOOR +- RATE QPS <STATE"
#define PLAN_MOVES "QPN RATE FROM TO GAIN"

static int bad_value(const char *name, const char *value, const char *should)
{
	fprintf(stderr, "escapement: --%s %s: should be %s\n", name, value, should);
	return CLI_USAGE;
}

static int take_number(json_t *args, const char *name, const char *key, const char *value)
{
	char *end;
	unsigned long number;

	errno = 0;
	number = strtoul(value, &end, strncasecmp(value, "0x", 2) ? 10 : 16);
	if (errno || end == value || *end || *value == '-' || *value == '+' || number > 0xffffff)
		return bad_value(name, value, "a whole number, such as 17 or 0x11");
	json_object_set_new(args, key, json_integer((json_int_t)number));
	return CLI_GOOD;
}

static int take_time(json_t *args, const char *name, const char *key, const char *value)
{
	char hint[32];
	uint64_t ns;

	if (units_parse_duration(value, &ns, hint))
		return bad_value(name, value, "a time, such as 500us or 1s");
	json_object_set_new(args, key, json_integer((json_int_t)ns));
	return CLI_GOOD;
}

int cli_steer_option(struct cli *cli, const char *name, const char *value)
{
	if (!cli->steer)
		cli->steer = json_object();
	if (!strcmp(name, "force") || !strcmp(name, "all"))
		return json_object_set_new(cli->steer, name, json_true()) ? CLI_FAILED : CLI_GOOD;
	if (!strcmp(name, "src") || !strcmp(name, "dst"))
		return json_object_set_new(cli->steer, name, json_string(value))
			       ? bad_value(name, "", "an address")
			       : CLI_GOOD;
	if (!strcmp(name, "flowlet-gap"))
		return take_time(cli->steer, name, "flowlet_gap_ns", value);
	if (!strcmp(name, "deadline"))
		return take_time(cli->steer, name, "deadline_ns", value);
	return take_number(cli->steer, name, strcmp(name, "flow-label") ? name : "flow_label",
			   value);
}

/* "51000", "51000 label 0x12345", or what it has by itself. */
static const char *path_text(char out[48], const json_t *object, const char *sport_key,
			     const char *label_key, uint64_t own)
{
	const json_t *label = json_object_get(object, label_key);
	uint64_t sport = cli_count(object, sport_key);
	int used = snprintf(out, 48, "%llu", (unsigned long long)(sport ? sport : own));

	if (label)
		snprintf(out + used, 48 - used, "/0x%llx",
			 (unsigned long long)json_integer_value(label));
	return out;
}

static void add_row(struct cli_table *table, const json_t *row)
{
	const char *moment = cli_text(row, "moment"), *netdev = cli_text(row, "interface");
	char text[UNITS_TEXT_BYTES], path[48];
	uint64_t own = cli_count(row, "sport");

	cli_table_cell(table, "%s", cli_text(row, "src"));
	cli_table_cell(table, "%s", cli_text(row, "dst"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "dest_qpn"));
	cli_table_cell(table, "%s", *netdev ? netdev : "-");
	cli_table_cell(table, "%llu", (unsigned long long)own);
	cli_table_cell(table, "%s",
		       path_text(path, row, "steered_sport", "steered_flow_label", own));
	cli_table_cell(table, "%s",
		       path_text(path, json_object_get(row, "wanted"), "sport", "flow_label", own));
	cli_table_cell(table, "%s", cli_text(row, "by"));
	cli_table_cell(table, "%s", cli_text(row, "state"));
	cli_table_cell(table, "%s", *moment ? moment : "-");
	cli_table_cell(table, "%s", units_count(text, cli_count(row, "packets")));
}

static void write_rows(FILE *out, const json_t *rows)
{
	cli_table_rows(out, HEADINGS, rows, add_row);
	fprintf(out,
		"OWN: the queue pair's source port. LEAVES: the one (and IPv6 flow label) that its "
		"packets have now.\n");
}

void cli_write_steer(FILE *out, const json_t *result)
{
	const json_t *rows = json_object_get(result, "steers");
	size_t i;
	json_t *held;

	if (strcmp(cli_text(result, "mode"), "steer"))
		fprintf(out, "Mode: observe; no packet is changed. `escapement mode steer` allows "
			     "it.\n");
	else if (json_is_true(json_object_get(result, "auto")))
		fprintf(out,
			"By itself: contended and dead paths are left; `escapement steer plan` "
			"shows what is seen.\n");
	else if (!json_array_size(rows))
		fprintf(out,
			"No queue pair is steered. `escapement steer set --dst IP --qpn N --sport "
			"P` moves one.\n");
	if (json_array_size(rows))
		write_rows(out, rows);
	json_array_foreach (json_object_get(result, "held"), i, held)
		fprintf(out, "%s > %s qpn %llu was taken back (%s); left alone for %llu s more\n",
			cli_text(held, "src"), cli_text(held, "dst"),
			(unsigned long long)cli_count(held, "dest_qpn"), cli_text(held, "why"),
			(unsigned long long)cli_count(held, "left_ms") / 1000 + 1);
}

/* --- plan --- */

static void time_cell(struct cli_table *table, const json_t *row, const char *key)
{
	const json_t *value = json_object_get(row, key);
	char text[UNITS_TEXT_BYTES];
	json_int_t ns = json_integer_value(value);

	if (value)
		cli_table_cell(table, "%s%s", ns < 0 ? "-" : "",
			       units_duration(text, (uint64_t)(ns < 0 ? -ns : ns)));
	else
		cli_table_cell(table, "-");
}

static void rate_cell(struct cli_table *table, const json_t *row)
{
	char text[UNITS_TEXT_BYTES];

	cli_table_cell(table, "%s", units_bit_rate(text, (double)cli_count(row, "rate_bps") / 8));
}

static void add_plan_path(struct cli_table *table, const json_t *row)
{
	bool measured = json_is_true(json_object_get(row, "measured"));
	bool contended = json_is_true(json_object_get(row, "contended"));

	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "lane"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "sport"));
	time_cell(table, row, "delay_ns");
	time_cell(table, row, "floor_ns");
	time_cell(table, row, "bound_ns");
	rate_cell(table, row);
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "qps"));
	cli_table_cell(table, "%s", !measured ? "not measured" : contended ? "contended" : "calm");
}

static void add_plan_move(struct cli_table *table, const json_t *row)
{
	const json_t *from = json_object_get(row, "from"), *to = json_object_get(row, "to");

	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "dest_qpn"));
	rate_cell(table, row);
	cli_table_cell(table, "lane %llu", (unsigned long long)cli_count(from, "lane"));
	cli_table_cell(table, "lane %llu", (unsigned long long)cli_count(to, "lane"));
	time_cell(table, row, "gain_ns");
}

void cli_write_plan(FILE *out, const json_t *result)
{
	const json_t *pairs = json_object_get(result, "pairs");
	size_t i;
	json_t *pair;

	fprintf(out, "Steering by itself is %s; nothing is done by asking.\n",
		json_is_true(json_object_get(result, "auto")) ? "on" : "off");
	if (*cli_text(result, "note"))
		fprintf(out, "%s\n", cli_text(result, "note"));
	else if (!json_array_size(pairs))
		fprintf(out, "No queue pair here sends to a host whose paths are known.\n");
	json_array_foreach (pairs, i, pair) {
		const json_t *moves = json_object_get(pair, "moves");

		fprintf(out, "\n%s > %s (%s), %llu queue pairs\n", cli_text(pair, "src"),
			cli_text(pair, "dst"), cli_text(pair, "peer"),
			(unsigned long long)cli_count(pair, "qps"));
		cli_table_rows(out, PLAN_PATHS, json_object_get(pair, "paths"), add_plan_path);
		if (json_array_size(moves))
			cli_table_rows(out, PLAN_MOVES, moves, add_plan_move);
		else
			fprintf(out, "Nothing would move: %s.\n", cli_text(pair, "why"));
	}
}

static void write_done(const char *what, const json_t *result)
{
	if (!strcmp(what, "set"))
		printf("Ordered: it moves at the next gap, message or deadline; `escapement "
		       "events` "
		       "tells when.\n");
	else if (!strcmp(what, "plan"))
		cli_write_plan(stdout, result);
	else if (!strcmp(what, "auto"))
		printf("Steering by itself is %s.\n",
		       json_is_true(json_object_get(result, "auto")) ? "on" : "off");
	else
		printf("Queue pairs that go back to their own path: %zu\n",
		       json_array_size(json_object_get(result, "clearing")));
}

int cli_steer(const struct cli *cli)
{
	const char *what = cli->word_count ? cli->words[0] : NULL;
	json_t *args = cli->steer ? json_copy(cli->steer) : json_object(), *result;
	int code;

	if (!what && json_object_size(args)) {
		fprintf(stderr,
			"escapement: `steer` with options is `steer set` or `steer clear`\n");
		json_decref(args);
		return CLI_USAGE;
	}
	if (what)
		json_object_set_new(args, "what", json_string(what));
	if (cli->word_count > 1 && (!what || strcmp(what, "auto"))) {
		fprintf(stderr, "escapement: \"%.64s\" is one word too many\n", cli->words[1]);
		json_decref(args);
		return CLI_USAGE;
	}
	if (cli->word_count > 1)
		json_object_set_new(args, "state", json_string(cli->words[1]));
	code = cli_ask(cli->places.socket, "steer", args, &result);
	if (code)
		return code;
	if (cli->format != CLI_TEXT)
		cli_write_json(cli, result);
	else if (what)
		write_done(what, result);
	else
		cli_write_steer(stdout, result);
	json_decref(result);
	return CLI_GOOD;
}

// SPDX-License-Identifier: BSD-2-Clause
/* `pace`: which flows are held back, by how much, and why an interface is not paced. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "client.h"
#include "pace_tcp.h"
#include "table.h"
#include "base/units.h"

#define HEADINGS                                                                                   \
	"<FROM <TO QPN <NETDEV <CLASS WEIGHT MAX FLOOR P50 P99 +- SENT LIMIT HELD PAUSED LONGEST"

static int bad_value(const char *name, const char *value, const char *should)
{
	fprintf(stderr, "escapement: --%s %s: should be %s\n", name, value, should);
	return CLI_USAGE;
}

int cli_pace_option(struct cli *cli, const char *name, const char *value)
{
	unsigned long number;
	char *end, hint[32];
	uint64_t ns;

	if (!cli->steer)
		cli->steer = json_object();
	if (!strcmp(name, "class"))
		return json_object_set_new(cli->steer, name, json_string(value))
			       ? bad_value(name, "", "the name of a class")
			       : CLI_GOOD;
	if (!strcmp(name, "threshold")) {
		if (units_parse_duration(value, &ns, hint))
			return bad_value(name, value, "a time, such as 50us");
		json_object_set_new(cli->steer, "threshold_ns", json_integer((json_int_t)ns));
		return CLI_GOOD;
	}
	errno = 0;
	number = strtoul(value, &end, 10);
	if (errno || end == value || *end || *value == '-' || *value == '+' || number > 1000)
		return bad_value(name, value, "a whole number, such as 3");
	json_object_set_new(cli->steer, name, json_integer((json_int_t)number));
	return CLI_GOOD;
}

static void cell_time(struct cli_table *table, const json_t *object, const char *key)
{
	char text[UNITS_TEXT_BYTES];

	if (json_object_get(object, key))
		cli_table_cell(table, "%s", units_duration(text, cli_count(object, key)));
	else
		cli_table_cell(table, "-");
}

static void cell_rate(struct cli_table *table, const json_t *row, const char *key)
{
	char text[UNITS_TEXT_BYTES];

	if (json_object_get(row, key))
		cli_table_cell(table, "%s", units_bit_rate(text, (double)cli_count(row, key) / 8));
	else
		cli_table_cell(table, "-");
}

static void cell_share(struct cli_table *table, const json_t *row, const char *key)
{
	const json_t *share = json_object_get(row, key);

	if (share)
		cli_table_cell(table, "%.0f%%", 100 * json_real_value(share));
	else
		cli_table_cell(table, "-");
}

static void add_row(struct cli_table *table, const json_t *row)
{
	const json_t *delay = json_object_get(row, "delay_ns");
	const char *netdev = cli_text(row, "interface");

	cli_table_cell(table, "%s", cli_text(row, "src"));
	cli_table_cell(table, "%s", cli_text(row, "dst"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "dest_qpn"));
	cli_table_cell(table, "%s", *netdev ? netdev : "-");
	cli_table_cell(table, "%s", cli_text(row, "class"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "weight"));
	cell_time(table, row, "threshold_ns");
	cell_time(table, row, "floor_ns");
	cell_time(table, delay, "p50");
	cell_time(table, delay, "p99");
	cell_time(table, delay, "bound");
	cell_rate(table, row, "sent_bps");
	cell_rate(table, row, "rate_bps");
	cell_share(table, row, "held_share");
	cell_share(table, row, "paused_share");
	cell_time(table, row, "longest_ns");
}

static void write_rows(FILE *out, const json_t *rows)
{
	cli_table_rows(out, HEADINGS, rows, add_row);
	fprintf(out,
		"MAX: the delay that is allowed. FLOOR: of the path when nothing waits. P50, P99, "
		"+-: the delays of the last second and "
		"their bound.\nLIMIT: what the law lets it send. HELD: part of the last second in "
		"which a packet waited; PAUSED: in which nothing was let go.\n");
}

static void write_interface(FILE *out, const json_t *interface)
{
	char text[UNITS_TEXT_BYTES];
	const char *why = cli_text(interface, "why");

	if (json_is_true(json_object_get(interface, "paced")))
		fprintf(out, "%s: paced, by %s, link of %s\n", cli_text(interface, "interface"),
			cli_text(interface, "qdisc"),
			units_bit_rate(text, (double)cli_count(interface, "line_bps") / 8));
	else if (*why)
		fprintf(out, "%s: cannot pace: %s\n", cli_text(interface, "interface"), why);
	else
		fprintf(out, "%s: not paced; `escapement pace on %s` paces it\n",
			cli_text(interface, "interface"), cli_text(interface, "interface"));
}

static void write_classes(FILE *out, const json_t *classes)
{
	char text[UNITS_TEXT_BYTES];
	size_t i;
	json_t *class;

	json_array_foreach (classes, i, class)
		fprintf(out, "class %s: weight %llu, delay at most %s, %llu queue pairs\n",
			cli_text(class, "name"), (unsigned long long)cli_count(class, "weight"),
			units_duration(text, cli_count(class, "threshold_ns")),
			(unsigned long long)cli_count(class, "flows"));
}

void cli_write_pace(FILE *out, const json_t *result)
{
	const json_t *rows = json_object_get(result, "qps");
	const json_t *clock = json_object_get(result, "clock");
	char text[UNITS_TEXT_BYTES];
	size_t i;
	json_t *interface;

	json_array_foreach (json_object_get(result, "interfaces"), i, interface)
		write_interface(out, interface);
	if (!json_is_true(json_object_get(clock, "good")))
		fprintf(out, "Nothing is held back now: fabric time is %s%s\n",
			json_object_get(clock, "bound_ns") ? "too uncertain, +-" : "not known",
			json_object_get(clock, "bound_ns")
				? units_duration(text, cli_count(clock, "bound_ns"))
				: "");
	write_classes(out, json_object_get(result, "classes"));
	if (json_array_size(rows))
		write_rows(out, rows);
	cli_write_pace_tcp(out, json_object_get(result, "tcp"));
}

static bool takes_interfaces(const char *what)
{
	return what && (!strcmp(what, "on") || !strcmp(what, "off") || !strcmp(what, "setup-fq") ||
			!strcmp(what, "undo-fq") || !strcmp(what, "tcp"));
}

int cli_pace(const struct cli *cli)
{
	const char *what = cli->word_count ? cli->words[0] : NULL;
	json_t *args = cli->steer ? json_copy(cli->steer) : json_object(), *result;
	json_t *interfaces = json_array();
	int code;

	if ((json_object_size(args) && (!what || strcmp(what, "set"))) ||
	    (cli->word_count > 1 && !takes_interfaces(what))) {
		fprintf(stderr,
			"escapement: options are of `pace set`, names of interfaces of `pace "
			"on`, `off`, `setup-fq` and `undo-fq`, and a mode of `pace tcp`\n");
		json_decref(interfaces);
		json_decref(args);
		return CLI_USAGE;
	}
	if (what && !strcmp(what, "tcp") && cli->word_count == 2)
		json_object_set_new(args, "mode", json_string(cli->words[1]));
	for (int i = 1; i < cli->word_count; i++)
		json_array_append_new(interfaces, json_string(cli->words[i]));
	json_object_set_new(args, "interfaces", interfaces);
	if (what)
		json_object_set_new(args, "what", json_string(what));
	code = cli_ask(cli->places.socket, "pace", args, &result);
	if (code)
		return code;
	if (cli->format != CLI_TEXT)
		cli_write_json(cli, result);
	else if (json_object_get(result, "interfaces"))
		cli_write_pace(stdout, result);
	else
		printf("From the next packet on qpn %llu to %s is of %s%s.\n",
		       (unsigned long long)cli_count(result, "qpn"), cli_text(result, "dst"),
		       *cli_text(result, "class") ? "class " : "the class that it fits",
		       cli_text(result, "class"));
	json_decref(result);
	return CLI_GOOD;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "pace_tcp.h"

#include <stdbool.h>
#include <string.h>

#include "cli.h"
#include "table.h"
#include "base/units.h"

#define HEADINGS "<FROM <TO <CC DELAY +- MAX ABOVE"

static void cell_time(struct cli_table *table, const json_t *object, const char *key)
{
	char text[UNITS_TEXT_BYTES];

	if (json_object_get(object, key))
		cli_table_cell(table, "%s", units_duration(text, cli_count(object, key)));
	else
		cli_table_cell(table, "-");
}

static void add_limit(struct cli_table *table, const json_t *row)
{
	char text[UNITS_TEXT_BYTES];

	if (!json_is_true(json_object_get(row, "limited"))) {
		for (int i = 0; i < 3; i++)
			cli_table_cell(table, "-");
		return;
	}
	cli_table_cell(table, "%.2f", json_real_value(json_object_get(row, "window")));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "inner_window"));
	if (json_object_get(row, "rate_bps"))
		cli_table_cell(table, "%s",
			       units_bit_rate(text, (double)cli_count(row, "rate_bps") / 8));
	else
		cli_table_cell(table, "-");
}

/* Which columns there are: what cannot be, or is the same for all, is left out. */
struct shape {
	bool classes, limits;
};

static void add_row(struct cli_table *table, const json_t *row, struct shape shape)
{
	const json_t *delay = json_object_get(row, "delay_out_ns");
	const char *congestion = cli_text(row, "congestion");

	cli_table_cell(table, "%s:%llu", cli_text(row, "src"),
		       (unsigned long long)cli_count(row, "sport"));
	cli_table_cell(table, "%s:%llu", cli_text(row, "dst"),
		       (unsigned long long)cli_count(row, "dport"));
	cli_table_cell(table, "%s", *congestion ? congestion : "-");
	cell_time(table, delay, "last");
	cell_time(table, delay, "bound");
	cell_time(table, delay, "max");
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(row, "above"));
	if (shape.classes)
		cli_table_cell(table, "%s", cli_text(row, "class"));
	if (shape.limits)
		add_limit(table, row);
}

static void write_classes(FILE *out, const json_t *classes)
{
	char text[UNITS_TEXT_BYTES];
	size_t i;
	json_t *class;

	json_array_foreach (classes, i, class) {
		uint64_t samples = cli_count(class, "samples");

		fprintf(out, "%s%s (weight %llu, at most %s",
			i ? ", " : "Classes of TCP: ", cli_text(class, "name"),
			(unsigned long long)cli_count(class, "weight"),
			units_duration(text, cli_count(class, "threshold_ns")));
		if (samples)
			fprintf(out, ", %.1f%% above",
				100.0 * (double)cli_count(class, "above") / (double)samples);
		fprintf(out, ")");
	}
	fprintf(out, "\n");
}

static void write_rows(FILE *out, const json_t *rows, struct shape shape)
{
	char headings[96];
	struct cli_table *table;
	size_t i;
	json_t *row;

	snprintf(headings, sizeof(headings), "%s%s%s", HEADINGS, shape.classes ? " <CLASS" : "",
		 shape.limits ? " WINDOW OF RATE" : "");
	table = cli_table_new(headings);
	if (!table)
		return;
	json_array_foreach (rows, i, row)
		add_row(table, row, shape);
	cli_table_write(table, out);
	cli_table_free(table);
	fprintf(out, "DELAY, +-: of the newest data that was told of, and its bound.%s\n",
		shape.limits ? " WINDOW: segments that may be under way, OF: by the connection's "
			       "own congestion control."
			     : "");
}

void cli_write_pace_tcp(FILE *out, const json_t *tcp)
{
	const json_t *rows = json_object_get(tcp, "connections");
	const json_t *counts = json_object_get(tcp, "counts");
	const json_t *classes = json_object_get(tcp, "classes");
	struct shape shape = {
		.classes = json_array_size(classes) > 1,
		.limits = json_object_get(tcp, "limits") != NULL,
	};
	const char *mode = cli_text(tcp, "mode"), *why = cli_text(tcp, "why");
	char text[UNITS_TEXT_BYTES];

	if (!strcmp(mode, "off") || !*mode) {
		if (*why)
			fprintf(out, "TCP: off: %s\n", why);
		return;
	}
	fprintf(out,
		"TCP of %s: %s, delay at most %s, %llu connections agreed on it, %llu did not\n",
		cli_text(tcp, "cgroup"),
		!strcmp(mode, "on") ? "limited by delay"
				    : "delays are measured, nothing is limited",
		units_duration(text, cli_count(tcp, "threshold_ns")),
		(unsigned long long)cli_count(counts, "agreed"),
		(unsigned long long)cli_count(counts, "plain"));
	if (*why)
		fprintf(out, "TCP: %s\n", why);
	if (!strcmp(mode, "on") && !json_is_true(json_object_get(tcp, "clock_good")))
		fprintf(out, "TCP: no connection is limited now: fabric time is not good enough\n");
	if (shape.classes)
		write_classes(out, classes);
	if (json_array_size(rows))
		write_rows(out, rows, shape);
}

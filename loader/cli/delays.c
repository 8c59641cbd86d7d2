// SPDX-License-Identifier: BSD-2-Clause
#include "delays.h"

#include <math.h>
#include <string.h>

#include "cli.h"

#define NOTES_MOST 5

static double real_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

const char *cli_us(char out[UNITS_TEXT_BYTES], double ns)
{
	double us = ns / 1e3, size = fabs(us);

	snprintf(out, UNITS_TEXT_BYTES, "%.*f", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, us);
	return out;
}

/* "7.62 us", "16.8 ms". */
static const char *delay_text(char out[UNITS_TEXT_BYTES], double ns)
{
	double size = fabs(ns);
	char number[UNITS_TEXT_BYTES];

	if (size < 999.5)
		snprintf(out, UNITS_TEXT_BYTES, "%.0f ns", ns);
	else if (size < 999500)
		snprintf(out, UNITS_TEXT_BYTES, "%.24s us", cli_us(number, ns));
	else if (size < 999.5e6)
		snprintf(out, UNITS_TEXT_BYTES, "%.24s ms", cli_us(number, ns / 1e3));
	else
		snprintf(out, UNITS_TEXT_BYTES, "%.24s s", cli_us(number, ns / 1e6));
	return out;
}

/* --- in the table --- */

bool cli_any_delays(const json_t *qps)
{
	size_t i;
	json_t *qp;

	json_array_foreach (qps, i, qp)
		if (json_object_get(qp, "owd_ns"))
			return true;
	return false;
}

void cli_cell_delays(struct cli_table *table, const json_t *qp)
{
	const json_t *owd = json_object_get(qp, "owd_ns");
	char p50[UNITS_TEXT_BYTES], p99[UNITS_TEXT_BYTES], max[UNITS_TEXT_BYTES],
		bound[UNITS_TEXT_BYTES];

	if (!owd) {
		cli_table_cell(table, "-");
		return;
	}
	cli_table_cell(table, "%s/%s/%s+-%s", cli_us(p50, real_of(owd, "p50")),
		       cli_us(p99, real_of(owd, "p99")), cli_us(max, real_of(owd, "max")),
		       cli_us(bound, real_of(owd, "bound")));
}

/* --- why not --- */

static bool is_sender(const json_t *qp)
{
	return !strcmp(cli_text(qp, "direction"), "tx");
}

static size_t count_note(const json_t *qps, size_t from, const char *note)
{
	size_t count = 0;

	for (size_t i = from; i < json_array_size(qps); i++) {
		const json_t *qp = json_array_get(qps, i);

		count += is_sender(qp) && !strcmp(cli_text(qp, "owd_note"), note);
	}
	return count;
}

static bool is_first(const json_t *qps, size_t index, const char *note)
{
	for (size_t i = 0; i < index; i++) {
		const json_t *qp = json_array_get(qps, i);

		if (is_sender(qp) && !strcmp(cli_text(qp, "owd_note"), note))
			return false;
	}
	return true;
}

void cli_write_delay_notes(FILE *out, const json_t *qps)
{
	unsigned int told = 0;
	size_t i;
	json_t *qp;

	json_array_foreach (qps, i, qp) {
		const char *note = cli_text(qp, "owd_note");
		size_t count;

		if (!is_sender(qp) || !*note || !is_first(qps, i, note))
			continue;
		if (told++ == NOTES_MOST) {
			fprintf(out, "And more without delay; `qp KEY` tells why.\n");
			return;
		}
		count = count_note(qps, i, note);
		fprintf(out, "No delay of %zu that %s: %s.\n", count, count == 1 ? "sends" : "send",
			note);
	}
}

/* --- one queue pair --- */

static void write_span(FILE *out, const char *title, const json_t *span, const char *of)
{
	char min[UNITS_TEXT_BYTES], p50[UNITS_TEXT_BYTES], p99[UNITS_TEXT_BYTES],
		max[UNITS_TEXT_BYTES], bound[UNITS_TEXT_BYTES];

	if (!span)
		return;
	fprintf(out, "  %-9s least %s", title, delay_text(min, real_of(span, "min")));
	if (json_object_get(span, "p50"))
		fprintf(out, ", median %s, 99th %s", delay_text(p50, real_of(span, "p50")),
			delay_text(p99, real_of(span, "p99")));
	fprintf(out, ", most %s; +-%s; %llu samples%s", delay_text(max, real_of(span, "max")),
		delay_text(bound, real_of(span, "bound")),
		(unsigned long long)cli_count(span, "samples"), of);
	if (cli_count(span, "over"))
		fprintf(out, ", %llu above the threshold in %llu bursts",
			(unsigned long long)cli_count(span, "over"),
			(unsigned long long)cli_count(span, "crossings"));
	if (cli_count(span, "ce"))
		fprintf(out, ", %llu marked CE", (unsigned long long)cli_count(span, "ce"));
	fputc('\n', out);
}

static void write_parts(FILE *out, const json_t *qp)
{
	const json_t *stack = json_object_get(qp, "stack_ns");
	const json_t *queue = json_object_get(qp, "host_queue_ns");
	char text[UNITS_TEXT_BYTES];

	if (json_object_get(qp, "owd_floor_ns"))
		fprintf(out, "  floor     %s, the least of the last 30 s\n",
			delay_text(text, real_of(qp, "owd_floor_ns")));
	if (stack)
		fprintf(out, "  receiver  at most %s more from its XDP to its stack\n",
			delay_text(text, real_of(stack, "max")));
	if (queue)
		fprintf(out, "  own queue at most %s of it, from tc to the driver (%llu stamped)\n",
			delay_text(text, real_of(queue, "max")),
			(unsigned long long)cli_count(queue, "samples"));
}

static void write_messages(FILE *out, const json_t *qp)
{
	const json_t *timed = json_object_get(qp, "messages_timed");
	char bytes[UNITS_TEXT_BYTES], delay[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES],
		rate[UNITS_TEXT_BYTES];

	if (!timed)
		return;
	fprintf(out,
		"  messages  %llu timed, %s each: %s from the first packet leaving to the last "
		"arriving, at most %s",
		(unsigned long long)cli_count(timed, "count"),
		units_bytes(bytes, real_of(timed, "bytes")),
		delay_text(delay, real_of(timed, "delay_ns")),
		delay_text(most, real_of(timed, "delay_max_ns")));
	if (json_object_get(timed, "throughput_bps"))
		fprintf(out, "; %s while arriving",
			units_bit_rate(rate, real_of(timed, "throughput_bps") / 8));
	fputc('\n', out);
}

static void write_receipts(FILE *out, const json_t *qp)
{
	char text[UNITS_TEXT_BYTES];

	if (!json_object_get(qp, "noted"))
		return;
	fprintf(out, "  receipts  for %llu of %llu sampled packets",
		(unsigned long long)cli_count(qp, "receipts"),
		(unsigned long long)cli_count(qp, "noted"));
	if (json_object_get(qp, "feedback_ns"))
		fprintf(out, ", back %s after they left",
			delay_text(text, real_of(qp, "feedback_ns")));
	fprintf(out, "; %llu without fabric time, %llu sent again, %llu too late\n",
		(unsigned long long)cli_count(qp, "receipts_untimed"),
		(unsigned long long)cli_count(qp, "notes_spoiled"),
		(unsigned long long)cli_count(qp, "notes_overwritten"));
}

static void write_details(FILE *out, const json_t *qp)
{
	const char *peer = cli_text(qp, "peer"), *note = cli_text(qp, "owd_note");

	fprintf(out, "\n%s>%s/%llu%s%s, source port %llu\n", cli_text(qp, "src"),
		cli_text(qp, "dst"), (unsigned long long)cli_count(qp, "dest_qpn"),
		*peer ? " to " : "", peer, (unsigned long long)cli_count(qp, "sport"));
	write_span(out, "delay", json_object_get(qp, "owd_ns"), " in the last second");
	if (*note)
		fprintf(out, "  delay     none: %s\n", note);
	write_parts(out, qp);
	write_span(out, "ever", json_object_get(qp, "owd_ever_ns"), "");
	write_messages(out, qp);
	write_receipts(out, qp);
}

void cli_write_delay_details(FILE *out, const json_t *qps, size_t most)
{
	size_t i, written = 0;
	json_t *qp;

	json_array_foreach (qps, i, qp) {
		if (!is_sender(qp))
			continue;
		if (written++ == most)
			return;
		write_details(out, qp);
	}
}

/* --- paths --- */

static void cell_us(struct cli_table *table, const json_t *object, const char *key)
{
	char text[UNITS_TEXT_BYTES];
	bool there = json_object_get(object, key) != NULL;

	cli_table_cell(table, "%s", there ? cli_us(text, real_of(object, key)) : "-");
}

static void path_row(struct cli_table *table, const json_t *path)
{
	const json_t *owd = json_object_get(path, "owd_ns");
	const char *peer = cli_text(path, "peer");
	char text[UNITS_TEXT_BYTES];

	cli_table_cell(table, "%s", *peer ? peer : "-");
	cli_table_cell(table, "%s", cli_text(path, "dst"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(path, "sport"));
	cli_table_cell(table, "%s", cli_text(path, "interface"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(path, "qps"));
	cli_table_cell(table, "%s", units_bit_rate(text, real_of(path, "bytes_per_second")));
	cli_table_cell(table, "%.3g", real_of(path, "loss_per_second"));
	if (owd)
		cli_table_cell(table, "%llu", (unsigned long long)cli_count(owd, "samples"));
	else
		cli_table_cell(table, "-");
	cell_us(table, owd, "min");
	cell_us(table, owd, "p50");
	cell_us(table, owd, "p99");
	cell_us(table, owd, "max");
	cell_us(table, owd, "bound");
	cell_us(table, path, "owd_floor_ns");
}

void cli_write_paths(FILE *out, const json_t *result)
{
	const json_t *paths = json_object_get(result, "paths");

	if (!json_array_size(paths)) {
		fprintf(out, "No path matches: no queue pair sends there now.\n");
		return;
	}
	cli_table_rows(out,
		       "<PEER <TO SPORT <IFACE QPS RATE LOSS/s SAMPLES MIN P50 P99 MAX +- FLOOR",
		       paths, path_row);
	fprintf(out, "One-way delays of the last second in microseconds, true within +-; FLOOR: "
		     "least of 30 s.\n");
}

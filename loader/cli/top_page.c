// SPDX-License-Identifier: BSD-2-Clause
#include "top_page.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define NAME_LEAST 10 /* of a peer, and of an owner */
#define NAME_MOST 40
/* All columns but the two names, with the spaces between. */
#define FIXED_COLUMNS (2 + 1 + 8 + 1 + 1 + 1 + 6 + 4 * 6 + 1 + 6 + 1 + 5)

static double real_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static double owd_of(const json_t *qp, const char *key)
{
	return real_of(json_object_get(qp, "owd_ns"), key);
}

const char *top_delay(char out[16], double ns)
{
	static const struct {
		double ns;
		char unit;
	} units[] = {{1e3, 'u'}, {1e6, 'm'}, {1e9, 's'}};
	double value, size;
	unsigned int i = 0;

	/* Three digits, rounded before the unit is chosen: 999.7 us is 1.00m. */
	while (i < 2 && fabs(ns) / units[i].ns >= 999.5)
		i++;
	value = ns / units[i].ns;
	size = fabs(value);
	snprintf(out, 16, "%.*f%c",
		 size < 9.995 && value >= 0 ? 2
		 : size < 99.95		    ? 1
					    : 0,
		 value, units[i].unit);
	return out;
}

/* What is said of the queue pair: of itself ("qp_outlier") before what it shares with others. */
static const char *verdict_of(const json_t *qp)
{
	const char *shared = NULL;
	size_t i;
	json_t *kind;

	json_array_foreach (json_object_get(qp, "verdicts"), i, kind) {
		const char *name = json_string_value(kind);

		if (name && !strncmp(name, "qp_", 3))
			return name + 3;
		if (!shared)
			shared = name;
	}
	return shared;
}

const char *top_state(const json_t *qp)
{
	const char *verdict = verdict_of(qp);
	const json_t *owd = json_object_get(qp, "owd_ns");
	bool sends = !strcmp(cli_text(qp, "direction"), "tx");

	if (verdict)
		return verdict;
	if (real_of(qp, "loss_per_second") > 0)
		return "loss";
	if (owd && cli_count(owd, "over"))
		return "peaks";
	if (!(real_of(qp, "bytes_per_second") > 0) && !owd)
		return "idle";
	if (owd)
		return "ok";
	return sends ? "blind" : "rx";
}

/* The other end: the member's name, else its address. */
static const char *peer_of(const json_t *qp)
{
	const char *peer = cli_text(qp, "peer");

	if (*peer)
		return peer;
	return cli_text(qp, strcmp(cli_text(qp, "direction"), "tx") ? "src" : "dst");
}

static void owner_of(const json_t *qp, char out[96])
{
	const char *job = cli_text(qp, "job"), *comm = cli_text(qp, "comm");

	if (*job)
		snprintf(out, 96, "%s", job);
	else if (json_object_get(qp, "pid"))
		snprintf(out, 96, "%.60s[%llu]", comm, (unsigned long long)cli_count(qp, "pid"));
	else
		snprintf(out, 96, "-");
}

/* What does not fit loses its middle: hosts differ at the end, jobs at both. */
static void put_name(FILE *out, const char *text, unsigned int width)
{
	size_t bytes = strlen(text), head = width / 3;

	if (bytes <= width)
		fprintf(out, " %-*s", (int)width, text);
	else
		fprintf(out, " %.*s~%s", (int)head, text, text + bytes - (width - head - 1));
}

static void put_delay(FILE *out, const json_t *qp, const char *key)
{
	char text[16];

	fprintf(out, " %5.5s",
		json_object_get(qp, "owd_ns") ? top_delay(text, owd_of(qp, key)) : "-");
}

static void put_gbps(FILE *out, const json_t *qp)
{
	double gbps = real_of(qp, "bytes_per_second") * 8 / 1e9;

	fprintf(out, " %6.*f", gbps < 99.995 ? 3 - (gbps >= 9.9995) : 1, gbps);
}

static void put_loss(FILE *out, const json_t *qp)
{
	double loss = real_of(qp, "loss_per_second");

	if (!json_object_get(qp, "loss_per_second"))
		fprintf(out, " %6s", "-");
	else
		fprintf(out, " %6.*f", loss > 0 && loss < 99.95 ? 1 : 0, fmin(loss, 999999));
}

static void put_row(FILE *out, const json_t *qp, unsigned int peer_width, unsigned int owner_width)
{
	char owner[96];

	owner_of(qp, owner);
	fprintf(out, "%-2s %8llu", cli_text(qp, "direction"),
		(unsigned long long)cli_count(qp, "dest_qpn"));
	put_name(out, peer_of(qp), peer_width);
	put_name(out, owner, owner_width);
	put_gbps(out, qp);
	put_delay(out, qp, "p50");
	put_delay(out, qp, "p99");
	put_delay(out, qp, "max");
	put_delay(out, qp, "bound");
	put_loss(out, qp);
	fprintf(out, " %s\n", top_state(qp));
}

static size_t count_timed(const json_t *qps)
{
	size_t i, count = 0;
	json_t *qp;

	json_array_foreach (qps, i, qp)
		count += json_object_get(qp, "owd_ns") != NULL;
	return count;
}

/* A line of text, cut at the edge. */
__attribute__((format(printf, 3, 4))) static void put_line(FILE *out, unsigned int columns,
							   const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(out, "%.*s\n", (int)columns, text);
}

/* In the order of @sort already; the daemon left out what did not fit. */
void top_page(FILE *out, const json_t *result, const struct top_view *view)
{
	unsigned int columns =
		view->columns > TOP_COLUMNS_LEAST ? view->columns : TOP_COLUMNS_LEAST;
	unsigned int names = columns - FIXED_COLUMNS, peer_width = names / 2;
	unsigned int owner_width = names - peer_width;
	const json_t *qps = json_object_get(result, "qps");
	size_t rows = json_array_size(qps), room;

	if (peer_width > NAME_MOST)
		peer_width = NAME_MOST;
	if (owner_width > NAME_MOST)
		owner_width = NAME_MOST;
	room = view->lines > TOP_LINES_AROUND ? view->lines - TOP_LINES_AROUND : 1;
	if (view->lines && rows > room)
		rows = room;
	put_line(out, columns,
		 "top %s  by %s every %gs; %llu queue pairs, %zu shown, %zu with delays",
		 view->clock, view->sort, view->seconds,
		 (unsigned long long)cli_count(result, "tracked"), rows, count_timed(qps));
	fprintf(out, "%-2s %8s %-*s %-*s %6s %5s %5s %5s %5s %6s %s\n", "", "QPN", (int)peer_width,
		"PEER", (int)owner_width, "JOB/PID", "Gb/s", "p50", "p99", "max", "+-", "LOSS/s",
		"STATE");
	for (size_t i = 0; i < rows; i++)
		put_row(out, json_array_get(qps, i), peer_width, owner_width);
	if (*view->hint)
		put_line(out, columns, "%s", view->hint);
}

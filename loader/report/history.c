// SPDX-License-Identifier: BSD-2-Clause
/* Queue pairs over time: delay with its bound, events as marks, strips of gaps. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/json.h"
#include "internal.h"

#define SERIES_DRAWN 12
#define STRIPS_DRAWN 64
#define MARKS_LISTED 60
#define WIDTH 900.0
#define HEIGHT 120.0
#define LEFT 80
#define DECADES_MAX 6 /* 1 us to 1 s */

struct point {
	uint64_t time_ns;
	double p50, p99, bound;		/* ns; NAN: not measured */
	double packets, lost, repeated; /* counts since the first packet */
};

struct series { /* of a queue pair that the host sends on */
	const char *host, *key;
	struct point *points;
	size_t count, room;
	double worst;
};

struct mark {
	const json_t *event;
	uint64_t time_ns;
};

struct history {
	json_t *index; /* {"HOST KEY": number} */
	struct series *series;
	size_t count, room;
	struct mark *marks;
	size_t mark_count;
	uint64_t begin_ns, end_ns;
	size_t samples;
	int decades; /* above 1 us, of all delays */
	int err;
};

/* --- samples --- */

static struct series *series_of(struct history *history, const char *host, const char *key)
{
	struct series *series;
	json_t *number;
	char name[512];

	snprintf(name, sizeof(name), "%s %s", host, key);
	number = json_object_get(history->index, name);
	if (number)
		return &history->series[json_integer_value(number)];
	series = array_add(&history->series, &history->count, &history->room, sizeof(*series));
	if (!series)
		return NULL;
	*series = (struct series){.host = host, .key = key, .worst = NAN};
	json_object_set_new(history->index, name, json_integer((json_int_t)history->count - 1));
	return series;
}

static void take_qp(struct history *history, const char *host, uint64_t time_ns, const json_t *qp)
{
	const json_t *owd = json_object_get(qp, "owd_ns");
	struct series *series;
	struct point *point;

	if (strcmp(json_text(qp, "direction"), "tx") ||
	    (!owd && !json_object_get(qp, "owd_lifetime_ns")))
		return;
	series = series_of(history, host, json_text(qp, "key"));
	point = series ? array_add(&series->points, &series->count, &series->room, sizeof(*point))
		       : NULL;
	if (!point) {
		history->err = -ENOMEM;
		return;
	}
	*point = (struct point){time_ns,
				json_number(owd, "p50"),
				json_number(owd, "p99"),
				json_number(owd, "bound"),
				json_number(qp, "packets"),
				json_number(qp, "psn_missing"),
				json_number(qp, "retransmits")};
	if (isfinite(point->p99) && !(series->worst >= point->p99))
		series->worst = point->p99;
	while (history->decades < DECADES_MAX &&
	       point->p99 + point->bound > 1e3 * pow(10, history->decades))
		history->decades++;
}

static void take_sample(struct history *history, const char *host, const json_t *sample)
{
	uint64_t time_ns = json_count(sample, "time_ns");
	json_t *qp;
	size_t i;

	history->samples++;
	if (!history->begin_ns || time_ns < history->begin_ns)
		history->begin_ns = time_ns;
	if (time_ns > history->end_ns)
		history->end_ns = time_ns;
	json_array_foreach (json_object_get(reply_of(sample, "qp"), "qps"), i, qp)
		take_qp(history, host, time_ns, qp);
}

static int by_time(const void *a, const void *b)
{
	const struct point *one = a, *other = b;

	return one->time_ns < other->time_ns ? -1 : one->time_ns > other->time_ns;
}

static int by_worst(const void *a, const void *b)
{
	const struct series *one = a, *other = b;

	if (isfinite(one->worst) != isfinite(other->worst))
		return isfinite(one->worst) ? -1 : 1;
	return one->worst > other->worst ? -1 : one->worst < other->worst;
}

static void collect(struct history *history, const struct report *report)
{
	json_t *export, *sample;
	size_t i, j;

	json_array_foreach (report->exports, i, export) {
		const char *host = json_text(export, "host");

		json_array_foreach (json_object_get(export, "samples"), j, sample)
			take_sample(history, host, sample);
		take_sample(history, host, export);
	}
	for (size_t s = 0; s < history->count; s++)
		qsort(history->series[s].points, history->series[s].count, sizeof(struct point),
		      by_time);
	if (history->count)
		qsort(history->series, history->count, sizeof(*history->series), by_worst);
}

/* --- events --- */

static int by_mark(const void *a, const void *b)
{
	const struct mark *one = a, *other = b;

	return one->time_ns < other->time_ns ? -1 : one->time_ns > other->time_ns;
}

/* Those of at least a warning, and what begins or ends a condition, while samples were taken. */
static void collect_marks(struct history *history, const struct report *report)
{
	json_t *event;
	size_t i;

	history->marks = calloc(json_array_size(report->events) + 1, sizeof(*history->marks));
	if (!history->marks) {
		history->err = -ENOMEM;
		return;
	}
	json_array_foreach (report->events, i, event) {
		const char *severity = json_text(event, "severity");
		uint64_t time_ns = json_count(event, "time_ns");

		if ((strcmp(severity, "warning") && strcmp(severity, "critical") &&
		     !json_object_get(event, "begins") && !json_object_get(event, "ends")) ||
		    time_ns < history->begin_ns || time_ns > history->end_ns)
			continue;
		history->marks[history->mark_count++] = (struct mark){event, time_ns};
	}
	qsort(history->marks, history->mark_count, sizeof(*history->marks), by_mark);
}

/* It names the queue pair, or is of its host and of no other queue pair. */
static bool concerns(const struct mark *mark, const struct series *series)
{
	const char *subject = json_text(mark->event, "subject");

	if (strchr(subject, '>'))
		return strstr(subject, series->key) != NULL;
	return !strcmp(json_text(mark->event, "host"), series->host);
}

/* --- the picture --- */

static double at_x(const struct history *history, uint64_t time_ns)
{
	double all = (double)(history->end_ns - history->begin_ns);

	return LEFT + (all > 0 ? (double)(time_ns - history->begin_ns) / all : 0) * WIDTH;
}

static double at_y(const struct history *history, double ns)
{
	double share = log10(fmax(ns, 1e3) / 1e3) / history->decades;

	return 8 + HEIGHT * (1 - fmin(share, 1));
}

static void write_axes(const struct history *history, FILE *out)
{
	static const char *const names[] = {"1 us",  "10 us",  "100 us", "1 ms",
					    "10 ms", "100 ms", "1 s"};

	for (int i = 0; i <= history->decades; i++) {
		double y = at_y(history, pow(10, 3 + i));

		fprintf(out,
			"<line x1=%d y1=%.0f x2=%.0f y2=%.0f stroke=\"#ccc\"/><text x=%d y=%.0f "
			"text-anchor=end>%s</text>",
			LEFT, y, LEFT + WIDTH, y, LEFT - 6, y + 4, names[i]);
	}
}

/* p99 with its bound as a band, from the points @from to @end, which all have it. */
static void write_run(const struct history *history, const struct series *series, size_t from,
		      size_t end, FILE *out)
{
	const struct point *points = series->points;

	fputs("<path fill=\"#9db4d6\" stroke=none d=\"M", out);
	for (size_t i = from; i < end; i++)
		fprintf(out, "%.1f %.1f ", at_x(history, points[i].time_ns),
			at_y(history, points[i].p99 + points[i].bound));
	for (size_t i = end; i-- > from;)
		fprintf(out, "%.1f %.1f ", at_x(history, points[i].time_ns),
			at_y(history, points[i].p99 - points[i].bound));
	fputs("z\"/><path fill=none stroke=\"#00224e\" stroke-width=2 d=\"M", out);
	for (size_t i = from; i < end; i++)
		fprintf(out, "%.1f %.1f ", at_x(history, points[i].time_ns),
			at_y(history, points[i].p99));
	fputs("\"/><path fill=none stroke=\"#555\" stroke-width=1.5 stroke-dasharray=\"5 3\" d=\"M",
	      out);
	for (size_t i = from; i < end; i++)
		fprintf(out, "%.1f %.1f ", at_x(history, points[i].time_ns),
			at_y(history, points[i].p50));
	fputs("\"/>\n", out);
}

static void write_marks(const struct history *history, const struct series *series, FILE *out)
{
	for (size_t i = 0; i < history->mark_count && i < MARKS_LISTED; i++) {
		double x = at_x(history, history->marks[i].time_ns);

		if (concerns(&history->marks[i], series))
			fprintf(out,
				"<path stroke=\"#a00\" d=\"M%.1f 8v%.0f\"/><text x=%.1f y=%.0f "
				"style=\"fill:#a00\" text-anchor=middle>%zu</text>\n",
				x, HEIGHT, x, HEIGHT + 20, i + 1);
	}
}

static void write_series(const struct history *history, const struct series *series, FILE *out)
{
	fputs("<h3 style=\"font-size:1em;margin-bottom:0\">", out);
	html_text(out, series->host);
	fputs(": ", out);
	html_text(out, series->key);
	fprintf(out,
		"</h3><svg role=img width=%.0f height=%.0f><title>One-way delay of the queue "
		"pair</title>\n",
		LEFT + WIDTH + 20, HEIGHT + 28);
	write_axes(history, out);
	for (size_t from = 0, end; from < series->count; from = end) {
		for (end = from; end < series->count && isfinite(series->points[end].p99) &&
				 isfinite(series->points[end].bound);)
			end++;
		if (end > from)
			write_run(history, series, from, end, out);
		else
			end++;
	}
	write_marks(history, series, out);
	fputs("</svg>\n", out);
}

/* Between two samples: nothing was sent, or packets were missing or sent again. */
static void write_strip(const struct history *history, const struct series *series, int y,
			FILE *out)
{
	char name[512];

	snprintf(name, sizeof(name), "%s: %s", series->host, series->key);
	fprintf(out, "<text x=0 y=%d>", y + 11);
	html_text(out, name);
	fputs("</text>", out);
	for (size_t i = 1; i < series->count; i++) {
		const struct point *before = &series->points[i - 1], *point = &series->points[i];
		double x = at_x(history, before->time_ns) - LEFT + 330;
		double width = at_x(history, point->time_ns) - LEFT + 330 - x;
		bool silent = point->packets == before->packets;
		bool lossy = point->lost > before->lost || point->repeated > before->repeated;

		fprintf(out, "<rect x=%.1f y=%d width=%.1f height=12 fill=\"%s\"/>", x, y,
			fmax(width, 0.5),
			silent	? "#000"
			: lossy ? "url(#lossy)"
				: "#e4d156");
	}
	fputs("\n", out);
}

static void write_strips(const struct history *history, FILE *out)
{
	size_t count = history->count < STRIPS_DRAWN ? history->count : STRIPS_DRAWN;

	fputs("<h3 style=\"font-size:1em\">Gaps</h3><p class=note>Between two samples. Light: "
	      "packets were sent. Black: none was. Hatched: some were missing or sent again. "
	      "White: no sample.</p>\n",
	      out);
	if (count < history->count)
		fprintf(out, "<p>%zu of %zu queue pairs, those with the longest delay.</p>\n",
			count, history->count);
	fprintf(out,
		"<div class=wide><svg role=img width=%.0f height=%zu><title>Gaps of queue pairs"
		"</title><defs><pattern id=lossy width=5 height=5 patternUnits=userSpaceOnUse "
		"patternTransform=\"rotate(45)\"><rect width=5 height=5 fill=\"#fff\"/><rect "
		"width=2.5 height=5 fill=\"#a00\"/></pattern></defs>\n",
		330 + WIDTH + 20, 8 + count * 16);
	for (size_t i = 0; i < count; i++)
		write_strip(history, &history->series[i], 4 + (int)i * 16, out);
	fputs("</svg></div>\n", out);
}

/* --- tables --- */

static void write_mark_rows(const struct history *history, FILE *out)
{
	if (!history->mark_count)
		return;
	fprintf(out, "<p>%zu event%s in this time%s:</p>\n", history->mark_count,
		history->mark_count == 1 ? "" : "s",
		history->mark_count > MARKS_LISTED ? ", the first of which are" : "");
	fputs("<div class=wide><table><tr><th>mark<th>after<th class=l>host<th class=l>event"
	      "<th class=l>subject<th class=l>remedy</tr>\n",
	      out);
	for (size_t i = 0; i < history->mark_count && i < MARKS_LISTED; i++) {
		const struct mark *mark = &history->marks[i];

		fprintf(out, "<tr><td>%zu<td>%.3f s", i + 1,
			(double)(mark->time_ns - history->begin_ns) / 1e9);
		html_cell(out, "td class=l", json_text(mark->event, "host"));
		html_cell(out, "td class=l", json_text(mark->event, "kind"));
		html_cell(out, "td class=l", json_text(mark->event, "subject"));
		html_cell(out, "td class=l", json_text(mark->event, "remedy"));
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

static void write_now(const struct history *history, FILE *out)
{
	fputs("<div class=wide><table><tr><th>host<th class=l>queue pair<th>p50<th>p99"
	      "<th>error bound<th>packets<th>sent again</tr>\n",
	      out);
	for (size_t i = 0; i < history->count && i < STRIPS_DRAWN; i++) {
		const struct series *series = &history->series[i];
		const struct point *point = &series->points[series->count - 1];

		fputs("<tr>", out);
		html_cell(out, "td", series->host);
		html_cell(out, "td class=l", series->key);
		fputs("<td>", out);
		html_delay(out, point->p50);
		fputs("<td>", out);
		html_delay(out, point->p99);
		fputs("<td>", out);
		html_delay(out, point->bound);
		fprintf(out, isfinite(point->packets) ? "<td>%.0f" : "<td>-", point->packets);
		fprintf(out, isfinite(point->repeated) ? "<td>%.0f" : "<td>-", point->repeated);
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

static void write_history(const struct history *history, FILE *out)
{
	bool over_time = false;

	for (size_t i = 0; i < history->count; i++)
		over_time = over_time || history->series[i].count > 1;
	if (over_time) {
		fprintf(out,
			"<p class=note>%.3f s from left to right. Line: p99 of the one-way delay "
			"in the second before each sample; band: the error bound of the clock; "
			"dashed: median; numbered marks: the events listed below. A line is "
			"interrupted where "
			"nothing was measured.</p>\n",
			(double)(history->end_ns - history->begin_ns) / 1e9);
		for (size_t i = 0; i < history->count && i < SERIES_DRAWN; i++)
			write_series(history, &history->series[i], out);
		write_mark_rows(history, out);
		write_strips(history, out);
	} else {
		fputs("<p><b>There is no history:</b> each queue pair has one sample. Take samples "
		      "over time with <code>escapement -j report --for 30s</code>, or give several "
		      "exports of a host.</p>\n",
		      out);
	}
	write_now(history, out);
}

int history_write(const struct report *report, FILE *out)
{
	struct history history = {.index = json_object(), .decades = 2};

	collect(&history, report);
	collect_marks(&history, report);
	fputs("<h2>Queue pairs</h2>\n", out);
	if (!history.err && history.count)
		write_history(&history, out);
	else if (!history.err)
		fputs("<p>No host has a queue pair whose delay is measured.</p>\n", out);
	for (size_t i = 0; i < history.count; i++)
		free(history.series[i].points);
	free(history.series);
	free(history.marks);
	json_decref(history.index);
	return history.err;
}

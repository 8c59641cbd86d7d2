// SPDX-License-Identifier: BSD-2-Clause
#include "top_page.h"

#include <stdarg.h>

#include "api/verbs.h"
#include "base/units.h"
#include "cli.h"
#include "qp.h"
#include "table.h"

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

/* Sorted by the daemon, which left out what does not fit. */
void top_page(FILE *out, json_t *result, const struct top_view *view)
{
	unsigned int columns =
		view->columns > TOP_COLUMNS_LEAST ? view->columns : TOP_COLUMNS_LEAST;
	json_t *qps = json_object_get(result, "qps"), *qp;
	size_t rows = json_array_size(qps), room, timed = 0, i;
	struct table_shape shape = {.live = true, .fit = columns};
	char every[UNITS_TEXT_BYTES];

	room = view->lines > TOP_LINES_AROUND ? view->lines - TOP_LINES_AROUND : 1;
	if (view->lines && rows > room)
		rows = room;
	json_array_foreach (qps, i, qp) {
		qp_complete(qp);
		timed += json_object_get(qp, "owd_ns") != NULL;
	}
	put_line(out, columns,
		 "top %s  by %s every %s; %llu queue pairs, %zu shown, %zu with delays",
		 view->clock, view->sort, units_duration(every, view->interval_ns),
		 (unsigned long long)cli_count(result, "tracked"), rows, timed);
	shape.most = rows;
	table_write(out, verbs_named("top")->output->columns, (struct scope){result, NULL}, qps,
		    &shape);
	if (*view->hint)
		put_line(out, columns, "%s", view->hint);
}

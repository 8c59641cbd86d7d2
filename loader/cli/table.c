// SPDX-License-Identifier: BSD-2-Clause
/* Rows of JSON as a table. */
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "render.h"

#define COLUMNS_MOST 32
#define SHRUNK_LEAST 4

struct table {
	const struct column *columns[COLUMNS_MOST];
	size_t count; /* of columns */
	size_t width[COLUMNS_MOST];
	/* The cells one behind the other, each with its NUL; the first are the headings. */
	FILE *cells;
	char *text;
	size_t bytes, rows;
};

static bool cell_write(FILE *out, struct scope scope, const struct column *column)
{
	char *text;
	bool there;

	if (!strchr(column->key, '{'))
		return value_write(out, scope, column->key, strlen(column->key), column->format);
	text = value_expand(scope, column->key);
	there = text && *text;
	if (there)
		fputs(text, out);
	free(text);
	return there;
}

bool table_has(const struct column *column, bool live)
{
	return live ? column->flags & (COLUMN_LIVE | COLUMN_LIVE_ONLY)
		    : !(column->flags & COLUMN_LIVE_ONLY);
}

/* An optional column is shown when a row has a value in it. */
static bool any_has(const struct column *column, const json_t *rows, const json_t *args)
{
	FILE *nowhere = fopen("/dev/null", "w");
	bool found = false;
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row)
		found = found ||
			(nowhere && cell_write(nowhere, (struct scope){row, args}, column));
	if (nowhere)
		fclose(nowhere);
	return found;
}

static void add_headings(struct table *table, const struct column *columns, const json_t *rows,
			 const json_t *args, bool live)
{
	for (; columns->header && table->count < COLUMNS_MOST; columns++) {
		if (!table_has(columns, live) ||
		    (!live && columns->flags & COLUMN_OPTIONAL && !any_has(columns, rows, args)))
			continue;
		fprintf(table->cells, "%s%c", columns->header, '\0');
		table->width[table->count] =
			MAX(strlen(columns->header), live ? (size_t)columns->width : 0);
		table->columns[table->count++] = columns;
	}
}

/* Takes what is too much from the widest of those that may shrink. */
static void shrink(struct table *table, size_t fit)
{
	size_t total = table->count - 1;

	for (size_t i = 0; i < table->count; i++)
		total += table->width[i];
	while (total > fit) {
		size_t widest = table->count;

		for (size_t i = 0; i < table->count; i++)
			if (table->columns[i]->flags & COLUMN_SHRINK &&
			    table->width[i] > SHRUNK_LEAST &&
			    (widest == table->count || table->width[i] > table->width[widest]))
				widest = i;
		if (widest == table->count)
			return;
		table->width[widest]--;
		total--;
	}
}

/* What does not fit loses its middle: hosts differ at the end, jobs at both. */
static int cell_text(char *out, size_t room, const char *cell, size_t width, bool left)
{
	size_t bytes = strlen(cell), head = width / 3;

	if (bytes <= width)
		return snprintf(out, room, left ? "%-*s" : "%*s", (int)width, cell);
	return snprintf(out, room, "%.*s~%s", (int)head, cell, cell + bytes - (width - head - 1));
}

static void write_line(FILE *out, const struct table *table, const char **cell, size_t fit)
{
	char line[4096];
	size_t used = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct column *column = table->columns[i];
		bool left = column->flags & COLUMN_LEFT, last = i + 1 == table->count;
		size_t width = left && last ? strlen(*cell) : table->width[i];

		if (used < sizeof(line))
			used += cell_text(line + used, sizeof(line) - used, *cell, width, left);
		if (!last && used < sizeof(line))
			used += snprintf(line + used, sizeof(line) - used, " ");
		*cell += strlen(*cell) + 1;
	}
	fprintf(out, "%.*s\n", fit ? (int)fit : (int)sizeof(line), line);
}

size_t table_write(FILE *out, const struct column *columns, struct scope scope, const json_t *rows,
		   const struct table_shape *shape)
{
	struct table table = {};
	const char *cell;
	json_t *row;
	size_t i;

	table.cells = open_memstream(&table.text, &table.bytes);
	if (!table.cells)
		return 0;
	add_headings(&table, columns, rows, scope.args, shape->live);
	json_array_foreach (rows, i, row) {
		struct scope inner = {row, scope.args};

		if (!value_holds(inner, shape->only) || (shape->most && table.rows == shape->most))
			continue;
		table.rows++;
		for (size_t k = 0; k < table.count; k++) {
			long begin = ftell(table.cells);

			if (!cell_write(table.cells, inner, table.columns[k]))
				fputc('-', table.cells);
			table.width[k] = MAX(table.width[k], (size_t)(ftell(table.cells) - begin));
			fputc('\0', table.cells);
		}
	}
	if (!fclose(table.cells) && (table.rows || shape->live)) {
		if (shape->fit)
			shrink(&table, shape->fit);
		cell = table.text;
		for (i = 0; i <= table.rows; i++)
			write_line(out, &table, &cell, shape->fit);
	}
	free(table.text);
	return table.rows;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 24
#define CELL_BYTES 64

struct cli_table {
	unsigned int columns;
	bool left[COLUMNS_MAX];
	int width[COLUMNS_MAX];
	char (*cells)[CELL_BYTES]; /* the headings are the first row */
	size_t count, room;
};

static char *next_cell(struct cli_table *table)
{
	if (table->count == table->room) {
		size_t room = table->room ? table->room * 2 : 256;
		void *grown = reallocarray(table->cells, room, CELL_BYTES);

		if (!grown)
			return NULL;
		table->cells = grown;
		table->room = room;
	}
	return table->cells[table->count++];
}

void cli_table_cell(struct cli_table *table, const char *format, ...)
{
	char *cell = next_cell(table);
	unsigned int column;
	va_list arguments;

	if (!cell)
		return;
	column = (table->count - 1) % table->columns;
	va_start(arguments, format);
	vsnprintf(cell, CELL_BYTES, format, arguments);
	va_end(arguments);
	if ((int)strlen(cell) > table->width[column])
		table->width[column] = strlen(cell);
}

struct cli_table *cli_table_new(const char *headings)
{
	struct cli_table *table = calloc(1, sizeof(*table));
	char *copy = strdup(headings), *save = NULL;

	if (!table || !copy) {
		free(table);
		free(copy);
		return NULL;
	}
	/* Twice: a cell's column follows from the number of columns. */
	for (const char *c = headings; *c; c++)
		table->columns += *c == ' ';
	table->columns++;
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		table->left[table->count % table->columns] = *word == '<';
		cli_table_cell(table, "%s", word + (*word == '<'));
	}
	free(copy);
	return table;
}

void cli_table_free(struct cli_table *table)
{
	if (!table)
		return;
	free(table->cells);
	free(table);
}

void cli_table_write(const struct cli_table *table, FILE *out)
{
	for (size_t i = 0; i < table->count; i++) {
		unsigned int column = i % table->columns;
		int width = table->width[column];
		bool last = column + 1 == table->columns;

		if (table->left[column])
			fprintf(out, "%-*s", last ? 0 : width, table->cells[i]);
		else
			fprintf(out, "%*s", width, table->cells[i]);
		fputs(last ? "\n" : " ", out);
	}
}

void cli_table_rows(FILE *out, const char *headings, const json_t *rows,
		    void (*add_row)(struct cli_table *table, const json_t *row))
{
	struct cli_table *table = cli_table_new(headings);
	json_t *row;
	size_t i;

	if (!table)
		return;
	json_array_foreach (rows, i, row)
		add_row(table, row);
	cli_table_write(table, out);
	cli_table_free(table);
}

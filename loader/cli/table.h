/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows and columns of text, each column as wide as it has to be. */
#ifndef ESC_LOADER_CLI_TABLE_H
#define ESC_LOADER_CLI_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

struct cli_table;

/* @headings: names separated by spaces; one that begins with '<' is flushed left. */
struct cli_table *cli_table_new(const char *headings);
void cli_table_free(struct cli_table *table);

/* The next cell, row by row. */
void cli_table_cell(struct cli_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void cli_table_write(const struct cli_table *table, FILE *out);

/* A table of an array, each of whose members @add_row adds the cells of. */
void cli_table_rows(FILE *out, const char *headings, const json_t *rows,
		    void (*add_row)(struct cli_table *table, const json_t *row));

#endif

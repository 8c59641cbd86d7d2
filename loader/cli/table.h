/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of JSON as a table, each column as wide as it has to be. */
#ifndef ESC_CLI_TABLE_H
#define ESC_CLI_TABLE_H

#include "value.h"

struct table_shape {
	const char *only; /* condition on rows; NULL: all */
	size_t most;	  /* rows; 0: all */
	bool live;	  /* the columns of a live table, with a heading in any case */
	size_t fit;	  /* columns of the terminal that lines have to fit into; 0: any */
};

/* Which of @columns are in a live table, or in another. */
bool table_has(const struct column *column, bool live);

/* Returns how many rows were written. */
size_t table_write(FILE *out, const struct column *columns, struct scope scope, const json_t *rows,
		   const struct table_shape *shape);

#endif

// SPDX-License-Identifier: BSD-2-Clause
/* A reply as text, by the sections of its verb. */
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cli.h"

#define COLUMNS_MOST 32
#define SHRUNK_LEAST 4
#define HEADER_WIDTH 15

/* --- strings of any origin --- */

/* C0, DEL, and C1, which is two bytes in UTF-8. NULL: there is none. Else malloc'd. */
static char *escape(const char *text, bool lines)
{
	size_t used = 0, escaped = 0;
	char *out = malloc(4 * strlen(text) + 1);

	for (const unsigned char *at = (const unsigned char *)text; out && *at; at++) {
		bool c1 = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0;

		at += c1;
		if (c1 || *at == 0x7f || (*at < 0x20 && !(lines && *at == '\n'))) {
			used += (size_t)snprintf(out + used, 5, "\\x%02x", *at);
			escaped++;
		} else {
			out[used++] = (char)*at;
		}
	}
	if (out)
		out[used] = '\0';
	if (escaped || !out)
		return out;
	free(out);
	return NULL;
}

void render_escape(json_t *value, bool lines)
{
	const char *key;
	json_t *one;
	char *text;
	size_t i;

	if (json_is_string(value)) {
		text = escape(json_string_value(value), lines);
		if (text)
			json_string_set(value, text);
		free(text);
	}
	json_array_foreach (value, i, one)
		render_escape(one, lines);
	/* The commands of `failover dummy` are a line each. */
	json_object_foreach (value, key, one)
		render_escape(one, lines || !strcmp(key, "ip"));
}

/* --- tables --- */

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
static bool any_has(struct table *table, const struct column *column, const json_t *rows,
		    const json_t *args)
{
	long begin = ftell(table->cells);
	bool found = false;
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row)
		found = found || cell_write(table->cells, (struct scope){row, args}, column);
	fseek(table->cells, begin, SEEK_SET);
	return found;
}

/* Takes what is too much from the widest of those that may shrink. */
static void shrink(struct table *table, size_t fit)
{
	size_t total = table->count - 1;

	for (size_t i = 0; i < table->count; i++)
		total += table->width[i];
	for (; total > fit; total--) {
		size_t widest = table->count;

		for (size_t i = 0; i < table->count; i++)
			if (table->columns[i]->flags & COLUMN_SHRINK &&
			    table->width[i] > SHRUNK_LEAST &&
			    (widest == table->count || table->width[i] > table->width[widest]))
				widest = i;
		if (widest == table->count)
			return;
		table->width[widest]--;
	}
}

/* What does not fit loses its middle: hosts differ at the end, jobs at both. */
static void write_line(FILE *out, const struct table *table, const char **cell, size_t fit)
{
	char line[4096];
	size_t used = 0, bytes;

	for (size_t i = 0; i < table->count; i++, *cell += bytes + 1) {
		bool left = table->columns[i]->flags & COLUMN_LEFT, last = i + 1 == table->count;
		size_t width = table->width[i], head = width / 3;
		const char *between = last ? "" : " ";

		bytes = strlen(*cell);
		if (used >= sizeof(line))
			continue;
		if (left && last)
			width = bytes;
		if (bytes <= width)
			used += snprintf(line + used, sizeof(line) - used,
					 left ? "%-*s%s" : "%*s%s", (int)width, *cell, between);
		else
			used += snprintf(line + used, sizeof(line) - used, "%.*s~%s%s", (int)head,
					 *cell, *cell + bytes - (width - head - 1), between);
	}
	fprintf(out, "%.*s\n", fit ? (int)fit : (int)sizeof(line), line);
}

size_t table_write(FILE *out, const struct verb_section *section, struct scope scope,
		   const json_t *rows, size_t fit)
{
	const struct column *column = section->columns;
	bool live = section->live;
	struct table table = {};
	const char *cell;
	json_t *row;
	size_t i;

	table.cells = open_memstream(&table.text, &table.bytes);
	if (!table.cells)
		return 0;
	for (; column->header && table.count < COLUMNS_MOST; column++) {
		if (!table_has(column, live) || (!live && column->flags & COLUMN_OPTIONAL &&
						 !any_has(&table, column, rows, scope.args)))
			continue;
		fprintf(table.cells, "%s%c", column->header, '\0');
		table.width[table.count] =
			MAX(strlen(column->header), live ? (size_t)column->width : 0);
		table.columns[table.count++] = column;
	}
	json_array_foreach (rows, i, row) {
		struct scope inner = {row, scope.args};

		if (!value_holds(inner, section->only) ||
		    (section->most && table.rows == section->most))
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
	if (!fclose(table.cells) && (table.rows || live)) {
		if (fit)
			shrink(&table, fit);
		cell = table.text;
		for (i = 0; i <= table.rows; i++)
			write_line(out, &table, &cell, fit);
	}
	free(table.text);
	return table.rows;
}

/* --- sections --- */

struct renderer {
	FILE *out;
	size_t lines;	    /* written so far */
	size_t after_table; /* rows of the table that was the last */
};

static void write_template(struct renderer *to, struct scope scope, const char *header,
			   const char *template)
{
	char *text = value_expand(scope, template);

	if (text && *text) {
		if (to->after_table && *text != '\n')
			fputc('\n', to->out);
		to->after_table = 0;
		if (header)
			fprintf(to->out, "%-*s%s", HEADER_WIDTH, header, *header ? " : " : "   ");
		fprintf(to->out, "%s\n", text);
		to->lines++;
	}
	free(text);
}

static void write_sections(struct renderer *to, const struct verb_section *section,
			   struct scope scope);

static void write_row(struct renderer *to, const struct verb_section *section, struct scope scope)
{
	if (section->text && !section->columns)
		write_template(to, scope, section->header, section->text);
	if (section->sections)
		write_sections(to, section->sections, scope);
}

static void write_rows(struct renderer *to, const struct verb_section *section, struct scope scope)
{
	const json_t *rows = value_at(scope, section->rows, strlen(section->rows));
	size_t i, written = 0;
	json_t *row;

	if (section->columns) {
		/* A blank line stands before a table that is not the first. */
		if (to->lines && json_array_size(rows))
			fputc('\n', to->out);
		if (section->text && json_array_size(rows))
			write_template(to, scope, NULL, section->text);
		written = to->after_table = table_write(to->out, section, scope, rows, 0);
		to->lines += written;
	} else {
		json_array_foreach (rows, i, row) {
			struct scope inner = {row, scope.args};

			if (!value_holds(inner, section->only) ||
			    (section->most && written == section->most))
				continue;
			write_row(to, section, inner);
			written++;
		}
	}
	if (!written && section->empty)
		write_template(to, scope, NULL, section->empty);
}

static void write_sections(struct renderer *to, const struct verb_section *section,
			   struct scope scope)
{
	for (; section->rows || section->text || section->sections; section++) {
		if (!value_holds(scope, section->when))
			continue;
		if (section->rows)
			write_rows(to, section, scope);
		else
			write_row(to, section, scope);
	}
}

/* A line `key : value` for each member. */
static void write_members(FILE *out, const json_t *object)
{
	size_t width = 0;
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value)
		width = MAX(width, strlen(key));
	json_object_foreach ((json_t *)object, key, value) {
		fprintf(out, "%-*s : ", (int)width, key);
		if (json_is_string(value))
			fputs(json_string_value(value), out);
		else
			json_dumpf(value, out, JSON_COMPACT | JSON_ENCODE_ANY);
		fputc('\n', out);
	}
}

void render_sections(FILE *out, const struct verb_section *sections, struct scope scope)
{
	struct renderer to = {.out = out};

	if (sections)
		write_sections(&to, sections, scope);
	else
		write_members(out, scope.object);
}

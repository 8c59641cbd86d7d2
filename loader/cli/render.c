// SPDX-License-Identifier: BSD-2-Clause
/* A reply as text, by the sections of its verb. */
#include "render.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_WIDTH 15

struct renderer {
	FILE *out;
	const json_t *args;
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

static void write_sections(struct renderer *to, const struct verb_section *sections,
			   const json_t *object);

static void write_row(struct renderer *to, const struct verb_section *section, const json_t *row)
{
	if (section->text && !section->columns)
		write_template(to, (struct scope){row, to->args}, section->header, section->text);
	if (section->sections)
		write_sections(to, section->sections, row);
}

/* A blank line stands before a table that is not the first. */
static size_t write_table(struct renderer *to, const struct verb_section *section,
			  struct scope scope, const json_t *rows)
{
	struct table_shape shape = {
		.only = section->only, .most = section->most, .live = section->live};

	if (to->lines && json_array_size(rows))
		fputc('\n', to->out);
	if (section->text && json_array_size(rows))
		write_template(to, scope, NULL, section->text);
	to->after_table = table_write(to->out, section->columns, scope, rows, &shape);
	to->lines += to->after_table;
	return to->after_table;
}

static void write_rows(struct renderer *to, const struct verb_section *section, struct scope scope)
{
	const json_t *rows = value_at(scope, section->rows, strlen(section->rows));
	size_t i, written = 0;
	json_t *row;

	if (section->columns)
		written = write_table(to, section, scope, rows);
	else
		json_array_foreach (rows, i, row) {
			if (!value_holds((struct scope){row, to->args}, section->only) ||
			    (section->most && written == section->most))
				continue;
			write_row(to, section, row);
			written++;
		}
	if (!written && section->empty)
		write_template(to, scope, NULL, section->empty);
}

static void write_sections(struct renderer *to, const struct verb_section *sections,
			   const json_t *object)
{
	const struct verb_section *section = sections;
	struct scope scope = {object, to->args};

	for (; section->rows || section->text || section->sections; section++) {
		if (!value_holds(scope, section->when))
			continue;
		if (section->rows)
			write_rows(to, section, scope);
		else
			write_row(to, section, object);
	}
}

size_t render(FILE *out, const struct verb_section *sections, const json_t *object,
	      const json_t *args)
{
	struct renderer to = {.out = out, .args = args};

	write_sections(&to, sections, object);
	return to.lines;
}

/* --- without sections --- */

void render_plain(FILE *out, const json_t *object)
{
	size_t width = 0;
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value)
		width = strlen(key) > width ? strlen(key) : width;
	json_object_foreach ((json_t *)object, key, value) {
		fprintf(out, "%-*s : ", (int)width, key);
		if (json_is_string(value))
			fputs(json_string_value(value), out);
		else
			json_dumpf(value, out, JSON_COMPACT | JSON_ENCODE_ANY);
		fputc('\n', out);
	}
}

// SPDX-License-Identifier: BSD-2-Clause
#include "prom.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

static void write_label_value(FILE *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
}

static const char *type_name(enum prom_type type)
{
	return type == PROM_COUNTER ? "counter" : type == PROM_GAUGE ? "gauge" : "histogram";
}

/* @suffix of the name, @le: a bound of a histogram's, else NULL. */
static void begin_sample(struct prom_family *family, const char *suffix, const char *le,
			 va_list labels)
{
	const char *name, *value, *before = "{";

	if (!family->begun)
		fprintf(family->out, "# HELP escapement_%s %s\n# TYPE escapement_%s %s\n",
			family->name, family->help, family->name, type_name(family->type));
	family->begun = 1;
	fprintf(family->out, "escapement_%s%s", family->name, suffix);
	while ((name = va_arg(labels, const char *))) {
		value = va_arg(labels, const char *);
		if (!value || !*value)
			continue;
		fprintf(family->out, "%s%s=\"", before, name);
		write_label_value(family->out, value);
		fputc('"', family->out);
		before = ",";
	}
	if (le)
		fprintf(family->out, "%sle=\"%s\"", before, le);
	if (le || *before == ',')
		fputc('}', family->out);
}

void prom_count(struct prom_family *family, uint64_t value, ...)
{
	va_list labels;

	va_start(labels, value);
	begin_sample(family, "", NULL, labels);
	va_end(labels);
	fprintf(family->out, " %" PRIu64 "\n", value);
}

/* The shorter text where it is read back as the same number. */
static void write_number(FILE *out, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	fprintf(out, " %s\n", text);
}

void prom_value(struct prom_family *family, double value, ...)
{
	va_list labels;

	va_start(labels, value);
	begin_sample(family, "", NULL, labels);
	va_end(labels);
	write_number(family->out, value);
}

void prom_histogram(struct prom_family *family, const struct prom_histogram *histogram, ...)
{
	va_list labels;
	char le[32];

	for (size_t i = 0; i <= histogram->bound_count; i++) {
		bool last = i == histogram->bound_count;

		if (last)
			snprintf(le, sizeof(le), "+Inf");
		else
			snprintf(le, sizeof(le), "%.10g", histogram->bounds[i]);
		va_start(labels, histogram);
		begin_sample(family, "_bucket", le, labels);
		va_end(labels);
		fprintf(family->out, " %" PRIu64 "\n",
			last ? histogram->count : histogram->below[i]);
	}
	va_start(labels, histogram);
	begin_sample(family, "_sum", NULL, labels);
	va_end(labels);
	write_number(family->out, histogram->sum);
	va_start(labels, histogram);
	begin_sample(family, "_count", NULL, labels);
	va_end(labels);
	fprintf(family->out, " %" PRIu64 "\n", histogram->count);
}

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

#define LABELS_MAX 16

/* Names and values from @arguments into @labels. */
static void take_labels(struct prom_label labels[LABELS_MAX + 1], va_list arguments)
{
	size_t count = 0;

	for (; count < LABELS_MAX; count++) {
		labels[count].name = va_arg(arguments, const char *);
		if (!labels[count].name)
			break;
		labels[count].value = va_arg(arguments, const char *);
	}
	labels[count] = (struct prom_label){};
}

/* @suffix of the name, @le: a bound of a histogram's, else NULL. */
static void begin_sample(struct prom_family *family, const char *suffix, const char *le,
			 const struct prom_label *labels)
{
	const char *before = "{";

	if (!family->begun)
		fprintf(family->out, "# HELP escapement_%s %s\n# TYPE escapement_%s %s\n",
			family->name, family->help, family->name, type_name(family->type));
	family->begun = 1;
	fprintf(family->out, "escapement_%s%s", family->name, suffix);
	for (; labels->name; labels++) {
		if (!labels->value || !*labels->value)
			continue;
		fprintf(family->out, "%s%s=\"", before, labels->name);
		write_label_value(family->out, labels->value);
		fputc('"', family->out);
		before = ",";
	}
	if (le)
		fprintf(family->out, "%sle=\"%s\"", before, le);
	if (le || *before == ',')
		fputc('}', family->out);
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

void prom_sample(struct prom_family *family, double value, const struct prom_label *labels)
{
	begin_sample(family, "", NULL, labels);
	write_number(family->out, value);
}

void prom_sample_count(struct prom_family *family, uint64_t value, const struct prom_label *labels)
{
	begin_sample(family, "", NULL, labels);
	fprintf(family->out, " %" PRIu64 "\n", value);
}

void prom_count(struct prom_family *family, uint64_t value, ...)
{
	struct prom_label labels[LABELS_MAX + 1];
	va_list arguments;

	va_start(arguments, value);
	take_labels(labels, arguments);
	va_end(arguments);
	prom_sample_count(family, value, labels);
}

void prom_value(struct prom_family *family, double value, ...)
{
	struct prom_label labels[LABELS_MAX + 1];
	va_list arguments;

	va_start(arguments, value);
	take_labels(labels, arguments);
	va_end(arguments);
	prom_sample(family, value, labels);
}

void prom_histogram(struct prom_family *family, const struct prom_histogram *histogram, ...)
{
	struct prom_label labels[LABELS_MAX + 1];
	va_list arguments;
	char le[32];

	va_start(arguments, histogram);
	take_labels(labels, arguments);
	va_end(arguments);
	for (size_t i = 0; i <= histogram->bound_count; i++) {
		bool last = i == histogram->bound_count;

		if (last)
			snprintf(le, sizeof(le), "+Inf");
		else
			snprintf(le, sizeof(le), "%.10g", histogram->bounds[i]);
		begin_sample(family, "_bucket", le, labels);
		fprintf(family->out, " %" PRIu64 "\n",
			last ? histogram->count : histogram->below[i]);
	}
	begin_sample(family, "_sum", NULL, labels);
	write_number(family->out, histogram->sum);
	begin_sample(family, "_count", NULL, labels);
	fprintf(family->out, " %" PRIu64 "\n", histogram->count);
}

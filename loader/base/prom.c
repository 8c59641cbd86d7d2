// SPDX-License-Identifier: BSD-2-Clause
#include "prom.h"

#include <inttypes.h>
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

const char *prom_type_name(enum prom_type type)
{
	static const char *const names[] = {
		[PROM_GAUGE] = "gauge", [PROM_COUNTER] = "counter", [PROM_HISTOGRAM] = "histogram"};

	return names[type];
}

/* @suffix of the name, @le: a bound of a histogram's, else NULL. */
static void begin_sample(struct prom_family *family, const char *suffix, const char *le,
			 const struct prom_label *labels)
{
	const char *before = "{";

	if (!family->begun)
		fprintf(family->out, "# HELP escapement_%s %s\n# TYPE escapement_%s %s\n",
			family->name, family->help, family->name, prom_type_name(family->type));
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

void prom_sample_histogram(struct prom_family *family, const struct prom_histogram *histogram,
			   const struct prom_label *labels)
{
	char le[32];

	for (size_t i = 0; i < histogram->bound_count; i++) {
		snprintf(le, sizeof(le), "%.10g", histogram->bounds[i]);
		begin_sample(family, "_bucket", le, labels);
		fprintf(family->out, " %" PRIu64 "\n", histogram->below[i]);
	}
	begin_sample(family, "_bucket", "+Inf", labels);
	fprintf(family->out, " %" PRIu64 "\n", histogram->count);
	begin_sample(family, "_sum", NULL, labels);
	write_number(family->out, histogram->sum);
	begin_sample(family, "_count", NULL, labels);
	fprintf(family->out, " %" PRIu64 "\n", histogram->count);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "prom.h"

#include <inttypes.h>
#include <stdarg.h>

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

static void begin_sample(struct prom_family *family, va_list labels)
{
	const char *name, *value, *before = "{";

	if (!family->begun)
		fprintf(family->out, "# HELP escapement_%s %s\n# TYPE escapement_%s %s\n",
			family->name, family->help, family->name,
			family->type == PROM_COUNTER ? "counter" : "gauge");
	family->begun = 1;
	fprintf(family->out, "escapement_%s", family->name);
	while ((name = va_arg(labels, const char *))) {
		value = va_arg(labels, const char *);
		if (!value || !*value)
			continue;
		fprintf(family->out, "%s%s=\"", before, name);
		write_label_value(family->out, value);
		fputc('"', family->out);
		before = ",";
	}
	if (*before == ',')
		fputc('}', family->out);
}

void prom_count(struct prom_family *family, uint64_t value, ...)
{
	va_list labels;

	va_start(labels, value);
	begin_sample(family, labels);
	va_end(labels);
	fprintf(family->out, " %" PRIu64 "\n", value);
}

void prom_value(struct prom_family *family, double value, ...)
{
	va_list labels;

	va_start(labels, value);
	begin_sample(family, labels);
	va_end(labels);
	fprintf(family->out, " %.17g\n", value);
}

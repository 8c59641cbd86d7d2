// SPDX-License-Identifier: BSD-2-Clause
#include "fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "json.h"

/* --- Prometheus' text format --- */

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
	const struct metric *metric = family->metric;
	const char *before = "{";

	if (!family->begun)
		fprintf(family->out, "# HELP escapement_%s %s\n# TYPE escapement_%s %s\n",
			metric->name, metric->help, metric->name, prom_type_name(metric->type));
	family->begun = true;
	fprintf(family->out, "escapement_%s%s", metric->name, suffix);
	for (; labels->name; labels++) {
		if (!labels->value || !*labels->value)
			continue;
		fprintf(family->out, "%s%s=\"", before, labels->name);
		for (const char *at = labels->value; *at; at++)
			if (*at == '\n')
				fputs("\\n", family->out);
			else
				fprintf(family->out, *at == '"' || *at == '\\' ? "\\%c" : "%c",
					*at);
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

/* --- fields --- */

/* As JSON has it; of FIELD_REAL and FIELD_TEXT nothing. */
static int64_t integer_of(const struct field *field, const void *at)
{
	switch (field->type) {
	case FIELD_U16:
		return *(const uint16_t *)at;
	case FIELD_U32:
		return *(const uint32_t *)at;
	case FIELD_U64:
	case FIELD_I64:
		return *(const int64_t *)at;
	case FIELD_BOOL:
		return *(const bool *)at;
	default:
		return 0;
	}
}

static bool is_known(const struct field *field, const void *row)
{
	const void *at = (const char *)row + field->offset;

	if ((field->known && !field->known(row)) || (field->nonzero && !integer_of(field, at)))
		return false;
	if (field->type == FIELD_REAL)
		return isfinite(*(const double *)at);
	return field->type != FIELD_TEXT || *(const char *)at;
}

static json_t *to_json(const struct field *field, const void *at)
{
	switch (field->type) {
	case FIELD_BOOL:
		return json_boolean(*(const bool *)at);
	case FIELD_REAL:
		return json_real(*(const double *)at);
	case FIELD_TEXT:
		return json_string(at);
	default:
		return json_integer(integer_of(field, at));
	}
}

void fields_put(json_t *object, const struct field *fields, const void *row)
{
	for (; fields->key || fields->metric; fields++)
		if (fields->key && is_known(fields, row))
			json_put(object, fields->key,
				 to_json(fields, (const char *)row + fields->offset));
}

static void write_one(struct prom_family *family, const struct field *field, const void *at,
		      const struct prom_label *labels)
{
	double divisor = field->divisor ? field->divisor : 1;
	uint64_t count = (uint64_t)integer_of(field, at);

	if (field->type == FIELD_REAL)
		prom_sample(family, *(const double *)at / divisor, labels);
	else if (field->type == FIELD_I64)
		prom_sample(family, (double)*(const int64_t *)at / divisor, labels);
	else if (divisor != 1)
		prom_sample(family, (double)count / divisor, labels);
	else
		prom_sample_count(family, count, labels);
}

const struct prom_label *fields_label_first(const void *row, void *context)
{
	struct prom_label *labels = context;

	labels[0].value = row;
	return labels;
}

void fields_write(FILE *out, const struct field *fields, const void *rows, size_t count,
		  size_t row_bytes, fields_labels_fn *labels, void *context)
{
	for (; fields->key || fields->metric; fields++) {
		struct prom_family *family = fields->metric ? FAMILY_OF(fields->metric) : NULL;

		for (size_t i = 0; family && i < count; i++) {
			const void *row = (const char *)rows + i * row_bytes;

			if (is_known(fields, row))
				write_one(family, fields, (const char *)row + fields->offset,
					  labels ? labels(row, context) : &(struct prom_label){});
		}
	}
}

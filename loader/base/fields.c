// SPDX-License-Identifier: BSD-2-Clause
#include "fields.h"

#include <math.h>
#include <stdbool.h>

#include "json.h"

static bool is_known(const struct field *field, const void *row)
{
	const void *at = (const char *)row + field->offset;

	if (field->known && !field->known(row))
		return false;
	if (field->type == FIELD_REAL)
		return isfinite(*(const double *)at);
	return field->type != FIELD_TEXT || *(const char *)at;
}

static json_t *to_json(const struct field *field, const void *at)
{
	switch (field->type) {
	case FIELD_U16:
		return json_integer(*(const uint16_t *)at);
	case FIELD_U32:
		return json_integer(*(const uint32_t *)at);
	case FIELD_U64:
		return json_integer((json_int_t) * (const uint64_t *)at);
	case FIELD_I64:
		return json_integer(*(const int64_t *)at);
	case FIELD_BOOL:
		return json_boolean(*(const bool *)at);
	case FIELD_REAL:
		return json_real(*(const double *)at);
	case FIELD_TEXT:
		return json_string(at);
	}
	return NULL;
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
	uint64_t count = field->type == FIELD_U16   ? *(const uint16_t *)at
			 : field->type == FIELD_U32 ? *(const uint32_t *)at
			 : field->type == FIELD_U64
				 ? *(const uint64_t *)at
				 : field->type == FIELD_BOOL && *(const bool *)at;

	if (field->type == FIELD_REAL)
		prom_sample(family, *(const double *)at / divisor, labels);
	else if (field->type == FIELD_I64)
		prom_sample(family, (double)*(const int64_t *)at / divisor, labels);
	else if (divisor != 1)
		prom_sample(family, (double)count / divisor, labels);
	else
		prom_sample_count(family, count, labels);
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

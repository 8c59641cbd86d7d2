/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fields of a struct that are shown: one table for the JSON reply, the metrics and the manual.
 * A field that is not known in a row is left out of both.
 */
#ifndef ESC_BASE_FIELDS_H
#define ESC_BASE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "prom.h"

enum field_type {
	FIELD_U16,
	FIELD_U32,
	FIELD_U64,
	FIELD_I64,
	FIELD_BOOL,
	FIELD_REAL, /* left out unless finite */
	FIELD_TEXT, /* char array; left out when empty */
};

struct field {
	const char *key; /* in JSON; NULL: not there */
	enum field_type type;
	size_t offset;
	const struct metric *metric; /* NULL: none */
	double divisor;		     /* metric = value / divisor; 0: 1 */
	/* NULL: always known. */
	bool (*known)(const void *row);
};
#define FIELD(structure, member, type_, key_)                                                      \
	.key = (key_), .type = FIELD_##type_, .offset = offsetof(structure, member)

/* Members of @object from @row; @fields is ended by {}. */
void fields_put(json_t *object, const struct field *fields, const void *row);

/* Labels of a row; the array is ended by {} and valid until the next call. */
typedef const struct prom_label *fields_labels_fn(const void *row, void *context);
/* Each family of @fields with one sample a row. @row_bytes: distance of two rows. @labels: or NULL.
 */
void fields_write(FILE *out, const struct field *fields, const void *rows, size_t count,
		  size_t row_bytes, fields_labels_fn *labels, void *context);

#endif

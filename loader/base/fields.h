/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is shown of a struct: one table of fields for the JSON reply, the metrics and the manual;
 * and Prometheus' text format, families with HELP and TYPE, samples with escaped labels.
 */
#ifndef ESC_BASE_FIELDS_H
#define ESC_BASE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- metrics --- */

enum prom_type { PROM_GAUGE, PROM_COUNTER, PROM_HISTOGRAM };
const char *prom_type_name(enum prom_type type);

/*
 * A module has one list of its families, from which its enum, its table, the manual and the tests
 * are made:
 *   #define PACE_METRICS(X) X(PACED_QPS, "paced_qps", GAUGE, "Queue pairs that are paced.") ...
 *   enum { PACE_METRICS(METRIC_ENUM) };
 *   const struct metric pace_metrics[] = {PACE_METRICS(METRIC){}};
 */
struct metric {
	const char *name; /* without "escapement_" */
	enum prom_type type;
	const char *help;
};
#define METRIC_ENUM(id, name_, type_, help_) id,
#define METRIC(id, name_, type_, help_) [id] = {name_, PROM_##type_, help_},

/* A family that begins with its first sample, so that an empty one leaves no trace. */
struct prom_family {
	FILE *out;
	const struct metric *metric;
	bool begun;
};

/* One of a table that lasts as long as the block, of FILE *out. */
#define FAMILY_OF(metric_) (&(struct prom_family){.out = out, .metric = (metric_)})

/* Name and value of a label; a list is ended by {}, and an empty value is left out. */
struct prom_label {
	const char *name, *value;
};

/* Of a PROM_HISTOGRAM: how many values there were up to each of @bounds, and of all. */
struct prom_histogram {
	const double *bounds; /* rising */
	const uint64_t *below;
	size_t bound_count;
	uint64_t count;
	double sum;
};

/* A sample of @family. */
void prom_sample(struct prom_family *family, double value, const struct prom_label *labels);
void prom_sample_count(struct prom_family *family, uint64_t value, const struct prom_label *labels);
void prom_sample_histogram(struct prom_family *family, const struct prom_histogram *histogram,
			   const struct prom_label *labels);

/* The same with names and values as arguments, the last one NULL. */
#define PROM_LABELS(...) ((const struct prom_label *)(const char *const[]){__VA_ARGS__})
#define prom_value(family, value, ...) prom_sample(family, value, PROM_LABELS(__VA_ARGS__))
#define prom_count(family, value, ...) prom_sample_count(family, value, PROM_LABELS(__VA_ARGS__))
#define prom_histogram(family, histogram, ...)                                                     \
	prom_sample_histogram(family, histogram, PROM_LABELS(__VA_ARGS__))

/* --- fields: one that is not known in a row is left out of both --- */

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
	bool nonzero;		     /* an integer that is not known when it is 0 */
	/* NULL: always known. */
	bool (*known)(const void *row);
};
#define FIELD(structure, member, type_, key_)                                                      \
	.key = (key_), .type = FIELD_##type_, .offset = offsetof(structure, member)

/* Members of @object from @row; @fields is ended by {}. */
void fields_put(json_t *object, const struct field *fields, const void *row);

/* Labels of a row, ended by {}, valid until the next call. */
typedef const struct prom_label *fields_labels_fn(const void *row, void *context);
/* Of rows that begin with a char array, its value; @context: struct prom_label[2] with the name. */
const struct prom_label *fields_label_first(const void *row, void *context);
/* Each family of @fields, a sample a row of @row_bytes. @labels: or NULL. */
void fields_write(FILE *out, const struct field *fields, const void *rows, size_t count,
		  size_t row_bytes, fields_labels_fn *labels, void *context);

#endif

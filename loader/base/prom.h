/* SPDX-License-Identifier: BSD-2-Clause */
/* Prometheus' text format: families with HELP and TYPE, samples with escaped labels. */
#ifndef ESC_LOADER_PROM_H
#define ESC_LOADER_PROM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
	const char *name; /* without "escapement_" */
	enum prom_type type;
	const char *help;
	int begun;
};

/* One that lasts as long as the block, of FILE *out: GAUGE, COUNTER or HISTOGRAM. */
#define FAMILY(name_, type_, help_)                                                                \
	(&(struct prom_family){.out = out, .name = name_, .type = PROM_##type_, .help = help_})

/* The same of an entry of such a table. */
#define FAMILY_OF(metric_)                                                                         \
	(&(struct prom_family){.out = out,                                                         \
			       .name = (metric_)->name,                                            \
			       .type = (metric_)->type,                                            \
			       .help = (metric_)->help})

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

#endif

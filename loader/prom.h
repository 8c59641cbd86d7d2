/* SPDX-License-Identifier: BSD-2-Clause */
/* Prometheus' text format: families with HELP and TYPE, samples with escaped labels. */
#ifndef ESC_LOADER_PROM_H
#define ESC_LOADER_PROM_H

#include <stdint.h>
#include <stdio.h>

enum prom_type { PROM_GAUGE, PROM_COUNTER };

/* A family that begins with its first sample, so that an empty one leaves no trace. */
struct prom_family {
	FILE *out;
	const char *name; /* without "escapement_" */
	enum prom_type type;
	const char *help;
	int begun;
};

/*
 * A sample of @family. Then pairs of label name and value, ended by NULL; a
 * label whose value is NULL or empty is left out, as Prometheus takes both for
 * the same.
 */
void prom_count(struct prom_family *family, uint64_t value, ...) __attribute__((sentinel));
void prom_value(struct prom_family *family, double value, ...) __attribute__((sentinel));

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Events about queue pairs: bounded, so that a storm of them is one line more, not thousands. */
#ifndef ESC_LOADER_QPTELL_H
#define ESC_LOADER_QPTELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

struct events;

struct qptell {
	struct events *events;
	const char *kind;
	size_t max;
	size_t count;
	uint64_t packets; /* of those past @max */
	uint64_t bytes;
};

void qptell_start(struct qptell *tell, struct events *events, const char *kind, size_t max);
/* An event of its own for the first @max; the rest is summed up. */
void qptell_add(struct qptell *tell, const struct esc_qp_key *key, const struct esc_qp *qp);
/* Sums up what was past @max. @taken_over: they were in the table before the daemon. */
void qptell_end(struct qptell *tell, bool taken_over);

void qptell_full(struct events *events, uint64_t refused, size_t entries, uint32_t max);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Events about queue pairs: bounded, so that a storm of them is one line more, not thousands. */
#ifndef ESC_LOADER_QPTELL_H
#define ESC_LOADER_QPTELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

#include "core/core.h"

#define QP_EVENTS(X)                                                                               \
	X(QP_SEEN, "qp_seen", "A queue pair sends or receives.")                                   \
	X(QP_GONE, "qp_gone", "A queue pair was idle for qps.idle and is not tracked any more.")   \
	X(QP_TABLE_FULL, "qp_table_full",                                                          \
	  "Packets were not counted per queue pair: the table is full.")
enum { QP_EVENTS(EVENT_ENUM) };
extern const struct event_kind qp_events[];

struct qptell {
	struct events *events;
	unsigned int kind; /* of qp_events */
	size_t max;
	size_t count;
	uint64_t packets; /* of those past @max */
	uint64_t bytes;
};

void qptell_start(struct qptell *tell, struct events *events, unsigned int kind, size_t max);
/* An event of its own for the first @max; the rest is summed up. */
void qptell_add(struct qptell *tell, const struct esc_qp_key *key, const struct esc_qp *qp);
/* Sums up what was past @max. @taken_over: they were in the table before the daemon. */
void qptell_end(struct qptell *tell, bool taken_over);

void qptell_full(struct events *events, uint64_t refused, size_t entries, uint32_t max);

#endif

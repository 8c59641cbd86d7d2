/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of delay/ share. */
#ifndef ESC_DELAY_INTERNAL_H
#define ESC_DELAY_INTERNAL_H

#include "base/prom.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "delay.h"
#include "hostqueue.h"
#include "clock/clock.h"
#include "mesh/mesh.h"
#include "qp/qp.h"
#include "read.h"
#include "report.h"
#include "state.h"
#include "sums.h"

struct delays {
	const struct qptable *qps;
	struct delayread *reader;
	struct delays_entry *entries; /* sorted as the table */
	size_t count, tracked;
	uint64_t read_local_ns, sweep_local_ns; /* 0: never */
	bool no_batch;
	struct delayhist scratch;
	struct delays_sums sums;
	/* Of the look under way. */
	uint64_t now_local_ns;
	int error;

	/* Of the capability. */
	struct core *core;
	struct dataplane *dataplane;
	struct qptable *table; /* the same as qps */
	struct clock *clock;
	struct mesh *mesh;
	struct core_timer *timer;
	struct hostqueue *host_queue; /* NULL: not wanted, or host_queue_note has the reason */
	char host_queue_note[160];
	struct qp_delay_order order;
	struct report_delays facts; /* of the replies since the newest refresh */
	bool facts_known;
	bool poll_failed;
	delays_listener_fn *listener;
	void *listener_context;
};

extern const struct metric delay_metrics[];
void delay_write_metrics(void *self, FILE *out);

#endif

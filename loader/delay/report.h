/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays of queue pairs in the answers to `qp`, `peers` and `status`; why there are none. */
#ifndef ESC_LOADER_REPORT_DELAYS_H
#define ESC_LOADER_REPORT_DELAYS_H

#include <jansson.h>

#include "dataplane/dataplane.h"
#include "delay.h"
#include "group.h"
#include "clock/clock.h"
#include "mesh/mesh.h"

/* What a sentence about a missing delay stands on. */
struct report_delays {
	const struct delays *delays;
	const struct members *members; /* NULL: no file */
	bool off;		       /* kill switch */
	bool receipts;		       /* they are configured */
	enum clock_state clock;
	struct mesh_peer_facts *peers; /* neighbours */
	size_t peer_count;
	struct port_info ports[ESC_PORTS_MAX];
	unsigned int port_count;
};

void report_delays_begin(struct report_delays *out, const struct delays *delays);
void report_delays_end(struct report_delays *facts);

/* NULL: that port is not configured any more. */
const struct port_info *report_delays_port(const struct report_delays *facts, unsigned int index);

/* Adds all that is known of the delay of @qp, or `owd_note`. */
void report_put_delays(json_t *object, const struct report_delays *facts,
		       const struct qp_entry *qp);
/*
 * Why @qp has no delays now, in one sentence without its full stop. @entry
 * NULL: it has none of its own.
 */
void report_delays_why(const struct report_delays *facts, const struct qp_entry *qp,
		       const struct delays_entry *entry, char out[256]);

/* {"samples", "min", "p50", "p99", "max", "mean", "bound", "over", "crossings", "ce"}. */
json_t *report_span(const struct delays_span *span);
/* One path, an element of `paths`. */
json_t *report_path(const struct report_delays *facts, const struct delays_group *group);
/* `qp_owd_out_ns` into the peers of `peers`. */
void report_put_peer_delays(json_t *peers, const struct delays *delays);
/* `receipts` into `status`. */
void report_put_receipts(json_t *status, const struct delays *delays);

#endif

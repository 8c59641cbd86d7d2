/* SPDX-License-Identifier: BSD-2-Clause */
/* The families of escapement.prom, from facts gathered before. */
#ifndef ESC_LOADER_METRICS_H
#define ESC_LOADER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "dataplane/dataplane.h"
#include "diagnose/diagnose.h"
#include "clock/metrics.h"
#include "paths/metrics_lanes.h"
#include "steer/metrics.h"
#include "qp/owners.h"
#include "paths/paths.h"
#include "qp/table.h"

struct delays;
struct members;

struct metrics_port {
	struct port_info info;
	struct esc_port_counts counts;
	bool counted; /* counts could be read */
};

struct metrics_facts {
	bool off; /* kill switch */
	struct metrics_port ports[ESC_PORTS_MAX];
	unsigned int port_count;
	bool reasons_read;
	struct esc_reason_count reasons[ESC_REASON_MAX];
	bool qps_read;
	const struct qp_entry *qps;
	size_t qp_count;
	uint32_t qps_max;
	uint32_t top_qps;
	const struct owners *owners; /* of queue pairs; NULL: not looked for */
	struct qp_totals totals[2]; /* by enum esc_direction */
	struct metrics_mesh mesh;
	struct steer_facts steer;
	struct paths_facts paths;
	struct metrics_lanes lanes;
	struct judge_counts verdicts;
	const struct delays *delays; /* NULL: none are read */
	const struct members *members;
	bool receipts; /* configured */
};

/* A running daemon. Families without a sample are left out. */
void metrics_write(FILE *out, const struct metrics_facts *facts);
#endif

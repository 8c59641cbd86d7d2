/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pairs as user space knows them: snapshots, rates, ageing, totals that outlive them. */
#ifndef ESC_LOADER_QPTABLE_H
#define ESC_LOADER_QPTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

struct events;
struct qptable;

struct qp_entry {
	struct esc_qp_key key;
	struct esc_qp qp;	   /* as last read */
	double packets_per_second; /* over the last half a second or more */
	double bytes_per_second;
	double loss_per_second;	 /* gaps and packets sent again: of datagrams neither */
	uint64_t seen_local_ns;	 /* CLOCK_MONOTONIC of the refresh that last saw it move */
	uint64_t moved_local_ns; /* the same; 0: it has not moved since we began */
	uint64_t rate_local_ns;	 /* from when the next rate counts, and from which counts */
	uint64_t rate_packets;
	uint64_t rate_bytes;
	uint64_t rate_losses;
};

/* Sums over all QPs there have been, the aged ones included: never go back. */
struct qp_totals {
	uint64_t packets, bytes, messages, ce, cnps, psn_gaps, duplicates, retransmits, naks,
		rnr_naks;
};

/* @qps_fd is borrowed. @idle_ns: a QP still for so long is deleted from the map. */
int qptable_new(struct qptable **out, int qps_fd, uint32_t max, uint64_t idle_ns,
		struct events *events);
void qptable_free(struct qptable *table);
/* Changes the bounds after a reload. */
void qptable_set_idle(struct qptable *table, uint64_t idle_ns);

/*
 * Reads the map (batched), computes rates, retires idle entries, and records
 * events: qp_seen, qp_gone, qp_table_full (when @refused rose), once each.
 * @refused: the reason count qp_table_full summed over hooks.
 */
int qptable_refresh(struct qptable *table, uint64_t now_local_ns, uint64_t refused);

/* CLOCK_MONOTONIC of the newest refresh that succeeded; 0: none. */
uint64_t qptable_refreshed_ns(const struct qptable *table);

/* Entries by src, dst, dest_qpn, direction; valid until the next refresh. */
const struct qp_entry *qptable_entries(const struct qptable *table, size_t *count);
void qptable_totals(const struct qptable *table, enum esc_direction direction,
		    struct qp_totals *out);

/* Median of message sizes in bytes, 0 < q < 1; 0 when none was seen whole. */
uint64_t qp_message_quantile(const struct esc_qp *qp, double q);
uint64_t qp_naks(const struct esc_qp *qp);

#endif

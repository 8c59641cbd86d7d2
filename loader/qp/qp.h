/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of queue pairs: snapshots of the map `qps`, rates, ageing, and the process and job
 * that own each.
 */
#ifndef ESC_QP_H
#define ESC_QP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job.h"
#include "mapread.h"
#include "maps/maps.h"
#include "owners.h"
#include "report.h"

struct capability;
struct delays_entry;
struct events;
struct qptable;

/* needs: dataplane; self is the struct qptable. */
extern const struct capability qp_capability;

/* Counts at a time, for rates. */
struct qp_rate_base {
	uint64_t local_ns, packets, bytes, losses;
};

struct qp_entry {
	struct esc_qp_key key;
	struct esc_qp qp;	   /* as last read */
	double packets_per_second; /* over the last half a second or more */
	double bytes_per_second;
	double loss_per_second;	 /* gaps and retransmissions: of datagrams neither */
	uint64_t seen_local_ns;	 /* CLOCK_MONOTONIC of the refresh that last saw it move */
	uint64_t moved_local_ns; /* the same; 0: it has not moved since we began */
	struct qp_rate_base before;
	struct delays_entry *delays; /* slot of delay/; NULL: none */
};

/* Sums over all queue pairs of a direction there have been, the aged ones too: never go back. */
struct qp_totals {
	enum esc_direction direction;
	uint64_t packets, bytes, messages, ce, cnps, psn_gaps, duplicates, retransmits, naks,
		rnr_naks;
};

/*
 * @qps_fd and @events (NULL: none) are borrowed. @idle_ns: an entry that is still for so long is
 * deleted from the map; 0: never. 0 or -ENOMEM.
 */
int qptable_new(struct qptable **out, int qps_fd, uint32_t max, uint64_t idle_ns,
		struct events *events);
void qptable_free(struct qptable *table);

/*
 * Reads the map, computes rates, retires idle entries, and emits qp_seen, qp_gone and
 * qp_table_full (when @refused rose). @refused: the reason count qp_table_full summed over hooks.
 */
int qptable_refresh(struct qptable *table, uint64_t now_local_ns, uint64_t refused);
/* The same now, with the dataplane's count. 0 or -errno. */
int qptable_poll(struct qptable *table);

/* CLOCK_MONOTONIC of the newest refresh that succeeded; 0: none. */
uint64_t qptable_refreshed_ns(const struct qptable *table);
/*
 * Entries by src, dst, dest_qpn, direction; valid until the next refresh. A capability writes its
 * own slot of them alone.
 */
struct qp_entry *qptable_entries(const struct qptable *table, size_t *count);
/* NULL: there is none of that key. */
struct qp_entry *qptable_find(const struct qptable *table, const struct esc_qp_key *key);
/* @gone is called before an entry with something in its slot goes. NULL: not any more. */
typedef void qptable_gone_fn(void *context, struct qp_entry *entry);
void qptable_on_gone(struct qptable *table, qptable_gone_fn *gone, void *context);

void qptable_totals(const struct qptable *table, enum esc_direction direction,
		    struct qp_totals *out);
struct owners *qptable_owners(const struct qptable *table);
/* NULL: delays are not known any more. */
void qptable_set_delay_order(struct qptable *table, report_qp_value_fn *order);

/* A quantile of message sizes in bytes, 0 < q < 1; 0 when none was seen whole. */
uint64_t qp_message_quantile(const struct esc_qp *qp, double q);
uint64_t qp_naks(const struct esc_qp *qp);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of qp/ share. */
#ifndef ESC_QP_INTERNAL_H
#define ESC_QP_INTERNAL_H

#include "base/fields.h"
#include "base/prom.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "qp.h"

/* Events of a kind in one refresh: each for itself up to @max, the rest as one. */
struct qp_burst {
	unsigned int kind; /* of qp_events */
	size_t max, count;
	uint64_t packets, bytes; /* of those past @max */
};

struct qptable {
	struct mapread reader;
	uint64_t idle_ns;
	struct events *events;
	struct qp_entry *entries; /* sorted by key */
	size_t count;
	uint64_t refreshed_local_ns; /* 0: never */
	struct qp_totals aged[2];    /* by direction */
	struct qp_burst seen, gone;  /* of the refresh under way */
	uint64_t refused_reported, refused_reported_local_ns;
	qptable_gone_fn *gone_fn;
	void *gone_context;

	/* Of the capability. */
	struct core *core;
	struct dataplane *dataplane;
	struct owners *owners;
	report_qp_value_fn *delay_order; /* NULL: delays are not known */
	bool refresh_failed;		 /* the newest refresh could not read the map */
};

/* table.c */
extern const struct event_kind qp_events[];

/* --- report.c --- */

#define QP_METRICS(X)                                                                              \
	X(QP_UNTRACKED, "qp_untracked_packets_total", COUNTER,                                     \
	  "Packets not counted per QP because the table of queue pairs was full. No packet is "    \
	  "lost by it.")                                                                           \
	X(QP_MAP_MAX, "map_max_entries", GAUGE, "Entries that a BPF map has room for.")            \
	X(QP_MAP_ENTRIES, "map_entries", GAUGE, "Entries in a BPF map.")                           \
	X(QP_TRACKED, "qp_tracked", GAUGE, "Queue pairs tracked now, one per direction.")          \
	X(ROCE_MESSAGES, "roce_messages_total", COUNTER, "Messages that ended in order.")          \
	X(ROCE_PSN_GAP, "roce_psn_gaps_total", COUNTER,                                            \
	  "Times that a sequence number was skipped.")                                             \
	X(ROCE_DUPLICATE_PACKETS, "roce_duplicate_packets_total", COUNTER,                         \
	  "Packets that had come before.")                                                         \
	X(ROCE_RETRANSMIT_PACKETS, "roce_retransmit_packets_total", COUNTER,                       \
	  "Packets that had been sent before.")                                                    \
	X(ROCE_NAKS, "roce_naks_total", COUNTER, "Negative acknowledgements.")                     \
	X(ROCE_RNR_NAKS, "roce_rnr_naks_total", COUNTER, "Receiver-not-ready NAKs.")               \
	X(QP_INFO, "qp_info", GAUGE, "Facts about a queue pair, always 1.")                        \
	X(QP_PACKETS_TOTAL, "qp_packets_total", COUNTER, "Packets of a queue pair.")               \
	X(QP_BYTES_TOTAL, "qp_bytes_total", COUNTER, "Bytes of these packets, IP header to ICRC.") \
	X(QP_MESSAGES_TOTAL, "qp_messages_total", COUNTER, "Messages that ended in order.")        \
	X(QP_CE_PACKETS_TOTAL, "qp_ce_packets_total", COUNTER,                                     \
	  "Packets with a congestion mark (ECN CE).")                                              \
	X(QP_CNP_PACKETS_TOTAL, "qp_cnp_packets_total", COUNTER,                                   \
	  "Congestion notification packets.")                                                      \
	X(QP_RETRANSMIT_PACKETS_TOTAL, "qp_retransmit_packets_total", COUNTER,                     \
	  "Packets that had been sent before.")                                                    \
	X(QP_PSN_GAP_TOTAL, "qp_psn_gaps_total", COUNTER,                                          \
	  "Times that a sequence number was skipped.")                                             \
	X(QP_DUPLICATE_PACKETS_TOTAL, "qp_duplicate_packets_total", COUNTER,                       \
	  "Packets that had come before.")                                                         \
	X(QP_NAKS, "qp_naks_total", COUNTER, "Negative acknowledgements by kind.")                 \
	X(QP_TRACING, "qp_tracing_info", GAUGE, "How owners of queue pairs are known, always 1.")  \
	X(QP_OWNERS, "qp_owners", GAUGE, "Queue pairs of this host's RDMA devices.")               \
	X(QP_OWNERS_REFUSED, "qp_owners_refused_total", COUNTER,                                   \
	  "Queue pairs that found the table of owners full.")
enum { QP_METRICS(METRIC_ENUM) };
extern const struct metric qp_metrics[];
/* Of struct qp_entry; the second are the kinds of `naks_by_kind`. */
extern const struct field qp_fields[], qp_nak_fields[];

/* --- metrics.c, reply.c --- */

void qp_write_metrics(void *self, FILE *out);
extern const struct verb_handler qp_verb_handlers[];

#endif

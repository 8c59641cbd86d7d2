// SPDX-License-Identifier: BSD-2-Clause
/* Families of queue pairs: their table, sums, and those that are shown one by one. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "internal.h"
#include "metrics_owner.h"

#define QP_METRICS(X)                                                                              \
	X(QP_UNTRACKED, "qp_dropped_total", COUNTER,                                               \
	  "Packets not counted per QP because the table of queue pairs was full. No packet is "    \
	  "lost by it.")                                                                           \
	X(QP_MAP_MAX, "map_max_entries", GAUGE, "Entries that a BPF map has room for.")            \
	X(QP_MAP_ENTRIES, "map_entries", GAUGE, "Entries in a BPF map.")                           \
	X(QP_TRACKED, "qp_tracked", GAUGE, "Queue pairs tracked now, one per direction.")          \
	X(ALL_QPS_PACKETS, "all_qps_packets_total", COUNTER, "Packets of all queue pairs.")        \
	X(ALL_QPS_BYTES, "all_qps_bytes_total", COUNTER,                                           \
	  "Bytes of all queue pairs, IP header to ICRC.")                                          \
	X(ALL_QPS_MESSAGES, "all_qps_messages_total", COUNTER, "Messages that ended in order.")    \
	X(ALL_QPS_CE_PACKETS, "all_qps_ce_packets_total", COUNTER,                                 \
	  "Packets with a congestion mark (ECN CE).")                                              \
	X(ALL_QPS_CNP_PACKETS, "all_qps_cnp_packets_total", COUNTER,                               \
	  "Congestion notification packets.")                                                      \
	X(ALL_QPS_PSN_GAP, "all_qps_psn_gap_total", COUNTER,                                       \
	  "Times that a sequence number was skipped.")                                             \
	X(ALL_QPS_DUPLICATE_PACKETS, "all_qps_duplicate_packets_total", COUNTER,                   \
	  "Packets that had come before.")                                                         \
	X(ALL_QPS_RETRANSMIT_PACKETS, "all_qps_retransmit_packets_total", COUNTER,                 \
	  "Packets that had been sent before.")                                                    \
	X(ALL_QPS_NAKS, "all_qps_naks_total", COUNTER, "Negative acknowledgements.")               \
	X(ALL_QPS_RNR_NAKS, "all_qps_rnr_naks_total", COUNTER, "Receiver-not-ready answers.")      \
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
	X(QP_PSN_GAP_TOTAL, "qp_psn_gap_total", COUNTER,                                           \
	  "Times that a sequence number was skipped.")                                             \
	X(QP_DUPLICATE_PACKETS_TOTAL, "qp_duplicate_packets_total", COUNTER,                       \
	  "Packets that had come before.")                                                         \
	X(QP_NAKS, "qp_naks_total", COUNTER, "Negative acknowledgements by kind.")                 \
	X(QP_TRACING, "qp_tracing_info", GAUGE, "How owners of queue pairs are known, always 1.")  \
	X(QP_OWNERS, "qp_owners", GAUGE, "Queue pairs of this host's RDMA devices.")               \
	X(QP_OWNERS_REFUSED, "qp_owners_refused_total", COUNTER,                                   \
	  "Queue pairs that found the table of owners full.")
enum { QP_METRICS(METRIC_ENUM) };
const struct metric qp_metrics[] = {QP_METRICS(METRIC){}};

static const struct total_family {
	unsigned int metric;
	size_t offset; /* in struct qp_totals */
	int direction; /* that has it, or -1: both */
} total_families[] = {
	{ALL_QPS_PACKETS, offsetof(struct qp_totals, packets), -1},
	{ALL_QPS_BYTES, offsetof(struct qp_totals, bytes), -1},
	{ALL_QPS_MESSAGES, offsetof(struct qp_totals, messages), -1},
	{ALL_QPS_CE_PACKETS, offsetof(struct qp_totals, ce), -1},
	{ALL_QPS_CNP_PACKETS, offsetof(struct qp_totals, cnps), -1},
	{ALL_QPS_PSN_GAP, offsetof(struct qp_totals, psn_gaps), -1},
	{ALL_QPS_DUPLICATE_PACKETS, offsetof(struct qp_totals, duplicates), ESC_DIRECTION_RX},
	{ALL_QPS_RETRANSMIT_PACKETS, offsetof(struct qp_totals, retransmits), ESC_DIRECTION_TX},
	{ALL_QPS_NAKS, offsetof(struct qp_totals, naks), -1},
	{ALL_QPS_RNR_NAKS, offsetof(struct qp_totals, rnr_naks), -1},
};
#define TOTAL_FAMILIES (sizeof(total_families) / sizeof(total_families[0]))

static void write_totals(FILE *out, const struct qptable *table)
{
	static const char *const names[2] = {[ESC_DIRECTION_TX] = "tx", [ESC_DIRECTION_RX] = "rx"};
	struct qp_totals totals[2];

	for (int direction = 0; direction < 2; direction++)
		qptable_totals(table, (enum esc_direction)direction, &totals[direction]);
	for (size_t i = 0; i < TOTAL_FAMILIES; i++) {
		const struct total_family *total = &total_families[i];
		struct prom_family *family = FAMILY_OF(&qp_metrics[total->metric]);

		for (int direction = 0; direction < 2; direction++)
			if (total->direction < 0 || total->direction == direction)
				prom_count(family,
					   *(const uint64_t *)((const char *)&totals[direction] +
							       total->offset),
					   "direction", names[direction], NULL);
	}
}

static void write_table(FILE *out, const struct qptable *table)
{
	struct esc_reason_count reasons[ESC_REASON_MAX];

	if (!dataplane_reasons(table->dataplane, reasons))
		prom_count(FAMILY_OF(&qp_metrics[QP_UNTRACKED]),
			   reason_sum(&reasons[ESC_REASON_QP_TABLE_FULL]), NULL);
	prom_count(FAMILY_OF(&qp_metrics[QP_MAP_MAX]), dataplane_qps_max(table->dataplane), "map",
		   "qps", NULL);
	if (table->refresh_failed)
		return;
	prom_count(FAMILY_OF(&qp_metrics[QP_TRACKED]), table->count, NULL);
	prom_count(FAMILY_OF(&qp_metrics[QP_MAP_ENTRIES]), table->count, "map", "qps", NULL);
}

/* The queue pairs that are shown one by one. */
struct top {
	const struct qp_entry **list;
	size_t count;
	const struct port_facts *ports;
	unsigned int port_count;
	const struct owners *owners;
};

static const struct port_info *port_of(const struct top *top, const struct qp_entry *entry)
{
	for (unsigned int i = 0; i < top->port_count; i++)
		if (top->ports[i].info.index == entry->key.port)
			return &top->ports[i].info;
	return NULL;
}

/* Without its port a queue pair has no name that is its own: two could be one series. */
static void keep_named(struct top *top, size_t most)
{
	size_t kept = 0;

	for (size_t i = 0; i < top->count && kept < most; i++)
		if (port_of(top, top->list[i]))
			top->list[kept++] = top->list[i];
	top->count = kept;
}

struct qp_names {
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], qpn[16];
	const char *netdev, *direction;
};

static void name_qp(const struct top *top, const struct qp_entry *entry, struct qp_names *names)
{
	address_format(&entry->key.src, names->src);
	address_format(&entry->key.dst, names->dst);
	snprintf(names->qpn, sizeof(names->qpn), "%u", entry->key.dest_qpn);
	names->netdev = port_of(top, entry)->name;
	names->direction = report_direction(&entry->key);
}

#define QP_LABELS(names)                                                                           \
	"netdev", (names).netdev, "qpn", (names).qpn, "src", (names).src, "dst", (names).dst,      \
		"direction", (names).direction

static void write_qp_infos(FILE *out, const struct top *top)
{
	struct prom_family *family = FAMILY_OF(&qp_metrics[QP_INFO]);

	for (size_t i = 0; i < top->count; i++) {
		struct qp_names names;
		struct metrics_owner owner;
		char sport[16];

		name_qp(top, top->list[i], &names);
		metrics_owner_of(top->owners, port_of(top, top->list[i])->rdma_device, top->list[i],
				 &owner);
		snprintf(sport, sizeof(sport), "%u", top->list[i]->qp.sport);
		prom_count(family, 1, QP_LABELS(names), "sport", sport, "transport",
			   report_transport(&top->list[i]->qp), "source", "packet",
			   METRICS_OWNER_LABELS(owner), NULL);
	}
}

#define QP_ANY 0x1 /* every transport */
#define QP_RX 0x2  /* only received, */
#define QP_TX 0x4  /* only sent */

/* Datagrams have no sequence: UD only in the families that say QP_ANY. */
static const struct qp_family {
	unsigned int metric;
	size_t offset; /* in struct esc_qp */
	unsigned int where;
} qp_families[] = {
	{QP_PACKETS_TOTAL, offsetof(struct esc_qp, packets), QP_ANY},
	{QP_BYTES_TOTAL, offsetof(struct esc_qp, bytes), QP_ANY},
	{QP_MESSAGES_TOTAL, offsetof(struct esc_qp, messages), QP_ANY},
	{QP_CE_PACKETS_TOTAL, offsetof(struct esc_qp, ce), QP_ANY},
	{QP_CNP_PACKETS_TOTAL, offsetof(struct esc_qp, cnps), QP_ANY},
	{QP_RETRANSMIT_PACKETS_TOTAL, offsetof(struct esc_qp, retransmits), QP_TX},
	{QP_PSN_GAP_TOTAL, offsetof(struct esc_qp, psn_gaps), QP_RX | QP_TX},
	{QP_DUPLICATE_PACKETS_TOTAL, offsetof(struct esc_qp, duplicates), QP_RX},
};

static bool qp_has(const struct qp_entry *entry, unsigned int where)
{
	bool tx = entry->key.direction == ESC_DIRECTION_TX;

	if (where & QP_ANY)
		return true;
	return entry->qp.transport != ESC_TRANSPORT_UD && where & (tx ? QP_TX : QP_RX);
}

static void write_qp_counts(FILE *out, const struct top *top)
{
	for (size_t f = 0; f < sizeof(qp_families) / sizeof(qp_families[0]); f++) {
		struct prom_family *family = FAMILY_OF(&qp_metrics[qp_families[f].metric]);

		for (size_t i = 0; i < top->count; i++) {
			struct qp_names names;

			if (!qp_has(top->list[i], qp_families[f].where))
				continue;
			name_qp(top, top->list[i], &names);
			prom_count(family,
				   *(const __u64 *)((const char *)&top->list[i]->qp +
						    qp_families[f].offset),
				   QP_LABELS(names), NULL);
		}
	}
}

static void write_qp_naks(FILE *out, const struct top *top)
{
	static const struct {
		const char *kind;
		size_t offset;
	} kinds[] = {
		{"sequence", offsetof(struct esc_qp, nak_sequence)},
		{"invalid_request", offsetof(struct esc_qp, nak_invalid_request)},
		{"remote_access", offsetof(struct esc_qp, nak_remote_access)},
		{"remote_operational", offsetof(struct esc_qp, nak_remote_operational)},
		{"other", offsetof(struct esc_qp, nak_other)},
		{"rnr", offsetof(struct esc_qp, rnr_naks)},
	};
	struct prom_family *family = FAMILY_OF(&qp_metrics[QP_NAKS]);

	for (size_t i = 0; i < top->count; i++) {
		struct qp_names names;

		if (!qp_has(top->list[i], QP_RX | QP_TX))
			continue;
		name_qp(top, top->list[i], &names);
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			prom_count(
				family,
				*(const __u64 *)((const char *)&top->list[i]->qp + kinds[k].offset),
				QP_LABELS(names), "kind", kinds[k].kind, NULL);
	}
}

static void write_top_qps(FILE *out, const struct qptable *table)
{
	const struct report_qp_filter all = {};
	struct port_facts ports[ESC_PORTS_MAX];
	struct top top = {.ports = ports, .owners = table->owners};
	uint32_t most = table->core->config->textfile.top_qps;

	if (!most)
		return;
	top.port_count = dataplane_read_ports(table->dataplane, ports);
	top.list = report_qp_choose(table->entries, table->count, &all, REPORT_QP_RATE, NULL,
				    &top.count);
	if (!top.list)
		return;
	keep_named(&top, most);
	write_qp_infos(out, &top);
	write_qp_counts(out, &top);
	write_qp_naks(out, &top);
	free(top.list);
}

static void write_owners(FILE *out, const struct owners *owners)
{
	struct owners_facts facts;

	owners_get_facts(owners, &facts);
	prom_count(FAMILY_OF(&qp_metrics[QP_TRACING]), 1, "method", facts.how, NULL);
	if (!strcmp(facts.how, "none"))
		return;
	prom_count(FAMILY_OF(&qp_metrics[QP_OWNERS]), facts.tracked, NULL);
	prom_count(FAMILY_OF(&qp_metrics[QP_OWNERS_REFUSED]), facts.refused, NULL);
}

void qp_write_metrics(void *self, FILE *out)
{
	const struct qptable *table = self;

	write_table(out, table);
	if (table->owners)
		write_owners(out, table->owners);
	if (table->refresh_failed)
		return;
	write_totals(out, table);
	write_top_qps(out, table);
}

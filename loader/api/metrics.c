// SPDX-License-Identifier: BSD-2-Clause
#include "metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "delay/metrics.h"
#include "qp/metrics_owner.h"
#include "paths/metrics_delays.h"
#include "base/prom.h"
#include "report.h"
#include "qp/report.h"

/* device and port as node_exporter spells them, so that its series can be joined. */
static const char *port_number(const struct port_info *port, char out[16])
{
	snprintf(out, 16, "%u", port->rdma_port);
	return port->rdma_device[0] ? out : NULL;
}

static void write_port_infos(FILE *out, const struct metrics_facts *facts)
{
	struct prom_family *visibility = FAMILY("port_visibility_info", GAUGE,
						"How much of the RDMA traffic of a port is seen: "
						"packets, control, counters or none.");
	struct prom_family *attach =
		FAMILY("port_attach_info", GAUGE, "How the programs are attached to an interface.");
	struct prom_family *link =
		FAMILY("link_up", GAUGE, "1 when the interface is there and its link is up.");
	char number[16];

	for (unsigned int i = 0; i < facts->port_count; i++) {
		const struct port_info *port = &facts->ports[i].info;

		prom_count(visibility, 1, "device", port->rdma_device, "port",
			   port_number(port, number), "netdev", port->name, "mode",
			   port->visibility, NULL);
	}
	for (unsigned int i = 0; i < facts->port_count; i++) {
		const struct port_info *port = &facts->ports[i].info;

		prom_count(attach, 1, "netdev", port->name, "attach",
			   report_xdp_mode(port->xdp_mode), "via", report_xdp_via(port->xdp_via),
			   "tc", report_tc_via(port->tc_via), NULL);
	}
	for (unsigned int i = 0; i < facts->port_count; i++) {
		const struct port_info *port = &facts->ports[i].info;

		prom_count(link, port->ifindex && port->link_up, "netdev", port->name, NULL);
	}
}

/* Counters of a port come in pairs, one a direction. */
static const struct port_family {
	const char *name, *help;
	size_t rx, tx; /* offsets in struct esc_port_counts */
} port_families[] = {
	{"roce_packets_total", "RoCEv2 packets that were understood.",
	 offsetof(struct esc_port_counts, rx_roce_packets),
	 offsetof(struct esc_port_counts, tx_roce_packets)},
	{"roce_bytes_total", "Bytes of these packets, IP header to ICRC.",
	 offsetof(struct esc_port_counts, rx_roce_bytes),
	 offsetof(struct esc_port_counts, tx_roce_bytes)},
	{"ecn_ce_packets_total", "RoCEv2 packets with a congestion mark (ECN CE).",
	 offsetof(struct esc_port_counts, rx_ce_packets),
	 offsetof(struct esc_port_counts, tx_ce_packets)},
	{"cnp_packets_total", "Congestion notification packets.",
	 offsetof(struct esc_port_counts, rx_cnps), offsetof(struct esc_port_counts, tx_cnps)},
	{"rocev1_frames_total", "RoCEv1 frames (ethertype 0x8915).",
	 offsetof(struct esc_port_counts, rx_rocev1_frames),
	 offsetof(struct esc_port_counts, tx_rocev1_frames)},
};

static uint64_t count_at(const struct esc_port_counts *counts, size_t offset)
{
	return *(const __u64 *)((const char *)counts + offset);
}

static void write_port_count(struct prom_family *family, const struct metrics_port *port,
			     const char *direction, uint64_t count)
{
	char number[16];

	prom_count(family, count, "device", port->info.rdma_device, "port",
		   port_number(&port->info, number), "netdev", port->info.name, "direction",
		   direction, NULL);
}

/* What is not counted now and never was is left out: it would be a 0 that nobody measured. */
static void write_port_counts(FILE *out, const struct metrics_facts *facts)
{
	for (size_t f = 0; f < sizeof(port_families) / sizeof(port_families[0]); f++) {
		struct prom_family *family =
			FAMILY(port_families[f].name, COUNTER, port_families[f].help);

		for (unsigned int i = 0; i < facts->port_count; i++) {
			const struct metrics_port *port = &facts->ports[i];
			uint64_t rx = count_at(&port->counts, port_families[f].rx);
			uint64_t tx = count_at(&port->counts, port_families[f].tx);

			if (!port->counted)
				continue;
			if (rx || report_counts_rx(&port->info))
				write_port_count(family, port, "rx", rx);
			if (tx || report_counts_tx(&port->info))
				write_port_count(family, port, "tx", tx);
		}
	}
}

static void write_reasons(FILE *out, const struct metrics_facts *facts)
{
	struct prom_family *family =
		FAMILY("reason_packets_total", COUNTER,
		       "Packets left out of the per-QP counts, by reason. Probes (probe_*) end "
		       "here, all others go on untouched.");

	for (unsigned int i = ESC_REASON_NONE + 1; facts->reasons_read && i < ESC_REASON_MAX; i++) {
		const struct esc_reason_count *count = &facts->reasons[i];
		const char *name = report_reason_name(i);

		prom_count(family, count->xdp_ingress, "reason", name, "hook", "xdp_ingress", NULL);
		prom_count(family, count->tc_ingress, "reason", name, "hook", "tc_ingress", NULL);
		prom_count(family, count->tc_egress, "reason", name, "hook", "tc_egress", NULL);
	}
}

static void write_table(FILE *out, const struct metrics_facts *facts)
{
	if (facts->reasons_read)
		prom_count(FAMILY("qp_dropped_total", COUNTER,
				  "Packets not counted per QP because the table of queue pairs was "
				  "full. No packet is lost by it."),
			   report_reason_sum(&facts->reasons[ESC_REASON_QP_TABLE_FULL]), NULL);
	prom_count(FAMILY("map_max_entries", GAUGE, "Entries that a BPF map has room for."),
		   facts->qps_max, "map", "qps", NULL);
	if (!facts->qps_read)
		return;
	prom_count(FAMILY("qp_tracked", GAUGE, "Queue pairs followed now, one per direction."),
		   facts->qp_count, NULL);
	prom_count(FAMILY("map_entries", GAUGE, "Entries in a BPF map."), facts->qp_count, "map",
		   "qps", NULL);
}

#define TOTAL(member, name_, direction_, help_)                                                    \
	{                                                                                          \
		"all_qps_" name_ "_total", help_, offsetof(struct qp_totals, member), direction_   \
	}

static const struct total_family {
	const char *name, *help;
	size_t offset; /* in struct qp_totals */
	int direction; /* that has it, or -1: both */
} total_families[] = {
	TOTAL(packets, "packets", -1, "Packets of all queue pairs."),
	TOTAL(bytes, "bytes", -1, "Bytes of all queue pairs, IP header to ICRC."),
	TOTAL(messages, "messages", -1, "Messages that ended in order."),
	TOTAL(ce, "ce_packets", -1, "Packets with a congestion mark (ECN CE)."),
	TOTAL(cnps, "cnp_packets", -1, "Congestion notification packets."),
	TOTAL(psn_gaps, "psn_gap", -1, "Times that a sequence number was skipped."),
	TOTAL(duplicates, "duplicate_packets", ESC_DIRECTION_RX, "Packets that had come before."),
	TOTAL(retransmits, "retransmit_packets", ESC_DIRECTION_TX,
	      "Packets that had been sent before."),
	TOTAL(naks, "naks", -1, "Negative acknowledgements."),
	TOTAL(rnr_naks, "rnr_naks", -1, "Receiver-not-ready answers."),
};
#define TOTAL_FAMILIES (sizeof(total_families) / sizeof(total_families[0]))

static uint64_t *total_at(struct qp_totals *totals, const struct total_family *family)
{
	return (uint64_t *)((char *)totals + family->offset);
}

static bool total_has(const struct total_family *family, int direction)
{
	return family->direction < 0 || family->direction == direction;
}

static const char *direction_word(int direction)
{
	return direction == ESC_DIRECTION_TX ? "tx" : "rx";
}

static void write_totals(FILE *out, const struct metrics_facts *facts)
{
	for (size_t i = 0; facts->qps_read && i < TOTAL_FAMILIES; i++) {
		struct prom_family *family =
			FAMILY(total_families[i].name, COUNTER, total_families[i].help);

		for (int direction = 0; direction < 2; direction++) {
			struct qp_totals totals = facts->totals[direction];

			if (total_has(&total_families[i], direction))
				prom_count(family, *total_at(&totals, &total_families[i]),
					   "direction", direction_word(direction), NULL);
		}
	}
}

/* The queue pairs that are shown one by one. */
struct top {
	const struct qp_entry **list;
	size_t count;
	const struct metrics_facts *facts;
};

static const char *netdev_of(const struct metrics_facts *facts, const struct qp_entry *entry)
{
	for (unsigned int i = 0; i < facts->port_count; i++)
		if (facts->ports[i].info.index == entry->key.port)
			return facts->ports[i].info.name;
	return NULL;
}

/* Without its port a queue pair has no name that is its own: two could be one series. */
static void keep_named(struct top *top, size_t most)
{
	size_t kept = 0;

	for (size_t i = 0; i < top->count && kept < most; i++)
		if (netdev_of(top->facts, top->list[i]))
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
	names->netdev = netdev_of(top->facts, entry);
	names->direction = report_direction(&entry->key);
}

#define QP_LABELS(names)                                                                           \
	"netdev", (names).netdev, "qpn", (names).qpn, "src", (names).src, "dst", (names).dst,      \
		"direction", (names).direction

static void write_qp_infos(FILE *out, const struct top *top)
{
	struct prom_family *family =
		FAMILY("qp_info", GAUGE, "Facts about a queue pair, always 1.");

	for (size_t i = 0; i < top->count; i++) {
		struct qp_names names;
		struct metrics_owner owner;
		char sport[16];

		name_qp(top, top->list[i], &names);
		metrics_owner_of(top->facts, top->list[i], &owner);
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
	const char *name, *help;
	size_t offset; /* in struct esc_qp */
	unsigned int where;
} qp_families[] = {
	{"qp_packets_total", "Packets of a queue pair.", offsetof(struct esc_qp, packets), QP_ANY},
	{"qp_bytes_total", "Bytes of these packets, IP header to ICRC.",
	 offsetof(struct esc_qp, bytes), QP_ANY},
	{"qp_messages_total", "Messages that ended in order.", offsetof(struct esc_qp, messages),
	 QP_ANY},
	{"qp_ce_packets_total", "Packets with a congestion mark (ECN CE).",
	 offsetof(struct esc_qp, ce), QP_ANY},
	{"qp_cnp_packets_total", "Congestion notification packets.", offsetof(struct esc_qp, cnps),
	 QP_ANY},
	{"qp_retransmit_packets_total", "Packets that had been sent before.",
	 offsetof(struct esc_qp, retransmits), QP_TX},
	{"qp_psn_gap_total", "Times that a sequence number was skipped.",
	 offsetof(struct esc_qp, psn_gaps), QP_RX | QP_TX},
	{"qp_duplicate_packets_total", "Packets that had come before.",
	 offsetof(struct esc_qp, duplicates), QP_RX},
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
		struct prom_family *family =
			FAMILY(qp_families[f].name, COUNTER, qp_families[f].help);

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
	struct prom_family *family =
		FAMILY("qp_naks_total", COUNTER, "Negative acknowledgements by kind.");

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

static void write_top_qps(FILE *out, const struct metrics_facts *facts)
{
	const struct report_qp_filter all = {};
	struct top top = {.facts = facts};

	if (!facts->qps_read || !facts->top_qps)
		return;
	top.list = report_qp_choose(facts->qps, facts->qp_count, &all, REPORT_QP_RATE, NULL,
				    &top.count);
	if (!top.list)
		return;
	keep_named(&top, facts->top_qps);
	write_qp_infos(out, &top);
	write_qp_counts(out, &top);
	write_qp_naks(out, &top);
	free(top.list);
}

static void write_collectors(FILE *out, const struct metrics_facts *facts)
{
	struct prom_family *family =
		FAMILY("collector_up", GAUGE, "1 when this part of the facts could be read.");
	bool ports = true;

	for (unsigned int i = 0; i < facts->port_count; i++)
		ports = ports && facts->ports[i].counted;
	prom_count(family, ports, "collector", "ports", NULL);
	prom_count(family, facts->qps_read, "collector", "qps", NULL);
	prom_count(family, facts->reasons_read, "collector", "reasons", NULL);
}

static void write_verdicts(FILE *out, const struct metrics_facts *facts)
{
	struct prom_family *active =
		FAMILY("verdicts_active", GAUGE, "Verdicts that stand now, by kind of trouble.");
	struct prom_family *total = FAMILY("verdicts_total", COUNTER,
					   "Verdicts that began since the daemon started, those "
					   "left out of the events included.");

	if (!facts->verdicts.known)
		return;
	for (unsigned int i = 0; i < VERDICT_KINDS; i++)
		prom_count(active, facts->verdicts.active[i], "kind", verdict_kind_name(i), NULL);
	for (unsigned int i = 0; i < VERDICT_KINDS; i++)
		prom_count(total, facts->verdicts.total[i], "kind", verdict_kind_name(i), NULL);
}

void metrics_write(FILE *out, const struct metrics_facts *facts)
{
	write_collectors(out, facts);
	write_port_infos(out, facts);
	write_port_counts(out, facts);
	write_reasons(out, facts);
	metrics_write_mesh(out, &facts->mesh);
	metrics_write_steer(out, &facts->steer, &facts->paths);
	metrics_write_paths(out, &facts->paths);
	metrics_write_lanes(out, facts);
	write_verdicts(out, facts);
	write_table(out, facts);
	write_totals(out, facts);
	metrics_write_owners(out, facts);
	write_top_qps(out, facts);
	metrics_write_delays(out, facts);
}

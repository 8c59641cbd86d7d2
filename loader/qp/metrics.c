// SPDX-License-Identifier: BSD-2-Clause
/* Families of queue pairs: their table, sums, and those that are shown one by one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "internal.h"

/* --- the table, and sums --- */

static bool is_rx(const void *row)
{
	return ((const struct qp_totals *)row)->direction == ESC_DIRECTION_RX;
}

static bool is_tx(const void *row)
{
	return !is_rx(row);
}

#define TOTAL(member, id) FIELD(struct qp_totals, member, U64, NULL), .metric = &qp_metrics[id]
static const struct field total_fields[] = {
	{TOTAL(messages, ROCE_MESSAGES)},
	{TOTAL(psn_gaps, ROCE_PSN_GAP)},
	{TOTAL(duplicates, ROCE_DUPLICATE_PACKETS), .known = is_rx},
	{TOTAL(retransmits, ROCE_RETRANSMIT_PACKETS), .known = is_tx},
	{TOTAL(naks, ROCE_NAKS)},
	{TOTAL(rnr_naks, ROCE_RNR_NAKS)},
	{},
};

static const struct prom_label *total_labels(const void *row, void *context)
{
	struct prom_label *labels = context;

	labels[0] = (struct prom_label){"direction", is_rx(row) ? "rx" : "tx"};
	return labels;
}

static void write_totals(FILE *out, const struct qptable *table)
{
	struct prom_label labels[2] = {};
	struct qp_totals totals[2];

	qptable_totals(table, ESC_DIRECTION_TX, &totals[0]);
	qptable_totals(table, ESC_DIRECTION_RX, &totals[1]);
	fields_write(out, total_fields, totals, 2, sizeof(totals[0]), total_labels, labels);
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

/* --- the queue pairs that are shown one by one --- */

#define QP_LABELS 5 /* that name one: netdev, dest_qpn, src, dst, direction */

struct top_qp {
	struct qp_entry entry;
	const struct port_info *port;
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], qpn[16];
	struct prom_label labels[QP_LABELS + 1];
};

static const struct prom_label *qp_labels(const void *row, void *context)
{
	(void)context;
	return ((const struct top_qp *)row)->labels;
}

static void name_qp(struct top_qp *qp)
{
	const struct esc_qp_key *key = &qp->entry.key;

	snprintf(qp->qpn, sizeof(qp->qpn), "%u", key->dest_qpn);
	qp->labels[0] = (struct prom_label){"netdev", qp->port->name};
	qp->labels[1] = (struct prom_label){"dest_qpn", qp->qpn};
	qp->labels[2] = (struct prom_label){"src", address_format(&key->src, qp->src)};
	qp->labels[3] = (struct prom_label){"dst", address_format(&key->dst, qp->dst)};
	qp->labels[4] = (struct prom_label){"direction", report_direction(key)};
}

/* Prometheus refuses a whole file for one label that is no UTF-8. */
static const char *plain(const char *text)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			return NULL;
	return text;
}

static void write_info(struct prom_family *family, const struct top_qp *qp,
		       const struct owners *owners)
{
	const char *device = qp->port->rdma_device, *version = NULL;
	const struct owner *owner = ownertable_of_qp(owners_table(owners), &qp->entry.key, device);
	char sport[16], local_qpn[16] = "", sgid_index[16] = "", pid[16] = "";

	snprintf(sport, sizeof(sport), "%u", qp->entry.qp.sport);
	if (owner) {
		snprintf(local_qpn, sizeof(local_qpn), "%u", owner->key.qpn);
		if (owner->is.pid)
			snprintf(pid, sizeof(pid), "%u", owner->is.pid);
	}
	if (owner && owner->is.flags & ESC_OWNER_PATH) {
		snprintf(sgid_index, sizeof(sgid_index), "%u", owner->is.sgid_index);
		version = owner->is.gid_type == ESC_GID_ROCE_V1	  ? "1"
			  : owner->is.gid_type == ESC_GID_ROCE_V2 ? "2"
								  : NULL;
	}
	prom_count(family, 1, "netdev", qp->port->name, "dest_qpn", qp->qpn, "src", qp->src, "dst",
		   qp->dst, "direction", report_direction(&qp->entry.key), "sport", sport,
		   "transport", report_transport(&qp->entry.qp), "source", "packet", "device",
		   device, "local_qpn", local_qpn, "roce_version", version, "sgid_index",
		   sgid_index, "pid", pid, "comm", owner ? plain(owner->is.comm) : NULL, "job_id",
		   owner ? plain(owner->job.name) : NULL, NULL);
}

static void write_naks(struct prom_family *family, const struct top_qp *qp)
{
	struct prom_label labels[QP_LABELS + 2] = {};

	if (qp->entry.qp.transport == ESC_TRANSPORT_UD)
		return;
	memcpy(labels, qp->labels, sizeof(qp->labels));
	for (const struct field *kind = qp_nak_fields; kind->key; kind++) {
		labels[QP_LABELS] = (struct prom_label){"kind", kind->key};
		prom_sample_count(family,
				  *(const uint64_t *)((const char *)&qp->entry + kind->offset),
				  labels);
	}
	labels[QP_LABELS] = (struct prom_label){"kind", "rnr"};
	prom_sample_count(family, qp->entry.qp.rnr_naks, labels);
}

static void write_top_qps(FILE *out, const struct qptable *table)
{
	const struct report_qp_filter all = {};
	uint32_t most = table->core->config->textfile.top_qps;
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count = dataplane_read_ports(table->dataplane, ports);
	size_t chosen, count = 0;
	const struct qp_entry **list =
		report_qp_choose(table->entries, table->count, &all, REPORT_QP_RATE, NULL, &chosen);
	struct top_qp *top = calloc(most + 1, sizeof(*top));
	struct prom_family *info = FAMILY_OF(&qp_metrics[QP_INFO]);
	struct prom_family *naks = FAMILY_OF(&qp_metrics[QP_NAKS]);

	/* Without its port a queue pair has no name that is its own: two could be one series. */
	for (size_t i = 0; list && top && i < chosen && count < most; i++) {
		top[count].port = report_port(ports, port_count, list[i]->key.port);
		if (!top[count].port)
			continue;
		top[count].entry = *list[i];
		name_qp(&top[count++]);
	}
	for (size_t i = 0; i < count; i++)
		write_info(info, &top[i], table->owners);
	fields_write(out, qp_fields, top, count, sizeof(*top), qp_labels, NULL);
	for (size_t i = 0; i < count; i++)
		write_naks(naks, &top[i]);
	free(top);
	free(list);
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

// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/fields.h"
#include "base/json.h"
#include "internal.h"

bool report_qp_order(const char *name, enum report_qp_order *out)
{
	static const char *const names[] = {
		[REPORT_QP_BYTES] = "bytes", [REPORT_QP_PACKETS] = "packets",
		[REPORT_QP_RATE] = "rate",   [REPORT_QP_CE] = "ce",
		[REPORT_QP_GAPS] = "gaps",   [REPORT_QP_THROUGHPUT] = "throughput",
		[REPORT_QP_LOSS] = "loss",   [REPORT_QP_DELAY] = "delay",
	};

	*out = REPORT_QP_BYTES;
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name)) {
			*out = i;
			return true;
		}
	return false;
}

static bool parse_qpn(const char *text, uint32_t *qpn)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, strncasecmp(text, "0x", 2) ? 10 : 16);
	if (end == text || *end || errno || value > ESC_QPN_MASK || *text == '-' || *text == '+')
		return false;
	*qpn = value;
	return true;
}

bool report_qp_filter(const char *key, struct report_qp_filter *out)
{
	const char *arrow, *slash, *dst;

	*out = (struct report_qp_filter){};
	if (!key || !*key)
		return true;
	out->has_qpn = parse_qpn(key, &out->qpn);
	if (out->has_qpn)
		return true;
	slash = strrchr(key, '/');
	if (slash && slash[1]) {
		out->has_qpn = parse_qpn(slash + 1, &out->qpn);
		if (!out->has_qpn)
			return false;
	}
	if (!slash)
		slash = key + strlen(key);
	arrow = memchr(key, '>', slash - key);
	out->either = !arrow;
	dst = arrow ? arrow + 1 : slash;
	if (!arrow)
		arrow = slash;
	if ((size_t)(arrow - key) >= sizeof(out->src) || (size_t)(slash - dst) >= sizeof(out->dst))
		return false;
	memcpy(out->src, key, arrow - key);
	memcpy(out->dst, dst, slash - dst);
	return true;
}

bool report_qp_matches(const struct report_qp_filter *filter, const struct qp_entry *entry)
{
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];

	if (filter->has_qpn && entry->key.dest_qpn != filter->qpn)
		return false;
	address_format(&entry->key.src, src);
	address_format(&entry->key.dst, dst);
	if (filter->either)
		return strstr(src, filter->src) || strstr(dst, filter->src);
	return strstr(src, filter->src) && strstr(dst, filter->dst);
}

static double order_value(const struct qp_entry *entry, enum report_qp_order order,
			  report_qp_value_fn *delay)
{
	const struct esc_qp *qp = &entry->qp;

	switch (order) {
	case REPORT_QP_PACKETS:
		return qp->packets;
	case REPORT_QP_RATE:
	case REPORT_QP_THROUGHPUT:
		return entry->bytes_per_second;
	case REPORT_QP_CE:
		return qp->ce;
	case REPORT_QP_GAPS:
		return (double)qp->psn_missing + qp->retransmits + qp->duplicates;
	case REPORT_QP_LOSS:
		return entry->loss_per_second;
	case REPORT_QP_DELAY:
		return delay ? delay(entry) : 0;
	case REPORT_QP_BYTES:
		break;
	}
	return qp->bytes;
}

struct ranked {
	const struct qp_entry *entry;
	double value;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *one = a, *two = b;
	double x = one->value, y = two->value;

	if (x == y) { /* idle ones by rate: the larger first */
		x = one->entry->qp.bytes;
		y = two->entry->qp.bytes;
	}
	if (x != y)
		return x > y ? -1 : 1;
	/* Both stand in one array, in key order. */
	return one->entry < two->entry ? -1 : one->entry > two->entry;
}

const struct qp_entry **report_qp_choose(const struct qp_entry *entries, size_t count,
					 const struct report_qp_filter *filter,
					 enum report_qp_order order, report_qp_value_fn *delay,
					 size_t *chosen)
{
	const struct qp_entry **list = calloc(count + 1, sizeof(*list));
	struct ranked *ranked = calloc(count + 1, sizeof(*ranked));
	size_t found = 0;

	*chosen = 0;
	if (!list || !ranked) {
		free(list);
		list = NULL;
		goto out;
	}
	for (size_t i = 0; i < count; i++)
		if (report_qp_matches(filter, &entries[i]))
			ranked[found++] = (struct ranked){&entries[i],
							  order_value(&entries[i], order, delay)};
	qsort(ranked, found, sizeof(*ranked), compare_ranked);
	for (size_t i = 0; i < found; i++)
		list[i] = ranked[i].entry;
	*chosen = found;
out:
	free(ranked);
	return list;
}

const struct port_info *report_port(const struct port_facts *ports, unsigned int count,
				    unsigned int index)
{
	for (unsigned int i = 0; i < count; i++)
		if (ports[i].info.index == index)
			return &ports[i].info;
	return NULL;
}

const char *report_direction(const struct esc_qp_key *key)
{
	return key->direction == ESC_DIRECTION_TX ? "tx" : "rx";
}

const char *report_transport(const struct esc_qp *qp)
{
	if (qp->packets == qp->cnps)
		return NULL;
	switch (qp->transport) {
	case ESC_TRANSPORT_RC:
		return "RC";
	case ESC_TRANSPORT_UC:
		return "UC";
	case ESC_TRANSPORT_UD:
		return "UD";
	case ESC_TRANSPORT_XRC:
		return "XRC";
	}
	return NULL;
}

/* --- as JSON, and as metrics --- */

static bool has_pmtu(const void *row)
{
	return ((const struct qp_entry *)row)->qp.pmtu;
}

/* A datagram's PSN promises no order, and it gets no reply. */
static bool is_sequenced(const void *row)
{
	return ((const struct qp_entry *)row)->qp.transport != ESC_TRANSPORT_UD;
}

static bool is_sequenced_rx(const void *row)
{
	return is_sequenced(row) &&
	       ((const struct qp_entry *)row)->key.direction == ESC_DIRECTION_RX;
}

static bool is_sequenced_tx(const void *row)
{
	return is_sequenced(row) &&
	       ((const struct qp_entry *)row)->key.direction == ESC_DIRECTION_TX;
}

const struct metric qp_metrics[] = {QP_METRICS(METRIC){}};

#define QP(member, type, key) FIELD(struct qp_entry, member, type, key)
#define METRIC_OF(id) .metric = &qp_metrics[id]
const struct field qp_fields[] = {
	{QP(key.dest_qpn, U32, "dest_qpn")},
	{QP(qp.sport, U16, "sport")},
	{QP(qp.sport_changes, U32, "sport_changes")},
	{QP(qp.pmtu, U16, "pmtu"), .known = has_pmtu},
	{QP(qp.packets, U64, "packets"), METRIC_OF(QP_PACKETS_TOTAL)},
	{QP(qp.bytes, U64, "bytes"), METRIC_OF(QP_BYTES_TOTAL)},
	{QP(qp.payload_bytes, U64, "payload_bytes")},
	{QP(packets_per_second, REAL, "packets_per_second")},
	{QP(bytes_per_second, REAL, "bytes_per_second")},
	{QP(loss_per_second, REAL, "loss_per_second"), .known = is_sequenced},
	{QP(qp.messages, U64, "messages"), METRIC_OF(QP_MESSAGES_TOTAL)},
	{QP(qp.psn_gaps, U64, "psn_gaps"), METRIC_OF(QP_PSN_GAP_TOTAL), .known = is_sequenced},
	{QP(qp.psn_missing, U64, "psn_missing"), .known = is_sequenced},
	{QP(qp.psn_resyncs, U64, "psn_resyncs"), .known = is_sequenced},
	{QP(qp.out_of_sequence, U64, "out_of_sequence"), .known = is_sequenced},
	{QP(qp.duplicates, U64, "duplicates"), METRIC_OF(QP_DUPLICATE_PACKETS_TOTAL),
	 .known = is_sequenced_rx},
	{QP(qp.retransmits, U64, "retransmits"), METRIC_OF(QP_RETRANSMIT_PACKETS_TOTAL),
	 .known = is_sequenced_tx},
	{QP(qp.acks, U64, "acks"), .known = is_sequenced},
	{QP(qp.rnr_naks, U64, "rnr_naks"), .known = is_sequenced},
	{QP(qp.ect, U64, "ect")},
	{QP(qp.ce, U64, "ce"), METRIC_OF(QP_CE_PACKETS_TOTAL)},
	{QP(qp.cnps, U64, "cnps"), METRIC_OF(QP_CNP_PACKETS_TOTAL)},
	{QP(qp.first_local_ns, U64, "first_local_ns")},
	{QP(seen_local_ns, U64, "last_local_ns")},
	{},
};
const struct field qp_nak_fields[] = {
	{QP(qp.nak_sequence, U64, "sequence")},
	{QP(qp.nak_invalid_request, U64, "invalid_request")},
	{QP(qp.nak_remote_access, U64, "remote_access")},
	{QP(qp.nak_remote_operational, U64, "remote_operational")},
	{QP(qp.nak_other, U64, "other")},
	{},
};

json_t *report_qp(const struct qp_entry *entry, const char *interface)
{
	const struct esc_qp *qp = &entry->qp;
	json_t *object = json_object(), *naks, *sizes;
	char text[ADDRESS_QP_BYTES];
	uint64_t whole = 0;

	json_put_text(
		object, "key",
		address_format_qp(&entry->key.src, &entry->key.dst, entry->key.dest_qpn, text));
	json_put_text(object, "direction", report_direction(&entry->key));
	json_put_text(object, "src", address_format(&entry->key.src, text));
	json_put_text(object, "dst", address_format(&entry->key.dst, text));
	json_put_text(object, "interface", interface);
	json_put_text(object, "transport", report_transport(qp));
	fields_put(object, qp_fields, entry);
	json_put_count(object, "throughput_bps", (uint64_t)(entry->bytes_per_second * 8));
	if (is_sequenced(entry)) {
		naks = json_object();
		fields_put(naks, qp_nak_fields, entry);
		json_put_count(object, "naks", qp_naks(qp));
		json_put(object, "naks_by_kind", naks);
	}
	for (unsigned int i = 0; i < ESC_MESSAGE_BUCKETS; i++)
		whole += qp->message_sizes[i].count;
	if (whole) {
		sizes = json_object();
		json_put_count(sizes, "min", qp->message_min);
		json_put_count(sizes, "p50", qp_message_quantile(qp, 0.5));
		json_put_count(sizes, "max", qp->message_max);
		json_put(object, "message_bytes", sizes);
	}
	json_put_text(object, "source", "packet");
	return object;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"

bool report_qp_order(const char *name, enum report_qp_order *out)
{
	static const char *const names[] = {
		[REPORT_QP_BYTES] = "bytes", [REPORT_QP_PACKETS] = "packets",
		[REPORT_QP_RATE] = "rate",   [REPORT_QP_CE] = "ce",
		[REPORT_QP_GAPS] = "gaps",   [REPORT_QP_THROUGHPUT] = "throughput",
		[REPORT_QP_LOSS] = "loss",   [REPORT_QP_DELAY] = "delay",
	};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(names[i], name)) {
			*out = i;
			return true;
		}
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

static bool copy_part(char out[64], const char *from, size_t bytes)
{
	if (bytes >= 64)
		return false;
	memcpy(out, from, bytes);
	out[bytes] = '\0';
	return true;
}

bool report_qp_filter(const char *key, struct report_qp_filter *out)
{
	const char *arrow, *slash;

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
	if (!arrow)
		return copy_part(out->src, key, slash - key);
	return copy_part(out->src, key, arrow - key) &&
	       copy_part(out->dst, arrow + 1, slash - arrow - 1);
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

bool report_qp_matches_address(const struct report_qp_filter *filter, const struct esc_address *dst)
{
	char text[ADDRESS_TEXT_BYTES];

	return !filter->has_qpn &&
	       strstr(address_format(dst, text), filter->either ? filter->src : filter->dst);
}

/* Less than any delay, also than one that a clock's error made negative. */
#define NO_DELAY (-1e18)

static double order_value(const struct qp_entry *entry, enum report_qp_order order,
			  const struct qp_delay_order *delay)
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
		return delay ? delay->value(delay->context, entry) : 0;
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
					 enum report_qp_order order,
					 const struct qp_delay_order *delay, size_t *chosen)
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

static void put_messages(json_t *object, const struct esc_qp *qp)
{
	uint64_t whole = 0;
	json_t *sizes;

	json_put_count(object, "messages", qp->messages);
	for (unsigned int i = 0; i < ESC_MESSAGE_BUCKETS; i++)
		whole += qp->message_sizes[i].count;
	if (!whole)
		return;
	sizes = json_object();
	json_put_count(sizes, "min", qp->message_min);
	json_put_count(sizes, "p50", qp_message_quantile(qp, 0.5));
	json_put_count(sizes, "max", qp->message_max);
	json_object_set_new(object, "message_bytes", sizes);
}

/* A datagram's PSN promises no order, and nobody answers it. */
static void put_sequence(json_t *object, const struct qp_entry *entry)
{
	const struct esc_qp *qp = &entry->qp;

	json_put_count(object, "psn_gaps", qp->psn_gaps);
	json_put_count(object, "psn_missing", qp->psn_missing);
	json_put_count(object, "psn_resyncs", qp->psn_resyncs);
	json_put_count(object, "out_of_sequence", qp->out_of_sequence);
	if (entry->key.direction == ESC_DIRECTION_RX)
		json_put_count(object, "duplicates", qp->duplicates);
	else
		json_put_count(object, "retransmits", qp->retransmits);
}

static void put_answers(json_t *object, const struct esc_qp *qp)
{
	json_t *kinds = json_object();

	json_put_count(object, "acks", qp->acks);
	json_put_count(object, "naks", qp_naks(qp));
	json_put_count(kinds, "sequence", qp->nak_sequence);
	json_put_count(kinds, "invalid_request", qp->nak_invalid_request);
	json_put_count(kinds, "remote_access", qp->nak_remote_access);
	json_put_count(kinds, "remote_operational", qp->nak_remote_operational);
	json_put_count(kinds, "other", qp->nak_other);
	json_object_set_new(object, "naks_by_kind", kinds);
	json_put_count(object, "rnr_naks", qp->rnr_naks);
}

static void put_flow(json_t *object, const struct qp_entry *entry, const char *interface)
{
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(object, "direction", report_direction(&entry->key));
	json_put_text(object, "src", address_format(&entry->key.src, text));
	json_put_text(object, "dst", address_format(&entry->key.dst, text));
	json_put_count(object, "dest_qpn", entry->key.dest_qpn);
	json_put_count(object, "sport", entry->qp.sport);
	json_put_count(object, "sport_changes", entry->qp.sport_changes);
	json_put_text(object, "interface", interface);
	json_put_text(object, "transport", report_transport(&entry->qp));
	if (entry->qp.pmtu)
		json_put_count(object, "pmtu", entry->qp.pmtu);
}

json_t *report_qp(const struct qp_entry *entry, const char *interface)
{
	const struct esc_qp *qp = &entry->qp;
	json_t *object = json_object();

	put_flow(object, entry, interface);
	json_put_count(object, "packets", qp->packets);
	json_put_count(object, "bytes", qp->bytes);
	json_put_count(object, "payload_bytes", qp->payload_bytes);
	json_object_set_new(object, "packets_per_second", json_real(entry->packets_per_second));
	json_object_set_new(object, "bytes_per_second", json_real(entry->bytes_per_second));
	json_put_count(object, "throughput_bps", (uint64_t)(entry->bytes_per_second * 8));
	if (qp->transport != ESC_TRANSPORT_UD)
		json_object_set_new(object, "loss_per_second", json_real(entry->loss_per_second));
	put_messages(object, qp);
	if (qp->transport != ESC_TRANSPORT_UD) {
		put_sequence(object, entry);
		put_answers(object, qp);
	}
	json_put_count(object, "ect", qp->ect);
	json_put_count(object, "ce", qp->ce);
	json_put_count(object, "cnps", qp->cnps);
	json_put_count(object, "first_local_ns", qp->first_local_ns);
	json_put_count(object, "last_local_ns", entry->seen_local_ns);
	json_put_text(object, "source", "packet");
	return object;
}

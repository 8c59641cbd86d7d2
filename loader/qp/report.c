// SPDX-License-Identifier: BSD-2-Clause
/* The reply to `qp` and `top`: which queue pairs, in which order, each as JSON; and metrics. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/array.h"
#include "base/json.h"
#include "internal.h"

#define OTHERS_MOST 16384
#define QPS_MOST 65536 /* one reply; more would hold up the daemon's loop */

/* --- which, and in which order --- */

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

static double order_value(const struct qptable *table, const struct qp_entry *entry,
			  const char *order)
{
	const struct esc_qp *qp = &entry->qp;

	if (!strcmp(order, "packets"))
		return qp->packets;
	if (!strcmp(order, "rate") || !strcmp(order, "throughput"))
		return entry->bytes_per_second;
	if (!strcmp(order, "ce"))
		return qp->ce;
	if (!strcmp(order, "gaps"))
		return (double)qp->psn_missing + qp->retransmits + qp->duplicates;
	if (!strcmp(order, "loss"))
		return entry->loss_per_second;
	if (!strcmp(order, "delay"))
		return table->delay_order ? table->delay_order(entry) : 0;
	return qp->bytes;
}

static int compare_ranked(const void *a, const void *b)
{
	const struct qp_ranked *one = a, *two = b;
	double x = one->value, y = two->value;

	if (x == y) { /* idle ones by rate: the larger first */
		x = one->entry->qp.bytes;
		y = two->entry->qp.bytes;
	}
	if (x != y)
		return x > y ? -1 : 1;
	return memcmp(&one->entry->key, &two->entry->key, sizeof(one->entry->key));
}

static void choose(const struct qptable *table, const struct report_qp_filter *filter,
		   const char *order, const struct qp_entry *entries, size_t count,
		   struct qp_ranked *list, size_t *chosen)
{
	for (size_t i = 0; i < count; i++)
		if (report_qp_matches(filter, &entries[i]))
			list[(*chosen)++] = (struct qp_ranked){
				&entries[i], order_value(table, &entries[i], order)};
}

struct qp_ranked *report_qp_choose(const struct qptable *table,
				   const struct report_qp_filter *filter, const char *order,
				   size_t *chosen)
{
	struct qp_ranked *list = calloc(table->count + 1, sizeof(*list));

	*chosen = 0;
	if (!list)
		return NULL;
	choose(table, filter, order, table->entries, table->count, list, chosen);
	qsort(list, *chosen, sizeof(*list), compare_ranked);
	return list;
}

/* Those of which the kernel sees no packet: what orders them. */
static struct qp_entry *read_others(const struct qptable *table, size_t *count)
{
	struct qp_entry *list = NULL, *entry;
	size_t room = 0;

	*count = 0;
	while (table->next_other && *count < OTHERS_MOST) {
		entry = array_add(&list, count, &room, sizeof(*list));
		if (entry && table->next_other(table->others_context, *count - 1, entry))
			continue;
		*count -= entry != NULL;
		break;
	}
	return list;
}

/* The same as report_qp_choose(), of both. */
static struct qp_ranked *choose_all(const struct qptable *table, const struct qp_entry *others,
				    size_t other_count, const struct report_qp_filter *filter,
				    const char *order, size_t *chosen)
{
	struct qp_ranked *list = calloc(table->count + other_count + 1, sizeof(*list));

	*chosen = 0;
	if (!list)
		return NULL;
	choose(table, filter, order, table->entries, table->count, list, chosen);
	choose(table, filter, order, others, other_count, list, chosen);
	qsort(list, *chosen, sizeof(*list), compare_ranked);
	return list;
}

void qp_put_progress(json_t *qp, const struct qp_progress *progress)
{
	json_t *object;

	if (!progress->moved)
		return;
	object = json_object();
	json_put_count(object, "ago_ms", (time_local_ns() - progress->moved_local_ns) / 1000000);
	if (progress->timed) {
		json_put_integer(object, "after_fabric_ns", progress->after_fabric_ns);
		json_put_integer(object, "before_fabric_ns", progress->before_fabric_ns);
		json_put_integer(object, "bound_ns", progress->bound_ns);
	}
	json_put(qp, "progress", object);
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

/* NULL: only CNPs were seen. */
static const char *transport_name(const struct esc_qp *qp)
{
	static const char *const names[] = {
		[ESC_TRANSPORT_RC] = "RC",
		[ESC_TRANSPORT_UC] = "UC",
		[ESC_TRANSPORT_UD] = "UD",
		[ESC_TRANSPORT_XRC] = "XRC",
	};

	if (qp->packets == qp->cnps)
		return NULL;
	return qp->transport < sizeof(names) / sizeof(names[0]) ? names[qp->transport] : NULL;
}

/* --- as JSON, and as metrics --- */

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
const struct metric qp_metrics[] = {QP_METRICS(METRIC){}};

#define QP(member, type, key) FIELD(struct qp_entry, member, type, key)
#define METRIC_OF(id) .metric = &qp_metrics[id]
static const struct field qp_fields[] = {
	{QP(key.dest_qpn, U32, "dest_qpn")},
	{QP(qp.sport, U16, "sport")},
	{QP(qp.sport_changes, U32, "sport_changes")},
	{QP(qp.pmtu, U16, "pmtu"), .nonzero = true},
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
/* Kinds of `naks_by_kind`. */
static const struct field qp_nak_fields[] = {
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
	json_put_text(object, "transport", transport_name(qp));
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
	if (qp->unknown)
		json_put_bool(object,
			      entry->key.direction == ESC_DIRECTION_TX ? "foreign" : "unknown_host",
			      true);
	return object;
}

/* --- the reply --- */

/* Members that are known of a local queue pair; a process may use any bytes as its name. */
static void put_owner(json_t *qp, const struct owner *owner)
{
	static const char *const gid_types[] = {
		[ESC_GID_IB] = "IB",
		[ESC_GID_ROCE_V1] = "RoCE v1",
		[ESC_GID_ROCE_V2] = "RoCE v2",
	};

	if (!owner)
		return;
	json_put_text(qp, "rdma_device", owner->is.device);
	json_put_count(qp, "local_qpn", owner->key.qpn);
	if (owner->is.pid)
		json_put_count(qp, "pid", owner->is.pid);
	json_put_name(qp, "comm", owner->is.comm);
	json_put_name(qp, "job", owner->job.name);
	if (owner->job.kind != JOB_NONE)
		json_put_text(qp, "job_kind", job_kind_name(owner->job.kind));
	json_put_name(qp, "cgroup", owner->job.cgroup);
	if (owner->is.flags & ESC_OWNER_PATH && owner->is.gid_type <= ESC_GID_ROCE_V2)
		json_put_text(qp, "gid_type", gid_types[owner->is.gid_type]);
	if (owner->is.flags & ESC_OWNER_TIMER) {
		json_put_count(qp, "ack_timeout_us", (4096ull << owner->is.ack_timeout) / 1000);
		json_put_count(qp, "retry_count", owner->is.retry_count);
	}
}

json_t *qptable_describe(const struct qptable *table, const struct qp_entry *entry,
			 const struct port_info *port)
{
	json_t *qp = report_qp(entry, port ? port->name : NULL);

	put_owner(qp, qptable_owner(table, &entry->key, port ? port->rdma_device : ""));
	core_describe_qp(table->core, entry, qp);
	return qp;
}

/* Written entry by entry: a full table as one JSON tree would take a hundred megabytes. */
static int write_qps(const struct qptable *table, FILE *out, const struct qp_entry *others,
		     const struct qp_ranked *list, size_t count, size_t most)
{
	struct esc_reason_count full;
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count = dataplane_read_ports(table->dataplane, ports);
	json_t *host = json_string(table->core->config->host);

	fputs("{\"ok\":true,\"result\":{\"qps\":[", out);
	for (size_t i = 0; i < count && i < most; i++) {
		const struct qp_entry *entry = list[i].entry;
		const struct port_info *port = report_port(ports, port_count, entry->key.port);
		bool is_own = entry >= table->entries && entry < table->entries + table->count;
		json_t *qp = is_own ? qptable_describe(table, entry, port)
				    : table->describe_other(table->others_context, entry - others);
		int err;

		if (i)
			fputc(',', out);
		err = json_dumpf(qp, out, JSON_COMPACT);
		json_decref(qp);
		if (err)
			return -ENOMEM;
	}
	fputs("],\"host\":", out);
	json_dumpf(host, out, JSON_ENCODE_ANY);
	json_decref(host);
	fprintf(out, ",\"tracked\":%zu,\"max\":%u", table->count,
		dataplane_map_max(table->dataplane, "qps"));
	if (!dataplane_reason(table->dataplane, ESC_REASON_QP_TABLE_FULL, &full))
		fprintf(out, ",\"refused\":%llu", (unsigned long long)reason_sum(&full));
	if (count > most)
		fprintf(out, ",\"not_shown\":%zu", count - most);
	fputs("}}\n", out);
	return ferror(out) ? -ENOMEM : 0;
}

static json_t *reply_qp(void *self, struct request *request)
{
	uint64_t most = request_count(request, "top", QPS_MOST);
	const char *key = json_text(request->args, "key");
	size_t count, bytes, other_count;
	struct qptable *table = self;
	struct report_qp_filter filter;
	struct qp_entry *others;
	struct qp_ranked *list;
	char *text = NULL;
	FILE *out;
	int err;

	if (!report_qp_filter(key, &filter))
		return request_misuse(request,
				      "`%.64s` names no queue pair; give a QPN (17, 0x11), a part "
				      "of an address, or SRC>DST/QPN",
				      key);
	core_refresh(table->core);
	others = read_others(table, &other_count);
	list = choose_all(table, others, other_count, &filter, json_text(request->args, "sort"),
			  &count);
	out = open_memstream(&text, &bytes);
	err = list && out ? write_qps(table, out, others, list, count,
				      most < QPS_MOST ? most : QPS_MOST)
			  : -ENOMEM;
	if (out && fclose(out))
		err = -ENOMEM;
	free(list);
	free(others);
	if (!err)
		return request_raw(request, text, bytes);
	free(text);
	return request_fail(request, REQUEST_FAILED, NULL);
}

const struct verb_handler qp_verb_handlers[] = {{"qp", reply_qp}, {"top", reply_qp}, {}};

/* --- metrics: sums --- */

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

/* --- metrics: the queue pairs that are shown one by one --- */

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

/* Prometheus refuses a whole file for one label that is no UTF-8. */
static const char *plain(const char *text)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			return NULL;
	return text;
}

static void write_info(struct prom_family *family, const struct top_qp *qp,
		       const struct qptable *table)
{
	const char *device = qp->port->rdma_device, *version = NULL;
	const struct owner *owner = qptable_owner(table, &qp->entry.key, device);
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
		   "transport", transport_name(&qp->entry.qp), "source", "packet", "device", device,
		   "local_qpn", local_qpn, "roce_version", version, "sgid_index", sgid_index, "pid",
		   pid, "comm", owner ? plain(owner->is.comm) : NULL, "job_id",
		   owner ? plain(owner->job.name) : NULL, NULL);
}

/* Kinds that never occurred have no series. */
static void write_nak(struct prom_family *family, uint64_t count, const struct prom_label *labels)
{
	if (count)
		prom_sample_count(family, count, labels);
}

static void write_naks(struct prom_family *family, const struct top_qp *qp)
{
	struct prom_label labels[QP_LABELS + 2] = {};

	if (qp->entry.qp.transport == ESC_TRANSPORT_UD)
		return;
	memcpy(labels, qp->labels, sizeof(qp->labels));
	for (const struct field *kind = qp_nak_fields; kind->key; kind++) {
		labels[QP_LABELS] = (struct prom_label){"kind", kind->key};
		write_nak(family, *(const uint64_t *)((const char *)&qp->entry + kind->offset),
			  labels);
	}
	labels[QP_LABELS] = (struct prom_label){"kind", "rnr"};
	write_nak(family, qp->entry.qp.rnr_naks, labels);
}

static void write_top_qps(FILE *out, const struct qptable *table)
{
	const struct report_qp_filter all = {};
	uint32_t most = table->core->config->textfile.top_qps;
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count = dataplane_read_ports(table->dataplane, ports);
	size_t chosen, count = 0;
	struct qp_ranked *list = report_qp_choose(table, &all, "rate", &chosen);
	struct top_qp *top = calloc(most + 1, sizeof(*top));
	const struct esc_qp_key *key;
	struct top_qp *qp;
	struct prom_family *info = FAMILY_OF(&qp_metrics[QP_INFO]);
	struct prom_family *naks = FAMILY_OF(&qp_metrics[QP_NAKS]);

	/* Without its port a queue pair has no name that is its own: two could be one series. */
	for (size_t i = 0; list && top && i < chosen && count < most; i++) {
		top[count].port = report_port(ports, port_count, list[i].entry->key.port);
		if (!top[count].port)
			continue;
		key = &list[i].entry->key;
		qp = &top[count++];
		qp->entry = *list[i].entry;
		snprintf(qp->qpn, sizeof(qp->qpn), "%u", key->dest_qpn);
		qp->labels[0] = (struct prom_label){"netdev", qp->port->name};
		qp->labels[1] = (struct prom_label){"dest_qpn", qp->qpn};
		qp->labels[2] = (struct prom_label){"src", address_format(&key->src, qp->src)};
		qp->labels[3] = (struct prom_label){"dst", address_format(&key->dst, qp->dst)};
		qp->labels[4] = (struct prom_label){"direction", report_direction(key)};
	}
	for (size_t i = 0; i < count; i++)
		write_info(info, &top[i], table);
	fields_write(out, qp_fields, top, count, sizeof(*top), qp_labels, NULL);
	for (size_t i = 0; i < count; i++)
		write_naks(naks, &top[i]);
	free(top);
	free(list);
}

void qp_write_metrics(void *self, FILE *out)
{
	const struct qptable *table = self;
	struct esc_reason_count full;
	struct prom_label labels[2] = {};
	const struct owners *owners = table->owners;
	struct qp_totals totals[2];

	if (!dataplane_reason(table->dataplane, ESC_REASON_QP_TABLE_FULL, &full))
		prom_count(FAMILY_OF(&qp_metrics[QP_UNTRACKED]), reason_sum(&full), NULL);
	prom_count(FAMILY_OF(&qp_metrics[QP_MAP_MAX]), dataplane_map_max(table->dataplane, "qps"),
		   "map", "qps", NULL);
	if (!table->refresh_failed) {
		prom_count(FAMILY_OF(&qp_metrics[QP_TRACKED]), table->count, NULL);
		prom_count(FAMILY_OF(&qp_metrics[QP_MAP_ENTRIES]), table->count, "map", "qps",
			   NULL);
	}
	if (owners)
		prom_count(FAMILY_OF(&qp_metrics[QP_TRACING]), 1, "method", owners_how(owners),
			   NULL);
	if (owners && strcmp(owners_how(owners), "none")) {
		prom_count(FAMILY_OF(&qp_metrics[QP_OWNERS]), owners->count, NULL);
		prom_count(FAMILY_OF(&qp_metrics[QP_OWNERS_REFUSED]), owners_refused(owners), NULL);
	}
	if (table->refresh_failed)
		return;
	qptable_totals(table, ESC_DIRECTION_TX, &totals[0]);
	qptable_totals(table, ESC_DIRECTION_RX, &totals[1]);
	fields_write(out, total_fields, totals, 2, sizeof(totals[0]), total_labels, labels);
	write_top_qps(out, table);
}

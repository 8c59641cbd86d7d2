// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/fields.h"
#include "config/config.h"
#include "internal.h"

#define DELAY_METRICS(X)                                                                           \
	X(QP_OWD_MIN, "qp_owd_min_seconds", GAUGE,                                                 \
	  "Minimum one-way delay of a queue pair's packets since the last write, in fabric time.") \
	X(QP_OWD_P50, "qp_owd_p50_seconds", GAUGE, "Median of the same.")                          \
	X(QP_OWD_P99, "qp_owd_p99_seconds", GAUGE, "99th percentile of the same.")                 \
	X(QP_OWD_MAX, "qp_owd_max_seconds", GAUGE, "Maximum of the same.")                         \
	X(QP_OWD_ERROR_BOUND_SECONDS, "qp_owd_error_bound_seconds", GAUGE,                         \
	  "Error bound of the delays of this queue pair.")                                         \
	X(QP_OWD_OVER_THRESHOLD_TOTAL, "qp_owd_over_threshold_total", COUNTER,                     \
	  "Samples with a delay above receipts.threshold.")                                        \
	X(QP_OWD_THRESHOLD_CROSSINGS_TOTAL, "qp_owd_threshold_crossings_total", COUNTER,           \
	  "Times that the delay rose above receipts.threshold.")                                   \
	X(PEER_QP_OWD_MIN, "peer_qp_owd_min_seconds", GAUGE,                                       \
	  "Minimum one-way delay of all queue pairs to a peer since the last write, in fabric "    \
	  "time.")                                                                                 \
	X(PEER_QP_OWD_P50, "peer_qp_owd_p50_seconds", GAUGE, "Median of the same.")                \
	X(PEER_QP_OWD_P99, "peer_qp_owd_p99_seconds", GAUGE, "99th percentile of the same.")       \
	X(PEER_QP_OWD_MAX, "peer_qp_owd_max_seconds", GAUGE, "Maximum of the same.")               \
	X(PEER_QP_OWD_ERROR_BOUND_SECONDS, "peer_qp_owd_error_bound_seconds", GAUGE,               \
	  "Error bound of the delays of queue pairs to this peer.")                                \
	X(PEER_QP_OWD_OVER_THRESHOLD_TOTAL, "peer_qp_owd_over_threshold_total", COUNTER,           \
	  "Samples to a peer with a delay above receipts.threshold.")                              \
	X(PEER_QP_OWD_THRESHOLD_CROSSINGS_TOTAL, "peer_qp_owd_threshold_crossings_total", COUNTER, \
	  "Times that a queue pair's delay to a peer rose above receipts.threshold.")              \
	X(RECEIPTS_UNTIMED_TOTAL, "receipts_untimed_total", COUNTER,                               \
	  "Receipts without a delay, since one end had no fabric time.")                           \
	X(PORT_QP_OWD_SECONDS, "port_qp_owd_seconds", HISTOGRAM,                                   \
	  "One-way delays of all queue pairs since the daemon started.")                           \
	X(RECEIPTS_ENABLED, "receipts_enabled", GAUGE,                                             \
	  "1 while packets are sampled and receipts are sent.")                                    \
	X(QP_SAMPLED, "qp_sampled", GAUGE, "Queue pairs of which packets were sampled.")           \
	X(RECEIPT_SAMPLES_SENT_TOTAL, "receipt_samples_sent_total", COUNTER,                       \
	  "Sampled packets that were sent.")                                                       \
	X(RECEIPTS_MATCHED_TOTAL, "receipts_matched_total", COUNTER,                               \
	  "Receipts that were received for them.")                                                 \
	X(RECEIPT_SAMPLES_DISCARDED_TOTAL, "receipt_samples_discarded_total", COUNTER,             \
	  "Sampled packets that were retransmitted, so that no receipt counts.")                   \
	X(RECEIPT_SAMPLES_EXPIRED_TOTAL, "receipt_samples_expired_total", COUNTER,                 \
	  "Sampled packets without a receipt in time.")                                            \
	X(PORT_QP_OWD_OVER_THRESHOLD_TOTAL, "port_qp_owd_over_threshold_total", COUNTER,           \
	  "Samples of all queue pairs with a delay above receipts.threshold.")                     \
	X(PORT_QP_OWD_THRESHOLD_CROSSINGS_TOTAL, "port_qp_owd_threshold_crossings_total", COUNTER, \
	  "Times that the delay of any queue pair rose above receipts.threshold.")
enum { DELAY_METRICS(METRIC_ENUM) };
const struct metric delay_metrics[] = {DELAY_METRICS(METRIC){}};

/* Powers of two of ns, where buckets of the map begin: about 1 us to 1.1 s. */
#define BOUND_FIRST 10
#define BOUNDS 21

/* Peers with series of their own: those that most samples went to. */
#define PEERS_MOST 128

/* --- queue pairs, and peers --- */

struct row {
	struct delays_span span;
	uint64_t over, crossings; /* ever */
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], qpn[16];
	struct prom_label labels[6];
};

static bool is_sampled(const void *row)
{
	return ((const struct row *)row)->span.samples;
}

#define ROW(member, type, id) FIELD(struct row, member, type, NULL), .metric = &delay_metrics[id]
#define SPAN(member, type, id) ROW(span.member, type, id), .divisor = 1e9, .known = is_sampled
static const struct field qp_fields[] = {
	{SPAN(min_ns, I64, QP_OWD_MIN)},
	{SPAN(p50_ns, I64, QP_OWD_P50)},
	{SPAN(p99_ns, I64, QP_OWD_P99)},
	{SPAN(max_ns, I64, QP_OWD_MAX)},
	{SPAN(bound_ns, U32, QP_OWD_ERROR_BOUND_SECONDS)},
	{ROW(over, U64, QP_OWD_OVER_THRESHOLD_TOTAL)},
	{ROW(crossings, U64, QP_OWD_THRESHOLD_CROSSINGS_TOTAL)},
	{},
};
static const struct field peer_fields[] = {
	{SPAN(min_ns, I64, PEER_QP_OWD_MIN)},
	{SPAN(p50_ns, I64, PEER_QP_OWD_P50)},
	{SPAN(p99_ns, I64, PEER_QP_OWD_P99)},
	{SPAN(max_ns, I64, PEER_QP_OWD_MAX)},
	{SPAN(bound_ns, U32, PEER_QP_OWD_ERROR_BOUND_SECONDS)},
	{ROW(over, U64, PEER_QP_OWD_OVER_THRESHOLD_TOTAL)},
	{ROW(crossings, U64, PEER_QP_OWD_THRESHOLD_CROSSINGS_TOTAL)},
	{},
};

static const struct prom_label *row_labels(const void *row, void *context)
{
	(void)context;
	return ((const struct row *)row)->labels;
}

static int slowest_first(const void *a, const void *b)
{
	const struct qp_entry *one = *(const struct qp_entry *const *)a;
	const struct qp_entry *two = *(const struct qp_entry *const *)b;

	if (one->delays->scrape.p99_ns != two->delays->scrape.p99_ns)
		return one->delays->scrape.p99_ns > two->delays->scrape.p99_ns ? -1 : 1;
	return memcmp(&one->key, &two->key, sizeof(one->key));
}

/* Those with delays since the last write, and with a port: without it a name is not unique. */
static void write_qps(FILE *out, const struct delays *delays, const struct port_facts *ports,
		      unsigned int port_count)
{
	const struct members *members = fleet_members(delays->core->fleet);
	size_t all, count = 0, most = delays->core->config->textfile.top_qps;
	const struct qp_entry *qps = qptable_entries(delays->table, &all);
	const struct qp_entry **list = calloc(all + 1, sizeof(*list));
	struct row *rows = calloc(most + 1, sizeof(*rows));

	for (size_t i = 0; list && i < all; i++)
		if (qps[i].delays && qps[i].delays->scrape.samples &&
		    report_port(ports, port_count, qps[i].key.port))
			list[count++] = &qps[i];
	if (count)
		qsort(list, count, sizeof(*list), slowest_first);
	for (size_t i = 0; rows && i < count && i < most; i++) {
		const struct esc_qp_key *key = &list[i]->key;
		struct row *row = &rows[i];

		row->span = list[i]->delays->scrape;
		row->over = list[i]->delays->owd.over;
		row->crossings = list[i]->delays->owd.crossings;
		snprintf(row->qpn, sizeof(row->qpn), "%u", key->dest_qpn);
		row->labels[0] = (struct prom_label){
			"netdev", report_port(ports, port_count, key->port)->name};
		row->labels[1] = (struct prom_label){"dest_qpn", row->qpn};
		row->labels[2] = (struct prom_label){"src", address_format(&key->src, row->src)};
		row->labels[3] = (struct prom_label){"dst", address_format(&key->dst, row->dst)};
		row->labels[4] = (struct prom_label){"peer", members_host(members, &key->dst)};
	}
	if (rows)
		fields_write(out, qp_fields, rows, count < most ? count : most, sizeof(*rows),
			     row_labels, NULL);
	free(rows);
	free(list);
}

static int busiest_first(const void *a, const void *b)
{
	const struct delays_group *one = a, *two = b;

	if (one->counts.samples != two->counts.samples)
		return one->counts.samples > two->counts.samples ? -1 : 1;
	return memcmp(&one->dst, &two->dst, sizeof(one->dst));
}

static void write_peers(FILE *out, const struct delays *delays, const struct port_facts *ports,
			unsigned int port_count)
{
	struct row *rows = calloc(PEERS_MOST, sizeof(*rows));
	struct delays_group *groups = NULL;
	size_t count, rows_count = 0;

	if (!rows ||
	    delays_group(delays, fleet_members(delays->core->fleet), NULL, &groups, &count))
		goto out;
	if (count)
		qsort(groups, count, sizeof(*groups), busiest_first);
	for (size_t i = 0; i < count && rows_count < PEERS_MOST; i++) {
		const struct delays_group *group = &groups[i];
		const struct port_info *port = report_port(ports, port_count, group->port);

		/* One to which nothing was measured is no peer of these families. */
		if (!port || !group->host || (!group->counts.samples && !group->scrape.samples))
			continue;
		rows[rows_count++] = (struct row){
			.span = group->scrape,
			.over = group->counts.over,
			.crossings = group->counts.crossings,
			.labels = {{"netdev", port->name},
				   {"peer", group->host},
				   {"plane", config_plane_name(port->plane)}},
		};
	}
	fields_write(out, peer_fields, rows, rows_count, sizeof(*rows), row_labels, NULL);
out:
	free(groups);
	free(rows);
}

/* --- ports --- */

struct port_row {
	struct delays_counts counts;
	uint64_t untimed;
	struct prom_label labels[3];
};

#define PORT(member, id) FIELD(struct port_row, member, U64, NULL), .metric = &delay_metrics[id]
static const struct field port_fields[] = {
	{PORT(counts.samples_sent, RECEIPT_SAMPLES_SENT_TOTAL)},
	{PORT(counts.receipts, RECEIPTS_MATCHED_TOTAL)},
	{PORT(counts.samples_discarded, RECEIPT_SAMPLES_DISCARDED_TOTAL)},
	{PORT(counts.samples_expired, RECEIPT_SAMPLES_EXPIRED_TOTAL)},
	{PORT(counts.over, PORT_QP_OWD_OVER_THRESHOLD_TOTAL)},
	{PORT(counts.crossings, PORT_QP_OWD_THRESHOLD_CROSSINGS_TOTAL)},
	{PORT(untimed, RECEIPTS_UNTIMED_TOTAL)},
	{},
};

static const struct prom_label *port_labels(const void *row, void *context)
{
	(void)context;
	return ((const struct port_row *)row)->labels;
}

static void write_histogram(struct prom_family *family, const struct port_info *port,
			    const struct delays_port *delays)
{
	struct prom_histogram histogram = {.bound_count = BOUNDS, .sum = delays->sum_ns / 1e9};
	uint64_t below[BOUNDS];
	double bounds[BOUNDS];
	uint32_t bucket = 0;
	char number[16];

	for (unsigned int i = 0; i < BOUNDS; i++) {
		uint64_t ns = 1ull << (BOUND_FIRST + i);

		while (bucket + 1 < ESC_OWD_BUCKETS && esc_owd_bucket_floor(bucket + 1) <= ns)
			histogram.count += delays->histogram[bucket++];
		below[i] = histogram.count;
		bounds[i] = (double)ns / 1e9;
	}
	while (bucket < ESC_OWD_BUCKETS)
		histogram.count += delays->histogram[bucket++];
	histogram.bounds = bounds;
	histogram.below = below;
	snprintf(number, sizeof(number), "%u", port->rdma_port);
	prom_histogram(family, &histogram, "device", port->rdma_device, "port",
		       port->rdma_device[0] ? number : NULL, "netdev", port->name, "plane",
		       config_plane_name(port->plane), NULL);
}

static void write_ports(FILE *out, const struct delays *delays, const struct port_facts *ports,
			unsigned int port_count)
{
	struct prom_family *histogram = FAMILY_OF(&delay_metrics[PORT_QP_OWD_SECONDS]);
	struct port_row rows[ESC_PORTS_MAX];
	size_t count = 0;

	for (unsigned int i = 0; i < port_count; i++) {
		const struct port_info *port = &ports[i].info;
		const struct delays_port *sums = &delays->ports[port->index % ESC_PORTS_MAX];

		/* Nothing is measured there, and nothing was: a 0 would be more than is known. */
		if (!delays->core->config->receipts.on && !sums->counts.samples_sent)
			continue;
		write_histogram(histogram, port, sums);
		rows[count++] = (struct port_row){
			.counts = sums->counts,
			.untimed = sums->counts.receipts - sums->counts.samples,
			.labels = {{"netdev", port->name},
				   {"plane", config_plane_name(port->plane)}},
		};
	}
	fields_write(out, port_fields, rows, count, sizeof(rows[0]), port_labels, NULL);
}

void delay_write_metrics(void *self, FILE *out)
{
	const struct delays *delays = self;
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count;

	if (delays->poll_failed)
		return;
	port_count = dataplane_read_ports(delays->dataplane, ports);
	prom_count(FAMILY_OF(&delay_metrics[RECEIPTS_ENABLED]),
		   delays->core->config->receipts.on && !dataplane_is_off(delays->dataplane), NULL);
	prom_count(FAMILY_OF(&delay_metrics[QP_SAMPLED]), delays->tracked, NULL);
	write_qps(out, delays, ports, port_count);
	write_peers(out, delays, ports, port_count);
	write_ports(out, delays, ports, port_count);
}

// SPDX-License-Identifier: BSD-2-Clause
/* Delays of queue pairs in replies and metrics; why there are none. */
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/fields.h"
#include "base/json.h"
#include "internal.h"

#define SILENT_NS 1100000000ull /* longer than a span `recent` */
#define WHY_BYTES 256
/* Powers of two of ns, where buckets of the map begin: about 1 us to 17 ms. */
#define BOUND_FIRST 10
#define BOUNDS 15

/* Peers with series of their own: those that most samples went to. */
#define PEERS_MOST 128

static const struct delays_facts *facts_of(struct delays *delays)
{
	struct delays_facts *facts = &delays->facts;
	struct clock_facts clock;

	if (facts->known)
		return facts;
	*facts = (struct delays_facts){.known = true};
	clock_get(delays->clock, &clock);
	facts->clock = clock.state;
	facts->peers = mesh_get_peers(delays->mesh, &facts->peer_count);
	facts->port_count = dataplane_read_ports(delays->dataplane, facts->ports);
	return facts;
}

void delays_forget_facts(struct delays *delays)
{
	free(delays->facts.peers);
	delays->facts.peers = NULL;
	delays->facts.known = false;
}

/* It is a neighbour on some plane, and down on all. */
static bool is_down(const struct delays_facts *facts, const char *host)
{
	bool found = false;

	for (size_t i = 0; i < facts->peer_count; i++)
		if (!strcmp(facts->peers[i].host, host)) {
			if (facts->peers[i].state != PEER_DOWN)
				return false;
			found = true;
		}
	return found;
}

/* --- why a queue pair has no delays: one sentence without its full stop --- */

/* What is so here, whatever the other end is; NULL: nothing. */
static const char *why_here(struct delays *delays, const struct qp_entry *qp, char out[WHY_BYTES])
{
	const struct delays_facts *facts = facts_of(delays);
	const struct port_info *port = report_port(facts->ports, facts->port_count, qp->key.port);

	if (dataplane_is_off(delays->dataplane))
		return "the kill switch is on";
	if (qp->key.direction == ESC_DIRECTION_RX)
		return "the delay of what is received is measured by its sender, and shown there";
	if (qp->qp.transport == ESC_TRANSPORT_UD)
		return "datagrams (UD) are not sampled";
	if (qp->qp.packets && !qp->qp.payload_bytes && qp->qp.acks)
		return "it carries acknowledgements alone, which are not sampled";
	if (!delays->core->config->receipts.on)
		return "receipts are switched off here (`receipts.mode`)";
	if (!port)
		return "its interface is not configured any more";
	if (port->tc_via == ESC_TC_NONE) {
		snprintf(out, WHY_BYTES, "%s has no tc program of ours, which records what is sent",
			 port->name);
		return out;
	}
	if (!fleet_members(delays->core->fleet))
		return "there is no members file: receipts are of members alone; name one with "
		       "`members`";
	return NULL;
}

static const char *why(struct delays *delays, const struct qp_entry *qp, char out[WHY_BYTES])
{
	const struct delays_facts *facts = facts_of(delays);
	const struct delays_entry *entry = qp->delays;
	const char *here = why_here(delays, qp, out), *host;
	uint64_t now_ns = delays->read_local_ns, missing;
	char address[ADDRESS_TEXT_BYTES];

	if (here)
		return here;
	host = members_host(fleet_members(delays->core->fleet), &qp->key.dst);
	missing = entry ? entry->owd.samples_sent - entry->sent_at_receipt : 0;
	if (!host)
		snprintf(out, WHY_BYTES,
			 "no member has %s: if it is another address of one, name it in that "
			 "member's label `addresses`",
			 address_format(&qp->key.dst, address));
	else if (is_down(facts, host))
		snprintf(out, WHY_BYTES, "%.64s is down", host);
	else if (now_ns > qp->seen_local_ns + SILENT_NS)
		return "it sent nothing in the last second";
	else if (facts->clock == CLOCK_FREE_RUNNING)
		return "there is no fabric time here: `escapement clock` shows why";
	else if (entry && entry->owd.receipts && now_ns < entry->owd.last_ktime_ns + SILENT_NS)
		snprintf(out, WHY_BYTES, "%.64s has no fabric time: its receipts carry none", host);
	else if (missing)
		snprintf(out, WHY_BYTES,
			 "%.64s sent no receipt for the last %llu packets that were sampled: its "
			 "daemon is old or stopped, or receipts are lost",
			 host, (unsigned long long)missing);
	else if (qp->qp.sample_flags & ESC_SAMPLE_NO_FEEDBACK)
		snprintf(out, WHY_BYTES, "%.64s is not known to answer with receipts", host);
	else
		return "none of its packets was sampled in the last second";
	return out;
}

/* --- numbers --- */

#define SPAN(member, type, key) FIELD(struct delays_span, member, type, key)
static const struct field span_fields[] = {
	{SPAN(samples, U64, "samples")},
	{SPAN(min_ns, I64, "min")},
	{SPAN(max_ns, I64, "max")},
	{SPAN(bound_ns, U32, "bound")},
	{SPAN(over, U64, "above_threshold")},
	{SPAN(crossings, U64, "crossings")},
	{},
};

static json_t *span_json(const struct delays_span *span)
{
	json_t *object = json_object();

	fields_put(object, span_fields, span);
	json_put_integer(object, "p50", span->p50_ns);
	json_put_integer(object, "p99", span->p99_ns);
	json_put_integer(object, "mean", (int64_t)span->mean_ns);
	json_put_count(object, "ce", span->ce);
	return object;
}

static void put_ever(json_t *object, const struct delays_entry *entry)
{
	struct delays_span ever;
	json_t *json;

	delays_entry_ever(entry, &ever);
	if (!ever.samples)
		return;
	json = json_object();
	fields_put(json, span_fields, &ever);
	if (ever.p50_ns || ever.p99_ns) {
		json_put_integer(json, "p50", ever.p50_ns);
		json_put_integer(json, "p99", ever.p99_ns);
	}
	json_put(object, "owd_lifetime_ns", json);
}

static void put_recent(json_t *object, const struct delays_span *recent)
{
	double count = (double)recent->messages, bytes = (double)recent->message_bytes;
	double spread_ns = (double)recent->message_spread_sum_ns;
	json_t *json;

	if (!recent->samples)
		return;
	json_put(object, "owd_ns", span_json(recent));
	json_put(object, "stack_ns", json_pack("{s:I}", "max", (json_int_t)recent->stack_max_ns));
	if (recent->queue_samples)
		json_put(object, "host_queue_ns",
			 json_pack("{s:I, s:I}", "samples", (json_int_t)recent->queue_samples,
				   "max", (json_int_t)recent->queue_max_ns));
	if (!recent->messages)
		return;
	json = json_object();
	json_put_count(json, "count", recent->messages);
	json_put_integer(json, "bytes", (int64_t)(bytes / count));
	json_put_integer(json, "delay_ns", (int64_t)((double)recent->message_delay_sum_ns / count));
	json_put_count(json, "delay_max_ns", recent->message_delay_max_ns);
	json_put_integer(json, "spread_ns", (int64_t)(spread_ns / count));
	/* Bytes over the time in which they arrived, first packet to last, is what a message got.
	 */
	if (recent->message_spread_sum_ns)
		json_put_integer(json, "throughput_bps", (int64_t)(bytes * 8e9 / spread_ns));
	json_put(object, "messages_timed", json);
}

#define OWD(member, key) FIELD(struct esc_qp_owd, member, U64, key)
static const struct field count_fields[] = {
	{OWD(samples_sent, "samples_sent")},
	{OWD(receipts, "receipts")},
	{OWD(samples_discarded, "samples_discarded")},
	{OWD(samples_expired, "samples_expired")},
	{},
};

void delays_put_qp(void *self, const struct qp_entry *qp, json_t *object)
{
	bool tx = qp->key.direction == ESC_DIRECTION_TX;
	const struct delays_entry *entry = tx ? qp->delays : NULL;
	const struct esc_address *other = tx ? &qp->key.dst : &qp->key.src;
	struct delays *delays = self;
	char text[WHY_BYTES];
	int64_t floor_ns;

	json_put_text(object, "peer", members_host(fleet_members(delays->core->fleet), other));
	if (entry) {
		put_recent(object, &entry->recent);
		if (delays_entry_floor(entry, delays->read_local_ns, &floor_ns))
			json_put_integer(object, "owd_floor_ns", floor_ns);
		put_ever(object, entry);
		fields_put(object, count_fields, &entry->owd);
		json_put_count(object, "receipts_untimed",
			       entry->owd.receipts - entry->owd.samples);
		if (entry->owd.receipts)
			json_put_integer(object, "feedback_ns", (int64_t)entry->feedback_ns);
	}
	if (!entry || !entry->recent.samples)
		json_put_text(object, "owd_note", why(delays, qp, text));
}

/* Queue pairs of several interfaces of a plane are one peer's. */
void delays_put_peers(void *self, json_t *peers)
{
	struct delays *delays = self;
	const struct delays_facts *facts;
	uint8_t planes[ESC_PORTS_MAX];
	struct delays_group *groups;
	size_t count, i;
	json_t *peer;

	delays_forget_facts(delays);
	facts = facts_of(delays);
	for (unsigned int port = 0; port < ESC_PORTS_MAX; port++) {
		const struct port_info *info = report_port(facts->ports, facts->port_count, port);

		planes[port] = info ? info->plane : MESH_PLANES;
	}
	if (delays_group(delays, fleet_members(delays->core->fleet), planes, &groups, &count))
		return;
	json_array_foreach (peers, i, peer) {
		const char *host = json_text(peer, "peer"), *plane = json_text(peer, "plane");
		unsigned int p = !strcmp(plane, config_plane_name(FLEET_PLANE_FRONTEND));

		for (size_t g = 0; g < count; g++)
			if (groups[g].host && !strcmp(groups[g].host, host) &&
			    groups[g].port == p) {
				json_put_count(peer, "qps", groups[g].qps);
				if (groups[g].recent.samples)
					json_put(peer, "qp_owd_out_ns",
						 span_json(&groups[g].recent));
			}
	}
	free(groups);
}

void delays_put_receipts(void *self, json_t *status)
{
	const struct delays *delays = self;
	const struct config *config = delays->core->config;
	uint64_t interval_ns = delays_interval_ns(delays);
	json_t *object = json_object();

	json_put_text(object, "mode", config->receipts.on ? "on" : "off");
	json_put_count(object, "qps_sampled", delays->tracked);
	if (config->receipts.host_queue)
		json_put_bool(object, "host_queue", delays->host_queue);
	json_put_text(object, "host_queue_note", delays->host_queue_note);
	json_put_count(object, "poll_interval_ms", interval_ns / 1000000);
	if (interval_ns > DELAYS_FAST_NS)
		json_put(object, "poll_note",
			 json_sprintf("more than %d queue pairs are sampled: their delays are "
				      "polled once a second, not four times",
				      DELAYS_FAST_QPS));
	json_put(status, "receipts", object);
}

/* --- metrics --- */

#define DELAY_METRICS(X)                                                                           \
	X(QP_OWD_P50, "qp_owd_p50_seconds", GAUGE,                                                 \
	  "Median one-way delay of a queue pair's packets since the last write, in fabric time.")  \
	X(QP_OWD_P99, "qp_owd_p99_seconds", GAUGE, "99th percentile of the same.")                 \
	X(QP_OWD_MAX, "qp_owd_max_seconds", GAUGE, "Maximum of the same.")                         \
	X(QP_OWD_ERROR_BOUND_SECONDS, "qp_owd_error_bound_seconds", GAUGE,                         \
	  "Error bound of the delays of this queue pair.")                                         \
	X(QP_OWD_OVER_THRESHOLD_TOTAL, "qp_owd_over_threshold_total", COUNTER,                     \
	  "Samples with a delay above receipts.threshold.")                                        \
	X(PEER_QP_OWD_P99, "peer_qp_owd_p99_seconds", GAUGE,                                       \
	  "99th percentile of the one-way delays of all queue pairs to a peer since the last "     \
	  "write, in fabric time.")                                                                \
	X(PEER_QP_OWD_MAX, "peer_qp_owd_max_seconds", GAUGE, "Maximum of the same.")               \
	X(PEER_QP_OWD_ERROR_BOUND_SECONDS, "peer_qp_owd_error_bound_seconds", GAUGE,               \
	  "Error bound of the delays of queue pairs to this peer.")                                \
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

/* --- metrics: queue pairs, and peers --- */

struct row {
	struct prom_label labels[6]; /* first: labels_of() */
	struct delays_span span;
	uint64_t over; /* ever */
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], qpn[16];
};

static bool is_sampled(const void *row)
{
	return ((const struct row *)row)->span.samples;
}

#define ROW(member, type, id) FIELD(struct row, member, type, NULL), .metric = &delay_metrics[id]
#define ROW_SPAN(member, type, id) ROW(span.member, type, id), .divisor = 1e9, .known = is_sampled
#define ROW_FIELDS(family)                                                                         \
	{ROW_SPAN(p99_ns, I64, family##_OWD_P99)}, {ROW_SPAN(max_ns, I64, family##_OWD_MAX)},      \
	{                                                                                          \
		ROW_SPAN(bound_ns, U32, family##_OWD_ERROR_BOUND_SECONDS)                          \
	}
static const struct field qp_fields[] = {
	{ROW_SPAN(p50_ns, I64, QP_OWD_P50)},
	ROW_FIELDS(QP),
	{ROW(over, U64, QP_OWD_OVER_THRESHOLD_TOTAL)},
	{},
};
static const struct field peer_fields[] = {ROW_FIELDS(PEER_QP), {}};

static const struct prom_label *labels_of(const void *row, void *context)
{
	(void)context;
	return row;
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
			     labels_of, NULL);
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
			.labels = {{"netdev", port->name},
				   {"peer", group->host},
				   {"plane", config_plane_name(port->plane)}},
		};
	}
	fields_write(out, peer_fields, rows, rows_count, sizeof(*rows), labels_of, NULL);
out:
	free(groups);
	free(rows);
}

/* --- metrics: ports --- */

struct port_row {
	struct prom_label labels[3]; /* first: labels_of() */
	struct delays_counts counts;
	uint64_t untimed;
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
	fields_write(out, port_fields, rows, count, sizeof(rows[0]), labels_of, NULL);
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

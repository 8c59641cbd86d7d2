// SPDX-License-Identifier: BSD-2-Clause
/* TCP pacing in the reply to `pace`, and its metrics. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/json.h"
#include "internal.h"
#include "pace/pace.h"
#include "pacing/tcpwindow.h"

/* Connections in one reply; `not_shown` is how many more there are. */
#define REPLY_ROWS 1024

#define TCP_METRICS(X)                                                                             \
	X(TCP_CONNECTIONS, "tcp_connections_total", COUNTER,                                       \
	  "Connections of the cgroup, by what became of the option in their handshake.")           \
	X(TCP_OUTSIDE, "tcp_outside_total", COUNTER,                                               \
	  "Connections with addresses that are no member's: the option was not offered.")          \
	X(TCP_WITHHELD, "tcp_withheld_total", COUNTER,                                             \
	  "Connections to members without an offer, since the server had refused the option or a " \
	  "handshake with it had got no reply.")                                                   \
	X(TCP_SYN_TIMEOUTS, "tcp_syn_timeouts_total", COUNTER,                                     \
	  "Handshakes with the option that got no reply.")                                         \
	X(TCP_SAMPLES, "tcp_delay_samples_total", COUNTER, "Delays that the peers reported.")      \
	X(TCP_ABOVE, "tcp_delay_above_total", COUNTER, "Of these, above the threshold.")           \
	X(TCP_CLASS_SAMPLES, "tcp_class_delay_samples_total", COUNTER,                             \
	  "Delays that the peers reported, by class.")                                             \
	X(TCP_CLASS_ABOVE, "tcp_class_delay_above_total", COUNTER,                                 \
	  "Of these, above the class's threshold.")                                                \
	X(TCP_CLASS_THRESHOLD, "tcp_class_threshold_seconds", GAUGE,                               \
	  "One-way delay above which connections of a class are limited.")                         \
	X(TCP_UNLIMITED, "tcp_unlimited_total", COUNTER,                                           \
	  "Connections that are only measured: no wrapper for their congestion control.")          \
	X(TCP_REWRAPPED, "tcp_rewrapped_total", COUNTER,                                           \
	  "Congestion controls that applications set on a connection, and that were wrapped.")     \
	X(TCP_ESTIMATED, "tcp_delay_estimated_total", COUNTER,                                     \
	  "Acknowledgements without room for a delay, for which the round trip is used.")          \
	X(TCP_CUTS, "tcp_window_cuts_total", COUNTER, "Windows made smaller.")                     \
	X(TCP_LIFTED, "tcp_limits_lifted_total", COUNTER,                                          \
	  "Limits that ended since no delay was reported for 2 s.")                                \
	X(TCP_MALFORMED, "tcp_option_malformed_total", COUNTER,                                    \
	  "Segments whose option has a length or flag that is never sent.")                        \
	X(TCP_NO_TIME, "tcp_no_time_total", COUNTER, "Segments without fabric time at both ends.") \
	X(TCP_UNSURE, "tcp_unsure_total", COUNTER, "Delays whose bound was too wide for a limit.") \
	X(TCP_OWD, "tcp_owd_seconds", HISTOGRAM,                                                   \
	  "One-way delay of TCP data that came in; a segment is counted up to a bound if its "     \
	  "histogram bucket begins below it.")
enum { TCP_METRICS(METRIC_ENUM) };
const struct metric tcp_metrics[] = {TCP_METRICS(METRIC){}};

#define COUNT(member, key) FIELD(struct esc_tcp_counts, member, U64, key)
static const struct field count_fields[] = {
	{COUNT(offered, "offered")},
	{COUNT(agreed, "agreed")},
	{COUNT(plain, "plain")},
	{COUNT(outside, "outside"), .metric = &tcp_metrics[TCP_OUTSIDE]},
	{COUNT(withheld, "withheld"), .metric = &tcp_metrics[TCP_WITHHELD]},
	{COUNT(syn_timeouts, "syn_timeouts"), .metric = &tcp_metrics[TCP_SYN_TIMEOUTS]},
	{COUNT(out_samples, "samples"), .metric = &tcp_metrics[TCP_SAMPLES]},
	{COUNT(out_above, "above"), .metric = &tcp_metrics[TCP_ABOVE]},
	{COUNT(short_form, "short_form")},
	{COUNT(malformed, "malformed"), .metric = &tcp_metrics[TCP_MALFORMED]},
	{COUNT(no_time, "no_time"), .metric = &tcp_metrics[TCP_NO_TIME]},
	{COUNT(unsure, "unsure"), .metric = &tcp_metrics[TCP_UNSURE]},
	{},
};
/* Where connections can be limited. */
static const struct field limit_fields[] = {
	{COUNT(unwrapped, "unlimited"), .metric = &tcp_metrics[TCP_UNLIMITED]},
	{COUNT(rewrapped, "rewrapped"), .metric = &tcp_metrics[TCP_REWRAPPED]},
	{COUNT(estimated, "estimated"), .metric = &tcp_metrics[TCP_ESTIMATED]},
	{COUNT(cuts, "cuts"), .metric = &tcp_metrics[TCP_CUTS]},
	{COUNT(lifted, "lifted"), .metric = &tcp_metrics[TCP_LIFTED]},
	{},
};
struct tcp_class_facts {
	char name[16];
	uint64_t weight, threshold_ns, samples, above;
};
#define CLASS(member, type, key) FIELD(struct tcp_class_facts, member, type, key)
static const struct field class_fields[] = {
	{CLASS(name, TEXT, "name")},
	{CLASS(weight, U64, "weight")},
	{CLASS(threshold_ns, U64, "threshold_ns"), .metric = &tcp_metrics[TCP_CLASS_THRESHOLD],
	 .divisor = 1e9},
	{CLASS(samples, U64, "samples"), .metric = &tcp_metrics[TCP_CLASS_SAMPLES]},
	{CLASS(above, U64, "above"), .metric = &tcp_metrics[TCP_CLASS_ABOVE]},
	{},
};

/* False: a count could not be read. */
static bool read_classes(const struct tcp *tcp, struct tcp_class_facts out[ESC_TCP_CLASSES])
{
	struct esc_tcp_class_counts counts[ESC_TCP_CLASSES];

	if (tcpedge_sum(tcp->edge, "tcp_classes", ESC_TCP_CLASSES, counts, sizeof(counts[0])))
		return false;
	for (unsigned int i = 0; i < tcp->ctl.class_count; i++) {
		out[i] = (struct tcp_class_facts){
			.weight = tcp->ctl.classes[i].weight,
			.threshold_ns = tcp->ctl.classes[i].threshold_ns,
			.samples = counts[i].samples,
			.above = counts[i].above,
		};
		snprintf(out[i].name, sizeof(out[i].name), "%s", tcp_class_name(tcp->pace, i));
	}
	return true;
}

json_t *tcp_wrapped(const struct tcp *tcp)
{
	json_t *names = json_array();

	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		if (tcpwrap_name(tcp->wrap, i)[0])
			json_array_append_new(names, json_string(esc_tcp_inner_names[i]));
	return names;
}

/* --- the reply --- */

static void put_address(json_t *row, const char *key, uint16_t family, const uint32_t *address)
{
	char text[INET6_ADDRSTRLEN];
	bool four =
		family == AF_INET || (!address[0] && !address[1] && address[2] == htonl(0xffff));

	if (inet_ntop(four ? AF_INET : AF_INET6, four ? &address[3] : address, text, sizeof(text)))
		json_object_set_new(row, key, json_string(text));
}

static void put_delay(json_t *row, const char *key, uint64_t samples, int64_t last_ns,
		      uint32_t bound_ns, int64_t max_ns)
{
	json_t *delay;

	if (!samples)
		return;
	delay = json_pack("{s:I, s:I, s:I}", "samples", (json_int_t)samples, "last",
			  (json_int_t)last_ns, "bound", (json_int_t)bound_ns);
	if (max_ns)
		json_object_set_new(delay, "max", json_integer(max_ns));
	json_object_set_new(row, key, delay);
}

static json_t *show_row(const struct tcp *tcp, const struct esc_tcp_row *from)
{
	const struct esc_tcp_flow *flow = &from->flow;
	bool limited = flow->limited && flow->until_ktime_ns > time_local_ns();
	json_t *row = json_object();

	put_address(row, "src", from->family, from->local);
	json_object_set_new(row, "sport", json_integer(from->local_port));
	put_address(row, "dst", from->family, from->remote);
	json_object_set_new(row, "dport", json_integer(from->remote_port));
	if (flow->inner)
		json_put_text(
			row, "congestion",
			esc_tcp_inner_names[flow->inner < ESC_TCP_INNER_MAX ? flow->inner : 0]);
	if (flow->unlimited)
		json_put_bool(row, "unlimited", true);
	put_delay(row, "delay_out_ns", flow->out_samples, flow->out_last_ns, flow->out_bound_ns,
		  flow->out_max_ns);
	put_delay(row, "delay_in_ns", flow->in_samples, flow->in_last_ns, flow->in_bound_ns, 0);
	json_put_count(row, "above", flow->out_above);
	if (flow->out_estimated)
		json_put_count(row, "estimated", flow->out_estimated);
	if (tcp->ctl.class_count > 1)
		json_put_text(row, "class", tcp_class_name(tcp->pace, flow->class));
	if (tcp->wrap)
		json_object_set_new(row, "limited", json_boolean(limited));
	if (!limited)
		return row;
	json_object_set_new(row, "window", json_real(flow->law.window / (double)TCP_WINDOW_ONE));
	json_put_count(row, "inner_window", flow->inner_cwnd);
	json_put_count(row, "rtt_ns", flow->rtt_us * 1000ull);
	if (flow->rate_Bps != ESC_TCP_NO_RATE)
		json_put_count(row, "rate_bps", flow->rate_Bps * 8ull);
	return row;
}

json_t *tcp_show(void *self)
{
	const struct tcp *tcp = self;
	struct tcp_class_facts classes[ESC_TCP_CLASSES];
	json_t *object = json_object(), *list, *all;
	struct esc_tcp_counts counts;
	struct esc_tcp_row *rows;
	int64_t bound_ns;
	long count;

	json_put_text(object, "mode", tcp_modes[tcp->edge ? tcp->ctl.mode : ESC_TCP_OFF]);
	json_put_text(object, "cgroup", tcp_keys(tcp->core->config)->cgroup);
	json_put_text(object, "reason", tcp->why);
	if (!tcp->edge)
		return object;
	json_put_count(object, "threshold_ns", tcp->ctl.classes[0].threshold_ns);
	if (read_classes(tcp, classes)) {
		list = json_array();
		for (unsigned int i = 0; i < tcp->ctl.class_count; i++) {
			json_t *class = json_object();

			fields_put(class, class_fields, &classes[i]);
			json_array_append_new(list, class);
		}
		json_put(object, "classes", list);
	}
	if (tcp->wrap) {
		json_put(object, "limits", tcp_wrapped(tcp));
		json_put_bool(object, "clock_usable", tcp_clock_is_good(tcp, &bound_ns));
	}
	if (!tcpedge_sum(tcp->edge, "tcp_counts", 1, &counts, sizeof(counts))) {
		all = json_object();
		fields_put(all, count_fields, &counts);
		if (tcp->wrap)
			fields_put(all, limit_fields, &counts);
		json_put(object, "counts", all);
	}
	rows = tcp->list ? calloc(REPLY_ROWS, sizeof(*rows)) : NULL;
	count = rows ? tcplist_read(tcp->list, rows, REPLY_ROWS) : -1;
	list = count < 0 ? NULL : json_array();
	for (long i = 0; i < count && i < REPLY_ROWS; i++)
		json_array_append_new(list, show_row(tcp, &rows[i]));
	json_put(object, "connections", list);
	json_put_text(object, "unlisted", tcp->unlisted);
	if (count > REPLY_ROWS)
		json_put_count(object, "not_shown", (uint64_t)(count - REPLY_ROWS));
	free(rows);
	return object;
}

/* --- metrics --- */

/* Bounds of ten to a decade would be many: a power of four each, from 1 us to 1 s. */
static void write_delays(FILE *out, const uint64_t *buckets)
{
	static const double bounds[] = {1e-6,	 4e-6,	  16e-6,    64e-6,    256e-6,
					1024e-6, 4096e-6, 16384e-6, 65536e-6, 262144e-6};
	enum { BOUNDS = sizeof(bounds) / sizeof(bounds[0]) };
	uint64_t below[BOUNDS] = {}, count = 0;
	struct prom_histogram histogram = {.bounds = bounds, .below = below, .bound_count = BOUNDS};
	struct prom_family *family = FAMILY_OF(&tcp_metrics[TCP_OWD]);

	for (uint32_t i = 0; i < ESC_OWD_BUCKETS; i++) {
		double from = (double)esc_owd_bucket_floor(i) / 1e9;

		count += buckets[i];
		histogram.sum += from * (double)buckets[i];
		for (int at = 0; at < BOUNDS; at++)
			below[at] += from < bounds[at] ? buckets[i] : 0;
	}
	histogram.count = count;
	if (count)
		prom_histogram(family, &histogram, NULL);
}

void tcp_write_metrics(void *self, FILE *out)
{
	struct prom_family *connections = FAMILY_OF(&tcp_metrics[TCP_CONNECTIONS]);
	struct tcp_class_facts classes[ESC_TCP_CLASSES];
	struct prom_label labels[2] = {{.name = "class"}};
	uint64_t delays[ESC_OWD_BUCKETS];
	struct esc_tcp_counts counts;
	const struct tcp *tcp = self;

	if (!tcp->edge || !read_classes(tcp, classes) ||
	    tcpedge_sum(tcp->edge, "tcp_counts", 1, &counts, sizeof(counts)) ||
	    tcpedge_sum(tcp->edge, "tcp_delays", ESC_OWD_BUCKETS, delays, sizeof(delays[0])))
		return;
	prom_count(connections, counts.agreed, "option", "agreed", NULL);
	prom_count(connections, counts.plain, "option", "plain", NULL);
	fields_write(out, count_fields, &counts, 1, sizeof(counts), NULL, NULL);
	if (tcp->wrap)
		fields_write(out, limit_fields, &counts, 1, sizeof(counts), NULL, NULL);
	/* `default` alone is what the families without a class show. */
	if (tcp->ctl.class_count > 1)
		fields_write(out, class_fields, classes, tcp->ctl.class_count, sizeof(classes[0]),
			     fields_label_first, labels);
	write_delays(out, delays);
}

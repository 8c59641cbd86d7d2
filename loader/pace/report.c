// SPDX-License-Identifier: BSD-2-Clause
/* The reply to `pace`, its part of `qp`, and the metrics. */
#include <string.h>

#include "base/address.h"
#include "base/fields.h"
#include "base/json.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "internal.h"
#include "qp/qp.h"

#define PACE_METRICS(X)                                                                            \
	X(PACE_QPS, "paced_qps", GAUGE, "Queue pairs that are paced, by class.")                   \
	X(PACE_HELD_QPS, "pace_held_qps", GAUGE,                                                   \
	  "Queue pairs with a packet delayed within the last second.")                             \
	X(PACE_THRESHOLD, "pace_threshold_seconds", GAUGE,                                         \
	  "One-way delay above which packets of a class are delayed.")                             \
	X(PACE_HELD_SECONDS, "pace_held_seconds_total", COUNTER,                                   \
	  "Time in which a packet was delayed, summed over queue pairs.")                          \
	X(PACE_PACKETS, "pace_packets_total", COUNTER,                                             \
	  "Packets of paced queue pairs, delayed or not.")                                         \
	X(PACE_HELD_PACKETS, "pace_held_packets_total", COUNTER, "Packets that were delayed.")     \
	X(PACE_HOLD_LIMITED, "pace_hold_limited_total", COUNTER,                                   \
	  "Packets that left when hold_max was over, before the control law allowed it.")          \
	X(PACE_SAMPLES, "pace_samples_total", COUNTER, "Delays that the control law used.")        \
	X(PACE_UNSURE, "pace_unsure_total", COUNTER,                                               \
	  "Delays that it did not use: no fabric time, or a bound that is too wide.")              \
	X(PACE_OVERHELD, "pace_overheld_total", COUNTER,                                           \
	  "Times that a queue pair was paused for more than half of the time for long.")
enum { PACE_METRICS(METRIC_ENUM) };
const struct metric pace_metrics[] = {PACE_METRICS(METRIC){}};

#define CLASS(member, type, key) FIELD(struct pace_class, member, type, key)
static const struct field class_fields[] = {
	{CLASS(name, TEXT, "name")},
	{CLASS(weight, U32, "weight")},
	{CLASS(threshold_ns, U64, "threshold_ns"), .metric = &pace_metrics[PACE_THRESHOLD],
	 .divisor = 1e9},
	{CLASS(flows, U64, "qps"), .metric = &pace_metrics[PACE_QPS]},
	{CLASS(flows_held, U64, NULL), .metric = &pace_metrics[PACE_HELD_QPS]},
	{CLASS(held_ns, U64, "held_ns"), .metric = &pace_metrics[PACE_HELD_SECONDS],
	 .divisor = 1e9},
	{CLASS(packets, U64, NULL), .metric = &pace_metrics[PACE_PACKETS]},
	{CLASS(held, U64, NULL), .metric = &pace_metrics[PACE_HELD_PACKETS]},
	{CLASS(bounded, U64, NULL), .metric = &pace_metrics[PACE_HOLD_LIMITED]},
	{},
};

/* With the totals of all flows, those that are gone included. */
static void read_classes(const struct pace *pace, struct pace_class out[ESC_PACE_CLASSES])
{
	memcpy(out, pace->classes, sizeof(pace->classes));
	for (size_t i = 0; i < pace->count; i++) {
		struct pace_class *class = &out[pace_class_of(pace, &pace->flows[i])];

		pace_add_totals(class, &pace->flows[i]);
		class->flows++;
		class->flows_held += pace->flows[i].held_share > 0;
	}
}

/* --- replies --- */

static bool share_is_known(const void *row)
{
	return ((const struct paced *)row)->held_share >= 0;
}

#define FLOW(member, type, key) FIELD(struct paced, member, type, key)
static const struct field flow_fields[] = {
	{FLOW(held_share, REAL, "held_share"), .known = share_is_known},
	{FLOW(paused_share, REAL, "paused_share"), .known = share_is_known},
	{FLOW(now.packets, U64, "packets")},
	{FLOW(now.held, U64, "held")},
	{FLOW(now.flow.held_ns, U64, "held_ns")},
	{FLOW(now.flow.paused_ns, U64, "paused_ns")},
	{FLOW(now.longest_ns, U64, "held_longest_ns")},
	{FLOW(now.bounded, U64, "hold_limited")},
	{FLOW(now.samples, U64, "samples")},
	{FLOW(now.unsure, U64, "unsure")},
	{FLOW(overheld, BOOL, "overheld")},
	{},
};

static json_t *show_flow(const struct pace *pace, const struct paced *flow)
{
	const struct pace_class *class = &pace->classes[pace_class_of(pace, flow)];
	const struct delays_entry *delay = delays_find(pace->delays, &flow->key);
	const struct esc_qp_pace *now = &flow->now;
	char text[ADDRESS_TEXT_BYTES];
	json_t *object = json_object();

	json_put_text(object, "src", address_format(&flow->key.src, text));
	json_put_text(object, "dst", address_format(&flow->key.dst, text));
	json_put_count(object, "dest_qpn", flow->key.dest_qpn);
	json_put_text(object, "interface", dataplane_port_name(pace->dataplane, flow->key.port));
	json_put_text(object, "class", class->name);
	json_put_count(object, "weight", class->weight);
	json_put_count(object, "threshold_ns", class->threshold_ns);
	if (delay && delay->recent.samples) {
		json_put(object, "delay_ns",
			 json_pack("{s:I, s:I, s:I, s:I}", "samples",
				   (json_int_t)delay->recent.samples, "p50",
				   (json_int_t)delay->recent.p50_ns, "p99",
				   (json_int_t)delay->recent.p99_ns, "bound",
				   (json_int_t)delay->recent.bound_ns));
		json_put_count(object, "sent_bps",
			       qptable_find(pace->qps, &flow->key)->bytes_per_second * 8);
	}
	if (now->flow.rate_Bps)
		json_put_count(object, "rate_bps", now->flow.rate_Bps * 8);
	if (now->flow.floor_ns)
		json_put_count(object, "floor_ns", now->flow.floor_ns - 1);
	fields_put(object, flow_fields, flow);
	return object;
}

json_t *pace_show(struct pace *pace)
{
	json_t *flows = json_array(), *classes = json_array(), *ports = json_array();
	json_t *clock = json_object(), *object;
	uint64_t now_ns = time_local_ns();
	struct pace_class all[ESC_PACE_CLASSES];
	int64_t bound_ns;

	pace_poll_ports(pace, now_ns);
	pace_read_flows(pace, now_ns);
	for (size_t i = 0; i < pace->count; i++)
		json_array_append_new(flows, show_flow(pace, &pace->flows[i]));
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		const struct pace_port *port = &pace->ports[slot];
		const char *name = dataplane_port_name(pace->dataplane, slot);
		bool wanted = pace->wanted >> slot & 1;

		if (!name)
			continue;
		object = json_object();
		json_put_text(object, "interface", name);
		json_put_bool(object, "enabled", wanted);
		json_put_bool(object, "paced", wanted && port->able);
		json_put_text(object, "qdisc", port->qdisc);
		if (port->fq.packets) {
			json_put_count(object, "fq_limit", port->fq.packets);
			json_put_count(object, "fq_flow_limit", port->fq.flow_packets);
		}
		if (port->fq.horizon_ns)
			json_put_count(object, "fq_horizon_ns", port->fq.horizon_ns);
		json_put_count(object, "line_bps", port->line_Bps * 8);
		json_put_text(object, "reason", port->why);
		json_array_append_new(ports, object);
	}
	read_classes(pace, all);
	for (unsigned int i = 0; i < pace->class_count; i++) {
		object = json_object();
		fields_put(object, class_fields, &all[i]);
		json_array_append_new(classes, object);
	}
	json_put_bool(clock, "usable", pace_clock_is_good(pace, &bound_ns));
	if (bound_ns >= 0)
		json_put_count(clock, "bound_ns", (uint64_t)bound_ns);
	object = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "mode", core_mode(pace->core, -1),
			   "interfaces", ports, "clock", clock, "classes", classes, "qps", flows,
			   "hold_max_ns", (json_int_t)pace_keys(pace->core->config)->hold_max_ns);
	if (pace->follower)
		json_put(object, "tcp", pace->follower->show(pace->follower_context));
	return object;
}

void pace_put(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct pace *pace = self;
	const struct paced *flow = pace_find(pace, &entry->key);

	if (flow)
		json_object_set_new(qp, "pace", show_flow(pace, flow));
}

/* --- metrics --- */

void pace_write_metrics(void *self, FILE *out)
{
	struct pace_class classes[ESC_PACE_CLASSES];
	struct prom_label labels[2] = {{.name = "class"}};
	uint64_t samples = 0, unsure = 0;
	const struct pace *pace = self;

	read_classes(pace, classes);
	for (unsigned int i = 0; i < pace->class_count; i++) {
		samples += classes[i].samples;
		unsure += classes[i].unsure;
	}
	if (!pace->control->pace_ports && !samples)
		return;
	fields_write(out, class_fields, classes, pace->class_count, sizeof(classes[0]),
		     fields_label_first, labels);
	prom_count(FAMILY_OF(&pace_metrics[PACE_SAMPLES]), samples, NULL);
	prom_count(FAMILY_OF(&pace_metrics[PACE_UNSURE]), unsure, NULL);
	prom_count(FAMILY_OF(&pace_metrics[PACE_OVERHELD]), pace->overheld, NULL);
}

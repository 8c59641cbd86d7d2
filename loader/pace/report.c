// SPDX-License-Identifier: BSD-2-Clause
/* Events of pacing, the reply to `pace`, its part of `qp`, facts for the metrics. */
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "base/log.h"
#include "internal.h"
#include "qp/qp.h"
#include "base/fields.h"
#include "base/json.h"

static const struct pace_class *class_of(const struct pace *pace, const struct paced *flow)
{
	return &pace->classes[flow->now.class < pace->class_count ? flow->now.class : 0];
}

static const char *subject_of(const struct esc_qp_key *key, char out[128])
{
	return address_format_qp(&key->src, &key->dst, key->dest_qpn, out);
}

const struct event_kind pace_events[] = {PACE_EVENTS(EVENT_KIND){}};

const char *pace_interface(const struct pace *pace, unsigned int slot)
{
	return dataplane_port_name(pace->dataplane, slot);
}

static json_t *names_of(const struct pace *pace, uint16_t ports)
{
	json_t *names = json_array();

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++)
		if (ports >> slot & 1 && pace_interface(pace, slot))
			json_array_append_new(names, json_string(pace_interface(pace, slot)));
	return names;
}

void pace_report_mode(struct pace *pace, const char *by)
{
	json_t *mode = core_mode(pace->core, -1);

	log_info("mode %s (by %s)", json_string_value(mode), by);
	events_add(pace->core->events,
		   &(struct event){
			   .kind = &pace_events[PACE_MODE_CHANGED],
			   .subject = "daemon",
			   .done = json_pack("{s:o, s:s, s:o}", "mode", mode, "by", by, "paced",
					     names_of(pace, pace->wanted)),
		   });
}

void pace_report_port(struct pace *pace, unsigned int slot)
{
	const struct pace_port *port = &pace->ports[slot];
	const char *name = pace_interface(pace, slot);

	if (port->able)
		log_info("%s is paced (%s)", name, port->qdisc);
	else
		log_warning("cannot pace: %s", port->why);
	events_add(pace->core->events,
		   &(struct event){
			   .kind = &pace_events[port->able ? PACE_AVAILABLE : PACE_UNAVAILABLE],
			   .subject = name,
			   .seen = port->able
					   ? json_pack("{s:s, s:I}", "qdisc", port->qdisc,
						       "line_bps", (json_int_t)port->line_Bps * 8)
					   : json_pack("{s:s}", "reason", port->why),
		   });
}

void pace_report_clock(struct pace *pace, bool blind, int64_t bound_ns)
{
	json_t *seen = json_object();

	if (bound_ns >= 0)
		json_put_count(seen, "bound_ns", (uint64_t)bound_ns);
	if (blind)
		log_warning("fabric time is %s: what is held back is let go, nothing new is held",
			    bound_ns < 0 ? "not known" : "too uncertain for pacing");
	else
		log_info("fabric time is good enough for pacing again");
	events_add(pace->core->events,
		   &(struct event){
			   .kind = &pace_events[blind ? PACE_CLOCK_LOST : PACE_CLOCK_RESTORED],
			   .subject = "daemon",
			   .seen = seen,
		   });
}

void pace_report_overheld(struct pace *pace, const struct paced *flow)
{
	const struct pause_flow *law = &flow->now.flow;
	char subject[128];

	subject_of(&flow->key, subject);
	log_warning(
		"%s: paused for more than half of the time for long; its sender does not slow down",
		subject);
	events_add(pace->core->events,
		   &(struct event){
			   .kind = &pace_events[PACE_OVERHELD_EVENT],
			   .subject = subject,
			   .seen = json_pack("{s:s, s:I, s:I, s:I}", "class",
					     class_of(pace, flow)->name, "delay_ns",
					     (json_int_t)law->delay_ns, "rate_bps",
					     (json_int_t)law->rate_Bps * 8, "paused_ns",
					     (json_int_t)law->paused_ns),
			   .expected = json_pack("{s:I}", "delay_max_ns",
						 (json_int_t)class_of(pace, flow)->threshold_ns),
		   });
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

static void put_delay(json_t *object, const struct pace *pace, const struct esc_qp_key *key)
{
	const struct delays_entry *entry = delays_find(pace->delays, key);

	if (!entry || !entry->recent.samples)
		return;
	json_object_set_new(object, "delay_ns",
			    json_pack("{s:I, s:I, s:I, s:I}", "samples",
				      (json_int_t)entry->recent.samples, "p50",
				      (json_int_t)entry->recent.p50_ns, "p99",
				      (json_int_t)entry->recent.p99_ns, "bound",
				      (json_int_t)entry->recent.bound_ns));
	json_put_count(object, "sent_bps",
		       (uint64_t)(qptable_find(pace->qps, key)->bytes_per_second * 8));
}

static json_t *show_flow(const struct pace *pace, const struct paced *flow)
{
	const struct pace_class *class = class_of(pace, flow);
	const struct esc_qp_pace *now = &flow->now;
	char text[ADDRESS_TEXT_BYTES];
	json_t *object = json_object();

	json_put_text(object, "src", address_format(&flow->key.src, text));
	json_put_text(object, "dst", address_format(&flow->key.dst, text));
	json_put_count(object, "dest_qpn", flow->key.dest_qpn);
	json_put_text(object, "interface", pace_interface(pace, flow->key.port));
	json_put_text(object, "class", class->name);
	json_put_count(object, "weight", class->weight);
	json_put_count(object, "threshold_ns", class->threshold_ns);
	put_delay(object, pace, &flow->key);
	if (now->flow.rate_Bps)
		json_put_count(object, "rate_bps", now->flow.rate_Bps * 8);
	if (now->flow.floor_ns)
		json_put_count(object, "floor_ns", now->flow.floor_ns - 1);
	fields_put(object, flow_fields, flow);
	return object;
}

static json_t *show_ports(const struct pace *pace)
{
	json_t *list = json_array();

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		const struct pace_port *port = &pace->ports[slot];
		const char *name = pace_interface(pace, slot);
		bool wanted = pace->wanted >> slot & 1;
		json_t *object;

		if (!name)
			continue;
		object = json_object();
		json_put_text(object, "interface", name);
		json_put_bool(object, "enabled", wanted);
		json_put_bool(object, "paced", wanted && port->able);
		json_put_text(object, "qdisc", port->qdisc);
		json_put_count(object, "line_bps", port->line_Bps * 8);
		json_put_text(object, "reason", port->why);
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *show_classes(const struct pace *pace)
{
	json_t *list = json_array();
	struct pace_facts facts;

	pace_get(pace, &facts);
	for (unsigned int i = 0; i < facts.class_count; i++) {
		json_t *class = json_object();

		fields_put(class, pace_class_fields, &facts.classes[i]);
		json_array_append_new(list, class);
	}
	return list;
}

static json_t *show_clock(const struct pace *pace)
{
	json_t *object = json_object();
	int64_t bound_ns;
	bool good = pace_clock_is_good(pace, &bound_ns);

	json_object_set_new(object, "usable", json_boolean(good));
	if (bound_ns >= 0)
		json_put_count(object, "bound_ns", (uint64_t)bound_ns);
	return object;
}

json_t *pace_show(struct pace *pace)
{
	uint64_t now_ns = time_local_ns();
	json_t *flows = json_array(), *shown;

	pace_look_ports(pace, now_ns);
	pace_read_flows(pace, now_ns);
	for (size_t i = 0; i < pace->count; i++)
		json_array_append_new(flows, show_flow(pace, &pace->flows[i]));
	shown = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "mode", core_mode(pace->core, -1),
			  "interfaces", show_ports(pace), "clock", show_clock(pace), "classes",
			  show_classes(pace), "qps", flows, "hold_max_ns",
			  (json_int_t)pace_keys(pace->core->config)->hold_max_ns);
	if (pace->follower)
		json_put(shown, "tcp", pace->follower->show(pace->follower_context));
	return shown;
}

void pace_put(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct pace *pace = self;
	const struct paced *flow = pace_find(pace, &entry->key);

	if (flow)
		json_object_set_new(qp, "pace", show_flow(pace, flow));
}

void pace_get(const struct pace *pace, struct pace_facts *out)
{
	*out = (struct pace_facts){};
	out->ports = pace->control->pace_ports;
	out->class_count = pace->class_count;
	out->samples = pace->gone_samples;
	out->unsure = pace->gone_unsure;
	out->overheld = pace->overheld;
	for (unsigned int i = 0; i < pace->class_count; i++) {
		const struct pace_class *class = &pace->classes[i];

		out->classes[i] = (struct pace_class_facts){
			.weight = class->weight,
			.threshold_ns = class->threshold_ns,
			.packets = class->packets,
			.held = class->held,
			.held_ns = class->held_ns,
			.bounded = class->bounded,
		};
		memcpy(out->classes[i].name, class->name, sizeof(class->name));
	}
	for (size_t i = 0; i < pace->count; i++) {
		const struct paced *flow = &pace->flows[i];
		struct pace_class_facts *class =
			&out->classes[flow->now.class < pace->class_count ? flow->now.class : 0];

		class->packets += flow->now.packets;
		class->held += flow->now.held;
		class->held_ns += flow->now.flow.held_ns;
		class->bounded += flow->now.bounded;
		class->flows++;
		class->flows_held += flow->held_share > 0;
		out->samples += flow->now.samples;
		out->unsure += flow->now.unsure;
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* TCP at the edge in words: events, the answer to `pace`, facts for the metrics. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "core/core.h"
#include "base/log.h"
#include "clock/clock.h"
#include "base/json.h"
#include "internal.h"
#include "pacing/tcpwindow.h"

/* Connections in one answer; `not_shown` is how many more there are. */
#define TELL_ROWS 1024

const struct event_kind tcp_events[] = {TCP_EVENTS(EVENT_KIND){}};

/* Of the class that bears most: with a bound that is too wide for it nobody is limited. */
static uint32_t widest_threshold(const struct tcp *tcp)
{
	uint32_t widest = 0;

	for (unsigned int i = 0; i < tcp->ctl.class_count; i++)
		if (tcp->ctl.classes[i].threshold_ns > widest)
			widest = tcp->ctl.classes[i].threshold_ns;
	return widest;
}

bool tcp_clock_is_good(const struct tcp *tcp, int64_t *bound_ns)
{
	struct clock_facts clock;

	clock_get(tcp->clock, &clock);
	*bound_ns = clock.known && clock.state != CLOCK_FREE_RUNNING ? clock.bound_ns : -1;
	/* A delay has the bounds of both ends; the other end's is taken to be as ours. */
	return *bound_ns >= 0 && *bound_ns <= ESC_TCP_BOUND_MAX_NS &&
	       2 * (uint64_t)*bound_ns <= widest_threshold(tcp) >> ESC_TCP_BOUND_SHIFT;
}

static json_t *wrapped_names(const struct tcp *tcp)
{
	json_t *names = json_array();

	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		if (tcpwrap_name(tcp->wrap, i)[0])
			json_array_append_new(names, json_string(esc_tcp_inner_names[i]));
	return names;
}

void tcp_report_mode(const struct tcp *tcp, const char *by)
{
	static const unsigned int kinds[] = {
		[ESC_TCP_OFF] = PACE_TCP_OFF,
		[ESC_TCP_OBSERVE] = PACE_TCP_MEASURE,
		[ESC_TCP_PACE] = PACE_TCP_ON,
	};
	const char *cgroup = tcp_keys(tcp->core->config)->cgroup;
	json_t *done = json_pack("{s:s}", "by", by);

	log_info("TCP at the edge is %s for %s (by %s)", tcp_mode_name(tcp->ctl.mode),
		 cgroup ? cgroup : "nobody", by);
	if (tcp->ctl.mode == ESC_TCP_PACE) {
		json_put_count(done, "delay_max_ns", tcp->ctl.classes[0].threshold_ns);
		json_object_set_new(done, "limited", wrapped_names(tcp));
	}
	events_add(tcp->core->events, &(struct event){
					      .kind = &tcp_events[kinds[tcp->ctl.mode]],
					      .subject = cgroup ? cgroup : "tcp",
					      .done = done,
				      });
}

void tcp_report_left_out(const struct tcp *tcp, long left_out)
{
	const char *cgroup = tcp_keys(tcp->core->config)->cgroup;

	if (left_out < 0) {
		log_warning("TCP: cgroups below %s cannot be read for classes: %s", cgroup,
			    strerror((int)-left_out));
		return;
	}
	log_warning(
		"TCP: classes name more than %d cgroups below %s: sockets of %ld of them are of "
		"no class by cgroup",
		ESC_TCP_CGROUPS, cgroup, left_out);
	events_add(tcp->core->events,
		   &(struct event){
			   .kind = &tcp_events[PACE_TCP_CGROUPS_FULL],
			   .subject = cgroup,
			   .seen = json_pack("{s:I}", "unattributed", (json_int_t)left_out),
		   });
}

void tcp_report_unable(const struct tcp *tcp)
{
	const char *cgroup = tcp_keys(tcp->core->config)->cgroup;

	log_warning("TCP at the edge %s: %s",
		    tcp->edge ? "measures delays and limits nothing" : "is off", tcp->why);
	events_add(tcp->core->events, &(struct event){
					      .kind = &tcp_events[PACE_TCP_UNAVAILABLE],
					      .subject = cgroup ? cgroup : "tcp",
					      .seen = json_pack("{s:s}", "reason", tcp->why),
				      });
}

void tcp_report_clock(const struct tcp *tcp, int64_t bound_ns)
{
	json_t *seen = json_object();

	if (bound_ns >= 0)
		json_put_count(seen, "bound_ns", (uint64_t)bound_ns);
	if (tcp->blind)
		log_warning("fabric time is %s: limits on TCP connections end, there are no new "
			    "ones",
			    bound_ns < 0 ? "not known" : "too uncertain for them");
	else
		log_info("fabric time is good enough again for limits on TCP connections");
	events_add(tcp->core->events,
		   &(struct event){
			   .kind = &tcp_events[tcp->blind ? PACE_TCP_CLOCK_LOST
							  : PACE_TCP_CLOCK_RESTORED],
			   .subject = tcp_keys(tcp->core->config)->cgroup,
			   .seen = seen,
		   });
}

/* --- asked --- */

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
	put_delay(row, "delay_out_ns", flow->out_samples, flow->out_last_ns, flow->out_bound_ns,
		  flow->out_max_ns);
	put_delay(row, "delay_in_ns", flow->in_samples, flow->in_last_ns, flow->in_bound_ns, 0);
	json_put_count(row, "above", flow->out_above);
	if (flow->out_estimated)
		json_put_count(row, "estimated", flow->out_estimated);
	if (tcp->ctl.class_count > 1)
		json_put_text(row, "class", tcpclass_name(tcp->classes, flow->class));
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

static void show_rows(const struct tcp *tcp, json_t *object)
{
	struct esc_tcp_row *rows = calloc(TELL_ROWS, sizeof(*rows));
	long count = rows && tcp->list ? tcplist_read(tcp->list, rows, TELL_ROWS) : -1;
	json_t *list = json_array();

	for (long i = 0; i < count && i < TELL_ROWS; i++)
		json_array_append_new(list, show_row(tcp, &rows[i]));
	if (count >= 0)
		json_object_set(object, "connections", list);
	if (count > TELL_ROWS)
		json_put_count(object, "not_shown", (uint64_t)(count - TELL_ROWS));
	json_decref(list);
	free(rows);
}

static void show_classes(const struct tcp *tcp, json_t *object)
{
	struct tcp_facts facts;
	json_t *list;

	tcp_get(tcp, &facts);
	if (!facts.there)
		return;
	list = json_array();
	for (unsigned int i = 0; i < facts.class_count; i++) {
		json_t *class = json_object();

		fields_put(class, tcp_class_fields, &facts.classes[i]);
		json_array_append_new(list, class);
	}
	json_object_set_new(object, "classes", list);
}

static void show_counts(const struct tcp *tcp, json_t *object)
{
	struct esc_tcp_counts counts;
	json_t *all;

	if (tcpedge_counts(tcp->edge, &counts))
		return;
	all = json_object();
	fields_put(all, tcp_count_fields, &counts);
	if (tcp->wrap)
		fields_put(all, tcp_limit_fields, &counts);
	json_object_set_new(object, "counts", all);
}

json_t *tcp_show(void *self)
{
	const struct tcp *tcp = self;
	json_t *object = json_object();
	int64_t bound_ns;

	json_put_text(object, "mode", tcp_mode_name(tcp->edge ? tcp->ctl.mode : ESC_TCP_OFF));
	json_put_text(object, "cgroup", tcp_keys(tcp->core->config)->cgroup ?: "");
	json_put_text(object, "reason", tcp->why);
	if (!tcp->edge)
		return object;
	json_put_count(object, "threshold_ns", tcp->ctl.classes[0].threshold_ns);
	show_classes(tcp, object);
	if (tcp->wrap) {
		json_object_set_new(object, "limits", wrapped_names(tcp));
		json_object_set_new(object, "clock_usable",
				    json_boolean(tcp_clock_is_good(tcp, &bound_ns)));
	}
	show_counts(tcp, object);
	show_rows(tcp, object);
	return object;
}

void tcp_get(const struct tcp *tcp, struct tcp_facts *out)
{
	struct esc_tcp_class_counts counts[ESC_TCP_CLASSES];

	memset(out, 0, sizeof(*out));
	if (!tcp->edge || tcpedge_class_counts(tcp->edge, counts))
		return;
	out->can_limit = tcp->wrap != NULL;
	out->class_count = tcp->ctl.class_count;
	for (unsigned int i = 0; i < out->class_count; i++) {
		struct tcp_class_facts *class = &out->classes[i];

		snprintf(class->name, sizeof(class->name), "%s", tcpclass_name(tcp->classes, i));
		class->weight = tcp->ctl.classes[i].weight;
		class->threshold_ns = tcp->ctl.classes[i].threshold_ns;
		class->samples = counts[i].samples;
		class->above = counts[i].above;
	}
	out->there =
		!tcpedge_counts(tcp->edge, &out->counts) && !tcpedge_delays(tcp->edge, out->delays);
}

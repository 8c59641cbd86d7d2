// SPDX-License-Identifier: BSD-2-Clause
/* TCP at the edge in words: events, the answer to `pace`, facts for the metrics. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "core/events.h"
#include "base/log.h"
#include "mesh/mesh.h"
#include "api/report.h"
#include "internal.h"

/* Connections in one answer; `left_out` says how many more there are. */
#define TELL_ROWS 1024

/* Of the class that bears most: with a bound that is too wide for it nobody is limited. */
static uint32_t widest_threshold(const struct tcppace *tcp)
{
	uint32_t widest = 0;

	for (unsigned int i = 0; i < tcp->word.class_count; i++)
		if (tcp->word.classes[i].threshold_ns > widest)
			widest = tcp->word.classes[i].threshold_ns;
	return widest;
}

bool tcppace_clock_is_good(const struct tcppace *tcp, int64_t *bound_ns)
{
	struct mesh_clock_facts clock;

	mesh_get_clock(tcp->daemon->mesh, &clock);
	*bound_ns = clock.known && clock.state != CLOCK_FREE_RUNNING ? clock.bound_ns : -1;
	/* A delay has the bounds of both ends; the other end's is taken to be as ours. */
	return *bound_ns >= 0 && *bound_ns <= ESC_TCP_BOUND_MAX_NS &&
	       2 * (uint64_t)*bound_ns <= widest_threshold(tcp) >> ESC_TCP_BOUND_SHIFT;
}

static json_t *wrapped_names(const struct tcppace *tcp)
{
	json_t *names = json_array();

	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		if (tcpwrap_name(tcp->wrap, i)[0])
			json_array_append_new(names, json_string(esc_tcp_inner_names[i]));
	return names;
}

void tcppace_tell_mode(const struct tcppace *tcp, const char *by)
{
	static const char *const kinds[] = {
		[ESC_TCP_OFF] = "pace_tcp_off",
		[ESC_TCP_OBSERVE] = "pace_tcp_measure",
		[ESC_TCP_PACE] = "pace_tcp_on",
	};
	const char *cgroup = tcp->daemon->config->pace.tcp.cgroup;
	json_t *done = json_pack("{s:s}", "by", by);

	log_info("TCP at the edge is %s for %s (by %s)", tcppace_mode_name(tcp->word.mode),
		 cgroup ? cgroup : "nobody", by);
	if (tcp->word.mode == ESC_TCP_PACE) {
		report_put_count(done, "delay_max_ns", tcp->word.classes[0].threshold_ns);
		json_object_set_new(done, "limited", wrapped_names(tcp));
	}
	events_record(tcp->daemon->ledger, kinds[tcp->word.mode], cgroup ? cgroup : "tcp", NULL, done,
		   NULL, NULL);
}

void tcppace_tell_left_out(const struct tcppace *tcp, long left_out)
{
	const char *cgroup = tcp->daemon->config->pace.tcp.cgroup;

	if (left_out < 0) {
		log_warning("TCP: cgroups below %s cannot be read for classes: %s", cgroup,
			    strerror((int)-left_out));
		return;
	}
	log_warning(
		"TCP: classes name more than %d cgroups below %s: sockets of %ld of them are of "
		"no class by cgroup",
		ESC_TCP_CGROUPS, cgroup, left_out);
	events_record(tcp->daemon->ledger, "pace_tcp_cgroups_full", cgroup,
		   json_pack("{s:I}", "left_out", (json_int_t)left_out), NULL, NULL, NULL);
}

void tcppace_tell_unable(const struct tcppace *tcp)
{
	const char *cgroup = tcp->daemon->config->pace.tcp.cgroup;

	log_warning("TCP at the edge %s: %s",
		    tcp->edge ? "measures delays and limits nothing" : "is off", tcp->why);
	events_record(tcp->daemon->ledger, "pace_tcp_unable", cgroup ? cgroup : "tcp",
		   json_pack("{s:s}", "why", tcp->why), NULL, NULL, NULL);
}

void tcppace_tell_clock(const struct tcppace *tcp, int64_t bound_ns)
{
	json_t *seen = json_object();

	if (bound_ns >= 0)
		report_put_count(seen, "bound_ns", (uint64_t)bound_ns);
	if (tcp->blind)
		log_warning("fabric time is %s: limits on TCP connections end, there are no new "
			    "ones",
			    bound_ns < 0 ? "not known" : "too uncertain for them");
	else
		log_info("fabric time is good enough again for limits on TCP connections");
	events_record(tcp->daemon->ledger, tcp->blind ? "pace_tcp_clock_lost" : "pace_tcp_clock_back",
		   tcp->daemon->config->pace.tcp.cgroup, seen, NULL, NULL, NULL);
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

static json_t *show_row(const struct tcppace *tcp, const struct esc_tcp_row *from)
{
	const struct esc_tcp_flow *flow = &from->flow;
	bool limited = flow->limited && flow->until_ktime_ns > time_local_ns();
	json_t *row = json_object();

	put_address(row, "src", from->family, from->local);
	json_object_set_new(row, "sport", json_integer(from->local_port));
	put_address(row, "dst", from->family, from->remote);
	json_object_set_new(row, "dport", json_integer(from->remote_port));
	if (flow->inner)
		report_put_text(
			row, "congestion",
			esc_tcp_inner_names[flow->inner < ESC_TCP_INNER_MAX ? flow->inner : 0]);
	put_delay(row, "delay_out_ns", flow->out_samples, flow->out_last_ns, flow->out_bound_ns,
		  flow->out_max_ns);
	put_delay(row, "delay_in_ns", flow->in_samples, flow->in_last_ns, flow->in_bound_ns, 0);
	report_put_count(row, "above", flow->out_above);
	if (flow->out_estimated)
		report_put_count(row, "estimated", flow->out_estimated);
	if (tcp->word.class_count > 1)
		report_put_text(row, "class", tcpclass_name(tcp->classes, flow->class));
	if (tcp->wrap)
		json_object_set_new(row, "limited", json_boolean(limited));
	if (!limited)
		return row;
	json_object_set_new(row, "window", json_real(flow->law.window / (double)TCP_WINDOW_ONE));
	report_put_count(row, "inner_window", flow->inner_cwnd);
	report_put_count(row, "rtt_ns", flow->rtt_us * 1000ull);
	if (flow->rate_Bps != ESC_TCP_NO_RATE)
		report_put_count(row, "rate_bps", flow->rate_Bps * 8ull);
	return row;
}

static void show_rows(const struct tcppace *tcp, json_t *object)
{
	struct esc_tcp_row *rows = calloc(TELL_ROWS, sizeof(*rows));
	long count = rows && tcp->list ? tcplist_read(tcp->list, rows, TELL_ROWS) : -1;
	json_t *list = json_array();

	for (long i = 0; i < count && i < TELL_ROWS; i++)
		json_array_append_new(list, show_row(tcp, &rows[i]));
	if (count >= 0)
		json_object_set(object, "connections", list);
	if (count > TELL_ROWS)
		report_put_count(object, "left_out", (uint64_t)(count - TELL_ROWS));
	json_decref(list);
	free(rows);
}

static void show_classes(const struct tcppace *tcp, json_t *object)
{
	struct esc_tcp_class_counts counts[ESC_TCP_CLASSES];
	json_t *list;

	if (tcpedge_class_counts(tcp->edge, counts))
		return;
	list = json_array();
	for (unsigned int i = 0; i < tcp->word.class_count; i++)
		json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:I}", "name",
						      tcpclass_name(tcp->classes, i), "weight",
						      (json_int_t)tcp->word.classes[i].weight,
						      "threshold_ns",
						      (json_int_t)tcp->word.classes[i].threshold_ns,
						      "samples", (json_int_t)counts[i].samples,
						      "above", (json_int_t)counts[i].above));
	json_object_set_new(object, "classes", list);
}

static void show_counts(const struct tcppace *tcp, json_t *object)
{
	struct esc_tcp_counts counts;
	json_t *all;

	if (tcpedge_counts(tcp->edge, &counts))
		return;
	all = json_object();
	report_put_count(all, "offered", counts.offered);
	report_put_count(all, "agreed", counts.agreed);
	report_put_count(all, "plain", counts.plain);
	report_put_count(all, "samples", counts.out_samples);
	report_put_count(all, "above", counts.out_above);
	if (tcp->wrap) {
		report_put_count(all, "unwrapped", counts.unwrapped);
		report_put_count(all, "estimated", counts.estimated);
		report_put_count(all, "cuts", counts.cuts);
		report_put_count(all, "lifted", counts.lifted);
	}
	report_put_count(all, "short_form", counts.short_form);
	report_put_count(all, "malformed", counts.malformed);
	report_put_count(all, "no_time", counts.no_time);
	report_put_count(all, "unsure", counts.unsure);
	json_object_set_new(object, "counts", all);
}

json_t *tcppace_show(const struct tcppace *tcp)
{
	json_t *object = json_object();
	int64_t bound_ns;

	if (!tcp)
		return object;
	report_put_text(object, "mode",
			tcppace_mode_name(tcp->edge ? tcp->word.mode : ESC_TCP_OFF));
	report_put_text(object, "cgroup", tcp->daemon->config->pace.tcp.cgroup ?: "");
	report_put_text(object, "why", tcp->why);
	if (!tcp->edge)
		return object;
	report_put_count(object, "threshold_ns", tcp->word.classes[0].threshold_ns);
	show_classes(tcp, object);
	if (tcp->wrap) {
		json_object_set_new(object, "limits", wrapped_names(tcp));
		json_object_set_new(object, "clock_good",
				    json_boolean(tcppace_clock_is_good(tcp, &bound_ns)));
	}
	show_counts(tcp, object);
	show_rows(tcp, object);
	return object;
}

void tcppace_get(const struct tcppace *tcp, struct tcppace_facts *out)
{
	memset(out, 0, sizeof(*out));
	if (!tcp || !tcp->edge)
		return;
	out->mode = tcp->word.mode;
	out->can_limit = tcp->wrap != NULL;
	out->class_count = tcp->word.class_count;
	for (unsigned int i = 0; i < out->class_count; i++) {
		out->class_names[i] = tcpclass_name(tcp->classes, i);
		out->thresholds_ns[i] = tcp->word.classes[i].threshold_ns;
	}
	out->there = !tcpedge_counts(tcp->edge, &out->counts) &&
		     !tcpedge_class_counts(tcp->edge, out->classes) &&
		     !tcpedge_delays(tcp->edge, out->delays);
}

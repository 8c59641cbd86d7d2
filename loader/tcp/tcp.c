// SPDX-License-Identifier: BSD-2-Clause
/* TCP pacing as a capability: its mode, events and polls. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "clock/clock.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "pace/pace.h"

#define TCP_TICK_NS 1000000000ull
#define WALK_SHARE 9 /* after a walk over the cgroups, so many times what it took without one */

#define TCP_EVENTS(X)                                                                              \
	X(PACE_TCP_OFF, "pace_tcp_off", NOTICE,                                                    \
	  "Delays of TCP connections are not measured any more.")                                  \
	X(PACE_TCP_MEASURE, "pace_tcp_measure", NOTICE, "Delays of TCP connections are measured.") \
	X(PACE_TCP_ON, "pace_tcp_on", NOTICE, "TCP connections are limited by their own delay.")   \
	X(PACE_TCP_CGROUPS_FULL, "pace_tcp_cgroups_full", WARNING,                                 \
	  "Classes name more cgroups than there is room for.",                                     \
	  .remedy = "Name fewer cgroups in `pace.tcp`.")                                           \
	X(PACE_TCP_UNAVAILABLE, "pace_tcp_unavailable", WARNING,                                   \
	  "The kernel does not support measuring or limiting TCP connections.",                    \
	  .remedy = "See `escapement features`.")                                                  \
	X(PACE_TCP_CLOCK_LOST, "pace_tcp_clock_lost", WARNING,                                     \
	  "Fabric time is not good enough for the thresholds: limits end.",                        \
	  .remedy = "See `escapement clock`.")                                                     \
	X(PACE_TCP_CLOCK_RESTORED, "pace_tcp_clock_restored", NOTICE,                              \
	  "Fabric time is good enough again.")
enum { TCP_EVENTS(EVENT_ENUM) };
static const struct event_kind tcp_events[] = {TCP_EVENTS(EVENT_KIND){}};

/* Takes over @seen and @done. */
static void add_event(const struct tcp *tcp, unsigned int kind, json_t *seen, json_t *done)
{
	const char *cgroup = tcp_keys(tcp->core->config)->cgroup;

	events_add(tcp->core->events, &(struct event){
					      .kind = &tcp_events[kind],
					      .subject = cgroup ? cgroup : "tcp",
					      .seen = seen,
					      .done = done,
				      });
}

/* --- load and unload --- */

static void poll_cgroups(struct tcp *tcp, bool now);

static void unload(struct tcp *tcp)
{
	tcplist_close(tcp->list);
	tcpedge_close(tcp->edge);
	tcpwrap_close(tcp->wrap);
	tcp->list = NULL;
	tcp->edge = NULL;
	tcp->wrap = NULL;
}

/* Cgroups come and go: which of them match a class. */
static void take_cgroups(void *context, void *walk)
{
	struct tcp *tcp = context;
	const char *top = tcp_keys(tcp->core->config)->cgroup;
	long left_out;

	tcp->walk_due_ns = time_local_ns() + WALK_SHARE * tcp_walk_took(walk);
	if (!tcp->edge)
		return;
	left_out = tcp_walk_take(walk, &tcp->cgroups, tcpedge_map_fd(tcp->edge, "tcp_cgroups"));
	if (left_out < 0 && left_out != tcp->left_out) {
		log_warning("TCP: cgroups below %s cannot be read for classes: %s", top,
			    strerror((int)-left_out));
	} else if (left_out > 0 && tcp->left_out <= 0) {
		log_warning("TCP: classes name more than %d cgroups below %s: sockets of %ld of "
			    "them are of no class by cgroup",
			    ESC_TCP_CGROUPS, top, left_out);
		add_event(tcp, PACE_TCP_CGROUPS_FULL,
			  json_pack("{s:I}", "unattributed", (json_int_t)left_out), NULL);
	}
	tcp->left_out = left_out;
	if (tcp->walk_again)
		poll_cgroups(tcp, true);
}

static const struct core_work walk_work = {"cgroups", tcp_walk_run, take_cgroups, tcp_walk_free};

/* @now: not only when it is due: classes were changed, or the map is new. */
static void poll_cgroups(struct tcp *tcp, bool now)
{
	struct tcp_walk *walk;

	tcp->walk_again = now && core_worker_busy(tcp->walker);
	if (core_worker_busy(tcp->walker) || (!now && time_local_ns() < tcp->walk_due_ns))
		return;
	if (!tcp_has_cgroup_class(tcp->pace) && !tcp->cgroups.count)
		return;
	walk = tcp_walk_new(tcp->pace, tcp_keys(tcp->core->config)->cgroup);
	if (walk && core_worker_start(tcp->walker, walk))
		tcp_walk_free(walk);
}

/* The program is required; what else the kernel does not support is reported and left out. */
static int load(void *self)
{
	struct tcp *tcp = self;
	const struct config *config = tcp->core->config;
	struct tcpedge_maps maps = {
		.control_fd = dataplane_map_fd(tcp->dataplane, "control"),
		.clock_fd = dataplane_map_fd(tcp->dataplane, "clock"),
		.members_fd = dataplane_map_fd(tcp->dataplane, "peer_addresses"),
		.flows_fd = -1,
		.lab_offset_ns = config->lab.clock_offset_ns,
		.lab_drift_ppb = (int32_t)config->lab.clock_drift_ppb,
	};
	int flows_fd, err;

	tcp->why[0] = '\0';
	err = tcpedge_open(&tcp->edge, &maps, tcp->why, sizeof(tcp->why));
	if (err)
		return err;
	flows_fd = tcpedge_map_fd(tcp->edge, "tcp_flows");
	err = tcpwrap_open(&tcp->wrap, flows_fd, tcpedge_map_fd(tcp->edge, "tcp_counts"),
			   config->lab.tcp_refused, tcp->why, sizeof(tcp->why));
	if (!err && tcp->why[0])
		log_warning("TCP: %s: such connections are measured and not limited", tcp->why);
	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		snprintf(tcp->ctl.names[i], sizeof(tcp->ctl.names[i]), "%s",
			 tcpwrap_name(tcp->wrap, i));
	tcplist_open(&tcp->list, flows_fd, tcp->unlisted, sizeof(tcp->unlisted));
	if (tcp->unlisted[0])
		log_warning("TCP: %s", tcp->unlisted);
	tcp->cgroups.count = 0; /* the map is new */
	poll_cgroups(tcp, true);
	err = tcpedge_write(tcp->edge, &tcp->ctl);
	if (!err)
		err = tcpedge_attach(tcp->edge, tcp_keys(config)->cgroup, tcp->why,
				     sizeof(tcp->why));
	return err;
}

static void load_classes(struct tcp *tcp)
{
	tcp_load_classes(&tcp->ctl, tcp->pace, (uint32_t)tcp_keys(tcp->core->config)->threshold_ns);
}

/* Classes were changed: by the configuration or at run time. */
static void classes_changed(void *self)
{
	struct tcp *tcp = self;

	load_classes(tcp);
	if (!tcp->edge)
		return;
	poll_cgroups(tcp, true);
	tcpedge_write(tcp->edge, &tcp->ctl);
}

/* --- the clock --- */

bool tcp_clock_is_good(const struct tcp *tcp, int64_t *bound_ns)
{
	uint32_t widest_ns = 0; /* with a bound too wide for that class nothing is limited */
	struct clock_facts clock;

	for (unsigned int i = 0; i < tcp->ctl.class_count; i++)
		if (tcp->ctl.classes[i].threshold_ns > widest_ns)
			widest_ns = tcp->ctl.classes[i].threshold_ns;
	clock_get(tcp->clock, &clock);
	*bound_ns = clock.known && clock.state != CLOCK_FREE_RUNNING ? clock.bound_ns : -1;
	/* A delay has the bounds of both ends; the peer's is assumed to be as ours. */
	return *bound_ns >= 0 && *bound_ns <= ESC_TCP_BOUND_MAX_NS &&
	       2 * (uint64_t)*bound_ns <= widest_ns >> ESC_TCP_BOUND_SHIFT;
}

static void tcp_tick(void *self, uint64_t now_ns)
{
	struct tcp *tcp = self;
	int64_t bound_ns;
	bool good;

	(void)now_ns;
	if (!tcp->edge)
		return;
	poll_cgroups(tcp, false);
	if (tcp->ctl.mode != ESC_TCP_PACE)
		return;
	good = tcp_clock_is_good(tcp, &bound_ns);
	if (tcp->clock_lost != good)
		return;
	tcp->clock_lost = !good;
	if (good)
		log_info("fabric time is good enough again for limits on TCP connections");
	else
		log_warning("fabric time is %s: limits on TCP connections end, there are no new "
			    "ones",
			    bound_ns < 0 ? "not known" : "too uncertain for them");
	add_event(tcp, good ? PACE_TCP_CLOCK_RESTORED : PACE_TCP_CLOCK_LOST,
		  bound_ns < 0 ? json_object()
			       : json_pack("{s:I}", "bound_ns", (json_int_t)bound_ns),
		  NULL);
}

/* --- modes --- */

static void report_mode(const struct tcp *tcp, const char *by)
{
	static const unsigned int kinds[] = {
		[ESC_TCP_OFF] = PACE_TCP_OFF,
		[ESC_TCP_OBSERVE] = PACE_TCP_MEASURE,
		[ESC_TCP_PACE] = PACE_TCP_ON,
	};
	const char *cgroup = tcp_keys(tcp->core->config)->cgroup;
	json_t *done = json_pack("{s:s}", "by", by);

	log_info("TCP at the edge is %s for %s (by %s)", tcp_modes[tcp->ctl.mode],
		 cgroup ? cgroup : "no cgroup", by);
	if (tcp->ctl.mode == ESC_TCP_PACE) {
		json_put_count(done, "delay_max_ns", tcp->ctl.classes[0].threshold_ns);
		json_put(done, "limited", tcp_wrapped(tcp));
	}
	add_event(tcp, kinds[tcp->ctl.mode], NULL, done);
}

static void report_unavailable(const struct tcp *tcp)
{
	log_warning("TCP at the edge %s: %s",
		    tcp->edge ? "measures delays and limits nothing" : "is off", tcp->why);
	add_event(tcp, PACE_TCP_UNAVAILABLE, json_pack("{s:s}", "reason", tcp->why), NULL);
}

/* To @mode from any other. Without a wrapper that could limit, on is measure. 0 or -errno. */
static int apply(struct tcp *tcp, enum esc_tcp_mode mode, const char *by)
{
	enum esc_tcp_mode was = tcp->edge ? (enum esc_tcp_mode)tcp->ctl.mode : ESC_TCP_OFF;
	int err = 0;

	tcp->ctl.mode = mode;
	load_classes(tcp);
	if (tcp->edge)
		err = tcpedge_write(tcp->edge, &tcp->ctl);
	if (mode == ESC_TCP_OFF)
		unload(tcp);
	else if (!tcp->edge)
		err = core_run(tcp->core, load, tcp);
	if (!err && mode == ESC_TCP_PACE && !tcp->wrap) {
		tcp->ctl.mode = ESC_TCP_OBSERVE;
		report_unavailable(tcp);
		err = tcpedge_write(tcp->edge, &tcp->ctl);
	}
	if (err) {
		unload(tcp);
		tcp->ctl.mode = ESC_TCP_OFF;
		report_unavailable(tcp);
		return err;
	}
	if (tcp->ctl.mode != was)
		report_mode(tcp, by);
	return 0;
}

static void tcp_reconfigure(void *self, const struct config *old)
{
	struct tcp *tcp = self;
	const struct tcp_keys *new = tcp_keys(tcp->core->config), *before = tcp_keys(old);
	bool same_cgroup = !strcmp(before->cgroup ?: "", new->cgroup ?: "");

	if (same_cgroup && before->mode == new->mode && before->threshold_ns == new->threshold_ns) {
		classes_changed(tcp);
		return;
	}
	if (!same_cgroup)
		unload(tcp);
	if (!dataplane_is_off(tcp->dataplane))
		apply(tcp, new->mode, "configuration");
}

static const char *tcp_controls(const void *self, const struct config *new)
{
	const struct tcp *tcp = self;
	bool on = tcp->edge && tcp->ctl.mode == ESC_TCP_PACE;

	if (tcp_keys(new)->mode != tcp_keys(tcp->core->config)->mode)
		on = tcp_keys(new)->mode == ESC_TCP_PACE;
	return on ? "pacing of TCP, which is on (`escapement pace tcp off` ends it)," : NULL;
}

/* `pace tcp MODE` */
static json_t *reply_tcp(void *self, struct request *request)
{
	const char *name = json_text(request->args, "mode");
	enum esc_tcp_mode mode = ESC_TCP_OFF;
	struct tcp *tcp = self;
	char *error = NULL;
	int err = 0;

	while (mode < ESC_TCP_PACE && strcmp(name, tcp_modes[mode]))
		mode++;
	if (mode != ESC_TCP_OFF && !tcp_keys(tcp->core->config)->cgroup) {
		err = explain(&error, -EINVAL,
			      "no cgroup is configured for it: give `pace: tcp: cgroup:` in the "
			      "configuration, then reload");
	} else if (mode != ESC_TCP_OFF && dataplane_is_off(tcp->dataplane)) {
		err = explain(&error, -EPERM,
			      "the kill switch is on; `escapement mode observe` ends that");
	} else if (mode == ESC_TCP_PACE) {
		err = config_check_control(tcp->core->config, "pacing of TCP", &error);
	}
	if (!err) {
		err = apply(tcp, mode, "command");
		if (err)
			explain(&error, err, "%s", tcp->why);
		else if (mode != (enum esc_tcp_mode)tcp->ctl.mode && mode != ESC_TCP_OFF)
			err = explain(&error, -ENOTSUP,
				      "delays are measured, nothing is limited: %s", tcp->why);
	}
	return err ? request_fail(request, REQUEST_FAILED, error) : pace_show(tcp->pace);
}

/* --- as a capability --- */

static const struct verb_handler tcp_verb_handlers[] = {{"pace tcp", reply_tcp}, {}};

static const struct pace_follower follower = {
	.classes_changed = classes_changed,
	.show = tcp_show,
};

static int tcp_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct tcp *tcp = calloc(1, sizeof(*tcp));
	int err;

	if (!tcp)
		return explain(error, -ENOMEM, "TCP pacing: %s", strerror(ENOMEM));
	tcp->core = core;
	tcp->dataplane = needs[0];
	tcp->clock = needs[1];
	tcp->pace = needs[2];
	err = core_worker_new(core, &tcp->walker, &walk_work, tcp);
	if (err < 0) {
		free(tcp);
		return explain(error, err, "TCP pacing: %s", strerror(-err));
	}
	pace_follow(tcp->pace, &follower, tcp);
	*self = tcp;
	/* The daemon works without it: the reason has been reported. */
	if (!dataplane_is_off(tcp->dataplane))
		apply(tcp, tcp_keys(core->config)->mode, "configuration");
	return 0;
}

static void tcp_close(void *self)
{
	struct tcp *tcp = self;

	pace_follow(tcp->pace, NULL, NULL);
	unload(tcp);
	core_worker_free(tcp->walker);
	free(tcp->cgroups.list);
	free(tcp);
}

static int tcp_off(void *self, const char *by, char **error)
{
	(void)error;
	apply(self, ESC_TCP_OFF, by);
	return 0;
}

const struct capability tcp_capability = {
	.name = "tcp",
	.needs = {"dataplane", "clock", "pace"},
	.keys = &tcp_section,
	.verbs = tcp_verb_handlers,
	.events = tcp_events,
	.metrics = tcp_metrics,
	.open = tcp_open,
	.close = tcp_close,
	.tick_ns = TCP_TICK_NS,
	.tick = tcp_tick,
	.reconfigure = tcp_reconfigure,
	.controls = tcp_controls,
	.off = tcp_off,
	.write_metrics = tcp_write_metrics,
};

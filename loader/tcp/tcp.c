// SPDX-License-Identifier: BSD-2-Clause
#include "tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"
#include "pace/pace.h"

#define TCP_TICK_NS 1000000000ull

static const char *const mode_names[] = {
	[ESC_TCP_OFF] = "off",
	[ESC_TCP_OBSERVE] = "measure",
	[ESC_TCP_PACE] = "on",
};

const char *tcp_mode_name(enum esc_tcp_mode mode)
{
	return mode_names[mode];
}

static void tcp_unload(struct tcp *tcp)
{
	tcplist_close(tcp->list);
	tcpedge_close(tcp->edge);
	tcpwrap_close(tcp->wrap);
	tcp->list = NULL;
	tcp->edge = NULL;
	tcp->wrap = NULL;
}

/* What is missing beside the program itself is said, and does without. */
static void tcp_load_others(struct tcp *tcp)
{
	char why[TCP_WHY_BYTES];
	int err;

	err = tcpwrap_open(&tcp->wrap, tcpedge_map_fd(tcp->edge, "tcp_flows"), tcpedge_map_fd(tcp->edge, "tcp_counts"),
			   tcp->core->config->lab.tcp_refused, tcp->why, sizeof(tcp->why));
	if (!err && tcp->why[0])
		log_warning("TCP: %s: such connections are measured and not limited", tcp->why);
	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		snprintf(tcp->ctl.names[i], sizeof(tcp->ctl.names[i]), "%s",
			 tcpwrap_name(tcp->wrap, i));
	if (tcplist_open(&tcp->list, tcpedge_map_fd(tcp->edge, "tcp_flows"), why, sizeof(why)))
		log_warning("TCP: %s", why);
}

/* Cgroups come and go: which of them are of a class. */
static void tcp_poll_cgroups(struct tcp *tcp)
{
	long left_out = tcpclass_poll(tcp->classes, tcp->pace, tcp_keys(tcp->core->config)->cgroup,
				      tcpedge_map_fd(tcp->edge, "tcp_cgroups"));

	if (left_out == tcp->left_out)
		return;
	if (left_out < 0 || !tcp->left_out)
		tcp_report_left_out(tcp, left_out);
	tcp->left_out = left_out;
}

/* Asked to limit, with no wrapper that the kernel takes. */
static int tcp_only_observe(struct tcp *tcp)
{
	tcp->ctl.mode = ESC_TCP_OBSERVE;
	tcp_report_unable(tcp);
	return tcpedge_write(tcp->edge, &tcp->ctl);
}

static int tcp_load(struct tcp *tcp)
{
	const struct config *config = tcp->core->config;
	struct tcpedge_maps maps = {
		.control_fd = dataplane_map_fd(tcp->dataplane, "control"),
		.clock_fd = dataplane_map_fd(tcp->dataplane, "clock"),
		.flows_fd = -1,
		.lab_offset_ns = config->lab.clock_offset_ns,
		.lab_drift_ppb = (int32_t)config->lab.clock_drift_ppb,
	};
	int err;

	tcp->why[0] = '\0';
	err = tcpedge_open(&tcp->edge, &maps, tcp->why, sizeof(tcp->why));
	if (err)
		return err;
	tcp_load_others(tcp);
	tcpclass_forget(tcp->classes);
	tcp_poll_cgroups(tcp);
	err = tcpedge_write(tcp->edge, &tcp->ctl);
	if (!err)
		err = tcpedge_attach(tcp->edge, tcp_keys(config)->cgroup, tcp->why,
				     sizeof(tcp->why));
	return err;
}

static void tcp_watch_clock(struct tcp *tcp)
{
	int64_t bound_ns;
	bool good = tcp_clock_is_good(tcp, &bound_ns);

	if (tcp->blind != good)
		return;
	tcp->blind = !good;
	tcp_report_clock(tcp, bound_ns);
}

static void tcp_tick(void *self, uint64_t now_ns)
{
	struct tcp *tcp = self;

	(void)now_ns;
	if (tcp->edge)
		tcp_poll_cgroups(tcp);
	if (tcp->edge && tcp->ctl.mode == ESC_TCP_PACE)
		tcp_watch_clock(tcp);
}

static void tcp_take_classes(struct tcp *tcp)
{
	tcpclass_take(tcp->classes, tcp->pace, (uint32_t)tcp_keys(tcp->core->config)->threshold_ns,
		      &tcp->ctl);
}

/* Classes were changed: by the configuration or at run time. */
static void tcp_retake_classes(void *self)
{
	struct tcp *tcp = self;

	tcp_take_classes(tcp);
	if (!tcp->edge)
		return;
	tcp_poll_cgroups(tcp);
	tcpedge_write(tcp->edge, &tcp->ctl);
}

/* To @mode, from whatever it was. */
static int tcp_apply(struct tcp *tcp, enum esc_tcp_mode mode, const char *by)
{
	enum esc_tcp_mode was = tcp->edge ? (enum esc_tcp_mode)tcp->ctl.mode : ESC_TCP_OFF;
	int err = 0;

	tcp->ctl.mode = mode;
	tcp_take_classes(tcp);
	if (tcp->edge)
		err = tcpedge_write(tcp->edge, &tcp->ctl);
	if (mode == ESC_TCP_OFF)
		tcp_unload(tcp);
	else if (!tcp->edge)
		err = tcp_load(tcp);
	if (!err && mode == ESC_TCP_PACE && !tcp->wrap)
		err = tcp_only_observe(tcp);
	if (err) {
		tcp_unload(tcp);
		tcp->ctl.mode = ESC_TCP_OFF;
		tcp_report_unable(tcp);
		return err;
	}
	if (tcp->ctl.mode != was)
		tcp_report_mode(tcp, by);
	return 0;
}

static bool tcp_may(const struct tcp *tcp)
{
	return !dataplane_is_off(tcp->dataplane);
}

static void tcp_reconfigure(void *self, const struct config *old)
{
	struct tcp *tcp = self;
	const struct config *new = tcp->core->config;
	bool same_cgroup;

	same_cgroup = !strcmp(tcp_keys(old)->cgroup ?: "", tcp_keys(new)->cgroup ?: "");
	if (same_cgroup && tcp_keys(old)->mode == tcp_keys(new)->mode &&
	    tcp_keys(old)->threshold_ns == tcp_keys(new)->threshold_ns) {
		tcp_retake_classes(tcp);
		return;
	}
	if (!same_cgroup)
		tcp_unload(tcp);
	if (tcp_may(tcp))
		tcp_apply(tcp, tcp_keys(new)->mode, "configuration");
}

/* `pace tcp MODE` */
static json_t *reply_tcp(void *self, struct request *request)
{
	const char *name = json_text(request->args, "mode");
	enum esc_tcp_mode mode = ESC_TCP_OFF;
	struct tcp *tcp = self;
	char *error = NULL;
	int err;

	while (mode < ESC_TCP_PACE && strcmp(name, mode_names[mode]))
		mode++;
	if (mode != ESC_TCP_OFF && !tcp_keys(tcp->core->config)->cgroup)
		err = explain(&error, -EINVAL,
			      "no cgroup is configured for it: give `pace: tcp: cgroup:` in the "
			      "configuration, then reload");
	else if (mode != ESC_TCP_OFF && !tcp_may(tcp))
		err = explain(&error, -EPERM,
			      "the kill switch is on; `escapement mode observe` ends that");
	else {
		err = tcp_apply(tcp, mode, "command");
		if (err)
			explain(&error, err, "%s", tcp->why);
		else if (mode != (enum esc_tcp_mode)tcp->ctl.mode && mode != ESC_TCP_OFF)
			err = explain(&error, -ENOTSUP,
				      "delays are measured, nothing is limited: %s", tcp->why);
	}
	return err ? request_fail(request, REQUEST_FAILED, error) : pace_show(tcp->pace);
}

static const struct verb_handler tcp_verb_handlers[] = {{"pace tcp", reply_tcp}, {}};

static const struct pace_follower follower = {
	.classes_changed = tcp_retake_classes,
	.show = tcp_show,
};

static int tcp_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct tcp *tcp = calloc(1, sizeof(*tcp));
	int err = tcp ? tcpclass_new(&tcp->classes) : -ENOMEM;

	if (err) {
		free(tcp);
		return explain(error, err, "TCP pacing: %s", strerror(-err));
	}
	tcp->core = core;
	tcp->dataplane = needs[0];
	tcp->clock = needs[1];
	tcp->pace = needs[2];
	pace_follow(tcp->pace, &follower, tcp);
	*self = tcp;
	/* Without it the daemon does all the rest: the reason has been reported. */
	if (tcp_may(tcp))
		tcp_apply(tcp, tcp_keys(core->config)->mode, "configuration");
	return 0;
}

static void tcp_close(void *self)
{
	struct tcp *tcp = self;

	pace_follow(tcp->pace, NULL, NULL);
	tcp_unload(tcp);
	tcpclass_free(tcp->classes);
	free(tcp);
}

static int tcp_off(void *self, const char *by, char **error)
{
	(void)error;
	tcp_apply(self, ESC_TCP_OFF, by);
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
	.off = tcp_off,
	.write_metrics = tcp_write_metrics,
};

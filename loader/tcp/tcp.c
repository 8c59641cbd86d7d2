// SPDX-License-Identifier: BSD-2-Clause
#include "tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/log.h"
#include "internal.h"

#define TCPPACE_LOOK_US 1000000
#define TCPPACE_SLACK_US 100000

static const char *const mode_names[] = {
	[ESC_TCP_OFF] = "off",
	[ESC_TCP_OBSERVE] = "measure",
	[ESC_TCP_PACE] = "on",
};

const char *tcppace_mode_name(enum esc_tcp_mode mode)
{
	return mode_names[mode];
}

static enum esc_tcp_mode tcppace_mode_of(enum config_pace_tcp mode)
{
	return mode == CONFIG_PACE_TCP_ON	 ? ESC_TCP_PACE
	       : mode == CONFIG_PACE_TCP_OBSERVE ? ESC_TCP_OBSERVE
						 : ESC_TCP_OFF;
}

static void tcppace_unload(struct tcppace *tcp)
{
	tcplist_close(tcp->list);
	tcpedge_close(tcp->edge);
	tcpwrap_close(tcp->wrap);
	tcp->list = NULL;
	tcp->edge = NULL;
	tcp->wrap = NULL;
}

/* What is missing beside the program itself is said, and does without. */
static void tcppace_load_others(struct tcppace *tcp)
{
	char why[TCPPACE_WHY_BYTES];
	int err;

	err = tcpwrap_open(&tcp->wrap, tcpedge_flows_fd(tcp->edge), tcpedge_counts_fd(tcp->edge),
			   tcp->daemon->config->lab.tcp_refused, tcp->why, sizeof(tcp->why));
	if (!err && tcp->why[0])
		log_warning("TCP: %s: such connections are measured and not limited", tcp->why);
	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		snprintf(tcp->word.names[i], sizeof(tcp->word.names[i]), "%s",
			 tcpwrap_name(tcp->wrap, i));
	if (tcplist_open(&tcp->list, tcpedge_flows_fd(tcp->edge), why, sizeof(why)))
		log_warning("TCP: %s", why);
}

/* Cgroups come and go: which of them are of a class. */
static void tcppace_look_cgroups(struct tcppace *tcp)
{
	long left_out =
		tcpclass_look(tcp->classes, tcp->daemon->pace, tcp->daemon->config->pace.tcp.cgroup,
			      tcpedge_cgroups_fd(tcp->edge));

	if (left_out == tcp->left_out)
		return;
	if (left_out < 0 || !tcp->left_out)
		tcppace_tell_left_out(tcp, left_out);
	tcp->left_out = left_out;
}

/* Asked to limit, with no wrapper that the kernel takes. */
static int tcppace_only_observe(struct tcppace *tcp)
{
	tcp->word.mode = ESC_TCP_OBSERVE;
	tcppace_tell_unable(tcp);
	return tcpedge_say(tcp->edge, &tcp->word);
}

static int tcppace_load(struct tcppace *tcp)
{
	const struct config *config = tcp->daemon->config;
	struct tcpedge_maps maps = {
		.control_fd = dataplane_map_fd(tcp->daemon->dataplane, "control"),
		.clock_fd = dataplane_map_fd(tcp->daemon->dataplane, "clock"),
		.flows_fd = -1,
		.lab_offset_ns = config->lab.clock_offset_ns,
		.lab_drift_ppb = (int32_t)config->lab.clock_drift_ppb,
	};
	int err;

	tcp->why[0] = '\0';
	err = tcpedge_open(&tcp->edge, &maps, tcp->why, sizeof(tcp->why));
	if (err)
		return err;
	tcppace_load_others(tcp);
	tcpclass_forget(tcp->classes);
	tcppace_look_cgroups(tcp);
	err = tcpedge_say(tcp->edge, &tcp->word);
	if (!err)
		err = tcpedge_attach(tcp->edge, config->pace.tcp.cgroup, tcp->why,
				     sizeof(tcp->why));
	return err;
}

static void tcppace_watch_clock(struct tcppace *tcp)
{
	int64_t bound_ns;
	bool good = tcppace_clock_is_good(tcp, &bound_ns);

	if (tcp->blind != good)
		return;
	tcp->blind = !good;
	tcppace_tell_clock(tcp, bound_ns);
}

static int tcppace_on_timer(sd_event_source *source, uint64_t due_us, void *context)
{
	struct tcppace *tcp = context;
	uint64_t now_us;

	(void)due_us;
	if (tcp->edge)
		tcppace_look_cgroups(tcp);
	if (tcp->edge && tcp->word.mode == ESC_TCP_PACE)
		tcppace_watch_clock(tcp);
	sd_event_now(tcp->daemon->event, CLOCK_MONOTONIC, &now_us);
	sd_event_source_set_time(source, now_us + TCPPACE_LOOK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void tcppace_take_classes(struct tcppace *tcp)
{
	tcpclass_take(tcp->classes, tcp->daemon->pace,
		      (uint32_t)tcp->daemon->config->pace.tcp.threshold_ns, &tcp->word);
}

void tcppace_retake_classes(struct tcppace *tcp)
{
	if (!tcp)
		return;
	tcppace_take_classes(tcp);
	if (!tcp->edge)
		return;
	tcppace_look_cgroups(tcp);
	tcpedge_say(tcp->edge, &tcp->word);
}

/* To @mode, from whatever it was. */
static int tcppace_apply(struct tcppace *tcp, enum esc_tcp_mode mode, const char *by)
{
	enum esc_tcp_mode was = tcp->edge ? (enum esc_tcp_mode)tcp->word.mode : ESC_TCP_OFF;
	int err = 0;

	tcp->word.mode = mode;
	tcppace_take_classes(tcp);
	if (tcp->edge)
		err = tcpedge_say(tcp->edge, &tcp->word);
	if (mode == ESC_TCP_OFF)
		tcppace_unload(tcp);
	else if (!tcp->edge)
		err = tcppace_load(tcp);
	if (!err && mode == ESC_TCP_PACE && !tcp->wrap)
		err = tcppace_only_observe(tcp);
	if (err) {
		tcppace_unload(tcp);
		tcp->word.mode = ESC_TCP_OFF;
		tcppace_tell_unable(tcp);
		return err;
	}
	if (tcp->word.mode != was)
		tcppace_tell_mode(tcp, by);
	return 0;
}

static bool tcppace_may(const struct tcppace *tcp)
{
	return !dataplane_is_off(tcp->daemon->dataplane);
}

int tcppace_new(struct tcppace **out, struct daemon *daemon, char **error)
{
	struct tcppace *tcp = calloc(1, sizeof(*tcp));
	uint64_t now_us;
	int err;

	*out = NULL;
	if (!tcp)
		return -ENOMEM;
	tcp->daemon = daemon;
	sd_event_now(daemon->event, CLOCK_MONOTONIC, &now_us);
	err = tcpclass_new(&tcp->classes);
	if (!err)
		err = sd_event_add_time(daemon->event, &tcp->timer, CLOCK_MONOTONIC,
					now_us + TCPPACE_LOOK_US, TCPPACE_SLACK_US,
					tcppace_on_timer, tcp);
	if (err < 0) {
		tcppace_free(tcp);
		return explain(error, err, "a timer cannot be made: %s", strerror(-err));
	}
	*out = tcp;
	/* Without it the daemon does all the rest: it has been said why. */
	if (tcppace_may(tcp))
		tcppace_apply(tcp, tcppace_mode_of(daemon->config->pace.tcp.mode), "configuration");
	return 0;
}

void tcppace_free(struct tcppace *tcp)
{
	if (!tcp)
		return;
	sd_event_source_unref(tcp->timer);
	tcppace_unload(tcp);
	tcpclass_free(tcp->classes);
	free(tcp);
}

void tcppace_reconfigure(struct tcppace *tcp, const struct config *old)
{
	const struct config *new;
	bool same_cgroup;

	if (!tcp)
		return;
	new = tcp->daemon->config;
	same_cgroup = !strcmp(old->pace.tcp.cgroup ?: "", new->pace.tcp.cgroup ?: "");
	if (same_cgroup && old->pace.tcp.mode == new->pace.tcp.mode &&
	    old->pace.tcp.threshold_ns == new->pace.tcp.threshold_ns) {
		tcppace_retake_classes(tcp);
		return;
	}
	if (!same_cgroup)
		tcppace_unload(tcp);
	if (tcppace_may(tcp))
		tcppace_apply(tcp, tcppace_mode_of(new->pace.tcp.mode), "configuration");
}

int tcppace_set(struct tcppace *tcp, const char *mode, const char *by, char **error)
{
	size_t count = sizeof(mode_names) / sizeof(mode_names[0]), i = 0;
	int err;

	while (i < count && strcmp(mode, mode_names[i]))
		i++;
	if (i == count)
		return explain(error, -EINVAL,
			       "`pace tcp %.20s`: there are `off`, `measure` and `on`", mode);
	if (i != ESC_TCP_OFF && !tcp->daemon->config->pace.tcp.cgroup)
		return explain(error, -EINVAL,
			       "no cgroup is configured for it: give `pace: tcp: cgroup:` in the "
			       "configuration, then reload");
	if (i != ESC_TCP_OFF && !tcppace_may(tcp))
		return explain(error, -EPERM,
			       "the kill switch is on; `escapement mode observe` "
			       "ends that");
	err = tcppace_apply(tcp, (enum esc_tcp_mode)i, by);
	if (!err && i == ESC_TCP_PACE && tcp->word.mode != ESC_TCP_PACE)
		return explain(error, -ENOTSUP, "delays are measured, nothing is limited: %s",
			       tcp->why);
	return err ? explain(error, err, "%s", tcp->why) : 0;
}

void tcppace_stop(struct tcppace *tcp, const char *by)
{
	if (tcp)
		tcppace_apply(tcp, ESC_TCP_OFF, by);
}

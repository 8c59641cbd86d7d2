// SPDX-License-Identifier: BSD-2-Clause
/* Which interfaces can be paced, and why not. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "dataplane/dataplane.h"
#include "net/ethtool.h"
#include "clock/clock.h"
#include "internal.h"

/* A link that does not say its rate (most virtual ones): flows begin at this, and find theirs. */
#define LINE_DEFAULT_BPS (10000000000ull / 8)

static uint64_t line_of(const struct pace *pace, const char *name)
{
	double bps = ethtool_speed_bps(name);

	if (pace_keys(pace->core->config)->line_bps > 0)
		return (uint64_t)(pace_keys(pace->core->config)->line_bps / 8);
	return bps > 0 ? (uint64_t)(bps / 8) : LINE_DEFAULT_BPS;
}

static void judge_qdisc(struct pace_port *port, const struct port_info *info)
{
	struct qdisc_facts facts;
	char text[40] = "";
	int err = qdisc_read(info->ifindex, &facts);

	if (err) {
		snprintf(port->why, sizeof(port->why), "the qdiscs of %s cannot be read: %s",
			 info->name, strerror(-err));
		return;
	}
	qdisc_text(&facts, text);
	memcpy(port->qdisc, text, sizeof(text));
	if (qdisc_is_fq(&facts))
		port->able = true;
	else if (facts.handle)
		snprintf(
			port->why, sizeof(port->why),
			"%s has %s, which somebody set up, and departure times are kept by fq: put "
			"fq in its place (`tc qdisc replace dev %s root fq`)",
			info->name, text, info->name);
	else
		snprintf(port->why, sizeof(port->why),
			 "%s has %s, and departure times are kept by fq: `escapement pace setup-fq "
			 "%s` sets it, `escapement pace undo-fq %s` puts back what was there",
			 info->name, text, info->name, info->name);
}

static void judge(const struct pace *pace, struct pace_port *port, const struct port_info *info)
{
	port->able = false;
	port->why[0] = port->qdisc[0] = '\0';
	if (!info->ifindex)
		snprintf(port->why, sizeof(port->why), "interface %s is gone", info->name);
	else if (info->tc_via == ESC_TC_NONE)
		snprintf(port->why, sizeof(port->why), "no program of ours is on %s", info->name);
	else if (!pace->core->config->receipts.on)
		snprintf(port->why, sizeof(port->why),
			 "receipts tell the delays, and they are off (`receipts.mode`)");
	else
		judge_qdisc(port, info);
}

void pace_look_ports(struct pace *pace, uint64_t now_local_ns)
{
	const struct dataplane *dataplane = pace->dataplane;
	bool lines = false, told = pace->ports_local_ns != 0;
	struct port_info info;

	pace->ports_local_ns = now_local_ns;
	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++) {
		struct pace_port *port, before;
		uint64_t line_Bps;

		if (dataplane_port(dataplane, i, &info) || info.index >= ESC_PORTS_MAX)
			continue;
		port = &pace->ports[info.index];
		before = *port;
		judge(pace, port, &info);
		line_Bps = line_of(pace, info.name);
		lines = lines || line_Bps != port->line_Bps;
		port->line_Bps = line_Bps;
		if (pace->wanted >> info.index & 1 && (before.able != port->able || !told))
			pace_report_port(pace, info.index);
	}
	if (lines)
		pace_write_rules(pace);
	if (pace->wanted || pace->control->pace_ports)
		pace_write_ports(pace);
}

bool pace_clock_is_good(const struct pace *pace, int64_t *bound_ns)
{
	uint64_t least_ns = UINT64_MAX;
	struct clock_facts clock;

	for (unsigned int i = 0; i < pace->class_count; i++)
		if (pace->classes[i].threshold_ns < least_ns)
			least_ns = pace->classes[i].threshold_ns;
	clock_get(pace->clock, &clock);
	*bound_ns = clock.known && clock.state != CLOCK_FREE_RUNNING ? clock.bound_ns : -1;
	/* A delay has the bounds of both ends. Once lost it has to be twice as good to be good
	 * again.
	 */
	return *bound_ns >= 0 &&
	       (pace->blind ? 2 : 1) * (uint64_t)*bound_ns <= least_ns >> ESC_PACE_BOUND_SHIFT;
}

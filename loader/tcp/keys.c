// SPDX-License-Identifier: BSD-2-Clause
/* The section `pace.tcp` of the configuration. */
#include "config/config.h"
#include "maps/pace.h"
#include "pace/pace.h"
#include "tcp.h"

#define CGROUP_EXAMPLE "/sys/fs/cgroup/system.slice"

static void check_cgroup(struct config_reading *reading, const struct config_key *key, void *values)
{
	const char *cgroup = ((const struct tcp_keys *)values)->cgroup;

	if (cgroup[0] != '/')
		config_refuse(
			reading, key->name,
			"`cgroup: %.64s` should be a folder of the unified hierarchy, such as "
			"`" CGROUP_EXAMPLE "`",
			cgroup);
}

static void check_tcp(struct config_reading *reading, const struct config *config, void *values)
{
	struct tcp_keys *tcp = values;

	if (tcp->mode != ESC_TCP_OFF && !tcp->cgroup)
		config_refuse(reading, NULL,
			      "`pace.tcp` needs a `cgroup`: the folder of the unified hierarchy "
			      "whose connections it is for, such as `" CGROUP_EXAMPLE "`");
	else if (tcp->mode == ESC_TCP_PACE)
		config_require_key(reading, config, "mode", "pacing of TCP");
	if (!tcp->threshold_ns)
		tcp->threshold_ns = pace_keys(config)->threshold_ns;
}

const char *const tcp_modes[] = {"off", "measure", "on", NULL};

static const struct config_key keys[] = {
	{"mode", CONFIG_FIELD(word, struct tcp_keys, mode), .words = tcp_modes, .fallback = "off",
	 .help = "`off`: nothing is loaded. `measure`: connections with it on at both ends carry "
		 "time and delay in a TCP option (kind 254, identifier 0xe5ca, 12 bytes of each "
		 "segment); the verb `pace` shows the delays, nothing is limited. `on`: their "
		 "windows and pacing rates are limited as well, so that the delay stays below "
		 "`threshold`."},
	{"cgroup", CONFIG_FIELD(text, struct tcp_keys, cgroup), .example = CGROUP_EXAMPLE,
	 .check = check_cgroup,
	 .help = "Folder of the unified hierarchy whose connections are paced. All below it are "
		 "included, connections of others are not touched. Required unless the mode is "
		 "`off`."},
	{"threshold", CONFIG_FIELD(duration, struct tcp_keys, threshold_ns), .example = "50us",
	 .least = ESC_PACE_THRESHOLD_MIN_NS, .most = ESC_PACE_THRESHOLD_MAX_NS,
	 .help = "Default: that of `pace`. It should be well above the delay of an idle path, and "
		 "ten times the error of the clocks. What is always there, an idle path's delay "
		 "and a clock's error, is not counted, up to a quarter of it: the least delay of "
		 "the last half second."},
	{},
};

const struct config_section tcp_section = {
	.name = "pace.tcp",
	.summary = "Pacing of TCP: connections of one cgroup, by the one-way delay of their own "
		   "data. See TCP PACING.",
	.keys = keys,
	.bytes = sizeof(struct tcp_keys),
	.check = check_tcp,
};

const struct tcp_keys *tcp_keys(const struct config *config)
{
	return config_section(config, &tcp_section);
}

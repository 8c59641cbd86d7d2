// SPDX-License-Identifier: BSD-2-Clause
#include "keys.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "maps/maps.h"

/* --- the keys of a class --- */

/* "26" or "26, 46", into a bit each. */
static int parse_dscps(struct config_reading *reading, const struct config_key *key,
		       const char *text, void *value)
{
	const char *at = text;
	uint64_t bits = 0;

	while (*at) {
		unsigned long dscp = 64;
		char *end = NULL;

		if (isdigit((unsigned char)*at))
			dscp = strtoul(at, &end, 10);
		if (dscp > 63)
			return config_refuse(reading, key->name,
					     "`dscp: %.64s` should be numbers of 0 to 63, such as "
					     "`26` or `26, 46`",
					     text);
		bits |= 1ull << dscp;
		end += strspn(end, " ");
		if (*end && *end != ',')
			return config_refuse(reading, key->name,
					     "`dscp: %.64s`: write a comma between two numbers",
					     text);
		at = end + (*end == ',');
		at += strspn(at, " ");
	}
	*(uint64_t *)value = bits;
	return 0;
}

static json_t *show_dscps(const struct config_key *key, const void *value)
{
	uint64_t bits = *(const uint64_t *)value;
	char text[256] = "";
	size_t used = 0;

	(void)key;
	for (int i = 0; i < 64; i++)
		if (bits >> i & 1)
			used += snprintf(text + used, sizeof(text) - used, "%s%d", used ? ", " : "",
					 i);
	return used ? json_string(text) : NULL;
}

/* "50000" or "50000-50999", into port_first and port_last. */
static int parse_ports(struct config_reading *reading, const struct config_key *key,
		       const char *text, void *value)
{
	uint16_t *ports = value;
	unsigned int first = 0, last = 0;
	int used = 0;

	if (sscanf(text, "%5u%n", &first, &used) == 1 && !text[used])
		last = first;
	else if (sscanf(text, "%5u-%5u%n", &first, &last, &used) != 2 || text[used])
		first = 0;
	if (!first || first > last || last > 65535)
		return config_refuse(
			reading, key->name,
			"`port: %.64s` should be a port or a range, such as `50000` or "
			"`50000-50999`",
			text);
	ports[0] = first;
	ports[1] = last;
	return 0;
}

static json_t *show_ports(const struct config_key *key, const void *value)
{
	const uint16_t *ports = value;

	(void)key;
	return ports[0] ? json_sprintf("%u-%u", ports[0], ports[1]) : NULL;
}

static const struct config_type dscps_type = {"numbers", parse_dscps, show_dscps, NULL, NULL};
static const struct config_type ports_type = {"ports", parse_ports, show_ports, NULL, NULL};

static void check_class_name(struct config_reading *reading, const struct config_key *key,
			     void *values)
{
	const char *name = ((const struct config_pace_class *)values)->name, *at = name;

	while (isalnum((unsigned char)*at) || (*at && strchr("-_.", *at)))
		at++;
	if (*at)
		config_refuse(reading, key->name,
			      "`name: %s`: the name of a class has letters, digits, `-`, `_` and "
			      "`.`",
			      name);
	if (!strcmp(name, "default"))
		config_refuse(
			reading, key->name,
			"`name: default` is the class of what matches none; set its threshold "
			"with `pace.threshold`");
}

static const struct config_key class_keys[] = {
	{"name", CONFIG_FIELD(text, struct config_pace_class, name), .required = true,
	 .example = "storage", .most = 15, .check = check_class_name,
	 .help = "Letters, digits, `-`, `_` and `.`, at most 15."},
	{"weight", CONFIG_FIELD(number, struct config_pace_class, weight), .fallback = "1",
	 .least = 1, .most = ESC_PACE_WEIGHT_MAX,
	 .help = "Of each queue pair or connection in the class."},
	{"threshold", CONFIG_FIELD(duration, struct config_pace_class, threshold_ns),
	 .example = "200us", .least = ESC_PACE_THRESHOLD_MIN_NS, .most = ESC_PACE_THRESHOLD_MAX_NS,
	 .help = "Default: that of `pace`; for TCP that of `pace.tcp`."},
	{"dscp", .type = &dscps_type, .offset = offsetof(struct config_pace_class, dscps),
	 .example = "26", .help = "One or more of 0 to 63, such as `26, 46`."},
	{"job", CONFIG_FIELD(text, struct config_pace_class, job), .example = "'train-*'",
	 .help = "Shell pattern for the name of the job, as in `escapement qp`. For TCP: the job "
		 "of the cgroup."},
	{"cgroup", CONFIG_FIELD(text, struct config_pace_class, cgroup),
	 .example = "'*/web.slice/*'",
	 .help = "Shell pattern for the path of the cgroup, as in `escapement qp`. For TCP: from "
		 "the root of the unified hierarchy."},
	{"port", .type = &ports_type, .offset = offsetof(struct config_pace_class, port_first),
	 .example = "50000-50999",
	 .help = "UDP source port, or a range of them. For TCP: the port of either end."},
};

static const struct config_list class_list = {
	.keys = class_keys,
	.key_count = CONFIG_COUNT_OF(class_keys),
	.least = 1,
	.most = ESC_PACE_CLASSES - 1,
	.entry_bytes = sizeof(struct config_pace_class),
	.count_offset = offsetof(struct config_pace_keys, class_count),
};

/* --- pace --- */

static const char *const pace_modes[] = {"off", "on", NULL};

static const struct config_key pace_keys[] = {
	{"mode", CONFIG_FIELD(word, struct config_pace_keys, mode), .words = pace_modes,
	 .fallback = "off",
	 .help = "`on`: the daemon starts in mode pace on every interface that can be paced, and "
		 "reports which cannot. `off`: no packet is held back. A reload changes the mode "
		 "only when this key has changed."},
	{"threshold", CONFIG_FIELD(duration, struct config_pace_keys, threshold_ns),
	 .fallback = "50us", .least = ESC_PACE_THRESHOLD_MIN_NS, .most = ESC_PACE_THRESHOLD_MAX_NS,
	 .help = "One-way delay above which packets are held; of the class `default`. It should be "
		 "well above the delay of an idle network, and the clocks' bound below a quarter "
		 "of it."},
	{"hold_max", CONFIG_FIELD(duration, struct config_pace_keys, hold_max_ns),
	 .fallback = "40ms", .least = ESC_PACE_HOLD_MIN_NS, .most = ESC_PACE_HOLD_MAX_NS,
	 .help = "No packet is held longer. It should be shorter than the queue pairs' "
		 "retransmission timeout, and longer than a whole window takes at the rate of one "
		 "of many senders."},
	{"line", CONFIG_FIELD(bit_rate, struct config_pace_keys, line_bps), .fallback = "auto",
	 .example = "25Gbit", .least = 8000, .most = 1000000000000,
	 .help = "Rate of the links, such as `25Gbit`. `auto`: as each interface reports it, and "
		 "10Gbit where it does not (virtual ones)."},
	{"classes", CONFIG_FIELD(list, struct config_pace_keys, classes), .list = &class_list,
	 .help = "Classes of flows, at most 15. A queue pair, or a TCP connection (`pace.tcp`), is "
		 "of the first class all of whose keys it matches, else of `default`."},
};

/* A class without a threshold has that of the section. */
static void check_pace(struct config_reading *reading, const struct config *config, void *values)
{
	struct config_pace_keys *pace = values;

	(void)reading;
	(void)config;
	for (size_t i = 0; i < pace->class_count; i++) {
		struct config_pace_class *class = &pace->classes[i];

		class->own_threshold = class->threshold_ns;
		if (!class->own_threshold)
			class->threshold_ns = pace->threshold_ns;
	}
}

const struct config_section config_pace_section = {
	.name = "pace",
	.summary = "Pacing of RoCE: packets are held at the sender while the fabric's queues are "
		   "long. It needs the qdisc fq, see `pace` in escapement(1).",
	.keys = pace_keys,
	.key_count = CONFIG_COUNT_OF(pace_keys),
	.offset = offsetof(struct config, pace),
	.check = check_pace,
};

/* --- pace.tcp --- */

#define CGROUP_EXAMPLE "/sys/fs/cgroup/system.slice"

static void check_cgroup(struct config_reading *reading, const struct config_key *key, void *values)
{
	const char *cgroup = ((const struct config_pace_tcp_keys *)values)->cgroup;

	if (cgroup[0] != '/')
		config_refuse(
			reading, key->name,
			"`cgroup: %.64s` should be a folder of the unified hierarchy, such as "
			"`" CGROUP_EXAMPLE "`",
			cgroup);
}

static void check_tcp(struct config_reading *reading, const struct config *config, void *values)
{
	struct config_pace_tcp_keys *tcp = values;

	if (tcp->mode != CONFIG_PACE_TCP_OFF && !tcp->cgroup)
		config_refuse(reading, NULL,
			      "`pace.tcp` needs a `cgroup`: the folder of the unified hierarchy "
			      "whose connections it is for, such as `" CGROUP_EXAMPLE "`");
	if (!tcp->threshold_ns)
		tcp->threshold_ns = config->pace.threshold_ns;
}

static const char *const tcp_modes[] = {"off", "measure", "on", NULL};

static const struct config_key tcp_keys[] = {
	{"mode", CONFIG_FIELD(word, struct config_pace_tcp_keys, mode), .words = tcp_modes,
	 .fallback = "off",
	 .help = "`off`: nothing is loaded. `measure`: connections with it on at both ends carry "
		 "time and delay in a TCP option (kind 254, identifier 0xe5ca, 12 bytes of each "
		 "segment); the verb `pace` shows the delays, nothing is limited. `on`: their "
		 "windows and pacing rates are limited as well, so that the delay stays below "
		 "`threshold`."},
	{"cgroup", CONFIG_FIELD(text, struct config_pace_tcp_keys, cgroup),
	 .example = CGROUP_EXAMPLE, .check = check_cgroup,
	 .help = "Folder of the unified hierarchy whose connections are paced. All below it are "
		 "included, connections of others are not touched. Required unless the mode is "
		 "`off`."},
	{"threshold", CONFIG_FIELD(duration, struct config_pace_tcp_keys, threshold_ns),
	 .example = "50us", .least = ESC_PACE_THRESHOLD_MIN_NS, .most = ESC_PACE_THRESHOLD_MAX_NS,
	 .help = "Default: that of `pace`. It should be well above the delay of an idle path, and "
		 "ten times the error of the clocks. What is always there, an idle path's delay "
		 "and a clock's error, is not counted, up to a quarter of it: the least delay of "
		 "the last half second."},
};

const struct config_section config_pace_tcp_section = {
	.name = "pace.tcp",
	.summary = "Pacing of TCP: connections of one cgroup, by the one-way delay of their own "
		   "data. See TCP PACING.",
	.keys = tcp_keys,
	.key_count = CONFIG_COUNT_OF(tcp_keys),
	.offset = offsetof(struct config, pace.tcp),
	.check = check_tcp,
};

// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	const char *name = ((const struct pace_class_keys *)values)->name, *at = name;

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
	{"name", CONFIG_FIELD(text, struct pace_class_keys, name), .required = true,
	 .example = "storage", .most = 15, .check = check_class_name,
	 .help = "Letters, digits, `-`, `_` and `.`, at most 15."},
	{"weight", CONFIG_FIELD(number, struct pace_class_keys, weight), .fallback = "1",
	 .least = 1, .most = ESC_PACE_WEIGHT_MAX,
	 .help = "Of each queue pair or connection in the class."},
	{"threshold", CONFIG_FIELD(duration, struct pace_class_keys, threshold_ns),
	 .example = "200us", .least = ESC_PACE_THRESHOLD_MIN_NS, .most = ESC_PACE_THRESHOLD_MAX_NS,
	 .help = "Default: that of `pace`; for TCP that of `pace.tcp`."},
	{"dscp", .type = &dscps_type, .offset = offsetof(struct pace_class_keys, dscps),
	 .example = "26", .help = "One or more of 0 to 63, such as `26, 46`."},
	{"job", CONFIG_FIELD(text, struct pace_class_keys, job), .example = "'train-*'",
	 .help = "Shell pattern for the name of the job, as in `escapement qp`. For TCP: the job "
		 "of the cgroup."},
	{"cgroup", CONFIG_FIELD(text, struct pace_class_keys, cgroup), .example = "'*/web.slice/*'",
	 .help = "Shell pattern for the path of the cgroup, as in `escapement qp`. For TCP: from "
		 "the root of the unified hierarchy."},
	{"port", .type = &ports_type, .offset = offsetof(struct pace_class_keys, port_first),
	 .example = "50000-50999",
	 .help = "UDP source port, or a range of them. For TCP: the port of either end."},
	{},
};

static const struct config_list class_list = {
	.keys = class_keys,
	.least = 1,
	.most = ESC_PACE_CLASSES - 1,
	.entry_bytes = sizeof(struct pace_class_keys),
	.count_offset = offsetof(struct pace_keys, class_count),
};

/* --- pace --- */

static const char *const pace_modes[] = {"off", "on", NULL};

static const struct config_key keys[] = {
	{"mode", CONFIG_FIELD(word, struct pace_keys, on), .words = pace_modes, .fallback = "off",
	 .help = "`on`: the daemon starts in mode pace on every interface that can be paced, and "
		 "reports which cannot. `off`: no packet is held back. A reload changes the mode "
		 "only when this key has changed."},
	{"threshold", CONFIG_FIELD(duration, struct pace_keys, threshold_ns), .fallback = "50us",
	 .least = ESC_PACE_THRESHOLD_MIN_NS, .most = ESC_PACE_THRESHOLD_MAX_NS,
	 .help = "One-way delay above which packets are held; of the class `default`. It should be "
		 "well above the delay of an idle network, and the clocks' bound below a quarter "
		 "of it."},
	{"hold_max", CONFIG_FIELD(duration, struct pace_keys, hold_max_ns), .fallback = "40ms",
	 .least = ESC_PACE_HOLD_MIN_NS, .most = ESC_PACE_HOLD_MAX_NS,
	 .help = "No packet is held longer. It should be shorter than the queue pairs' "
		 "retransmission timeout, and longer than a whole window takes at the rate of one "
		 "of many senders."},
	{"line", CONFIG_FIELD(bit_rate, struct pace_keys, line_bps), .fallback = "auto",
	 .example = "25Gbit", .least = 8000, .most = 1000000000000,
	 .help = "Rate of the links, such as `25Gbit`. `auto`: as each interface reports it, and "
		 "10Gbit where it does not (virtual ones)."},
	{"classes", CONFIG_FIELD(list, struct pace_keys, classes), .list = &class_list,
	 .help = "Classes of flows, at most 15. A queue pair, or a TCP connection (`pace.tcp`), is "
		 "of the first class all of whose keys it matches, else of `default`."},
	{},
};

/* A class without a threshold has that of the section. */
static void check_pace(struct config_reading *reading, const struct config *config, void *values)
{
	struct pace_keys *pace = values;

	if (pace->on)
		config_require_key(reading, config, "mode", "pacing");
	for (size_t i = 0; i < pace->class_count; i++) {
		struct pace_class_keys *class = &pace->classes[i];

		class->own_threshold = class->threshold_ns;
		if (!class->own_threshold)
			class->threshold_ns = pace->threshold_ns;
	}
}

const struct config_section pace_section = {
	.name = "pace",
	.summary = "Pacing of RoCE: packets are held at the sender while the fabric's queues are "
		   "long. It needs the qdisc fq, see `pace` in escapement(1).",
	.keys = keys,
	.bytes = sizeof(struct pace_keys),
	.check = check_pace,
};

const struct pace_keys *pace_keys(const struct config *config)
{
	return config_section(config, &pace_section);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "pace.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maps/maps.h"
#include "base/units.h"
#include "yamltree.h"

__attribute__((format(printf, 3, 4))) static int fail(struct config_pace_fault *fault,
						      const char *key, const char *format, ...)
{
	va_list arguments;

	fault->key = key;
	va_start(arguments, format);
	if (vasprintf(&fault->what, format, arguments) < 0)
		fault->what = NULL;
	va_end(arguments);
	return -EINVAL;
}

static int take_time(struct config_pace_fault *fault, const char *key, const char *text,
		     uint64_t least_ns, uint64_t most_ns, uint64_t *ns)
{
	char low[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
	int err;

	if (!text)
		return 0;
	err = units_parse_duration(text, ns, NULL);
	if (err == -EINVAL)
		return fail(fault, key,
			    "`%s: %.64s` is not a duration; units are " UNITS_UNDERSTOOD
			    ", right behind the number, such as `50us`",
			    key, text);
	if (err || *ns < least_ns || *ns > most_ns)
		return fail(fault, key, "`%s: %.64s` is out of range; give %s to %s", key, text,
			    units_duration(low, least_ns), units_duration(high, most_ns));
	return 0;
}

static int take_line(struct config_pace_fault *fault, const char *text, uint64_t *out)
{
	double bps;

	if (!text)
		return 0;
	if (units_parse_bit_rate(text, &bps) || bps < 8e3 || bps / 8 > PAUSE_RATE_MAX_BPS)
		return fail(fault, "line",
			    "`line: %.64s` should be the rate of the interfaces' links, such as "
			    "`25Gbit` (kbit, Mbit, Gbit; at most 1Tbit)",
			    text);
	*out = (uint64_t)(bps / 8);
	return 0;
}

/* "26" or "26, 46". */
static int take_dscps(struct config_pace_fault *fault, const char *text, uint64_t *out)
{
	const char *at = text;

	while (at && *at) {
		unsigned long value = 64;
		char *end = NULL;

		if (isdigit((unsigned char)*at))
			value = strtoul(at, &end, 10);
		if (value > 63)
			return fail(fault, "dscp",
				    "`dscp: %.64s` should be numbers of 0 to 63, such as `26` or "
				    "`26, 46`",
				    text);
		*out |= 1ull << value;
		end += strspn(end, " ");
		at = end + (*end == ',');
		at += strspn(at, " ");
		if (*end && *end != ',')
			return fail(fault, "dscp",
				    "`dscp: %.64s`: write a comma between two numbers", text);
	}
	return 0;
}

/* "50000" or "50000-50999". */
static int take_ports(struct config_pace_fault *fault, const char *text,
		      struct config_pace_class *class)
{
	unsigned int first = 0, last = 0;
	int used = 0;

	if (!text)
		return 0;
	if (sscanf(text, "%5u%n", &first, &used) == 1 && !text[used])
		last = first;
	else if (sscanf(text, "%5u-%5u%n", &first, &last, &used) != 2 || text[used])
		first = 0;
	if (!first || first > last || last > 65535)
		return fail(fault, "port",
			    "`port: %.64s` should be a port or a range, such as `50000` or "
			    "`50000-50999`",
			    text);
	class->port_first = first;
	class->port_last = last;
	return 0;
}

static int take_text(const char *given, char **out)
{
	*out = given ? strdup(given) : NULL;
	return given && !*out ? -ENOMEM : 0;
}

static int take_name(struct config_pace_fault *fault, const struct config *config, const char *name)
{
	for (const char *at = name; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr("-_.", *at))
			return fail(fault, "name",
				    "`name: %s`: a class is named by letters, digits, `-`, `_` and "
				    "`.`",
				    name);
	if (!strcmp(name, "default"))
		return fail(fault, "name",
			    "`name: default` is the class of what fits none; set its threshold by "
			    "`pace.threshold`");
	for (size_t i = 0; i < config->pace.class_count; i++)
		if (!strcmp(config->pace.classes[i].name, name))
			return fail(fault, "name", "class `%s` is listed twice; keep one", name);
	return 0;
}

static int take_class(struct config_pace_fault *fault, const struct config_raw_pace_class *raw,
		      struct config *config)
{
	struct config_pace_class *class = &config->pace.classes[config->pace.class_count];
	int err = take_name(fault, config, raw->name);

	class->weight = 1;
	class->threshold_ns = config->pace.threshold_ns;
	class->own_threshold = raw->threshold != NULL;
	if (!err && raw->weight && (*raw->weight < 1 || *raw->weight > ESC_PACE_WEIGHT_MAX))
		err = fail(fault, "weight", "`weight: %llu` is out of range; give 1 to %d",
			   (unsigned long long)*raw->weight, ESC_PACE_WEIGHT_MAX);
	if (!err && raw->weight)
		class->weight = *raw->weight;
	if (!err)
		err = take_time(fault, "threshold", raw->threshold, ESC_PACE_THRESHOLD_MIN_NS,
				ESC_PACE_THRESHOLD_MAX_NS, &class->threshold_ns);
	if (!err)
		err = take_dscps(fault, raw->dscp, &class->dscps);
	if (!err)
		err = take_ports(fault, raw->port, class);
	if (err)
		return err;
	config->pace.class_count++; /* what it holds is freed from here on */
	err = take_text(raw->name, &class->name);
	if (!err)
		err = take_text(raw->job, &class->job);
	if (!err)
		err = take_text(raw->cgroup, &class->cgroup);
	return err;
}

static int take_tcp(struct config_pace_fault *fault, const struct config_raw_pace_tcp *raw,
		    struct config *config)
{
	int err;

	config->pace.tcp.mode = raw->mode;
	config->pace.tcp.threshold_ns = config->pace.threshold_ns;
	err = take_time(fault, "threshold", raw->threshold, ESC_PACE_THRESHOLD_MIN_NS,
			ESC_PACE_THRESHOLD_MAX_NS, &config->pace.tcp.threshold_ns);
	if (err)
		return err;
	if (raw->cgroup && raw->cgroup[0] != '/')
		return fail(fault, "tcp",
			    "`cgroup: %.64s` should be a folder of the unified hierarchy, such as "
			    "`/sys/fs/cgroup/system.slice`",
			    raw->cgroup);
	if (raw->mode != CONFIG_PACE_TCP_OFF && !raw->cgroup)
		return fail(fault, "tcp",
			    "`tcp` needs a `cgroup`: the folder of the unified hierarchy whose "
			    "connections it is for, such as `/sys/fs/cgroup/system.slice`");
	return take_text(raw->cgroup, &config->pace.tcp.cgroup);
}

int config_pace_take(const struct config_raw_pace *raw, struct config *config,
		     struct config_pace_fault *fault)
{
	int err;

	config->pace.mode = raw->mode;
	config->pace.threshold_ns = ESC_PACE_THRESHOLD_DEFAULT_NS;
	config->pace.hold_max_ns = ESC_PACE_HOLD_DEFAULT_NS;
	err = take_time(fault, "threshold", raw->threshold, ESC_PACE_THRESHOLD_MIN_NS,
			ESC_PACE_THRESHOLD_MAX_NS, &config->pace.threshold_ns);
	if (!err)
		err = take_time(fault, "hold_max", raw->hold_max, ESC_PACE_HOLD_MIN_NS,
				ESC_PACE_HOLD_MAX_NS, &config->pace.hold_max_ns);
	if (!err)
		err = take_line(fault, raw->line, &config->pace.line_Bps);
	if (!err)
		err = take_tcp(fault, &raw->tcp, config);
	if (err || !raw->class_count)
		return err;
	config->pace.classes = calloc(raw->class_count, sizeof(*config->pace.classes));
	if (!config->pace.classes)
		return -ENOMEM;
	for (size_t i = 0; !err && i < raw->class_count; i++) {
		fault->in_class = true;
		fault->index = i;
		err = take_class(fault, &raw->classes[i], config);
	}
	return err;
}

unsigned int config_pace_line(const struct yamltree_node *root,
			      const struct config_pace_fault *fault)
{
	const struct yamltree_child *child = yamltree_get(root, "pace"), *list, *key;
	const struct yamltree_node *where;

	if (!child)
		return 1;
	list = yamltree_get(child->node, "classes");
	where = fault->in_class && list ? list->node->children[fault->index].node : child->node;
	key = yamltree_get(where, fault->key);
	if (key)
		return key->line;
	return fault->in_class && list ? list->node->children[fault->index].line : child->line;
}

void config_pace_free(struct config *config)
{
	for (size_t i = 0; i < config->pace.class_count; i++) {
		free(config->pace.classes[i].name);
		free(config->pace.classes[i].job);
		free(config->pace.classes[i].cgroup);
	}
	free(config->pace.classes);
	free(config->pace.tcp.cgroup);
}

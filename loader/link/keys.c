// SPDX-License-Identifier: BSD-2-Clause
/* The section `links` of the configuration. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "internal.h"

#define WITHIN_MOST_NS (7 * 24 * LINK_HOUR_NS)

static int refuse(struct config_reading *reading, const struct config_key *key, const char *text)
{
	return config_refuse(reading, key->name,
			     "`%s: %.64s` should be at most %d of FLAPS/TIME, with commas between: "
			     "`8/1h, 3/12h` is more than 8 flaps within an hour or more than 3 "
			     "within 12 (flaps up to %d, a time up to a week); `any` is each flap",
			     key->name, text, LINK_THRESHOLDS_MAX, LINK_MORE_THAN_MAX);
}

/* "8/1h", or "any". */
static int parse_one(const char *text, struct link_threshold *out)
{
	unsigned long more_than;
	char *end;

	*out = (struct link_threshold){0, LINK_HOUR_NS};
	if (!strcmp(text, "any"))
		return 0;
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	more_than = strtoul(text, &end, 10);
	if (*end != '/' || more_than > LINK_MORE_THAN_MAX)
		return -EINVAL;
	out->more_than = more_than;
	if (units_parse_duration(end + 1, &out->within_ns, NULL) || !out->within_ns ||
	    out->within_ns > WITHIN_MOST_NS)
		return -EINVAL;
	return 0;
}

/* "8/1h, 3/12h" */
static int parse_thresholds(struct config_reading *reading, const struct config_key *key,
			    const char *text, void *value)
{
	struct link_thresholds out = {};
	const char *at = text;

	for (;;) {
		size_t bytes = strcspn(at, ",");
		char one[32];

		while (bytes && isspace((unsigned char)*at)) {
			at++;
			bytes--;
		}
		while (bytes && isspace((unsigned char)at[bytes - 1]))
			bytes--;
		snprintf(one, sizeof(one), "%.*s", (int)bytes, at);
		if (bytes >= sizeof(one) || out.count == LINK_THRESHOLDS_MAX ||
		    parse_one(one, &out.list[out.count]))
			return refuse(reading, key, text);
		out.count++;
		at += strcspn(at, ",");
		if (!*at++)
			break;
	}
	*(struct link_thresholds *)value = out;
	return 0;
}

static json_t *show_thresholds(const struct config_key *key, const void *value)
{
	const struct link_thresholds *thresholds = value;
	char text[LINK_THRESHOLDS_MAX * (CONFIG_NUMBER_BYTES + 16)] = "";

	(void)key;
	for (uint32_t i = 0; i < thresholds->count; i++) {
		char one[CONFIG_NUMBER_BYTES + 16], within[CONFIG_NUMBER_BYTES];

		config_format_duration(within, (int64_t)thresholds->list[i].within_ns);
		snprintf(one, sizeof(one), "%u/%s", thresholds->list[i].more_than, within);
		text_append(text, sizeof(text), ", ", one);
	}
	return json_string(text);
}

static const struct config_type thresholds_type = {"thresholds", parse_thresholds, show_thresholds,
						   NULL, NULL};

static const struct config_key keys[] = {
	{"thresholds", .type = &thresholds_type, .offset = offsetof(struct link_keys, thresholds),
	 .bytes = sizeof(struct link_thresholds), .fallback = "8/1h",
	 .help = "How often a link may flap. `8/1h, 3/12h`: more than 8 flaps within any hour, or "
		 "more than 3 within any 12 hours, raise its alarm; `any`: each flap does."},
	{"stable_after", CONFIG_FIELD(duration, struct link_keys, stable_after_ns),
	 .fallback = "1h", .least = CONFIG_S, .most = 7 * 24 * 3600 * CONFIG_S,
	 .help = "The alarm of a link that has had its carrier without a change for this time "
		 "ends. `escapement links ack` ends it before."},
	{"down_after", CONFIG_FIELD(duration, struct link_keys, down_after_ns), .fallback = "10s",
	 .least = 0, .most = 3600 * CONFIG_S,
	 .help = "A link that should have a carrier and has had none for this time has the alarm "
		 "`down`; it is a finding at once."},
	{"settle", CONFIG_FIELD(duration, struct link_keys, settle_ns), .fallback = "30s",
	 .least = 0, .most = 3600 * CONFIG_S,
	 .help = "What a link does for this time after the boot, after it was set up by an "
		 "operator, after its driver was loaded, and after the kill switch is no flap."},
	{},
};

const struct config_section link_section = {
	.name = "links",
	.summary = "When the links of `interfaces` raise an alarm; see escapementd(8).",
	.keys = keys,
	.bytes = sizeof(struct link_keys),
};

const struct link_keys *link_keys(const struct config *config)
{
	return config_section(config, &link_section);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The section `baseline` of the configuration. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define LEAST_PERCENT 5
#define MOST_PERCENT 90

/* "10%" */
static int parse_share(struct config_reading *reading, const struct config_key *key,
		       const char *text, void *value)
{
	char *end;
	double percent = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;

	if (percent < LEAST_PERCENT || percent > MOST_PERCENT || strcmp(end, "%") != 0)
		return config_refuse(reading, key->name,
				     "`%s: %.64s` should be %d%% to %d%%, such as `10%%`",
				     key->name, text, LEAST_PERCENT, MOST_PERCENT);
	*(double *)value = percent / 100;
	return 0;
}

static json_t *show_share(const struct config_key *key, const void *value)
{
	(void)key;
	return json_sprintf("%.10g%%", *(const double *)value * 100);
}

static const struct config_type share_type = {"share", parse_share, show_share, NULL, NULL};

#define KEY(kind, member) CONFIG_FIELD(kind, struct baseline_keys, member)
static const struct config_key keys[] = {
	{"mode", KEY(word, on), .words = (const char *const[]){"off", "on", NULL}, .fallback = "on",
	 .help = "`off`: nothing is learned or compared; what was learned is kept."},
	{"slower", .type = &share_type, .offset = offsetof(struct baseline_keys, slower),
	 .bytes = sizeof(double), .fallback = "10%",
	 .help = "By how much longer a delay, or lower a throughput, is a finding, when it is so "
		 "for `after`. It is found from three quarters of this on. A series whose usual "
		 "values vary by more needs more, and a delay has to exceed the clock's bounds."},
	{"after", KEY(duration, after_ns), .fallback = "10m", .least = 10 * CONFIG_S,
	 .most = 24 * 3600 * CONFIG_S,
	 .help = "Each tenth of this time has one value: the least delay, the highest rate. Nine "
		 "of ten have to lean to slower, and eight to show it. With another value what was "
		 "learned is discarded at the next start."},
	{"learn", KEY(duration, learn_ns), .fallback = "24h", .least = CONFIG_S,
	 .most = 30 * 24 * 3600 * CONFIG_S,
	 .help = "How long values are learned before they are compared. A day has all hours of a "
		 "load that changes with the time of the day."},
	{"file", KEY(path, file), .fallback = "/var/lib/escapement/baseline", .fixed = true,
	 .help = "Where they are kept over restarts, written every 10 minutes and at the end."},
	{},
};

const struct config_section baseline_section = {
	.name = "baseline",
	.summary = "When delays and throughput are reported as slower than they usually are; see "
		   "escapementd(8).",
	.keys = keys,
	.bytes = sizeof(struct baseline_keys),
};

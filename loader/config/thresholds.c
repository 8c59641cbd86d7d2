// SPDX-License-Identifier: BSD-2-Clause
/* The entries of `alerts.thresholds`: what is compared, with which limit, of which things. */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "internal.h"

#define THRESHOLDS_MAX 32
#define NAME_BYTES 48
#define SELECTOR_BYTES 128
#define FLOOR "floor"

const struct config_quantity config_quantities[] = {
#define X(id, name_, unit_, selectors_, help_)                                                     \
	[CONFIG_OF_##id] = {name_, CONFIG_UNIT_##unit_, selectors_},
	CONFIG_QUANTITIES(X)
#undef X
};

static const char *const quantity_names[] = {
#define X(id, name_, unit_, selectors_, help_) name_,
	CONFIG_QUANTITIES(X)
#undef X
		NULL,
};

/* --- of: counted from 1, so that 0 is what was refused --- */

static int parse_of(struct config_reading *reading, const struct config_key *key, const char *text,
		    void *value)
{
	int err = config_type_word.parse(reading, key, text, value);

	if (!err)
		++*(unsigned int *)value;
	return err;
}

static json_t *show_of(const struct config_key *key, const void *value)
{
	unsigned int of = *(const unsigned int *)value;

	(void)key;
	return of ? json_string(quantity_names[of - 1]) : NULL;
}

static const struct config_type of_type = {NULL, parse_of, show_of, NULL, NULL};

/* --- limits --- */

static const char *const unit_examples[] = {
	[CONFIG_UNIT_TIME] = "500us",
	[CONFIG_UNIT_SHARE] = "0.1%",
	[CONFIG_UNIT_COUNT] = "8",
};

static int refuse_limit(struct config_reading *reading, const struct config_key *key,
			const char *text)
{
	return config_refuse(reading, key->name,
			     "`%s: %.64s` is no limit; write a duration (`500us`), a share in "
			     "percent (`0.1%%`), a count (`8`), or a duration above the least "
			     "delay (`" FLOOR "+500us`)",
			     key->name, text);
}

/* "500us", "0.1%", "8". */
static int parse_amount(const char *text, struct config_limit *out)
{
	size_t digits = strspn(text, "0123456789."), bytes = strlen(text);
	uint64_t ns;
	char *end;

	if (!isdigit((unsigned char)*text) || bytes > 24)
		return -EINVAL;
	if (!text[digits] || !strcmp(text + digits, "%")) {
		out->unit = text[digits] ? CONFIG_UNIT_SHARE : CONFIG_UNIT_COUNT;
		out->number = strtod(text, &end) / (text[digits] ? 100 : 1);
		return end == text + digits ? 0 : -EINVAL;
	}
	out->unit = CONFIG_UNIT_TIME;
	if (units_parse_duration(text, &ns, NULL) || ns > 3600 * (uint64_t)CONFIG_S)
		return -EINVAL;
	out->number = (double)ns;
	return 0;
}

static int parse_limit(struct config_reading *reading, const struct config_key *key,
		       const char *text, void *value)
{
	struct config_limit out = {.given = true};
	const char *at = text;

	if (!strncmp(at, FLOOR, strlen(FLOOR))) {
		at += strlen(FLOOR);
		at += strspn(at, " ");
		if (*at == '*')
			return config_refuse(
				reading, key->name,
				"`%s: %.64s`: a multiple of the least delay is no limit, since "
				"that is known within the clock's bound alone, which a "
				"difference leaves out; write `" FLOOR "+500us`",
				key->name, text);
		if (*at++ != '+')
			return refuse_limit(reading, key, text);
		at += strspn(at, " ");
		out.over_floor = true;
	}
	if (parse_amount(at, &out) || (out.over_floor && out.unit != CONFIG_UNIT_TIME))
		return refuse_limit(reading, key, text);
	*(struct config_limit *)value = out;
	return 0;
}

void config_format_limit(char out[CONFIG_LIMIT_BYTES], const struct config_limit *limit)
{
	char number[CONFIG_NUMBER_BYTES];

	if (limit->unit == CONFIG_UNIT_TIME)
		config_format_duration(number, (int64_t)limit->number);
	else
		snprintf(number, sizeof(number),
			 limit->unit == CONFIG_UNIT_SHARE ? "%.10g%%" : "%.10g",
			 limit->number * (limit->unit == CONFIG_UNIT_SHARE ? 100 : 1));
	snprintf(out, CONFIG_LIMIT_BYTES, "%s%s", limit->over_floor ? FLOOR "+" : "", number);
}

static json_t *show_limit(const struct config_key *key, const void *value)
{
	const struct config_limit *limit = value;
	char text[CONFIG_LIMIT_BYTES];

	(void)key;
	if (!limit->given)
		return NULL;
	config_format_limit(text, limit);
	return json_string(text);
}

static const struct config_type limit_type = {"limit", parse_limit, show_limit, NULL, NULL};

/* --- an entry's values against each other --- */

static void check_limit(struct config_reading *reading, const struct config_key *key, void *values)
{
	const struct config_threshold *one = values;
	const struct config_limit *limit =
		(const struct config_limit *)((const char *)values + key->offset);
	const struct config_quantity *quantity;
	char text[CONFIG_LIMIT_BYTES], above[CONFIG_LIMIT_BYTES];

	if (!one->of)
		return;
	quantity = &config_quantities[one->of - 1];
	config_format_limit(text, limit);
	if (limit->unit != quantity->unit) {
		config_refuse(reading, key->name,
			      "`%s: %s` has not the unit of %s; write `%s: %s`, for example",
			      key->name, text, quantity->name, key->name,
			      unit_examples[quantity->unit]);
		return;
	}
	if (limit->over_floor && !(quantity->selectors & CONFIG_HAS_FLOOR)) {
		config_refuse(reading, key->name,
			      "`%s: %s`: %s has no least value to be compared with; write `%s: "
			      "%s`, for example",
			      key->name, text, quantity->name, key->name,
			      unit_examples[quantity->unit]);
		return;
	}
	if (limit->unit == CONFIG_UNIT_SHARE && limit->number >= 1)
		config_refuse(reading, key->name,
			      "`%s: %s` is never exceeded; give less than 100%%", key->name, text);
	if (limit != &one->clear || !one->above.given)
		return;
	config_format_limit(above, &one->above);
	if (limit->over_floor != one->above.over_floor)
		config_refuse(reading, key->name,
			      "`clear: %s` and `above: %s` should both be above the " FLOOR
			      ", or neither",
			      text, above);
	else if (limit->number > one->above.number)
		config_refuse(reading, key->name,
			      "`clear: %s` is more than `above: %s`, so that it would end at once; "
			      "give at most that, or take the line out for 80%% of it",
			      text, above);
}

static void check_selector(struct config_reading *reading, const struct config_key *key,
			   void *values)
{
	static const char *const names[] = {"plane", "rail", "job", "peer"};
	const struct config_threshold *one = values;
	const struct config_quantity *quantity;
	char list[64] = "";

	if (!one->of)
		return;
	quantity = &config_quantities[one->of - 1];
	for (size_t i = 0; i < CONFIG_COUNT_OF(names); i++) {
		bool applies = quantity->selectors >> i & 1;

		if (applies && !strcmp(key->name, names[i]))
			return;
		if (applies)
			text_append(list, sizeof(list), ", ", names[i]);
	}
	/* The default, written out. */
	if (!strcmp(key->name, names[0]) && one->plane == CONFIG_ANY_PLANE)
		return;
	config_refuse(reading, key->name, "`%s` does not select among %s; %s%s", key->name,
		      quantity->name, *list ? "it is selected by " : "take the line out", list);
}

/* It is a label of a metric and part of a finding's name. */
static void check_name(struct config_reading *reading, const struct config_key *key, void *values)
{
	const char *name = ((const struct config_threshold *)values)->name;

	for (const char *at = name; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr("_-.", *at)) {
			config_refuse(reading, key->name,
				      "`name: %.64s` should have letters, digits, `_`, `-` and `.` "
				      "alone",
				      name);
			return;
		}
}

/* --- the keys --- */

#define ENTRY(kind, member) CONFIG_FIELD(kind, struct config_threshold, member)
#define X(id, name_, unit_, selectors_, help_) " `" name_ "`: " help_
static const struct config_key threshold_keys[] = {
	{"name", ENTRY(text, name), .required = true, .example = "slow", .most = NAME_BYTES,
	 .check = check_name, .help = "Its name in events, findings and metrics; none twice."},
	{"of", .type = &of_type, .offset = offsetof(struct config_threshold, of),
	 .bytes = sizeof(unsigned int), .required = true, .example = "qp_owd_p99",
	 .words = quantity_names, .help = "What is compared." CONFIG_QUANTITIES(X)},
	{"above", .type = &limit_type, .offset = offsetof(struct config_threshold, above),
	 .required = true, .example = "500us", .check = check_limit,
	 .help = "It is exceeded by more than this. A duration, a share (`0.1%`) or a count, as "
		 "the quantity has it. `floor+500us`: this much above the least delay of the same "
		 "thing within the last hour, in which a constant error of the clock cancels. A "
		 "delay exceeds it when it does so by more than the clock's bound."},
	{"clear", .type = &limit_type, .offset = offsetof(struct config_threshold, clear),
	 .example = "400us", .check = check_limit,
	 .help = "It ends at this value, or below. Default: 80% of `above`."},
	{"raise_after", ENTRY(duration, raise_after_ns), .fallback = "2s",
	 .most = 24 * 3600 * CONFIG_S,
	 .help = "It has to be exceeded in each second for this time. A second without a value "
		 "begins this time again."},
	{"clear_after", ENTRY(duration, clear_after_ns), .fallback = "10s",
	 .most = 24 * 3600 * CONFIG_S, .help = "The same for its end."},
	{"severity", ENTRY(word, severity),
	 .words = (const char *const[]){"info", "notice", "warning", "critical", NULL},
	 .fallback = "warning", .help = "Of the event that begins it, and of the finding."},
	{"plane", ENTRY(word, plane),
	 .words = (const char *const[]){"backend", "frontend", "any", NULL}, .fallback = "any",
	 .check = check_selector, .help = "Of interfaces in this plane alone."},
	{"rail", ENTRY(text, rail), .example = "1", .most = SELECTOR_BYTES, .check = check_selector,
	 .help = "Of NICs of this host alone that have this label `rail` in `members`."},
	{"job", ENTRY(text, job), .example = "job_1234", .most = SELECTOR_BYTES,
	 .check = check_selector, .help = "Of queue pairs of this job alone, as `job` lists it."},
	{"peer", ENTRY(text, peer), .example = "h2", .most = SELECTOR_BYTES,
	 .check = check_selector, .help = "Of what goes to, or comes from, this host alone."},
	{},
};
#undef X

const struct config_list config_threshold_list = {
	.keys = threshold_keys,
	.most = THRESHOLDS_MAX,
	.entry_bytes = sizeof(struct config_threshold),
	.count_offset = offsetof(struct config_alerts, threshold_count),
};

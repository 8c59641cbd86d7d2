// SPDX-License-Identifier: BSD-2-Clause
/* Events, `thresholds` in `status`, and the metrics. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"

#define THRESHOLD_METRICS(X)                                                                       \
	X(EXCEEDED, "threshold_exceeded", GAUGE,                                                   \
	  "Things that exceed one of alerts.thresholds now.")                                      \
	X(KNOWN, "threshold_known", GAUGE,                                                         \
	  "Things that had a value to be compared with it in the last second.")
enum { THRESHOLD_METRICS(METRIC_ENUM) };
const struct metric threshold_metrics[] = {THRESHOLD_METRICS(METRIC){}};
const struct event_kind threshold_events[] = {THRESHOLD_EVENTS(EVENT_KIND){}};

/* --- events --- */

/* "value_ns", "value_share" or "value". */
static void put_number(json_t *object, const char *key, enum config_unit unit, double number)
{
	static const char *const ends[] = {
		[CONFIG_UNIT_TIME] = "_ns",
		[CONFIG_UNIT_SHARE] = "_share",
		[CONFIG_UNIT_COUNT] = "",
	};
	char name[32];

	snprintf(name, sizeof(name), "%s%s", key, ends[unit]);
	if (unit == CONFIG_UNIT_SHARE)
		json_put_real(object, name, rint(number * 1e6) / 1e6);
	else if (isfinite(number))
		json_put_integer(object, name, (int64_t)rint(number));
}

static json_t *seen_json(const struct threshold_rule *rule, const struct threshold_reading *reading)
{
	const struct config_quantity *quantity = &config_quantities[rule->is.of - 1];
	json_t *seen = json_object();

	json_put_text(seen, "threshold", rule->is.name);
	json_put_text(seen, "of", quantity->name);
	if (!reading)
		return seen;
	put_number(seen, "value", quantity->unit, reading->value);
	if (reading->bound > 0)
		put_number(seen, "bound", quantity->unit, reading->bound);
	return seen;
}

static json_t *expected_json(const struct threshold_rule *rule)
{
	char above[CONFIG_LIMIT_BYTES];

	config_format_limit(above, &rule->is.above);
	return json_pack("{s:s}", "at_most", above);
}

static void add(const struct thresholds *thresholds, const struct threshold_rule *rule,
		const struct threshold_subject *subject, struct event *event)
{
	event->subject = subject->subject;
	event->part = subject->part;
	event->about = threshold_about(rule->is.of - 1);
	event->qp = subject->has_qp ? &subject->qp : NULL;
	events_add(thresholds->core->events, event);
}

void threshold_report_raised(const struct thresholds *thresholds, const struct threshold_rule *rule,
			     const struct threshold_subject *subject,
			     const struct threshold_reading *reading, double floor)
{
	enum event_severity severity = rule->is.severity;
	json_t *seen = seen_json(rule, reading);

	put_number(seen, "floor", config_quantities[rule->is.of - 1].unit, floor);
	add(thresholds, rule, subject,
	    &(struct event){.kind = &threshold_events[THRESHOLD_EXCEEDED],
			    .severity = &severity,
			    .remedy = threshold_remedy(rule->is.of - 1),
			    .seen = seen,
			    .expected = expected_json(rule)});
}

void threshold_report_cleared(const struct thresholds *thresholds,
			      const struct threshold_rule *rule,
			      const struct threshold_subject *subject,
			      const struct threshold_reading *reading, const char *reason)
{
	double seconds = (double)(thresholds->now_ns - subject->raised_ns) / 1e9;

	add(thresholds, rule, subject,
	    &(struct event){.kind = &threshold_events[THRESHOLD_CLEARED],
			    .seen = seen_json(rule, reading),
			    .expected = expected_json(rule),
			    .result = json_pack("{s:s, s:f}", "reason", reason, "duration_s",
						rint(seconds * 1e3) / 1e3)});
}

/* --- status --- */

static json_t *rule_json(const struct threshold_rule *rule)
{
	json_t *object = json_object(), *expected = expected_json(rule);

	json_put_text(object, "threshold", rule->is.name);
	json_put_text(object, "of", config_quantities[rule->is.of - 1].name);
	json_put_text(object, "above", json_text(expected, "at_most"));
	json_put_count(object, "exceeded", rule->exceeded);
	json_put_count(object, "known", rule->known);
	json_put_count(object, "unknown", rule->count - rule->known);
	if (rule->left_out)
		json_put_count(object, "left_out", rule->left_out);
	json_decref(expected);
	return object;
}

void threshold_put_status(void *self, json_t *status)
{
	const struct thresholds *thresholds = self;
	json_t *object = json_object(), *list = json_array();
	size_t exceeded = 0, left_out = 0;

	for (size_t i = 0; i < thresholds->count; i++) {
		exceeded += thresholds->rules[i].exceeded;
		left_out += thresholds->rules[i].left_out;
		json_array_append_new(list, rule_json(&thresholds->rules[i]));
	}
	json_put_count(object, "count", thresholds->count);
	json_put_count(object, "exceeded", exceeded);
	if (left_out)
		json_put_count(object, "left_out", left_out);
	json_put(object, "list", list);
	json_put(status, "thresholds", object);
}

/* --- metrics --- */

void threshold_write_metrics(void *self, FILE *out)
{
	struct prom_family *exceeded = FAMILY_OF(&threshold_metrics[EXCEEDED]);
	struct prom_family *known = FAMILY_OF(&threshold_metrics[KNOWN]);
	const struct thresholds *thresholds = self;

	for (size_t i = 0; i < thresholds->count; i++)
		prom_count(exceeded, thresholds->rules[i].exceeded, "threshold",
			   thresholds->rules[i].is.name, NULL);
	for (size_t i = 0; i < thresholds->count; i++)
		prom_count(known, thresholds->rules[i].known, "threshold",
			   thresholds->rules[i].is.name, NULL);
}

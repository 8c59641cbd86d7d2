// SPDX-License-Identifier: BSD-2-Clause
/* The verb findings, `findings` in `status`, and the metrics. */
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/json.h"
#include "internal.h"

#define FINDING_METRICS(X)                                                                         \
	X(FINDINGS, "findings", GAUGE,                                                             \
	  "Problems that there are now, one a fault, by the kind of the worst event of each.")     \
	X(LEFT_OUT, "findings_left_out_total", COUNTER,                                            \
	  "Conditions for which the table of findings had no room.")
enum { FINDING_METRICS(METRIC_ENUM) };
const struct metric finding_metrics[] = {FINDING_METRICS(METRIC){}};

/* --- as JSON --- */

static void copy(json_t *object, const char *to, const json_t *event, const char *from)
{
	json_t *value = json_object_get(event, from);

	if (value)
		json_object_set(object, to, value);
}

/* Of the newest event of a condition that has it. */
static void copy_newest(json_t *object, const struct finding_condition *condition, const char *key)
{
	copy(object, key, condition->began, key);
	copy(object, key, condition->newest, key);
}

/* The evidence of the leading one is the finding's. */
static json_t *condition_json(const struct finding_condition *condition, bool leading)
{
	json_t *object = json_object();

	copy(object, "kind", condition->newest, "begins");
	json_put_text(object, "severity", event_severity_name(condition->severity));
	copy(object, "since_ns", condition->began, "time_ns");
	copy(object, "since_fabric_ns", condition->began, "fabric_ns");
	copy(object, "bound_ns", condition->began, "bound_ns");
	copy(object, "event", condition->newest, "id");
	if (!leading)
		copy_newest(object, condition, "seen");
	return object;
}

static json_t *conditions_json(const struct findings *findings, const struct finding *finding)
{
	json_t *list = json_array();

	for (size_t i = 0; i < findings->count; i++) {
		const struct finding_condition *condition = &findings->list[i];

		if (condition->hash == finding->hash &&
		    !strcmp(json_text(condition->began, "fault"), finding->fault))
			json_array_append_new(
				list, condition_json(condition, condition == finding->leading));
	}
	return list;
}

static void put_evidence(json_t *object, const struct finding_condition *condition)
{
	const json_t *newest = json_object_get(condition->newest, "seen");
	const json_t *began = json_object_get(condition->began, "seen");
	json_t *evidence = json_copy((json_t *)(newest ? newest : began));
	json_t *members = json_incref(json_object_get(evidence, "members"));

	json_object_del(evidence, "members");
	json_put(object, "members", members ? members : json_array());
	json_put(object, "evidence", evidence ? evidence : json_object());
}

static json_t *finding_json(const struct findings *findings, const struct finding *finding)
{
	static const char *const same[] = {"subject", "about", "host", "job"};
	static const char *const later[] = {"expected", "remedy", "doc"};
	const struct finding_condition *leading = finding->leading;
	const json_t *began = finding->first->began;
	uint64_t since_ns = json_count(began, "time_ns"), now_ns = time_realtime_ns();
	json_t *object = json_object();

	json_put_text(object, "id", finding->fault);
	copy(object, "kind", leading->newest, "begins");
	json_put_text(object, "severity", event_severity_name(finding->severity));
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		copy_newest(object, leading, same[i]);
	copy(object, "since_fabric_ns", began, "fabric_ns");
	copy(object, "bound_ns", began, "bound_ns");
	json_put_count(object, "since_ns", since_ns);
	json_put_count(object, "age_ns", now_ns > since_ns ? now_ns - since_ns : 0);
	put_evidence(object, leading);
	json_put(object, "conditions", conditions_json(findings, finding));
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		copy_newest(object, leading, later[i]);
	return object;
}

json_t *findings_list(const struct findings *findings, const char *job)
{
	json_t *list = json_array();
	size_t count;
	struct finding *made = findings_make(findings, &count);

	for (size_t i = 0; i < count; i++)
		if (!made[i].is_member &&
		    (!job || !strcmp(json_text(made[i].leading->newest, "job"), job)))
			json_array_append_new(list, finding_json(findings, &made[i]));
	free(made);
	return list;
}

/* --- the verb --- */

static json_t *one_json(const struct findings *findings, const char *id)
{
	json_t *found = NULL;
	size_t count;
	struct finding *made = findings_make(findings, &count);

	for (size_t i = 0; i < count && !found; i++)
		if (!strcmp(made[i].fault, id))
			found = finding_json(findings, &made[i]);
	free(made);
	return found;
}

static json_t *reply_findings(void *self, struct request *request)
{
	const char *id = request_text(request, "id", NULL);
	const struct findings *findings = self;
	json_t *object = json_object(), *list, *one;

	if (id) {
		one = one_json(findings, id);
		if (!one) {
			json_decref(object);
			return request_misuse(request,
					      "no finding is `%.128s` now; `escapement findings` "
					      "lists them, and `escapement events --subject` has "
					      "what has ended",
					      id);
		}
		list = json_pack("[o]", one);
		json_put_bool(object, "whole", true);
	} else {
		list = findings_list(findings, request_text(request, "job", NULL));
	}
	json_put_count(object, "count", json_array_size(list));
	json_put(object, "findings", list);
	if (findings->left_out)
		json_put_count(object, "left_out", findings->left_out);
	return object;
}

const struct verb_handler finding_verb_handlers[] = {{"findings", reply_findings}, {}};

/* --- status and metrics --- */

void finding_put_status(void *self, json_t *status)
{
	const struct findings *findings = self;
	json_t *list = findings_list(findings, NULL), *worst = json_array_get(list, 0);
	json_t *object = json_object();

	json_put_count(object, "count", json_array_size(list));
	copy(object, "worst", worst, "id");
	copy(object, "kind", worst, "kind");
	copy(object, "severity", worst, "severity");
	json_put(status, "findings", object);
	json_decref(list);
}

/* A sample of each pair of kind and severity. */
void finding_write_metrics(void *self, FILE *out)
{
	const struct findings *findings = self;
	struct prom_family *family = FAMILY_OF(&finding_metrics[FINDINGS]);
	json_t *list = findings_list(findings, NULL), *counts = json_object(), *of_kind, *number;
	const char *kind, *severity;

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *one = json_array_get(list, i);

		kind = json_text(one, "kind");
		severity = json_text(one, "severity");
		if (!json_object_get(counts, kind))
			json_put(counts, kind, json_object());
		of_kind = json_object_get(counts, kind);
		json_put_count(of_kind, severity, json_count(of_kind, severity) + 1);
	}
	json_object_foreach (counts, kind, of_kind)
		json_object_foreach (of_kind, severity, number)
			prom_count(family, (uint64_t)json_integer_value(number), "kind", kind,
				   "severity", severity, NULL);
	json_decref(counts);
	json_decref(list);
	prom_count(FAMILY_OF(&finding_metrics[LEFT_OUT]), findings->left_out, NULL);
}

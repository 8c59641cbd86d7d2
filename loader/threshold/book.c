// SPDX-License-Identifier: BSD-2-Clause
/* Thresholds, and the state of each thing that each is applied to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"
#include "job/job.h"

#define CLEAR_SHARE 0.8 /* of `above`, without `clear` */

/* --- thresholds --- */

static bool text_equals(const char *one, const char *two)
{
	return one && two ? !strcmp(one, two) : one == two;
}

static bool limit_equals(const struct config_limit *one, const struct config_limit *two)
{
	return one->given == two->given && one->over_floor == two->over_floor &&
	       one->unit == two->unit && one->number == two->number;
}

/* But for the name. */
static bool rule_equals(const struct config_threshold *one, const struct config_threshold *two)
{
	return one->of == two->of && limit_equals(&one->above, &two->above) &&
	       limit_equals(&one->clear, &two->clear) &&
	       one->raise_after_ns == two->raise_after_ns &&
	       one->clear_after_ns == two->clear_after_ns && one->severity == two->severity &&
	       one->plane == two->plane && text_equals(one->rail, two->rail) &&
	       text_equals(one->job, two->job) && text_equals(one->peer, two->peer);
}

static int copy_text(char **out, const char *text)
{
	*out = text ? strdup(text) : NULL;
	return text && !*out ? -ENOMEM : 0;
}

static int rule_copy(struct threshold_rule *rule, const struct config_threshold *from)
{
	rule->is = *from;
	rule->is.name = rule->is.rail = rule->is.job = rule->is.peer = NULL;
	if (copy_text(&rule->is.name, from->name) || copy_text(&rule->is.rail, from->rail) ||
	    copy_text(&rule->is.job, from->job) || copy_text(&rule->is.peer, from->peer))
		return -ENOMEM;
	return 0;
}

static void subject_forget(struct threshold_subject *subject)
{
	free(subject->subject);
	free(subject->part);
	subject->subject = subject->part = NULL;
}

static void rule_free(struct threshold_rule *rule)
{
	for (size_t i = 0; i < rule->count; i++)
		subject_forget(&rule->list[i]);
	free(rule->list);
	free(rule->is.name);
	free(rule->is.rail);
	free(rule->is.job);
	free(rule->is.peer);
}

static struct threshold_rule *find_rule(const struct thresholds *thresholds, const char *name)
{
	for (size_t i = 0; i < thresholds->count; i++)
		if (!strcmp(thresholds->rules[i].is.name, name))
			return &thresholds->rules[i];
	return NULL;
}

/* Ends what it has raised, and frees it. */
static void rule_end(struct thresholds *thresholds, struct threshold_rule *rule, const char *reason)
{
	for (size_t i = 0; i < rule->count; i++)
		if (rule->list[i].state.raised)
			threshold_report_cleared(thresholds, rule, &rule->list[i], NULL, reason);
	thresholds->subjects -= rule->count;
	rule_free(rule);
}

static bool is_among(const struct config_alerts *alerts, const char *name)
{
	for (size_t i = 0; i < alerts->threshold_count; i++)
		if (!strcmp(alerts->thresholds[i].name, name))
			return true;
	return false;
}

int thresholds_set(struct thresholds *thresholds, const struct config_alerts *alerts)
{
	size_t count = alerts->threshold_count;
	struct threshold_rule *rules = calloc(count + 1, sizeof(*rules)), *old;
	int err = rules ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < count; i++)
		err = rule_copy(&rules[i], &alerts->thresholds[i]);
	if (err) {
		for (size_t i = 0; rules && i < count; i++)
			rule_free(&rules[i]);
		free(rules);
		return err;
	}
	for (size_t i = 0; i < count; i++) {
		old = find_rule(thresholds, rules[i].is.name);
		if (!old || !rule_equals(&old->is, &rules[i].is))
			continue;
		rules[i].list = old->list;
		rules[i].count = old->count;
		rules[i].room = old->room;
		rules[i].sorted = old->sorted;
		rules[i].known = old->known;
		rules[i].exceeded = old->exceeded;
		rules[i].left_out = old->left_out;
		old->list = NULL;
		old->count = 0;
	}
	for (size_t i = 0; i < thresholds->count; i++) {
		old = &thresholds->rules[i];
		rule_end(thresholds, old, is_among(alerts, old->is.name) ? "changed" : "removed");
	}
	free(thresholds->rules);
	thresholds->rules = rules;
	thresholds->count = count;
	return 0;
}

void thresholds_clear(struct thresholds *thresholds)
{
	for (size_t i = 0; i < thresholds->count; i++)
		rule_free(&thresholds->rules[i]);
	free(thresholds->rules);
	thresholds->rules = NULL;
	thresholds->count = thresholds->subjects = 0;
}

bool thresholds_use(const struct thresholds *thresholds, enum config_of of)
{
	for (size_t i = 0; i < thresholds->count; i++)
		if (thresholds->rules[i].is.of == of + 1u)
			return true;
	return false;
}

/* --- the things that one is applied to --- */

static int compare_ids(const void *a, const void *b)
{
	const struct threshold_subject *one = a, *two = b;

	return (one->id > two->id) - (one->id < two->id);
}

/* NULL: there is no room. */
static struct threshold_subject *find_subject(struct thresholds *thresholds,
					      struct threshold_rule *rule, uint64_t id)
{
	struct threshold_subject key = {.id = id}, *found = NULL;

	if (rule->sorted)
		found = bsearch(&key, rule->list, rule->sorted, sizeof(*rule->list), compare_ids);
	if (found)
		return found;
	if (thresholds->subjects < THRESHOLD_SUBJECTS_MAX)
		found = array_add(&rule->list, &rule->count, &rule->room, sizeof(*found));
	if (!found) {
		rule->refused++;
		return NULL;
	}
	thresholds->subjects++;
	found->id = id;
	return found;
}

static bool is_selected(const struct config_threshold *rule, const struct threshold_sample *sample)
{
	if (rule->plane != CONFIG_ANY_PLANE && sample->plane != (int)rule->plane)
		return false;
	if (rule->rail && (!sample->rail || strcmp(sample->rail, rule->rail) != 0))
		return false;
	if (rule->job && (!sample->job || !job_id_matches(sample->job, rule->job)))
		return false;
	return !rule->peer || (sample->peer && !strcmp(sample->peer, rule->peer));
}

/* What is raised is reported by the name that it had then. */
static void keep_name(const struct thresholds *thresholds, const struct threshold_rule *rule,
		      const struct threshold_sample *sample, struct threshold_subject *out)
{
	char subject[THRESHOLD_SUBJECT_BYTES] = "", part[THRESHOLD_PART_BYTES] = "";
	char whole[THRESHOLD_PART_BYTES + 64];

	threshold_name(thresholds, rule->is.of - 1, sample, subject, part);
	snprintf(whole, sizeof(whole), "%s%s%s", part, *part ? "/" : "", rule->is.name);
	subject_forget(out);
	out->subject = strdup(subject);
	out->part = strdup(whole);
	out->has_qp = sample->qp;
	if (sample->qp)
		out->qp = *sample->qp;
	out->raised_ns = thresholds->now_ns;
}

static void read_limits(const struct config_threshold *rule, double floor,
			struct threshold_limits *out)
{
	double base = rule->above.over_floor ? floor : 0;

	*out = (struct threshold_limits){
		.above = base + rule->above.number,
		.clear = base + (rule->clear.given ? rule->clear.number
						   : CLEAR_SHARE * rule->above.number),
		.raise_after_ns = rule->raise_after_ns,
		.clear_after_ns = rule->clear_after_ns,
	};
}

static double read_share(struct threshold_subject *subject, const struct threshold_sample *sample,
			 uint64_t now_ns)
{
	if (!sample->counted)
		return NAN;
	return threshold_window_share(&subject->window, now_ns, sample->part, sample->whole);
}

static void take(struct thresholds *thresholds, struct threshold_rule *rule,
		 const struct threshold_sample *sample)
{
	struct threshold_subject *subject = find_subject(thresholds, rule, sample->id);
	struct threshold_reading reading = {sample->value, sample->bound};
	uint64_t now_ns = thresholds->now_ns;
	struct threshold_limits limits;
	double floor = NAN;

	if (!subject)
		return;
	subject->seen = true;
	if (rule->is.above.unit == CONFIG_UNIT_SHARE)
		reading = (struct threshold_reading){read_share(subject, sample, now_ns), 0};
	else if (rule->is.above.over_floor)
		floor = threshold_floor_add(&subject->floor, now_ns, sample->least);
	read_limits(&rule->is, floor, &limits);
	if (rule->is.above.over_floor && isnan(floor))
		reading.value = NAN;
	subject->known = !isnan(reading.value);
	switch (threshold_evaluate(&subject->state, &limits, &reading, now_ns)) {
	case THRESHOLD_RAISE:
		keep_name(thresholds, rule, sample, subject);
		threshold_report_raised(thresholds, rule, subject, &reading, floor);
		break;
	case THRESHOLD_CLEAR:
		threshold_report_cleared(thresholds, rule, subject, &reading, "below");
		subject_forget(subject);
		break;
	case THRESHOLD_NOTHING:
		break;
	}
}

void thresholds_take(struct thresholds *thresholds, enum config_of of,
		     const struct threshold_sample *sample)
{
	for (size_t i = 0; i < thresholds->count; i++) {
		struct threshold_rule *rule = &thresholds->rules[i];

		if (rule->is.of == of + 1u && is_selected(&rule->is, sample))
			take(thresholds, rule, sample);
	}
}

static void finish(struct thresholds *thresholds, struct threshold_rule *rule)
{
	size_t kept = 0;

	rule->known = rule->exceeded = 0;
	for (size_t i = 0; i < rule->count; i++) {
		struct threshold_subject *subject = &rule->list[i];

		if (!subject->seen) {
			if (subject->state.raised)
				threshold_report_cleared(thresholds, rule, subject, NULL, "gone");
			subject_forget(subject);
			continue;
		}
		subject->seen = false;
		rule->known += subject->known;
		rule->exceeded += subject->state.raised;
		rule->list[kept++] = *subject;
	}
	thresholds->subjects -= rule->count - kept;
	if (rule->count > rule->sorted)
		qsort(rule->list, kept, sizeof(*rule->list), compare_ids);
	rule->count = rule->sorted = kept;
	rule->left_out = rule->refused;
	rule->refused = 0;
}

void thresholds_taken(struct thresholds *thresholds, enum config_of of)
{
	for (size_t i = 0; i < thresholds->count; i++)
		if (thresholds->rules[i].is.of == of + 1u)
			finish(thresholds, &thresholds->rules[i]);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * From events to findings. A condition is open from the event that begins it to the one that ends
 * it (core/events.h); a finding is a fault with all its open conditions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/json.h"
#include "internal.h"

static uint64_t hash_of(const char *fault)
{
	return hash_add(HASH_FIRST, fault, strlen(fault));
}

static enum event_severity severity_of(const json_t *event)
{
	const char *text = json_text(event, "severity");
	enum event_severity severity = EVENT_INFO;

	while (severity < EVENT_CRITICAL && strcmp(event_severity_name(severity), text))
		severity++;
	return severity;
}

static bool is_of(const struct finding_condition *condition, uint64_t hash, const char *fault)
{
	return condition->hash == hash && !strcmp(json_text(condition->began, "fault"), fault);
}

static bool is_named(const struct finding_condition *condition, const char *name)
{
	return !strcmp(json_text(condition->began, "begins"), name);
}

/* --- begin and end --- */

/* An event that states a change only is of a lower severity. */
static void continue_with(struct finding_condition *condition, const json_t *event)
{
	enum event_severity began = severity_of(condition->began), now = severity_of(event);

	json_decref(condition->newest);
	condition->newest = json_incref((json_t *)event);
	condition->severity = now > began ? now : began;
}

static void begin(struct findings *findings, uint64_t hash, const json_t *event)
{
	const char *fault = json_text(event, "fault"), *name = json_text(event, "begins");
	struct finding_condition *condition = NULL;

	for (size_t i = 0; i < findings->count; i++)
		if (is_of(&findings->list[i], hash, fault) && is_named(&findings->list[i], name)) {
			condition = &findings->list[i];
			continue_with(condition, event);
			return;
		}
	if (findings->count < FINDING_CONDITIONS_MAX)
		condition = array_add(&findings->list, &findings->count, &findings->room,
				      sizeof(*condition));
	if (!condition) {
		findings->left_out++;
		return;
	}
	*condition = (struct finding_condition){
		hash,
		json_incref((json_t *)event),
		json_incref((json_t *)event),
		severity_of(event),
	};
}

static void forget(struct finding_condition *condition)
{
	json_decref(condition->began);
	json_decref(condition->newest);
}

static void end(struct findings *findings, uint64_t hash, const char *fault, const char *ends)
{
	bool all = !strcmp(ends, EVENT_ENDS_ALL);
	size_t kept = 0;

	for (size_t i = 0; i < findings->count; i++) {
		struct finding_condition *condition = &findings->list[i];

		if (is_of(condition, hash, fault) && (all || is_named(condition, ends)))
			forget(condition);
		else
			findings->list[kept++] = *condition;
	}
	findings->count = kept;
}

void findings_take(struct findings *findings, const json_t *event)
{
	const char *fault = json_text(event, "fault"), *ends = json_text(event, "ends");

	if (*ends)
		end(findings, hash_of(fault), fault, ends);
	else if (*json_text(event, "begins"))
		begin(findings, hash_of(fault), event);
}

void findings_clear(struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		forget(&findings->list[i]);
	free(findings->list);
	findings->list = NULL;
	findings->count = findings->room = 0;
}

/* --- findings --- */

static struct finding *find(struct finding *list, size_t count, uint64_t hash, const char *fault)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].hash == hash && !strcmp(list[i].fault, fault))
			return &list[i];
	return NULL;
}

static bool has_member(const struct finding *finding, const char *fault)
{
	const json_t *seen = json_object_get(finding->leading->newest, "seen");
	const json_t *member;
	size_t i;

	json_array_foreach (json_object_get(seen, "members"), i, member)
		if (json_is_string(member) && !strcmp(json_string_value(member), fault))
			return true;
	return false;
}

/* Of two that have each other as a member, each stays. */
static void mark_members(struct finding *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const json_t *seen = json_object_get(list[i].leading->newest, "seen");
		const json_t *member;
		size_t m;

		json_array_foreach (json_object_get(seen, "members"), m, member) {
			const char *fault = json_string_value(member);
			struct finding *other =
				fault ? find(list, count, hash_of(fault), fault) : NULL;

			if (other && other != &list[i] && !has_member(other, list[i].fault))
				other->is_member = true;
		}
	}
}

static int worst_first(const void *a, const void *b)
{
	const struct finding *one = a, *other = b;

	if (one->severity != other->severity)
		return one->severity > other->severity ? -1 : 1;
	return one->first < other->first ? -1 : one->first > other->first;
}

struct finding *findings_make(const struct findings *findings, size_t *count)
{
	struct finding *list = calloc(findings->count + 1, sizeof(*list));

	*count = 0;
	for (size_t i = 0; list && i < findings->count; i++) {
		const struct finding_condition *condition = &findings->list[i];
		const char *fault = json_text(condition->began, "fault");
		struct finding *one = find(list, *count, condition->hash, fault);
		enum event_severity severity = condition->severity;

		if (one && severity <= one->severity)
			continue;
		if (!one) {
			one = &list[(*count)++];
			one->first = condition;
		}
		one->leading = condition;
		one->fault = fault;
		one->hash = condition->hash;
		one->severity = severity;
	}
	if (list) {
		mark_members(list, *count);
		qsort(list, *count, sizeof(*list), worst_first);
	}
	return list;
}

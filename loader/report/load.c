// SPDX-License-Identifier: BSD-2-Clause
/* What the page is made from: exports, and events. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "internal.h"

#define EVENTS_MAX 100000
#define EXPORTS_MAX 20000

/* clang-format off: a table */
const struct report_verb report_verbs[] = {
	{.verb = "status"},
	{.verb = "clock", .sampled = true},
	{.verb = "peers"},
	{.verb = "mesh", .flag = "all"},
	{.verb = "paths"},
	{.verb = "qp", .sampled = true},
	{.verb = "links"},
	{.verb = "findings"},
	{.verb = "pairs", .flag = "all"},
	{.verb = "cycles"},
	{.verb = "events"},
	{},
};
/* clang-format on */

/* --- exports --- */

json_t *report_export_new(uint64_t time_ns)
{
	return json_pack("{s:s, s:i, s:I, s:{}, s:[]}", "format", REPORT_FORMAT, "version",
			 REPORT_VERSION, "time_ns", (json_int_t)time_ns, "replies", "samples");
}

void report_export_put(json_t *export, const char *verb, json_t *reply)
{
	const json_t *host = json_object_get(reply, "host");

	if (!reply)
		return;
	if (!strcmp(verb, "status") && json_is_string(host))
		json_object_set(export, "host", (json_t *)host);
	json_object_set_new(json_object_get(export, "replies"), verb, reply);
}

void report_export_sample(json_t *export, uint64_t time_ns)
{
	json_t *replies = json_object_get(export, "replies"), *kept = json_object();

	for (const struct report_verb *verb = report_verbs; verb->verb; verb++)
		if (verb->sampled && json_object_get(replies, verb->verb)) {
			json_object_set(kept, verb->verb, json_object_get(replies, verb->verb));
			json_object_del(replies, verb->verb);
		}
	json_array_append_new(json_object_get(export, "samples"),
			      json_pack("{s:O, s:o}", "time_ns", json_object_get(export, "time_ns"),
					"replies", kept));
	json_object_set_new(export, "time_ns", json_integer((json_int_t)time_ns));
}

const json_t *reply_of(const json_t *export, const char *verb)
{
	const json_t *reply = json_object_get(json_object_get(export, "replies"), verb);

	return json_is_object(reply) ? reply : NULL;
}

/* --- the report --- */

struct report *report_new(void)
{
	struct report *report = calloc(1, sizeof(*report));

	if (!report)
		return NULL;
	report->exports = json_array();
	report->events = json_array();
	report->ids = json_object();
	return report;
}

void report_free(struct report *report)
{
	if (!report)
		return;
	json_decref(report->exports);
	json_decref(report->events);
	json_decref(report->ids);
	free(report);
}

/* An event may be in an export and in a log: it counts once. */
static void add_event(struct report *report, const json_t *event)
{
	const char *id = json_text(event, "id");

	if (!json_is_object(event) || !*id || json_object_get(report->ids, id) ||
	    json_array_size(report->events) >= EVENTS_MAX)
		return;
	json_object_set_new(report->ids, id, json_true());
	json_array_append(report->events, (json_t *)event);
}

static int add_export(struct report *report, const json_t *export, char **error)
{
	const json_t *version = json_object_get(export, "version");
	json_t *event;
	size_t i;

	if (json_integer_value(version) != REPORT_VERSION)
		return explain(error, -EINVAL,
			       "an export of version %d is expected; make it with the same "
			       "release of `escapement -j report`",
			       REPORT_VERSION);
	if (!*json_text(export, "host"))
		return explain(error, -EINVAL, "an export without the name of its host");
	if (json_array_size(report->exports) >= EXPORTS_MAX)
		return explain(error, -EINVAL, "more than %d exports; give fewer", EXPORTS_MAX);
	json_array_append(report->exports, (json_t *)export);
	json_array_foreach (json_object_get(reply_of(export, "events"), "events"), i, event)
		add_event(report, event);
	return 0;
}

int report_add(struct report *report, const json_t *value, char **error)
{
	const json_t *entry;
	size_t i;
	int err = 0;

	if (!strcmp(json_text(value, "format"), REPORT_FORMAT))
		return add_export(report, value, error);
	if (*json_text(value, "kind") && *json_text(value, "id")) {
		add_event(report, value);
		return 0;
	}
	if (!json_is_array(value))
		return explain(error, -EINVAL,
			       "neither an export of `escapement -j report` nor an event of "
			       "`escapement -j events`");
	json_array_foreach (value, i, entry)
		err = err ? err : report_add(report, entry, error);
	return err;
}

int report_add_text(struct report *report, const char *name, const char *bytes, size_t size,
		    char **error)
{
	size_t at = 0, line = 1;
	json_error_t problem;
	int err = 0;

	*error = NULL;
	while (!err) {
		json_t *value;
		char *why = NULL;

		for (; at < size && strchr(" \t\r\n", bytes[at]) && bytes[at]; at++)
			line += bytes[at] == '\n';
		if (at >= size)
			return 0;
		value = json_loadb(bytes + at, size - at, JSON_DISABLE_EOF_CHECK, &problem);
		if (!value)
			return explain(error, -EINVAL, "%s, line %zu: not JSON: %s", name,
				       line + (size_t)(problem.line > 0 ? problem.line - 1 : 0),
				       problem.text);
		err = report_add(report, value, &why);
		if (err)
			explain(error, 0, "%s, line %zu: %s", name, line,
				why ? why : "out of memory");
		free(why);
		json_decref(value);
		for (size_t end = at + (size_t)problem.position; at < end && at < size; at++)
			line += bytes[at] == '\n';
	}
	return err;
}

/* --- for the parts of the page --- */

static int by_host(const void *a, const void *b)
{
	return strverscmp(json_text(*(const json_t *const *)a, "host"),
			  json_text(*(const json_t *const *)b, "host"));
}

size_t report_hosts(const struct report *report, const json_t ***list)
{
	json_t *newest = json_object(), *one;
	const char *key;
	size_t count = 0, i;

	json_array_foreach (report->exports, i, one) {
		const char *host = json_text(one, "host");

		if (json_count(one, "time_ns") >=
		    json_count(json_object_get(newest, host), "time_ns"))
			json_object_set(newest, host, one);
	}
	*list = calloc(json_object_size(newest) + 1, sizeof(**list));
	json_object_foreach (newest, key, one)
		if (*list)
			(*list)[count++] = one; /* kept by report->exports */
	json_decref(newest);
	if (*list)
		qsort(*list, count, sizeof(**list), by_host);
	return count;
}

double json_number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

double json_number_of(const json_t *object, const char *member, const char *key)
{
	return json_number(json_object_get(object, member), key);
}

const char *nic_name(char out[TEXT_BYTES], const char *host, const char *address)
{
	snprintf(out, TEXT_BYTES, "%s%s%s", host, *host && *address ? " " : "", address);
	return out;
}

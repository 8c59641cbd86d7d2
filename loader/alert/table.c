// SPDX-License-Identifier: BSD-2-Clause
/*
 * From events to alerts. An alert is a condition of a fault: it fires from the event that begins it
 * to the one that ends it. It is known by its labels, which neither a restart of the daemon nor one
 * of ours changes, so that an Alertmanager takes it for the same one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alert.h"
#include "base/json.h"

#define VERSION 1

static const char *const severities[] = {"info", "notice", "warning", "critical"};
#define SEVERITIES (sizeof(severities) / sizeof(severities[0]))

static int severity_of(const json_t *event)
{
	const char *text = json_text(event, "severity");

	for (size_t i = 0; i < SEVERITIES; i++)
		if (!strcmp(severities[i], text))
			return (int)i;
	return -1;
}

static void clear(struct alert *alert)
{
	json_decref(alert->labels);
	json_decref(alert->event);
	free(alert->fault);
	*alert = (struct alert){};
}

void alerts_free(struct alerts *alerts)
{
	for (size_t i = 0; i < alerts->count; i++)
		clear(&alerts->list[i]);
	json_decref(alerts->ends);
	alerts->count = 0;
	alerts->ends = NULL;
}

/* --- labels --- */

/* "peer_down" is EscapementPeerDown. */
static void name_alert(char *out, size_t bytes, const char *condition)
{
	bool begins = true;
	size_t used = (size_t)snprintf(out, bytes, "Escapement");

	for (; *condition && used + 1 < bytes; condition++) {
		char c = *condition;

		if (c != '_')
			out[used++] = begins && c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
		begins = c == '_';
	}
	out[used] = '\0';
}

/*
 * What is notified together: a host with its NICs, the fabric between hosts, a job. "nic:h7/eth1"
 * and "host:h7/backend" are of host:h7.
 */
static json_t *group_json(const json_t *event)
{
	const char *fault = json_text(event, "fault"), *job = json_text(event, "job");
	const char *colon = strchr(fault, ':');
	size_t bytes = colon ? strcspn(colon + 1, "/") : 0;

	if (bytes && (!strncmp(fault, "host:", 5) || !strncmp(fault, "nic:", 4)))
		return json_sprintf("host:%.*s", (int)bytes, colon + 1);
	return *job ? json_sprintf("job:%s", job) : json_string("fabric");
}

static json_t *labels_json(const json_t *event, const char *condition)
{
	json_t *labels = json_object();
	char name[96];

	name_alert(name, sizeof(name), condition);
	json_put_text(labels, "alertname", name);
	json_put_text(labels, "severity", json_text(event, "severity"));
	json_put_text(labels, "host", json_text(event, "host"));
	json_put_text(labels, "fault", json_text(event, "fault"));
	json_put(labels, "fault_group", group_json(event));
	json_put_text(labels, "job_id", json_text(event, "job"));
	return labels;
}

/* --- begin and end --- */

static struct alert *find(struct alerts *alerts, const char *condition, const char *fault)
{
	for (size_t i = 0; i < alerts->count; i++)
		if (!strcmp(alerts->list[i].condition, condition) &&
		    !strcmp(alerts->list[i].fault, fault))
			return &alerts->list[i];
	return NULL;
}

static void end(struct alerts *alerts, struct alert *alert, uint64_t ended_ns, const char *reason)
{
	if (alert->ended_ns)
		return;
	alert->ended_ns = ended_ns > alert->started_ns ? ended_ns : alert->started_ns + 1;
	alert->lapse_ns = 0;
	alert->reason = reason;
	alerts->changes += !alert->hold_ns;
}

/* One that has ended makes room. */
static struct alert *add(struct alerts *alerts)
{
	struct alert *oldest = NULL;

	if (alerts->count < ALERTS_MAX)
		return &alerts->list[alerts->count++];
	for (size_t i = 0; i < alerts->count; i++) {
		struct alert *alert = &alerts->list[i];

		if (alert->ended_ns && (!oldest || alert->ended_ns < oldest->ended_ns))
			oldest = alert;
	}
	if (oldest)
		clear(oldest);
	return oldest;
}

static const json_t *members_of(const struct alert *alert)
{
	return json_object_get(json_object_get(alert->event, "seen"), "members");
}

static bool has_member(const struct alert *alert, const char *fault)
{
	const json_t *member;
	size_t i;

	json_array_foreach (members_of(alert), i, member)
		if (json_is_string(member) && !strcmp(json_string_value(member), fault))
			return true;
	return false;
}

static bool explains_others(const struct alert *alert)
{
	return json_array_size(members_of(alert)) > 0;
}

/* A fault that has to be reported again by the daemon, as after its start, or expires. */
static bool is_in_doubt(const struct alerts *alerts, const char *fault)
{
	for (size_t i = 0; i < alerts->count; i++)
		if (!alerts->list[i].ended_ns && alerts->list[i].lapse_ns &&
		    !strcmp(alerts->list[i].fault, fault))
			return true;
	return false;
}

/*
 * A daemon that has started reports a fault with the pairs that it has observed since: what its
 * predecessor reported of others stays explained until it is reported again, or expires.
 */
static void keep_doubtful(const struct alerts *alerts, const struct alert *alert,
			  const json_t *before)
{
	json_t *members = (json_t *)members_of(alert), *one;
	size_t i;

	json_array_foreach (before, i, one)
		if (json_is_string(one) && !has_member(alert, json_string_value(one)) &&
		    is_in_doubt(alerts, json_string_value(one)))
			json_array_append(members, one);
}

/* It continues; other members are a change. */
static void replace_event(struct alerts *alerts, struct alert *alert, const json_t *event)
{
	json_t *before = json_incref((json_t *)members_of(alert)), *members;

	json_decref(alert->event);
	alert->event = json_deep_copy(event);
	members = (json_t *)members_of(alert);
	keep_doubtful(alerts, alert, before);
	if (members != before && !json_equal(members, before))
		alerts->changes++;
	json_decref(before);
}

/* @lapse_ns and @hold_ns as in struct alert. */
static void begin(struct alerts *alerts, const json_t *event, const char *condition,
		  uint64_t lapse_ns, uint64_t hold_ns)
{
	const char *fault = json_text(event, "fault");
	struct alert *alert = find(alerts, condition, fault);

	if (alert && !alert->ended_ns) { /* it continues */
		replace_event(alerts, alert, event);
		alert->lapse_ns = lapse_ns;
		if (alert->hold_ns && explains_others(alert))
			alert->hold_ns = 0;
		return;
	}
	if (severity_of(event) < alerts->severity)
		return;
	if (alert)
		clear(alert);
	else
		alert = add(alerts);
	if (!alert) {
		alerts->refused++;
		return;
	}
	alert->labels = labels_json(event, condition);
	alert->event = json_deep_copy(event);
	snprintf(alert->condition, sizeof(alert->condition), "%s", condition);
	alert->fault = strdup(fault);
	alert->started_ns = json_count(event, "time_ns");
	alert->lapse_ns = lapse_ns;
	alert->hold_ns = explains_others(alert) ? 0 : hold_ns;
	alerts->changes += !alert->hold_ns;
}

/* --- events --- */

/* Of an event of the past, or of the time before the clock was set: it has been held. */
static uint64_t hold_until(const json_t *event, uint64_t now_ns)
{
	uint64_t time_ns = json_count(event, "time_ns");

	return time_ns <= now_ns && now_ns < time_ns + ALERT_HOLD_NS ? time_ns + ALERT_HOLD_NS : 0;
}

static bool parse_id(const json_t *event, uint64_t *start, uint64_t *number)
{
	const char *id = json_text(event, "id"), *host = json_text(event, "host");
	size_t bytes = strlen(host);
	char *at;

	if (!bytes || strncmp(id, host, bytes) || id[bytes] != ':')
		return false;
	*start = strtoull(id + bytes + 1, &at, 16);
	if (*at != ':')
		return false;
	*number = strtoull(at + 1, &at, 10);
	return !*at;
}

/* The conditions that an earlier daemon reported, or one, have to be reported again. */
static void doubt(struct alerts *alerts, const char *condition, uint64_t now_ns)
{
	for (size_t i = 0; i < alerts->count; i++) {
		struct alert *alert = &alerts->list[i];

		if (!alert->ended_ns && !alert->lapse_ns &&
		    (!condition || !strcmp(alert->condition, condition)))
			alert->lapse_ns = now_ns + ALERT_CONFIRM_NS;
	}
}

/* The log left out events, and some may have been ends. */
static void doubt_suppressed(struct alerts *alerts, const json_t *event, uint64_t now_ns)
{
	const char *kind = json_text(event, "kind");
	const char *ends = json_text(alerts->ends, json_text(event, "subject"));

	if (!strcmp(kind, "events_limited") && *ends)
		doubt(alerts, ends, now_ns);
	if (!strcmp(kind, "path_events_suppressed"))
		doubt(alerts, "path_down", now_ns);
}

static void end_all(struct alerts *alerts, const json_t *event, const char *ends)
{
	uint64_t time_ns = json_count(event, "time_ns");
	const char *fault = json_text(event, "fault");

	for (size_t i = 0; i < alerts->count; i++)
		if (!strcmp(alerts->list[i].fault, fault) &&
		    (!strcmp(ends, "all") || !strcmp(alerts->list[i].condition, ends)))
			end(alerts, &alerts->list[i], time_ns, NULL);
}

bool alerts_take(struct alerts *alerts, const json_t *event, bool live, uint64_t now_ns)
{
	const char *kind = json_text(event, "kind"), *begins = json_text(event, "begins");
	const char *ends = json_text(event, "ends");
	uint64_t start, number, time_ns = json_count(event, "time_ns");

	if (!*kind || strlen(kind) >= sizeof(alerts->list[0].condition) ||
	    strlen(begins) >= sizeof(alerts->list[0].condition) || severity_of(event) < 0 ||
	    !*json_text(event, "fault") || !time_ns || time_ns > INT64_MAX ||
	    !parse_id(event, &start, &number))
		return false;
	if (alerts->any && ((start < alerts->start && !live) ||
			    (start == alerts->start && number <= alerts->number)))
		return true;
	if (alerts->any && start != alerts->start)
		doubt(alerts, NULL, now_ns);
	alerts->any = true;
	alerts->start = start;
	alerts->number = number;
	snprintf(alerts->host, sizeof(alerts->host), "%s", json_text(event, "host"));
	alerts->ends = alerts->ends ? alerts->ends : json_object();
	if (*ends) {
		json_put_text(alerts->ends, kind, ends);
		end_all(alerts, event, ends);
	} else if (*begins) {
		begin(alerts, event, begins, 0, hold_until(event, now_ns));
	} else if (time_ns + ALERT_SINGLE_NS > now_ns) {
		begin(alerts, event, kind, now_ns + ALERT_SINGLE_NS, hold_until(event, now_ns));
	}
	doubt_suppressed(alerts, event, now_ns);
	return true;
}

void alerts_own(struct alerts *alerts, const char *condition, const char *part, const char *remedy,
		uint64_t now_ns)
{
	json_t *event = json_object();

	json_put_count(event, "time_ns", now_ns);
	json_put_text(event, "host", alerts->host);
	json_put_text(event, "kind", condition);
	json_put_text(event, "severity", "warning");
	json_put_text(event, "subject", *part ? part : "escapement-alert");
	json_put(
		event, "fault",
		json_sprintf("host:%s/escapement-alert%s%s", alerts->host, *part ? "/" : "", part));
	json_put_text(event, "remedy", remedy);
	if (remedy)
		begin(alerts, event, condition, 0, 0);
	else
		end_all(alerts, event, condition);
	json_decref(event);
}

void alerts_tick(struct alerts *alerts, uint64_t now_ns)
{
	for (size_t i = alerts->count; i-- > 0;) {
		struct alert *alert = &alerts->list[i];

		if (!alert->ended_ns && alert->lapse_ns && now_ns >= alert->lapse_ns)
			end(alerts, alert, now_ns, "not reported again");
		if (!alert->ended_ns || now_ns < alert->ended_ns + ALERT_ENDED_NS)
			continue;
		clear(alert);
		*alert = alerts->list[--alerts->count];
		alerts->list[alerts->count] = (struct alert){};
	}
}

/* --- as JSON --- */

static json_t *time_json(uint64_t ns)
{
	time_t seconds = (time_t)(ns / ALERT_S);
	char text[32];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	return json_sprintf("%s.%09" PRIu64 "Z", text, (uint64_t)(ns % ALERT_S));
}

/* Objects as JSON: annotations are texts. */
static void annotate(json_t *annotations, const char *key, const json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_put_text(annotations, key, json_is_string(value) ? json_string_value(value) : text);
	free(text);
}

json_t *alert_json(const struct alert *alert, uint64_t until_ns)
{
	static const char *const keys[] = {"subject", "seen", "done",	   "expected", "result",
					   "remedy",  "doc",  "fabric_ns", "bound_ns", "id"};
	json_t *annotations = json_object();

	json_put(annotations, "summary",
		 json_sprintf("%s %s on %s", alert->condition, json_text(alert->event, "subject"),
			      json_text(alert->event, "host")));
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		annotate(annotations, keys[i], json_object_get(alert->event, keys[i]));
	json_put_text(annotations, "ended", alert->reason);
	return json_pack("{s:O, s:o, s:o, s:o}", "labels", alert->labels, "annotations",
			 annotations, "startsAt", time_json(alert->started_ns), "endsAt",
			 time_json(alert->ended_ns ? alert->ended_ns : until_ns));
}

json_t *alerts_explained(const struct alerts *alerts)
{
	json_t *explained = json_object(), *member;
	size_t i;

	for (size_t a = 0; a < alerts->count; a++) {
		const struct alert *alert = &alerts->list[a];

		if (alert->ended_ns)
			continue;
		json_array_foreach (members_of(alert), i, member)
			if (json_is_string(member))
				json_object_set_new(explained, json_string_value(member),
						    json_integer((json_int_t)a));
	}
	return explained;
}

const struct alert *alert_explained_by(const struct alerts *alerts, const json_t *explained,
				       const struct alert *alert)
{
	const json_t *at = json_object_get(explained, alert->fault);
	const struct alert *other = at ? &alerts->list[json_integer_value(at)] : NULL;

	/* Of two that have each other as a member, each stays. */
	if (!other || alert->ended_ns || !strcmp(other->fault, alert->fault) ||
	    has_member(alert, other->fault))
		return NULL;
	return other;
}

/* Also when the system clock was set back meanwhile. */
static bool has_been_held(const struct alert *alert, uint64_t now_ns)
{
	return now_ns >= alert->hold_ns || now_ns < alert->started_ns;
}

uint64_t alerts_release(struct alerts *alerts, uint64_t now_ns)
{
	uint64_t wait_ns = UINT64_MAX;
	json_t *explained = NULL;

	for (size_t i = 0; i < alerts->count; i++) {
		struct alert *alert = &alerts->list[i];

		if (!alert->hold_ns || alert->ended_ns)
			continue;
		if (!has_been_held(alert, now_ns)) {
			if (alert->hold_ns - now_ns < wait_ns)
				wait_ns = alert->hold_ns - now_ns;
			continue;
		}
		explained = explained ? explained : alerts_explained(alerts);
		if (alert_explained_by(alerts, explained, alert))
			continue;
		alert->hold_ns = 0;
		alerts->changes++;
	}
	json_decref(explained);
	return wait_ns;
}

/* One that is explained was over when the other one began. */
static json_t *explained_json(const struct alert *alert, const struct alert *by)
{
	uint64_t ended_ns =
		by->started_ns > alert->started_ns ? by->started_ns : alert->started_ns + 1;
	json_t *json = alert_json(alert, ended_ns);

	json_put(json_object_get(json, "annotations"), "ended",
		 json_sprintf("part of %s", by->fault));
	return json;
}

json_t *alerts_json(const struct alerts *alerts, uint64_t until_ns)
{
	json_t *list = json_array(), *explained = alerts_explained(alerts);

	for (size_t i = 0; i < alerts->count; i++) {
		const struct alert *alert = &alerts->list[i];
		const struct alert *by = alert_explained_by(alerts, explained, alert);

		if (alert->hold_ns)
			continue;
		json_array_append_new(list,
				      by ? explained_json(alert, by) : alert_json(alert, until_ns));
	}
	json_decref(explained);
	return list;
}

json_t *alerts_save(const struct alerts *alerts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < alerts->count; i++) {
		const struct alert *alert = &alerts->list[i];
		json_t *one;

		/* Our own begin again. */
		if (!json_object_get(alert->event, "id"))
			continue;
		one = json_pack("{s:s, s:s, s:O, s:O, s:b, s:b}", "condition", alert->condition,
				"fault", alert->fault, "labels", alert->labels, "event",
				alert->event, "begin_hooked", alert->begin_hooked, "end_hooked",
				alert->end_hooked);

		json_put_count(one, "started_ns", alert->started_ns);
		if (alert->ended_ns)
			json_put_count(one, "ended_ns", alert->ended_ns);
		if (alert->lapse_ns)
			json_put_count(one, "lapse_ns", alert->lapse_ns);
		if (alert->hold_ns)
			json_put_count(one, "hold_ns", alert->hold_ns);
		json_array_append_new(list, one);
	}
	return json_pack("{s:i, s:b, s:I, s:I, s:s, s:O*, s:o}", "version", VERSION, "any",
			 alerts->any, "start", (json_int_t)alerts->start, "number",
			 (json_int_t)alerts->number, "host", alerts->host, "ends", alerts->ends,
			 "alerts", list);
}

static bool load_one(struct alerts *alerts, const json_t *saved)
{
	json_t *labels = json_object_get(saved, "labels"), *event = json_object_get(saved, "event");
	const char *condition = json_text(saved, "condition"), *fault = json_text(saved, "fault");
	struct alert *alert;

	/* Without an id it was not saved. */
	if (alerts->count == ALERTS_MAX || !json_is_object(labels) || !json_is_object(event) ||
	    !json_object_get(event, "id") || !*condition ||
	    strlen(condition) >= sizeof(alert->condition) || !*fault ||
	    !json_count(saved, "started_ns") || find(alerts, condition, fault))
		return false;
	alert = &alerts->list[alerts->count++];
	snprintf(alert->condition, sizeof(alert->condition), "%s", condition);
	alert->fault = strdup(fault);
	alert->labels = json_incref(labels);
	alert->event = json_incref(event);
	alert->started_ns = json_count(saved, "started_ns");
	alert->ended_ns = json_count(saved, "ended_ns");
	alert->lapse_ns = json_count(saved, "lapse_ns");
	alert->hold_ns = json_count(saved, "hold_ns");
	if (alert->hold_ns > alert->started_ns + ALERT_HOLD_NS)
		alert->hold_ns = 0;
	alert->begin_hooked = json_is_true(json_object_get(saved, "begin_hooked"));
	alert->end_hooked = json_is_true(json_object_get(saved, "end_hooked"));
	return true;
}

bool alerts_load(struct alerts *alerts, const json_t *saved)
{
	const json_t *list = json_object_get(saved, "alerts"), *one;
	size_t i;

	if (json_count(saved, "version") != VERSION || !json_is_array(list))
		return false;
	json_array_foreach (list, i, one)
		if (!load_one(alerts, one)) {
			alerts_free(alerts);
			return false;
		}
	alerts->any = json_is_true(json_object_get(saved, "any"));
	alerts->start = json_count(saved, "start");
	alerts->number = json_count(saved, "number");
	snprintf(alerts->host, sizeof(alerts->host), "%s", json_text(saved, "host"));
	if (json_is_object(json_object_get(saved, "ends")))
		alerts->ends = json_incref(json_object_get(saved, "ends"));
	alerts->changes++;
	return true;
}

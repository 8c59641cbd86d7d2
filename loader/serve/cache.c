// SPDX-License-Identifier: BSD-2-Clause
/* Replies: one request at a time to the daemon, however many clients there are. */
#include "serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/now.h"
#include "cli/cli.h"
#include "report/report.h"

#define CLOCK_BOUND_NS 100000ull /* as `health` has it */
#define JSON_TYPE "application/json"
#define PARSED_BYTES_MAX (16u << 20) /* jansson takes some eight times as much */
/* What each good reply of the socket begins with, and ends with. */
#define REPLY_BEGIN "{\"ok\":true,\"result\":"
#define REPLY_BEGIN_BYTES (sizeof(REPLY_BEGIN) - 1)

static void reply_free(struct reply *reply)
{
	route_clear(&reply->route);
	json_decref(reply->parts);
	free(reply->key);
	free(reply->body);
	free(reply);
}

/* --- what a reply becomes --- */

/* Takes @body over. */
static void make(struct reply *reply, unsigned int status, const char *type, char *body,
		 size_t bytes, uint64_t now_ns)
{
	static char empty[] = "{\"error\":\"out of memory\"}\n";

	*reply = (struct reply){.route = reply->route,
				.key = reply->key,
				.users = reply->users,
				.parts = reply->parts,
				.ready = true,
				.status = body ? status : 503,
				.type = body ? type : JSON_TYPE,
				.body = body ? body : strdup(empty),
				.made_ns = now_ns};
	reply->bytes = body ? bytes : reply->body ? strlen(reply->body) : 0;
	snprintf(reply->etag, sizeof(reply->etag), "\"%016llx\"",
		 (unsigned long long)hash_add(HASH_FIRST, reply->body, reply->bytes));
	json_decref(reply->parts);
	reply->parts = NULL;
}

static void make_error(struct reply *reply, unsigned int status, const char *error, uint64_t now_ns)
{
	size_t bytes = 0;
	char *body = page_error(error, &bytes);

	make(reply, status, JSON_TYPE, body, bytes, now_ns);
}

/* Takes @value over. */
static void make_json(struct reply *reply, unsigned int status, json_t *value, uint64_t now_ns)
{
	char *text = json_dumps(value, JSON_COMPACT), *body = NULL;
	int bytes = text ? asprintf(&body, "%s\n", text) : -1;

	free(text);
	json_decref(value);
	make(reply, status, JSON_TYPE, bytes < 0 ? NULL : body, (size_t)bytes, now_ns);
}

static void make_health(struct reply *reply, json_t *host, json_t *reasons, uint64_t now_ns)
{
	bool healthy = !json_array_size(reasons);

	make_json(
		reply, healthy ? 200 : 503,
		json_pack("{s:b, s:O*, s:o}", "healthy", healthy, "host", host, "reasons", reasons),
		now_ns);
}

static void finish_health(struct reply *reply, uint64_t now_ns)
{
	const json_t *args = reply->route.args, *status = json_object_get(reply->parts, "status");
	const json_t *findings = json_object_get(reply->parts, "findings");
	uint64_t bound_ns = json_count(args, "clock_bound_ns");
	bool critical = !strcmp(json_text(args, "severity"), "critical");

	make_health(reply, json_object_get(status, "host"),
		    cli_health_reasons(status, json_object_get(findings, "findings"),
				       bound_ns ? bound_ns : CLOCK_BOUND_NS, critical),
		    now_ns);
}

static void finish_metrics(struct reply *reply, uint64_t now_ns)
{
	const char *text = json_text(json_object_get(reply->parts, "metrics"), "text");
	size_t bytes = strlen(text);

	make(reply, 200, "text/plain; version=0.0.4; charset=utf-8", strdup(text), bytes, now_ns);
}

static void finish_report(struct reply *reply, uint64_t now_ns)
{
	json_t *export = report_export_new(time_realtime_ns()), *part;
	struct report *report = report_new();
	char *body = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&body, &bytes);
	const char *verb;
	int err = out && report ? 0 : -ENOMEM;

	json_object_foreach (reply->parts, verb, part)
		report_export_put(export, verb, json_incref(part));
	if (!err)
		err = report_add(report, export, NULL);
	if (!err)
		err = report_write(report, out);
	if (out && fclose(out) && !err)
		err = -ENOMEM;
	report_free(report);
	json_decref(export);
	if (err) {
		free(body);
		make_error(reply, 503, "the page cannot be made of what the daemon replied",
			   now_ns);
	} else {
		make(reply, 200, "text/html; charset=utf-8", body, bytes, now_ns);
	}
}

/* Without parsing it: the result is what is between. */
static bool finish_verb(struct reply *reply, struct ask *ask, uint64_t now_ns)
{
	size_t bytes = ask->in_bytes - REPLY_BEGIN_BYTES;

	if (ask->in_bytes <= REPLY_BEGIN_BYTES || ask->in[ask->in_bytes - 1] != '}' ||
	    memcmp(ask->in, REPLY_BEGIN, REPLY_BEGIN_BYTES))
		return false;
	memmove(ask->in, ask->in + REPLY_BEGIN_BYTES, bytes);
	ask->in[bytes - 1] = '\n'; /* in place of the brace */
	make(reply, 200, JSON_TYPE, ask->in, bytes, now_ns);
	ask->in = NULL;
	ask->in_room = 0;
	return true;
}

/* --- the requests that it takes --- */

static bool next_request(struct reply *reply, const char **verb, char room[64], json_t **args)
{
	return route_request(&reply->route, reply->step, verb, room, args);
}

static void finish(struct reply *reply, uint64_t now_ns)
{
	switch (reply->route.kind) {
	case ROUTE_METRICS:
		finish_metrics(reply, now_ns);
		break;
	case ROUTE_HEALTH:
		finish_health(reply, now_ns);
		break;
	case ROUTE_REPORT:
		finish_report(reply, now_ns);
		break;
	default:
		make_json(reply, 200, json_incref(json_object_get(reply->parts, "result")), now_ns);
	}
}

/* Of a verb that is refused: the daemon's sentence, with what HTTP has for its exit status. */
static void refuse(struct reply *reply, const json_t *object, uint64_t now_ns)
{
	json_int_t exit = json_integer_value(json_object_get(object, "exit"));
	const char *error = json_text(object, "error");

	make_error(reply,
		   exit == CLI_USAGE	? 400
		   : exit == CLI_FAILED ? 404
					: 503,
		   *error ? error : "the daemon's reply is not understood", now_ns);
}

static void take(struct reply *reply, struct ask *ask, uint64_t now_ns)
{
	enum route_kind kind = reply->route.kind;
	json_t *object, *result, *args = NULL;
	const char *verb = "";
	char room[64];

	if (kind == ROUTE_VERB && finish_verb(reply, ask, now_ns))
		return;
	if (ask->in_bytes > PARSED_BYTES_MAX) {
		make_error(reply, 503, "what this is made of has more than 16 MiB", now_ns);
		return;
	}
	object = json_loadb(ask->in, ask->in_bytes, 0, NULL);
	result = json_object_get(object, "result");
	/* A picture of the report is made of what there is. */
	if (!json_is_true(json_object_get(object, "ok")) && kind != ROUTE_REPORT) {
		refuse(reply, object, now_ns);
		json_decref(object);
		return;
	}
	next_request(reply, &verb, room, &args);
	json_decref(args);
	if (!reply->parts)
		reply->parts = json_object();
	if (result)
		json_object_set(reply->parts, kind == ROUTE_VERB ? "result" : verb, result);
	json_decref(object);
	reply->step++;
	reply->queued_ns = now_ns;
	if (next_request(reply, &verb, room, &args))
		json_decref(args);
	else
		finish(reply, now_ns);
}

/* What is shown of a daemon that is not there, or hangs. */
static void make_absent(struct reply *reply, const char *error, uint64_t now_ns)
{
	char *body = NULL;
	json_t *reason;
	int bytes;

	if (reply->route.kind == ROUTE_METRICS) {
		/* As exporters do, and as the textfile of a daemon that was stopped. */
		bytes = asprintf(&body,
				 "# %s\n# HELP escapement_up 1 while the daemon runs, 0 after it "
				 "was stopped.\n# TYPE escapement_up gauge\nescapement_up 0\n",
				 error);
		make(reply, 200, "text/plain; version=0.0.4; charset=utf-8",
		     bytes < 0 ? NULL : body, (size_t)bytes, now_ns);
	} else if (reply->route.kind == ROUTE_HEALTH) {
		reason = json_pack("[{s:s, s:s, s:s}]", "severity", "critical", "what", error,
				   "remedy", "see `systemctl status escapementd`");
		make_health(reply, NULL, reason, now_ns);
	} else {
		make_error(reply, 503, error, now_ns);
	}
}

/* --- all --- */

static struct reply *oldest_queued(struct cache *cache)
{
	struct reply *found = NULL;

	for (size_t i = 0; i < CACHE_ENTRIES; i++) {
		struct reply *reply = cache->replies[i];

		if (reply && !reply->ready && (!found || reply->queued_ns < found->queued_ns))
			found = reply;
	}
	return found;
}

/* A daemon that does not reply to one does not reply to the others that wait. */
static void fail_all(struct cache *cache, uint64_t now_ns)
{
	for (size_t i = 0; i < CACHE_ENTRIES; i++) {
		struct reply *reply = cache->replies[i];

		if (reply && !reply->ready)
			make_absent(reply, cache->ask.error, now_ns);
	}
}

static void start_next(struct cache *cache, uint64_t now_ns)
{
	struct reply *reply = oldest_queued(cache);
	const char *verb;
	json_t *args;
	char room[64];

	if (!reply || now_ns < cache->not_before_ns)
		return;
	if (!next_request(reply, &verb, room, &args)) {
		make_error(reply, 503, "this release has no such verb", now_ns);
		return;
	}
	cache->asking = reply;
	cache->asked++;
	ask_start(&cache->ask, cache->socket, verb, args, now_ns);
	json_decref(args);
}

static void take_reply(struct cache *cache, uint64_t now_ns)
{
	struct ask *ask = &cache->ask;
	uint64_t took_ns = now_ns - ask->begun_ns;

	if (ask->state == ASK_DONE)
		take(cache->asking, ask, now_ns);
	else if (ask->state == ASK_FAILED)
		make_error(cache->asking, 503, ask->error, now_ns);
	else
		fail_all(cache, now_ns);
	/* At most half of the daemon's time is spent on HTTP. */
	cache->not_before_ns = now_ns + (took_ns < SERVE_S ? took_ns : SERVE_S);
	cache->asking = NULL;
	ask_clear(ask);
}

static bool is_old(const struct reply *reply, uint64_t now_ns)
{
	return reply->ready && now_ns - reply->made_ns >= CACHE_AGE_NS;
}

uint64_t cache_run(struct cache *cache, uint64_t now_ns)
{
	bool finished = false;

	for (int i = 0; i < CACHE_ENTRIES; i++) {
		if (!cache->asking)
			start_next(cache, now_ns);
		if (!cache->asking)
			break;
		ask_run(&cache->ask, now_ns);
		if (cache->ask.state == ASK_RUNS)
			return finished ? now_ns : cache->ask.begun_ns + ASK_TIMEOUT_NS;
		take_reply(cache, now_ns);
		finished = true;
	}
	for (size_t i = 0; i < CACHE_ENTRIES; i++) {
		struct reply *reply = cache->replies[i];

		if (reply && is_old(reply, now_ns) && !reply->users) {
			reply_free(reply);
			cache->replies[i] = NULL;
		}
	}
	if (finished)
		return now_ns;
	return oldest_queued(cache) ? cache->not_before_ns : now_ns + SERVE_S;
}

static struct reply *find(struct cache *cache, const char *key, uint64_t now_ns)
{
	for (size_t i = 0; i < CACHE_ENTRIES; i++) {
		struct reply *reply = cache->replies[i];

		if (reply && !strcmp(reply->key, key) && !is_old(reply, now_ns))
			return reply;
	}
	return NULL;
}

/* A free place, or that of the oldest one that is not used. NULL: there is none. */
static struct reply **find_place(struct cache *cache)
{
	struct reply **found = NULL;

	for (size_t i = 0; i < CACHE_ENTRIES; i++) {
		struct reply **at = &cache->replies[i];

		if (!*at)
			return at;
		if ((*at)->ready && !(*at)->users && (!found || (*at)->made_ns < (*found)->made_ns))
			found = at;
	}
	if (found) {
		reply_free(*found);
		*found = NULL;
	}
	return found;
}

struct reply *cache_get(struct cache *cache, struct route *route, uint64_t now_ns)
{
	char *key = route_key(route);
	struct reply *reply = key ? find(cache, key, now_ns) : NULL, **place;

	if (reply) {
		free(key);
		route_clear(route);
		reply->users++;
		return reply;
	}
	place = key ? find_place(cache) : NULL;
	reply = place ? calloc(1, sizeof(*reply)) : NULL;
	if (!reply) {
		free(key);
		route_clear(route);
		return NULL;
	}
	*reply = (struct reply){.route = *route, .key = key, .users = 1, .queued_ns = now_ns};
	*route = (struct route){};
	*place = reply;
	return reply;
}

void cache_release(struct reply *reply)
{
	reply->users--;
}

void cache_free(struct cache *cache)
{
	ask_clear(&cache->ask);
	for (size_t i = 0; i < CACHE_ENTRIES; i++)
		if (cache->replies[i])
			reply_free(cache->replies[i]);
	*cache = (struct cache){};
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Alerts to Alertmanagers, by their API v2: POST /api/v2/alerts, all alerts each time. Each
 * Alertmanager has its own connection, timer and backoff, so that a slow one delays no other.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert.h"
#include "base/json.h"
#include "base/log.h"
#include "base/now.h"
#include "base/readfile.h"

#define TARGETS_MAX 8
#define PASSWORD_BYTES 512

struct target {
	json_t *config; /* of `alertmanagers` */
	char *url;
	CURL *easy;
	struct curl_slist *headers;
	bool sending, good, removed;
	char *body;
	char reply[PUSH_REPLY_BYTES + 1]; /* its beginning */
	size_t reply_bytes;
	uint64_t sent_changes; /* of struct alerts, in the last that was accepted */
	uint64_t body_changes; /* in what is being sent */
	uint64_t due_local_ns, backoff_ns;
	uint64_t failed_since_ns; /* CLOCK_MONOTONIC; 0: the last one was accepted, or none yet */
	bool reported;
};

struct push {
	CURLM *multi;
	struct target list[TARGETS_MAX];
	size_t count;
	uint64_t seen_changes, changed_local_ns;
};

int push_new(struct push **out)
{
	struct push *push = calloc(1, sizeof(*push));

	if (push && !curl_global_init(CURL_GLOBAL_DEFAULT))
		push->multi = curl_multi_init();
	if (!push || !push->multi) {
		free(push);
		return -ENOMEM;
	}
	*out = push;
	return 0;
}

static void target_clear(struct push *push, struct target *target)
{
	if (target->sending)
		curl_multi_remove_handle(push->multi, target->easy);
	curl_easy_cleanup(target->easy);
	curl_slist_free_all(target->headers);
	json_decref(target->config);
	free(target->url);
	free(target->body);
	*target = (struct target){};
}

void push_free(struct push *push)
{
	if (!push)
		return;
	for (size_t i = 0; i < push->count; i++)
		target_clear(push, &push->list[i]);
	curl_multi_cleanup(push->multi);
	curl_global_cleanup();
	free(push);
}

/* --- one Alertmanager --- */

/* Only the beginning is kept, for an error; what is longer than any reply ends the transfer. */
static size_t take_reply(char *bytes, size_t size, size_t count, void *context)
{
	struct target *target = context;
	size_t got = size * count, room = PUSH_REPLY_BYTES - target->reply_bytes;

	memcpy(target->reply + target->reply_bytes, bytes, got < room ? got : room);
	target->reply_bytes += got < room ? got : room;
	return got <= room ? got : 0;
}

/* The first line of the password file; -errno: it is not sent without. */
static int set_user(struct target *target)
{
	const char *user = json_text(target->config, "user");
	char password[PASSWORD_BYTES];
	int bytes = 0;

	if (!*user)
		return 0;
	bytes = readtext(password, sizeof(password), "%s",
			 json_text(target->config, "password_file"));
	if (bytes < 0)
		return bytes;
	password[strcspn(password, "\r\n")] = '\0';
	curl_easy_setopt(target->easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
	curl_easy_setopt(target->easy, CURLOPT_USERNAME, user);
	curl_easy_setopt(target->easy, CURLOPT_PASSWORD, password);
	explicit_bzero(password, sizeof(password));
	return 0;
}

static bool target_init(struct target *target, json_t *config)
{
	const char *url = json_text(config, "url"), *ca_file = json_text(config, "ca_file");
	size_t bytes = strlen(url);

	while (bytes && url[bytes - 1] == '/')
		bytes--;
	target->config = json_incref(config);
	target->easy = curl_easy_init();
	target->headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (!target->easy || !target->headers ||
	    asprintf(&target->url, "%.*s/api/v2/alerts", (int)bytes, url) < 0)
		return false;
	curl_easy_setopt(target->easy, CURLOPT_URL, target->url);
	curl_easy_setopt(target->easy, CURLOPT_HTTPHEADER, target->headers);
	curl_easy_setopt(target->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(target->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(target->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(target->easy, CURLOPT_TIMEOUT_MS, (long)PUSH_TIMEOUT_MS);
	curl_easy_setopt(target->easy, CURLOPT_USERAGENT, "escapement-alert/" ESC_VERSION);
	curl_easy_setopt(target->easy, CURLOPT_WRITEFUNCTION, take_reply);
	curl_easy_setopt(target->easy, CURLOPT_WRITEDATA, target);
	curl_easy_setopt(target->easy, CURLOPT_PRIVATE, target);
	if (*ca_file)
		curl_easy_setopt(target->easy, CURLOPT_CAINFO, ca_file);
	return true;
}

void push_configure(struct push *push, struct alerts *alerts, const json_t *list)
{
	bool same = json_array_size(list) == push->count;
	json_t *config;
	size_t i;

	json_array_foreach (list, i, config)
		same = same && json_equal(config, push->list[i].config);
	if (same)
		return;
	for (i = 0; i < push->count; i++) {
		if (push->list[i].reported)
			alerts_own(alerts, "alertmanager_unreachable", push->list[i].url, NULL,
				   time_realtime_ns());
		target_clear(push, &push->list[i]);
	}
	push->count = 0;
	json_array_foreach (list, i, config) {
		struct target *target = &push->list[push->count];

		if (push->count < TARGETS_MAX && target_init(target, config))
			push->count++;
		else
			target_clear(push, target);
	}
}

/* A text of others: one line, without what a terminal obeys. */
static void make_plain(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f)
			*text = ' ';
}

static void finish(struct target *target, CURLcode result, uint64_t now_ns)
{
	uint64_t backoff_ns = target->backoff_ns ? 2 * target->backoff_ns : PUSH_BACKOFF_NS;
	long status = 0;

	curl_easy_getinfo(target->easy, CURLINFO_RESPONSE_CODE, &status);
	target->sending = false;
	target->reply[target->reply_bytes] = '\0';
	make_plain(target->reply);
	if (result == CURLE_OK && status >= 200 && status < 300) {
		if (!target->good)
			log_info("%s accepts alerts", target->url);
		target->good = true;
		target->sent_changes = target->body_changes;
		target->backoff_ns = target->failed_since_ns = 0;
		target->due_local_ns = now_ns + PUSH_AGAIN_NS;
		return;
	}
	if (target->good || !target->failed_since_ns)
		log_warning("%s does not accept alerts: %s%.200s; trying again", target->url,
			    result ? curl_easy_strerror(result) : "its reply is not 2xx: ",
			    result ? "" : target->reply);
	target->good = false;
	target->failed_since_ns = target->failed_since_ns ? target->failed_since_ns : now_ns;
	target->backoff_ns = backoff_ns < PUSH_BACKOFF_MOST_NS ? backoff_ns : PUSH_BACKOFF_MOST_NS;
	target->due_local_ns = now_ns + target->backoff_ns;
}

static void send_alerts(struct push *push, struct target *target, const struct alerts *alerts,
			uint64_t now_local_ns)
{
	json_t *list = alerts_json(alerts, time_realtime_ns() + PUSH_LAPSE_NS);
	int err;

	free(target->body);
	target->body = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	target->reply_bytes = 0;
	target->body_changes = alerts->changes;
	err = target->body ? set_user(target) : -ENOMEM;
	if (err) {
		snprintf(target->reply, sizeof(target->reply), "%s: %s",
			 json_text(target->config, "password_file"), strerror(-err));
		target->reply_bytes = strlen(target->reply);
		finish(target, CURLE_OK, now_local_ns);
		return;
	}
	curl_easy_setopt(target->easy, CURLOPT_POSTFIELDS, target->body);
	curl_easy_setopt(target->easy, CURLOPT_POSTFIELDSIZE_LARGE,
			 (curl_off_t)strlen(target->body));
	target->sending = !curl_multi_add_handle(push->multi, target->easy);
	if (!target->sending)
		finish(target, CURLE_OUT_OF_MEMORY, now_local_ns);
}

/* --- all --- */

static void take_replies(struct push *push, uint64_t now_local_ns)
{
	CURLMsg *message;
	int left;

	curl_multi_perform(push->multi, &left);
	while ((message = curl_multi_info_read(push->multi, &left))) {
		CURL *easy = message->easy_handle;
		CURLcode result = message->data.result;
		struct target *target = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&target);
		curl_multi_remove_handle(push->multi, easy);
		finish(target, result, now_local_ns);
	}
}

/* One that fails is a fault that the others get. */
static void report(struct alerts *alerts, const struct push *push, struct target *target,
		   uint64_t now_local_ns)
{
	bool failed =
		target->failed_since_ns && now_local_ns - target->failed_since_ns >= PUSH_REPORT_NS;

	if (failed == target->reported || push->count < 2)
		return;
	target->reported = failed;
	alerts_own(alerts, "alertmanager_unreachable", target->url,
		   failed ? "See `journalctl -u escapement-alert`." : NULL, time_realtime_ns());
}

uint64_t push_run(struct push *push, struct alerts *alerts, uint64_t now_local_ns)
{
	uint64_t next_ns = UINT64_MAX;

	take_replies(push, now_local_ns);
	if (alerts->changes != push->seen_changes) {
		push->seen_changes = alerts->changes;
		push->changed_local_ns = now_local_ns;
	}
	for (size_t i = 0; i < push->count; i++) {
		struct target *target = &push->list[i];
		uint64_t due_ns = target->due_local_ns;

		report(alerts, push, target, now_local_ns);
		if (target->sending)
			continue;
		/* A change does not wait for the next time, but for the end of a backoff. */
		if (!target->backoff_ns && target->sent_changes != alerts->changes &&
		    due_ns > push->changed_local_ns + PUSH_COLLECT_NS)
			due_ns = push->changed_local_ns + PUSH_COLLECT_NS;
		if (!alerts->count) {
			target->sent_changes = alerts->changes;
			continue;
		}
		if (due_ns <= now_local_ns)
			send_alerts(push, target, alerts, now_local_ns);
		else
			next_ns = due_ns < next_ns ? due_ns : next_ns;
	}
	take_replies(push, now_local_ns);
	return next_ns;
}

void push_wait(struct push *push, struct curl_waitfd *fds, unsigned int count, int timeout_ms)
{
	curl_multi_poll(push->multi, fds, count, timeout_ms, NULL);
}

void push_describe(const struct push *push, char *out, size_t bytes)
{
	size_t good = 0;

	for (size_t i = 0; i < push->count; i++)
		good += push->list[i].good;
	snprintf(out, bytes, "%zu of %zu Alertmanagers accept alerts", good, push->count);
}

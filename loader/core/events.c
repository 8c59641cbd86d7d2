// SPDX-License-Identifier: BSD-2-Clause
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

struct ledger_listener {
	ledger_listener_fn *fn;
	void *context;
};

struct ledger {
	json_t **ring; /* @keep places; event n is at n % keep */
	uint32_t keep;
	uint64_t total;
	char *file;
	bool file_failed; /* said once, until it works again */
	bool line_open;	  /* the last write ended inside a line */
	struct ledger_listener *listeners;
	size_t listener_count;
	bool telling; /* listeners are being called: leave holes, close them after */
};

int ledger_new(struct ledger **out, uint32_t keep, const char *file)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));

	if (!ledger)
		return -ENOMEM;
	ledger->keep = keep ? keep : 1;
	ledger->ring = calloc(ledger->keep, sizeof(*ledger->ring));
	ledger->file = file ? strdup(file) : NULL;
	if (!ledger->ring || (file && !ledger->file)) {
		ledger_free(ledger);
		return -ENOMEM;
	}
	*out = ledger;
	return 0;
}

void ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return;
	if (ledger->ring)
		for (uint32_t i = 0; i < ledger->keep; i++)
			json_decref(ledger->ring[i]);
	free(ledger->ring);
	free(ledger->file);
	free(ledger->listeners);
	free(ledger);
}

static void ledger_file_failed(struct ledger *ledger, const char *what, int error)
{
	if (!ledger->file_failed)
		log_warning("events.file %s: %s: %s; events are kept in memory, and the file is "
			    "tried again with each event",
			    ledger->file, what, strerror(error));
	ledger->file_failed = true;
}

/*
 * Opened for each event, so that a rotated or removed file is followed and a
 * disk that was full is noticed when it is not. Events are rare.
 */
static void ledger_append(struct ledger *ledger, const json_t *event)
{
	char *text = json_dumps(event, JSON_COMPACT), *line = NULL;
	ssize_t bytes, written;
	int fd;

	if (!text)
		return;
	fd = open(ledger->file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
	if (fd < 0) {
		ledger_file_failed(ledger, "cannot be opened", errno);
		goto out;
	}
	bytes = asprintf(&line, "%s%s\n", ledger->line_open ? "\n" : "", text);
	if (bytes < 0) {
		line = NULL;
		goto out;
	}
	written = write(fd, line, bytes);
	if (written == bytes) {
		ledger->file_failed = false;
		ledger->line_open = false;
		goto out;
	}
	ledger_file_failed(ledger, "cannot be written", written < 0 ? errno : ENOSPC);
	if (written > 0)
		ledger->line_open = true;
out:
	if (fd >= 0)
		close(fd);
	free(line);
	free(text);
}

static void ledger_drop_holes(struct ledger *ledger)
{
	size_t kept = 0;

	for (size_t i = 0; i < ledger->listener_count; i++)
		if (ledger->listeners[i].fn)
			ledger->listeners[kept++] = ledger->listeners[i];
	ledger->listener_count = kept;
}

static void ledger_tell(struct ledger *ledger, const json_t *event)
{
	ledger->telling = true;
	for (size_t i = 0; i < ledger->listener_count; i++)
		if (ledger->listeners[i].fn)
			ledger->listeners[i].fn(event, ledger->listeners[i].context);
	ledger->telling = false;
	ledger_drop_holes(ledger);
}

static json_t *ledger_event(const char *kind, const char *subject, json_t *parts[4])
{
	static const char *const names[4] = {"seen", "done", "expected", "result"};
	struct timespec now;
	json_t *event;

	clock_gettime(CLOCK_REALTIME, &now);
	event = json_pack("{s:I, s:s, s:s}", "time_ns",
			  (json_int_t)now.tv_sec * 1000000000 + now.tv_nsec, "kind", kind,
			  "subject", subject ? subject : "");
	for (int i = 0; i < 4; i++) {
		if (event && parts[i])
			json_object_set_new(event, names[i], parts[i]);
		else
			json_decref(parts[i]);
	}
	return event;
}

void ledger_add(struct ledger *ledger, const char *kind, const char *subject, json_t *seen,
		json_t *done, json_t *expected, json_t *result)
{
	json_t *event = ledger_event(kind, subject, (json_t *[4]){seen, done, expected, result});
	json_t **place;

	if (!event || !ledger) {
		json_decref(event);
		return;
	}
	place = &ledger->ring[ledger->total % ledger->keep];
	json_decref(*place);
	*place = event;
	ledger->total++;
	if (ledger->file)
		ledger_append(ledger, event);
	ledger_tell(ledger, event);
}

json_t *ledger_since(const struct ledger *ledger, uint64_t since_ns)
{
	uint64_t first = ledger->total > ledger->keep ? ledger->total - ledger->keep : 0;
	json_t *events = json_array();

	for (uint64_t n = first; events && n < ledger->total; n++) {
		json_t *event = ledger->ring[n % ledger->keep];

		if ((uint64_t)json_integer_value(json_object_get(event, "time_ns")) >= since_ns)
			json_array_append(events, event);
	}
	return events;
}

int ledger_listen(struct ledger *ledger, ledger_listener_fn *fn, void *context)
{
	struct ledger_listener *grown =
		reallocarray(ledger->listeners, ledger->listener_count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	ledger->listeners = grown;
	grown[ledger->listener_count++] = (struct ledger_listener){fn, context};
	return 0;
}

void ledger_unlisten(struct ledger *ledger, ledger_listener_fn *fn, void *context)
{
	for (size_t i = 0; i < ledger->listener_count; i++)
		if (ledger->listeners[i].fn == fn && ledger->listeners[i].context == context)
			ledger->listeners[i].fn = NULL;
	if (!ledger->telling)
		ledger_drop_holes(ledger);
}

uint64_t ledger_total(const struct ledger *ledger)
{
	return ledger->total;
}

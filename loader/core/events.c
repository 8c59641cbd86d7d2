// SPDX-License-Identifier: BSD-2-Clause
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/json.h"
#include "base/log.h"
#include "base/now.h"

struct listener {
	events_listener_fn *fn;
	void *context;
};

struct events {
	json_t **ring; /* @keep places; event n is at n % keep */
	uint32_t keep;
	uint64_t total;
	char *host;
	uint64_t start_ns; /* CLOCK_REALTIME: with the number it makes an id that no restart repeats
			    */
	events_clock_fn *read_clock; /* NULL: fabric time is not known */
	void *clock_context;
	char *file;
	bool file_failed; /* reported once, until it works again */
	bool line_open;	  /* the last write ended inside a line */
	struct listener *listeners;
	size_t listener_count, listener_room;
	struct event_count *counts; /* by name: modules may share one */
	size_t count_count, count_room;
	bool notifying; /* listeners are being called: leave holes, close them after */
};

const char *event_severity_name(enum event_severity severity)
{
	static const char *const names[] = {"info", "notice", "warning", "critical"};

	return names[severity];
}

int events_new(struct events **out, uint32_t keep, const char *file)
{
	struct events *events = calloc(1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	events->keep = keep ? keep : 1;
	events->start_ns = time_realtime_ns();
	events->ring = calloc(events->keep, sizeof(*events->ring));
	events->file = file ? strdup(file) : NULL;
	if (!events->ring || (file && !events->file)) {
		events_free(events);
		return -ENOMEM;
	}
	*out = events;
	return 0;
}

void events_free(struct events *events)
{
	if (!events)
		return;
	if (events->ring)
		for (uint32_t i = 0; i < events->keep; i++)
			json_decref(events->ring[i]);
	free(events->ring);
	free(events->host);
	free(events->file);
	free(events->listeners);
	free(events->counts);
	free(events);
}

/*
 * Opened for each event, so that a rotated or removed file is followed, and a full disk is noticed
 * once there is room again. Events are rare.
 */
static void append_to_file(struct events *events, const json_t *event)
{
	char *text = json_dumps(event, JSON_COMPACT), *line = NULL;
	ssize_t bytes = -1, written;
	int fd = -1;

	if (text)
		bytes = asprintf(&line, "%s%s\n", events->line_open ? "\n" : "", text);
	free(text);
	if (bytes < 0)
		return;
	fd = open(events->file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
	written = fd < 0 ? -1 : write(fd, line, bytes);
	if (written != bytes && !events->file_failed)
		log_warning("events.file %s: %s: %s; events are kept in memory, and the file is "
			    "tried again with each event",
			    events->file, fd < 0 ? "cannot be opened" : "cannot be written",
			    strerror(written < 0 ? errno : ENOSPC));
	events->file_failed = written != bytes;
	if (written > 0)
		events->line_open = written != bytes;
	if (fd >= 0)
		close(fd);
	free(line);
}

static void drop_holes(struct events *events)
{
	size_t kept = 0;

	for (size_t i = 0; i < events->listener_count; i++)
		if (events->listeners[i].fn)
			events->listeners[kept++] = events->listeners[i];
	events->listener_count = kept;
}

/* When memory is short a kind has no counter of its own. */
static void count(struct events *events, const struct event_kind *kind)
{
	struct event_count *found;

	for (size_t i = 0; i < events->count_count; i++) {
		if (strcmp(events->counts[i].kind, kind->name))
			continue;
		events->counts[i].count++;
		return;
	}
	found = array_add(&events->counts, &events->count_count, &events->count_room,
			  sizeof(*found));
	if (found)
		*found = (struct event_count){kind->name, kind->severity, 1};
}

void events_set_host(struct events *events, const char *host)
{
	free(events->host);
	events->host = strdup(host);
}

void events_set_clock(struct events *events, events_clock_fn *read, void *context)
{
	if (!events)
		return;
	events->read_clock = read;
	events->clock_context = context;
}

static void put_origin(json_t *object, const struct events *events)
{
	int64_t fabric_ns, bound_ns;

	if (events->host) {
		json_put(object, "id",
			 json_sprintf("%s:%" PRIx64 ":%" PRIu64, events->host, events->start_ns,
				      events->total));
		json_put_text(object, "host", events->host);
	}
	if (events->read_clock &&
	    events->read_clock(events->clock_context, &fabric_ns, &bound_ns)) {
		json_put_integer(object, "fabric_ns", fabric_ns);
		json_put_integer(object, "bound_ns", bound_ns);
	}
}

void events_add(struct events *events, const struct event *event)
{
	json_t *object = json_object(), **place;

	if (events)
		put_origin(object, events);
	json_put_count(object, "time_ns", time_realtime_ns());
	json_put_text(object, "kind", event->kind->name);
	json_put_text(object, "severity", event_severity_name(event->kind->severity));
	json_object_set_new(object, "subject", json_string(event->subject ? event->subject : ""));
	json_put(object, "seen", event->seen);
	json_put(object, "done", event->done);
	json_put(object, "expected", event->expected);
	json_put(object, "result", event->result);
	if (!events) {
		json_decref(object);
		return;
	}
	place = &events->ring[events->total % events->keep];
	json_decref(*place);
	*place = object;
	events->total++;
	count(events, event->kind);
	if (events->file)
		append_to_file(events, object);
	/* A listener may remove itself, or another one. */
	events->notifying = true;
	for (size_t i = 0; i < events->listener_count; i++)
		if (events->listeners[i].fn)
			events->listeners[i].fn(object, events->listeners[i].context);
	events->notifying = false;
	drop_holes(events);
}

json_t *events_since(const struct events *events, uint64_t since_ns)
{
	uint64_t first = events->total > events->keep ? events->total - events->keep : 0;
	json_t *list = json_array();

	for (uint64_t n = first; list && n < events->total; n++) {
		json_t *event = events->ring[n % events->keep];

		if ((uint64_t)json_integer_value(json_object_get(event, "time_ns")) >= since_ns)
			json_array_append(list, event);
	}
	return list;
}

int events_listen(struct events *events, events_listener_fn *fn, void *context)
{
	struct listener *listener = array_add(&events->listeners, &events->listener_count,
					      &events->listener_room, sizeof(*listener));

	if (!listener)
		return -ENOMEM;
	*listener = (struct listener){fn, context};
	return 0;
}

void events_unlisten(struct events *events, events_listener_fn *fn, void *context)
{
	for (size_t i = 0; i < events->listener_count; i++)
		if (events->listeners[i].fn == fn && events->listeners[i].context == context)
			events->listeners[i].fn = NULL;
	if (!events->notifying)
		drop_holes(events);
}

uint64_t events_total(const struct events *events)
{
	return events->total;
}

size_t events_counts(const struct events *events, const struct event_count **out)
{
	*out = events->counts;
	return events->count_count;
}

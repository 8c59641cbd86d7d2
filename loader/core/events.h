/* SPDX-License-Identifier: BSD-2-Clause */
/* The event log: what was seen, what was done, what was expected, and the result. */
#ifndef ESC_CORE_EVENTS_H
#define ESC_CORE_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct events;

/* Info: what works as it should; notice: a change; warning: to be investigated. */
enum event_severity { EVENT_INFO, EVENT_NOTICE, EVENT_WARNING, EVENT_CRITICAL };
const char *event_severity_name(enum event_severity severity);

/*
 * A module has one list of its kinds, from which its enum, its table and the manual are made:
 *   #define PACE_EVENTS(X) X(PACE_ON, "pace_on", NOTICE, "Pacing began on an interface.") ...
 *   enum { PACE_EVENTS(EVENT_ENUM) };
 *   static const struct event_kind kinds[] = {PACE_EVENTS(EVENT_KIND){}};
 */
struct event_kind {
	const char *name;
	enum event_severity severity;
	const char *help; /* one sentence */
};
#define EVENT_ENUM(id, name, severity, help) id,
#define EVENT_KIND(id, name, severity, help) [id] = {name, EVENT_##severity, help},

struct event {
	const struct event_kind *kind;
	const char *subject; /* host, interface, path or queue pair; NULL: "" */
	/* Taken over; NULL: left out. */
	json_t *seen, *done, *expected, *result;
};

/* @keep events stay in memory; @file (NULL: none) gets each as a line of JSON. */
int events_new(struct events **out, uint32_t keep, const char *file);
void events_free(struct events *events);

/* What each event then has besides: `id` and `host`. @host is copied. */
void events_set_host(struct events *events, const char *host);
/* `fabric_ns` and `bound_ns`, while @read returns true. NULL: not any more. @events may be NULL. */
typedef bool events_clock_fn(void *context, int64_t *fabric_ns, int64_t *bound_ns);
void events_set_clock(struct events *events, events_clock_fn *read, void *context);

/* Records @event now. Never fails the caller; @events may be NULL. */
void events_add(struct events *events, const struct event *event);

/* New reference: array of events with time_ns (CLOCK_REALTIME) >= @since_ns, oldest first. */
json_t *events_since(const struct events *events, uint64_t since_ns);

/* Called for each new event until removed; the event is borrowed. */
typedef void events_listener_fn(const json_t *event, void *context);
int events_listen(struct events *events, events_listener_fn *fn, void *context);
void events_unlisten(struct events *events, events_listener_fn *fn, void *context);

/* Events recorded since the start. */
uint64_t events_total(const struct events *events);

/* The same by kind, in the order in which they came first. Valid until the next event. */
struct event_count {
	const char *kind; /* of static storage, as in struct event_kind */
	enum event_severity severity;
	uint64_t count;
};
size_t events_counts(const struct events *events, const struct event_count **out);

#endif

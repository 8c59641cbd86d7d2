/* SPDX-License-Identifier: BSD-2-Clause */
/* The event log: what was seen, what was done, what was expected, and the result. */
#ifndef ESC_CORE_EVENTS_H
#define ESC_CORE_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct esc_qp_key;
struct events;

/* The version of the JSON of an event: a member that is renamed, or means something else, raises
 * it. */
#define EVENT_VERSION 1

/* Info: what works as it should; notice: a change; warning: to be investigated. */
enum event_severity { EVENT_INFO, EVENT_NOTICE, EVENT_WARNING, EVENT_CRITICAL };
const char *event_severity_name(enum event_severity severity);

/* What an event is about. */
enum event_about {
	EVENT_HOST, /* this host, its daemon or a file of it */
	EVENT_NIC,  /* an interface of this host */
	EVENT_PEER, /* another host */
	EVENT_PATH,
	EVENT_PAIR, /* of addresses */
	EVENT_QP,
	EVENT_FABRIC, /* a cable, a switch or a plane: with .fault */
	EVENT_ABOUTS
};
const char *event_about_name(enum event_about about);

/*
 * A module has one list of its kinds, in the way of METRIC_ENUM and METRIC in base/fields.h. Behind
 * the help a kind may have further members: X(NIC_DOWN, "nic_down", WARNING, "A NIC is down.",
 * .about = EVENT_NIC, .begins = "nic_down"). The log, its JSON schema, the manual and the journal's
 * catalogue are made from these lists.
 */
#define EVENT_ENDS_ALL "all" /* every condition of the same thing */
struct event_kind {
	const char *name;
	enum event_severity severity;
	const char *help; /* one sentence */
	enum event_about about;
	/*
	 * The condition that it begins, or continues, and the one that it ends, by the name of the
	 * kind that begins it; NULL: none. Only what surely ends is a condition.
	 */
	const char *begins, *ends;
	const char *remedy; /* what to do; NULL: nothing */
};
#define EVENT_ENUM(id, name, severity, help, ...) id,
#define EVENT_KIND(id, name, severity, help, ...)                                                  \
	[id] = {name, EVENT_##severity, help, ##__VA_ARGS__},

struct event {
	const struct event_kind *kind;
	const char *subject; /* host, interface, path or queue pair; NULL: "" */
	/*
	 * What tells two things of one subject apart, as the planes of a peer: a condition is of
	 * both. NULL: nothing has to.
	 */
	const char *part;
	/* Its name on every host, "tor:leaf3"; NULL: made of the above. */
	const char *fault;
	enum event_about about; /* where it differs from the kind's; EVENT_HOST: it does not */
	const enum event_severity
		*severity; /* where it differs from the kind's; NULL: it does not */
	bool no_condition; /* it neither begins nor ends what its kind does */
	/* Whose job and process are added, when they are known; NULL: no queue pair. */
	const struct esc_qp_key *qp;
	const char *job;    /* of what has no queue pair; NULL: none */
	const char *remedy; /* instead of the kind's; NULL: the kind's */
	/* Taken over; NULL: left out. */
	json_t *seen, *done, *expected, *result;
};

/*
 * @keep events stay in memory. @file (NULL: none) gets each as a line of JSON, and the journal when
 * log lines go there; neither is waited for, and none of them has to work.
 */
int events_new(struct events **out, uint32_t keep, const char *file);
/* Waits for a second at most for the file. */
void events_free(struct events *events);

/* What each event then has besides: `id` and `host`. @host is copied. */
void events_set_host(struct events *events, const char *host);
/* `fabric_ns` and `bound_ns`, while @read returns true. NULL: not any more. @events may be NULL. */
typedef bool events_clock_fn(void *context, int64_t *fabric_ns, int64_t *bound_ns);
void events_set_clock(struct events *events, events_clock_fn *read, void *context);
/*
 * `job` and `pid` of events about a queue pair, while @find returns true; *@job "" or *@pid 0: not
 * known. NULL: not any more. @events may be NULL.
 */
typedef bool events_owner_fn(void *context, const struct esc_qp_key *qp, uint32_t *pid,
			     const char **job);
void events_set_owners(struct events *events, events_owner_fn *find, void *context);

/*
 * Called for each event that begins or ends a condition, also for one that events_limit()
 * suppresses, which has no id. The event is borrowed. NULL: not any more. @events may be NULL.
 */
typedef void events_condition_fn(void *context, const json_t *event);
void events_on_condition(struct events *events, events_condition_fn *fn, void *context);

/*
 * Reads the events that earlier daemons of this host left in the file into memory, before the
 * first one is recorded: it waits for the disk.
 */
void events_recall(struct events *events);
/* From now on a file that cannot be written, or can again, is an event. 0 or -errno. */
int events_watch_file(struct events *events, sd_event *loop);
/* Waits until the file has all events; false: not within @timeout_ms. */
bool events_flush(struct events *events, unsigned int timeout_ms);

/* What the file and the journal did not get since the start. */
struct events_losses {
	const char *path; /* of the file; NULL: none */
	int error;	  /* of its newest write; 0 or -errno */
	uint64_t file, journal;
};
void events_losses(const struct events *events, struct events_losses *out);
/* CLOCK_MONOTONIC of the write to the file that has not ended; 0: none. */
uint64_t events_write_since(const struct events *events);
extern const struct event_kind events_events[]; /* ended by {} */

/*
 * From now on a token bucket for each kind: after EVENTS_KIND_BURST events of a kind,
 * EVENTS_KIND_PER_S are recorded. The others are counted, and the next one that is recorded states
 * their number.
 */
#define EVENTS_KIND_BURST 64
#define EVENTS_KIND_PER_S 2
void events_limit(struct events *events);

/* Records @event now. Never fails the caller; @events may be NULL. */
void events_add(struct events *events, const struct event *event);

/* New reference: array of events with time_ns (CLOCK_REALTIME) >= @since_ns, oldest first. */
json_t *events_since(const struct events *events, uint64_t since_ns);

/* Called for each new event until removed; the event is borrowed. */
typedef void events_listener_fn(const json_t *event, void *context);
int events_listen(struct events *events, events_listener_fn *fn, void *context);
void events_unlisten(struct events *events, events_listener_fn *fn, void *context);

/* Events recorded since the start, by kind, in the order in which they came first. Valid until the
 * next event. */
struct event_count {
	const char *kind; /* of static storage, as in struct event_kind */
	enum event_severity severity;
	uint64_t count;
	uint64_t suppressed; /* not recorded; see events_limit() */
	/* Of the token bucket. */
	uint64_t unstated; /* suppressed since the last one that was recorded */
	uint64_t spent_ns; /* time that the tokens spent take to return, at @at_local_ns */
	uint64_t at_local_ns;
	bool limited; /* reported, until all tokens are back */
};
size_t events_counts(const struct events *events, const struct event_count **out);

#endif

// SPDX-License-Identifier: BSD-2-Clause
#include "events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/json.h"
#include "base/log.h"
#include "base/now.h"
#include "eventlog.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

#define EVENTS_EVENTS(X)                                                                           \
	X(FILE_FAILED, "events_file_failed", WARNING,                                              \
	  "events.file cannot be written; events are kept in memory.",                             \
	  .begins = "events_file_failed", .remedy = "See that its disk has room and responds.")    \
	X(FILE_RECOVERED, "events_file_recovered", NOTICE, "events.file is written again.",        \
	  .ends = "events_file_failed")                                                            \
	X(JOURNAL_FAILED, "events_journal_failed", WARNING,                                        \
	  "The journal does not take events; they are kept in memory and in events.file.",         \
	  .begins = "events_journal_failed", .remedy = "`systemctl status systemd-journald`.")     \
	X(JOURNAL_RECOVERED, "events_journal_recovered", NOTICE,                                   \
	  "The journal takes events again.", .ends = "events_journal_failed")                      \
	X(LIMITED, "events_limited", WARNING,                                                      \
	  "Events of a kind are suppressed, two in a second are recorded.")
enum { EVENTS_EVENTS(EVENT_ENUM) };
const struct event_kind events_events[] = {EVENTS_EVENTS(EVENT_KIND){}};

struct listener {
	events_listener_fn *fn; /* NULL: the place is free */
	void *context;
};

struct events {
	json_t **ring; /* @keep places; event n is at n % keep */
	uint32_t keep;
	uint64_t total;	 /* in the ring, with those of an earlier daemon */
	uint64_t number; /* recorded by this one */
	char *host;
	uint64_t start_ns; /* CLOCK_REALTIME: with it the number is an id that no restart repeats */
	events_clock_fn *read_clock; /* NULL: fabric time is not known */
	void *clock_context;
	events_owner_fn *find_owner; /* NULL: owners of queue pairs are not known */
	void *owner_context;
	events_condition_fn *on_condition; /* NULL: none */
	void *condition_context;
	char *file;
	struct eventlog *log; /* NULL: no file */
	bool file_failed;     /* as reported last */
	sd_event_source *log_state;
	int journal_fd;
	bool journal_failed; /* as reported last */
	uint64_t journal_lost;
	struct listener *listeners;
	size_t listener_count, listener_room;
	bool limit;
	struct event_count *counts; /* by name and severity: modules may share one */
	size_t count_count, count_room;
};

const char *event_severity_name(enum event_severity severity)
{
	static const char *const names[] = {"info", "notice", "warning", "critical"};

	return names[severity];
}

const char *event_about_name(enum event_about about)
{
	static const char *const names[EVENT_ABOUTS] = {"host", "nic", "peer",	"path",
							"pair", "qp",  "fabric"};

	return names[about];
}

static enum event_severity severity_of(const struct event *event)
{
	return event->severity ? *event->severity : event->kind->severity;
}

int events_new(struct events **out, uint32_t keep, const char *file)
{
	struct events *events = calloc(1, sizeof(*events));
	int err;

	if (!events)
		return -ENOMEM;
	events->keep = keep ? keep : 1;
	events->journal_fd = -1;
	events->start_ns = time_realtime_ns();
	events->ring = calloc(events->keep, sizeof(*events->ring));
	events->file = file ? strdup(file) : NULL;
	if (!events->ring || (file && !events->file)) {
		events_free(events);
		return -ENOMEM;
	}
	err = file ? eventlog_new(&events->log, file) : 0;
	if (err)
		log_warning("events.file %s: no thread to write it: %s; events are kept in memory",
			    file, strerror(-err));
	*out = events;
	return 0;
}

void events_free(struct events *events)
{
	if (!events)
		return;
	eventlog_free(events->log);
	sd_event_source_disable_unref(events->log_state);
	if (events->journal_fd >= 0)
		close(events->journal_fd);
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

/* --- the file and the journal --- */

static void append_to_file(struct events *events, const json_t *event)
{
	char *line = json_line(event, JSON_COMPACT);

	if (line)
		eventlog_add(events->log, line);
	free(line);
}

/* Where our log lines go to the journal, events do, too. */
static int send_to_journal(struct events *events, const json_t *event,
			   const struct event_kind *kind, enum event_severity severity)
{
	static const int priorities[] = {
		[EVENT_INFO] = 6, [EVENT_NOTICE] = 5, [EVENT_WARNING] = 4, [EVENT_CRITICAL] = 2};
	int err = 0;

	if (getenv("JOURNAL_STREAM"))
		err = journal_send(&events->journal_fd, JOURNAL_SOCKET, event, priorities[severity],
				   kind->help);
	events->journal_lost += err != 0;
	return err;
}

static void report_journal(struct events *events, int err)
{
	if (events->journal_failed == (err != 0))
		return;
	events->journal_failed = err != 0;
	events_add(events, &(struct event){
				   .kind = &events_events[err ? JOURNAL_FAILED : JOURNAL_RECOVERED],
				   .subject = JOURNAL_SOCKET,
				   .seen = err ? json_pack("{s:s}", "error", strerror(-err))
					       : json_pack("{s:I}", "events_lost",
							   (json_int_t)events->journal_lost),
			   });
}

static void report_file(struct events *events)
{
	struct eventlog_state state = eventlog_state(events->log);

	if (events->file_failed == (state.error != 0))
		return;
	events->file_failed = state.error != 0;
	if (state.error)
		log_warning("events.file %s: %s; events are kept in memory, and the file is tried "
			    "again with each event",
			    events->file, strerror(-state.error));
	events_add(events,
		   &(struct event){
			   .kind = &events_events[state.error ? FILE_FAILED : FILE_RECOVERED],
			   .subject = events->file,
			   .seen = state.error ? json_pack("{s:s}", "error", strerror(-state.error))
					       : json_pack("{s:I}", "events_lost",
							   (json_int_t)state.lost),
		   });
}

static int on_log_state(sd_event_source *source, int fd, uint32_t happened, void *context)
{
	eventfd_t changes;

	(void)source;
	(void)happened;
	eventfd_read(fd, &changes);
	report_file(context);
	return 0;
}

int events_watch_file(struct events *events, sd_event *loop)
{
	if (!events->log)
		return 0;
	return sd_event_add_io(loop, &events->log_state, eventlog_fd(events->log), EPOLLIN,
			       on_log_state, events);
}

bool events_flush(struct events *events, unsigned int timeout_ms)
{
	return !events->log || eventlog_flush(events->log, timeout_ms);
}

void events_losses(const struct events *events, struct events_losses *out)
{
	struct eventlog_state state = {};

	if (events->log)
		state = eventlog_state(events->log);
	*out = (struct events_losses){events->file, state.error, state.lost, events->journal_lost};
}

uint64_t events_write_since(const struct events *events)
{
	return events->log ? eventlog_state(events->log).write_since_ns : 0;
}

/* --- the ring --- */

/* Takes @event over. */
static void keep(struct events *events, json_t *event)
{
	json_t **place = &events->ring[events->total++ % events->keep];

	json_decref(*place);
	*place = event;
}

void events_recall(struct events *events)
{
	json_t *list, *event;
	size_t i;

	if (!events->file || !events->host)
		return;
	list = eventlog_read(events->file, events->host, events->keep);
	json_array_foreach (list, i, event)
		keep(events, json_incref(event));
	json_decref(list);
}

/* NULL: memory is short, and a kind has no counter of its own. */
static struct event_count *count_of(struct events *events, const struct event_kind *kind,
				    enum event_severity severity)
{
	struct event_count *found;

	for (size_t i = 0; i < events->count_count; i++)
		if (!strcmp(events->counts[i].kind, kind->name) &&
		    events->counts[i].severity == severity)
			return &events->counts[i];
	found = array_add(&events->counts, &events->count_count, &events->count_room,
			  sizeof(*found));
	if (found)
		*found = (struct event_count){.kind = kind->name, .severity = severity};
	return found;
}

/* --- the token buckets --- */

#define TOKEN_NS (1000000000ull / EVENTS_KIND_PER_S)

void events_limit(struct events *events)
{
	events->limit = true;
}

/* False: the bucket is empty. */
static bool take_token(struct event_count *kind, uint64_t now_local_ns)
{
	uint64_t passed_ns = now_local_ns - kind->at_local_ns;

	kind->at_local_ns = now_local_ns;
	kind->spent_ns -= passed_ns < kind->spent_ns ? passed_ns : kind->spent_ns;
	if (!kind->spent_ns)
		kind->limited = false;
	if (kind->spent_ns + TOKEN_NS > EVENTS_KIND_BURST * TOKEN_NS)
		return false;
	kind->spent_ns += TOKEN_NS;
	return true;
}

static json_t *event_json(struct events *events, const struct event *event, uint64_t suppressed);
static void report_condition(struct events *events, const json_t *event);

static void suppress(struct events *events, struct event_count *kind, const struct event *event)
{
	bool report = !kind->limited;
	json_t *object = event_json(events, event, 0);

	json_object_del(object, "id");
	report_condition(events, object);
	json_decref(object);
	kind->suppressed++;
	kind->unstated++;
	kind->limited = true;
	if (report)
		events_add(events, &(struct event){.kind = &events_events[LIMITED],
						   .subject = event->kind->name});
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

void events_set_owners(struct events *events, events_owner_fn *find, void *context)
{
	if (!events)
		return;
	events->find_owner = find;
	events->owner_context = context;
}

void events_on_condition(struct events *events, events_condition_fn *fn, void *context)
{
	if (!events)
		return;
	events->on_condition = fn;
	events->condition_context = context;
}

/* --- an event as JSON --- */

static void put_origin(json_t *object, struct events *events)
{
	int64_t fabric_ns, bound_ns;

	if (events && events->host) {
		json_put(object, "id",
			 json_sprintf("%s:%" PRIx64 ":%" PRIu64, events->host, events->start_ns,
				      events->number));
		json_put_text(object, "host", events->host);
	}
	json_put_count(object, "time_ns", time_realtime_ns());
	if (events && events->read_clock &&
	    events->read_clock(events->clock_context, &fabric_ns, &bound_ns)) {
		json_put_integer(object, "fabric_ns", fabric_ns);
		json_put_integer(object, "bound_ns", bound_ns);
	}
}

/*
 * What the event is of, by one name on every host: the subject, with this host's name where another
 * host may have one of that name.
 */
static json_t *fault_json(const struct events *events, const struct event *event,
			  enum event_about about)
{
	const char *host = events && events->host ? events->host : "";
	const char *subject = event->subject ? event->subject : "";
	const char *type = event_about_name(about == EVENT_PEER ? EVENT_HOST : about);
	bool itself = about == EVENT_HOST && !strcmp(subject, host);
	bool local = (about == EVENT_HOST && !itself) || about == EVENT_NIC;

	return json_sprintf("%s:%s%s%s%s%s", type, local ? host : "", local && *subject ? "/" : "",
			    subject, event->part ? "/" : "", event->part ? event->part : "");
}

static void put_kind(json_t *object, const struct events *events, const struct event *event)
{
	const struct event_kind *kind = event->kind;
	enum event_about about = event->about ? event->about : kind->about;

	json_put_text(object, "kind", kind->name);
	json_put_text(object, "severity", event_severity_name(severity_of(event)));
	json_object_set_new(object, "subject", json_string(event->subject ? event->subject : ""));
	json_put_text(object, "about", event_about_name(about));
	json_put(object, "fault",
		 event->fault ? json_string(event->fault) : fault_json(events, event, about));
	if (event->no_condition)
		return;
	json_put_text(object, "begins", kind->begins);
	json_put_text(object, "ends", kind->ends);
}

static void put_owner(json_t *object, const struct events *events, const struct esc_qp_key *qp)
{
	const char *job = "";
	uint32_t pid = 0;

	if (!qp || !events || !events->find_owner ||
	    !events->find_owner(events->owner_context, qp, &pid, &job))
		return;
	json_put_name(object, "job", job);
	if (pid)
		json_put_count(object, "pid", pid);
}

/* Takes over what @event has. @suppressed: before it. */
static json_t *event_json(struct events *events, const struct event *event, uint64_t suppressed)
{
	const char *remedy = event->remedy ? event->remedy : event->kind->remedy;
	json_t *object = json_object();

	json_put_count(object, "version", EVENT_VERSION);
	put_origin(object, events);
	put_kind(object, events, event);
	put_owner(object, events, event->qp);
	if (event->job)
		json_put_name(object, "job", event->job);
	json_put(object, "seen", event->seen);
	json_put(object, "done", event->done);
	json_put(object, "expected", event->expected);
	json_put(object, "result", event->result);
	json_put_text(object, "remedy", remedy);
	json_put(object, "doc", json_sprintf("man:escapement-events(7)#%s", event->kind->name));
	if (suppressed)
		json_put_count(object, "suppressed", suppressed);
	return object;
}

static void report_condition(struct events *events, const json_t *event)
{
	if (events->on_condition &&
	    (json_object_get(event, "begins") || json_object_get(event, "ends")))
		events->on_condition(events->condition_context, event);
}

void events_add(struct events *events, const struct event *event)
{
	enum event_severity severity = severity_of(event);
	struct event_count *kind = events ? count_of(events, event->kind, severity) : NULL;
	json_t *object;
	int err;

	if (kind && events->limit && !take_token(kind, time_local_ns())) {
		suppress(events, kind, event);
		return;
	}
	object = event_json(events, event, kind ? kind->unstated : 0);
	if (!events) {
		json_decref(object);
		return;
	}
	events->number++;
	keep(events, object);
	if (kind) {
		kind->count++;
		kind->unstated = 0;
	}
	if (events->log)
		append_to_file(events, object);
	err = send_to_journal(events, object, event->kind, severity);
	report_condition(events, object);
	/* A listener may remove itself, or another one. */
	for (size_t i = 0; i < events->listener_count; i++)
		if (events->listeners[i].fn)
			events->listeners[i].fn(object, events->listeners[i].context);
	report_journal(events, err);
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
	struct listener *listener = events->listeners;

	while (listener < events->listeners + events->listener_count && listener->fn)
		listener++;
	if (listener == events->listeners + events->listener_count)
		listener = array_add(&events->listeners, &events->listener_count,
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
}

size_t events_counts(const struct events *events, const struct event_count **out)
{
	*out = events->counts;
	return events->count_count;
}

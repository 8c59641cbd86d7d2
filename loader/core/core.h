/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface of a capability, and what each stands on: the event loop, the configuration in
 * force, the event log, timers, and the one writer of the heartbeat. It names no capability.
 */
#ifndef ESC_CORE_CORE_H
#define ESC_CORE_CORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <systemd/sd-event.h>

#include "base/now.h"
#include "config/config.h"
#include "events.h"

#define CORE_HEARTBEAT_NS 50000000ull
#define CAPABILITY_NEEDS_MAX 10

struct core;
struct core_timer;
struct dataplane;
struct metric;
struct qp_entry;

/* --- a request of the socket, as the handler of its verb gets it --- */

/* The exit status that the command line ends with. */
#define REQUEST_FAILED 1
#define REQUEST_MISUSE 2
#define REQUEST_DENIED 4

struct request {
	const json_t *args; /* an object or NULL */
	char *error;	    /* set: refused, with @exit */
	int exit;
	char *text; /* set: the whole reply, with its newline; see request_raw() */
	size_t bytes;
	bool follow; /* each later event is a reply too */
	bool later;  /* there is no reply yet: it is handled again after core_listen_read() */
};

/* Refuses with @error, malloc'd and taken over (NULL: no memory). Returns NULL. */
json_t *request_fail(struct request *request, int exit, char *error);
/* The same with REQUEST_MISUSE. */
json_t *request_misuse(struct request *request, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Takes @text, malloc'd, as the whole line of the reply. Returns NULL. */
json_t *request_raw(struct request *request, char *text, size_t bytes);

/* An argument, or @fallback when it is not given: the verb's table checked its type and range. */
const char *request_text(const struct request *request, const char *name, const char *fallback);
uint64_t request_count(const struct request *request, const char *name, uint64_t fallback);
bool request_flag(const struct request *request, const char *name);
bool request_has(const struct request *request, const char *name);

/* --- a capability: one directory of loader/ and one line in loader/capabilities.def --- */

/* What replies to a verb; the verb itself, with its arguments, is in X/verbs.c. */
struct verb_handler {
	const char *verb;
	/* The result (new reference), or NULL after request_fail() and its like. */
	json_t *(*reply)(void *self, struct request *request);
};

/* A switch per port that the verb `mode` sets: steer, pace. */
struct capability_mode {
	const char *name;
	/* A bit per slot in `ports`. */
	uint16_t (*ports)(const void *self);
	/* @interfaces: array of names; NULL or empty: all. 0 or -errno with *@error. */
	int (*set)(void *self, bool on, const json_t *interfaces, const char *by, char **error);
};

/* Every member but name and open may be NULL. */
struct capability {
	const char *name;
	/* Capabilities opened before it that open() gets, in this order. */
	const char *needs[CAPABILITY_NEEDS_MAX + 1];

	/* Its keys of the configuration, when they are not in config/ (config/config.h). */
	const struct config_section *keys;
	const struct verb_handler *verbs; /* ended by {} */
	const struct event_kind *events;  /* ended by {} */
	const struct metric *metrics;	  /* ended by {} */
	const struct capability_mode *mode;

	/* @needs: as named above. 0 with *@self, or -errno with *@error, a malloc'd sentence. */
	int (*open)(void **self, struct core *core, void *const needs[], char **error);
	void (*close)(void *self);

	uint64_t tick_ns; /* period of tick() */
	void (*tick)(void *self, uint64_t now_local_ns);

	/* A new configuration is in force; @old is the one before. */
	void (*reconfigure)(void *self, const struct config *old);
	/* Applies @new, all or nothing, before it is in force; -errno with *@error refuses it. */
	int (*accept)(void *self, const struct config *new, char **error);

	/* What it would go on to control under @new, such as "steering"; NULL: nothing. */
	const char *(*controls)(const void *self, const struct config *new);

	/* The kill switch. off() is called in the reverse of the order of on(). */
	int (*off)(void *self, const char *by, char **error);
	int (*on)(void *self, char **error);

	/* Fresh facts for what is replied next. 0 or -errno. */
	int (*refresh)(void *self);
	void (*links_changed)(void *self);

	/* Adds members to the reply to `status`. */
	void (*status)(void *self, json_t *status);
	/* Adds members to a queue pair of `qp`. */
	void (*qp)(void *self, const struct qp_entry *entry, json_t *qp);
	/* Writes its families of metrics. */
	void (*write_metrics)(void *self, FILE *out);
	/* The metrics were written: histograms of one scrape are reset. */
	void (*metrics_written)(void *self);
};

/* --- the core --- */

struct core_module {
	struct core *core;
	const struct capability *capability;
	void *self; /* NULL: not open */
	struct core_timer *timer;
	int refresh_error; /* of the newest core_refresh(); 0 or -errno */
};

/* How long the loop was held up, and by what. */
struct core_pause {
	uint64_t beat_local_ns; /* the last heartbeat; 0: none yet */
	uint64_t longest_ns;	/* between two, since the metrics were written last */
	uint64_t silent_ns;	/* the longest time without core_beat() since the last heartbeat */
	const char *slowest;	/* what took longest since the last heartbeat; NULL: nothing yet */
	uint64_t slowest_ns;
	uint64_t cpu_wait_ns; /* core_cpu_wait_ns() at the last heartbeat */
};

/* Something that is waited for outside the loop. */
struct core_wait {
	const char *name;
	uint64_t since_ns;	/* CLOCK_MONOTONIC; 0: not now */
	uint64_t late_since_ns; /* the same, once it was reported as late */
};
/* Threads that are not a struct core_worker. */
enum core_waits { CORE_WAIT_EVENTS, CORE_WAIT_RTNL, CORE_WAITS };

struct core {
	sd_event *loop;
	sd_event_source *wake;	     /* of all timers; NULL: there is none */
	struct core_timer *timers;   /* that wait */
	size_t timer_count;	     /* in all */
	const struct config *config; /* in force; a reload replaces it as a whole */
	struct config *own_config;   /* the same, to be freed */
	struct fleet *fleet;	     /* the members in force */
	struct events *events;
	uint64_t start_realtime_ns, start_local_ns;
	int64_t realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_BOOTTIME, at the last heartbeat */
	struct config_input config_input; /* where it is from, and with which sections */

	struct core_module *modules; /* in the order in which they are opened */
	size_t module_count;

	/* heartbeat_local_ns of the map `control`; NULL until the dataplane is open. */
	uint64_t *heartbeat_local_ns;
	struct core_timer *heartbeat;
	struct core_pause pause;
	struct core_worker *workers;
	struct core_wait waits[CORE_WAITS];
	bool took_over; /* the maps were there before this daemon */

	/* Whether the programs are switched off, as the dataplane has it. */
	bool (*is_off)(const struct dataplane *dataplane);
	const struct dataplane *dataplane;
	bool kill_file_seen;		/* it existed at the last poll */
	unsigned int kill_file_changes; /* by verbs */
	struct core_timer *kill_file_timer;
	struct core_worker *kill_file_worker;

	struct core_worker *members_worker; /* NULL: not used yet */
	struct fleet_read *members_read;    /* its result, until a reload has used it */
	struct core_reader *readers;	    /* that wait for it */
	struct core_timer *start_timer;	    /* NULL: no start marker of ours */
};

#define core_for_each(module, core)                                                                \
	for (struct core_module *module = (core)->modules;                                         \
	     module < (core)->modules + (core)->module_count; module++)

/* --- timers --- */

/* Returns the time to the next call in ns; 0 ends the timer. @now_ns: CLOCK_MONOTONIC. */
typedef uint64_t core_timer_fn(void *context, uint64_t now_ns);

/* First call after @first_ns, within @slack_ns. *@out is freed with core_timer_free(). */
int core_timer_new(struct core *core, struct core_timer **out, uint64_t first_ns, uint64_t slack_ns,
		   core_timer_fn *fn, void *context);
/* Calls its function now instead of when it is due. Not from that function. */
void core_timer_run(struct core_timer *timer);
void core_timer_free(struct core_timer *timer);

/* --- workers: what may wait for a disk, or takes long, each in a thread of its own --- */

/* A job that takes longer is an event, and shown by `status`, until it ends. */
#define CORE_LATE_NS 1000000000ull

struct core_worker;

/* A job is an object of the caller's that the worker takes over. */
struct core_work {
	const char *name; /* 15 bytes at most */
	/* In the thread: uses nothing but @job. */
	void (*work)(void *job);
	/* In the loop, when it has ended; free() is called afterwards. */
	void (*done)(void *context, void *job);
	void (*free)(void *job);
};

/* @kind is borrowed. Its thread begins with the first job. 0 or -errno. */
int core_worker_new(struct core *core, struct core_worker **out, const struct core_work *kind,
		    void *context);
/* -EBUSY: the job before has not ended; on failure @job stays the caller's. */
int core_worker_start(struct core_worker *worker, void *job);
bool core_worker_busy(const struct core_worker *worker);
/* Waits for the job, if there is one, and calls done(); false: not within @timeout_ms. */
bool core_worker_wait(struct core_worker *worker, unsigned int timeout_ms);
/* Waits for a second at most; a job that takes longer is left to its thread. */
void core_worker_free(struct core_worker *worker);

/* Reports those that are late, or are not any more. */
void core_check_late(struct core *core, uint64_t now_local_ns);
/* Those that are late now: [{"name", "duration_ns"}], a new reference. */
json_t *core_late(const struct core *core);

/* --- heartbeat --- */

/* Without a heartbeat for this long, an event names what held up the loop. */
#define CORE_PAUSE_REPORT_NS 500000000ull
/* A change of the system clock between two heartbeats from which on it is an event. */
#define CORE_STEP_NS 500000000ll
/* How long the loop waits for RTNL, before it does without what needs it (net/rtnl.h). */
#define CORE_RTNL_MS 20

/*
 * The programs steer, pace and reply only while the heartbeat is young. It is written each
 * CORE_HEARTBEAT_NS by the loop, and by core_beat() in attaching, which takes long per interface.
 * @heartbeat_local_ns: in the map `control`, borrowed; NULL: no more beats.
 */
int core_heartbeat_start(struct core *core, uint64_t *heartbeat_local_ns);
void core_beat(struct core *core);
/*
 * Returns what @fn does, which runs in a thread while the loop waits and beats, CORE_RUN_NS at
 * most: for one long call into the kernel, as to load a program. The loop must not be needed for
 * it.
 */
#define CORE_RUN_NS 20000000000ull
typedef int core_run_fn(void *context);
int core_run(struct core *core, core_run_fn *fn, void *context);
/* CLOCK_MONOTONIC of the last one, from any thread; 0: none. */
uint64_t core_last_beat(const struct core *core);
/*
 * How long the thread that opened @fd could run since it began, and other threads had its CPU, by
 * the kernel's sched_info (proc(5), schedstat). 0: it is not counted. The wait of now is not in it.
 */
uint64_t core_cpu_wait_ns(int fd);
int core_open_cpu_wait(void); /* of this thread; the caller closes it. -1: it is not counted */
/* @name, a literal, was worked on since then: the event names what took longest. */
void core_took(struct core *core, const char *name, uint64_t since_local_ns);

/* --- capabilities --- */

/* Opens @capability after those that it needs; its ticks begin at once. -errno with *@error. */
int core_open(struct core *core, const struct capability *capability, char **error);
/* Closes all, the last one first. */
void core_close(struct core *core);
void *core_find(const struct core *core, const char *name); /* NULL: it is not open */

/* Reads what replies and metrics are made of: before each reply that needs it. */
int core_refresh(struct core *core);
void core_links_changed(struct core *core);
/*
 * A worker reads the members file that the configuration file names, unless it is the one in force:
 * true, and core_reload() is to be called again when those of core_listen_read() are. False:
 * core_reload() may be called now, and has nothing long to read.
 */
bool core_reload_waits(struct core *core, bool force);
bool core_reload_reads(const struct core *core); /* a worker does so now */
/* Called when a worker has read it. */
typedef void core_read_fn(void *context);
struct core_reader {
	core_read_fn *fn;
	void *context;
	struct core_reader *next;
};
/* @reader is kept by its owner, until core_unlisten_read(). */
void core_listen_read(struct core *core, struct core_reader *reader);
void core_unlisten_read(struct core *core, const struct core_reader *reader);
/*
 * Reads the configuration file again: all of it is applied, or none, with *@error. A member list
 * may be held back (fleet/fleet.h), but not with @force.
 */
int core_reload(struct core *core, bool force, char **error);
/* What the capabilities know of a queue pair, added to @qp. */
void core_describe_qp(const struct core *core, const struct qp_entry *entry, json_t *qp);
/* "observe", "steer", "pace" or "steer+pace": what port @slot, or any port (-1), is allowed. */
json_t *core_mode(const struct core *core, int slot);

/* --- the kill switch --- */

/*
 * Off: everything is detached, and the kill file is made, so that a daemon that starts later
 * stays off. On: the file goes, everything is attached again. Both idempotent. @by: command or
 * file. 0 or -errno with *@error.
 */
int core_set_off(struct core *core, bool off, const char *by, char **error);
bool core_is_off(const struct core *core);
/* The event of a change of it that was made elsewhere; @seen (NULL: nothing) is taken over. */
void core_record_kill_switch(struct core *core, bool off, const char *by, json_t *seen);
/* Follows the kill file from now on: an operator's `touch` or `rm` works as well. */
int core_watch_kill_file(struct core *core);
bool core_kill_file_exists(const struct core *core);
/*
 * Before anything is attached: writes the start marker, KILL_FILE.starting, with the id of this
 * boot. It is removed a minute later, or when the daemon ends in order. One that an earlier boot
 * left turns the kill switch on. 0, or -errno with *@error: nothing may be attached.
 */
int core_begin_start(struct core *core, char **error);
void core_end_start(struct core *core);

extern const struct event_kind core_events[], core_loop_events[]; /* ended by {} */
extern const struct event_kind core_worker_events[];

#endif

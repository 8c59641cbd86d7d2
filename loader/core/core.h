/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every capability stands on: the event loop, the configuration in force, the event log,
 * timers, and the one writer of the heartbeat. It knows no capability by name.
 */
#ifndef ESC_CORE_CORE_H
#define ESC_CORE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/now.h"
#include "capability.h"
#include "config/config.h"
#include "events.h"
#include "request.h"

#define CORE_HEARTBEAT_NS 50000000ull

struct core_module {
	const struct capability *capability;
	void *self; /* NULL: not open */
	struct core_timer *timer;
	int refresh_error; /* of the newest core_refresh(); 0 or -errno */
};

struct core {
	sd_event *loop;
	const struct config *config; /* in force; a reload replaces it as a whole */
	struct config *own_config;   /* the same, to be freed */
	struct fleet *fleet;	     /* the members in force */
	struct events *events;
	uint64_t start_realtime_ns, start_local_ns;
	struct config_input config_input; /* where it is from, and with which sections */

	struct core_module *modules; /* in the order in which they are opened */
	size_t module_count;

	/* heartbeat_local_ns of the map `control`; NULL until the dataplane is open. */
	uint64_t *heartbeat_local_ns;
	struct core_timer *heartbeat;
	bool took_over; /* the maps were there before this daemon */

	/* Whether the programs are switched off, as the dataplane has it. */
	bool (*is_off)(void *context);
	void *is_off_context;
	bool kill_file_seen; /* it existed at the last poll */
	struct core_timer *kill_file_timer;
};

#define core_for_each(module, core)                                                                \
	for (struct core_module *module = (core)->modules;                                         \
	     module < (core)->modules + (core)->module_count; module++)

/* --- timers --- */

struct core_timer;
/* Returns the time to the next call in ns; 0 ends the timer. @now_ns: CLOCK_MONOTONIC. */
typedef uint64_t core_timer_fn(void *context, uint64_t now_ns);

/* First call after @first_ns, within @slack_ns. *@out is freed with core_timer_free(). */
int core_timer_new(struct core *core, struct core_timer **out, uint64_t first_ns, uint64_t slack_ns,
		   core_timer_fn *fn, void *context);
/* The next call is @delay_ns from now. */
void core_timer_set(struct core_timer *timer, uint64_t delay_ns);
void core_timer_free(struct core_timer *timer);

/* --- heartbeat --- */

/*
 * The programs steer, pace and reply only while the heartbeat is young. It is written here and
 * nowhere else: each CORE_HEARTBEAT_NS by the loop, and by core_beat() in work that holds up the
 * loop. @heartbeat_local_ns: in the map `control`, borrowed; NULL: no more beats.
 */
int core_heartbeat_start(struct core *core, uint64_t *heartbeat_local_ns);
void core_beat(struct core *core);

/* --- capabilities --- */

/*
 * Opens @capability after those that it needs. Its ticks begin at once. On failure nothing of it
 * is left and *@error is a malloc'd sentence.
 */
int core_open(struct core *core, const struct capability *capability, char **error);
/* Closes all, the last one first. */
void core_close(struct core *core);
/* The open module of that name; NULL: there is none. */
void *core_find(const struct core *core, const char *name);

/* Reads what replies and metrics are made of: before each reply that needs it. */
int core_refresh(struct core *core);
/* Links came or went. */
void core_links_changed(struct core *core);
/* Reads the configuration file again: all of it is applied, or none, with *@error. */
int core_reload(struct core *core, char **error);
/* What the capabilities know of a queue pair, added to @qp. */
struct qp_entry;
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

/* Kinds of the core; ended by {}. */
extern const struct event_kind killswitch_events[], reload_events[];

#endif

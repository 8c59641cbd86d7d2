// SPDX-License-Identifier: BSD-2-Clause
/* What an operator switches: the kill switch, and the configuration in force. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/log.h"
#include "base/readfile.h"
#include "core.h"
#include "fleet/fleet.h"
#include "net/rtnl.h"

#define KILL_FILE_POLL_NS 1000000000ull
#define KILL_FILE_SLACK_NS 20000000ull

#define START_GUARD_S 60
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

#define CORE_EVENTS(X)                                                                             \
	X(CONFIG_REFUSED, "config_refused", WARNING,                                               \
	  "A reload was refused; the old one stays in force.", .begins = "config_refused",         \
	  .remedy = "Correct the file; `escapementd --check-config` checks it.")                   \
	X(CONFIG_RELOADED, "config_reloaded", NOTICE, "Another configuration is in force.",        \
	  .ends = "config_refused")                                                                \
	X(START_HELD, "start_held", WARNING,                                                       \
	  "The machine went down within a minute of attaching: the kill switch is on.",            \
	  .remedy = "Find out why it went down; `escapement mode observe` attaches again.")        \
	X(KILL_SWITCH_ON, "kill_switch_on", NOTICE, "Everything was detached by the kill switch.", \
	  .begins = "kill_switch_on", .remedy = "`escapement mode observe` releases it.")          \
	X(KILL_SWITCH_OFF, "kill_switch_off", NOTICE, "The kill switch was released.",             \
	  .ends = "kill_switch_on")
enum { CORE_EVENTS(EVENT_ENUM) };
const struct event_kind core_events[] = {CORE_EVENTS(EVENT_KIND){}};

/* --- the start marker: after a crash of the machine during a start nothing is attached --- */

static void marker_path(const struct core *core, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s.starting", core->config->kill_file);
}

static uint64_t remove_marker(void *context, uint64_t now_ns)
{
	char path[PATH_MAX];

	(void)now_ns;
	marker_path(context, path);
	unlink(path);
	return 0;
}

void core_end_start(struct core *core)
{
	if (core->start_timer)
		remove_marker(core, 0);
	core_timer_free(core->start_timer);
	core->start_timer = NULL;
}

/* Before programs are attached. Without a marker they are attached all the same. */
static void begin_start(struct core *core)
{
	char path[PATH_MAX], boot_id[64];
	int err;

	marker_path(core, path);
	readtext(boot_id, sizeof(boot_id), "%s", BOOT_ID);
	core_timer_free(core->start_timer);
	core->start_timer = NULL;
	err = createfile(path, boot_id);
	if (!err)
		err = core_timer_new(core, &core->start_timer, START_GUARD_S * 1000000000ull,
				     KILL_FILE_SLACK_NS, remove_marker, core);
	if (err < 0)
		log_warning("%s: %s: when this machine goes down in the next %d s, the programs "
			    "are attached again at the next start",
			    path, strerror(-err), START_GUARD_S);
}

int core_begin_start(struct core *core, char **error)
{
	static const char why[] = "the machine went down within a minute of attaching";
	char path[PATH_MAX], boot_id[64], before[64];
	int err;

	marker_path(core, path);
	/* An empty one was not on disk yet when the machine went down: nothing was attached. */
	if (readtext(before, sizeof(before), "%s", path) > 0 &&
	    readtext(boot_id, sizeof(boot_id), "%s", BOOT_ID) > 0 && strcmp(before, boot_id)) {
		err = createfile(core->config->kill_file, why);
		if (err)
			return explain(error, err,
				       "%s: %s, and %s cannot be made (%s): make it, or remove %s "
				       "to attach again",
				       path, why, core->config->kill_file, strerror(-err), path);
		unlink(path);
		log_warning("%s; the kill switch is on: `escapement mode observe` attaches again",
			    why);
		events_add(core->events,
			   &(struct event){
				   .kind = &core_events[START_HELD],
				   .subject = "daemon",
				   .seen = json_pack("{s:s}", "boot_id", before),
				   .done = json_pack("{s:s}", "kill_file", core->config->kill_file),
			   });
	}
	core->kill_file_seen = core_kill_file_exists(core);
	if (!core->kill_file_seen)
		begin_start(core);
	return 0;
}

/* --- the kill switch: the verb `off`, the kill file, and back on --- */

bool core_kill_file_exists(const struct core *core)
{
	return !access(core->config->kill_file, F_OK);
}

/* As the map `control` has it; an operator may have written it. */
bool core_is_off(const struct core *core)
{
	return core->is_off && core->is_off(core->dataplane);
}

void core_record_kill_switch(struct core *core, bool off, const char *by, json_t *seen)
{
	events_add(core->events,
		   &(struct event){
			   .kind = &core_events[off ? KILL_SWITCH_ON : KILL_SWITCH_OFF],
			   .subject = "daemon",
			   .seen = seen,
			   .done = json_pack("{s:s}", "by", by),
		   });
}

/* Off continues when a capability fails, on ends there: the first error is reported. */
static int switch_all(struct core *core, bool off, const char *by, char **error)
{
	bool was_off = core_is_off(core);
	int err = 0, one;

	if (was_off && !off)
		begin_start(core);
	for (size_t i = 0; i < core->module_count && (off || !err); i++) {
		size_t place = off ? core->module_count - 1 - i : i;
		const struct capability *capability = core->modules[place].capability;
		void *self = core->modules[place].self;
		char *why = NULL;

		if (off)
			one = capability->off ? capability->off(self, by, &why) : 0;
		else
			one = capability->on ? capability->on(self, &why) : 0;
		if (one && !err)
			err = explain(error, one, "%s", why ? why : strerror(-one));
		free(why);
	}
	if (err || was_off == off)
		return err;
	log_warning("the kill switch is %s (by %s)", off ? "on: everything is detached" : "off",
		    by);
	core_record_kill_switch(core, off, by, NULL);
	return 0;
}

int core_set_off(struct core *core, bool off, const char *by, char **error)
{
	const char *path = core->config->kill_file;
	/* Before the file, since detaching is urgent. */
	int err = switch_all(core, off, by, error);

	if (err)
		return err;
	if (off)
		err = createfile(path, "");
	else if (unlink(path) && errno != ENOENT)
		err = -errno;
	core->kill_file_seen = core_kill_file_exists(core);
	core->kill_file_changes++;
	if (err && off)
		explain(error, err,
			"everything is detached, but %s cannot be made (%s): a daemon that starts "
			"later would attach again",
			path, strerror(-err));
	else if (err)
		explain(error, err, "%s cannot be removed: %s", path, strerror(-err));
	return err;
}

/* Whether the kill file exists, looked up by a worker: its disk may not respond. */
struct kill_file_job {
	bool exists;
	unsigned int changes; /* of the kill switch, when it was begun */
	char path[];
};

static void look_up(void *context)
{
	struct kill_file_job *job = context;

	job->exists = !access(job->path, F_OK);
}

/* Only a change counts, and none that a verb made meanwhile. */
static void take_kill_file(void *context, void *result)
{
	const struct kill_file_job *job = result;
	struct core *core = context;
	char *error = NULL;

	if (job->exists == core->kill_file_seen || job->changes != core->kill_file_changes)
		return;
	core->kill_file_seen = job->exists;
	if (switch_all(core, job->exists, "file", &error))
		log_error("%s", error ? error : "the kill switch failed");
	free(error);
}

static const struct core_work kill_file_work = {"kill_file", look_up, take_kill_file, free};

static uint64_t poll_kill_file(void *context, uint64_t now_ns)
{
	struct core *core = context;
	size_t bytes = strlen(core->config->kill_file) + 1;
	struct kill_file_job *job;

	(void)now_ns;
	if (core_worker_busy(core->kill_file_worker))
		return KILL_FILE_POLL_NS;
	job = malloc(sizeof(*job) + bytes);
	if (job) {
		job->changes = core->kill_file_changes;
		memcpy(job->path, core->config->kill_file, bytes);
	}
	if (job && core_worker_start(core->kill_file_worker, job))
		free(job);
	return KILL_FILE_POLL_NS;
}

int core_watch_kill_file(struct core *core)
{
	int err = core_worker_new(core, &core->kill_file_worker, &kill_file_work, core);

	return err < 0 ? err
		       : core_timer_new(core, &core->kill_file_timer, KILL_FILE_POLL_NS,
					KILL_FILE_SLACK_NS, poll_kill_file, core);
}

/* --- SIGHUP and the verb `reload`: the whole file comes into force, or none of it --- */

static int refuse(struct core *core, int err, char *why, char **error)
{
	const char *text = why ? why : strerror(-err);

	log_error("configuration refused, the old one stays in force: %s", text);
	events_add(core->events, &(struct event){.kind = &core_events[CONFIG_REFUSED],
						 .subject = "daemon",
						 .seen = json_pack("{s:s}", "error", text)});
	explain(error, err, "%s%sthe old configuration stays in force", text,
		strchr(text, '\n') ? "\n" : "; ");
	free(why);
	return err;
}

/* Control that was switched on by a command does not lose its key: the reload is refused. */
static int check_control(const struct core *core, const struct config *new, char **error)
{
	core_for_each (module, core) {
		const char *what = NULL;

		if (module->capability->controls)
			what = module->capability->controls(module->self, new);
		if (what && config_check_control(new, what, error))
			return -EPERM;
	}
	return 0;
}

/* --- its members file, read by a worker: with many members that takes seconds --- */

static void take_read(void *context, void *job)
{
	struct core *core = context;

	/* Taken over from the worker, which frees its job. */
	fleet_read_free(core->members_read);
	core->members_read = fleet_read_move(job);
	for (struct core_reader *at = core->readers, *next; at; at = next) {
		next = at->next;
		at->fn(at->context);
	}
	/* The requests that waited for it were dropped meanwhile. */
	fleet_read_free(core->members_read);
	core->members_read = NULL;
}

static const struct core_work members_work = {"reload", fleet_read_run, take_read, fleet_read_free};

bool core_reload_reads(const struct core *core)
{
	return core->members_worker && core_worker_busy(core->members_worker);
}

bool core_reload_waits(struct core *core, bool force)
{
	struct config_input input = core->config_input;
	struct fleet_read *read = NULL;
	struct config *new = NULL;
	char *why = NULL;
	bool begun = false;

	if (core->members_read)
		return false;
	if (core_reload_reads(core))
		return true;
	input.in_force = core->own_config;
	input.no_members = true;
	if (!core->members_worker &&
	    core_worker_new(core, &core->members_worker, &members_work, core) < 0)
		return false;
	if (!config_load(&input, &new, &why) && new->members &&
	    (force || !fleet_has_read(core->fleet, new->members)))
		read = fleet_read_file(new->members, new->host, new->mesh.degree);
	if (read)
		begun = !core_worker_start(core->members_worker, read);
	if (!begun)
		fleet_read_free(read);
	free(why);
	config_free(new);
	return begun;
}

void core_listen_read(struct core *core, struct core_reader *reader)
{
	reader->next = core->readers;
	core->readers = reader;
}

void core_unlisten_read(struct core *core, const struct core_reader *reader)
{
	struct core_reader **at = &core->readers;

	while (*at && *at != reader)
		at = &(*at)->next;
	if (*at)
		*at = reader->next;
}

int core_reload(struct core *core, bool force, char **error)
{
	struct config *new = NULL, *old = core->own_config;
	struct config_input input = core->config_input;
	struct members *members = NULL;
	char *why = NULL;
	int err;

	input.in_force = old;
	/* By force a list that is held back is applied: it is read again. */
	input.fleet = force ? NULL : core->fleet;
	input.read = core->members_read;
	err = rtnl_need(&why);
	if (!err)
		err = config_load(&input, &new, &why);
	if (!err)
		err = check_control(core, new, &why);
	core_for_each (module, core)
		if (!err && module->capability->accept)
			err = module->capability->accept(module->self, new, &why);
	if (!err)
		err = fleet_configure(core->fleet, new->host, new->members_hold_ns,
				      new->mesh.degree);
	if (err) {
		config_free(new);
		return refuse(core, err, why, error);
	}
	core->config = core->own_config = new;
	if (force)
		members = fleet_set(core->fleet, new->members, new->member_list);
	else if (!new->members_kept)
		members = fleet_offer(core->fleet, new->members, new->member_list, time_local_ns());
	new->member_list = NULL;
	fleet_read_free(core->members_read);
	core->members_read = NULL;
	core_for_each (module, core)
		if (module->capability->reconfigure)
			module->capability->reconfigure(module->self, old);
	members_free(members);
	config_free(old);
	log_info("configuration reloaded from %s", new->path);
	events_add(core->events, &(struct event){.kind = &core_events[CONFIG_RELOADED],
						 .subject = "daemon",
						 .seen = json_pack("{s:s}", "file", new->path)});
	return 0;
}

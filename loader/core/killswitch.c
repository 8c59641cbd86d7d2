// SPDX-License-Identifier: BSD-2-Clause
/* The kill switch: the verb `off`, the kill file, and back on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/log.h"
#include "base/readfile.h"
#include "core.h"

#define KILL_FILE_POLL_NS 1000000000ull
#define KILL_FILE_SLACK_NS 20000000ull

#define KILLSWITCH_EVENTS(X)                                                                       \
	X(KILL_SWITCH_ON, "kill_switch_on", NOTICE, "Everything was detached by the kill switch.") \
	X(KILL_SWITCH_OFF, "kill_switch_off", NOTICE, "The kill switch was released.")
enum { KILLSWITCH_EVENTS(EVENT_ENUM) };
const struct event_kind killswitch_events[] = {KILLSWITCH_EVENTS(EVENT_KIND){}};

bool core_kill_file_exists(const struct core *core)
{
	return !access(core->config->kill_file, F_OK);
}

/* As the map `control` has it; an operator may have written it. */
bool core_is_off(const struct core *core)
{
	return core->is_off && core->is_off(core->is_off_context);
}

void core_record_kill_switch(struct core *core, bool off, const char *by, json_t *seen)
{
	events_add(core->events,
		   &(struct event){
			   .kind = &killswitch_events[off ? KILL_SWITCH_ON : KILL_SWITCH_OFF],
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
		err = createfile(path);
	else if (unlink(path) && errno != ENOENT)
		err = -errno;
	core->kill_file_seen = core_kill_file_exists(core);
	if (err && off)
		explain(error, err,
			"everything is detached, but %s cannot be made (%s): a daemon that starts "
			"later would attach again",
			path, strerror(-err));
	else if (err)
		explain(error, err, "%s cannot be removed: %s", path, strerror(-err));
	return err;
}

/* Only a change counts. */
static uint64_t poll_kill_file(void *context, uint64_t now_ns)
{
	struct core *core = context;
	bool exists = core_kill_file_exists(core);
	char *error = NULL;

	(void)now_ns;
	if (exists != core->kill_file_seen) {
		core->kill_file_seen = exists;
		if (switch_all(core, exists, "file", &error))
			log_error("%s", error ? error : "the kill switch failed");
		free(error);
	}
	return KILL_FILE_POLL_NS;
}

int core_watch_kill_file(struct core *core)
{
	return core_timer_new(core, &core->kill_file_timer, KILL_FILE_POLL_NS, KILL_FILE_SLACK_NS,
			      poll_kill_file, core);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The kill switch: the verb `off`, the kill file, and back on. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "core.h"

#define KILL_FILE_POLL_NS 1000000000ull
#define KILL_FILE_SLACK_NS 20000000ull

#define KILLSWITCH_EVENTS(X)                                                                       \
	X(KILL_SWITCH_ON, "kill_switch_on", "Everything was detached by the kill switch.")         \
	X(KILL_SWITCH_OFF, "kill_switch_off", "The kill switch was released.")
enum { KILLSWITCH_EVENTS(EVENT_ENUM) };
const struct event_kind killswitch_events[] = {KILLSWITCH_EVENTS(EVENT_KIND){}};

bool core_kill_file_exists(const struct core *core)
{
	return !access(core->config->kill_file, F_OK);
}

static int make_kill_file(const struct core *core, char **error)
{
	const char *path = core->config->kill_file;
	char *copy = strdup(path);
	int fd;

	if (copy)
		mkdir(dirname(copy), 0755); /* when it fails, open() reports why */
	free(copy);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return explain(error, -errno,
			       "everything is detached, but %s cannot be made (%s): a daemon that "
			       "starts later would attach again",
			       path, strerror(errno));
	close(fd);
	return 0;
}

static int remove_kill_file(const struct core *core, char **error)
{
	const char *path = core->config->kill_file;

	if (!unlink(path) || errno == ENOENT)
		return 0;
	return explain(error, -errno, "%s cannot be removed: %s", path, strerror(errno));
}

static int call_off(const struct core_module *module, const char *by, char **error)
{
	return module->capability->off ? module->capability->off(module->self, by, error) : 0;
}

static int call_on(const struct core_module *module, char **error)
{
	return module->capability->on ? module->capability->on(module->self, error) : 0;
}

/* Off goes through all, whatever fails: the first error is reported. */
static int switch_modules(struct core *core, bool off, const char *by, char **error)
{
	int err = 0, one;

	for (size_t i = 0; i < core->module_count; i++) {
		size_t place = off ? core->module_count - 1 - i : i;
		char *why = NULL;

		one = off ? call_off(&core->modules[place], by, &why)
			  : call_on(&core->modules[place], &why);
		if (one && !err) {
			err = one;
			explain(error, err, "%s", why ? why : strerror(-one));
		}
		free(why);
		if (err && !off)
			return err;
	}
	return err;
}

/* What the map `control` says; an operator may have written it. */
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

static int switch_all(struct core *core, bool off, const char *by, char **error)
{
	bool was_off = core_is_off(core);
	int err = switch_modules(core, off, by, error);

	if (err || was_off == off)
		return err;
	log_warning("the kill switch is %s (by %s)", off ? "on: everything is detached" : "off",
		    by);
	core_record_kill_switch(core, off, by, NULL);
	return 0;
}

int core_set_off(struct core *core, bool off, const char *by, char **error)
{
	/* Detaching comes first: it is what the operator is in a hurry for. */
	int err = switch_all(core, off, by, error), err_file;

	if (err)
		return err;
	err_file = off ? make_kill_file(core, error) : remove_kill_file(core, error);
	core->kill_file_seen = core_kill_file_exists(core);
	return err_file;
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

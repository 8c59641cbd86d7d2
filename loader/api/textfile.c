// SPDX-License-Identifier: BSD-2-Clause
#include "api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/prom.h"
#include "config/config.h"
#include "core/core.h"
#include "fleet/fleet.h"

#define POLL_NS 1000000000ull

#define TEXTFILE_EVENTS(X)                                                                         \
	X(TEXTFILE_FAILED, "textfile_failed", WARNING, "escapement.prom cannot be written.")       \
	X(TEXTFILE_RECOVERED, "textfile_recovered", NOTICE, "escapement.prom is written again.")
enum { TEXTFILE_EVENTS(EVENT_ENUM) };
const struct event_kind textfile_events[] = {TEXTFILE_EVENTS(EVENT_KIND){}};

#define TEXTFILE_METRICS(X)                                                                        \
	X(BUILD_INFO, "build_info", GAUGE, "Version of the daemon, always 1.")                     \
	X(UP, "up", GAUGE, "1 while the daemon runs, 0 after it was stopped.")                     \
	X(LAST_WRITE, "last_write_timestamp_seconds", GAUGE, "When this file was written.")        \
	X(START_TIME, "start_time_seconds", GAUGE, "When the daemon started.")                     \
	X(HOST_INFO, "host_info", GAUGE, "This host and its rack by the member list, always 1.")   \
	X(MODE, "mode", GAUGE,                                                                     \
	  "1 for each mode that an interface is in; observe: none of the others.")                 \
	X(KILL_SWITCH, "kill_switch", GAUGE, "1 when everything is detached by the kill switch.")  \
	X(EVENTS_TOTAL, "events_total", COUNTER, "Events recorded since the daemon started.")      \
	X(COLLECTOR_UP, "collector_up", GAUGE, "1 when this module's maps could be read.")
enum { TEXTFILE_METRICS(METRIC_ENUM) };
const struct metric textfile_metrics[] = {TEXTFILE_METRICS(METRIC){}};
#define PROCESS(id) FAMILY_OF(&textfile_metrics[id])

struct textfile {
	struct core *core;
	struct core_timer *timer;
	char *written;		 /* where our file is, NULL: none yet */
	bool failed;		 /* reported once, until it works again */
	uint64_t write_local_ns; /* of the last write */
};

static void write_process(FILE *out, bool up)
{
	prom_count(PROCESS(BUILD_INFO), 1, "version", ESC_VERSION, NULL);
	prom_count(PROCESS(UP), up, NULL);
	prom_value(PROCESS(LAST_WRITE), (double)time_realtime_ns() / 1e9, NULL);
}

static void write_host(FILE *out, const struct core *core)
{
	const struct members *members = fleet_members(core->fleet);
	const char *host = core->config->host, *rack = NULL;

	for (size_t i = 0; members && !rack && i < members->count; i++)
		if (!strcmp(members->list[i].host, host))
			rack = members->list[i].rack;
	prom_count(PROCESS(HOST_INFO), 1, "host", host, "rack", rack, NULL);
}

static void write_modes(FILE *out, const struct core *core)
{
	struct prom_family *family = PROCESS(MODE);
	bool observe = true;

	core_for_each (module, core) {
		const struct capability_mode *mode = module->capability->mode;
		bool on = mode && mode->ports(module->self);

		if (mode)
			prom_count(family, on, "state", mode->name, NULL);
		observe &= !on;
	}
	prom_count(family, observe, "state", "observe", NULL);
}

static void write_events(FILE *out, const struct core *core)
{
	struct prom_family *family = PROCESS(EVENTS_TOTAL);
	const struct event_count *counts;
	size_t count = core->events ? events_counts(core->events, &counts) : 0;

	for (size_t i = 0; i < count; i++)
		prom_count(family, counts[i].count, "kind", counts[i].kind, "severity",
			   event_severity_name(counts[i].severity), NULL);
}

void textfile_write_families(FILE *out, struct core *core)
{
	struct prom_family *collectors = PROCESS(COLLECTOR_UP);

	write_process(out, true);
	prom_value(PROCESS(START_TIME), (double)core->start_realtime_ns / 1e9, NULL);
	write_host(out, core);
	write_modes(out, core);
	prom_count(PROCESS(KILL_SWITCH), core_is_off(core), NULL);
	write_events(out, core);
	core_refresh(core);
	core_for_each (module, core)
		if (module->capability->refresh)
			prom_count(collectors, !module->refresh_error, "collector",
				   module->capability->name, NULL);
	core_for_each (module, core)
		if (module->capability->write_metrics)
			module->capability->write_metrics(module->self, out);
}

/*
 * Aside, under a name that node_exporter does not read, and then in one step to where it is read.
 * @up false: the daemon stops.
 */
static int write_file(struct textfile *textfile, const char *path, bool up)
{
	FILE *out = NULL;
	char *aside;
	int fd, err = 0;

	if (asprintf(&aside, "%s.new", path) < 0)
		return -ENOMEM;
	/* The directory may belong to another user: nothing that lies there is followed. */
	unlink(aside);
	fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0 && !fchmod(fd, 0644))
		out = fdopen(fd, "w");
	if (!out)
		err = -errno;
	else if (up)
		textfile_write_families(out, textfile->core);
	else
		write_process(out, false);
	if (out && ferror(out))
		err = -EIO;
	if (out ? fclose(out) && !err : fd >= 0 && close(fd))
		err = -errno;
	if (!err && rename(aside, path))
		err = -errno;
	if (err && fd >= 0)
		unlink(aside);
	free(aside);
	return err;
}

static void report(struct textfile *textfile, const char *directory, int err)
{
	if (err && !textfile->failed) {
		log_warning("textfile.directory %s: escapement.prom cannot be written: %s; tried "
			    "again at each interval",
			    directory, strerror(-err));
		events_add(textfile->core->events,
			   &(struct event){.kind = &textfile_events[TEXTFILE_FAILED],
					   .subject = directory,
					   .seen = json_pack("{s:s}", "error", strerror(-err))});
	} else if (!err && textfile->failed) {
		log_info("textfile.directory %s: escapement.prom is written again", directory);
		events_add(textfile->core->events,
			   &(struct event){.kind = &textfile_events[TEXTFILE_RECOVERED],
					   .subject = directory});
	}
	textfile->failed = err != 0;
}

/* A reload may have moved the file; the old one would stay there for ever. */
static void forget_written(struct textfile *textfile, const char *path)
{
	if (!textfile->written || (path && !strcmp(textfile->written, path)))
		return;
	unlink(textfile->written);
	free(textfile->written);
	textfile->written = NULL;
}

int textfile_write(struct textfile *textfile)
{
	const char *directory = textfile->core->config->textfile.directory;
	char *path = NULL;
	int err = -ENOMEM;

	if (!directory) {
		forget_written(textfile, NULL);
		return 0;
	}
	if (asprintf(&path, "%s/escapement.prom", directory) >= 0)
		err = write_file(textfile, path, true);
	else
		path = NULL;
	report(textfile, directory, err);
	if (!err) {
		core_for_each (module, textfile->core)
			if (module->capability->metrics_written)
				module->capability->metrics_written(module->self);
		forget_written(textfile, path);
		if (!textfile->written) {
			textfile->written = path;
			path = NULL;
		}
	}
	free(path);
	return err;
}

static uint64_t textfile_tick(void *context, uint64_t now_ns)
{
	struct textfile *textfile = context;
	uint64_t interval_ns = textfile->core->config->textfile.interval_ns, left_ns;

	if (!textfile->write_local_ns || now_ns - textfile->write_local_ns >= interval_ns) {
		textfile->write_local_ns = now_ns;
		textfile_write(textfile);
	}
	/* A reload may have made the interval shorter: poll it once a second. */
	left_ns = textfile->write_local_ns + interval_ns - now_ns;
	return left_ns < POLL_NS ? left_ns + 1000 : POLL_NS;
}

int textfile_new(struct textfile **out, struct core *core, char **error)
{
	struct textfile *textfile = calloc(1, sizeof(*textfile));
	int err;

	(void)error;
	if (!textfile)
		return -ENOMEM;
	textfile->core = core;
	/* The first write comes as soon as the loop runs. */
	err = core_timer_new(core, &textfile->timer, 0, 0, textfile_tick, textfile);
	if (err < 0) {
		free(textfile);
		return err;
	}
	*out = textfile;
	return 0;
}

void textfile_free(struct textfile *textfile)
{
	int err;

	if (!textfile)
		return;
	core_timer_free(textfile->timer);
	if (textfile->written) {
		err = write_file(textfile, textfile->written, false);
		if (err)
			log_warning("%s: %s; it still reports that the daemon is up",
				    textfile->written, strerror(-err));
	}
	free(textfile->written);
	free(textfile);
}

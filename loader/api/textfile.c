// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "base/log.h"
#include "base/writefile.h"

#define POLL_NS 1000000000ull
#define END_TIMEOUT_MS 1000 /* for a write, when the daemon ends */

#define TEXTFILE_EVENTS(X)                                                                         \
	X(TEXTFILE_FAILED, "textfile_failed", WARNING, "escapement.prom cannot be written.",       \
	  .begins = "textfile_failed",                                                             \
	  .remedy = "See that `textfile.directory` is there and can be written.")                  \
	X(TEXTFILE_RECOVERED, "textfile_recovered", NOTICE, "escapement.prom is written again.",   \
	  .ends = "textfile_failed")
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
	X(EVENTS_LOST, "events_lost_total", COUNTER,                                               \
	  "Events that the file or the journal did not take.")                                     \
	X(LOOP_PAUSE, "loop_pause_seconds", GAUGE,                                                 \
	  "Longest time between two heartbeats since the write before; beyond 2 s control ends.")  \
	X(EVENTS_SUPPRESSED, "events_suppressed_total", COUNTER,                                   \
	  "Events that were not recorded, since there were too many of their kind.")               \
	X(COLLECTOR_UP, "collector_up", GAUGE, "1 when this module's maps could be read.")
enum { TEXTFILE_METRICS(METRIC_ENUM) };
const struct metric textfile_metrics[] = {TEXTFILE_METRICS(METRIC){}};
#define PROCESS(id) FAMILY_OF(&textfile_metrics[id])

struct textfile {
	struct core *core;
	struct core_timer *timer;
	struct core_worker *worker;
	int err;		 /* of the newest write that ended */
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

static void write_families(FILE *out, struct core *core)
{
	struct prom_family *events = PROCESS(EVENTS_TOTAL), *collectors = PROCESS(COLLECTOR_UP);
	struct prom_family *modes = PROCESS(MODE), *lost = PROCESS(EVENTS_LOST);
	struct prom_family *suppressed = PROCESS(EVENTS_SUPPRESSED);
	const struct members *members = fleet_members(core->fleet);
	const char *host = core->config->host, *rack = NULL;
	const struct event_count *counts;
	size_t count = core->events ? events_counts(core->events, &counts) : 0;
	struct events_losses losses = {};
	bool observe = true;

	write_process(out, true);
	prom_value(PROCESS(START_TIME), (double)core->start_realtime_ns / 1e9, NULL);
	for (size_t i = 0; members && !rack && i < members->count; i++)
		if (!strcmp(members->list[i].host, host))
			rack = members->list[i].rack;
	prom_count(PROCESS(HOST_INFO), 1, "host", host, "rack", rack, NULL);
	core_for_each (module, core) {
		const struct capability_mode *mode = module->capability->mode;
		bool on = mode && mode->ports(module->self);

		if (mode)
			prom_count(modes, on, "state", mode->name, NULL);
		observe &= !on;
	}
	prom_count(modes, observe, "state", "observe", NULL);
	prom_count(PROCESS(KILL_SWITCH), core_is_off(core), NULL);
	for (size_t i = 0; i < count; i++)
		prom_count(events, counts[i].count, "kind", counts[i].kind, "severity",
			   event_severity_name(counts[i].severity), NULL);
	for (size_t i = 0; i < count; i++)
		if (counts[i].suppressed)
			prom_count(suppressed, counts[i].suppressed, "kind", counts[i].kind, NULL);
	if (core->events)
		events_losses(core->events, &losses);
	prom_count(lost, losses.file, "sink", "file", NULL);
	prom_count(lost, losses.journal, "sink", "journal", NULL);
	prom_value(PROCESS(LOOP_PAUSE), (double)core->pause.longest_ns / 1e9, NULL);
	core_refresh(core);
	core_for_each (module, core)
		if (module->capability->refresh)
			prom_count(collectors, !module->refresh_error, "collector",
				   module->capability->name, NULL);
	core_for_each (module, core)
		if (module->capability->write_metrics)
			module->capability->write_metrics(module->self, out);
}

/* @up false: the daemon stops. */
static char *make_text(struct core *core, bool up, size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);
	bool good;

	if (out && up)
		write_families(out, core);
	else if (out)
		write_process(out, false);
	good = out && !ferror(out);
	if (out && fclose(out))
		good = false;
	if (good)
		return text;
	free(text);
	return NULL;
}

char *textfile_text(struct core *core, size_t *bytes)
{
	return make_text(core, true, bytes);
}

/* --- the worker: it alone touches the directory --- */

struct textfile_job {
	char *directory; /* NULL: there is none any more */
	char *path;
	char *former; /* a file of ours elsewhere, to be removed; NULL: none */
	char *text;
	size_t bytes;
	int err;
};

static void job_free(void *context)
{
	struct textfile_job *job = context;

	free(job->directory);
	free(job->path);
	free(job->former);
	free(job->text);
	free(job);
}

/* A reload may have moved the file; the old one would stay there for ever. */
static void work(void *context)
{
	struct textfile_job *job = context;

	if (job->path)
		job->err = writefile(job->path, job->text, job->bytes, 0644, false);
	if (job->former && !job->err)
		unlink(job->former);
}

/* --- for the loop --- */

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

static void done(void *context, void *result)
{
	struct textfile *textfile = context;
	struct textfile_job *job = result;

	textfile->err = job->err;
	if (job->directory)
		report(textfile, job->directory, job->err);
	if (job->err)
		return;
	free(textfile->written);
	textfile->written = job->path;
	job->path = NULL;
}

static const struct core_work textfile_work = {"textfile", work, done, job_free};

/* @up false: the daemon stops. NULL: no memory. */
static struct textfile_job *job_new(const struct textfile *textfile, const char *directory, bool up)
{
	struct textfile_job *job = calloc(1, sizeof(*job));
	const char *written = textfile->written;

	if (!job)
		return NULL;
	if (directory && asprintf(&job->path, "%s/escapement.prom", directory) >= 0)
		job->directory = strdup(directory);
	if (written && (!directory || !job->path || strcmp(written, job->path)))
		job->former = strdup(written);
	if (!directory)
		return job;
	job->text = make_text(textfile->core, up, &job->bytes);
	if (job->text && job->directory)
		return job;
	job_free(job);
	return NULL;
}

/* What is "since the write before" starts from 0. */
static void restart_windows(struct core *core)
{
	core->pause.longest_ns = 0;
	core_for_each (module, core)
		if (module->capability->metrics_written)
			module->capability->metrics_written(module->self);
}

int textfile_write(struct textfile *textfile)
{
	const char *directory = textfile->core->config->textfile.directory;
	struct textfile_job *job;
	int err;

	if (!directory && !textfile->written) {
		/* Where the verb `metrics` alone is read, its windows are as long. */
		restart_windows(textfile->core);
		return 0;
	}
	if (core_worker_busy(textfile->worker))
		return -EBUSY;
	job = job_new(textfile, directory, true);
	err = job ? core_worker_start(textfile->worker, job) : -ENOMEM;
	if (err) {
		if (job)
			job_free(job);
		report(textfile, directory ? directory : textfile->written, err);
		return err;
	}
	restart_windows(textfile->core); /* whether it succeeds or not */
	return 0;
}

int textfile_wait(struct textfile *textfile, unsigned int timeout_ms)
{
	return core_worker_wait(textfile->worker, timeout_ms) ? textfile->err : -EBUSY;
}

static uint64_t textfile_tick(void *context, uint64_t now_ns)
{
	struct textfile *textfile = context;
	uint64_t interval_ns = textfile->core->config->textfile.interval_ns, left_ns;

	if (!textfile->write_local_ns || now_ns - textfile->write_local_ns >= interval_ns) {
		textfile->write_local_ns = now_ns;
		textfile_write(textfile);
		core_took(textfile->core, "textfile", now_ns);
	}
	/* A reload may have made the interval shorter: poll it once a second. */
	left_ns = textfile->write_local_ns + interval_ns - now_ns;
	return left_ns < POLL_NS ? left_ns + 1000 : POLL_NS;
}

int textfile_new(struct textfile **out, struct core *core)
{
	struct textfile *textfile = calloc(1, sizeof(*textfile));
	int err;

	if (!textfile)
		return -ENOMEM;
	textfile->core = core;
	err = core_worker_new(core, &textfile->worker, &textfile_work, textfile);
	/* The first write comes as soon as the loop runs. */
	if (err >= 0)
		err = core_timer_new(core, &textfile->timer, 0, 0, textfile_tick, textfile);
	if (err < 0) {
		core_worker_free(textfile->worker);
		free(textfile);
		return err;
	}
	*out = textfile;
	return 0;
}

void textfile_free(struct textfile *textfile)
{
	const char *directory;
	struct textfile_job *job;
	int err = 0;

	if (!textfile)
		return;
	core_timer_free(textfile->timer);
	directory = textfile->core->config->textfile.directory;
	textfile_wait(textfile, END_TIMEOUT_MS);
	if (textfile->written) {
		job = job_new(textfile, directory, false);
		err = job ? core_worker_start(textfile->worker, job) : -ENOMEM;
		if (!err)
			err = textfile_wait(textfile, END_TIMEOUT_MS);
		else if (job)
			job_free(job);
	}
	if (err)
		log_warning("%s: %s; it still reports that the daemon is up", textfile->written,
			    strerror(-err));
	core_worker_free(textfile->worker);
	free(textfile->written);
	free(textfile);
}

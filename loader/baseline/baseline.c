// SPDX-License-Identifier: BSD-2-Clause
/* Baselines as a capability: when values are read, and the file that they are kept in. */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/explain.h"
#include "base/log.h"
#include "base/readfile.h"
#include "base/writefile.h"
#include "internal.h"

#define TICK_NS 1000000000ull
#define GATHERS 10 /* in a bin, once a second at most */
#define WRITE_NS 600000000000ull

struct baseline_law baseline_law_of(const struct config *config)
{
	const struct baseline_keys *keys = config_section(config, &baseline_section);

	return (struct baseline_law){keys->slower, keys->after_ns / BASELINE_BINS, keys->learn_ns};
}

static bool is_on(const struct baselines *baselines)
{
	const struct baseline_keys *keys =
		config_section(baselines->core->config, &baseline_section);

	return keys->on;
}

/* --- the file --- */

struct writing {
	char *path;
	void *data;
	size_t bytes;
	int err;
};

static void run_writing(void *job)
{
	struct writing *writing = job;
	char *copy;

	writing->err = writefile(writing->path, writing->data, writing->bytes, 0600, true);
	if (writing->err != -ENOENT)
		return;
	copy = strdup(writing->path);
	if (copy && !mkdir(dirname(copy), 0755))
		writing->err = writefile(writing->path, writing->data, writing->bytes, 0600, true);
	free(copy);
}

static void end_writing(void *context, void *job)
{
	const struct writing *writing = job;
	struct baselines *baselines = context;

	if (writing->err && writing->err != baselines->file_error)
		log_warning("%s: baselines cannot be written: %s; they are lost at the end",
			    writing->path, strerror(-writing->err));
	baselines->file_error = writing->err;
}

static void free_writing(void *job)
{
	struct writing *writing = job;

	free(writing->path);
	free(writing->data);
	free(writing);
}

static const struct core_work write_work = {"baseline", run_writing, end_writing, free_writing};

static void write_all(struct baselines *baselines)
{
	struct writing *writing = calloc(1, sizeof(*writing));

	if (!writing)
		return;
	writing->path = strdup(baselines->file);
	writing->data =
		baseline_encode(baselines->book.list, baselines->book.count,
				baseline_law_of(baselines->core->config).bin_ns, &writing->bytes);
	if (!writing->path || !writing->data || core_worker_start(baselines->worker, writing))
		free_writing(writing);
}

static void add(void *context, const struct baseline_series *series)
{
	baseline_book_add(context, series);
}

static void read_all(struct baselines *baselines)
{
	struct baseline_law law = baseline_law_of(baselines->core->config);
	const char *reason = NULL;
	char *bytes = NULL, *error = NULL;
	size_t size = 0;
	int err = readfile(baselines->file, BASELINE_FILE_MAX, &bytes, &size, NULL, &error);

	if (err == -ENOENT)
		goto out;
	if (err)
		reason = strerror(-err);
	else
		err = baseline_decode(bytes, size, law.bin_ns, add, &baselines->book, &reason);
	if (err)
		baseline_report_discarded(baselines, reason);
out:
	free(bytes);
	free(error);
}

/* --- the capability --- */

static void tick(void *self, uint64_t now_local_ns)
{
	struct baselines *baselines = self;
	struct baseline_law law = baseline_law_of(baselines->core->config);
	uint64_t now_ns = time_realtime_ns();

	if (is_on(baselines) && now_local_ns >= baselines->gather_ns) {
		baselines->gather_ns = now_local_ns + law.bin_ns / GATHERS;
		baselines_gather(baselines, &law, now_ns);
	}
	baseline_book_evaluate(&baselines->book, &law, now_ns, baseline_report_begin,
			       baseline_report_end, baselines);
	if (now_local_ns >= baselines->write_ns) {
		baselines->write_ns = now_local_ns + WRITE_NS;
		write_all(baselines);
	}
}

static void baseline_close(void *self)
{
	struct baselines *baselines = self;

	if (baselines->worker)
		write_all(baselines);
	core_worker_free(baselines->worker);
	baseline_book_clear(&baselines->book);
	free(baselines->file);
	free(baselines);
}

static int baseline_open(void **self, struct core *core, void *const needs[], char **error)
{
	const struct baseline_keys *keys = config_section(core->config, &baseline_section);
	struct baselines *baselines = calloc(1, sizeof(*baselines));
	int err;

	if (!baselines)
		return explain(error, -ENOMEM, "baselines: out of memory");
	baselines->core = core;
	baselines->dataplane = needs[0];
	baselines->mesh = needs[1];
	baselines->qps = needs[2];
	baselines->paths = needs[3];
	baselines->write_ns = time_local_ns() + WRITE_NS;
	baselines->file = strdup(keys->file);
	err = baselines->file ? core_worker_new(core, &baselines->worker, &write_work, baselines)
			      : -ENOMEM;
	if (err < 0) {
		baseline_close(baselines);
		return explain(error, err, "baselines: %s", strerror(-err));
	}
	read_all(baselines);
	*self = baselines;
	return 0;
}

const struct capability baseline_capability = {
	.name = "baseline",
	.needs = {"dataplane", "mesh", "qp", "paths"},
	.keys = &baseline_section,
	.verbs = baseline_verb_handlers,
	.events = baseline_events,
	.metrics = baseline_metrics,
	.open = baseline_open,
	.close = baseline_close,
	.tick_ns = TICK_NS,
	.tick = tick,
	.status = baseline_put_status,
	.write_metrics = baseline_write_metrics,
};

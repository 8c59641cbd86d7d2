// SPDX-License-Identifier: BSD-2-Clause
/* Queue pairs that processes count, as a capability. */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "clock/clock.h"
#include "internal.h"

#define TICK_NS 1000000000ull
#define FOLDER_NAME "verbs"

/* --- what qp/ shows --- */

static bool next_row(void *context, size_t index, struct qp_entry *out)
{
	const struct ibverbs *verbs = context;
	const struct verbs_row *row;
	bool tx;

	if (index >= verbs->shown_count)
		return false;
	row = &verbs->rows[verbs->shown[index]];
	tx = row->key.direction == ESC_DIRECTION_TX;
	out->key = row->key;
	out->qp.bytes = tx ? segment_bytes(&row->qp->is) : row->qp->is.received_bytes;
	out->bytes_per_second = tx ? row->qp->sent_per_second : row->qp->received_per_second;
	return true;
}

static json_t *describe(const struct ibverbs *verbs, size_t row)
{
	const struct esc_qp_key *key = &verbs->rows[row].key;
	bool tx = key->direction == ESC_DIRECTION_TX;
	json_t *qp = report_row(&verbs->rows[row]);

	json_put_text(qp, "peer", report_peer(verbs, tx ? &key->dst : &key->src));
	return qp;
}

static json_t *describe_row(void *context, size_t index)
{
	const struct ibverbs *verbs = context;

	return describe(verbs, verbs->shown[index]);
}

/* Of an event, also about one that the kernel programs see. */
static bool find_owner(void *context, const struct esc_qp_key *key, uint32_t *pid, const char **job)
{
	const struct verbs_row *row = report_find(context, key);

	if (row) {
		*pid = row->process->pid;
		*job = row->process->job.name;
	}
	return row;
}

/* A queue pair that both see is the registry's row, with what its process counts. */
static void put_qp(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct verbs_row *row = report_find(self, &entry->key);

	if (row && entry->key.direction == ESC_DIRECTION_TX)
		json_put(qp, "verbs", report_counts(row));
}

/* --- files of another library --- */

void ibverbs_set_files(struct ibverbs *verbs, const struct ibverbs_files *files)
{
	processes_forget(&verbs->processes, verbs->processes.files);
	verbs->processes.files = files;
}

void ibverbs_each_own(const struct ibverbs *verbs, ibverbs_own_fn *take, void *context)
{
	for (size_t i = 0; i < verbs->processes.count; i++)
		if (verbs->processes.list[i]->own)
			take(context, verbs->processes.list[i], verbs->processes.list[i]->own);
}

const struct job *ibverbs_job_of(const struct process *process)
{
	return &process->job;
}

uint32_t ibverbs_uid_of(const struct process *process)
{
	return process->uid;
}

bool ibverbs_has_ended(const struct process *process)
{
	return process->fd < 0;
}

/* --- what job/ takes --- */

void ibverbs_take_jobs(struct ibverbs *verbs, ibverbs_take_fn *take, void *context)
{
	for (size_t i = 0; i < verbs->processes.count; i++) {
		struct process *process = verbs->processes.list[i];

		take(context, &process->job, &process->grown, process->rows);
		process->grown = (struct ibverbs_growth){};
	}
}

json_t *ibverbs_job_rows(const struct ibverbs *verbs, ibverbs_of_fn *is_of, const char *id)
{
	json_t *list = json_array();

	for (size_t i = 0; i < verbs->shown_count; i++)
		if (is_of(&verbs->rows[verbs->shown[i]].process->job, id))
			json_array_append_new(list, describe(verbs, verbs->shown[i]));
	return list;
}

/* --- the capability --- */

static bool read_time(void *context, uint64_t local_ns, int64_t *fabric_ns, int64_t *bound_ns)
{
	const struct ibverbs *verbs = context;

	return clock_read_at(verbs->clock, local_ns, fabric_ns, bound_ns);
}

void ibverbs_poll(struct ibverbs *verbs, uint64_t now_local_ns)
{
	verbs->polled_local_ns = now_local_ns;
	processes_poll(&verbs->processes, now_local_ns);
	report_make_rows(verbs);
	watch_poll(verbs, now_local_ns);
}

static void tick(void *self, uint64_t now_local_ns)
{
	ibverbs_poll(self, now_local_ns);
	exchange_poll(self);
}

static int refresh(void *self)
{
	ibverbs_poll(self, time_local_ns());
	return 0;
}

static void reconfigure(void *self, const struct config *old)
{
	struct ibverbs *verbs = self;

	verbs->processes.idle_ns = verbs->core->config->qps.idle_ns;
	if (old->qps.message_port == verbs->core->config->qps.message_port)
		return;
	exchange_close(verbs);
	verbs->socket_error = 0;
}

static void ibverbs_close(void *self)
{
	struct ibverbs *verbs = self;

	if (verbs->table)
		qptable_set_others(verbs->table, NULL, NULL, NULL, NULL);
	exchange_close(verbs);
	processes_free(&verbs->processes);
	free(verbs->rows);
	free(verbs->shown);
	free(verbs);
}

/* Without a folder nothing is counted in processes, and all else is as it was. */
static int ibverbs_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct ibverbs *verbs = calloc(1, sizeof(*verbs));
	char *socket = strdup(core->config->socket);
	int err = 0;

	if (!verbs || !socket ||
	    asprintf(&verbs->processes.folder, "%s/" FOLDER_NAME, dirname(socket)) < 0)
		err = -ENOMEM;
	free(socket);
	if (err) {
		free(verbs);
		return explain(error, err, "queue pairs of processes: out of memory");
	}
	verbs->core = core;
	verbs->table = needs[0];
	verbs->clock = needs[1];
	verbs->socket = -1;
	verbs->processes.read_time = read_time;
	verbs->processes.time_context = verbs;
	verbs->processes.idle_ns = core->config->qps.idle_ns;
	verbs->folder_error = processes_make_folder(verbs->processes.folder);
	if (verbs->folder_error)
		log_warning(
			"%s, where libescapement-verbs leaves its counts: %s; make it a folder of "
			"root's, or remove it",
			verbs->processes.folder, strerror(-verbs->folder_error));
	qptable_set_others(verbs->table, next_row, describe_row, find_owner, verbs);
	*self = verbs;
	return 0;
}

static void status(void *self, json_t *object)
{
	const struct ibverbs *verbs = self;
	const struct processes *processes = &verbs->processes;
	json_t *own = json_object();
	uint64_t untracked = 0, contexts = 0, completions = 0;
	size_t running = 0;

	for (size_t i = 0; i < processes->count; i++) {
		const struct segment_header *header = &processes->list[i]->header;

		running += processes->list[i]->fd >= 0 && !processes->list[i]->files;
		untracked += header->untracked_qps;
		contexts += header->untracked_contexts;
		completions += header->unknown_completions;
	}
	json_put_text(own, "folder", processes->folder);
	if (verbs->folder_error)
		json_put_text(own, "note", strerror(-verbs->folder_error));
	json_put_count(own, "processes", running);
	json_put_count(own, "refused", processes->refused);
	json_put_count(own, "unreadable", processes->unreadable);
	if (verbs->socket_error)
		json_put_text(own, "reports_note", strerror(-verbs->socket_error));
	json_put_count(own, "reports_sent", verbs->reports_sent);
	json_put_count(own, "reports_received", verbs->reports_received);
	json_put_count(own, "reports_refused", verbs->reports_refused);
	json_put_count(own, "untracked_qps", untracked);
	json_put_count(own, "untracked_contexts", contexts);
	json_put_count(own, "unknown_completions", completions);
	json_put(object, "verbs", own);
}

const struct capability ibverbs_capability = {
	.name = "ibverbs",
	.needs = {"qp", "clock"},
	.events = ibverbs_events,
	.metrics = ibverbs_metrics,
	.open = ibverbs_open,
	.close = ibverbs_close,
	.tick_ns = TICK_NS,
	.tick = tick,
	.reconfigure = reconfigure,
	.refresh = refresh,
	.status = status,
	.qp = put_qp,
	.write_metrics = ibverbs_write_metrics,
};

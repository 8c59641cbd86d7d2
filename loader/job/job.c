// SPDX-License-Identifier: BSD-2-Clause
/* The job report as a capability. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "internal.h"

#define TICK_NS 20000000ull	/* soon after each reading of the registry: progress is before it */
#define OWNERS_NS 1000000000ull /* as often as the map of owners is read */

static void read_devices(struct jobs *jobs)
{
	struct port_facts port;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		jobs->devices[slot][0] = '\0';
		if (!dataplane_port(jobs->dataplane, slot, &port))
			memcpy(jobs->devices[slot], port.info.rdma_device,
			       sizeof(jobs->devices[slot]));
	}
}

/* Takes the newest reading of the registry, once. */
static void take(struct jobs *jobs)
{
	uint64_t refreshed_ns = qptable_refreshed_ns(jobs->table);
	struct job_time time = {time_local_ns(), jobs->polled_ns, jobs->clock, {}};
	bool look_up = refreshed_ns - jobs->owners_ns >= OWNERS_NS;
	struct qp_entry *entries;
	size_t count;

	if (refreshed_ns == jobs->polled_ns)
		return;
	jobs->polled_ns = refreshed_ns;
	if (look_up) {
		jobs->owners_ns = refreshed_ns;
		read_devices(jobs);
	}
	clock_get(jobs->clock, &time.facts);
	for (size_t i = 0; i < jobs->count; i++)
		jobs->list[i]->verbs_qps = jobs->list[i]->ranks = 0;
	ibverbs_take_jobs(jobs->verbs, jobs_take_process, jobs);
	nccl_each_job(jobs->nccl, jobs_take_ranks, jobs);
	entries = qptable_entries(jobs->table, &count);
	for (size_t i = 0; i < count; i++) {
		const char *device = jobs->devices[entries[i].key.port % ESC_PORTS_MAX];

		if (look_up || entries[i].job)
			jobs_take(jobs, &entries[i],
				  look_up ? qptable_owner(jobs->table, &entries[i].key, device)
					  : NULL);
		if (entries[i].job)
			jobs_note_progress(entries[i].job, &entries[i].key, &entries[i].qp, &time);
	}
}

static void tick(void *self, uint64_t now_local_ns)
{
	(void)now_local_ns;
	take(self);
}

static int refresh(void *self)
{
	struct jobs *jobs = self;

	/* What a reply shows is of owners that are known now. */
	jobs->owners_ns = 0;
	take(jobs);
	return 0;
}

static void job_close(void *self)
{
	struct jobs *jobs = self;
	struct qp_entry *entries;
	size_t count;

	qptable_set_jobs(jobs->table, NULL, NULL);
	entries = qptable_entries(jobs->table, &count);
	for (size_t i = 0; i < count; i++) {
		free(entries[i].job);
		entries[i].job = NULL;
	}
	for (size_t i = 0; i < jobs->count; i++)
		jobs_free_sum(jobs->list[i]);
	free(jobs);
}

static int job_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct jobs *jobs = calloc(1, sizeof(*jobs));

	if (!jobs)
		return explain(error, -ENOMEM, "jobs: out of memory");
	jobs->core = core;
	jobs->dataplane = needs[0];
	jobs->clock = needs[1];
	jobs->table = needs[2];
	jobs->findings = needs[3];
	jobs->verbs = needs[4];
	jobs->nccl = needs[5];
	qptable_set_jobs(jobs->table, jobs_end, jobs);
	*self = jobs;
	return 0;
}

const struct capability job_capability = {
	.name = "job",
	.needs = {"dataplane", "clock", "qp", "finding", "ibverbs", "nccl"},
	.verbs = job_verb_handlers,
	.metrics = job_metrics,
	.open = job_open,
	.close = job_close,
	.tick_ns = TICK_NS,
	.tick = tick,
	.refresh = refresh,
	.qp = jobs_put_qp,
	.write_metrics = jobs_write_metrics,
};

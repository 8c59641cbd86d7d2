// SPDX-License-Identifier: BSD-2-Clause
/* Sums by job: each entry's counts are taken by what they grew, so that a sum keeps what ended. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* --- counts --- */

#define COUNTS (sizeof(struct job_counts) / sizeof(uint64_t))

void job_counts_read(struct job_counts *out, const struct esc_qp *qp)
{
	*out = (struct job_counts){
		.packets = qp->packets,
		.bytes = qp->bytes,
		.payload_bytes = qp->payload_bytes,
		.messages = qp->messages,
		.ce = qp->ce,
		.cnps = qp->cnps,
		.psn_gaps = qp->psn_gaps,
		.psn_missing = qp->psn_missing,
		.duplicates = qp->duplicates,
		.retransmits = qp->retransmits,
		.naks = qp_naks(qp),
		.rnr_naks = qp->rnr_naks,
	};
}

void job_counts_add(struct job_counts *sum, const struct job_counts *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;

	for (size_t i = 0; i < COUNTS; i++)
		to[i] += from[i];
}

/* What @now has beyond @before, which becomes @now. */
static struct job_counts counts_grown(struct job_counts *before, const struct job_counts *now)
{
	struct job_counts grown;
	uint64_t *to = (uint64_t *)&grown, *from = (uint64_t *)before;

	for (size_t i = 0; i < COUNTS; i++)
		to[i] = ((const uint64_t *)now)[i] - from[i];
	*before = *now;
	return grown;
}

/* --- the list --- */

static const char *kind_of(enum job_kind kind)
{
	static const char *const names[] = {
		[JOB_NONE] = "cgroup",	 [JOB_SLURM] = "slurm",	  [JOB_POD] = "kubernetes",
		[JOB_DOCKER] = "docker", [JOB_PODMAN] = "podman", [JOB_UNIT] = "systemd",
	};

	return names[kind];
}

void jobs_free_sum(struct job_sum *sum)
{
	if (sum)
		delayhist_free(&sum->owd);
	free(sum);
}

bool jobs_is_running(const struct job_sum *job)
{
	return job->qps || job->verbs_qps || job->ranks;
}

/* The one without a queue pair whose last packet is the oldest makes room. */
static bool make_room(struct jobs *jobs)
{
	size_t oldest = JOBS_MAX;

	if (jobs->count < JOBS_MAX)
		return true;
	for (size_t i = 0; i < jobs->count; i++)
		if (!jobs_is_running(jobs->list[i]) &&
		    (oldest == JOBS_MAX ||
		     jobs->list[i]->last_local_ns < jobs->list[oldest]->last_local_ns))
			oldest = i;
	if (oldest == JOBS_MAX)
		return false;
	/* Its packets stay in the sum of all. */
	for (size_t d = 0; d < 2; d++)
		job_counts_add(&jobs->none[d], &jobs->list[oldest]->counts[d]);
	jobs_free_sum(jobs->list[oldest]);
	memmove(&jobs->list[oldest], &jobs->list[oldest + 1],
		(--jobs->count - oldest) * sizeof(jobs->list[0]));
	jobs->dropped++;
	return true;
}

/* NULL: it is of no job, or there is no room. */
static struct job_sum *find_sum(struct jobs *jobs, const struct job *job)
{
	char id[JOB_ID_BYTES];
	struct job_sum *sum;

	if (!*job_id_of(job, id))
		return NULL;
	for (size_t i = 0; i < jobs->count; i++)
		if (!strcmp(jobs->list[i]->id, id))
			return jobs->list[i];
	sum = make_room(jobs) ? calloc(1, sizeof(*sum)) : NULL;
	if (!sum) {
		jobs->left_out++;
		return NULL;
	}
	memcpy(sum->id, id, sizeof(id));
	memcpy(sum->cgroup, job->cgroup, sizeof(sum->cgroup));
	sum->kind = kind_of(job->kind);
	return jobs->list[jobs->count++] = sum;
}

/* --- entries --- */

static void add_grown(struct job_entry *slot, const struct qp_entry *entry)
{
	struct job_sum *job = slot->job;
	struct job_counts now, grown;

	job_counts_read(&now, &entry->qp);
	grown = counts_grown(&slot->counted, &now);
	job_counts_add(&job->counts[entry->key.direction & 1], &grown);
	if (grown.packets && entry->seen_local_ns > job->last_local_ns)
		job->last_local_ns = entry->seen_local_ns;
}

static void join(struct job_entry *slot, struct job_sum *job, const struct qp_entry *entry,
		 const struct owner *owner)
{
	slot->job = job;
	slot->owner = owner->key;
	slot->owner_first_ns = owner->is.first_local_ns;
	job->qps++;
	if (!job->first_local_ns || entry->qp.first_local_ns < job->first_local_ns)
		job->first_local_ns = entry->qp.first_local_ns;
}

static void begin(struct jobs *jobs, struct qp_entry *entry, const struct owner *owner)
{
	struct job_sum *job = find_sum(jobs, &owner->job);
	struct job_entry *slot = job ? calloc(1, sizeof(*slot)) : NULL;

	if (!slot)
		return;
	entry->job = slot;
	join(slot, job, entry, owner);
	/* A number that was used before: what is there already is of no job that is known. */
	if (!(owner->is.flags & ESC_OWNER_LISTED) &&
	    owner->is.first_local_ns > entry->qp.first_local_ns) {
		job_counts_read(&slot->counted, &entry->qp);
		job_counts_add(&jobs->none[entry->key.direction & 1], &slot->counted);
	}
	add_grown(slot, entry);
}

const char *job_of_qp(const struct qp_entry *entry)
{
	return entry->job ? entry->job->job->id : NULL;
}

void jobs_take(struct jobs *jobs, struct qp_entry *entry, const struct owner *owner)
{
	struct job_entry *slot = entry->job;
	struct job_sum *job;

	if (!slot) {
		if (owner)
			begin(jobs, entry, owner);
		return;
	}
	add_grown(slot, entry);
	if (!owner || (!memcmp(&slot->owner, &owner->key, sizeof(owner->key)) &&
		       slot->owner_first_ns == owner->is.first_local_ns))
		return;
	/* The number has another owner now, whose packets are the next ones. */
	job = find_sum(jobs, &owner->job);
	if (!job)
		return;
	slot->job->qps--;
	slot->job->ended++;
	join(slot, job, entry, owner);
}

void jobs_take_process(void *self, const struct job *of, const struct ibverbs_growth *grown,
		       size_t rows)
{
	struct jobs *jobs = self;
	uint64_t did = grown->messages + grown->received + grown->errors;
	struct job_sum *job = did || rows ? find_sum(jobs, of) : NULL;

	if (!job)
		return;
	job->verbs.messages += grown->messages;
	job->verbs.bytes += grown->bytes;
	job->verbs.received += grown->received;
	job->verbs.received_bytes += grown->received_bytes;
	job->verbs.errors += grown->errors;
	job->verbs_qps += rows;
	if (did)
		job->last_local_ns = jobs->polled_ns;
	if (!job->first_local_ns)
		job->first_local_ns = jobs->polled_ns;
}

void jobs_take_ranks(void *self, const struct job *of, size_t ranks)
{
	struct jobs *jobs = self;
	struct job_sum *job = ranks ? find_sum(jobs, of) : NULL;

	if (!job)
		return;
	job->ranks += ranks;
	job->last_local_ns = jobs->polled_ns;
	if (!job->first_local_ns)
		job->first_local_ns = jobs->polled_ns;
}

static void keep_delays(struct job_sum *job, const struct delays_entry *delays)
{
	struct delayhist hist = {};

	if (!delays || delayhist_add_since(&hist, delays->owd.histogram, NULL))
		return;
	delayhist_add(&job->owd, &hist);
	job->owd_sum_ns += delayhist_sum(&hist);
	if (delays->bound_max_ns > job->owd_bound_ns)
		job->owd_bound_ns = delays->bound_max_ns;
	delayhist_free(&hist);
}

void jobs_end(void *self, struct qp_entry *entry)
{
	struct job_entry *slot = entry->job;
	struct jobs *jobs = self;
	struct job_counts counts;

	if (!slot) {
		job_counts_read(&counts, &entry->qp);
		job_counts_add(&jobs->none[entry->key.direction & 1], &counts);
		return;
	}
	add_grown(slot, entry);
	keep_delays(slot->job, entry->delays);
	slot->job->qps--;
	slot->job->ended++;
	free(slot);
	entry->job = NULL;
}

void jobs_sum_none(const struct jobs *jobs, struct job_counts out[2], size_t *qps)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(jobs->table, &count);
	struct job_counts counts;

	*qps = 0;
	memcpy(out, jobs->none, sizeof(jobs->none));
	for (size_t i = 0; i < count; i++) {
		if (entries[i].job)
			continue;
		job_counts_read(&counts, &entries[i].qp);
		job_counts_add(&out[entries[i].key.direction & 1], &counts);
		++*qps;
	}
}

/* --- progress --- */

/* Never 0 once there is any. */
static uint64_t progress_of(const struct esc_qp *qp)
{
	if (qp->transport == ESC_TRANSPORT_UD)
		return qp->packets;
	if (qp->requests.flags & ESC_PSN_VALID)
		return 1ull << 32 | qp->requests.next;
	return qp->responses.flags & ESC_PSN_VALID ? 1ull << 33 | qp->responses.next : 0;
}

static int64_t fabric_at(const struct job_time *time, uint64_t local_ns)
{
	return clock_model_read(&time->facts.model, clock_local_at(time->clock, local_ns));
}

/*
 * It moved between the look before and this one; the newest sampled packet is known better, and is
 * the last one when no request was sent after it.
 */
void jobs_note_progress(struct job_entry *slot, const struct esc_qp_key *key,
			const struct esc_qp *qp, const struct job_time *time)
{
	uint64_t progress = progress_of(qp), after_ns = time->previous_ns,
		 before_ns = time->local_ns;
	bool first = !slot->progress, sampled = qp->sample_local_ns;
	uint32_t newest = (qp->requests.next - 1) & ESC_PSN_MASK;

	if (progress == slot->progress)
		return;
	slot->progress = progress;
	/* What an earlier daemon left may have moved long ago. */
	if (first && !after_ns)
		return;
	if (first || after_ns < qp->first_local_ns)
		after_ns = qp->first_local_ns;
	if (sampled && qp->sample_local_ns > after_ns)
		after_ns = qp->sample_local_ns;
	if (sampled && key->direction == ESC_DIRECTION_TX && qp->sample_psn == newest &&
	    !(qp->sample_flags & ESC_SAMPLE_RESPONSE) && after_ns == qp->sample_local_ns)
		before_ns = after_ns;
	slot->last = (struct qp_progress){
		.moved = true, .moved_local_ns = time->local_ns, .timed = time->facts.known};
	if (!slot->last.timed)
		return;
	slot->last.after_fabric_ns = fabric_at(time, after_ns);
	slot->last.before_fabric_ns = fabric_at(time, before_ns);
	slot->last.bound_ns = time->facts.bound_ns;
}

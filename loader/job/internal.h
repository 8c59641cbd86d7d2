/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of job/ share. */
#ifndef ESC_JOB_INTERNAL_H
#define ESC_JOB_INTERNAL_H

#include "base/delayhist.h"
#include "base/fields.h"
#include "clock/clock.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "finding/finding.h"
#include "ibverbs/ibverbs.h"
#include "job.h"
#include "nccl/nccl.h"
#include "qp/qp.h"

#define JOBS_MAX 256
#define JOB_QUIET_NS 1000000000ull /* without progress for this long a queue pair has stopped */

/* --- account.c: sums by job, from the counts of their queue pairs --- */

struct job_counts {
	uint64_t packets, bytes, payload_bytes, messages;
	uint64_t ce, cnps, psn_gaps, psn_missing, duplicates, retransmits, naks, rnr_naks;
};

/* A job, while it has queue pairs here, and then until its place is needed. */
struct job_sum {
	char id[JOB_ID_BYTES];
	const char *kind; /* "slurm", "kubernetes", "docker", "podman", "systemd", "cgroup" */
	char cgroup[JOB_PATH_BYTES];		/* of the first process that was seen */
	struct job_counts counts[2];		/* by direction; never go back */
	size_t qps;				/* entries that are there, */
	uint64_t ended;				/* and that are not any more */
	uint64_t first_local_ns, last_local_ns; /* of its packets, or of what its processes count */
	/* As its processes count, with the queue pairs that are above; never goes back. */
	struct ibverbs_growth verbs;
	size_t verbs_qps; /* entries that only they count, of the newest reading */
	size_t ranks;	  /* of communicators, that libescapement-nccl records now */
	/* Delays of entries that ended. */
	struct delayhist owd;
	double owd_sum_ns;
	uint32_t owd_bound_ns; /* the largest */
};

/* What an entry of the registry has of job/. */
struct job_entry {
	struct job_sum *job;
	struct esc_owner_key owner;
	uint64_t owner_first_ns;
	struct job_counts counted; /* that are in the job's sums, or were before it */

	/* Progress: a new request, or a response to one. A packet that is sent again is none. */
	uint64_t progress;
	struct qp_progress last;
};

/* One look at the clock. */
struct job_time {
	uint64_t local_ns;    /* CLOCK_MONOTONIC, after the registry was read */
	uint64_t previous_ns; /* before it was read the time before; 0: never */
	const struct clock *clock;
	struct clock_facts facts;
};

struct jobs {
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct qptable *table;
	struct findings *findings;
	struct ibverbs *verbs;
	struct nccl *nccl;
	struct job_sum *list[JOBS_MAX]; /* in the order in which they were seen first */
	size_t count;
	uint64_t dropped;	   /* jobs that ended and made room */
	struct job_counts none[2]; /* of entries that ended, and of no job */
	uint64_t left_out;	   /* entries for which there was no room for a job */
	uint64_t polled_ns;	   /* refresh that was taken last */
	uint64_t owners_ns;	   /* when owners were looked up last */
	char devices[ESC_PORTS_MAX][64];
};

void job_counts_read(struct job_counts *out, const struct esc_qp *qp);
void job_counts_add(struct job_counts *sum, const struct job_counts *more);

/* Adds what @entry has counted since. @owner NULL: its job stays as it is. */
void jobs_take(struct jobs *jobs, struct qp_entry *entry, const struct owner *owner);
/* The last counts of @entry; its slot is freed. */
void jobs_end(void *jobs, struct qp_entry *entry);
/* Notes when the queue pair of @entry, which has a slot, moved. */
void jobs_note_progress(struct job_entry *slot, const struct esc_qp_key *key,
			const struct esc_qp *qp, const struct job_time *time);
/* What a process with libescapement-verbs did; as ibverbs_take_fn. */
void jobs_take_process(void *jobs, const struct job *job, const struct ibverbs_growth *grown,
		       size_t rows);
/* What a process with libescapement-nccl has; as nccl_take_fn. */
void jobs_take_ranks(void *jobs, const struct job *job, size_t ranks);
/* Something of it is here now. */
bool jobs_is_running(const struct job_sum *job);
/* Of no job: what has ended, and what is there. */
void jobs_sum_none(const struct jobs *jobs, struct job_counts out[2], size_t *qps);
void jobs_free_sum(struct job_sum *sum);

/* --- report.c --- */

extern const struct verb_handler job_verb_handlers[];
extern const struct metric job_metrics[];
void jobs_write_metrics(void *self, FILE *out);
void jobs_put_qp(void *self, const struct qp_entry *entry, json_t *qp);
const struct job_sum *jobs_find(const struct jobs *jobs, const char *typed);

/* --- merge.c: from the JSON of one host or several; pure --- */

/*
 * What the queue pairs of @qps (an array of `qp -j`, each with `host`) are together: processes,
 * interfaces, peers and paths, as members of @out.
 */
void job_put_groups(json_t *out, const json_t *qps);
/*
 * Which stopped first, of the queue pairs in @qps without progress for @quiet_ns: `first`, unless
 * the bounds allow another one, and `stopped`, by the time. New reference.
 */
json_t *job_timeline(const json_t *qps, uint64_t quiet_ns);
/* `job` without a daemon, from the files of --from. */
json_t *job_run_files(const json_t *args, int *exit, char **error);

#endif

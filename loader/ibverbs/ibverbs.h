/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs as processes with libescapement-verbs count them, also where NICs bypass the kernel.
 */
#ifndef ESC_IBVERBS_IBVERBS_H
#define ESC_IBVERBS_IBVERBS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capability;
struct ibverbs;
struct job;

/* needs: qp, clock; self is the struct ibverbs. */
extern const struct capability ibverbs_capability;

/* What the queue pairs of a process did since that was handed over last. */
struct ibverbs_growth {
	uint64_t messages, bytes; /* posted */
	uint64_t received, received_bytes;
	uint64_t errors; /* completions, without flushes */
};

/*
 * Calls @take for each process with its job, what it did, and how many rows of queue pairs `qp` has
 * of it that the kernel programs do not see.
 */
typedef void ibverbs_take_fn(void *context, const struct job *job,
			     const struct ibverbs_growth *grown, size_t rows);
void ibverbs_take_jobs(struct ibverbs *verbs, ibverbs_take_fn *take, void *context);

/*
 * Files of another library in the same folder, told apart by their size. The process and its job
 * are found here; what is in a file is the reader's.
 */
struct process;
struct ibverbs_files {
	uint64_t bytes;
	/*
	 * What is new in @fd; *@own is what is kept of the process, NULL at first. The texts are of
	 * the program, its rank and its job, each with its end. False: it is none of this version.
	 */
	bool (*read)(void *context, int fd, void **own, char comm[16], char rank[16],
		     char job_id[64]);
	void (*free)(void *context, void *own);
	void *context;
};
/* @files is borrowed; NULL: not any more, and what was kept of them is freed. */
void ibverbs_set_files(struct ibverbs *verbs, const struct ibverbs_files *files);
/* Those that run, and those that ended lately: their *own, after the newest reading. */
typedef void ibverbs_own_fn(void *context, const struct process *process, void *own);
void ibverbs_each_own(const struct ibverbs *verbs, ibverbs_own_fn *take, void *context);
const struct job *ibverbs_job_of(const struct process *process);
uint32_t ibverbs_uid_of(const struct process *process); /* of its file's owner */
bool ibverbs_has_ended(const struct process *process);
/* Its number, program, rank, job, and whether it has ended, as members of @object. */
void ibverbs_put_process(json_t *object, const struct process *process);

/* These rows of the processes whose job @is_of is true for, as `qp` has them. New reference. */
typedef bool ibverbs_of_fn(const struct job *job, const char *id);
json_t *ibverbs_job_rows(const struct ibverbs *verbs, ibverbs_of_fn *is_of, const char *id);

#endif

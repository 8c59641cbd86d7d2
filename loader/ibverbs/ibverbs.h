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

/* These rows of the processes whose job @is_of is true for, as `qp` has them. New reference. */
typedef bool ibverbs_of_fn(const struct job *job, const char *id);
json_t *ibverbs_job_rows(const struct ibverbs *verbs, ibverbs_of_fn *is_of, const char *id);

#endif

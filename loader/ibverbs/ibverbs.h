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

/* needs: qp; self is the struct ibverbs. */
extern const struct capability ibverbs_capability;

/* Sums of the queue pairs of a job, of processes that are here or ended a short time ago. */
struct ibverbs_sum {
	const struct job *job;
	size_t processes, qps;
	uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
};
/* By job: true with the one of process @index, which comes once for each job; false: no more. */
bool ibverbs_job(const struct ibverbs *verbs, size_t *index, struct ibverbs_sum *out);

#endif

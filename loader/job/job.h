/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pairs of a job: what they sent and received, their delays, and which stopped first. */
#ifndef ESC_JOB_JOB_H
#define ESC_JOB_JOB_H

#include <stdbool.h>

struct capability;
struct qp_entry;

/* needs: dataplane, clock, qp, finding, ibverbs, nccl. */
extern const struct capability job_capability;

/* The id of the job of a queue pair, "job_1234"; NULL: none is known. */
const char *job_of_qp(const struct qp_entry *entry);
/* @id as a user may type it, "1234" for "job_1234". */
bool job_id_matches(const char *id, const char *typed);

#endif

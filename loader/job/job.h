/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pairs of a job: what they sent and received, their delays, and which stopped first. */
#ifndef ESC_JOB_JOB_H
#define ESC_JOB_JOB_H

struct capability;

/* needs: dataplane, clock, qp, finding. */
extern const struct capability job_capability;

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the contention policy share; nobody else includes it. */
#ifndef ESC_PACING_CONTEND_PARTS_H
#define ESC_PACING_CONTEND_PARTS_H

#include <math.h>

#include "pacing/contend.h"

#define MS 1000000ll
#define SECOND 1000000000ll
#define NOISES 3		   /* standard errors that are nothing yet */
#define GROWN 1.3		   /* of a rate: not chance */
#define SILENT_LEAST_NS (200 * MS) /* between two packets, with answers under way */
#define SILENT_NS (5 * SECOND)	   /* most timeouts are shorter; longer is idle */

struct tick {
	struct contend *contend;
	struct contend_budget *budget;
	int64_t now_ns;
	double since_ns; /* since the last look */
	uint64_t *random;
	struct contend_path *paths;
	size_t path_count;
	struct contend_qp *qps;
	size_t qp_count;
	struct contend_act *acts;
	size_t act_count, acts_most;
};

static inline double carried_Bps(const struct contend *contend)
{
	return fmax(contend->most_Bps, contend->config.capacity_Bps);
}

static inline bool is_contended(const struct contend *contend, const struct contend_path *path)
{
	return path->fresh && path->stands_out >= contend->config.ticks;
}

static inline bool is_idle(const struct contend *contend, const struct contend_qp *qp)
{
	return !(qp->rate_Bps >= contend->config.idle_Bps) || isinf(qp->rate_Bps);
}

/* It waits for the answer to what was lost, most likely: for a timeout, and so long at most. */
static inline bool is_silent(const struct contend_qp *qp)
{
	return qp->unanswered_ns >= SILENT_LEAST_NS && qp->unanswered_ns < SILENT_NS;
}

/* What the inputs of this look say: the policy's own members of paths and queue pairs. */
void contend_observe(const struct tick *tick);

#endif

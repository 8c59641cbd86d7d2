/* SPDX-License-Identifier: BSD-2-Clause */
/* Internal to the contention policy (contend*.c). */
#ifndef ESC_PACING_CONTEND_PARTS_H
#define ESC_PACING_CONTEND_PARTS_H

#include <math.h>

#include "pacing/contend.h"

#define MS 1000000ll
#define SECOND 1000000000ll
#define NOISES 3		   /* ignored differences, in standard errors */
#define NEARLY 0.9		   /* factor: rates above are equal */
#define PEAK_NS 2e9		   /* decay of peak_ns and queue_before_ns */
#define GROWN 1.3		   /* factor of a significant increase of a rate */
#define SILENT_LEAST_NS (200 * MS) /* without a packet, acknowledgement outstanding */
#define SILENT_NS (5 * SECOND)	   /* above the usual timeouts; longer is idle */
#define LOST_PART 0.4		   /* of their rate: with less left the path has lost capacity */

struct tick {
	struct contend *contend;
	struct contend_budget *budget;
	int64_t now_ns;
	double since_ns; /* since the last tick */
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
	return fmax(contend->max_Bps, contend->config.capacity_Bps);
}

static inline bool is_contended(const struct contend *contend, const struct contend_path *path)
{
	return path->fresh && path->contended_ticks >= contend->config.ticks;
}

static inline bool is_idle(const struct contend *contend, const struct contend_qp *qp)
{
	return !(qp->rate_Bps >= contend->config.idle_Bps) || isinf(qp->rate_Bps);
}

/* Residents that lost most of their rate lost it to no newcomer. */
static inline bool has_lost_capacity(const struct contend_path *path)
{
	return path->own_Bps < LOST_PART * path->calm_Bps;
}

static inline double demand_Bps(const struct contend_qp *qp)
{
	return fmax(qp->rate_Bps, qp->resident_Bps);
}

/* It most likely waits for the timeout of a lost packet. */
static inline bool is_silent(const struct contend_qp *qp)
{
	return qp->unacked_ns >= SILENT_LEAST_NS && qp->unacked_ns < SILENT_NS;
}

/*
 * What a queue pair loses by pacing: how long its packets are held at the sender, less what they
 * would be if it had the capacity of a path. Its demand is what it hands over, not its rate.
 */
static inline double unmet_ns(const struct contend *contend, const struct contend_qp *qp)
{
	double carried = carried_Bps(contend);

	if (qp->held_Bps <= 0 || carried <= 0 || qp->held_Bps >= NEARLY * carried)
		return 0;
	return qp->held_ns * (1 - qp->held_Bps / carried);
}

/*
 * The part of @unmet that is the path's, not that of a queue which @to has as well (the receiver's
 * port): pacing keeps queues so short that their level shows no more than where they are.
 */
static inline double unmet_of_path_ns(const struct contend *contend,
				      const struct contend_path *from, double unmet,
				      double other_mean_ns)
{
	double packet_ns = contend->config.packet_bytes * 1e9 / fmax(carried_Bps(contend), 1);

	if (from->mean_excess_ns <= from->bound_ns + packet_ns ||
	    2 * other_mean_ns >= from->mean_excess_ns)
		return 0;
	return unmet * (1 - other_mean_ns / from->mean_excess_ns);
}

/* Updates the policy's own members of paths and queue pairs from the inputs of this tick. */
void contend_observe(const struct tick *tick);

#endif

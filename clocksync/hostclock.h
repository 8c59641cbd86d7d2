/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's clock: its consensus, the model that readers use, its bound and its
 * state. The caller feeds it fits and neighbours' views once a round and
 * publishes `model` and the view.
 */
#ifndef ESC_CLOCKSYNC_HOSTCLOCK_H
#define ESC_CLOCKSYNC_HOSTCLOCK_H

#include "clocksync/bound.h"
#include "clocksync/consensus.h"
#include "clocksync/reader.h"

#define HOSTCLOCK_ROUND_NS 250000000LL

struct hostclock_config {
	unsigned degree;     /* neighbours by the graph */
	double asymmetry_ns; /* see bound_compute() */
	int64_t round_ns;    /* HOSTCLOCK_ROUND_NS */
	size_t rank;	     /* graph_rank(): order of bootstrap; 0: at once */
};

struct hostclock {
	struct hostclock_config config;
	struct consensus consensus;
	struct clock_model model;
	struct bound bound;
	double behind_ns; /* of the readings, slewing */
	double slew_ppb;  /* by which the local clock's rate may have changed since the round */
	enum clock_state state;
	enum consensus_result last_result;
};

void hostclock_init(struct hostclock *clock, const struct hostclock_config *config, int64_t now_ns);

/*
 * One round. After it clock->model is the next to publish, and the same call
 * decides whether to bootstrap a fabric time when no neighbour with one is reachable.
 *
 * A refused neighbour is apart while its offset is larger than our bound and its own together: one
 * of the two is wrong. It ends when it is accepted, or at half of that. The gate alone is a few
 * deviations of good neighbours, which queues of a busy host exceed for seconds.
 */
enum clock_state hostclock_round(struct hostclock *clock, int64_t now_ns,
				 const struct consensus_input *input, size_t count);

/* The view to send on probes. */
void hostclock_view(const struct hostclock *clock, struct clock_view *view);

const char *clock_state_name(enum clock_state state);

#endif

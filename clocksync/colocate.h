/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which hosts are virtual machines of one machine: their CPU counters (cycles.h) run at one rate
 * and wander alike. For each pair the likelihood of its series as one counter read twice is
 * compared with that as two counters of this fleet:
 *
 * - the rates: what two different hosts' rates are apart, from the fleet, at least as dense as
 *   hosts within +-10 ppm;
 * - the wander of the difference, as its first cosine components: against that of pairs of
 *   this fleet, in a fleet of COLOCATE_FLEET_LEAST hosts or more. In smaller ones wander speaks
 *   only against, and shows how much the rates may be off.
 *
 * The noise is that of the points; errors of fabric time that are slower than 2 s are allowed
 * for as a mixture of larger, redder and lasting noise. The ratio and a prior give the probability.
 */
#ifndef ESC_CLOCKSYNC_COLOCATE_H
#define ESC_CLOCKSYNC_COLOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COLOCATE_HOSTS_MAX 4096
#define COLOCATE_FLEET_LEAST 16
/* Share of pairs that are expected to be of one machine; in small fleets there are few pairs. */
#define COLOCATE_PRIOR 1e-3
#define COLOCATE_PRIOR_SMALL 1e-2
/*
 * Named as one machine from this probability on. As a ratio of likelihoods exceeds R for 1 / R of
 * the other pairs at most, that are 1e-5 of these, and 1e-4 in small fleets.
 */
#define COLOCATE_CERTAIN 0.99
#define COLOCATE_POINTS_LEAST 10
/* Of a large fleet more pairs than this share have something else in common. */
#define COLOCATE_SHARE_MOST 0.05
#define COLOCATE_SHARE_FLEET 64

struct colocate_series {
	double reference_hz;
	int64_t first; /* grid index of points[0] */
	size_t count;
	const double *ahead_ns;	 /* at reference_hz, against fabric time; NAN: no point */
	const double *bounds_ns; /* of fabric time in each; NULL: bound_ns in all */
	double bound_ns;	 /* the largest of these */
};

enum colocate_verdict {
	COLOCATE_UNKNOWN, /* not decided: too short, too noisy, or contradictory */
	COLOCATE_SAME,
	COLOCATE_OTHER,
};

struct colocate_pair {
	float probability;
	float rate_ppb;	   /* the first counter's rate against the second's; NAN */
	float correlation; /* of the wander; NAN */
	uint8_t verdict;
	bool scaled; /* one machine by the wander alone: a counter is scaled */
};

struct colocate {
	size_t count;
	struct colocate_pair *pairs; /* colocate_index(); of all pairs */
	size_t *group;		     /* of each host; SIZE_MAX: none */
	size_t group_count;
	double *seconds;	     /* of each host: the window that it was compared over */
	double *rate_hz, *noise_ns;  /* of each host; NAN */
	double expected_false_pairs; /* sum of 1 - probability over those named */
	bool too_many;		     /* COLOCATE_SHARE_MOST exceeded: all unknown */
};

static inline size_t colocate_index(size_t count, size_t a, size_t b)
{
	size_t low = a < b ? a : b, high = a < b ? b : a;

	return low * (2 * count - low - 1) / 2 + high - low - 1;
}

/* @out is to be freed in any case. 0, -E2BIG or -ENOMEM. */
int colocate_solve(const struct colocate_series *series, size_t count, struct colocate *out);
void colocate_free(struct colocate *colocate);

#endif

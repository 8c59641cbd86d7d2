/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate of the clock in holdover, without a usable neighbour. The drift of the last round
 * is the newest and noisiest estimate; in holdover of half a minute its error dominates. So
 * the line is recorded once a second, rates are computed over several spans and compared
 * with the rate of the following seconds: the span with the least error gives the rate, its
 * error the growth of the bound.
 */
#ifndef ESC_CLOCKSYNC_HOLDOVER_H
#define ESC_CLOCKSYNC_HOLDOVER_H

#include "clocksync/line.h"

#define HOLDOVER_SPANS 4     /* 4, 8, 16 and 32 s */
#define HOLDOVER_SPAN_MAX 32 /* entries, one a second */
#define HOLDOVER_DELAY 8     /* seconds after which a rate is compared with a later one */

struct holdover {
	struct clock_line base; /* that the entries are relative to */
	struct {
		int64_t local_ns;
		double ahead_ns;
	} past[HOLDOVER_SPAN_MAX + 1];
	unsigned count; /* of entries since the beginning */
	struct {
		double rate_ppb[HOLDOVER_DELAY]; /* against the base's, by entry */
		double square;			 /* mean of its errors' squares */
		double peak_ppb;		 /* largest of its errors, decaying */
		unsigned evaluations;
	} spans[HOLDOVER_SPANS];
	double wander_ppb_per_s; /* observed change of the rate, decaying peak */
	unsigned wander_seen;	 /* seconds */
};

/* After a step: restarts. The wander of the clocks is kept. */
void holdover_begin(struct holdover *holdover);

/* After a round with usable neighbours; records one line a second. */
void holdover_add(struct holdover *holdover, const struct clock_line *line, int64_t now_ns);

/* The holdover rate; @line's own until there is a better one. */
double holdover_ppb(const struct holdover *holdover, const struct clock_line *line);

/* Its usual error; negative: not evaluated yet. */
double holdover_deviation_ppb(const struct holdover *holdover);

/* Bound of its error, and the growth per second. */
double holdover_error_ppb(const struct holdover *holdover);
double holdover_wander(const struct holdover *holdover);

#endif

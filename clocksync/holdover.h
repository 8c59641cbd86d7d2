/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate to go on with when there is nobody to follow. A round's own drift is
 * the freshest there is, and the noisiest: held for half a minute its error is
 * what counts. So the clock's line is noted once a second, rates are taken over
 * several spans of it, each is held against what came in the seconds after, and
 * the span that was least wrong gives the rate, its errors the bound's growth.
 */
#ifndef ESC_CLOCKSYNC_HOLDOVER_H
#define ESC_CLOCKSYNC_HOLDOVER_H

#include "clocksync/line.h"

#define HOLDOVER_SPANS 4     /* 4, 8, 16 and 32 s */
#define HOLDOVER_SPAN_MAX 32 /* entries, one a second */
#define HOLDOVER_DELAY 8     /* seconds after which a rate is compared with a later one */

struct holdover {
	struct clock_line base; /* the entries are told against it */
	struct {
		int64_t local_ns;
		double ahead_ns;
	} past[HOLDOVER_SPAN_MAX + 1];
	unsigned count; /* of entries since the beginning */
	struct {
		double rate_ppb[HOLDOVER_DELAY]; /* against the base's, by entry */
		double square;			 /* mean of its errors' squares */
		double peak_ppb;		 /* largest of its errors, fading */
		unsigned judged;
	} spans[HOLDOVER_SPANS];
	double wander_ppb_per_s; /* how fast the rate was seen to move, peak held */
	unsigned wander_seen;	 /* seconds */
};

/* What was noted is of another time: begins anew. How much clocks wander here stays known. */
void holdover_begin(struct holdover *held);

/* After a round that followed its neighbours; takes one line a second. */
void holdover_add(struct holdover *held, const struct clock_line *line, int64_t now_ns);

/* The rate to hold, @line's own before there is a better one. */
double holdover_ppb(const struct holdover *held, const struct clock_line *line);

/* Its usual error; negative: nothing was judged yet. */
double holdover_deviation_ppb(const struct holdover *held);

/* How wrong that may be, and how much more each second. */
double holdover_error_ppb(const struct holdover *held);
double holdover_wander(const struct holdover *held);

#endif

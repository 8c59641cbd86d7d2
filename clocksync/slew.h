/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A local clock that is slewed. CLOCK_MONOTONIC is what kernel programs can read, and NTP changes
 * its rate: chronyd by up to a tenth. CLOCK_MONOTONIC_RAW is of the same counter, and has the
 * counter's rate. So lines and points are converted to the rate of now instead of being wrong until
 * the neighbors show it: the slope of a fit is limited to what both clock models have, so they
 * would not.
 *
 * A change shows once it exceeds the noise of the readings (3 ns on a busy virtual machine): 0.1
 * ppm in the next round, 50 ppb in seconds. It is dated to the reading from which two lines fit
 * best, and its rate becomes more exact with the readings after it.
 *
 * Between two rounds it is not known yet: a reading is wrong by up to the change times a round
 * (100 ppm: 25 us). A clock that was slewed will be again, so that the bound contains the largest
 * change of the last minutes; the first one is outside.
 */
#ifndef ESC_CLOCKSYNC_SLEW_H
#define ESC_CLOCKSYNC_SLEW_H

#include <stdbool.h>
#include <stdint.h>

#include "clocksync/edge.h"
#include "clocksync/hostclock.h"

#define SLEW_KEPT 32 /* eight seconds of rounds */

/* The slew of one local clock; all zero: no reading yet. */
struct slew {
	struct slew_reading {
		int64_t local_ns, raw_ns;
		int64_t width_ns; /* between them, to half of it */
		double weight;	  /* filled in by slew_add() */
	} first, kept[SLEW_KEPT]; /* since the rate changed: the oldest, the newest */
	struct slew_sums {
		double weight, x, y, xx, xy;
	} sums;			   /* of all since then */
	unsigned int count;	   /* of kept */
	unsigned int readings;	   /* since the rate changed */
	double rate_ppb, told_ppb; /* of the local clock against raw time; as reported */
	double noise_ns, width_ns; /* of a reading; its usual width */
	unsigned int learned;	   /* readings that the noise is from */
	bool unsettled;		   /* it changed before the last reading, by this so far */
	double unsettled_ppb;
	double peak_ppb; /* the largest recent change; decays over minutes */
	uint64_t changes;
};

/*
 * From @from_ns of the local clock on its rate is another one. It changed some time before
 * @until_ns; where both are the same, the rate of the change before is known better.
 */
struct slew_change {
	int64_t from_ns, until_ns;
	double ppb;
};

/* A reading of both clocks. True: the rate changed since the last one, and *@change is how. */
bool slew_add(struct slew *slew, const struct slew_reading *reading, struct slew_change *change);

/* Converts a host's line, and what it was before, to the local clock as it runs now. */
void slew_host(struct hostclock *host, const struct slew_change *change);

/*
 * @view: the peer's newest; NULL: none. A change of its line's rate that no correction usually
 * makes, and large enough to show, is taken for one of the peer's local clock: the edge's points
 * are converted. If it was a correction after all they no longer fit one line, which shows once
 * there are enough after the change; then they are converted back. Until either is certain the
 * fit's slope is that of the clock models.
 */
void slew_peer(struct edge *edge, const struct clock_view *view, int64_t now_ns,
	       struct edge_scratch *scratch);

/* The same with the points of an edge; those in which the rate changed are forgotten. */
void slew_edge(struct edge *edge, const struct slew_change *change);

#endif

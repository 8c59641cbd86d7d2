/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A local clock that is slewed. CLOCK_MONOTONIC is what kernel programs can read, and NTP changes
 * its rate: chronyd by up to a tenth. CLOCK_MONOTONIC_RAW is of the same counter, and has the
 * counter's rate. So a change of the one against the other is known once a round and to the width
 * of a reading, and lines and points are converted instead of being wrong until the neighbors show
 * it: the slope of a fit is limited to what both clock models have, so they would not.
 *
 * Between two rounds it is not known yet: a reading is wrong by up to the change times a round
 * (100 ppm: 25 us), and by half of that at most once it is.
 */
#ifndef ESC_CLOCKSYNC_SLEW_H
#define ESC_CLOCKSYNC_SLEW_H

#include <stdbool.h>
#include <stdint.h>

#include "clocksync/edge.h"
#include "clocksync/hostclock.h"

/* The slew of one local clock; all zero: no reading yet. */
struct slew {
	struct slew_reading {
		int64_t local_ns, raw_ns;
		int64_t width_ns; /* between them, to half of it */
	} first, last;		  /* since the rate changed; the newest */
	double rate_ppb;	  /* of the local clock against raw time */
	unsigned int readings;	  /* since then */
	bool unsettled;		  /* it changed before the last reading */
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

/* The same with the points of an edge; those in which the rate changed are forgotten. */
void slew_edge(struct edge *edge, const struct slew_change *change);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes too much for a short time and then no more: what the pause is for. Senders that have a
 * load of their own, together a little below the port's rate, and now and then a burst of several
 * times of it. Nothing lies above that slows down, and nothing is lost.
 */
#ifndef ESC_TESTS_SIM_PAUSE_BURST_H
#define ESC_TESTS_SIM_PAUSE_BURST_H

#include "tests/lib/sim/pause_net.h"

enum pause_law { PAUSE_LAW_NONE, PAUSE_LAW_STRAWMAN, PAUSE_LAW_PAUSE, PAUSE_LAW_RATE };

struct pause_burst {
	unsigned senders;
	double bps, rtt_ns, threshold_ns;
	double load, burst_load; /* of the port */
	double burst_ns, every_ns;
	unsigned bursts;
	enum pause_law law;
	double gain;	/* 0: 1 */
	double unpaced; /* part of the senders */
	double clock_part, feedback_loss;
};

struct pause_burst_figures {
	double wasted_ns; /* in a burst: the port idle while a packet was held for it */
	double wasted;	  /* the same, of all the time */
	double peak_ns;
	double over_ns; /* in a burst: how long the wait was above the threshold */
	double p99_ns;
};

void pause_burst_run(const struct pause_burst *burst, uint64_t seed,
		     struct pause_burst_figures *figures);

#endif

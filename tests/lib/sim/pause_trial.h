/* SPDX-License-Identifier: BSD-2-Clause */
/* Many senders to one port: what the law makes of it. */
#ifndef ESC_TESTS_SIM_PAUSE_TRIAL_H
#define ESC_TESTS_SIM_PAUSE_TRIAL_H

#include "tests/lib/sim/pause_net.h"

struct pause_trial {
	const char *name;
	unsigned senders;
	double host_bps, link_bps;
	double rtt_ns;
	double threshold_ns;
	double buffer_ns; /* of the port, as time at its rate */
	uint32_t packet_bytes;
	enum pnet_kind kind;
	uint64_t window;	    /* packets; 0: 128 */
	uint64_t ahead, ahead_less; /* packets; 0: 2 */
	unsigned sample_every;	    /* 0: each */
	double unpaced;		    /* part of the senders */
	double clock_part;	    /* errors of up to so much of the threshold, either way */
	double noise_ns;
	double feedback_loss;
	double gain;	      /* 0: 1 */
	double floor_ns;      /* of the delays; the threshold is above it */
	bool floor_known;     /* and told */
	double start_part;    /* of the line, before the first sample; 0: by default */
	double hold_ns;	      /* most that a packet is held; 0: by default */
	double timeout_ns;    /* of the transport; 0: 67 ms */
	unsigned heavy;	      /* so many have a weight of 3 */
	unsigned late;	      /* so many begin in the middle of the warm-up */
	double seconds, warm; /* what is measured, and before */
	bool pause_only, off, ecn;
};

struct pause_figures {
	double used;			/* of the link */
	double wasted;			/* of its time: idle, and what came next had been held */
	double p50_ns, p99_ns, peak_ns; /* wait at the port */
	double first_peak_ns;		/* while warming up */
	uint64_t packets, dropped, again, timeouts;
	uint64_t first_dropped, first_again;
	double jain, jain_short; /* over all that was measured; mean over tenths of it */
	double heavy_part;	 /* rate of one of weight 3 over one of weight 1 */
	double paced_part;	 /* rate of a paced one over one that is not */
	double paused;		 /* part of the time, mean over senders */
	double least;		 /* the slowest's part of a fair share */
};

void pause_trial_run(const struct pause_trial *trial, uint64_t seed, struct pause_figures *figures);

#endif

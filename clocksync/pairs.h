/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coded probes: pairs with a known spacing. A pair whose spacing changed on the path had
 * queueing delay (Huygens, Geng et al., NSDI 2018, section 3). The tolerance depends on the
 * noise of the timestamps, which is learned from the pairs.
 */
#ifndef ESC_CLOCKSYNC_PAIRS_H
#define ESC_CLOCKSYNC_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

enum clock_side {
	CLOCK_FORWARD = 0,  /* left here, arrived there: tx local, rx remote */
	CLOCK_BACKWARD = 1, /* left there, arrived here: tx remote, rx local */
};

/* One passage of one probe in one direction. */
struct clock_probe {
	int64_t tx_ns; /* the sender's clock */
	int64_t rx_ns; /* the receiver's clock */
	uint32_t pair; /* number of its pair, counted by the sender */
};

enum pairs_result {
	PAIRS_FIRST, /* first probe of a pair */
	PAIRS_KEPT,  /* completes a pair that kept its spacing */
	PAIRS_STRETCHED,
};

#define PAIRS_BINS 32 /* half octaves from 1 ns: the last takes all above 46 us */

struct pairs_filter {
	struct clock_probe last[2];
	bool waiting[2];
	float histogram[PAIRS_BINS]; /* of |change of spacing|, decaying */
	double tolerance_ns;
	double noise_ns; /* standard deviation of one timestamp */
	bool measured;	 /* noise_ns comes from pairs */
	bool no_knee;	 /* too few pairs keep their spacing: all count as stretched */
	uint64_t seen, kept;
};

void pairs_init(struct pairs_filter *filter);

/* Adds a probe of one direction, in order of arrival. */
enum pairs_result pairs_add(struct pairs_filter *filter, enum clock_side side,
			    const struct clock_probe *probe);

/* Once a round: tolerance and noise from the recent pairs. */
void pairs_adapt(struct pairs_filter *filter);

#endif

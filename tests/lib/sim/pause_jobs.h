/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collectives over leaves and spines, one after another: a ring all-reduce whose neighbours are all
 * on other leaves, an all-to-all, bursts to one host. How long each takes.
 */
#ifndef ESC_TESTS_SIM_PAUSE_JOBS_H
#define ESC_TESTS_SIM_PAUSE_JOBS_H

#include "tests/lib/sim/pause_net.h"

enum pause_pattern { PAUSE_RING, PAUSE_ALL_TO_ALL, PAUSE_BURSTS };

struct pause_jobs {
	const char *name;
	enum pause_pattern pattern;
	unsigned hosts, leaves, spines;
	double bps;    /* of every link */
	double rtt_ns; /* without a queue */
	double threshold_ns, buffer_ns;
	unsigned chunk;	 /* packets of a message */
	unsigned rounds; /* collectives */
	double rest_ns;	 /* between two of them */
	double timeout_ns;
	uint64_t ahead, ahead_less; /* 0: 2 */
	unsigned sample_every;
	double noise_ns;
	bool off;
	bool placed; /* flows are spread over the spines, as steering ends; else at random, as ECMP
			does */
};

struct pause_job_figures {
	double p50_ns, p99_ns, least_ns, most_ns;
	double ideal_ns; /* what the busiest link needs for its bytes */
	uint64_t packets, dropped, again, timeouts;
	unsigned done;
};

void pause_jobs_run(const struct pause_jobs *jobs, uint64_t seed,
		    struct pause_job_figures *figures);

#endif

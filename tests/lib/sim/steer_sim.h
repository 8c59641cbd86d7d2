/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts that steer by pacing/contend, over the packets of steer_net: each sees the delays of
 * its own paths (sampled, noisy, by clocks that disagree, perhaps late) and its own queue
 * pairs, and nothing else.
 */
#ifndef ESC_TESTS_SIM_STEER_SIM_H
#define ESC_TESTS_SIM_STEER_SIM_H

#include "pacing/contend.h"
#include "tests/lib/sim/steer_best.h"
#include "tests/lib/sim/steer_net.h"

#define STEER_BIN_NS 10000000ll
#define STEER_BINS_MAX 1000
#define STEER_SPINES_MAX 16
#define STEER_LATE_MAX 8
#define STEER_JOBS_MAX 4
#define STEER_PROBES 4
#define STEER_ROUNDS_MAX 64

enum steer_policy { STEER_ECMP, STEER_OURS, STEER_BEST };

enum steer_pattern {
	STEER_STREAM, /* for ever */
	STEER_RING,   /* step n + 1 when step n was sent and the neighbour's came */
	STEER_TO_ALL, /* all to all, next round when all of it came and after a pause */
};

struct steer_job {
	enum steer_pattern pattern;
	double start_s;
	uint64_t chunk_bytes;
	int64_t pause_ns; /* computing between rounds */
	uint64_t steps;	  /* of a round of a ring; 0: it has no rounds */
	/* Made by the run. */
	size_t first, count; /* its queue pairs */
	uint64_t rounds;
	size_t done; /* of this round */
	int64_t began_ns, took_ns[STEER_ROUNDS_MAX];
};

struct steer_config {
	struct net_shape shape;
	enum steer_policy policy;
	uint64_t seed;
	double seconds, onset_s; /* figures count from the onset */
	int64_t tick_ns;
	unsigned samples; /* a tick */
	double noise_ns;  /* of a sample */
	double clock_ns;  /* the clock's bound; its error wanders within */
	unsigned late;	  /* ticks by which what is seen is late */
	/* Not 0: a probe of each path so often, and what is seen is the median of the last few. */
	int64_t probe_ns;
	struct contend_config contend;
	struct steer_job jobs[STEER_JOBS_MAX];
	size_t job_count;
};

/* A path as its owner sees it, tick by tick. */
struct steer_sight {
	double delay_ns, worst_ns;
	int64_t measured_ns;
};

struct steer_probes {
	struct steer_sight recent[STEER_PROBES], coming;
	int64_t coming_ns, next_ns; /* when what is under way is known; 0: nothing is */
	unsigned count;
};

struct steer_pair {
	unsigned from, to;
	struct contend contend;
	struct contend_path paths[STEER_SPINES_MAX];
	struct steer_sight sights[STEER_LATE_MAX + 1][STEER_SPINES_MAX];
	double sum_ns[STEER_SPINES_MAX], worst_ns[STEER_SPINES_MAX];
	unsigned sampled, ticks;
	struct steer_probes probes[STEER_SPINES_MAX];
	double clock_phase;
	struct contend_qp *qps;
	uint32_t *names; /* of the net's queue pairs */
	uint64_t *seen_bytes;
	size_t qp_count;
};

struct steer_figures {
	double late_bps;	/* total from 0.5 s after the onset to the end */
	double half_second_bps; /* in the first half second */
	double settled_s; /* from the onset until 95% of the best permanently; set by the caller */
	double queue_ns;  /* mean of the fabric's queues on paths in use, last half second */
	double queue_worst_ns;	    /* of the worst queue pair */
	uint64_t moves, late_moves; /* all; from 1.5 s after the onset */
	uint64_t helped, useless, back;
	uint64_t qps_moved;
	uint64_t overtaken;
	double moves_most; /* of one queue pair */
	uint64_t rounds[STEER_JOBS_MAX];
	double crowded_s; /* when two that could be on paths of their own last shared one */
};

struct steer {
	struct steer_config config;
	struct net net;
	struct rng rng;
	struct steer_pair *pairs;
	size_t pair_count;
	struct contend_budget *budgets; /* by host */
	uint64_t *randoms;
	double bins[STEER_BINS_MAX];
	double *queue_ns; /* by queue pair, sums of the last half second */
	unsigned *queue_count;
	struct steer_figures figures;
	int trace;
};

void steer_config_default(struct steer_config *config, uint64_t seed);
/* @count queue pairs as @flows has them, flow f of job @jobs[f]; NULL: all of job 0. */
int steer_init(struct steer *steer, const struct steer_config *config,
	       const struct best_flow *flows, size_t count, const unsigned *jobs,
	       uint64_t window_bytes, uint64_t message_bytes, const unsigned *spines);
void steer_run(struct steer *steer);
void steer_free(struct steer *steer);
/* First time after the onset from which on every 100 ms carry @bps or more; INFINITY: never. */
double steer_settled_s(const struct steer *steer, double bps);

#endif

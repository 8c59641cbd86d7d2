/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of consensus: what the neighbours say of our clock this round, and who agrees with whom.
 */
#ifndef ESC_CLOCKSYNC_REPORTS_H
#define ESC_CLOCKSYNC_REPORTS_H

#include "clocksync/consensus.h"

/* The gate, in deviations of a good neighbour's word or of what its fit says of itself: 6e-7 of the
 * honest. */
#define GATE_SCALES 5.0
#define SCALE_MIN_NS 3.0
#define SCALE_MIN_PPB 3.0
#define SURPRISE_START_NS 200.0
/* What is added to an edge's own variance, so that no edge is taken for exact. */
#define SIGMA_LEAST_NS 0.2

/* A neighbour's word, as differences from our own line (or from the first's). */
struct report {
	size_t slot;
	double offset, drift, sigma, drift_sigma, weight, drift_weight, reach, age_s;
	bool in, flagged, one_side;
	bool unsure; /* votes, and moves nothing */
};

struct reports {
	struct report at[CONSENSUS_PEERS_MAX];
	size_t count;
	struct clock_line base; /* offsets and drifts are against it */
};

/* Fills @words from the neighbours that are heard, fitted and have a time. */
void reports_gather(struct consensus *consensus, int64_t now_ns,
		    const struct consensus_input *input, size_t count, struct reports *reports);

/* Is the word within the gate around @centre? 0 is our own line, which may have run off a little.
 */
bool report_agrees(const struct consensus *consensus, const struct report *report, double centre);
unsigned reports_support(const struct consensus *consensus, const struct reports *reports,
			 double centre);
unsigned reports_quorum(const struct reports *reports);
const struct report *reports_most_supported(const struct consensus *consensus,
					    const struct reports *reports, const double *apart,
					    unsigned *votes);
/* Median reach that the words around @centre claim. */
double reports_reach(const struct consensus *consensus, const struct reports *reports,
		     double centre);
/* Sorts @v. */
double reports_median(double *v, size_t count);

/* learn.c: what a round teaches, once its offset and drift are known. */
void consensus_learn(struct consensus *consensus, const struct reports *reports, int64_t now_ns,
		     double offset, bool fresh);
void consensus_learn_reach(struct consensus *consensus, const struct reports *reports);

#endif

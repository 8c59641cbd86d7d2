/* SPDX-License-Identifier: BSD-2-Clause */
/* Internal to consensus: the neighbours' estimates of our clock in a round, and their agreement. */
#ifndef ESC_CLOCKSYNC_REPORTS_H
#define ESC_CLOCKSYNC_REPORTS_H

#include "clocksync/consensus.h"

/* The gate, in deviations of a good report or of its fit: excludes 6e-7 of the correct ones. */
#define GATE_SCALES 5.0
#define SCALE_MIN_NS 3.0
#define SCALE_MIN_PPB 3.0
#define PREDICTION_ERROR_START_NS 200.0
/* Added to an edge's own variance, so that no edge counts as exact. */
#define SIGMA_LEAST_NS 0.2

/* A neighbour's report, relative to reports.base. */
struct report {
	size_t slot;
	double offset, drift, sigma, drift_sigma, weight, drift_weight, reach, age_s, late_error;
	bool in, flagged, one_side;
	bool unsure; /* votes, without weight */
};

struct reports {
	struct report at[CONSENSUS_PEERS_MAX];
	size_t count;
	struct clock_line base; /* our own line, or the first report's if there is none */
};

/* Fills @reports from the neighbours with a recent fit and view. */
void reports_gather(struct consensus *consensus, int64_t now_ns,
		    const struct consensus_input *input, size_t count, struct reports *reports);

/* Whether the report is within the gate around @centre; 0: our own line, whose gate is wider. */
bool report_agrees(const struct consensus *consensus, const struct report *report, double centre);
/* Reports that agree with @centre and not with *@apart as well; @apart may be NULL. */
unsigned reports_support(const struct consensus *consensus, const struct reports *reports,
			 double centre, const double *apart);
unsigned reports_quorum(const struct reports *reports);
/* The report outside the gate around *@apart that has most support of such; NULL: anywhere. */
const struct report *reports_most_supported(const struct consensus *consensus,
					    const struct reports *reports, const double *apart,
					    unsigned *votes);
/* Median reach of the reports around @centre. */
double reports_reach(const struct consensus *consensus, const struct reports *reports,
		     double centre);
/* Sorts @v. */
double reports_median(double *v, size_t count);

/* learn.c: adaptation after a round, once its offset and drift are known. */
void consensus_learn(struct consensus *consensus, const struct reports *reports, int64_t now_ns,
		     double offset, bool fresh);
void consensus_learn_reach(struct consensus *consensus, const struct reports *reports);

#endif

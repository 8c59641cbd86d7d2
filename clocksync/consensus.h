/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Agreement on one time without a server: each host moves its clock line to the
 * weighted mean of its neighbours' estimates (their lines, through the edges to them),
 * a step of an asynchronous relaxation towards the least-squares potentials of the
 * whole graph. A gate around the current value excludes falsetickers.
 *
 * Reconnected partitions: each host averages the part of its neighbours that it is synced
 * with and their reports of the same ("reach": the part of the members with this time). A
 * partition with the majority of the members ignores others; a smaller one moves to a group
 * of neighbours with more; of two halves the one behind moves forward.
 */
#ifndef ESC_CLOCKSYNC_CONSENSUS_H
#define ESC_CLOCKSYNC_CONSENSUS_H

#include <stddef.h>

#include "clocksync/edge.h"
#include "clocksync/holdover.h"
#include "clocksync/line.h"
#include "clocksync/model.h"

#define CONSENSUS_PEERS_MAX 32
#define CONSENSUS_PAST 4 /* rounds after which a prediction is evaluated: one second */

/* Input of a round, per neighbour. */
struct consensus_input {
	const struct edge_estimate *edge; /* NULL or not valid: no fit */
	const struct clock_view *view;	  /* NULL: none received */
	int64_t view_age_ns;		  /* since it was received */
};

enum consensus_status {
	CONSENSUS_ABSENT = 0, /* no fit, no view, or a stale one */
	CONSENSUS_USED,
	CONSENSUS_REFUSED_OFFSET, /* outside the gate */
	CONSENSUS_REFUSED_DRIFT,
	CONSENSUS_UNSURE, /* agrees, with a larger error than our own line's: has no weight */
};

/* State per neighbour; zeroed by consensus_peer_init(). */
struct consensus_peer {
	enum consensus_status status;
	double offset_ns; /* its estimate of our clock's error, last round */
	double drift_ppb;
	double late_ns;		  /* the edge's lateness when corrected last */
	double correct_ns;	  /* of its offset, held while its packets are late */
	double unexplained_ns;	  /* by the change of lateness that it was corrected for */
	int64_t refused_since_ns; /* local; 0: not refused */
	int64_t apart_since_ns; /* see hostclock_round(); local; 0: its time is within the bounds */
	uint64_t rounds_used, rounds_refused;
};

struct consensus {
	struct clock_line line;
	bool has_line;
	bool restarted;	   /* line is that of before; see consensus_restart() */
	bool settled;	   /* the gate is around our own value */
	unsigned settling; /* rounds of agreement so far */
	unsigned yielding; /* rounds in which another group had a larger reach */
	unsigned degree;   /* neighbours by the graph, reachable or not */
	int64_t first_round_ns, last_used_ns, last_whole_ns;
	int64_t last_agreed_ns; /* most neighbours agreed, some of them unsure */
	double scale_ns;	/* deviation of a good neighbour's estimate */
	double scale_ppb;
	double reach;		    /* 0..1 */
	double residual_ns;	    /* of the accepted, decaying peak */
	double prediction_error_ns; /* over CONSENSUS_PAST rounds, decaying peak */
	double step_error_ns;	    /* over one round, decaying peak */
	double lag_s;		    /* mean age of the fits used */
	double formal_ns;	    /* standard error by the edges' own estimates */
	double formal_ppb;
	double most_sigma_ns; /* standard error of the mean of most neighbours */
	double late_ns;	      /* error of the corrections for late packets, decaying peak */
	double flagged;	      /* part of the used fits that had too few clean packets */
	double flagged_peak;  /* the same, decaying peak: bursts fill the host's link */
	double sigma_ns;      /* median standard error of the used fits */
	/* Error of the floors, where one-sided fits connect us to the fleet; 0: others do. */
	double one_side_ns;
	unsigned used, reports, unsure;
	double growth_ns; /* possible error of our own line since it last followed a neighbour */
	struct clock_line past[CONSENSUS_PAST];
	int64_t past_ns[CONSENSUS_PAST];
	unsigned past_next;
	struct holdover holdover;
	uint64_t generation;
	uint64_t moves; /* number of moves to another group */
	struct consensus_peer peers[CONSENSUS_PEERS_MAX];
};

enum consensus_result {
	CONSENSUS_NOTHING = 0, /* no usable neighbour: the line continues at the holdover rate */
	CONSENSUS_STEPPED,     /* moved to the neighbours' mean */
	CONSENSUS_JOINED,      /* first line */
	CONSENSUS_MOVED,       /* moved to another group: readers slew */
};

void consensus_init(struct consensus *consensus, unsigned degree, int64_t now_ns);

/* A neighbour's slot is reassigned to another host. */
void consensus_peer_init(struct consensus *consensus, size_t slot);

/*
 * After the line's error became too large: there is none until a neighbour with a fabric time is
 * joined, or it is bootstrapped again, which continues the line of before.
 */
void consensus_restart(struct consensus *consensus, int64_t now_ns);

/*
 * Bootstraps a fabric time: the local clock. The caller does this for
 * the first member of the list, or after a wait that grows with the rank
 * (consensus_bootstrap_wait), when no synced neighbour is reachable.
 */
void consensus_bootstrap(struct consensus *consensus, int64_t now_ns);
int64_t consensus_bootstrap_wait(size_t rank);

/* One round at local time @now_ns over @count neighbours (slots as in peers[]). */
enum consensus_result consensus_round(struct consensus *consensus, int64_t now_ns,
				      const struct consensus_input *input, size_t count);

/* The drift of a neighbour against us as both lines have it, for the next fit. */
struct edge_prior consensus_prior(const struct consensus *consensus, const struct clock_view *view);

#endif

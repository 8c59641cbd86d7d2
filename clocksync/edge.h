/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of an edge of the probe graph: probes in, offset and drift out. For each 1/32 of
 * the window and each direction only the 8 points next to the line are kept, so that the
 * cost of a fit does not depend on the probe rate.
 */
#ifndef ESC_CLOCKSYNC_EDGE_H
#define ESC_CLOCKSYNC_EDGE_H

#include "clocksync/edgefit.h"
#include "clocksync/line.h"
#include "clocksync/ns.h"
#include "clocksync/pairs.h"

#define EDGE_BUCKETS 32
#define EDGE_KEEP 8
#define EDGE_POINTS (EDGE_BUCKETS * EDGE_KEEP)
/* Up to the 2^EDGE_TAIL-th lowest delay. */
#define EDGE_TAIL 5
/* Consecutive fits that disagree with the known floor before the path counts as changed. */
#define EDGE_PATH_ROUNDS 4
/* A delay that began counts as the path's own after so many intervals of this length. */
#define EDGE_LEASTS 4
#define EDGE_LEAST_NS 15000000000LL
/* Fits at a round each over more than a window, in which a peer's clock may change its rate. */
#define EDGE_LASTING 10

struct edge_point {
	int64_t x_ns;	  /* local time */
	int64_t y_ns;	  /* remote minus local */
	double height_ns; /* above the slope of that time; less is nearer to the line */
};

struct edge_cell {
	struct edge_point points[EDGE_KEEP];
	uint8_t count;
	uint8_t highest; /* index of the point to replace in a full cell */
};

struct edge_bucket {
	int64_t index; /* local time / bucket; -1: empty */
	struct edge_cell all[2];
	struct edge_cell kept[2]; /* of pairs that kept their spacing */
	uint32_t pairs_kept[2];
	uint32_t seen[2];
};

/* Result of the last fit; shown by `escapement clock`. */
struct edge_estimate {
	bool valid;
	bool flagged;	  /* too few clean packets: little weight */
	bool one_side;	  /* standing queue in one direction: offset from the other and the floor */
	bool used_pairs;  /* false: too few pairs kept, all points were used */
	int64_t local_ns; /* of the offset: the middle of the support points */
	int64_t offset_ns; /* remote minus local there: this and the fraction */
	double offset_fraction_ns;
	double drift_ppb;	/* of the remote clock against ours */
	double floor_ns;	/* half the width: the one-way delay of an empty path */
	double residual_ns;	/* spread of the support points */
	double offset_sigma_ns; /* standard error of the offset at local_ns */
	double drift_sigma_ppb;
	double window_s;
	double noise_ns; /* of one timestamp */
	double late_ns;	 /* half the width over the path's least of a minute, 0 below the gap: the
			    offset may be off by as much, either way */
	uint32_t points[2]; /* seen in the window, forward and backward */
	uint32_t pairs_kept, pairs_seen;
	uint32_t averaged;   /* so many of the lowest delays of a direction; 0: clean packets */
	uint32_t support[2]; /* support points per side */
};

struct edge {
	int64_t bucket_ns;
	struct edge_bucket buckets[EDGE_BUCKETS];
	struct pairs_filter pairs;
	struct edge_point first[2]; /* first point of the current pair */
	int64_t received_ns[2];	    /* newest probe of each direction */
	struct edge_estimate estimate;
	double slope_ppb; /* of the last fit: reference of height_ns */
	double noise_ns;  /* deviation of one timestamp, from the pairs or the clouds' edges */
	bool noise_known;
	/* Where no packet is clean. */
	struct {
		size_t k; /* so many of the lowest are averaged; 0: not so, or not known yet */
		double log_rises[EDGE_TAIL]; /* edge_trial_tail(), mean of logarithms */
		unsigned rounds;	     /* that they are of */
		unsigned clean;		     /* fits in a row with clean packets */
	} tail;
	double floor_ns; /* of the path, from unflagged fits */
	bool floor_known;
	unsigned floor_misses;
	/* Of the last fits, for more than a window: the largest of them lasts. */
	double floors_ns[EDGE_LASTING];
	unsigned floors;
	double leasts_ns[EDGE_LEASTS]; /* the least that lasted, of each of the last intervals */
	int64_t least_index;
	double floor_least_ns; /* the least of these */
	double wander_ppb;     /* rms change of the drift in a second */
	struct {
		int64_t local_ns;
		double drift_ppb;
		double sigma_ppb;
	} past[4];
	unsigned past_next;
	unsigned halvings; /* the window in use is window / 2^n */
	bool shorter;	   /* the alternative tried last was the shorter window */
	size_t first_k;	   /* where the search for k begins */
	struct {
		bool known;
		struct clock_line line;
		double usual_ppb; /* changes of its rate from view to view */
		/* The points are converted for a change of its clock that they do not show yet. */
		bool unproven;
		int64_t from_ns; /* of its clock */
		double ppb;
	} peer; /* see slew_peer() */
};

/* Scratch space of a fit; one for all edges of a host. */
struct edge_scratch {
	double x[2][EDGE_POINTS];
	double y[2][EDGE_POINTS];
	double residuals[2 * EDGE_POINTS];
};

void edge_init(struct edge *edge, int64_t window_ns);

/*
 * Adds one passage of a probe at local time @now_ns. One whose local time is not within the
 * window before @now_ns is ignored: it is late, or the peer's timestamps are wrong.
 */
void edge_add(struct edge *edge, enum clock_side side, const struct clock_probe *probe,
	      int64_t now_ns);

/* The edge's drift by both clock models, if known: limits the slope to within span_ppb of it. */
struct edge_prior {
	bool known;
	double drift_ppb;
	double span_ppb;
};

/*
 * Fits at local time @now_ns; the result is edge->estimate. -ENODATA, and the estimate is not
 * valid, when a direction has fewer than two points, spans less than 100 ms, or received
 * nothing recently (a window that only loses points becomes arbitrary).
 */
int edge_fit(struct edge *edge, int64_t now_ns, const struct edge_prior *prior,
	     struct edge_scratch *scratch);

/*
 * The edge's pair interval: @base_ns, down to a quarter while its fits are flagged, up to five
 * times while they have far more points than needed.
 */
int64_t edge_pair_interval(const struct edge *edge, int64_t base_ns);

/*
 * What the intervals of a host's edges are multiplied by: edges may want more pairs than the mean
 * where others want fewer, never all of them: probes that cause the load they suffer from would
 * call for more probes. @pairs: the sum of mean / interval of all edges; @budget: how many edges at
 * the mean are allowed, 0: any.
 */
double edge_stretch(double pairs, double budget);

#endif

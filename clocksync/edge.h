/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One edge of the probe graph as one end sees it: its probes in, its offset and
 * drift out. Of each 1/32 of the window and each direction only the 8 points
 * next to the line are kept, so that a fit's cost does not depend on how often
 * the edge is probed.
 */
#ifndef ESC_CLOCKSYNC_EDGE_H
#define ESC_CLOCKSYNC_EDGE_H

#include "clocksync/edgefit.h"
#include "clocksync/ns.h"
#include "clocksync/pairs.h"

#define EDGE_BUCKETS 32
#define EDGE_KEEP 8
#define EDGE_POINTS (EDGE_BUCKETS * EDGE_KEEP)
/* Fits that disagree with the floor known before the path is taken for changed. */
#define EDGE_PATH_ROUNDS 4

struct edge_point {
	int64_t x_ns;	  /* local time */
	int64_t y_ns;	  /* remote minus local */
	double height_ns; /* above the slope of that time; less is nearer to the line */
};

struct edge_cell {
	struct edge_point points[EDGE_KEEP];
	uint8_t count;
	uint8_t highest; /* which of a full cell goes next */
};

struct edge_bucket {
	int64_t index; /* local time / bucket; -1: empty */
	struct edge_cell all[2];
	struct edge_cell kept[2]; /* of pairs that kept their spacing */
	uint32_t pairs_kept[2];
	uint32_t seen[2];
};

/* What the last fit found; also what the command line shows of a peer. */
struct edge_estimate {
	bool valid;
	bool flagged;	   /* too few clean packets: little weight */
	bool one_side;	   /* a queue stands on the other: the offset is by the known floor */
	bool used_pairs;   /* false: gave way to all points */
	int64_t local_ns;  /* of the offset: the middle of the points that hold the line */
	int64_t offset_ns; /* remote minus local there: this and the fraction */
	double offset_fraction_ns;
	double drift_ppb;	/* of the remote clock against ours */
	double floor_ns;	/* half the width: the one-way delay of an empty path */
	double residual_ns;	/* spread of the points that hold the line */
	double offset_sigma_ns; /* standard error of the offset at local_ns */
	double drift_sigma_ppb;
	double window_s;
	double noise_ns;    /* of one timestamp */
	uint32_t points[2]; /* seen in the window, forward and backward */
	uint32_t pairs_kept, pairs_seen;
	uint32_t support[2]; /* points that hold the line, a side */
};

struct edge {
	int64_t bucket_ns;
	struct edge_bucket buckets[EDGE_BUCKETS];
	struct pairs_filter pairs;
	struct edge_point first[2]; /* the pair's other half, until it is judged */
	int64_t heard_ns[2];	    /* when the last of each direction came */
	struct edge_estimate estimate;
	double slope_ppb; /* of the last fit, to compare heights by */
	double noise_ns;  /* deviation of one timestamp: by the pairs, or the clouds' edges */
	bool noise_known;
	double floor_ns; /* of the path as good fits showed it */
	bool floor_known;
	unsigned floor_misses;
	double wander_ppb; /* how far the drift moves in a second, rms */
	struct {
		int64_t local_ns;
		double drift_ppb;
		double sigma_ppb;
	} past[4];
	unsigned past_next;
	unsigned halvings; /* the window in use is window / 2^n */
	bool shorter;	   /* which other was tried last */
	size_t first_k;	   /* where the search for k begins */
};

/* Room for a fit; one for all edges of a host. */
struct edge_scratch {
	double x[2][EDGE_POINTS];
	double y[2][EDGE_POINTS];
	double residuals[2 * EDGE_POINTS];
};

void edge_init(struct edge *edge, int64_t window_ns);

/*
 * Takes one passage of a probe at local time @now_ns. One whose local time is
 * not within the window before now is left out: it came late, or its peer lies.
 */
void edge_add(struct edge *edge, enum clock_side side, const struct clock_probe *probe,
	      int64_t now_ns);

/*
 * What the two clock models say of this edge's drift, where they are known:
 * the fit's slope is looked for within @span_ppb of it.
 */
struct edge_prior {
	bool known;
	double drift_ppb;
	double span_ppb;
};

/*
 * The fit at local time @now_ns. -ENODATA when a direction has fewer than two
 * points or they span less than 100 ms, or none came lately: a window that only thins
 * out says less and less, and at last what chance left in it. edge->estimate is then
 * not valid.
 */
int edge_fit(struct edge *edge, int64_t now_ns, const struct edge_prior *prior,
	     struct edge_scratch *scratch);

/*
 * The pair interval this edge wants: @base_ns, less (to a quarter) while its fits are
 * flagged, more (to five times) while they have far more points than they need.
 */
int64_t edge_pair_interval(const struct edge *edge, int64_t base_ns);

#endif

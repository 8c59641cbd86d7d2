/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the verdicts, for each other: memory of queue pairs, the scene of a look, the
 * finders. */
#ifndef ESC_LOADER_VERDICT_PARTS_H
#define ESC_LOADER_VERDICT_PARTS_H

#include "verdict.h"
#include "verdict_book.h"
#include "verdict_law.h"

/* --- memory of one queue pair (verdict_track.c) --- */

struct track_counts {
	uint64_t packets, retransmits, nak_sequence, rnr_naks;
};

struct track {
	struct esc_qp_key key;
	uint64_t looked_ns; /* of the look before */
	struct track_counts before;
	struct track_counts grown[LAW_HISTORY]; /* in each of the last looks */
	struct track_counts sum;		/* of these */
	unsigned int looks;			/* that there have been */
	unsigned int losing;			/* of the last ones: those with a loss */
	uint64_t bytes;
	double bytes_per_second; /* over the last looks, smoothed */

	/*
	 * The floor, and the least of the medians: of the half under way and of
	 * the one before.
	 */
	bool floor_known;
	int64_t floor_ns, floor_half_ns[2];
	int64_t usual_ns, usual_half_ns[2];
	uint64_t floor_turn_ns;

	/* Of the newest look. */
	bool measured; /* there are samples enough */
	bool slow;
	int64_t excess_ns; /* median above the floor */

	/* Progress. */
	bool progress_known;
	uint32_t next_psn, answered_psn;
	uint64_t acks;
	uint64_t moved_ns; /* when an answer last took it on, or it had nothing to wait for */
	uint64_t moved_retransmits; /* retransmits then */
	bool settles;		    /* it was seen idle with all acknowledged */
	bool leaves_tail; /* it has waited long with no trouble: it does not ask for each ACK */
};

/* What a queue pair may be behind its floor and not be called slow. */
int64_t track_slow_ns(const struct track *track, const struct verdict_delay *delay);
void track_counts_add(struct track_counts *sum, const struct track_counts *more);
void track_begin(struct track *track, const struct verdict_qp *qp, uint64_t now_ns);
void track_look(struct track *track, const struct verdict_qp *qp, uint64_t now_ns);

/* --- memory of one pair of addresses (verdict_inband.c) --- */

struct pair_track {
	struct esc_address src, dst;
	uint64_t looked_ns;
	bool fine_known;
	double fine_bytes_per_second; /* the most that was carried with a good delay, of late */
	uint64_t fine_ns;
};
#define PAIR_TRACKS 4096

/* --- one look --- */

struct scene {
	const struct verdict_look *look;
	const struct track *tracks; /* of look->qps, one each */
	int64_t *scratch;	    /* room for 2 * qp_count */
	size_t *chosen, *loners;    /* room for qp_count each */
	struct pair_track *pairs;   /* hash of PAIR_TRACKS */
	const struct verdict_port *ports_before;
	size_t ports_before_count;
};

/* Queue pairs of one source and destination: look->qps[first .. end - 1]. */
struct pair {
	size_t first, end;
	size_t measured, slow;
	size_t ports, ports_slow; /* source ports of those that are measured */
	int64_t slow_least_ns;	  /* of the medians of those that are slow ... */
	int64_t fine_most_ns;	  /* ... and that are not */
	double bytes_per_second;
	struct track_counts sum;
	uint64_t samples, ce;
	size_t worst; /* the measured one with the largest excess; end: none */
};
/* The pair that begins at @first. */
void pair_of(const struct scene *scene, size_t first, struct pair *out);
struct verdict_subject subject_of_pair(const struct scene *scene, const struct pair *pair);
struct verdict_subject subject_of_qp(const struct verdict_qp *qp);
/* The mesh's word of an address; NULL: none. */
const struct verdict_peer *peer_of(const struct scene *scene, const struct esc_address *address);
/* "p50_ns" and so on of a queue pair, with its bound and its floor. */
void see_delay(struct verdict_evidence *evidence, const struct verdict_qp *qp,
	       const struct track *track);

/* --- finders: each look at all, findings into the book --- */

void verdict_find_outliers(const struct scene *scene, struct verdict_book *book);
void verdict_find_inband(const struct scene *scene, struct verdict_book *book);
void verdict_find_rocev1(const struct scene *scene, struct verdict_book *book);
void verdict_find_stalls(const struct scene *scene, struct verdict_book *book);
void verdict_find_causes(const struct scene *scene, struct verdict_book *book);

/* Sorts @values. The middle one, of an even number the lower of the two. */
int64_t verdict_median(int64_t *values, size_t count);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the pure part share: memory of queue pairs, a poll's scene, the finders. */
#ifndef ESC_DIAGNOSE_PARTS_H
#define ESC_DIAGNOSE_PARTS_H

#include "diagnosis.h"
#include "law.h"

/* --- track.c: memory of one queue pair --- */

struct track_counts {
	uint64_t packets, retransmits, nak_sequence, rnr_naks;
};

struct track {
	struct esc_qp_key key;
	uint64_t polled_ns; /* of the poll before */
	struct track_counts before;
	struct track_counts grown[LAW_HISTORY]; /* in each of the last polls */
	struct track_counts sum;		/* of these */
	unsigned int polls;			/* that there have been */
	unsigned int losing;			/* of the last ones: those with a loss */
	uint64_t bytes;
	double bytes_per_second; /* over the last polls, smoothed */

	/* The least delay, and the least median: of the half under way and of the one before. */
	bool floor_known;
	int64_t floor_ns, floor_half_ns[2];
	int64_t usual_ns, usual_half_ns[2];
	uint64_t half_ns; /* when the half under way began */

	/* Of the newest poll. */
	bool measured; /* there are samples enough */
	bool slow;
	int64_t excess_ns; /* median above the floor */

	/* Progress. */
	bool progress_known;
	uint32_t next_psn, answered_psn;
	uint64_t acks;
	uint64_t moved_ns; /* when a reply last took it on, or it had nothing to wait for */
	uint64_t moved_retransmits; /* retransmits then */
	bool settles;		    /* it was seen idle with all acknowledged */
	bool leaves_tail; /* it has waited long with no trouble: it does not request each ACK */
};

/* How far a queue pair may be above its floor and not be called slow. */
int64_t track_slow_ns(const struct track *track, const struct diag_delay *delay);
void track_counts_add(struct track_counts *sum, const struct track_counts *more);
/* @track is all zero at the first poll. */
void track_poll(struct track *track, const struct diag_qp *qp, uint64_t now_ns);

/* --- memory of one pair of addresses (inband.c) --- */

struct pair_track {
	struct esc_address src, dst;
	uint64_t polled_ns;
	bool fine_known;
	double fine_bytes_per_second; /* highest recent rate with a delay below the threshold */
	uint64_t fine_ns;
};
#define PAIR_TRACKS 4096

/* --- book.c: the list of diagnoses: when a finding is enough, when it is over, what is reported
 * --- */

enum book_state {
	BOOK_FREE,
	BOOK_CANDIDATE, /* found, not often enough */
	BOOK_ACTIVE,
	BOOK_REMEMBERED, /* over; when it comes again it stays longer */
};

struct book_entry {
	struct diag_active is;
	enum book_state state;
	unsigned int score;
	bool found;    /* in this poll */
	bool reported; /* its begin was an event */
	double reported_lead;
	unsigned int returns;
	uint64_t found_ns, reported_ns, over_ns;
};

struct book_kind {
	unsigned int tokens;
	uint64_t refilled_ns, more_ns;
	uint64_t left_out, total;
	size_t active;
};

struct book {
	struct book_entry entries[LAW_BOOK_MAX];
	size_t used; /* entries from here on are free */
	struct book_kind kinds[DIAG_KINDS];
	uint64_t now_ns;
	struct diag_event *events;
	size_t event_count, event_room;
};

/* What a finding weighs: found so in so many polls in a row it is a diagnosis. */
enum book_weight {
	BOOK_IN_ONE = 6,
	BOOK_IN_TWO = 3,
	BOOK_IN_THREE = 2,
	BOOK_IN_SIX = 1,
};

/* Before the finders. */
void book_open(struct book *book, uint64_t now_ns);
/* A finding of this poll. When one is found twice in a poll the first stands. */
void book_find(struct book *book, enum diag_kind kind, const struct diag_subject *subject,
	       enum book_weight weight, const struct diag_evidence *evidence);
/* The entry of an active one, NULL: none; so that it may be judged by a lower threshold. */
const struct book_entry *book_active(const struct book *book, enum diag_kind kind,
				     const struct diag_subject *subject);
/* Why a diagnosis is over: NULL, "idle" or "gone". */
typedef const char *book_why_fn(const struct diag_subject *subject, const void *context);
/* After the finders: what began, changed and ended is in book->events. 0 or -ENOMEM. */
int book_close(struct book *book, book_why_fn *why, const void *context);

/* --- one poll (diagnosis.c) --- */

struct scene {
	const struct diag_input *input;
	const struct track *tracks; /* of input->qps, one each */
	int64_t *scratch;	    /* room for 2 * qp_count */
	size_t *chosen, *loners;    /* room for qp_count each */
	size_t loner_count;	    /* queue pairs that are alone on their pair */
	struct pair_track *pairs;   /* hash of PAIR_TRACKS */
	const struct diag_port *ports_before;
	size_t ports_before_count;
	struct book *book;
};

/* Queue pairs of one source and destination: input->qps[first .. end - 1]. */
struct pair {
	struct diag_subject subject;
	size_t first, end;
	size_t measured, slow;
	size_t ports, ports_slow; /* source ports of those that are measured */
	int64_t slow_least_ns;	  /* of the medians of those that are slow ... */
	int64_t fine_most_ns;	  /* ... and that are not */
	int64_t floor_ns;	  /* the least of those that are measured, */
	int64_t bound_ns;	  /* and their largest */
	double bytes_per_second;
	struct track_counts sum;
	uint64_t samples, ce;
	size_t worst; /* the measured one with the largest excess; end: none */
	size_t best;  /* the one with the least median */
};

/* The port of that index; NULL: none. */
const struct diag_port *port_find(const struct diag_port *ports, size_t count, uint8_t index);
/* The mesh's report of an address; NULL: none. */
const struct diag_peer *peer_find(const struct scene *scene, const struct esc_address *address);
/* "p50_ns" and so on of queue pair @i, with its bound and its floor. */
void see_delay(struct diag_evidence *evidence, const struct scene *scene, size_t i);
/* Sorts @values. The middle one, of an even number the lower of the two. */
int64_t diag_median(int64_t *values, size_t count);

/* --- finders: into the book --- */

void find_stalls(const struct scene *scene);
void find_rocev1(const struct scene *scene);
/* Of a pair of which something is measured. The loners of all are found at the end. */
void find_outliers(struct scene *scene, const struct pair *pair);
void find_inband(const struct scene *scene, const struct pair *pair);
void find_causes(const struct scene *scene, const struct pair *pair);
void find_loners(const struct scene *scene);

#endif

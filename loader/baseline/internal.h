/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of baseline/ share. */
#ifndef ESC_BASELINE_INTERNAL_H
#define ESC_BASELINE_INTERNAL_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fields.h"
#include "baseline.h"
#include "core/core.h"
#include "maps/maps.h"

struct dataplane;
struct mesh;
struct paths;
struct qptable;

/* --- law.c: one series. Pure; times are CLOCK_REALTIME, in ns --- */

#define BASELINE_HOUR_NS 3600000000000ull
#define BASELINE_DAY_NS (24 * BASELINE_HOUR_NS)
#define BASELINE_BINS 10  /* in `after` */
#define BASELINE_MOST 9	  /* of them that have to lean to a change, or its end, */
#define BASELINE_FIRM 8	  /* and that have to show it */
#define BASELINE_SLOTS 24 /* hours of the day, UTC */
/* Bins that a slot has to have, and after which its older ones weigh 1/e: five days of an hour. */
#define BASELINE_SLOT_LEAST 10
#define BASELINE_SLOT_AGE 300
/*
 * A bin shows that a series is slower from this share of what the operator calls slower on, so that
 * noise does not hide what is slower by exactly that; it leans to it from two thirds of this on.
 */
#define BASELINE_MARGIN 0.75
#define BASELINE_SINGLE (2.0 / 3)
/* Up to this share of it, what shows is found for sure. */
#define BASELINE_SURE 0.8
/* Mean deviations of the bins that what is slower has to be beyond. */
#define BASELINE_SPREADS 5
#define BASELINE_ACCEPT_NS                                                                         \
	(7 * BASELINE_DAY_NS) /* what is slower for this long becomes the baseline */
#define BASELINE_FORGET_NS (30 * BASELINE_DAY_NS)
#define BASELINE_SILENT_BINS 60 /* without a value, before a finding ends */

enum baseline_kind {
	BASELINE_NIC_PAIR,   /* delay of the mesh's probes, out */
	BASELINE_PATH,	     /* of those on a candidate path, out */
	BASELINE_QP,	     /* of sampled packets of queue pairs, out */
	BASELINE_THROUGHPUT, /* of their messages, as they arrive */
	BASELINE_KINDS
};
const char *baseline_kind_name(enum baseline_kind kind);

/* Compared as bytes. */
struct baseline_key {
	char interface[IF_NAMESIZE]; /* ours */
	struct esc_address dst;
	uint16_t sport; /* of a NIC pair or a path; 0: of queue pairs */
	uint8_t kind;	/* enum baseline_kind */
	/* The pattern of queue pairs: the powers of two nearest to their mean message, and of how
	 * many send. */
	uint8_t size_class, flow_class;
	uint8_t response; /* they send responses to READ */
	uint8_t reserved[2];
};
_Static_assert(sizeof(struct baseline_key) == 40, "no hidden padding");

struct baseline_law {
	double slower;	   /* 0.1: 10% */
	uint64_t bin_ns;   /* a tenth of `after` */
	uint64_t learn_ns; /* since the first value, before it is compared */
};

/* A value of a bin: the least delay in ns, or the highest rate in bytes/s. */
struct baseline_bin {
	float value, bound; /* bound: of the clock, 0 of a rate */
	uint32_t number;    /* of the time, low half of now_ns / bin_ns */
	uint32_t hour;
};

struct baseline_slot {
	float center, spread; /* robust mean, and mean deviation from it, of the bins */
	uint32_t bins;	      /* BASELINE_SLOT_AGE at most */
};

struct baseline_series {
	struct baseline_key key;
	uint64_t first_ns, seen_ns; /* of values; 0: none yet */
	uint64_t slower_ns;	    /* it has been slower since; 0: it is not */
	float bound;		    /* mean of those of the bins that were learned */
	struct baseline_slot slots[BASELINE_SLOTS];
	/* What follows is not kept over a restart. */
	struct baseline_bin open; /* the newest bin, while values come */
	bool is_open;
	unsigned int first, count; /* of the ring */
	struct baseline_bin bins[BASELINE_BINS];
	/*
	 * As last compared: the reference, the least share that is slower than it, and the least
	 * that is, seen from the middle of this hour. need 0: it is not compared.
	 */
	float base, need, shows;
};

enum baseline_step {
	BASELINE_NOTHING,
	BASELINE_BEGINS,
	BASELINE_ENDS,
	BASELINE_GOES, /* nothing has been known of it for long */
	BASELINE_ACCEPTED,
};

/* A value of now. Bins that are over are closed first: what comes of them is returned. */
enum baseline_step baseline_take(struct baseline_series *series, const struct baseline_law *law,
				 uint64_t now_ns, double value, double bound);
/* The same without a value. */
enum baseline_step baseline_pass(struct baseline_series *series, const struct baseline_law *law,
				 uint64_t now_ns);
/* By how much the median of the ring is slower than the reference, 0.1: 10%; NAN: not known. */
double baseline_change(const struct baseline_series *series);
/* The median of the ring, and the largest bound in it; NAN: it is empty. */
double baseline_now(const struct baseline_series *series, double *bound);
/* Part of the fault that another series shows: more than half as slow as it would have to be. */
bool baseline_leans(const struct baseline_series *series);

enum baseline_state {
	BASELINE_LEARNING,
	BASELINE_IDLE, /* no values, or too few to compare */
	BASELINE_USUAL,
	BASELINE_SLOWER,
	BASELINE_VARIABLE, /* it varies so much that not each slowdown by `slower` shows */
	BASELINE_STATES
};
enum baseline_state baseline_state(const struct baseline_series *series,
				   const struct baseline_law *law, uint64_t now_ns);
const char *baseline_state_name(enum baseline_state state);

/* --- file.c: all series as bytes --- */

#define BASELINE_FILE_MAX (16 * 1024 * 1024)

/* malloc'd; NULL: no memory. */
void *baseline_encode(struct baseline_series *const *list, size_t count, uint64_t bin_ns,
		      size_t *bytes);
/* Calls @take for each. -EINVAL: not such a file, with a reason that continues "FILE: ". */
typedef void baseline_found_fn(void *context, const struct baseline_series *series);
int baseline_decode(const void *data, size_t bytes, uint64_t bin_ns, baseline_found_fn *found,
		    void *context, const char **reason);

/* --- book.c: all series, and what is slower: a destination, or a NIC of this host --- */

#define BASELINE_SERIES_MAX 4096
#define BASELINE_SUBJECTS_MAX 32
/* Of as many destinations of a NIC, this share is slower: it is the NIC. */
#define BASELINE_NIC_LEAST 3
#define BASELINE_NIC_SHARE 0.75

struct baseline_subject {
	bool own; /* the NIC @interface of this host, else address @dst by it */
	char interface[IF_NAMESIZE];
	struct esc_address dst;
	size_t slow, compared; /* series: of a destination; destinations: of an own NIC */
	const struct baseline_series *worst;
	uint64_t since_ns;
	bool seen; /* in this evaluation */
};

struct baseline_book {
	struct baseline_series **list; /* by key */
	size_t count, room;
	size_t left_out; /* series without a place, when values were read last */
	bool changed;	 /* subjects have to be found again */
	const char *why; /* what ended last, ended so */
	struct baseline_subject subjects[BASELINE_SUBJECTS_MAX];
	size_t subject_count;
	size_t subjects_left_out; /* by the newest evaluation */
};

/* Begins or ends one; of an end @reason is "usual", "nic" (it is in that of the NIC), "idle",
 * "accepted" or "forgotten". */
typedef void baseline_report_fn(void *context, const struct baseline_subject *subject,
				const char *reason);

void baseline_book_clear(struct baseline_book *book);
/* A copy, as from a file; one that is there already is left as it is. */
void baseline_book_add(struct baseline_book *book, const struct baseline_series *series);
void baseline_book_take(struct baseline_book *book, const struct baseline_law *law,
			const struct baseline_key *key, uint64_t now_ns, double value,
			double bound);
/* After all values of now: closes bins, forgets, and reports what began and ended. */
void baseline_book_evaluate(struct baseline_book *book, const struct baseline_law *law,
			    uint64_t now_ns, baseline_report_fn *begin, baseline_report_fn *end,
			    void *context);
/* Forgets those that @is_of says, and returns how many. */
typedef bool baseline_is_of_fn(const void *context, const struct baseline_series *series);
size_t baseline_book_forget(struct baseline_book *book, baseline_is_of_fn *is_of,
			    const void *context);

/* --- keys.c --- */

struct baseline_keys {
	bool on;
	double slower;
	uint64_t after_ns, learn_ns;
	char *file;
};
extern const struct config_section baseline_section;

/* --- baseline.c --- */

struct baselines {
	struct core *core;
	struct dataplane *dataplane;
	struct mesh *mesh;
	struct qptable *qps;
	struct paths *paths;
	struct baseline_book book;
	struct core_worker *worker;   /* writes the file */
	char *file;		      /* that is in use */
	int file_error;		      /* of the newest write; 0 or -errno */
	uint64_t gather_ns, write_ns; /* CLOCK_MONOTONIC: when next */
};
struct baseline_law baseline_law_of(const struct config *config);

/* --- gather.c --- */

/* All values of now. */
void baselines_gather(struct baselines *baselines, const struct baseline_law *law, uint64_t now_ns);

/* --- report.c --- */

#define BASELINE_EVENTS(X)                                                                         \
	X(BASELINE_SLOWDOWN, "slowdown", WARNING,                                                  \
	  "Delays or the throughput to a host, or of a NIC, have been worse than usual for "       \
	  "`baseline.after`.",                                                                     \
	  .about = EVENT_PEER, .begins = "slowdown",                                               \
	  .remedy = "`escapement baseline HOST` shows what is slower; see the links on the way "   \
		    "(`escapement links`, `escapement paths`) and what changed then.")             \
	X(BASELINE_SLOWDOWN_ENDED, "slowdown_ended", NOTICE,                                       \
	  "They are as usual again, or nothing is known of them any more.", .about = EVENT_PEER,   \
	  .ends = "slowdown")                                                                      \
	X(BASELINE_FILE_DISCARDED, "baseline_discarded", WARNING,                                  \
	  "The file of baselines cannot be used: they are learned again.",                         \
	  .remedy = "See the reason; the file is replaced.")
enum { BASELINE_EVENTS(EVENT_ENUM) };
extern const struct event_kind baseline_events[];
extern const struct metric baseline_metrics[];
extern const struct verb_handler baseline_verb_handlers[];

void baseline_report_begin(void *self, const struct baseline_subject *subject, const char *reason);
void baseline_report_end(void *self, const struct baseline_subject *subject, const char *reason);
void baseline_report_discarded(struct baselines *baselines, const char *reason);
void baseline_put_status(void *self, json_t *status);
void baseline_write_metrics(void *self, FILE *out);

#endif

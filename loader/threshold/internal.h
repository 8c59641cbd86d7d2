/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of threshold/ share. */
#ifndef ESC_THRESHOLD_INTERNAL_H
#define ESC_THRESHOLD_INTERNAL_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fields.h"
#include "core/core.h"
#include "maps/maps.h"
#include "threshold.h"

struct clock;
struct dataplane;
struct links;
struct mesh;
struct mesh_peer_facts;
struct paths;
struct qptable;

/* --- law.c: pure; times are CLOCK_MONOTONIC --- */

#define THRESHOLD_TICK_NS 1000000000ull
#define THRESHOLD_GAP_NS 3000000000ull /* between two readings: what was between is not known */

struct threshold_limits {
	double above, clear; /* exceeded by more than @above; over at @clear or below */
	uint64_t raise_after_ns, clear_after_ns;
};

/* True within @bound (0: exactly); @value NAN: there is none. */
struct threshold_reading {
	double value, bound;
};

struct threshold_state {
	bool raised;
	uint64_t since_ns; /* readings without a gap are for a change since then; 0: they are not */
	uint64_t last_ns;  /* of the newest reading with a value */
};

enum threshold_step { THRESHOLD_NOTHING, THRESHOLD_RAISE, THRESHOLD_CLEAR };
enum threshold_step threshold_evaluate(struct threshold_state *state,
				       const struct threshold_limits *limits,
				       const struct threshold_reading *reading, uint64_t now_ns);

/* Two counters over the last THRESHOLD_WINDOW_NS. All zero: empty. */
#define THRESHOLD_WINDOW_NS 10000000000ull
#define THRESHOLD_SLOTS 12
#define THRESHOLD_WHOLE_LEAST 100
struct threshold_window {
	unsigned int first, count;
	struct {
		uint64_t ns, part, whole;
	} list[THRESHOLD_SLOTS];
};
/*
 * Adds a reading, and returns what @part grew by as a share of what @whole did, 0 to 1; NAN: by
 * less than THRESHOLD_WHOLE_LEAST. Counters that go back begin again.
 */
double threshold_window_share(struct threshold_window *window, uint64_t now_ns, uint64_t part,
			      uint64_t whole);

/* The least value within the last hour, or since the first one. All zero: empty. */
#define THRESHOLD_FLOOR_SLOTS 6
#define THRESHOLD_FLOOR_SLOT_NS 600000000000ull
struct threshold_floor {
	uint64_t number[THRESHOLD_FLOOR_SLOTS]; /* of the slot's time, from 1; 0: empty */
	double least[THRESHOLD_FLOOR_SLOTS];
};
/* Adds @least (NAN: nothing) and returns the floor; NAN: none. */
double threshold_floor_add(struct threshold_floor *floor, uint64_t now_ns, double least);

/* --- book.c: thresholds, and the things that each is applied to --- */

#define THRESHOLD_SUBJECTS_MAX 16384 /* of all thresholds */
#define THRESHOLD_SUBJECT_BYTES 256
#define THRESHOLD_PART_BYTES 256

/* A thing with its value; texts are borrowed, NULL: there is none. */
struct threshold_sample {
	uint64_t id; /* of the thing; no other one of the quantity has it */
	double value, bound;
	double least;	      /* of the same time, for the floor; NAN: not known */
	uint64_t part, whole; /* of a share: counters instead of @value */
	bool counted;	      /* they are known */
	int plane;	      /* enum fleet_plane; -1: none */
	const char *rail, *job, *peer;
	const struct esc_qp_key *qp; /* for the event; NULL: none */
	const void *of;		     /* for threshold_name() */
};

struct threshold_subject {
	uint64_t id;
	bool seen;  /* in this evaluation */
	bool known; /* it had a value */
	struct threshold_state state;
	union {
		struct threshold_window window;
		struct threshold_floor floor;
	};
	/* While it is raised. */
	char *subject, *part;
	bool has_qp;
	struct esc_qp_key qp;
	uint64_t raised_ns;
};

struct threshold_rule {
	struct config_threshold is;	/* copied, texts included */
	struct threshold_subject *list; /* by id */
	size_t count, room, sorted;
	size_t known, exceeded; /* by the newest evaluation */
	uint64_t left_out;	/* things without a place, by the newest evaluation */
	uint64_t refused;	/* by the one under way */
};

struct thresholds {
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct mesh *mesh;
	struct qptable *qps;
	struct paths *paths;
	struct links *links;
	struct threshold_rule *rules;
	size_t count;
	size_t subjects;	       /* of all */
	uint64_t now_ns;	       /* of the evaluation under way */
	struct mesh_peer_facts *peers; /* read in it; NULL: not yet */
	size_t peer_count;
};

/* What is in force; those that have not changed keep their state. 0 or -ENOMEM: nothing changed. */
int thresholds_set(struct thresholds *thresholds, const struct config_alerts *alerts);
void thresholds_clear(struct thresholds *thresholds);
bool thresholds_use(const struct thresholds *thresholds, enum config_of of);
/* A thing of this evaluation. */
void thresholds_take(struct thresholds *thresholds, enum config_of of,
		     const struct threshold_sample *sample);
/* All of @of were taken: what was not is gone. */
void thresholds_taken(struct thresholds *thresholds, enum config_of of);

/* --- gather.c --- */

/* Takes all things of a quantity. 0, or -errno: they are not known now. */
int thresholds_gather(struct thresholds *thresholds, enum config_of of);
enum event_about threshold_about(enum config_of of);
const char *threshold_remedy(enum config_of of);
/* @part: what tells it from others of the same subject, "" nothing has to. */
void threshold_name(const struct thresholds *thresholds, enum config_of of,
		    const struct threshold_sample *sample, char subject[THRESHOLD_SUBJECT_BYTES],
		    char part[THRESHOLD_PART_BYTES]);

/* --- report.c --- */

#define THRESHOLD_EVENTS(X)                                                                        \
	X(THRESHOLD_EXCEEDED, "threshold_exceeded", WARNING,                                       \
	  "A value exceeds one of `alerts.thresholds`, whose severity it has.",                    \
	  .about = EVENT_HOST, .begins = "threshold_exceeded",                                     \
	  .remedy = "`escapement findings ID` shows the value and the limit.")                     \
	X(THRESHOLD_CLEARED, "threshold_cleared", NOTICE,                                          \
	  "A value does not exceed one of `alerts.thresholds` any more, is gone, or is not "       \
	  "compared with it any more.",                                                            \
	  .about = EVENT_HOST, .ends = "threshold_exceeded")
enum { THRESHOLD_EVENTS(EVENT_ENUM) };
extern const struct event_kind threshold_events[];
extern const struct metric threshold_metrics[];

/* @floor: NAN where the limit is not above one. */
void threshold_report_raised(const struct thresholds *thresholds, const struct threshold_rule *rule,
			     const struct threshold_subject *subject,
			     const struct threshold_reading *reading, double floor);
/* @reason: "below", "gone", "changed", "removed". @reading NULL: there is no value. */
void threshold_report_cleared(const struct thresholds *thresholds,
			      const struct threshold_rule *rule,
			      const struct threshold_subject *subject,
			      const struct threshold_reading *reading, const char *reason);
void threshold_put_status(void *self, json_t *status);
void threshold_write_metrics(void *self, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the rotation share. */
#ifndef ESC_ROTATION_INTERNAL_H
#define ESC_ROTATION_INTERNAL_H

#include "base/fields.h"
#include "core/core.h"
#include "fleet/fleet.h"
#include "probe/probe.h"
#include "rotation.h"

/* --- schedule.c: pure; the same on all hosts --- */

#define ROTATION_PROBES 12	     /* of a measurement, on as many source ports */
#define ROTATION_GAP_NS 100000000ull /* between two of them */
/* All of a slot are sent in its first 1.2 s; the rest is for replies. */
#define ROTATION_SLOT_NS 2000000000ull
#define ROTATION_PPS_LEAST 24 /* four measurements in a slot */

/* What the list of members and the budget make of it. */
struct rotation_plan {
	uint32_t pps;
	uint32_t most; /* measurements of a host in a slot; 0: the budget is too small for any */
	/* NICs of a rack: rounds in a slot, or, if that is 1, slots that a round is spread over. */
	uint32_t near_rounds, near_slots;
	uint32_t far_rounds; /* of racks, in a slot */
	uint32_t far_most;   /* measurements of a host for them, in a slot */
	uint32_t used_most;  /* and for addresses that queue pairs send to */
};
/*
 * @ports_max: NICs of a host. Half of the budget is for the NICs of the rack, a quarter for pairs
 * of racks, the rest for addresses in use.
 */
void rotation_plan_make(struct rotation_plan *plan, uint32_t pps, uint32_t ports_max,
			uint64_t hosts, uint64_t racks);

/*
 * Of NICs @i and @k of a rack: whether their measurement is in that slot of their round. It is
 * drawn, by the number of the cycle too: what is beyond the budget in one is not in the next.
 */
bool rotation_near_is_in(const struct rotation_plan *plan, uint64_t slot, uint64_t cycle,
			 uint32_t i, uint32_t k);
/* The first round of NICs in @slot. */
uint64_t rotation_near_round(const struct rotation_plan *plan, uint64_t slot);
/* Of racks: the host of rack @rack, of @hosts, that measures in @round; @racks: how many racks. */
uint32_t rotation_far_host(uint64_t round, uint32_t racks, uint32_t rack, uint32_t hosts);
/* Whether a rack of @hosts measures in @round: one that is small leaves some to the other end. */
bool rotation_far_is_in(const struct rotation_plan *plan, uint64_t round, uint32_t racks,
			uint32_t hosts);
/* A number that both ends make of a round and their racks, by which NICs are chosen. */
uint64_t rotation_far_draw(uint64_t round, uint32_t racks, uint32_t one, uint32_t other);
/* Seconds until all have met. */
double rotation_near_cycle_s(const struct rotation_plan *plan, uint32_t ports);
double rotation_far_cycle_s(const struct rotation_plan *plan, uint32_t racks);

/* --- rotation.c --- */

#define ROTATION_ACTIVE_MAX 1024
#define ROTATION_RESULTS 16384 /* newest measurements; a hash */
#define ROTATION_WAYS 8
#define ROTATION_OWN_MAX 64 /* addresses of ours */

enum rotation_kind { ROTATION_NEAR, ROTATION_FAR, ROTATION_USED, ROTATION_KINDS };

struct rotation_result {
	struct esc_path_key key;
	uint64_t at_ns; /* CLOCK_MONOTONIC; 0: unused */
	struct quantiles out, in;
	int64_t bound_ns;
	uint32_t sent, replied;
	uint16_t source_port;
};

/* A measurement under way. */
struct rotation_active {
	enum rotation_kind kind;
	struct esc_path_key key;
	struct pathsend_pair *sending;
	uint64_t newest_ns;
	uint32_t sent, replied;
	uint32_t sequence[ROTATION_PROBES];
	uint64_t sent_ns[ROTATION_PROBES];
	uint32_t replied_mask; /* of the probes */
	uint16_t sport[ROTATION_PROBES];
	int64_t out_ns[ROTATION_PROBES], in_ns[ROTATION_PROBES], bound_ns;
	size_t outs, ins;
};

/* Measurements between racks with some replies and some losses, on a plane. */
#define ROTATION_LOST_LEAST 3
struct rotation_lost {
	uint64_t at_ns[ROTATION_LOST_LEAST]; /* of the newest; 0: none */
	unsigned int next;
	uint64_t begun_ns; /* 0: it is no finding */
};

/* The NICs of the rack on a plane. */
struct rotation_rack {
	const struct member **ports;
	uint32_t count;
	uint32_t first, own; /* of these, our own */
};

struct rotation_tally {
	uint64_t cycle; /* that it is of */
	bool whole;	/* from its begin on */
	/* Measurements; by_path: left to candidate paths. */
	uint64_t asked, by_path, answered, silent;
};

struct rotation {
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct mesh *mesh;
	struct qptable *qps;
	struct paths *paths;
	struct pathsend *send;
	struct fleet_subscriber members;
	paths_record_fn *borrower; /* of the records; NULL: none, and this host measures */
	void *borrower_context;

	const char *note; /* why nothing is measured; NULL */
	struct rotation_plan plan;
	struct rotation_own own[ROTATION_OWN_MAX];
	size_t own_count;
	uint64_t own_due_ns;
	size_t self_rack, self_host;  /* indices of the members; SIZE_MAX: not there */
	struct rotation_rack rack[2]; /* by plane */

	uint64_t slot; /* of the active ones; 0: none */
	struct rotation_active *active;
	size_t active_count;
	uint16_t port_salt;
	uint64_t tick_ns;
	bool late;		      /* the daemon stood still before this tick */
	struct rotation_lost lost[2]; /* by plane */
	size_t used_next;	      /* address in use that is measured next */
	size_t used_count;

	struct rotation_result *results;
	struct rotation_tally now[ROTATION_KINDS], last[ROTATION_KINDS];
	uint64_t sent, failed, replied, measured, skipped;
};

/* NULL: none is kept. */
const struct rotation_result *rotation_find(const struct rotation *rotation,
					    const struct esc_path_key *key);
/* Whether @port of ours is on an interface of @plane where probes can be sent. */
bool rotation_can_probe(const struct rotation *rotation, enum fleet_plane plane,
			const struct member *port);
/* Measurements that a cycle of this host has; 0: not known. */
uint64_t rotation_pairs(const struct rotation *rotation, enum rotation_kind kind);
double rotation_cycle_s(const struct rotation *rotation, enum rotation_kind kind);

/* --- lost.c: links above the racks that lose all --- */

#define ROTATION_EVENTS(X)                                                                         \
	X(ROTATION_PATHS_LOST, "rotation_paths_lost", WARNING,                                     \
	  "Of the source ports of measurements in turn between racks some get no reply.",          \
	  .about = EVENT_FABRIC, .begins = "rotation_paths_lost",                                  \
	  .remedy = "See the switches above the racks and their links.")                           \
	X(ROTATION_PATHS_FOUND, "rotation_paths_found", NOTICE,                                    \
	  "All source ports have had replies for two minutes.", .about = EVENT_FABRIC,             \
	  .ends = "rotation_paths_lost")
enum { ROTATION_EVENTS(EVENT_ENUM) };
extern const struct event_kind rotation_events[];

/* A measurement that has ended. */
void rotation_lost_take(struct rotation *rotation, const struct rotation_active *active,
			uint64_t now_ns);
/* Ends what is over, or @all. */
void rotation_lost_check(struct rotation *rotation, bool all, uint64_t now_ns);
/* Pure: a measurement; true: with it paths are lost. */
bool rotation_lost_add(struct rotation_lost *lost, unsigned int sent, unsigned int replied,
		       uint64_t now_ns);
bool rotation_lost_is_over(const struct rotation_lost *lost, uint64_t now_ns);

/* --- report.c --- */

extern const struct verb_handler rotation_verb_handlers[];
extern const struct metric rotation_metrics[];
void rotation_put_status(void *self, json_t *status);
void rotation_write_metrics(void *self, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of steering by itself share; nobody else includes it. */
#ifndef ESC_LOADER_STEER_AUTO_PARTS_H
#define ESC_LOADER_STEER_AUTO_PARTS_H

#include "pacing/contend.h"
#include "paths/paths.h"
#include "internal.h"

#define STEER_AUTO_ACTS_MOST 8

/* A queue pair as it was at the last look; beside it a struct contend_qp of the same number. */
struct auto_qp {
	struct esc_qp_key key;
	uint64_t first_local_ns; /* another one is another queue pair */
	uint16_t own_sport;
	int home;   /* lane of its own port's path; -1: not known */
	bool there; /* in the newest reading of the table */
	uint64_t packets, bytes, messages;
	int64_t read_ns;    /* of these; 0: never */
	int64_t still_ns;   /* since when `packets` stays */
	int64_t message_ns; /* when `messages` last rose */
	int lane;	    /* that its packets were last known to take; -1: not known */
	size_t at;	    /* where in the list of orders it was */
};

/* All between two addresses. */
struct auto_pair {
	struct path_pair_facts facts;
	bool there;
	struct path_facts lanes[ESC_PATH_LANES_MAX]; /* by number; sport 0: none */
	uint8_t path[ESC_PATH_LANES_MAX];		  /* the lane that stands for its path */
	struct contend contend;
	struct contend_path paths[ESC_PATH_LANES_MAX];
	struct contend_qp *qps;
	struct auto_qp *who;
	size_t count, room;
	unsigned int skipped; /* looks, since there was nothing to see */
};

struct steer_auto {
	bool on;
	struct auto_pair **pairs; /* each stays where it is */
	size_t count, room;
	struct contend_budget budget;
	uint64_t random;
	uint64_t table_local_ns; /* of the reading of `qps` that the pairs' members are of */
	uint32_t turn;
	uint64_t acts[CONTEND_UNDONE + 1];
	uint64_t full_told_ns; /* that there is no room for an order */
};

/* --- steer_auto_pair.c: what the policy is shown --- */

struct auto_pair *auto_pair_new(const struct path_pair_facts *facts,
				const struct contend_config *config);
void auto_pair_free(struct auto_pair *pair);
/* How its lanes are now. */
void auto_pair_see_lanes(struct auto_pair *pair, const struct paths *paths);
/* Its queue pairs, as the table has them. 0 or -ENOMEM. */
int auto_pair_see_table(struct auto_pair *pair, const struct paths *paths,
			const struct qp_entry *entries, size_t count, uint64_t now_ns);
/* Counts of queue pair @q as just read: rate, gaps, messages. */
void auto_qp_see(struct auto_qp *who, struct contend_qp *qp, const struct esc_qp *read,
		 int64_t now_ns);
/* The number of the path that lane @lane's packets take now; UINT32_MAX: none known. */
uint32_t auto_pair_path_of(const struct auto_pair *pair, int lane);
/* The lane to order for a path; -1: none of it is usable. */
int auto_pair_lane_for(const struct auto_pair *pair, uint32_t path);
/* Nothing stands out, and nothing is ordered. */
bool auto_pair_is_calm(const struct auto_pair *pair);

/* --- steer_auto_act.c: what the policy wants --- */

void auto_carry_out(struct steer *steer, struct auto_pair *pair, const struct contend_act *act,
		    uint64_t now_ns);

/* Its order is not to be obeyed any more: as it stood. */
void auto_withdraw(struct steer *steer, const struct auto_pair *pair, struct steered *entry,
		   uint64_t now_ns);
/* Queue pair @q waits for a gap: one that was long enough when it was ordered may no longer be. */
void auto_follow_hold(struct steer *steer, const struct auto_pair *pair, size_t q,
		      struct steered *entry);

/* --- steer_auto_tell.c: events, the plan --- */

void auto_tell_act(struct steer *steer, const struct auto_pair *pair,
		   const struct contend_act *act);
void auto_tell_full(struct steer *steer, const struct esc_qp_key *key);
json_t *auto_show_pair(const struct auto_pair *pair, int64_t now_ns);

#endif

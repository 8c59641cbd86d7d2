/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering, by hand and by itself: which queue pair takes which path, from the order to what
 * came of it. Every 250 ms it gives the kernel programs the heartbeat without which they
 * steer nothing, and looks how the queue pairs that were moved do.
 */
#ifndef ESC_LOADER_STEER_H
#define ESC_LOADER_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "maps/maps.h"

struct config;
struct config_section;
struct daemon;
struct paths;
struct qp_entry;
struct steer;

enum steer_start { STEER_START_OFF, STEER_START_MANUAL, STEER_START_AUTO };
enum steer_overtake { STEER_OVERTAKE_NEVER, STEER_OVERTAKE_ONCE };

/* The section `steer` of the configuration. */
struct steer_keys {
	enum steer_start mode;	       /* of every interface, at the start */
	double capacity_bps;	       /* of a path; 0: the interface's speed */
	uint32_t moves_per_s;	       /* that automatic steering makes at most */
	enum steer_overtake overtake; /* of a queue pair without gaps */
};
extern const struct config_section steer_section;
const struct steer_keys *steer_keys(const struct config *config);

#define STEER_HOLD_DEFAULT_NS 1000000ull
#define STEER_WITHIN_DEFAULT_NS 500000000ull

/*
 * Takes over orders that are in force when the programs were steering until now (their
 * heartbeat is young) and the configuration allows it; else there are none.
 */
int steer_new(struct steer **out, struct daemon *daemon, char **error);
/* Orders stay in force until the heartbeat has been missed for 2 s. NULL is fine. */
void steer_free(struct steer *steer);

/* @old: the configuration before a reload. A mode that did not change there stays as it is. */
void steer_reconfigure(struct steer *steer, const struct config *old);

/*
 * Mode steer or observe on the interfaces named in @interfaces, an array of texts
 * (NULL or empty: all of them). Observe ends their orders at once.
 */
int steer_set_mode(struct steer *steer, bool on, const json_t *interfaces, const char *by,
		   char **error);
/* The kill switch: every order ends, and the mode with them. */
void steer_stop(struct steer *steer, const char *by);
/* Bit of each slot in `ports` that is in mode steer; 0 for NULL. */
uint16_t steer_ports(const struct steer *steer);

struct steer_order {
	const char *src; /* NULL: any; else, as dst, an address */
	const char *dst;
	uint32_t qpn;
	uint16_t sport; /* 0: as the queue pair has it */
	bool label;	/* IPv6: flow_label is wanted */
	uint32_t flow_label;
	uint64_t hold_ns;   /* a gap of so long is idle */
	uint64_t within_ns; /* how long to wait for one */
	bool now;	    /* wait for nothing */
};

/* -errno with *@error, a sentence with its remedy. The result says which queue pair it is. */
int steer_set(struct steer *steer, const struct steer_order *order, json_t **result, char **error);
/* Back to its own path; @order names it by src, dst and qpn, and how to wait. */
int steer_clear(struct steer *steer, const struct steer_order *order, json_t **result,
		char **error);
int steer_clear_all(struct steer *steer, bool now, json_t **result);

/* The answer to `steer`. */
json_t *steer_list(const struct steer *steer);

/* For `qp`: steered_sport and steered_flow_label of an entry that leaves with another path. */
void steer_put(const struct steer *steer, const struct qp_entry *entry, json_t *qp);

/*
 * By itself: on the interfaces in mode steer each queue pair to a peer with paths is watched, so
 * that it leaves a dead path at once (that is the kernel's), and moved where it is contended
 * (pacing/contend.h). On ends with mode steer; switching it on begins that on all interfaces when
 * none has it.
 */
int steer_set_auto(struct steer *steer, bool on, const char *by, char **error);
/* Once, when there are paths; NULL: there are none, and steering is by hand alone. */
void steer_follow_paths(struct steer *steer, struct paths *paths);
/* What would move where, and why not; nothing is done. */
json_t *steer_plan(struct steer *steer);

enum steer_reason {
	STEER_BY_OPERATOR,
	STEER_BY_ROLLBACK,
	STEER_BY_CONTENTION,
	STEER_BY_TAKEN_BACK,
	STEER_REASONS,
	STEER_BY_COVER = STEER_REASONS, /* no change of path: it is watched from now on */
};
const char *steer_reason_name(enum steer_reason reason);

struct steer_facts {
	bool there;
	uint64_t switches[STEER_REASONS]; /* since the daemon started */
	size_t steered;
	uint16_t ports; /* in mode steer */
	bool by_itself;
	size_t covered;		/* queue pairs that leave a dead path by themselves */
	uint64_t moves_refused; /* by steer.moves_per_second */
	uint64_t acts[5];	/* by enum contend_act_kind */
};
void steer_get(const struct steer *steer, struct steer_facts *out);

#endif

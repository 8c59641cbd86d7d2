/* SPDX-License-Identifier: BSD-2-Clause */
/* Pacing, between its own files. */
#ifndef ESC_LOADER_PACE_INTERNAL_H
#define ESC_LOADER_PACE_INTERNAL_H

#include "base/fields.h"
#include "config/config.h"
#include "core/core.h"
#include "pace.h"
#include "net/rtnl.h"
#include "pacing/pause.h"

struct qp_entry;

/* Whether an interface can be paced. */
struct pace_port {
	bool able;
	char why[400]; /* with !able */
	char qdisc[40];
	struct fq_limits fq; /* all 0: there is no fq */
	uint64_t line_Bps;
};

/* A queue pair that the programs pace. */
struct paced {
	struct esc_qp_key key;
	struct esc_qp_pace now; /* as last read */
	struct pause_watch watch;
	bool overheld; /* reported, and still so */
	bool by_operator;
	bool seen; /* in the current poll */
	uint64_t base_local_ns, base_held_ns, base_paused_ns;
	double held_share, paused_share; /* of the last second; less than 0: not known yet */
};

/*
 * Whether fq keeps what @queue_pairs of pacing can have in it; else the sentence in @why. @ours:
 * `setup-fq` can raise its limits.
 */
bool pace_fits_fq(const struct fq_limits *fq, size_t queue_pairs, uint64_t hold_max_ns,
		  const char *interface, bool ours, char *why, size_t bytes);

struct pace {
	struct core *core;
	struct dataplane *dataplane;
	struct qptable *qps;
	struct delays *delays;
	struct clock *clock;
	struct paths *paths;
	const struct pace_follower *follower; /* NULL: none */
	void *follower_context;
	struct esc_control *control;
	int flows_fd, rules_fd, assigned_fd, ctl_fd;
	struct esc_pace ctl;
	uint16_t wanted; /* by slot in `ports` */
	unsigned int class_count;
	struct pace_class classes[ESC_PACE_CLASSES];
	struct pace_port ports[ESC_PORTS_MAX];
	struct paced *flows; /* by key */
	size_t count, room;
	uint64_t overheld;
	bool clock_lost;	 /* fabric time is not good enough: nothing is held */
	uint32_t floors;	 /* paths_floors() at the last new generation */
	uint64_t ports_local_ns; /* when they were last polled */
	uint64_t ended_local_ns; /* when the last port ceased to be paced */
};

/* --- pace.c --- */

/*
 * On or off on the interfaces named in @interfaces, an array of texts (NULL or empty: all).
 * On is refused, with the reason and its remedy, where nothing can be held. @self: struct pace.
 */
int pace_set_mode(void *self, bool on, const json_t *interfaces, const char *by, char **error);
/* fq onto an interface, or off it again, where it is ours. */
int pace_setup_fq(struct pace *pace, const char *interface, bool on, char **error);
void pace_poll_ports(struct pace *pace, uint64_t now_local_ns);
/* Fabric time is good enough for the narrowest class. *@bound_ns: -1 there is none. */
bool pace_clock_is_good(const struct pace *pace, int64_t *bound_ns);

#define PACE_EVENTS(X)                                                                             \
	X(PACE_CLASS_SET, "pace_class_set", NOTICE, "A class was changed or made at run time.")    \
	X(PACE_MODE_CHANGED, "mode_changed", NOTICE, "Pacing began or ended on interfaces.")       \
	X(PACE_AVAILABLE, "pace_available", NOTICE, "An interface in mode pace can be paced.",     \
	  .about = EVENT_NIC)                                                                      \
	X(PACE_UNAVAILABLE, "pace_unavailable", WARNING,                                           \
	  "An interface in mode pace cannot be paced.", .about = EVENT_NIC,                        \
	  .remedy = "`escapement pace setup-fq` puts an fq qdisc onto it.")                        \
	X(PACE_CLOCK_LOST, "pace_clock_lost", WARNING,                                             \
	  "Fabric time is not good enough for the thresholds: nothing is delayed.",                \
	  .remedy = "See `escapement clock`.")                                                     \
	X(PACE_CLOCK_RESTORED, "pace_clock_restored", NOTICE, "Fabric time is good enough again.") \
	X(PACE_OVERHELD_EVENT, "pace_overheld", WARNING,                                           \
	  "A queue pair was paused for more than half of the time for long.", .about = EVENT_QP,   \
	  .remedy = "Its class may have too small a threshold; see `escapement pace`.")
enum { PACE_EVENTS(EVENT_ENUM) };
extern const struct event_kind pace_events[];

/* --- class.c: classes and flows --- */

/* The configuration's classes, instead of what was set at run time. */
void pace_load_classes(struct pace *pace);
/* Class by DSCP, rules, and a new generation. */
void pace_publish(struct pace *pace);
void pace_write_rules(struct pace *pace);
/* The programs reload classes and floors with the next packet of each flow. */
void pace_next_generation(struct pace *pace);

/*
 * A class at run time, until a reload; it is made if there is none of that name. @weight,
 * @threshold_ns: 0 unchanged.
 */
int pace_set_class(struct pace *pace, const char *name, uint32_t weight, uint64_t threshold_ns,
		   char **error);

struct pace_assignment {
	const char *src; /* NULL: any; else, as dst, an address */
	const char *dst;
	uint32_t qpn;
	const char *class; /* NULL: the one that matches */
};
/* A queue pair's class by the operator, until it is gone or the daemon ends. */
int pace_assign(struct pace *pace, const struct pace_assignment *want, json_t **result,
		char **error);

/* Reads `qp_pace`; deletes what belongs to no queue pair any more. 0 or -ENOMEM. */
int pace_read_flows(struct pace *pace, uint64_t now_local_ns);
void pace_assign_flows(struct pace *pace);
struct paced *pace_find(const struct pace *pace, const struct esc_qp_key *key);
/* The class of a flow: an index of pace->classes. */
unsigned int pace_class_of(const struct pace *pace, const struct paced *flow);
/* Adds the totals of a flow to its class. */
void pace_add_totals(struct pace_class *class, const struct paced *flow);

/* --- report.c and reply.c --- */

extern const struct metric pace_metrics[];
extern const struct verb_handler pace_verb_handlers[];
void pace_put(void *self, const struct qp_entry *entry, json_t *qp);
void pace_write_metrics(void *self, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of pacing share; nobody else includes it. */
#ifndef ESC_LOADER_PACE_PARTS_H
#define ESC_LOADER_PACE_PARTS_H

#include "config/config.h"
#include "base/fields.h"
#include "core/core.h"
#include "pace.h"
#include "net/qdisc.h"
#include "pacing/pause.h"

struct owner;
struct qp_entry;
struct sd_event_source;

#define PACE_WHY_BYTES 320

struct pace_class {
	char name[16];
	uint32_t weight;
	uint64_t threshold_ns;
	bool own_threshold;		     /* not that of who names none */
	const struct pace_class_keys *match; /* of the configuration; NULL: by hand alone */
	/* Of flows that are gone. */
	uint64_t packets, held, held_ns, bounded;
};

/* An interface that can be paced, or why not. */
struct pace_port {
	bool able;
	char why[PACE_WHY_BYTES]; /* with !able */
	char qdisc[40];
	uint64_t line_Bps;
};

/* A queue pair that the programs pace. */
struct paced {
	struct esc_qp_key key;
	struct esc_qp_pace now; /* as last read */
	struct pause_watch watch;
	bool overheld; /* said, and still so */
	bool by_operator;
	bool seen; /* in the look under way */
	uint64_t base_local_ns, base_held_ns, base_paused_ns;
	double held_share, paused_share; /* of the last second; less than 0: not known yet */
};

struct pace {
	struct core *core;
	struct dataplane *dataplane;
	struct qptable *qps;
	struct owners *owners;
	struct delays *delays;
	struct clock *clock;
	struct paths *paths;
	const struct pace_follower *follower; /* NULL: none */
	void *follower_context;
	struct esc_control *control;
	int flows_fd, rules_fd, orders_fd, word_fd;
	struct esc_pace word;
	uint16_t wanted; /* by slot in `ports` */
	unsigned int class_count;
	struct pace_class classes[ESC_PACE_CLASSES];
	struct pace_port ports[ESC_PORTS_MAX];
	struct paced *flows; /* by key */
	size_t count, room;
	uint64_t gone_samples, gone_unsure, overheld;
	bool blind;		 /* fabric time is not good enough: nothing is held */
	uint32_t floors;	 /* as of paths_floors() when the programs were last told */
	uint64_t ports_local_ns; /* when they were last looked at */
	uint64_t ended_local_ns; /* when the last port ceased to be paced */
};

/* --- pace_kernel.c: the maps --- */

void pace_write_ports(struct pace *pace);
/* No port is paced any more: once nothing that was held can still wait in fq, the flag goes. */
void pace_clear_flag(struct pace *pace, uint64_t now_local_ns);
void pace_write_rules(struct pace *pace);
/* Classes by DSCP and orders are to be asked for anew. */
void pace_publish(struct pace *pace);
void pace_forget_orders(struct pace *pace);
/* Orders, or lanes' floors: they are asked for with the next packet of each flow. */
void pace_next_generation(struct pace *pace);
int pace_order(struct pace *pace, const struct esc_qp_key *key, unsigned int class,
	       bool by_operator);
void pace_withdraw(struct pace *pace, const struct esc_qp_key *key);
/* Reads `qp_pace`; what belongs to no queue pair any more goes. */
int pace_read_flows(struct pace *pace, uint64_t now_local_ns);
struct paced *pace_find(const struct pace *pace, const struct esc_qp_key *key);

/* --- pace_class.c: who is of which class --- */

/* As the configuration has them; what was set at run time is forgotten. */
void pace_take_classes(struct pace *pace);
int pace_class_index(const struct pace *pace, const char *name);
void pace_assign_flows(struct pace *pace);

/* --- pace_port.c: what can be paced --- */

void pace_look_ports(struct pace *pace, uint64_t now_local_ns);

/* --- tell.c: events and replies --- */

#define PACE_METRICS(X)                                                                            \
	X(PACE_QPS, "paced_qps", GAUGE, "Queue pairs that are paced, by class.")                   \
	X(PACE_HELD_QPS, "pace_held_qps", GAUGE,                                                   \
	  "Queue pairs with a packet delayed within the last second.")                             \
	X(PACE_THRESHOLD, "pace_threshold_seconds", GAUGE,                                         \
	  "One-way delay above which packets of a class are delayed.")                             \
	X(PACE_HELD_SECONDS, "pace_held_seconds_total", COUNTER,                                   \
	  "Time in which a packet was delayed, summed over queue pairs.")                          \
	X(PACE_PACKETS, "pace_packets_total", COUNTER,                                             \
	  "Packets of paced queue pairs, delayed or not.")                                         \
	X(PACE_HELD_PACKETS, "pace_held_packets_total", COUNTER, "Packets that were delayed.")     \
	X(PACE_HOLD_LIMITED, "pace_hold_limited_total", COUNTER,                                   \
	  "Packets that left when hold_max was over, before the control law allowed it.")          \
	X(PACE_SAMPLES, "pace_samples_total", COUNTER, "Delays that the control law used.")        \
	X(PACE_UNSURE, "pace_unsure_total", COUNTER,                                               \
	  "Delays that it did not use: no fabric time, or a bound that is too wide.")              \
	X(PACE_OVERHELD, "pace_overheld_total", COUNTER,                                           \
	  "Times that a queue pair was paused for more than half of the time for long.")
extern const struct metric pace_metrics[];
extern const struct field pace_class_fields[];

#define PACE_EVENTS(X)                                                                             \
	X(PACE_CLASS_SET, "pace_class_set", NOTICE, "A class was changed or made at run time.")    \
	X(PACE_MODE_CHANGED, "mode_changed", NOTICE, "Pacing began or ended on interfaces.")       \
	X(PACE_AVAILABLE, "pace_available", NOTICE, "An interface in mode pace can be paced.")     \
	X(PACE_UNAVAILABLE, "pace_unavailable", WARNING,                                           \
	  "An interface in mode pace cannot be paced.")                                            \
	X(PACE_CLOCK_LOST, "pace_clock_lost", WARNING,                                             \
	  "Fabric time is not good enough for the thresholds: nothing is delayed.")                \
	X(PACE_CLOCK_RESTORED, "pace_clock_restored", NOTICE, "Fabric time is good enough again.") \
	X(PACE_OVERHELD_EVENT, "pace_overheld", WARNING,                                           \
	  "A queue pair was paused for more than half of the time for long.")
enum { PACE_EVENTS(EVENT_ENUM) };
extern const struct event_kind pace_events[];

extern const struct verb_handler pace_verb_handlers[];
void pace_put(void *self, const struct qp_entry *entry, json_t *qp);
void pace_write_metrics(void *self, FILE *out);

const char *pace_interface(const struct pace *pace, unsigned int slot);
void pace_tell_mode(struct pace *pace, const char *by);
void pace_tell_port(struct pace *pace, unsigned int slot);
void pace_tell_clock(struct pace *pace, bool blind, int64_t bound_ns);
void pace_tell_overheld(struct pace *pace, const struct paced *flow);
/* Fabric time is good enough for the narrowest class. *@bound_ns: -1 there is none. */
bool pace_clock_is_good(const struct pace *pace, int64_t *bound_ns);

#endif

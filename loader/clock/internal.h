/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of clock/ share. */
#ifndef ESC_CLOCK_INTERNAL_H
#define ESC_CLOCK_INTERNAL_H

#include "base/fields.h"
#include "clock.h"
#include "clocksync/cycles.h"
#include "clocksync/slew.h"
#include "core/core.h"

struct clock_anchor {
	struct anchor_meter meter;
	struct anchor_report measured; /* here */
	struct anchor_report current;  /* what is shown here and sent on probes */
	int64_t due_local_ns;
	uint64_t moves;	  /* of the consensus, to another fabric time, when last seen */
	const char *note; /* why it is not measured here though it should; NULL: nothing */
	bool reported;
	uint32_t reported_id;
};

/* The CPU's counter against fabric time. */
struct clock_cycles {
	struct cycles series;
	uint64_t moves;	    /* of the consensus, to another fabric time, when last seen */
	uint64_t steps;	    /* of its rate, that were reported */
	int64_t checked_ns; /* local time at which the kernel was asked; 0: never */
	const char *note;   /* why it is not read; NULL: it is */
};

struct clockpage_layout;
struct ring_buffer;

/* Another host, by all NIC pairs with it: one neighbor of the consensus. */
struct clock_place {
	unsigned int edges; /* 0: the place is free */
	uint64_t id, epoch;
	char host[256];
	const char *part; /* static */
	struct edge_estimate estimate;
	bool refused_reported, falseticker_reported;
};

/* A NIC of ours. */
struct clock_nic {
	char interface[16];
	unsigned int edges;
	bool known;	       /* in the last round: */
	double now_ns;	       /* how far its timestamps are from those of the others */
	double offset_ns;      /* the same, smoothed */
	unsigned int averaged; /* rounds that offset_ns is of; 0: none yet */
	bool measured;	       /* offset_ns, by enough rounds to be shown */
	unsigned int rounds;   /* that contradict `differs`, in a row */
	bool differs;	       /* its edges are not used */
};

struct clock {
	struct core *core;
	struct esc_fleet *fleet; /* mapped */
	struct esc_clock *map;	 /* mapped */
	struct ring_buffer *ring;
	int64_t read_local_ns;	       /* when it was last read */
	struct clockpage_layout *page; /* mapped; NULL: it cannot be made */
	uint64_t epoch;
	uint64_t suspended_ns; /* time_suspended_ns(), of the models */
	int64_t lab_offset_ns, lab_drift_ppb;

	struct clock_edge *edges[CLOCK_EDGES_MAX]; /* by slot; a hole is NULL */
	/* What a record names its edge by, side by side: edges are apart by many pages. */
	struct clock_edge_key {
		uint64_t id;
		uint32_t nic;
		uint8_t plane, port;
	} keys[CLOCK_EDGES_MAX];
	size_t slots; /* all edges are in the first so many */
	struct clock_place places[CONSENSUS_PEERS_MAX];
	struct clock_nic nics[ESC_PORTS_MAX];
	unsigned int pairs; /* budget, in edges that are probed each mesh.pair_interval */
	const struct fleet_plan *plan;	       /* of the mesh; NULL: none */
	const struct clock_listener *listener; /* NULL: none */
	void *listener_context;
	uint8_t nic_report; /* in the views that are sent */

	struct hostclock host;
	bool runs;
	bool model_taken; /* from the previous daemon */
	uint64_t round_due_ns, rounds;
	enum clock_state reported_state;
	struct edge_scratch scratch;
	struct clock_anchor anchor;
	struct clock_cycles cycles;
	struct slew slew; /* of CLOCK_MONOTONIC */
};

/* All edges; the body may remove its own. */
#define for_each_edge(clock, edge)                                                                 \
	for (size_t slot_ = 0; slot_ < (clock)->slots; slot_++)                                    \
		if (!((edge) = (clock)->edges[slot_]))                                             \
			continue;                                                                  \
		else

#define CLOCK_EVENTS(X)                                                                            \
	X(CLOCK_STATE, "clock_state", NOTICE, "The fabric clock is in another state.")             \
	X(CLOCK_SUSPENDED, "clock_suspended", WARNING,                                             \
	  "The machine was suspended, or paused: fabric time is reset.")                           \
	X(CLOCK_REFUSED, "clock_refused", WARNING,                                                 \
	  "A peer is not used for the clock: its time differs for 2 s by more than its error "     \
	  "bound and this host's.",                                                                \
	  .about = EVENT_PEER, .begins = "clock_refused",                                          \
	  .remedy = "See `escapement clock` and `escapement peers`.")                              \
	X(CLOCK_ACCEPTED, "clock_accepted", NOTICE, "The time of that peer agrees again.",         \
	  .about = EVENT_PEER, .ends = "clock_refused")                                            \
	X(CLOCK_FALSETICKER, "clock_falseticker", WARNING,                                         \
	  "The time of a peer differs for 10 s by more than its error bound and this host's.",     \
	  .about = EVENT_PEER, .begins = "clock_refused",                                          \
	  .remedy = "See `escapement clock` on that host: its time or its probes are wrong.")      \
	X(CLOCK_NIC_DIFFERS, "nic_timestamps_differ", WARNING,                                     \
	  "The timestamps of a NIC differ from those of this host's other NICs: it is not used "   \
	  "for the clock.",                                                                        \
	  .about = EVENT_NIC, .begins = "nic_timestamps_differ",                                   \
	  .remedy = "One-way delays by this NIC are wrong by the difference: see its driver's "    \
		    "timestamps, and the clock that they are of.")                                 \
	X(CLOCK_NIC_AGREES, "nic_timestamps_agree", NOTICE,                                        \
	  "The timestamps of that NIC agree with the others again.", .about = EVENT_NIC,           \
	  .ends = "nic_timestamps_differ")                                                         \
	X(CLOCK_NIC_LEFT, "nic_timestamps_unknown", NOTICE,                                        \
	  "Nothing is probed by a NIC any more whose timestamps differed.", .about = EVENT_NIC,    \
	  .ends = "nic_timestamps_differ")                                                         \
	X(CLOCK_COUNTER_STEP, "counter_rate_changed", NOTICE,                                      \
	  "The CPU's counter runs at another rate, or was set, as after a live migration.")        \
	X(CLOCK_ANCHOR_ACQUIRED, "anchor_acquired", NOTICE, "TAI is known, by this anchor.")       \
	X(CLOCK_ANCHOR_LOST, "anchor_lost", WARNING, "TAI is not known any more.",                 \
	  .remedy = "See the anchors, `escapement clock`.")                                        \
	X(CLOCK_PEER_RESTARTED, "peer_restarted", NOTICE, "The daemon of a peer restarted.",       \
	  .about = EVENT_PEER, .ends = "peer_one_sided")                                           \
	X(CLOCK_PEER_ONE_SIDED, "peer_one_sided", WARNING,                                         \
	  "A peer replies, but its probes do not arrive.", .about = EVENT_PEER,                    \
	  .begins = "peer_one_sided",                                                              \
	  .remedy =                                                                                \
		  "That host does not send to this one: compare both member lists and key files.") \
	X(CLOCK_PEER_TWO_SIDED, "peer_two_sided", NOTICE, "Probes of that peer arrive again.",     \
	  .about = EVENT_PEER, .ends = "peer_one_sided")
enum { CLOCK_EVENTS(EVENT_ENUM) };
extern const struct event_kind clock_events[];

#define CLOCK_METRICS(X)                                                                           \
	X(CLOCK_STATES, "clock_state", GAUGE, "1 for the state that the fabric clock is in.")      \
	X(CLOCK_PEERS, "clock_peers", GAUGE, "Neighbors that the clock is agreed with.")           \
	X(CLOCK_LAST_SYNC, "clock_last_sync_timestamp_seconds", GAUGE,                             \
	  "When a neighbor was last used for the clock.")                                          \
	X(CLOCK_ERROR_BOUND, "clock_error_bound_seconds", GAUGE,                                   \
	  "Error bound of fabric time on this host.")                                              \
	X(CLOCK_FREQUENCY, "clock_frequency_offset_ratio", GAUGE,                                  \
	  "Rate of fabric time against this host's clock, less 1.")                                \
	X(CLOCK_RESIDUAL, "clock_loop_residual_seconds", GAUGE,                                    \
	  "Spread of the neighbors' estimates of this host's clock.")                              \
	X(CLOCK_TAI_OFFSET, "clock_tai_offset_seconds", GAUGE,                                     \
	  "How far TAI is ahead of fabric time, by an anchor.")                                    \
	X(CLOCK_TAI_BOUND, "clock_tai_error_bound_seconds", GAUGE,                                 \
	  "Error bound of TAI on this host.")                                                      \
	X(CLOCK_COUNTER_FREQUENCY, "clock_cycles_frequency_hertz", GAUGE,                          \
	  "Cycles of the CPU's counter in a second of fabric time.")                               \
	X(CLOCK_COUNTER_STEPS, "clock_cycles_steps_total", COUNTER,                                \
	  "Changes of that rate, as after a live migration.")                                      \
	X(CLOCK_SLEWS, "clock_local_rate_changes_total", COUNTER,                                  \
	  "Changes of the rate of CLOCK_MONOTONIC, as by NTP, that were followed.")
extern const struct metric clock_metrics[];

#define Q40 1099511627776.0 /* 2^40: rates in the model and on the wire */

/* --- clock.c --- */

/* An event of @kind, an enumerator of CLOCK_EVENTS; takes @seen over, which may be NULL. */
void clock_report(const struct clock *clock, unsigned int kind, const char *subject, json_t *seen);
/* The same about a peer. */
void clock_report_edge(const struct clock *clock, const struct clock_edge *edge, unsigned int kind,
		       json_t *seen);
/* Apart for long while the others agree: it is a falseticker, or its path is asymmetric. */
void clock_report_place(struct clock *clock, struct clock_place *place, int64_t now_ns);
void clock_write_view(struct clock *clock, const struct clock_view *view);
void clock_write_anchor(struct clock *clock, const struct anchor_report *anchor);
/* The host clock's model, into the map `clock` and the page. */
void clock_write_model(struct clock *clock);

/*
 * Makes the page that applications read fabric time from, or continues the one at @path:
 * processes that have it mapped see the new daemon. *@error is a malloc'd sentence on failure.
 */
int clockpage_open(struct clockpage_layout **out, const char *path, int64_t lab_offset_ns,
		   int64_t lab_drift_ppb, char **error);
/* The page stays: its model ages, and readers see that. */
void clockpage_close(struct clockpage_layout *page);
void clockpage_write(struct clockpage_layout *page, const struct clock_model *model,
		     uint64_t suspended_ns);

/* --- round.c --- */

void clock_start_host(struct clock *clock);
/* The peer restarted, or a clock stopped: what is known of it and its path is of before. */
void clock_restart_edge(struct clock *clock, struct clock_edge *edge, uint64_t epoch,
			int64_t now_ns);
/* A record of the ring buffer of probes; a ring_buffer_sample_fn. */
int clock_take_record(void *context, void *data, size_t bytes);

/* --- nics.c: several NICs, one clock --- */

/* A place for a new edge's host. CLOCK_PLACE_NONE: all are taken. */
size_t clock_place_take(struct clock *clock, const struct clock_edge_config *config);
void clock_place_leave(struct clock *clock, size_t place);
/* It has no edges any more. */
void clock_nic_leave(struct clock *clock, struct clock_nic *nic);
/* After the fits: what each edge shows of our clock, and NICs whose timestamps differ. */
void clock_compare_nics(struct clock *clock, int64_t now_ns);
/* Of the edges of each place that are used, one estimate. */
void clock_combine_edges(struct clock *clock);
/* The same of a list, of at least one that is valid. Pure. */
void clock_combine(const struct edge_estimate *const *list, size_t count,
		   struct edge_estimate *out);
/* What the timestamps of the NICs in use differ by, now or in the mean. */
double clock_nics_spread_ns(const struct clock *clock);

/* --- jump.c --- */

/* True: the machine was suspended since, and there is no fabric time now. @suspended_ns:
 * time_suspended_ns(). */
bool clock_check_suspended(struct clock *clock, uint64_t suspended_ns);
/* False: a passage that is not to be used, since a clock stopped or @edge was reset. */
bool clock_check_passage(struct clock *clock, struct clock_edge *edge, enum clock_side side,
			 const struct clock_probe *probe);
/* In a round: the edges to peers whose clocks stopped are measured again. */
void clock_restart_early(struct clock *clock, int64_t now_ns);

/* --- anchor.c --- */

void clock_anchor_round(struct clock *clock, int64_t local_ns);
/* The rest of *@out is filled, and fabric time is known. */
void clock_get_tai(const struct clock *clock, struct clock_facts *out);

/* --- cycles.c --- */

/* In a round, after the model: reads the counter when a point is due. */
void clock_cycles_round(struct clock *clock, int64_t local_ns);
json_t *clock_reply_cycles(void *self, struct request *request);

/* --- reply.c --- */

json_t *clock_facts_json(const struct clock_facts *clock);
void clock_put_status(void *self, json_t *status);
void clock_write_metrics(void *self, FILE *out);
extern const struct verb_handler clock_verb_handlers[];

#endif

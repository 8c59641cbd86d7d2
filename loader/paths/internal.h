/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of candidate paths share. */
#ifndef ESC_PATHS_INTERNAL_H
#define ESC_PATHS_INTERNAL_H

#include <jansson.h>
#include <stdio.h>
#include <systemd/sd-event.h>

#include "base/fields.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "pacing/pathset.h"
#include "paths.h"
#include "probe/probe.h"
#include "stat.h"

struct mesh;
struct qptable;
struct ring_buffer;

#define PATHS_TICK_ACTIVE_NS 10000000ull /* while candidates are in use by steered queue pairs */
#define PATHS_TICK_SURVEY_NS 20000000ull /* while ports are surveyed */
#define PATHS_TICK_IDLE_NS 250000000ull
#define PATHS_UPDATE_NS 250000000ull /* pairs, uses and standbys */
#define PATHS_HORIZON 6		     /* updates after which a request is lost: 1.25 s at least */
#define PATHS_SURVEYS 4		     /* of a pair at a time */
/* Ports of queue pairs that are surveyed; the rest of the set is for new ones. */
#define PATHS_OWN_PORTS_MAX 100
#define PATHS_ADDRESSES_MAX 4096 /* of switches */
#define PATHS_EVENTS_PER_S 32	 /* a spine that dies is one fault, not a thousand */

/* A candidate path: a source port to probe and to steer to. */
struct candidate {
	uint16_t sport; /* 0: none */
	struct pathlive_damp damp;
	struct pathstat out, in, rtt;
	enum path_use use;
	uint64_t interval_ns, deadline_ns;
	unsigned int qps, rules; /* queue pairs that use it, and that have a rule for it */
	uint64_t replied, lost;
	uint64_t sent_then[PATHS_HORIZON];
	uint64_t diverted_ns; /* as last reported */
	int backup;
};

/* The switches on the route of one port, one after the other. */
struct paths_survey {
	uint16_t sport; /* 0: nothing under way */
	uint8_t hop;	/* 1.. */
	uint8_t attempts;
	bool waits; /* for a reply, until due_ns; else it is due then */
	uint64_t due_ns;
	uint32_t sequence;
	uint64_t hops[PATHSET_HOPS];
};

/* One of our addresses and one of a peer. */
struct paths_pair {
	unsigned int slot;
	struct esc_path_key key;
	uint8_t port;
	uint64_t peer;
	char host[256];
	char interface[16];
	unsigned int ifindex;
	struct pathsend_pair *sending; /* NULL: no socket, see open_error */
	int open_error;
	uint64_t since_ns, replied_ns; /* 0: never */
	bool seen;		       /* in this update */
	unsigned int qps;
	/* Source ports of queue pairs; the first own_awake are of those that send. */
	uint16_t own[PATHS_OWN_PORTS_MAX];
	size_t own_count, own_awake, own_before;
	bool crowded; /* one of own_awake has no candidate */
	bool changed; /* ports or facts about them: candidates have to be chosen anew */

	struct candidate candidates[ESC_PATHS_MAX];
	struct pathset set;
	unsigned int distance, distance_next; /* switches on the way; 0: not known, or none */
	bool distance_known;
	struct paths_survey surveys[PATHS_SURVEYS];
	struct {
		unsigned int replies, misses;
		uint64_t again_ns; /* it is silent: not before that */
	} hop[PATHSET_HOPS];
	uint64_t verify_due_ns;
	uint64_t unsettled_ns; /* until then ports are verified more often */
	unsigned int verified; /* ports so far */
	uint64_t floor_due_ns;
};

/* Our address on an interface: all that leaves from it meets the same first switch. */
struct paths_origin {
	struct esc_address from;
	uint8_t port;
	uint64_t hop;
	unsigned int agreed;
	uint64_t until_ns;
};

struct paths {
	struct core *core;
	struct dataplane *dataplane;
	struct mesh *mesh;
	struct qptable *qps;
	struct ring_buffer *ring;
	struct pathsend *send;
	struct core_timer *timer;
	struct sd_event_source *icmp[2];
	int icmp_fd[2]; /* -1: none */
	char note[192];

	struct esc_paths *map; /* mapped */
	int slots_fd, steers_fd;
	struct paths_pair *by_slot[ESC_PATH_SLOTS_MAX];
	size_t pairs;

	struct port_info ports[ESC_PORTS_MAX]; /* by slot, of this update; no name: none */

	struct pathlive_config live;
	bool on, paused;
	uint64_t random;
	uint64_t update_due_ns, ports_due_ns;
	bool limit_reported;

	double try_tokens, try_pace; /* tries a second, as switches reply */
	uint64_t try_ns;
	unsigned int try_first; /* slot that is served first */
	bool trying;
	struct paths_origin origins[2 * ESC_PORTS_MAX];
	struct esc_address *addresses; /* of switches, by number - 1 */
	size_t address_count;

	uint64_t events_second, events_reported, events_left_out;
	struct paths_facts total; /* what is counted, and the share; paths_get() adds the rest */
	uint32_t floors;	  /* how often one was published */

	paths_tick_fn *tick;
	void *tick_context;
	struct path_pair_facts *facts; /* of paths_pairs() */
};

/* All pairs; the body may end its own pair. */
#define for_each_pair(paths, pair)                                                                 \
	for (unsigned int slot_ = 0; slot_ < ESC_PATH_SLOTS_MAX; slot_++)                          \
		if (!((pair) = (paths)->by_slot[slot_]))                                           \
			continue;                                                                  \
		else
/* The ids of a pair's candidates. */
#define for_each_candidate(pair, id)                                                               \
	for (unsigned int id = 0; id < ESC_PATHS_MAX; id++)                                        \
		if (!(pair)->candidates[id].sport)                                                 \
			continue;                                                                  \
		else

/* maps.c: the maps and the ring */
int paths_open_maps(struct paths *paths, char **error);
void paths_close_maps(struct paths *paths);
/* A free slot is written for @pair, whose key, port and peer are set. -ENOSPC: all are taken. */
int paths_slot_take(struct paths *paths, struct paths_pair *pair);
void paths_slot_free(struct paths *paths, struct paths_pair *pair);
struct paths_pair *paths_find(const struct paths *paths, const struct esc_path_key *key);
struct esc_path *paths_map_entry(const struct paths *paths, const struct paths_pair *pair,
				 unsigned int id);
/* The source port of a candidate, with nothing known of it yet. 0: none. */
void paths_write_candidate(struct paths *paths, struct paths_pair *pair, unsigned int id,
			   uint16_t sport);
/*
 * Nothing could be received until now: what peers sent meanwhile is not reported as missing.
 * Before this host replies again.
 */
void paths_reset_heard(void *paths);

/* paths.c: fresh facts about interfaces */
void paths_read_ports(struct paths *paths);

/* pair.c: which pairs there are */
void paths_update_pairs(struct paths *paths, uint64_t now_ns);
void paths_pair_end(struct paths *paths, struct paths_pair *pair);
/* Its memory alone: the slot stays. */
void paths_pair_forget(struct paths_pair *pair);
void paths_take_over(struct paths *paths, uint64_t now_ns);
bool paths_pair_replies(const struct paths_pair *pair, uint64_t now_ns);

/* candidates.c: which of their ports are candidates */
void paths_choose_candidates(struct paths *paths, struct paths_pair *pair, uint64_t now_ns);
void paths_candidate_clear(struct candidate *candidate, uint16_t sport);
int paths_set_index(const struct paths_pair *pair, uint16_t sport);
/* Of the first @count of own[]: all own_count, or the own_awake that send. */
bool paths_is_own(const struct paths_pair *pair, uint16_t sport, size_t count);
int paths_pair_id_of(const struct paths_pair *pair, uint16_t sport);

/* use.c: which queue pairs use which candidate, how often each is probed */
void paths_update_uses(struct paths *paths, uint64_t now_ns);

/* survey.c: the switches on the way */
/* 0 or -errno: no raw sockets. */
int paths_survey_open(struct paths *paths);
void paths_survey_close(struct paths *paths);
void paths_survey_tick(struct paths *paths, uint64_t now_ns);
/* Routes may have changed: all ports are surveyed again, and once more soon after. */
void paths_unsettle(struct paths_pair *pair, uint64_t now_ns);
/* A packet came with that hop limit. */
void paths_update_distance(struct paths_pair *pair, uint8_t hop_limit);
/* No switch beyond the first one replies. */
bool paths_is_silent(const struct paths_pair *pair);

/* state.c: up or down */
void paths_evaluate(struct paths *paths, struct paths_pair *pair, uint64_t now_ns);
void paths_choose_standbys(struct paths *paths, struct paths_pair *pair);
void paths_candidate_facts(const struct paths *paths, const struct paths_pair *pair,
			   unsigned int id, uint64_t now_ns, struct path_facts *out);

/* events.c */
#define PATHS_EVENTS(X)                                                                            \
	X(PATH_DOWN, "path_down", WARNING,                                                         \
	  "A candidate path is down: its packets take its backup.")                                \
	X(PATH_UP, "path_up", NOTICE, "A candidate path is up again, after its hold-down.")        \
	X(PATH_FAILOVER, "path_failover", WARNING,                                                 \
	  "Packets of a path that is down took its backup.")                                       \
	X(PATH_RELEASED, "path_released", NOTICE,                                                  \
	  "Packets left a backup without replies, of a peer without reports.")                     \
	X(PATHS_CHANGED, "paths_changed", NOTICE,                                                  \
	  "Routes to a peer changed; paths are discovered again.")                                 \
	X(PATH_BUDGET_SHORT, "path_budget_short", WARNING,                                         \
	  "Paths are probed less often than configured: the budget is spent.")                     \
	X(PATH_BUDGET_RESTORED, "path_budget_restored", NOTICE,                                    \
	  "The budget allows the configured intervals again.")                                     \
	X(PATH_TABLE_FULL, "path_table_full", WARNING,                                             \
	  "A pair of addresses found no free slot in `paths`.")                                    \
	X(PATH_EVENTS_SUPPRESSED, "path_events_suppressed", WARNING,                               \
	  "More events of paths than are recorded in a second.")
extern const struct event_kind paths_events[];
void paths_report_down(struct paths *paths, const struct paths_pair *pair, unsigned int id,
		       const struct pathlive_path *live);
void paths_report_up(struct paths *paths, const struct paths_pair *pair, unsigned int id,
		     int64_t died_ns, uint64_t diverted_ns, uint64_t packets);
void paths_report_released(struct paths *paths, const struct paths_pair *pair, unsigned int id,
			   uint64_t diverted_ns, uint64_t packets);
void paths_report_failover(struct paths *paths, const struct paths_pair *pair, unsigned int id,
			   const struct esc_path *now, int64_t heard_ns);
void paths_report_routes(struct paths *paths, const struct paths_pair *pair);
void paths_report_budget(struct paths *paths);
void paths_report_full(struct paths *paths, const struct paths_pair *pair);

/* reply.c: the verb `paths`, and `paths` in `status` */
extern const struct verb_handler paths_verb_handlers[];
void paths_put_status(void *self, json_t *status);

/* metrics.c */
#define PATHS_METRICS(X)                                                                           \
	X(PATHS_BY_STATE, "paths", GAUGE,                                                          \
	  "Candidate paths to all peers with queue pairs, by state: up, suspect, down or "         \
	  "hold_down.")                                                                            \
	X(PATH_PEERS, "path_peers", GAUGE, "Pairs of addresses that have candidate paths.")        \
	X(PATH_PEERS_REFUSED, "path_peers_refused_total", COUNTER,                                 \
	  "Times that a pair of addresses found no room for paths.")                               \
	X(PATH_PROBES, "path_probes_total", COUNTER, "Path probes handed to the kernel.")          \
	X(PATH_PROBES_FAILED, "path_probes_failed_total", COUNTER,                                 \
	  "Path probes that the kernel refused.")                                                  \
	X(PATH_PROBES_REPLIED, "path_probes_replied_total", COUNTER,                               \
	  "Path probes that were replied to.")                                                     \
	X(PATH_PROBES_LOST, "path_probes_lost_total", COUNTER,                                     \
	  "Path probes without a reply within a second.")                                          \
	X(PATH_PROBES_WANTED, "path_wanted_probes_per_second", GAUGE,                              \
	  "Path probes a second that the configured intervals need.")                              \
	X(PATH_PROBES_GRANTED, "path_granted_probes_per_second", GAUGE,                            \
	  "Path probes a second that are sent within the budget.")                                 \
	X(PATH_PROBES_BUDGET, "path_budget_probes_per_second", GAUGE, "paths.probe_budget_pps.")   \
	X(FAILOVER_DURATION, "failover_duration_seconds", HISTOGRAM,                               \
	  "From the last probe that the peer received on a path to the first packet that used "    \
	  "its "                                                                                   \
	  "standby.")                                                                              \
	X(PATHS_NOT_SHOWN, "paths_not_shown", GAUGE,                                               \
	  "Candidate paths without series of their own (textfile.top_paths).")                     \
	X(PATH_STATE, "path_state", GAUGE,                                                         \
	  "1 for the state of a candidate path, by source port: up, suspect, down or hold_down. "  \
	  "Ports with one path number share a path.")                                              \
	X(PATH_QPS, "path_qps", GAUGE, "Queue pairs whose packets are to use this path.")          \
	X(PATH_DIVERTED, "path_diverted", GAUGE, "1 while packets of this path use its backup.")   \
	X(PATH_OWD_MIN, "path_owd_min_seconds", GAUGE,                                             \
	  "Minimum one-way delay of a path's probes in the last seconds, in fabric time.")         \
	X(PATH_OWD_P50, "path_owd_p50_seconds", GAUGE, "Median of the same.")                      \
	X(PATH_OWD_P99, "path_owd_p99_seconds", GAUGE, "99th percentile of the same.")             \
	X(PATH_OWD_MAX, "path_owd_max_seconds", GAUGE, "Maximum of the same.")                     \
	X(PATH_OWD_BOUND, "path_owd_error_bound_seconds", GAUGE,                                   \
	  "Error bound of the delays of this path.")                                               \
	X(PATH_SENT, "path_sent_total", COUNTER, "Probes sent on a path.")                         \
	X(PATH_REPLIED, "path_replied_total", COUNTER, "Probes of a path that were replied to.")   \
	X(PATH_LOST, "path_lost_total", COUNTER,                                                   \
	  "Probes of a path without a reply within a second.")
extern const struct metric paths_metrics[];
extern const struct field path_fields[]; /* of struct path_facts: JSON and metrics */
/* Upper bounds of the buckets but the last, seconds. */
extern const double paths_failover_bounds[PATHS_FAILOVER_BUCKETS - 1];
void paths_write_metrics(void *self, FILE *out);

/* One candidate in the metrics: textfile.top_paths of them, those not up and the busiest first. */
struct path_row {
	struct path_facts path;		    /* first: path_fields are of it */
	const struct path_pair_facts *pair; /* as paths_pairs() gave it */
	const char *netdev;		    /* NULL: not known */
	struct quantiles out, in;	    /* of one-way delays; no samples: not known */
};
void paths_sort_rows(struct path_row *rows, size_t count);
void paths_write_rows(FILE *out, const struct path_row *rows, size_t count, size_t left_out);

#endif

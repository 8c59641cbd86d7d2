/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of candidate paths share. */
#ifndef ESC_PATHS_INTERNAL_H
#define ESC_PATHS_INTERNAL_H

#include <jansson.h>
#include <stdio.h>
#include <systemd/sd-event.h>

#include "base/delayhist.h"
#include "base/fields.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "pacing/pathset.h"
#include "paths.h"
#include "probe/probe.h"

struct mesh;
struct qptable;
struct ring_buffer;

#define PATHS_TICK_ACTIVE_NS 10000000ull /* while candidates are in use by steered queue pairs */
#define PATHS_TICK_SURVEY_NS 20000000ull /* while ports are surveyed */
#define PATHS_TICK_IDLE_NS 250000000ull
#define PATHS_UPDATE_NS 250000000ull /* pairs, uses and backups */
#define PATHS_HORIZON 6		     /* updates after which a request is lost: 1.25 s at least */
#define PATHS_SURVEYS 4		     /* of a pair at a time */
/* Ports of queue pairs that are surveyed; the rest of the set is for new ones. */
#define PATHS_OWN_PORTS_MAX 100
#define PATHS_ADDRESSES_MAX 4096 /* of switches */

/* Of fields that the kernel programs share. */
#define load(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define store(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

/*
 * --- stat.c: the delay of one direction of a candidate path, from its probes. Pure; times are one
 * local clock. All zero but for pathstat_clear(): empty ---
 */

#define PATHSTAT_RECENT 16
#define PATHSTAT_WINDOW_NS 5000000000ll	 /* histograms: this one and the one before */
#define PATHSTAT_FLOOR_NS 300000000000ll /* floors: likewise */
#define PATHSTAT_YOUNG_NS 30000000000ll	 /* until then its floor may be of a standing queue */

struct pathstat_window {
	struct delayhist delays;
	int64_t min_ns, max_ns; /* when there are delays */
};

struct pathstat {
	uint64_t samples;
	double floor_ns, floor_before_ns; /* of this window and the one before; NAN: none */
	int64_t floor_begun_ns;
	struct pathstat_window now, before;
	int64_t now_begun_ns;
	struct {
		int64_t at_ns;
		double delay_ns, bound_ns;
	} recent[PATHSTAT_RECENT]; /* by samples % PATHSTAT_RECENT */
	double mean_ns, spread_ns; /* as RFC 6298 smooths them */
};

void pathstat_clear(struct pathstat *stat);
void pathstat_free(struct pathstat *stat);
/* A longer one is no delay: the peer, which has a key, replied with a time that is not true. */
#define PATHSTAT_DELAY_MAX_NS 1e12
bool pathstat_is_delay(double delay_ns);
/* A delay that was measured at @at_ns (not going back), true within @bound_ns. */
void pathstat_add(struct pathstat *stat, int64_t at_ns, double delay_ns, double bound_ns);
/* By the samples within @span_ns of the newest one. */
void pathstat_now(const struct pathstat *stat, int64_t span_ns, struct path_delay *out);
/*
 * The floor as it is published for pacing: a delay and 1, 0 for not known. @mesh_ns (NAN: not
 * known), the floor of the clock's probes on another path to the same address, stands for one
 * without samples, and bounds the floor of a young one.
 */
uint32_t pathstat_published_floor(const struct pathstat *stat, int64_t now_ns, double mesh_ns);
/* Of the last 5 to 10 s before @now_ns. */
void pathstat_quantiles(const struct pathstat *stat, int64_t now_ns, struct quantiles *out);
/* The same of @count of them together. */
void pathstat_merge(const struct pathstat *const *stats, size_t count, int64_t now_ns,
		    struct quantiles *out);

/* --- the state --- */

/* A candidate path: a source port to probe and to steer to. */
struct candidate {
	/* diverted_ns and replied: as last counted. What is measured is in copies of it alone. */
	struct path_facts facts; /* sport 0: none */
	struct esc_path *map;	 /* its entry */
	struct pathlive_damp damp;
	struct pathstat out, in, rtt;
	unsigned int rules; /* queue pairs that have a rule for it */
	uint64_t sent_then[PATHS_HORIZON];
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
	struct path_pair_facts facts;
	uint64_t peer_id;
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
	uint16_t urgent; /* backups, by id, that are probed as paths in use are */
	bool changed;	 /* ports or facts about them: candidates have to be chosen again */

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
	unsigned int agreed; /* replies; 0: unused */
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
	sd_event_source *deaths;
	struct sd_event_source *icmp[2];
	int icmp_fd[2]; /* -1: none */

	struct esc_paths *map; /* mapped */
	int slots_fd, steers_fd;
	struct paths_pair *by_slot[ESC_PATH_SLOTS_MAX];
	struct port_info ports[ESC_PORTS_MAX]; /* by slot, of this update; no name: none */

	struct pathlive_config live;
	bool paused;
	uint64_t random;
	uint64_t update_due_ns, ports_due_ns, sweep_due_ns;
	bool limit_reported;
	bool uses_changed; /* since the last update of the uses */

	double try_tokens, try_pace; /* tries a second, as switches reply */
	uint64_t try_ns;
	double icmp_tokens;	/* errors that may be read */
	unsigned int try_first; /* slot that is served first */
	bool trying;
	struct paths_origin origins[2 * ESC_PORTS_MAX];
	struct esc_address addresses[PATHS_ADDRESSES_MAX]; /* of switches, by number - 1 */
	size_t address_count;

	uint64_t events_second, events_reported, events_suppressed;
	struct paths_facts facts; /* but for what paths_get() adds */
	uint32_t floors;	  /* how often one was published */

	paths_tick_fn *tick;
	void *tick_context;
	paths_record_fn *record;
	void *record_context;
	struct esc_path_key swept; /* of the map path_received; all zero: from its begin on */
};

/* All pairs; the body may end its own pair. */
#define for_each_pair(paths, pair)                                                                 \
	for (unsigned int slot_ = 0; slot_ < ESC_PATH_SLOTS_MAX; slot_++)                          \
		if (!((pair) = (paths)->by_slot[slot_]))                                           \
			continue;                                                                  \
		else
/* A pair's candidates; @path is declared. */
#define for_each_candidate(pair, path)                                                             \
	for (typeof(&(pair)->candidates[0]) path = (pair)->candidates;                             \
	     path < (pair)->candidates + ESC_PATHS_MAX; path++)                                    \
		if (!path->facts.sport)                                                            \
			continue;                                                                  \
		else

/* --- pair.c: which pairs there are, and which of their ports are candidates --- */

/* With the slot's entries, which are not written. NULL: no memory. */
struct paths_pair *paths_pair_new(const struct paths *paths, unsigned int slot,
				  const struct esc_path_key *key, uint8_t port, const char *host,
				  uint64_t now_ns);
/* Its memory alone: the slot stays. */
void paths_pair_forget(struct paths_pair *pair);
void paths_pair_end(struct paths *paths, struct paths_pair *pair);
void paths_candidate_clear(struct candidate *path, uint16_t sport);
void paths_update_pairs(struct paths *paths, uint64_t now_ns);
/* Slots of the daemon before: candidates may have rules, and keep their ids. */
void paths_take_over(struct paths *paths, uint64_t now_ns);
struct paths_pair *paths_find(const struct paths *paths, const struct esc_path_key *key);
bool paths_pair_replies(const struct paths_pair *pair, uint64_t now_ns);
/* Index into the set; -ENOENT. */
int paths_set_index(const struct paths_pair *pair, uint16_t sport);
/* Of the first @count of own[]. */
bool paths_is_own(const struct paths_pair *pair, uint16_t sport, size_t count);
int paths_pair_id_of(const struct paths_pair *pair, uint16_t sport);

/* --- received.c: the map path_received --- */

void paths_reset_received(void *paths);
/* A part of the map in each call. */
void paths_sweep_received(struct paths *paths, uint64_t now_ns);

/* --- survey.c: the switches on the way --- */

/* 0 or -errno: no raw sockets. */
int paths_survey_open(struct paths *paths);
void paths_survey_close(struct paths *paths);
/* Adds what the kernel dropped since the sockets are open. */
void paths_count_overflow(const struct paths *paths, struct paths_quotes *quotes);
void paths_survey_tick(struct paths *paths, uint64_t now_ns);
/* Routes may have changed: all ports are surveyed again, and once more soon after. */
void paths_unsettle(struct paths_pair *pair, uint64_t now_ns);
/* A packet came with that hop limit. */
void paths_update_distance(struct paths_pair *pair, uint8_t hop_limit);
/* No switch beyond the first one replies. */
bool paths_is_silent(const struct paths_pair *pair);

/* --- state.c: which queue pairs use which candidate; how often it is probed; up or down --- */

struct pathbudget_demand {
	uint64_t wanted_ns[PATH_USES]; /* interval of each use; of _UNUSED nothing */
	size_t candidates[PATH_USES];
	uint32_t budget_pps;
};
/* Interval of paths of interfaces where nothing may be steered. */
#define PATHBUDGET_WATCH_NS 250000000ull
/*
 * Active paths come first, but for a tenth of the budget that is kept for the others (a backup
 * that is not probed is none). What is missing is taken from all of a kind alike, by longer
 * intervals. A hundredth is kept for surveys. Pure.
 */
void pathbudget_share(const struct pathbudget_demand *demand, struct pathbudget_share *out);

void paths_update_uses(struct paths *paths, uint64_t now_ns);
void paths_evaluate(struct paths *paths, struct paths_pair *pair, uint64_t now_ns);
void paths_choose_backups(struct paths_pair *pair);
/* A probe was replied to, or reported as received: the way back may be down. */
bool paths_was_received(const struct candidate *path);

/* --- events.c: at most 32 a second but for the budget and a full table --- */

extern const struct event_kind paths_events[];
void paths_report_down(struct paths *paths, const struct paths_pair *pair,
		       const struct candidate *path, const struct pathlive_path *live);
/*
 * Packets return to a path that is up, after its failure at @failed_ns; 0: its backup has no
 * replies. @diverted_ns: they used the backup since; 0: they did not.
 */
void paths_report_return(struct paths *paths, const struct paths_pair *pair,
			 const struct candidate *path, int64_t failed_ns, uint64_t diverted_ns);
/* @received_ns: when the peer received the last probe; 0: not known. */
/* One that was down and is not a candidate any more; nothing otherwise. */
void paths_report_dropped(struct paths *paths, const struct paths_pair *pair,
			  const struct candidate *path);
void paths_report_failover(struct paths *paths, const struct paths_pair *pair,
			   const struct candidate *path, int64_t received_ns);
void paths_report_routes(struct paths *paths, const struct paths_pair *pair);
void paths_report_budget(struct paths *paths);
void paths_report_full(struct paths *paths, const char *host);

/* --- report.c: the verb `paths`, `paths` in `status`, and the metrics --- */

extern const struct verb_handler paths_verb_handlers[];
extern const struct metric paths_metrics[];
/* Upper bounds of the buckets but the last, seconds. */
extern const double paths_failover_bounds[PATHS_FAILOVER_BUCKETS - 1];
void paths_put_status(void *self, json_t *status);
void paths_write_metrics(void *self, FILE *out);

/* One candidate in the metrics: textfile.top_paths of them, those not up and the busiest first. */
struct path_row {
	struct path_facts path;		    /* first: the fields are of it */
	const struct path_pair_facts *pair; /* of paths_pair() */
	const char *netdev;		    /* NULL: not known */
	struct quantiles out, in;	    /* of one-way delays; no samples: not known */
};
void paths_sort_rows(struct path_row *rows, size_t count);
void paths_write_rows(FILE *out, const struct path_row *rows, size_t count, size_t not_shown);

#endif

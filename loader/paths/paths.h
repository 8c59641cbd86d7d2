/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Candidate paths: to each address of a member with which this host has queue pairs, a few UDP
 * source ports that spread over the fabric's routes, probed all the time. Which ports share a
 * route, the delay of each, which is down, and which is the backup of which.
 */
#ifndef ESC_PATHS_PATHS_H
#define ESC_PATHS_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/delayhist.h"
#include "maps/maps.h"
#include "pacing/pathlive.h"

struct paths;

/*
 * needs: dataplane, mesh, qp. Takes over the slots of the daemon before, and leaves them as they
 * are when it is closed: packets keep their paths.
 */
extern const struct capability paths_capability;

/* --- facts --- */

enum path_use {
	PATH_UNUSED, /* no candidate */
	PATH_WATCHED,
	PATH_STANDBY, /* steering is on, and no queue pair uses it */
	PATH_ACTIVE,
	PATH_USES,
};

/* The delay of one direction; NAN: not known. */
struct path_delay {
	double floor_ns;
	double delay_ns, worst_ns, noise_ns, bound_ns; /* of the newest samples */
	double spread_ns;			       /* mean deviation */
	int64_t at_ns;				       /* of the newest sample; 0: none */
};

/* A candidate path. Times are CLOCK_MONOTONIC. */
struct path_facts {
	unsigned int slot, id; /* paths[slot] of the map, and its entry there */
	uint16_t sport;	       /* host order */
	uint32_t group;	       /* of those that share a route; 0: undecided. Numbers may change */
	enum pathlive_state state;
	bool usable;   /* up, not diverted, and measured recently */
	bool received; /* a probe of it was replied to, or received by the peer, ever */
	struct path_delay out, in;
	uint64_t sent, replied, lost;	  /* probes; lost: no reply within a second */
	uint64_t hops[PATHLIVE_HOPS_MAX]; /* for paths_hop_address(); 0: no reply */
	int backup;			  /* id of the candidate that takes over; -1: none */
	enum path_use use;
	uint64_t interval_ns, deadline_ns;	/* in force */
	unsigned int qps;			/* that use it now */
	uint64_t diverted_ns, diverted_packets; /* packets use the backup since; 0: none does */
};

struct path_pair_facts {
	unsigned int slot;
	struct esc_path_key key; /* src is ours */
	uint8_t port;		 /* index into `ports` */
	char peer[256];		 /* host */
	bool crowded;		 /* a queue pair that sends has no candidate */
};

/* The pair in a slot, valid until the loop goes on; NULL: none. */
const struct path_pair_facts *paths_pair(const struct paths *paths, unsigned int slot);
/* Candidates by id; returns how many, 0: no such slot. */
size_t paths_candidates(const struct paths *paths, unsigned int slot,
			struct path_facts out[ESC_PATHS_MAX]);
/* Of the last 5 to 10 s, on the way to the peer. No samples: not known, or no such candidate. */
void paths_owd_out(const struct paths *paths, unsigned int slot, unsigned int id,
		   struct quantiles *out);
/*
 * The candidate of the route that a packet with source port @sport takes: its own, or that of its
 * group. -ENOENT: not known.
 */
int paths_id_of(const struct paths *paths, unsigned int slot, uint16_t sport);
/*
 * The direction to an address, by the probes of the last 5 to 10 s on the candidates that queue
 * pairs use: the same source ports, and so the same routes. Where that is not known, on all.
 */
struct path_out_facts {
	bool up;	      /* it replies to probes */
	unsigned int paths;   /* candidates that were measured */
	uint16_t source_port; /* of the newest sample, */
	int64_t at_ns;	      /* CLOCK_MONOTONIC */
	struct quantiles owd;
	int64_t bound_ns; /* with owd.samples */
};
/* @delays: with all below `up`, which costs time. False: no such pair, or it never replied. */
bool paths_get_out(const struct paths *paths, const struct esc_path_key *key, bool delays,
		   struct path_out_facts *out);
/* A new number: a candidate's floor in the map `paths` has changed. */
uint32_t paths_floors(const struct paths *paths);
/* The address behind a hop; NULL: none. */
const struct esc_address *paths_hop_address(const struct paths *paths, uint64_t hop);

#define PATHS_FAILOVER_BUCKETS 12

/* How often the candidates of each use are probed within the budget. */
struct pathbudget_share {
	uint64_t interval_ns[PATH_USES];
	double wanted_pps, given_pps;
	uint32_t tries_pps; /* left for surveys */
	bool limited;	    /* some are probed less often than wanted */
};

/* Received ICMP errors "time exceeded". Each is counted once. */
struct paths_quotes {
	uint64_t matched;   /* the reply that a request waits for */
	uint64_t unmatched; /* a path request that none waits for: late, twice, or forged */
	uint64_t other;	    /* no path request of ours is quoted */
	uint64_t overflow;  /* the socket's buffer was full */
};

struct paths_facts {
	bool on;
	char note[192];		     /* why not, or what is missing; "": nothing */
	size_t pairs, candidates[4]; /* by enum pathlive_state */
	uint64_t pairs_refused;	     /* no slot was free */
	uint32_t budget_pps;
	struct pathbudget_share share;
	uint64_t sent, failed; /* probes handed to the kernel, and refused by it */
	int last_error;
	uint64_t replied, lost; /* of all candidates there were */
	uint64_t tries;		/* ports probed with a low hop limit */
	struct paths_quotes quotes;
	uint64_t failovers; /* times that packets were diverted to a backup */
	uint64_t returns;
	uint64_t failover[PATHS_FAILOVER_BUCKETS]; /* by duration */
	double failover_sum_s;
};
void paths_get(const struct paths *paths, struct paths_facts *out);

/* --- for the module that uses them --- */

/*
 * Called at the end of every tick: each 10 ms while candidates are in use by steered queue pairs,
 * else each 250 ms at most. One function; NULL: none.
 */
typedef void paths_tick_fn(void *context, uint64_t now_local_ns);
void paths_on_tick(struct paths *paths, paths_tick_fn *fn, void *context);
/* Whether queue pairs use the two addresses, so that candidate paths between them are probed. */
bool paths_has(const struct paths *paths, const struct esc_path_key *key);
/*
 * What sends these probes: the only one that may send path requests between the two addresses, for
 * the peer drops a number that it has seen. NULL: none is open. Until paths' next timer.
 */
struct pathsend_pair *paths_sending(const struct paths *paths, const struct esc_path_key *key);
/*
 * For other path requests: the thread that sends them, and a function that gets the records of
 * replies to those of no candidate path, surveys included. NULL: none.
 */
struct pathsend *paths_sender(struct paths *paths);
typedef void paths_record_fn(void *context, const struct esc_path_record *record);
void paths_on_record(struct paths *paths, paths_record_fn *fn, void *context);
/* Reads the records that have come; a tick, which does it too, may be 250 ms away. */
void paths_read_records(struct paths *paths);
/* They are probed: switched on, and the kill switch is off. */
bool paths_are_probed(const struct paths *paths);
/*
 * No reply comes over the backup of candidate @id, and the peer's programs report on neither:
 * packets use their own path again. False: no such candidate, or its peer does report.
 */
bool paths_release(struct paths *paths, unsigned int slot, unsigned int id);

#endif

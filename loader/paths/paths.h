/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Candidate paths: to each address of a member's that this host has queue pairs with, a few
 * source ports that spread over the fabric's paths, probed all the time. Which ports
 * share a path, how long each takes, which is dead, who stands in for whom.
 */
#ifndef ESC_LOADER_PATHS_H
#define ESC_LOADER_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"
#include "pacing/pathlive.h"
#include "budget.h"
#include "probe/probe.h"

struct daemon;
struct paths;

/*
 * Takes over the slots that a daemon before left. Registers timers with daemon->event.
 */
int paths_new(struct paths **out, struct daemon *daemon, char **error);
/* Slots stay as they are: packets go on by them. NULL is fine. */
void paths_free(struct paths *paths);
/* After a reload: all from daemon->config. */
void paths_reconfigure(struct paths *paths);
/* A link came or went: known at once, without probes. */
void paths_see_links(struct paths *paths);

/*
 * Nothing could be heard until now: what the peers sent in the meantime is not said to be
 * missing. Before this host answers again.
 */
void paths_hear_anew(struct paths *paths);

/* --- what is known --- */

/* A lane as a look finds it. Times are CLOCK_MONOTONIC; delays NAN: not known. */
struct path_lane_facts {
	unsigned int slot, lane;
	uint16_t sport; /* host order */
	uint32_t group; /* lanes of one group share a path; 0: undecided. Numbers may change */
	enum pathlive_state state;
	bool usable; /* up, not diverted, and measured lately */
	bool heard;  /* a probe of it was answered, or the peer says so, ever */
	double floor_ns, delay_ns, worst_ns, noise_ns, bound_ns;		/* one way there */
	double in_floor_ns, in_delay_ns, in_worst_ns, in_noise_ns, in_bound_ns; /* and back */
	int64_t measured_ns;		  /* of the newest sample in delay_ns; 0: none */
	uint64_t sent, answered, lost;	  /* probes; lost: not answered within a second */
	uint64_t hops[PATHLIVE_HOPS_MAX]; /* paths_hop_address() knows them; 0: silent */
	int standby;			  /* lane that takes over; -1: none */
	enum path_use use;
	uint64_t interval_ns;			/* in force */
	unsigned int qps;			/* whose packets take it now */
	uint64_t diverted_ns, diverted_packets; /* packets take the standby since; 0: none does */
	uint64_t deadline_ns;
};

struct path_pair_facts {
	unsigned int slot;
	struct esc_path_key key; /* src is ours */
	uint8_t port;		 /* index into `ports` */
	char peer[256];		 /* host */
	size_t lanes;		 /* that there are */
	unsigned int qps;
	size_t groups;	       /* paths that were told apart */
	bool complete;	       /* and there are no more of them, at 99.9% */
	bool silent;	       /* no switch on the way answers: delays decide */
	bool answers;	       /* the peer's programs answer */
	bool crowded;	       /* a queue pair that moves is followed by no lane */
	unsigned int distance; /* switches on the way; 0: not known, or none */
	uint32_t routes;       /* raised when routes changed */
	const char *note;      /* NULL: nothing to say */
};

/* By slot; valid until the loop goes on. Returns how many. */
size_t paths_pairs(const struct paths *paths, const struct path_pair_facts **out);
/* Lanes by number, those that are there; 0: no such slot. */
size_t paths_lanes(const struct paths *paths, unsigned int slot,
		   struct path_lane_facts out[ESC_PATH_LANES_MAX]);
/*
 * The lane whose path a packet with that source port takes: its own, or the one of its
 * group; -ENOENT: not known.
 */
int paths_lane_of(const struct paths *paths, unsigned int slot, uint16_t sport);

/*
 * Nothing is answered on the standby of lane @lane, and the peer's programs say nothing of either:
 * packets leave as static ECMP has it. False: there is no such lane, or its peer does speak.
 */
bool paths_let_go(struct paths *paths, unsigned int slot, unsigned int lane);

/* Of the last 5 to 10 s; samples 0: none. */
void paths_quantiles(const struct paths *paths, unsigned int slot, unsigned int lane,
		     struct quantiles *out, struct quantiles *in);
/* Another number: a lane's floor in the map `paths` is another. 0 for NULL. */
uint32_t paths_floors(const struct paths *paths);
/* The address behind a hop; NULL: none. */
const struct esc_address *paths_hop_address(const struct paths *paths, uint64_t hop);

/*
 * Called after every look: each 10 ms while lanes are active (mode steer), else each 250 ms. One
 * listener; NULL takes it away.
 */
typedef void paths_listener_fn(void *context, uint64_t now_ns);
void paths_listen(struct paths *paths, paths_listener_fn *fn, void *context);

/* --- for `status` and the metrics --- */

#define PATHS_FAILOVER_BUCKETS 12
/* Upper bounds of the buckets but the last, seconds. */
extern const double paths_failover_bounds[PATHS_FAILOVER_BUCKETS - 1];

struct paths_facts {
	bool there, on;
	char note[192];		/* why not, or what is missing; "" nothing */
	size_t pairs, lanes[4]; /* by enum pathlive_state */
	uint64_t pairs_refused; /* no slot was free */
	uint32_t budget_pps;
	struct pathbudget_share share;
	uint64_t sent, failed; /* probes handed to the kernel, and refused by it */
	int last_error;
	uint64_t answered, lost; /* of all lanes there were */
	uint64_t tries;		 /* ports tried with a short reach */
	uint64_t failovers;	 /* times that packets took a standby */
	uint64_t returns;
	uint64_t failover[PATHS_FAILOVER_BUCKETS]; /* by time from the last word heard */
	double failover_sum_s;
};
void paths_get(const struct paths *paths, struct paths_facts *out);

#endif

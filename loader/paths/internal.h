/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of candidate paths share; nobody else includes it. */
#ifndef ESC_LOADER_PATHS_PARTS_H
#define ESC_LOADER_PATHS_PARTS_H

#include <jansson.h>

#include "dataplane/dataplane.h"
#include "pacing/pathset.h"
#include "paths.h"
#include "probe/probe.h"
#include "stat.h"

struct ring_buffer;
struct sd_event_source;

#define PATHS_FAST_NS 10000000ull   /* a look, while lanes are active */
#define PATHS_TRYING_NS 20000000ull /* while ports are surveyed */
#define PATHS_SLOW_NS 250000000ull
#define PATHS_ROUND_NS 250000000ull /* who is there, who is used, who stands in */
#define PATHS_HORIZON 6 /* rounds of that after which a request is lost: 1.25 s at least */
#define PATHS_SURVEYS 4 /* of a pair at a time */
#define PATHS_OWN_PORTS_MAX                                                                        \
	100 /* of queue pairs that are surveyed; the rest of the set is for new ones */
#define PATHS_ADDRESSES_MAX 4096 /* of switches */
#define PATHS_EVENTS_PER_S 32	 /* deaths of a spine are one, not a thousand */

struct paths_lane {
	uint16_t sport; /* 0: there is none */
	struct pathlive_damp damp;
	struct pathstat out, in, rtt;
	enum path_use use;
	uint64_t interval_ns, deadline_ns;
	unsigned int qps, orders; /* whose packets take it, and that have an order for it */
	uint64_t since_ns;
	uint64_t sent, answered, lost;
	uint64_t sent_then[PATHS_HORIZON];
	uint64_t diverted_ns; /* as it was told */
	int standby;
};

/* The switches on the way of one port, one after the other. */
struct paths_survey {
	uint16_t sport; /* 0: nothing under way */
	uint8_t hop;	/* 1.. */
	uint8_t attempts;
	bool waits; /* for an answer, until due_ns; else it is due then */
	uint64_t due_ns;
	uint32_t sequence;
	uint64_t hops[PATHSET_HOPS];
};

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
	bool seen;		       /* in this round */
	unsigned int qps;
	uint16_t own[PATHS_OWN_PORTS_MAX];	 /* ports of queue pairs, in this round */
	size_t own_count, own_awake, own_before; /* those that move come first; how many did */
	bool crowded;				 /* one of those that move has no lane */
	bool changed; /* ports or what is known of them: lanes have to be chosen anew */

	struct paths_lane lanes[ESC_PATH_LANES_MAX];
	struct pathset set;
	unsigned int distance, distance_next; /* switches on the way; 0: not known, or none */
	bool distance_known;
	struct paths_survey surveys[PATHS_SURVEYS];
	struct {
		unsigned int answers, misses;
		uint64_t again_ns; /* it is silent: not before that */
	} hop[PATHSET_HOPS];
	uint64_t verify_due_ns;
	uint64_t unsettled_ns; /* until then ports are verified more often */
	unsigned int verified; /* turns */
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
	struct daemon *daemon;
	struct ring_buffer *ring;
	struct pathsend *send;
	struct sd_event_source *timer, *icmp[2];
	int icmp_fd[2]; /* -1: none */
	char note[192];

	struct esc_paths *map; /* mapped */
	int slots_fd, steers_fd;
	struct paths_pair *by_slot[ESC_PATH_SLOTS_MAX];
	size_t pairs;
	uint64_t pairs_refused;
	bool refusal_told;

	struct port_info ports[ESC_PORTS_MAX]; /* by slot, of this round; no name: none */

	struct pathlive_config live;
	bool on, paused;
	uint64_t random;
	uint64_t round_due_ns, ports_due_ns;
	struct pathbudget_share share;
	bool bites_told;

	double try_tokens, try_pace; /* tries a second, as switches answer */
	uint64_t try_ns;
	unsigned int try_turn; /* slot that is first */
	bool trying;
	uint64_t tries;
	struct paths_origin origins[2 * ESC_PORTS_MAX];
	struct esc_address *addresses; /* of switches, by number - 1 */
	size_t address_count;

	uint64_t events_second, events_told, events_left_out;
	uint64_t answered, lost; /* of all lanes there were */
	uint64_t failovers, returns, failover[PATHS_FAILOVER_BUCKETS];
	double failover_sum_s;
	uint32_t floors; /* how often one was told anew */

	paths_listener_fn *listener;
	void *listener_context;
	struct path_pair_facts *facts; /* of paths_pairs() */
};

/* paths_kernel.c: maps and the ring */
int paths_open(struct paths *paths, char **error);
void paths_close(struct paths *paths);
/* A free slot is written for @pair, whose key, port and peer are set. -ENOSPC: all are taken. */
int paths_slot_take(struct paths *paths, struct paths_pair *pair);
void paths_slot_free(struct paths *paths, struct paths_pair *pair);
struct paths_pair *paths_find(const struct paths *paths, const struct esc_path_key *key);
struct esc_lane *paths_map_lane(const struct paths *paths, const struct paths_pair *pair,
				unsigned int lane);
/* The port of a lane, from nothing: what was known of another is gone. 0: none. */
void paths_lane_write(struct paths *paths, struct paths_pair *pair, unsigned int lane,
		      uint16_t sport);
void paths_read_records(struct paths *paths);

/* paths.c: fresh facts about interfaces */
void paths_read_ports(struct paths *paths);

/* paths_pair.c: which pairs there are, which of their ports are lanes */
void paths_follow_qps(struct paths *paths, uint64_t now_ns);
void paths_choose_lanes(struct paths *paths, struct paths_pair *pair, uint64_t now_ns);
void paths_pair_end(struct paths *paths, struct paths_pair *pair);
/* Its memory alone: the slot stays. */
void paths_pair_forget(struct paths_pair *pair);
void paths_end_all(struct paths *paths);
void paths_adopt(struct paths *paths, uint64_t now_ns);
int paths_set_index(const struct paths_pair *pair, uint16_t sport);
/* Of the first @count of own[]: all own_count, or the own_awake that move. */
bool paths_is_own(const struct paths_pair *pair, uint16_t sport, size_t count);
int paths_pair_lane_of(const struct paths_pair *pair, uint16_t sport);
bool paths_pair_answers(const struct paths_pair *pair, uint64_t now_ns);

/* paths_use.c: who takes which lane, how often each is probed */
void paths_follow_uses(struct paths *paths, uint64_t now_ns);

/* paths_survey.c: the switches on the way */
int paths_survey_open(struct paths *paths);
void paths_survey_close(struct paths *paths);
void paths_survey_turn(struct paths *paths, uint64_t now_ns);
/* Perhaps it is the routes that changed: all ports are looked at again, and soon once more. */
void paths_unsettle(struct paths_pair *pair, uint64_t now_ns);
/* A packet came from so far away. */
void paths_see_distance(struct paths_pair *pair, uint8_t hop_limit);
/* No switch beyond the first one answers. */
bool paths_is_silent(const struct paths_pair *pair);
/* Switches that can differ from port to port: the last one is the same for all. */
unsigned int paths_forks(const struct paths_pair *pair);

/* paths_look.c: dead or alive */
void paths_judge(struct paths *paths, struct paths_pair *pair, uint64_t now_ns);
void paths_choose_standbys(struct paths *paths, struct paths_pair *pair);
void paths_lane_facts(const struct paths *paths, const struct paths_pair *pair, unsigned int lane,
		      uint64_t now_ns, struct path_lane_facts *out);

/* paths_tell.c: events */
void paths_tell_down(struct paths *paths, const struct paths_pair *pair, unsigned int lane,
		     const struct pathlive_lane *live);
void paths_tell_up(struct paths *paths, const struct paths_pair *pair, unsigned int lane,
		   int64_t died_ns, uint64_t diverted_ns, uint64_t packets);
void paths_tell_let_go(struct paths *paths, const struct paths_pair *pair, unsigned int lane,
		       uint64_t diverted_ns, uint64_t packets);
void paths_tell_failover(struct paths *paths, const struct paths_pair *pair, unsigned int lane,
			 const struct esc_lane *now, int64_t heard_ns);
void paths_tell_routes(struct paths *paths, const struct paths_pair *pair);
void paths_tell_budget(struct paths *paths);
void paths_tell_full(struct paths *paths, const struct paths_pair *pair);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grouping of source ports to one peer into paths: which ports share one, how many paths there
 * are, and which ports to try next. One struct pathset per (source, destination); owner: the
 * caller. No allocation; some 50 KB.
 *
 * Two kinds of evidence. Hops: the addresses that replied to probes with a limited TTL decide
 * where both ports have a reply at a distance at which replies differ. Else the delays:
 * correlated queues are the same queue, after subtraction of the part that all ports have in
 * common (the host's own link, the last one). Delays without queues decide only if the floors
 * differ. A port without evidence is undecided: it is in no group, and counts for no path.
 */
#ifndef ESC_PACING_PATHSET_H
#define ESC_PACING_PATHSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATHSET_PORTS_MAX 128
#define PATHSET_GROUPS_MAX 64
#define PATHSET_HOPS 8
#define PATHSET_SAMPLES 48
/* RoCE's range of source ports, which ECMP hashes well. */
#define PATHSET_PORT_FIRST 0xc000u
#define PATHSET_PORT_COUNT 0x4000u

struct pathset_config {
	double confidence; /* probability that all paths were found, if all are equally likely */
	unsigned paths_wanted; /* number at which the search ends; 0: all */
	unsigned ports_most;   /* maximum to try; at most PATHSET_PORTS_MAX */
	/*
	 * Switches on the path, by the TTL of replies; 0: not known, then hops distinguish paths,
	 * but never show that two are one: a switch that does not reply may be the fork.
	 */
	unsigned distance;
	double floor_noise_ns; /* closer floors count as equal */
	double delay_noise_ns; /* deviation of one delay sample */
};

/* 0.95, 0, 64, 1 us, 1 us. */
void pathset_config_default(struct pathset_config *config);

/* State of a port. */
struct pathset_port {
	uint16_t sport; /* host order */
	uint16_t group; /* of the last pathset_group(): 1.., or 0: undecided */
	bool fresh;	/* observed since the routes last changed */
	/* The caller's number of the address that replied at distance i + 1; 0: none. */
	uint64_t hops[PATHSET_HOPS];
	uint64_t next_hops[PATHSET_HOPS]; /* observed once, to be confirmed */
	bool changing;
	double floor_ns; /* one way or both, the same for all ports; NAN: not known */
	double next_floor_ns;
	/* Delay in the slots of pathset_sample(); NAN: none. */
	float delay_ns[PATHSET_SAMPLES];
};

struct pathset {
	struct pathset_config config;
	struct pathset_port ports[PATHSET_PORTS_MAX];
	size_t count;
	uint64_t slots[PATHSET_SAMPLES]; /* number of the time slot */
	uint32_t generation;		 /* incremented when the routes changed */
	/* Of the last pathset_group(): */
	size_t groups;
	uint16_t representative[PATHSET_GROUPS_MAX + 1]; /* index into ports[], by group */
};

void pathset_init(struct pathset *set, const struct pathset_config *config);

/* Adds a port to the candidates: its index, -EEXIST, or -ENOSPC. */
int pathset_add(struct pathset *set, uint16_t sport);

/*
 * The hops of a port as probes found them, 0 without a reply. A contradiction to an older reply
 * is accepted when it is received twice, or when the port was not fresh. True: the routes
 * changed; generation was incremented, and all other ports are no longer fresh.
 */
bool pathset_add_hops(struct pathset *set, size_t port, const uint64_t hops[PATHSET_HOPS]);

/* The port's delay floor; result as above. A changed floor too has to be observed twice. */
bool pathset_add_floor(struct pathset *set, size_t port, double floor_ns);

/*
 * A delay of ports[@port] in time slot @slot: ports are compared by samples in the same slots (of
 * about the duration of a queue: milliseconds). The last PATHSET_SAMPLES are kept.
 */
void pathset_sample(struct pathset *set, size_t port, uint64_t slot, double delay_ns);

enum pathset_relation { PATHSET_UNKNOWN = 0, PATHSET_SAME, PATHSET_DIFFERENT };

/* Relation of two ports by all evidence. */
enum pathset_relation pathset_relate(const struct pathset *set, size_t a, size_t b);

/*
 * Groups the ports: ports[].group, groups, representative[]. A representative stays so while its
 * group exists; a new one is the port with the most complete hops. Returns the number of groups.
 */
size_t pathset_group(struct pathset *set);

/*
 * Ports to probe next, at most @most: first those that are not fresh (already in ports[]), then
 * new random ones, which are added. @random: 64 random bits, new for each call. Returns their
 * number; 0: by the stopping rule the search is complete, or no port is left.
 *
 * Stopping rule: with k paths found by n ports, another one that is as likely as these would have
 * been missed with a probability of at most (k + 1) (k / (k + 1))^n: the search continues until
 * that is below 1 - confidence (the stopping points of Paris traceroute's multipath detection: 6,
 * 11, 16, 21 ports for 1, 2, 3, 4 paths at 95%). Undecided ports do not count.
 */
size_t pathset_next(struct pathset *set, uint64_t random, size_t most, uint16_t *ports);

/* Number of ports of known path that the rule requires for @paths found. */
unsigned pathset_ports_needed(double confidence, unsigned paths);

/* The search is over for these routes. */
bool pathset_is_complete(const struct pathset *set);

#endif

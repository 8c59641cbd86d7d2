/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of a peer's candidate source ports share a path, how many paths there are,
 * and which ports to try next. One struct pathset per (source, destination); owner: the
 * caller. No allocation; some 50 KB.
 *
 * Two things tell ports apart. Hops: the addresses that answered probes of
 * limited reach decide, wherever both ports have an answer at a distance at which answers
 * differ. Else the delays: queues that come and go together are the same queue, once
 * that part is taken off which all ports have in common (the host's own link, the
 * last one). Delays without queues decide only if the floors differ. What
 * nothing decides is left undecided: such a port is in no group, and counts for no path.
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
/* What RoCE uses as source ports, and ECMP hashes well. */
#define PATHSET_PORT_FIRST 0xc000u
#define PATHSET_PORT_COUNT 0x4000u

struct pathset_config {
	double confidence;     /* that no path is left unfound, if all are equally likely */
	unsigned paths_wanted; /* enough: the search ends; 0: all there are */
	unsigned ports_most;   /* to try; at most PATHSET_PORTS_MAX */
	/* Switches on the way, as the hop limit of an answer shows; 0: not known, then hops
	 * tell paths apart, but never that two are one: a silent switch may hide the fork. */
	unsigned distance;
	double floor_noise_ns; /* floors closer than that are not told apart */
	double delay_noise_ns; /* deviation of one sample of a profile */
};

/* 0.95, 0, 64, 1 us, 1 us. */
void pathset_config_default(struct pathset_config *config);

/* What is known of a port. */
struct pathset_port {
	uint16_t sport; /* host order */
	uint16_t group; /* of the last pathset_group(): 1.., or 0: undecided */
	bool fresh;	/* seen since the routes last changed */
	/* The caller's number for the address that answered at distance i + 1; 0: none did. */
	uint64_t hops[PATHSET_HOPS];
	uint64_t next_hops[PATHSET_HOPS]; /* seen once, not believed yet */
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
	uint64_t slots[PATHSET_SAMPLES]; /* the number of the slot that is kept there */
	uint32_t generation;		 /* of the routes: raised when they changed */
	/* Of the last pathset_group(): */
	size_t groups;
	uint16_t representative[PATHSET_GROUPS_MAX + 1]; /* index into ports[], by group */
};

void pathset_init(struct pathset *set, const struct pathset_config *config);

/* Adds a port to the candidates: its index, -EEXIST, or -ENOSPC. */
int pathset_add(struct pathset *set, uint16_t sport);

/*
 * The hops of ports[@port] as one round of probes found them, 0 where nobody answered. An
 * answer that contradicts an older one is believed when it came twice, or when the
 * port was not fresh. True: the routes changed; generation was raised, and what
 * all other ports have is no longer fresh.
 */
bool pathset_see_hops(struct pathset *set, size_t port, const uint64_t hops[PATHSET_HOPS]);

/* Its delay floor, from now on; true as above. A changed floor too has to be seen twice. */
bool pathset_see_floor(struct pathset *set, size_t port, double floor_ns);

/*
 * A delay of ports[@port] in time slot @slot: ports that are to be compared have to be sampled in
 * the same slots (of about a queue's life: milliseconds). The last PATHSET_SAMPLES are kept.
 */
void pathset_sample(struct pathset *set, size_t port, uint64_t slot, double delay_ns);

enum pathset_relation { PATHSET_UNKNOWN = 0, PATHSET_SAME, PATHSET_DIFFERENT };

/* How two ports are related, by all that is known of them. */
enum pathset_relation pathset_relate(const struct pathset *set, size_t a, size_t b);

/*
 * Groups the ports: ports[].group, groups, representative[]. A port that was representative
 * stays so while its group lasts; else the one seen most completely is. Returns the number of
 * groups.
 */
size_t pathset_group(struct pathset *set);

/*
 * Ports to probe next, at most @most: such as are not fresh first (their index is in ports[]
 * already), then new ones at random, added here. @random: 64 random bits, new for each call.
 * Returns how many; 0: by the stop rule the search is over, or no port is left.
 *
 * Stop rule: with k paths found by n ports, another one that is as likely as these would
 * have been missed with a chance of at most (k + 1) (k / (k + 1))^n: the search goes on
 * until that is below 1 - confidence (the stopping points of Paris traceroute's multipath
 * detection: 6, 11, 16, 21 ports for 1, 2, 3, 4 paths at 95%). Undecided ports do not count.
 */
size_t pathset_next(struct pathset *set, uint64_t random, size_t most, uint16_t *ports);

/* How many ports of known path the rule asks for when @paths were found. */
unsigned pathset_ports_needed(double confidence, unsigned paths);

/* The search is over for these routes. */
bool pathset_is_complete(const struct pathset *set);

#endif

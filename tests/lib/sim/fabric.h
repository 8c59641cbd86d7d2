/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A Clos of queues: host uplink, leaf to spine, spine to leaf, leaf to host.
 * Each queue is shared by all that cross it and carries bursts of other traffic.
 */
#ifndef ESC_TESTS_SIM_FABRIC_H
#define ESC_TESTS_SIM_FABRIC_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/lib/rng.h"

#define FABRIC_HISTORY 1024

struct fabric_config {
	size_t hosts, hosts_per_leaf, spines;
	double load; /* of every link */
	double rate_bps;
	double burst_bytes;
	double on_ms, off_ms; /* bursts of bursts; 0: none. The load is the mean */
	bool priority;	      /* probes wait for at most the packet on the wire */
	/* Links before which TCP keeps a queue standing: this part of those between switches, and
	 * of the hosts' own. */
	double full_part, full_hosts;
	double full_ns; /* its depth, from which it falls by a third now and then */
	double full_from_s, full_to_s;
};

/* Work left in a queue after each arrival, latest at [next - 1]. */
struct queue {
	struct rng rng;
	double arrival_ns[FABRIC_HISTORY];
	double work_ns[FABRIC_HISTORY];
	double switch_ns; /* when the bursts of bursts pause */
	bool stands_full;
	double full_phase;
	size_t next;
};

struct fabric {
	struct fabric_config config;
	struct queue *queues;
	size_t leaves, count;
	struct rng rng;
};

int fabric_init(struct fabric *fabric, const struct fabric_config *config, uint64_t seed);
void fabric_free(struct fabric *fabric);

/* Time in queues of a probe that leaves @from at @at_ns for @to by spine @path. */
double fabric_cross(struct fabric *fabric, size_t from, size_t to, unsigned path, double at_ns);

#endif

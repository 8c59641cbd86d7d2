/* SPDX-License-Identifier: BSD-2-Clause */
/* What is run when, and what it printed. Pure. */
#ifndef ESC_RING_INTERNAL_H
#define ESC_RING_INTERNAL_H

#include "ring.h"

#define RING_LOADS 4
extern const unsigned int ring_loads[RING_LOADS]; /* queue pairs: 1, 2, 4, 8 */

/* From the end of the run of all pairs: hosts read their files meanwhile. */
#define RING_LEAD_NS 5000000000ull
/* Of a step beside the traffic: queue pairs are connected, a process ends. */
#define RING_SLACK_NS 10000000000ull
#define RING_CLIENT_NS 1000000000ull /* in a step: servers listen by then */
#define RING_END_NS 500000000ull     /* before a step's end whatever runs is ended */

struct ring_plan {
	uint64_t begin_ns; /* fabric time of the first step */
	uint64_t traffic_ns;
	unsigned int orders; /* 1: in the order of hosts alone */
};
uint64_t ring_step_ns(const struct ring_plan *plan);
unsigned int ring_steps(const struct ring_plan *plan);

/* Each NIC's port of TCP on a host, so that its NICs do not need each other's. */
unsigned int ring_port(unsigned int place, unsigned int step);

/* An end of a queue pair. */
struct ring_end {
	const char *device;
	unsigned int port, tcp_port, qps, seconds;
	int gid_index;	   /* -1: InfiniBand */
	int traffic_class; /* -1: perftest's */
	const char *to;	   /* of the server; NULL: this is one */
};
#define RING_ARGV_MOST 24
struct ring_argv {
	const char *words[RING_ARGV_MOST];
	char numbers[8][12];
	size_t count, number_count;
};
/* @out refers to @end. */
void ring_argv(const struct ring_end *end, struct ring_argv *out);

#define RING_QPS_MOST 8
struct ring_result {
	double gbps; /* the average; 0: there is none */
	uint32_t remote_qpns[RING_QPS_MOST];
	size_t qpn_count;
};
/* Of what a client printed with --report_gbits. */
void ring_parse(const char *text, struct ring_result *out);

/*
 * The order of @members ([{host, ...}]) by a rank file of Open MPI (`topo --ranks`), or one of
 * names of hosts, one a line: places in @out. Members that it does not have come last, as they are.
 * @text NULL: as they are. 0, or -EINVAL with *@error, which names the line.
 */
int ring_members_order(const json_t *members, const char *text, size_t *out, char **error);

#endif

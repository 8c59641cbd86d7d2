/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread of NIC failover, between its files: state.c evaluates, probe.c sends and receives,
 * watch.c polls.
 */
#ifndef ESC_NIC_WATCH_H
#define ESC_NIC_WATCH_H

#include <pthread.h>

#include "internal.h"

struct nic_sockets {
	int first, second; /* -1: not open */
};

struct nic_watch {
	pthread_t thread;
	pthread_mutex_t lock; /* all below; the thread has it but while it waits */
	bool ends;
	int wake_fd, report_fds[2], links_fd, query_fd;
	const struct nic_kernel *kernel;
	uint16_t port;
	uint64_t probe_interval_ns, dead_after_ns, return_after_ns;
	uint64_t cookie, due_ns, quiet_since_ns;
	uint32_t changes_seen; /* of the programs' control block */
	bool resends;
	struct nic_plan plan;
	struct nic_sockets sockets[ESC_NIC_LOCAL_MAX];
	struct nic_device devices[2 * NIC_PAIRS_MAX];
	size_t device_count;
	struct nic_used used[NIC_USED_MAX];
	size_t used_count, left_out;
	uint64_t failovers[NIC_REASONS];
	uint64_t probes_sent, probes_answered, resent;
};

static inline bool route_leaves_second(unsigned int route)
{
	return ESC_NIC_LEAVES_SECOND >> route & 1;
}

static inline bool route_reaches_second(unsigned int route)
{
	return ESC_NIC_REACHES_SECOND >> route & 1;
}

/* --- state.c --- */

void nic_device_add(struct nic_watch *watch, const char *name);
const struct nic_device *nic_used_device(struct nic_watch *watch, const struct nic_used *used,
					 bool second);
/* A pair of addresses begins to be watched. */
void nic_used_begin(struct nic_watch *watch, struct nic_used *used, uint64_t now);
/* Devices, our addresses, routes: as they are now, into the maps, and as reports. */
void nic_evaluate(struct nic_watch *watch, uint64_t now);

/* --- probe.c --- */

void nic_probe_send(struct nic_watch *watch, unsigned int number, uint64_t now);
/* What the route before may have lost last, on the new one. */
void nic_probe_resend(struct nic_watch *watch, struct nic_used *used);
void nic_probe_receive(struct nic_watch *watch, int fd);
void nic_sockets_close(struct nic_watch *watch);

#endif

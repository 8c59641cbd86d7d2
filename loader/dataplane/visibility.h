/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of a port's RDMA traffic this host can see, told truthfully. */
#ifndef ESC_LOADER_VISIBILITY_H
#define ESC_LOADER_VISIBILITY_H

#include <stddef.h>
#include <stdint.h>

#include "net/rdma.h"

struct visibility {
	const char *mode; /* packets | control | counters | none */
	char note[256];
};

/*
 * @roce_packets: RoCEv2 packets our programs have counted on the port, both
 * directions. `control` is not said here but by visibility_add_ready().
 */
void visibility_decide(const char *netdev, const struct rdma_facts *rdma, uint64_t roce_packets,
		       struct visibility *out);

/*
 * What the owners of queue pairs add to a decision: with @ready > 0 queue
 * pairs that have been connected for some time on a device whose packets do
 * not pass the kernel, it is `control`.
 */
void visibility_add_ready(const char *netdev, const char *device, size_t ready,
			  struct visibility *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of a port's RDMA traffic this host can see, told truthfully. */
#ifndef ESC_LOADER_VISIBILITY_H
#define ESC_LOADER_VISIBILITY_H

#include <stdint.h>

#include "rdma.h"

struct visibility {
	const char *mode; /* packets | control | counters | none */
	char note[256];
};

/*
 * @roce_packets: RoCEv2 packets our programs have counted on the port, both
 * directions. `control` needs a trace of the kernel's modify-QP path, which
 * this version does not have, so it is never said.
 */
void visibility_decide(const char *netdev, const struct rdma_facts *rdma, uint64_t roce_packets,
		       struct visibility *out);

#endif

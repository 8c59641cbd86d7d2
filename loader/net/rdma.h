/* SPDX-License-Identifier: BSD-2-Clause */
/* The RDMA device of a network interface, from sysfs. */
#ifndef ESC_LOADER_RDMA_H
#define ESC_LOADER_RDMA_H

#include <stdbool.h>

struct rdma_facts {
	char device[64]; /* "mlx5_0", "" none */
	unsigned int port;
	bool software;	 /* soft-RoCE or soft-iWARP: its packets pass the kernel */
	char driver[32]; /* "mlx5_core", "" unknown or none */
	bool counters;	 /* hw_counters/ or counters/ can be read */
};

/*
 * @sysroot: "/sys", or a captured tree. out->device is "" when no RDMA device
 * names @netdev in its GID table. Never fails: what cannot be read is absent.
 */
void rdma_read(const char *sysroot, const char *netdev, struct rdma_facts *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMA devices from sysfs, and their queue pairs as `rdma resource show qp` lists them. */
#ifndef ESC_NET_RDMA_H
#define ESC_NET_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdma_facts {
	char device[64]; /* "mlx5_0"; "" when none has the netdev in its GID table */
	unsigned int port;
	bool software;	 /* soft-RoCE or soft-iWARP: its packets pass the kernel */
	char driver[32]; /* "mlx5_core", "" unknown or none */
	bool counters;	 /* hw_counters/ or counters/ can be read */
};

/* @sysroot: "/sys", or a captured tree. What cannot be read is absent. */
void rdma_read(const char *sysroot, const char *netdev, struct rdma_facts *out);

#define RDMARES_DEVICES_MAX 64

struct rdmares_qp {
	uint32_t device; /* index */
	char name[32];	 /* of the device */
	uint32_t qpn, remote_qpn;
	bool has_remote;
	uint8_t port;	     /* 0: not reported */
	uint8_t type, state; /* as in struct esc_owner */
	uint32_t tid;	     /* the thread that made it; 0: the kernel, or a thread that is gone */
	char kernel[16];     /* the kernel's user: "nvme_rdma"; "" none */
};

struct rdmares {
	struct rdmares_qp *qps; /* by device, qpn */
	size_t count, room;
	struct rdmares_device {
		uint32_t index;
		char name[32];
	} devices[RDMARES_DEVICES_MAX]; /* those with a complete list */
	size_t device_count;
	size_t device_seen; /* of these many; at most RDMARES_DEVICES_MAX are queried */
};

/*
 * A NIC with thousands of queue pairs may take seconds; one that does not reply is left out of
 * `devices`. 0 or -errno; @out is to be freed either way.
 */
int rdmares_read(struct rdmares *out);
void rdmares_free(struct rdmares *list);

const struct rdmares_qp *rdmares_find(const struct rdmares *list, uint32_t device, uint32_t qpn);
bool rdmares_has_device(const struct rdmares *list, uint32_t device);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What RDMA netlink knows of the queue pairs of this host, as `rdma resource show qp`. */
#ifndef ESC_LOADER_RDMARES_H
#define ESC_LOADER_RDMARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	size_t count;
	uint32_t *devices; /* those with a complete list */
	size_t device_count;
	size_t device_seen; /* of these many; at most RDMARES_DEVICES_MAX are queried */
};

/*
 * Queries the kernel; a NIC with thousands of queue pairs may take seconds.
 * Returns 0 or -errno; what is in @out is to be freed either way. A device
 * that does not reply is left out of `devices`.
 */
int rdmares_read(struct rdmares *out);
void rdmares_free(struct rdmares *list);

const struct rdmares_qp *rdmares_find(const struct rdmares *list, uint32_t device, uint32_t qpn);
bool rdmares_has_device(const struct rdmares *list, uint32_t device);

#endif

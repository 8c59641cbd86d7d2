/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of perftest: in each step every NIC of a rail writes to its successor and is written to by
 * its predecessor, with 1, 2, 4 or 8 queue pairs, in the order of hosts and in that of a file.
 */
#ifndef ESC_RING_RING_H
#define ESC_RING_RING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_TOOL "ib_write_bw"
#define RING_NICS_MAX 64
#define RING_ORDERS 2
extern const char *const ring_orders[RING_ORDERS]; /* "host", "topology" */

/* A port of an RDMA device of this host. */
struct ring_nic_port {
	const char *subject, *device, *interface; /* "mlx5_0:1", "mlx5_0", "eth1" */
	unsigned int port;
	bool roce;
	int gid_index; /* -1: none, or InfiniBand */
};

struct ring_options {
	const char *socket; /* of the daemon */
	uint64_t traffic_ns;
	const char *order; /* text of a rank file or a list of hosts, or NULL */
	int traffic_class; /* -1: perftest's own */
	const struct ring_nic_port *ports;
	size_t port_count; /* RING_NICS_MAX at most */
};

/*
 * Runs it after the daemon's run of all pairs, for the time of its steps, at the rate that the NICs
 * can. New reference: {"rows": [{order, qps, nic, address, peer, to, gbps, idle_owd_ns, owd_ns},
 * ...], ...}, a row that has no `gbps` has `error` or `missed`; or {"note": why there are none}.
 * NULL with *@error: the file of the order.
 */
json_t *ring_run(const struct ring_options *options, char **error);

#endif

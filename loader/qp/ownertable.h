/* SPDX-License-Identifier: BSD-2-Clause */
/* Who owns which queue pair, as last read: by local number, and by peer and remote number. */
#ifndef ESC_LOADER_OWNERTABLE_H
#define ESC_LOADER_OWNERTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job.h"
#include "maps/maps.h"

struct ownertable;

struct owner {
	struct esc_owner_key key;
	struct esc_owner is;
	struct job job; /* of the process, read when it was first seen; empty: it was gone */
};

/* @proc: "/proc", or a recorded tree; borrowed. */
struct ownertable *ownertable_new(const char *proc);
void ownertable_free(struct ownertable *table);

/*
 * Takes over a fresh reading of the map: @entries (malloc'd, in any order,
 * jobs unset) belongs to the table. -ENOMEM: the table is as it was.
 */
int ownertable_replace(struct ownertable *table, struct owner *entries, size_t count);

/* All of them by local number; valid until the next replacement. */
const struct owner *ownertable_list(const struct ownertable *table, size_t *count);

/* The queue pair @qpn of an RDMA device ("mlx5_0"), or NULL. */
const struct owner *ownertable_local(const struct ownertable *table, const char *device,
				     uint32_t qpn);
/* The one that is connected to @remote_qpn of @remote, from @local (NULL: from anywhere). */
const struct owner *ownertable_remote(const struct ownertable *table,
				      const struct esc_address *remote, uint32_t remote_qpn,
				      const struct esc_address *local);

/*
 * The local queue pair of an entry of `qps`. tx: the one whose remote end the
 * packets go to; where only the numbers are known (ESC_OWNER_LISTED), the only
 * one on @device with this remote number. rx: the one that they come to.
 * @device: the RDMA device of the entry's interface, "" unknown: then the
 * addresses must fit. NULL: not known. UD has no remote end.
 */
const struct owner *ownertable_of_qp(const struct ownertable *table, const struct esc_qp_key *key,
				     const char *device);

/*
 * How many queue pairs of a device's port have been ready to send (RTS) for
 * @for_ns. @port 0: of any port.
 */
size_t ownertable_ready(const struct ownertable *table, const char *device, unsigned int port,
			uint64_t now_local_ns, uint64_t for_ns);

/* Connected queue pairs that use a RoCE v1 GID: the first @max of them; returns how many there are.
 */
size_t ownertable_rocev1(const struct ownertable *table, const struct owner **out, size_t max);

#endif

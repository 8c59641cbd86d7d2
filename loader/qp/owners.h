/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which process and job owns which queue pair: the map `qp_owners`, and what fills it, the tracing
 * programs and RDMA netlink.
 */
#ifndef ESC_QP_OWNERS_H
#define ESC_QP_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job.h"
#include "maps/maps.h"

struct owner {
	struct esc_owner_key key;
	struct esc_owner is;
	struct job job; /* of the process, read when it was first seen; empty: it was gone */
};

/* --- the map as last read: by local number, and by remote number --- */

struct ownertable;

/* @proc: "/proc", or a recorded tree; borrowed. NULL: no memory. */
struct ownertable *ownertable_new(const char *proc);
void ownertable_free(struct ownertable *table);
/*
 * Takes over a fresh reading of the map: @entries (malloc'd, in any order, jobs unset) belongs to
 * the table. -ENOMEM: the table is as it was.
 */
int ownertable_replace(struct ownertable *table, struct owner *entries, size_t count);
size_t ownertable_count(const struct ownertable *table);

/*
 * The local queue pair of an entry of `qps`. tx: the one whose remote end the packets go to; where
 * only the numbers are known (ESC_OWNER_LISTED), the only one on @device with this remote number.
 * rx: the one that they come to. @device: the RDMA device of the entry's interface, "" unknown:
 * then the addresses must fit. NULL: not known, or @table is NULL. UD has no remote end.
 */
const struct owner *ownertable_of_qp(const struct ownertable *table, const struct esc_qp_key *key,
				     const char *device);
/*
 * How many queue pairs of a device's port have been ready to send (RTS) for @for_ns. @port 0: of
 * any port.
 */
size_t ownertable_ready(const struct ownertable *table, const char *device, unsigned int port,
			uint64_t now_local_ns, uint64_t for_ns);
/* How many queue pairs of a device's port use a RoCE v1 GID. */
size_t ownertable_rocev1(const struct ownertable *table, const char *device, unsigned int port);

/* --- what fills it --- */

struct owners;
struct port_info;

struct owners_facts {
	const char *how;  /* fentry | kprobe | netlink | none */
	const char *note; /* why not better, one sentence; "" */
	size_t tracked;
	uint32_t max;
	uint64_t refused; /* queue pairs that found the table full, since the daemon started */
};

/* Descriptors are borrowed. Where a feature of the kernel lacks, nothing is known. 0 or -ENOMEM. */
int owners_new(struct owners **out, int control_fd, int owners_fd, bool off);
/* In all that follows @owners may be NULL: nothing is known. */
void owners_free(struct owners *owners);
/* The kill switch: nothing is traced, listed or known while it is on. */
void owners_set_off(struct owners *owners, bool off);
/*
 * Once a second: starts tracing where that is possible, and has RDMA netlink list, in a thread, the
 * queue pairs that are there already. Not in owners_new(): it reads the kernel's types, and serving
 * comes first.
 */
void owners_tick(struct owners *owners, uint64_t now_local_ns);
/* Reads the map: once a second, and before a reply. */
void owners_refresh(struct owners *owners);

const struct ownertable *owners_table(const struct owners *owners);
/* Not of NULL. */
void owners_get_facts(const struct owners *owners, struct owners_facts *out);
/*
 * A port whose device has had connected queue pairs for some time, and none of whose packets passes
 * the kernel, sees `control`: the NIC carries them past it. Changes port->visibility and its note,
 * or nothing. @owners: a struct owners.
 */
void owners_check_port(void *owners, uint64_t now_local_ns, struct port_info *port);

#endif

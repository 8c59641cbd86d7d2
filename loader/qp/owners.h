/* SPDX-License-Identifier: BSD-2-Clause */
/* The map `qp_owners` and what fills it: the tracing programs, and RDMA netlink. */
#ifndef ESC_LOADER_OWNERS_H
#define ESC_LOADER_OWNERS_H

#include "ownertable.h"

struct owners;
struct port_info;

struct owners_facts {
	const char *how;  /* fentry | kprobe | netlink | none */
	const char *note; /* why not better, one sentence; "" */
	size_t tracked;
	uint32_t max;
	uint64_t refused; /* queue pairs that found the table full, since the daemon started */
};

/*
 * Descriptors are borrowed. Cannot fail for want of a kernel feature: then
 * owners are not known.
 */
int owners_new(struct owners **out, int control_fd, int owners_fd, bool off);
void owners_free(struct owners *owners);
/* The kill switch: nothing is traced, asked or known while it is on. */
void owners_set_off(struct owners *owners, bool off);
/*
 * Once a second: starts tracing where that is possible, and asks RDMA netlink,
 * in a thread, for the queue pairs that are there already. Not in
 * owners_new(): the kernel's types are read for it, and serving comes first.
 */
void owners_turn(struct owners *owners, uint64_t now_local_ns);
/* Reads the map: once a second, and before an answer. */
void owners_refresh(struct owners *owners);

/* As last read; NULL when @owners is. */
const struct ownertable *owners_table(const struct owners *owners);
void owners_get_facts(const struct owners *owners, struct owners_facts *out);

/*
 * A port whose device has had connected queue pairs for some time, and none of
 * whose packets passes the kernel, sees `control`: the NIC carries them past
 * it. Changes port->visibility and its note, or nothing.
 */
void owners_judge_port(const struct owners *owners, uint64_t now_local_ns, struct port_info *port);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs that no trace has seen being made: RDMA netlink lists them, and the map gets them.
 * At the start, and periodically where nothing is traced.
 */
#ifndef ESC_QP_OWNERLIST_H
#define ESC_QP_OWNERLIST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"
#include "net/rdmares.h"

/* All zero but the descriptor: nothing is listed yet. */
struct ownerlist {
	int fd;	    /* of the map; borrowed */
	bool works; /* a list has come, and named a device */
	bool listing;
	uint64_t due_local_ns;	   /* of the next list; UINT64_MAX: none */
	uint64_t started_local_ns; /* before the kernel began to list */
	pthread_t thread;
	int done; /* written by the thread, last */
	int err;
	struct rdmares result;
};

void ownerlist_close(struct ownerlist *list); /* waits for a list under way */
/*
 * Merges a list that has come, and begins the next when it is due: in a thread, since drivers may
 * take seconds for it.
 */
void ownerlist_tick(struct ownerlist *list, uint64_t now_local_ns, bool traced);

/*
 * What to do about one entry of the map, or (with @is NULL) about a queue pair that is not in it,
 * by a list that began at @started_local_ns.
 */
enum ownerlist_action { OWNERLIST_KEEP, OWNERLIST_DROP, OWNERLIST_PUT };
enum ownerlist_action ownerlist_decide(const struct esc_owner *is, const struct rdmares_qp *listed,
				       uint32_t listed_pid, bool traced, uint64_t started_local_ns);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs that no trace has seen being made: RDMA netlink lists them, and
 * the map gets them. At the start, and every now and then where nothing is traced.
 */
#ifndef ESC_LOADER_OWNERLIST_H
#define ESC_LOADER_OWNERLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"
#include "net/rdmares.h"

struct ownerlist;

struct ownerlist *ownerlist_new(int owners_fd);
void ownerlist_free(struct ownerlist *list); /* waits for a question under way */
void ownerlist_ask_anew(struct ownerlist *list);
/*
 * Takes in an answer that has come, asks when it is time. The kernel is asked
 * in a thread: drivers may take seconds for it.
 */
void ownerlist_turn(struct ownerlist *list, uint64_t now_local_ns, bool traced);
/* An answer has come, and named a device. */
bool ownerlist_works(const struct ownerlist *list);

/*
 * What to do about one entry of the map, or (with @is NULL) about a queue pair
 * that is not in it, by a list that was asked for at @asked_local_ns.
 */
enum ownerlist_verdict { OWNERLIST_KEEP, OWNERLIST_DROP, OWNERLIST_PUT };
enum ownerlist_verdict ownerlist_judge(const struct esc_owner *is, const struct rdmares_qp *listed,
				       uint32_t listed_pid, bool traced, uint64_t asked_local_ns);

#endif

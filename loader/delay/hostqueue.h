/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program behind the qdisc, which separates the sending host's own queue from the fabric's
 * delay. It runs for every packet that any interface sends: off unless it is configured.
 */
#ifndef ESC_LOADER_HOSTQUEUE_H
#define ESC_LOADER_HOSTQUEUE_H

#include <jansson.h>
#include <stddef.h>

struct hostqueue;

/*
 * Loads and attaches, and lets tc egress fill the table. The descriptors of the pinned maps
 * `host_queue` and `qp_sent` are borrowed. Returns 0 or -errno with one sentence in @why.
 * Nothing is pinned: it ends with the process.
 */
int hostqueue_open(struct hostqueue **out, int queue_fd, int sent_fd, char *why, size_t why_bytes);
void hostqueue_close(struct hostqueue *queue); /* detaches; NULL is fine */
/* The kernel feature that it uses, for `features`. */
void hostqueue_features(json_t *list);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that sends coded pairs: for each edge, in its own phase, a packet
 * that warms the path, a first and a second a fixed spacing apart. It knows
 * nothing of replies: those go from XDP to the ring buffer.
 */
#ifndef ESC_LOADER_SENDER_H
#define ESC_LOADER_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "probesock.h"

struct sender;
struct sender_edge;

/* -errno when the thread cannot be had. Nothing is sent before an edge is added. */
int sender_new(struct sender **out, uint64_t spacing_ns);
/* Ends the thread, closes all sockets. */
void sender_free(struct sender *sender);
void sender_set_spacing(struct sender *sender, uint64_t spacing_ns);
/* Paused, nothing leaves; the kill switch does it. */
void sender_pause(struct sender *sender, bool paused);

struct sender_edge_config {
	struct probe_route route; /* route.interface is not kept */
	uint64_t self, target, epoch;
	uint8_t flags;		 /* ESC_PROBE_PLANE or 0 */
	uint32_t first_sequence; /* above all that the target has seen of us */
	uint64_t interval_ns;
};

/* -errno of the socket. */
int sender_add(struct sender *sender, const struct sender_edge_config *config,
	       struct sender_edge **out);
/* From now on by another route to the same target; its numbers go on. -errno: as before. */
int sender_move(struct sender *sender, struct sender_edge *edge, const struct probe_route *route);
void sender_remove(struct sender *sender, struct sender_edge *edge);
void sender_set_interval(struct sender_edge *edge, uint64_t interval_ns);

/*
 * A request between the pairs that asks how long ago the target heard @about;
 * its number is one of the edge's.
 */
int sender_ask(struct sender *sender, struct sender_edge *edge, uint64_t about);

struct sender_counts {
	uint64_t requests; /* handed to the kernel */
	uint64_t failed;   /* that it refused */
	int last_error;	   /* -errno of the newest of them */
	uint32_t next_sequence;
};
void sender_counts(const struct sender_edge *edge, struct sender_counts *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that sends path requests: each lane on its own interval, those that are due together
 * in one system call. It knows nothing of replies: those go from XDP to the ring buffer.
 *
 * A raw socket with an IP header of our own sends from every source port: a UDP socket for
 * each would take ports from the host's applications, and could not set the hop limit of one
 * packet.
 */
#ifndef ESC_LOADER_PATHSEND_H
#define ESC_LOADER_PATHSEND_H

#include <stdbool.h>
#include <stdint.h>

#include "maps/maps.h"

struct pathsend;
struct pathsend_pair;

/* -errno when the thread cannot be had. Nothing is sent before a lane is set. */
int pathsend_new(struct pathsend **out);
/* Ends the thread, closes all sockets. NULL is fine. */
void pathsend_free(struct pathsend *send);
/* Paused, nothing leaves; the kill switch does it. */
void pathsend_pause(struct pathsend *send, bool paused);

struct pathsend_config {
	const char *interface;
	struct esc_address from, to;
	uint16_t to_port;
	uint64_t target;
	uint8_t flags;	    /* ESC_PROBE_PLANE or 0 */
	unsigned int phase; /* pairs of different phases are not sent in one burst */
};

/* -errno of the socket; one serves all pairs of an interface and an address. */
int pathsend_add(struct pathsend *send, const struct pathsend_config *config,
		 struct pathsend_pair **out);
void pathsend_remove(struct pathsend *send, struct pathsend_pair *pair);

/* From now on @lane is probed from @sport each @interval_ns; 0: no more. */
void pathsend_set(struct pathsend *send, struct pathsend_pair *pair, unsigned int lane,
		  uint16_t sport, uint64_t interval_ns);

/*
 * One request of no lane, at once, that ends @hop_limit switches away; its number and its IPv4
 * identification tell its errors apart. 0 or -errno.
 */
int pathsend_try(struct pathsend *send, struct pathsend_pair *pair, uint16_t sport,
		 uint8_t hop_limit, uint32_t *sequence);
/* What pathsend_try() puts into the IPv4 header. */
uint16_t pathsend_ident(uint32_t sequence);

struct pathsend_counts {
	uint64_t sent;	 /* handed to the kernel */
	uint64_t failed; /* that it refused */
	int last_error;	 /* -errno of the newest of them */
	uint64_t turns;
	uint64_t late_ns; /* sum over the turns: how late each was */
	uint64_t skipped; /* that were left out because their time had passed */
};
void pathsend_get(struct pathsend *send, struct pathsend_counts *out);

#endif

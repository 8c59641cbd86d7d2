/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An all-reduce of a ring as NCCL runs it, by arithmetic: when each step of each rank waits for its
 * GPU, its peer and the network. A rank's GPU takes its actions in turn: send the first chunk;
 * receive, add and send the next; receive the last. A step is sent when the GPU has made it and the
 * receiver has one of its eight buffers free.
 */
#ifndef TESTS_LIB_NCCLRING_H
#define TESTS_LIB_NCCLRING_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ncclhost.h"

#define RING_RANKS 8
#define RING_LOOPS 3
#define RING_SENDS (2 * (RING_RANKS - 1)) /* of a loop */
#define RING_STEPS (RING_LOOPS * RING_SENDS)
#define RING_SLOTS 8
#ifndef RING_STEP_BYTES
#define RING_STEP_BYTES (1 << 19)
#endif

struct ring {
	/* In: ns. */
	double late[RING_RANKS], gpu[RING_RANKS], wire[RING_RANKS]; /* wire: of the hop behind it */
	/* Out. */
	double made[RING_RANKS][RING_STEPS], posted[RING_RANKS][RING_STEPS];
	double sent[RING_RANKS][RING_STEPS], done[RING_RANKS][RING_STEPS];     /* of sends */
	double offered[RING_RANKS][RING_STEPS], taken[RING_RANKS][RING_STEPS]; /* of receives */
	double end;
};

static inline double ring_later(double a, double b)
{
	return a > b ? a : b;
}

/* One pass over all that depends on each other; true: something changed. */
static inline bool ring_pass(struct ring *ring)
{
	bool changed = false;

	for (int r = 0; r < RING_RANKS; r++) {
		int next = (r + 1) % RING_RANKS, previous = (r + RING_RANKS - 1) % RING_RANKS;
		double gpu = ring->late[r];

		for (int loop = 0; loop < RING_LOOPS; loop++)
			for (int i = 0; i <= RING_SENDS; i++) {
				int send = loop * RING_SENDS + i, receive = send - 1;

				if (i > 0)
					gpu = ring_later(gpu, ring->done[previous][receive]);
				if (i < RING_SENDS && send >= RING_SLOTS)
					gpu = ring_later(gpu, ring->done[r][send - RING_SLOTS]);
				gpu += ring->gpu[r];
				if (i > 0)
					ring->taken[r][receive] = gpu;
				if (i < RING_SENDS)
					ring->made[r][send] = gpu;
			}
		for (int s = 0; s < RING_STEPS; s++) {
			double before = ring->done[r][s];

			ring->posted[r][s] =
				s < RING_SLOTS ? ring->late[r] : ring->done[r][s - RING_SLOTS];
			ring->offered[r][s] =
				s < RING_SLOTS ? ring->late[r] : ring->taken[r][s - RING_SLOTS];
			ring->sent[r][s] = ring_later(ring->made[r][s], ring->offered[next][s]);
			ring->done[r][s] =
				ring_later(ring->sent[r][s], s ? ring->done[r][s - 1] : 0) +
				ring->wire[r];
			changed = changed || fabs(ring->done[r][s] - before) > 0.5;
		}
	}
	return changed;
}

static inline void ring_run(struct ring *ring)
{
	memset(ring->made, 0, sizeof(*ring) - offsetof(struct ring, made));
	for (int i = 0; i < 100000 && ring_pass(ring); i++)
		;
	for (int r = 0; r < RING_RANKS; r++)
		for (int s = 0; s < RING_STEPS; s++)
			ring->end = ring_later(ring->end,
					       ring_later(ring->done[r][s], ring->taken[r][s]));
}

/* --- as events, in the order of their times --- */

enum ring_kind {
	RING_COLL,
	RING_OP, /* both operations begin */
	RING_SEND_BEGIN,
	RING_SEND_PEER, /* made, and the receiver has no buffer yet */
	RING_SEND_NETWORK,
	RING_SEND_END,
	RING_RECV_BEGIN,
	RING_RECV_FLUSH,
	RING_RECV_END,
	RING_OP_END,
};

struct ring_event {
	double ns;
	enum ring_kind kind;
	int rank, step;
};
#define RING_EVENTS (RING_RANKS * (3 + 7 * RING_STEPS))

static inline int ring_order(const void *a, const void *b)
{
	const struct ring_event *x = a, *y = b;

	if (x->ns < y->ns || x->ns > y->ns)
		return x->ns < y->ns ? -1 : 1;
	/* A buffer is free before the next one takes it. */
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static inline size_t ring_events(const struct ring *ring, struct ring_event list[RING_EVENTS])
{
	size_t count = 0;

#define RING_ADD(ns_, kind_, step_)                                                                \
	list[count++] = (struct ring_event)                                                        \
	{                                                                                          \
		ns_, kind_, r, step_                                                               \
	}
	for (int r = 0; r < RING_RANKS; r++) {
		int previous = (r + RING_RANKS - 1) % RING_RANKS;
		double end = 0;

		RING_ADD(ring->late[r], RING_COLL, -2);
		RING_ADD(ring->late[r], RING_OP, -1);
		for (int s = 0; s < RING_STEPS; s++) {
			RING_ADD(ring->posted[r][s], RING_SEND_BEGIN, s);
			RING_ADD(ring->made[r][s], RING_SEND_PEER, s);
			RING_ADD(ring->sent[r][s], RING_SEND_NETWORK, s);
			RING_ADD(ring->done[r][s], RING_SEND_END, s);
			RING_ADD(ring->offered[r][s], RING_RECV_BEGIN, s);
			RING_ADD(ring->done[previous][s], RING_RECV_FLUSH, s);
			RING_ADD(ring->taken[r][s], RING_RECV_END, s);
			end = ring_later(end, ring_later(ring->done[r][s], ring->taken[r][s]));
		}
		RING_ADD(end, RING_OP_END, RING_STEPS);
	}
#undef RING_ADD
	qsort(list, count, sizeof(list[0]), ring_order);
	return count;
}

/* --- what NCCL tells the plugin of them --- */

struct ring_rank {
	void *context, *coll, *send, *receive, *sends[RING_SLOTS], *receives[RING_SLOTS];
	uint64_t hash, sent, received;
};

static inline void ring_play(const struct host *host, struct ring_rank *rank, uint64_t sequence,
			     const struct ring_event *is)
{
	int r = is->rank, next = (r + 1) % RING_RANKS, slot = is->step % RING_SLOTS;
	int previous = (r + RING_RANKS - 1) % RING_RANKS;

	switch (is->kind) {
	case RING_COLL:
		rank->coll = host_coll(host, rank->context, rank->hash, "ring", r, sequence,
				       RING_STEPS * RING_STEP_BYTES / 4);
		host_stop(host, rank->coll);
		break;
	case RING_OP:
		rank->sent = rank->received = 0;
		rank->send = host_op(host, rank->context, rank->coll, getpid(), r, 0, next,
				     RING_STEPS, 1);
		rank->receive = host_op(host, rank->context, rank->coll, getpid(), r, 0, previous,
					RING_STEPS, 0);
		break;
	case RING_SEND_BEGIN:
		rank->sends[slot] = host_step(host, rank->context, rank->send, r, is->step);
		host_record(host, rank->sends[slot], HOST_SEND_GPU, 0);
		break;
	case RING_SEND_PEER:
		if (host->version >= 4)
			host_record(host, rank->sends[slot], HOST_SEND_PEER, 0);
		else
			host_record(host, rank->send, HOST_OP_PEER_WAIT, rank->sent);
		break;
	case RING_SEND_NETWORK:
		rank->sent += RING_STEP_BYTES;
		if (host->version <= 3)
			host_record(host, rank->send, HOST_OP_SENT, rank->sent);
		host_record(host, rank->sends[slot], HOST_SEND_WAIT,
			    host->version >= 4 ? RING_STEP_BYTES : 0x77777777);
		break;
	case RING_SEND_END:
		host_stop(host, rank->sends[slot]);
		break;
	case RING_RECV_BEGIN:
		rank->receives[slot] = host_step(host, rank->context, rank->receive, r, is->step);
		host_record(host, rank->receives[slot], HOST_RECV_WAIT, 0);
		break;
	case RING_RECV_FLUSH:
		rank->received += RING_STEP_BYTES;
		if (host->version <= 3)
			host_record(host, rank->receive, HOST_OP_RECEIVED, rank->received);
		host_record(host, rank->receives[slot], HOST_RECV_FLUSH,
			    host->version >= 4 ? RING_STEP_BYTES : 0x77777777);
		host_record(host, rank->receives[slot], HOST_RECV_GPU, RING_STEP_BYTES);
		break;
	case RING_RECV_END:
		host_stop(host, rank->receives[slot]);
		break;
	case RING_OP_END:
		host_stop(host, rank->send);
		host_stop(host, rank->receive);
		break;
	}
}

#endif

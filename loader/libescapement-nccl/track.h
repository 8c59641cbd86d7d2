/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the profiler plugin share. */
#ifndef ESC_NCCL_TRACK_H
#define ESC_NCCL_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "loader/nccl/segment.h"

/* A collective, a send or a receive as it is started, whatever the version. */
struct track_call {
	enum nccl_kind kind;		 /* NCCL_COLL or NCCL_P2P */
	const char *func, *algo, *proto; /* NULL: not known */
	uint64_t sequence, bytes;
	int peer;
	/* Until version 3 a communicator is known by these; NULL name and 0: as it was. */
	const char *name;
	uint64_t hash;
	int rank;
};

/*
 * Handles are what NCCL gives back: never a pointer, so that one that has ended, or is of anything
 * else, is found out. All of these may be called by any thread, in any order, with any handle; NULL
 * is a handle of nothing.
 */

/* A rank begins: its context. NULL: nothing is recorded. @rank -1, @ranks 0: not known yet. */
void *track_begin_comm(unsigned int abi, const char *name, uint64_t hash, int nodes, int ranks,
		       int rank);
void track_end_comm(void *context);
void *track_begin_call(void *context, const struct track_call *call);
void *track_begin_op(void *parent, const struct abi_proxy_op *op);
void *track_begin_step(void *parent);
void *track_begin_net(void *parent, int64_t id, const void *data);
void track_end(void *handle);
/* @bytes of a step (from version 4), or of an operation so far (until 3). */
void track_state(void *handle, int state, uint64_t bytes);
/* An event of a type that is not known was started. */
void track_unknown(void);

/* What tests put in place of the clock and look at. */
extern uint64_t (*track_now_ns)(void);
const struct nccl_segment *track_segment(void);

#endif

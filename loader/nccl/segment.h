/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that libescapement-nccl writes and escapementd reads, one for each process: its
 * communicators, and a ring of records of what their collectives did. Its owner is a user, so that
 * the reader trusts nothing in it. While the process lives, it has a POSIX write lock on the file.
 */
#ifndef ESC_NCCL_SEGMENT_H
#define ESC_NCCL_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#define NCCL_MAGIC 0x6c63636e63736500ull
#define NCCL_VERSION 1
#define NCCL_COMMS 64
#define NCCL_RECORDS 8192
#define NCCL_BYTES (1024 + NCCL_COMMS * 128 + NCCL_RECORDS * 128)

/* All but `magic` of the first part is written before that, and what is below it later. */
struct nccl_header {
	uint64_t magic;
	uint32_t version;
	uint32_t used; /* communicators from the first one that were ever used */
	char comm[16]; /* the program */
	char rank[16]; /* by the environment: text, "" not known */
	char job_id[64];
	uint32_t abi; /* version of the profiler API that is in use */
	uint32_t reserved;
	uint64_t records; /* that were ever written, or are being written */
	/* Events that are in no record: no room for what is in flight; of an unknown type or state;
	 * of a handle that has ended; of another process, or without a parent. */
	uint64_t dropped, unknown, late, foreign;
	uint64_t untracked_comms; /* without a slot */
	uint8_t reserved2[1024 - 168];
};

enum nccl_state { NCCL_FREE, NCCL_LIVE, NCCL_ENDED };

/* A rank of this process in a communicator. */
struct nccl_comm {
	/* As far as `nodes`: complete if `written` equals `writing`, which is stored first. */
	uint32_t written;
	uint32_t state; /* enum nccl_state */
	uint32_t generation;
	int32_t rank; /* -1: not known yet */
	uint64_t hash;
	uint32_t ranks, nodes; /* 0: not known */
	char name[40];
	uint32_t writing;
	uint32_t reserved;
	/* Counts, by atomic additions. */
	uint64_t collectives, messages; /* messages: sends and receives between two ranks */
	uint64_t bytes;			/* of their buffers, by count and type */
	uint64_t network_bytes;		/* that proxies sent */
	uint64_t reserved2[2];
};

enum nccl_kind {
	NCCL_COLL, /* a collective was started */
	NCCL_P2P,  /* the same of a send or a receive */
	NCCL_SEND, /* what a proxy sent in it to a rank on a channel */
	NCCL_RECV,
	NCCL_QP, /* of a NCCL_SEND or NCCL_RECV, by queue pair */
	NCCL_KINDS
};

#define NCCL_UNFINISHED 1u /* its end was not seen: `end_ns` is of its newest event */
#define NCCL_HAS_BYTES 2u  /* the API tells how much was transferred */

struct nccl_record {
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC; end_ns 0: it only has a beginning */
	uint64_t sequence;	   /* of the collective, by its function */
	uint64_t bytes;
	/*
	 * The time from begin to end is of the first that holds: at least one step is in the
	 * network (of a receive: has arrived, and waits for the GPU to take it, in gpu_ns); waits
	 * for the peer (a receive: for data); waits for the GPU; or none is under way.
	 */
	uint64_t network_ns, peer_ns, gpu_ns;
	uint64_t slowest_ns; /* of a step in the network; of a queue pair: of an operation */
	uint32_t steps;	     /* that ended; of a queue pair: operations */
	uint32_t qpn;	     /* NCCL_QP */
	uint32_t place;	     /* records before it, and 1; stored last */
	int32_t peer;	     /* rank; root of a collective; -1: none */
	uint32_t generation; /* of the communicator's slot */
	uint16_t comm;	     /* its slot */
	uint8_t kind, channel;
	char func[16], algo[16];
	char proto[7];
	uint8_t flags;
};

struct nccl_segment {
	struct nccl_header header;
	struct nccl_comm comms[NCCL_COMMS];
	struct nccl_record records[NCCL_RECORDS];
};

_Static_assert(sizeof(struct nccl_header) == 1024, "the communicators follow it");
_Static_assert(sizeof(struct nccl_comm) == 128, "no hidden padding");
_Static_assert(offsetof(struct nccl_comm, collectives) == 80, "attributes, counts");
_Static_assert(sizeof(struct nccl_record) == 128, "no hidden padding");
_Static_assert(sizeof(struct nccl_segment) == NCCL_BYTES, "the file");

#endif

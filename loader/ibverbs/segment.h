/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that libescapement-verbs writes and escapementd reads, one for each process: what its
 * queue pairs posted and completed. Its owner is a user, so that the reader trusts nothing in it.
 * While the process lives, it has a POSIX write lock on the file.
 */
#ifndef ESC_IBVERBS_SEGMENT_H
#define ESC_IBVERBS_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#define SEGMENT_MAGIC 0x6272655663736500ull
#define SEGMENT_VERSION 2
#define SEGMENT_FOLDER_DEFAULT "/run/escapement/verbs"
#define SEGMENT_QPS 1023
#define SEGMENT_SAMPLES 4096 /* in the ring */
#define SEGMENT_BYTES ((SEGMENT_QPS + 1) * 1024 + SEGMENT_SAMPLES * 32)
#define SEGMENT_NAME_DIGITS 16 /* of a file's name: hexadecimal, random */

enum segment_kind {
	SEGMENT_SEND,
	SEGMENT_WRITE,
	SEGMENT_WRITE_IMM,
	SEGMENT_READ,
	SEGMENT_ATOMIC,
	SEGMENT_OTHER, /* memory windows, invalidations, segmented packets */
	SEGMENT_KINDS
};

/* Page 0 begins with it; all but `magic` is written before that, and `used` and counts later. */
struct segment_header {
	uint64_t magic;
	uint32_t version;
	uint32_t used;		      /* slots from the first one that were ever used */
	uint64_t untracked_qps;	      /* without a slot */
	uint64_t untracked_contexts;  /* of an unknown layout, or too many */
	uint64_t unknown_completions; /* of no queue pair that is known, or a CQ without qp_num */
	char comm[16];
	char rank[16]; /* by the environment: text, "" not known */
	char job_id[64];
	uint64_t polls;	  /* of completion queues, one in SEGMENT_POLLS of a thread's */
	uint64_t samples; /* that were ever written, or are being written */
	uint8_t reserved[1024 - 152];
};

enum segment_state { SEGMENT_FREE, SEGMENT_LIVE, SEGMENT_ENDED };

#define SEGMENT_SIZES 32      /* by the logarithm of a message's bytes */
#define SEGMENT_STATUSES 24   /* enum ibv_wc_status; the last one: all above */
#define SEGMENT_LATENCIES 128 /* four for each doubling from 256 ns */
#define SEGMENT_POLLS 256
#define SEGMENT_SAMPLE_EVERY 16 /* signaled operations; one at a time */

/* Which attributes were set. */
#define SEGMENT_HAS_PATH 1u  /* dest_qpn, path_mtu, remote; local if it could be read */
#define SEGMENT_HAS_TIMER 2u /* ack_timeout, retry_count, rnr_retry */

struct segment_qp {
	/* Attributes: complete if `written` equals `writing`, which is stored first. */
	uint32_t written;
	uint32_t state;		 /* enum segment_state */
	uint32_t generation;	 /* of the slot: each queue pair has another one */
	uint32_t epoch;		 /* how often it was reset */
	uint64_t first_local_ns; /* CLOCK_MONOTONIC */
	uint32_t qpn, dest_qpn, flow_label, flags;
	uint8_t local[16], remote[16]; /* GIDs; ::ffff:a.b.c.d */
	uint16_t path_mtu;	       /* bytes */
	uint8_t type;		       /* enum ibv_qp_type */
	uint8_t qp_state;	       /* enum ibv_qp_state, as last set */
	uint8_t port, sgid_index, traffic_class;
	uint8_t ack_timeout, retry_count, rnr_retry;
	uint8_t untimed; /* why latencies are not taken: an error, or operations that are not seen
			  */
	uint8_t reserved;
	char device[32];
	uint32_t reserved2;
	uint32_t writing;
	uint32_t reserved3;

	/* Counts, each by atomic additions: first what posting counts, in cache lines of its own.
	 */
	uint64_t messages[SEGMENT_KINDS], bytes[SEGMENT_KINDS];
	uint64_t signaled; /* operations that give a completion */
	uint64_t receives;
	uint64_t latency_sum_ns, latency_max_ns; /* from post to completion, sampled */
	uint64_t completed;			 /* of `signaled`, with success */
	uint64_t received, received_bytes, received_imm;
	uint32_t sizes[SEGMENT_SIZES]; /* of the messages posted */
	uint32_t statuses[SEGMENT_STATUSES];
	uint32_t latencies[SEGMENT_LATENCIES];
};

/*
 * RC delivers in order: the n-th operation posted that uses a receive is the n-th receive that
 * completes at the other end. Both ends sample the numbers that are divisible by a power of two,
 * the larger the faster they come, so that of two ends that differ one has what the other has.
 */
enum segment_end { SEGMENT_POSTED, SEGMENT_RECEIVED, SEGMENT_ENDS };

struct segment_sample {
	uint64_t local_ns; /* CLOCK_MONOTONIC, before the post, or after the poll */
	uint64_t number;   /* from 0, of its queue pair in this direction */
	uint32_t bytes;
	uint32_t generation; /* of the slot */
	uint32_t place;	     /* samples before it, and 1; stored last */
	uint16_t slot;
	uint8_t end; /* enum segment_end */
	uint8_t reserved;
};

struct segment {
	struct segment_header header;
	struct segment_qp qps[SEGMENT_QPS];
	struct segment_sample samples[SEGMENT_SAMPLES];
};

_Static_assert(sizeof(struct segment_header) == 1024, "the first slot follows it");
_Static_assert(offsetof(struct segment_qp, messages) == 128, "two cache lines of attributes");
_Static_assert(offsetof(struct segment_qp, completed) == 256, "another cache line");
_Static_assert(sizeof(struct segment_qp) == 1024, "a slot");
_Static_assert(sizeof(struct segment_sample) == 32, "no hidden padding");
_Static_assert(sizeof(struct segment) == SEGMENT_BYTES, "the file");

/* Where a message of @bytes is counted. */
static inline unsigned int segment_size_bucket(uint64_t bytes)
{
	unsigned int log = bytes ? 63 - (unsigned int)__builtin_clzll(bytes) : 0;

	return log < SEGMENT_SIZES ? log : SEGMENT_SIZES - 1;
}

/* Four buckets for each doubling, from 256 ns; the first has all below. */
static inline unsigned int segment_latency_bucket(uint64_t ns)
{
	unsigned int log = ns < 256 ? 8 : 63 - (unsigned int)__builtin_clzll(ns);
	unsigned int bucket = ns < 256 ? 0 : (log - 8) * 4 + (ns >> (log - 2) & 3);

	return bucket < SEGMENT_LATENCIES ? bucket : SEGMENT_LATENCIES - 1;
}

/* Its middle, wrong by 12.5% at most of what is in it. */
static inline uint64_t segment_latency_ns(unsigned int bucket)
{
	return (uint64_t)(9 + 2 * (bucket & 3)) << (bucket / 4 + 8) >> 3;
}

#endif

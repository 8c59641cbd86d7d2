/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verification of a move: whether a queue pair performs on its new path as before, by counters of
 * what it receives. A path that loses packets, or a receiver that drops them, is detected within
 * VERIFY_SILENT_NS of traffic; the caller then moves the queue pair back.
 */
#ifndef ESC_PACING_VERIFY_H
#define ESC_PACING_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Failure: at least this many packets sent, and nothing received for this long. */
#define VERIFY_SILENT_PACKETS 8
#define VERIFY_SILENT_NS 500000000ull
/*
 * Later, within an interval: nothing received for so long, and packets were retransmitted:
 * the path has died. The longer time and the retransmissions are for READ responses, which are not
 * acknowledged, and for a receiver that stops for a while.
 */
#define VERIFY_DIED_NS 1000000000ull
/* Minimum number of packets for a share of retransmissions. */
#define VERIFY_SHARE_PACKETS 32
/* The first packets may be retransmissions of losses on the old path, for a few timeouts. */
#define VERIFY_RESUME_NS 3000000000ull
/* Then the move is confirmed, and a new interval begins. */
#define VERIFY_PROVED_NS 5000000000ull
#define VERIFY_PROVED_PACKETS 100

/* Of one queue pair. Monotonic. */
struct verify_counts {
	uint64_t sent;	   /* packets */
	uint64_t resent;   /* of these, retransmissions */
	bool paired;	   /* the reverse direction is known: the next three are valid */
	uint64_t back;	   /* packets received */
	uint64_t naks;	   /* of these, NAKs for a sequence error */
	uint64_t repeated; /* of these, retransmissions: our response was lost */
};

enum verify_result {
	VERIFY_OPEN,   /* undecided */
	VERIFY_PROVED, /* as good as before; at the end of each interval */
	VERIFY_SILENT,
	VERIFY_NAKS,
	VERIFY_RESENT,
	VERIFY_ASKED,
	VERIFY_RESULTS,
};

struct verify {
	struct verify_counts from; /* at the interval's start */
	uint64_t from_ns;
	struct verify_counts received; /* at received_ns, when something was last received */
	uint64_t received_ns;
	uint64_t sent_ns; /* when its first packets were seen, 0: none yet */
	double naks_share, resent_share, repeated_share; /* of packets, before the move */
	unsigned int naks_free;				 /* that the move itself may have caused */
	uint64_t resent_free; /* retransmissions of losses on the old path */
	uint64_t fresh;	      /* new packets among the first */
	bool resumed;	      /* new packets have been seen on it */
	bool replies;	      /* something was received before */
};

/*
 * Starts the verification of a move. @counts: the last without a packet on the new path. @forced:
 * the move was made inside a message, which may cost one go-back-N.
 */
void verify_start(struct verify *verify, const struct verify_counts *counts, uint64_t now_ns,
		  bool forced);
enum verify_result verify_poll(struct verify *verify, const struct verify_counts *counts,
			       uint64_t now_ns);

/* Name of a result ("silent", "naks", ...) and a sentence for the operator. */
const char *verify_name(enum verify_result result);
const char *verify_meaning(enum verify_result result);
static inline bool verify_is_bad(enum verify_result result)
{
	return result >= VERIFY_SILENT;
}

#endif

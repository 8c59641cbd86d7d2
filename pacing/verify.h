/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a queue pair that was moved to another path does as well there as
 * before: judged by what came back, from counts that its host has anyway. A
 * path that loses, or a receiver that drops what it is sent, is found within
 * VERIFY_SILENT_NS of traffic; who moved the queue pair then takes it back.
 */
#ifndef ESC_PACING_VERIFY_H
#define ESC_PACING_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Sent so many, and nothing came back for so long: the path, or its packets, are refused. */
#define VERIFY_SILENT_PACKETS 8
#define VERIFY_SILENT_NS 500000000ull
/*
 * Later on, in the midst of a stretch, nothing came back for so long, and packets were sent again:
 * the path was good and died. The longer wait and the repeats are for READ responses, which are not
 * acknowledged, and for a receiver that stops for a while.
 */
#define VERIFY_DIED_NS 1000000000ull
/* A share of what is sent is sent again: of no fewer packets than these. */
#define VERIFY_SHARE_PACKETS 32
/* What leaves first may all be repeats of what the path before lost: a few timeouts, at most. */
#define VERIFY_RESUME_NS 3000000000ull
/* Then the move is proved, and a new stretch begins. */
#define VERIFY_PROVED_NS 5000000000ull
#define VERIFY_PROVED_PACKETS 100

/* Of one queue pair since it is known. None of them goes back. */
struct verify_counts {
	uint64_t sent;	 /* packets */
	uint64_t resent; /* of these, sequence numbers that had been sent before */
	bool paired;	 /* what comes back is known: the next three */
	uint64_t back;	 /* packets that came */
	uint64_t naks;	 /* of these, NAKs for a sequence error */
	uint64_t repeated; /* of these, repeats: our answer did not arrive */
};

enum verify_result {
	VERIFY_OPEN,   /* too early to say */
	VERIFY_PROVED, /* as good as before; said at the end of each stretch */
	VERIFY_SILENT,
	VERIFY_NAKS,
	VERIFY_RESENT,
	VERIFY_ASKED,
	VERIFY_RESULTS,
};

struct verify {
	struct verify_counts from; /* where the stretch began */
	uint64_t from_ns;
	struct verify_counts received; /* when something last came back, and at heard_ns */
	uint64_t received_ns;
	uint64_t sent_ns; /* when the first packets of it were seen to be sent, 0: none yet */
	double naks_share, resent_share, repeated_share; /* of packets, before the move */
	unsigned int naks_free;			      /* that the move itself may have cost */
	uint64_t resent_free; /* of what was lost on the path before: sent first on this one */
	uint64_t fresh;	      /* no repeats, of those that were seen first */
	bool resumed;	      /* packets that are no repeats have been seen on it */
	bool answers;	      /* something came back before */
};

/*
 * Begins at a move. @counts: the last that are known not to hold a packet of the
 * new path. @forced: it was made inside a message, which may cost one go-back-N.
 */
void verify_start(struct verify *verify, const struct verify_counts *counts, uint64_t now_ns,
		  bool forced);
enum verify_result verify_poll(struct verify *verify, const struct verify_counts *counts,
			       uint64_t now_ns);

/* What a verdict means, for people: "silent", "naks", ... and a sentence. */
const char *verify_name(enum verify_result result);
const char *verify_meaning(enum verify_result result);
static inline bool verify_is_bad(enum verify_result result)
{
	return result >= VERIFY_SILENT;
}

#endif

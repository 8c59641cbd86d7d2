/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failure and hold-down of a NIC, or of a route between two NICs.
 *
 * A lack of replies alone is no failure: the peer may be busy or down. A route has failed when
 * another one to the same peer received a reply to a probe that was sent well after the newest
 * one replied to on this route. After a failure there is a hold-down, which doubles when the next
 * failure follows soon. Times are CLOCK_MONOTONIC, set by the caller.
 */
#ifndef ESC_PACING_NICGUARD_H
#define ESC_PACING_NICGUARD_H

#include <stdbool.h>
#include <stdint.h>

#define NICGUARD_UNANSWERED 3 /* minimum number of unreplied probes of a silent route */
#define NICGUARD_SOON 10      /* hold-downs: failures closer together are flapping */
#define NICGUARD_MOST 16      /* maximum, in multiples of the first hold-down */
#define NICGUARD_RING 64      /* send times kept */

struct nicguard {
	bool down;
	uint64_t hold_ns;
	uint64_t up_since_ns; /* while down: 0, not up */
	uint64_t returned_ns; /* end of the last hold-down; 0: it never failed */
};

/* Failure. True: it was up before. */
bool nicguard_fail(struct nicguard *guard, uint64_t return_after_ns, uint64_t now_ns);
/* It works. True: the hold-down has ended, it may be used again. */
bool nicguard_up(struct nicguard *guard, uint64_t now_ns);

struct nicguard_probes {
	uint64_t sent_ns[NICGUARD_RING]; /* by sequence */
	uint32_t sequence;		 /* of the next */
	uint32_t unreplied;		 /* since the newest that was replied to */
	uint64_t replied_ns;		 /* when the newest that was replied to was sent */
};

/* @first: the sequence of the first probe. */
void nicguard_begin(struct nicguard_probes *probes, uint32_t first, uint64_t now_ns);
/* Returns the sequence of the probe to send. */
uint32_t nicguard_send(struct nicguard_probes *probes, uint64_t now_ns);
/* True: a reply to a probe that was sent, newer than all replied to before. */
bool nicguard_reply(struct nicguard_probes *probes, uint32_t sequence);
/* @newest_ns: the greatest replied_ns of all routes to the peer. */
bool nicguard_is_silent(const struct nicguard_probes *probes, uint64_t newest_ns,
			uint64_t dead_after_ns);

#endif

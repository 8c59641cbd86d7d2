/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a NIC, or a way between two NICs, is dead, and when it is used again.
 *
 * Silence alone proves nothing: the peer may be busy, or gone. A way is dead when another one to
 * the same peer answered a probe that was sent well after the newest that this one answered.
 * What was dead is used again when it has been well for a while, which doubles when it falls
 * again soon. Times are CLOCK_MONOTONIC and come from the caller.
 */
#ifndef ESC_PACING_NICGUARD_H
#define ESC_PACING_NICGUARD_H

#include <stdbool.h>
#include <stdint.h>

#define NICGUARD_UNANSWERED 3 /* probes, at least, before a way is called silent */
#define NICGUARD_SOON 10      /* holds: falls that are closer together are flapping */
#define NICGUARD_MOST 16      /* times the first hold, at most */
#define NICGUARD_RING 64      /* send times remembered */

struct nicguard {
	bool down;
	uint64_t hold_ns;
	uint64_t up_since_ns;	/* while down: 0, it is not well */
	uint64_t returned_ns;	/* 0: it never fell */
};

/* It is dead now. True: it was not before. */
bool nicguard_fall(struct nicguard *guard, uint64_t return_after_ns, uint64_t now_ns);
/* It is well now. True: it has been for long enough, and is used again from now on. */
bool nicguard_up(struct nicguard *guard, uint64_t now_ns);

struct nicguard_probes {
	uint64_t sent_ns[NICGUARD_RING]; /* by sequence */
	uint32_t sequence;		 /* of the next */
	uint32_t unreplied;		 /* since the newest that was answered */
	uint64_t replied_ns;		 /* when the newest that was answered had been sent */
};

void nicguard_begin(struct nicguard_probes *probes, uint64_t now_ns);
/* The sequence of a probe that is sent now. */
uint32_t nicguard_send(struct nicguard_probes *probes, uint64_t now_ns);
/* True: an answer to one that was sent and is newer than all answered before. */
bool nicguard_reply(struct nicguard_probes *probes, uint32_t sequence);
/* @newest_ns: the greatest answered_ns of all ways to the peer. */
bool nicguard_is_silent(const struct nicguard_probes *probes, uint64_t newest_ns,
			uint64_t dead_after_ns);

#endif

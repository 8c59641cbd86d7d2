// SPDX-License-Identifier: BSD-2-Clause
#include "nicguard.h"

#include <string.h>

bool nicguard_fail(struct nicguard *guard, uint64_t return_after_ns, uint64_t now_ns)
{
	bool first = !guard->down;
	uint64_t most = NICGUARD_MOST * return_after_ns;

	guard->up_since_ns = 0;
	if (!first)
		return false;
	guard->down = true;
	if (guard->returned_ns && now_ns - guard->returned_ns < NICGUARD_SOON * guard->hold_ns)
		guard->hold_ns = 2 * guard->hold_ns < most ? 2 * guard->hold_ns : most;
	else
		guard->hold_ns = return_after_ns;
	return true;
}

bool nicguard_up(struct nicguard *guard, uint64_t now_ns)
{
	if (!guard->down)
		return false;
	if (!guard->up_since_ns)
		guard->up_since_ns = now_ns;
	if (now_ns - guard->up_since_ns < guard->hold_ns)
		return false;
	guard->down = false;
	guard->returned_ns = now_ns;
	return true;
}

void nicguard_begin(struct nicguard_probes *probes, uint32_t first, uint64_t now_ns)
{
	memset(probes, 0, sizeof(*probes));
	probes->sequence = first;
	probes->replied_ns = now_ns;
}

uint32_t nicguard_send(struct nicguard_probes *probes, uint64_t now_ns)
{
	uint32_t sequence = probes->sequence++;

	probes->sent_ns[sequence % NICGUARD_RING] = now_ns;
	probes->unreplied++;
	return sequence;
}

bool nicguard_reply(struct nicguard_probes *probes, uint32_t sequence)
{
	uint32_t age = probes->sequence - sequence; /* 1: the newest */
	uint64_t sent_ns = probes->sent_ns[sequence % NICGUARD_RING];

	if (!age || age > NICGUARD_RING || sent_ns <= probes->replied_ns)
		return false;
	probes->replied_ns = sent_ns;
	probes->unreplied = age - 1;
	return true;
}

bool nicguard_is_silent(const struct nicguard_probes *probes, uint64_t newest_ns,
			uint64_t dead_after_ns)
{
	return probes->unreplied >= NICGUARD_UNANSWERED &&
	       newest_ns >= probes->replied_ns + dead_after_ns;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "probe.h"

#include <stdbool.h>
#include <string.h>

void losses_begin(struct losses *losses, uint32_t sequence)
{
	losses->expired = sequence;
	losses->newest = sequence;
	memset(losses->seen, 0, sizeof(losses->seen));
}

/* Where @sequence is in `seen`, and its *@bit there. */
static uint64_t *seen_at(struct losses *losses, uint32_t sequence, uint64_t *bit)
{
	*bit = 1ull << (sequence % 64);
	return &losses->seen[sequence % LOSSES_ROOM / 64];
}

void losses_reply(struct losses *losses, uint32_t sequence)
{
	uint32_t ahead = sequence - losses->expired;
	uint64_t bit, *seen = seen_at(losses, sequence, &bit);

	if (ahead >= LOSSES_ROOM) {
		losses->late += (int32_t)ahead < 0;
		return;
	}
	if (*seen & bit)
		return;
	*seen |= bit;
	losses->replied++;
	if ((int32_t)(sequence - losses->newest) < 0)
		losses->reordered++;
	else
		losses->newest = sequence;
}

void losses_expire(struct losses *losses, uint32_t sequence)
{
	for (; (int32_t)(sequence - losses->expired) > 0; losses->expired++) {
		uint64_t bit, *seen = seen_at(losses, losses->expired, &bit);

		losses->lost += !(*seen & bit);
		*seen &= ~bit;
	}
}

void losses_skip(struct losses *losses, uint32_t sequence)
{
	uint64_t lost = losses->lost;

	losses_expire(losses, sequence);
	losses->lost = lost;
}

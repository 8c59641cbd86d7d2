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

static uint64_t *word_of(struct losses *losses, uint32_t sequence)
{
	return &losses->seen[sequence % LOSSES_ROOM / 64];
}

static uint64_t bit_of(uint32_t sequence)
{
	return 1ull << (sequence % 64);
}

void losses_reply(struct losses *losses, uint32_t sequence)
{
	uint32_t ahead = sequence - losses->expired;

	if (ahead >= LOSSES_ROOM) {
		losses->late += (int32_t)ahead < 0;
		return;
	}
	if (*word_of(losses, sequence) & bit_of(sequence))
		return;
	*word_of(losses, sequence) |= bit_of(sequence);
	losses->replied++;
	if ((int32_t)(sequence - losses->newest) < 0)
		losses->reordered++;
	else
		losses->newest = sequence;
}

void losses_expire(struct losses *losses, uint32_t sequence)
{
	for (; (int32_t)(sequence - losses->expired) > 0; losses->expired++) {
		uint64_t *word = word_of(losses, losses->expired);
		uint64_t bit = bit_of(losses->expired);

		losses->lost += !(*word & bit);
		*word &= ~bit;
	}
}

void losses_skip(struct losses *losses, uint32_t sequence)
{
	uint64_t lost = losses->lost;

	losses_expire(losses, sequence);
	losses->lost = lost;
}

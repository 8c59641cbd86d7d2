// SPDX-License-Identifier: BSD-2-Clause
/* The highest rate of a counter between two readings, within the last minute or so. Pure. */
#include "internal.h"

void peak_take(struct peak *peak, uint64_t before_ns, uint64_t after_ns, uint64_t bytes)
{
	uint64_t number = after_ns / PEAK_SLOT_NS + 1;
	struct peak_slot *slot = &peak->slots[number % PEAK_SLOTS];
	double rate;

	if (slot->number != number)
		*slot = (struct peak_slot){.number = number};
	if (peak->begun_ns && bytes >= peak->bytes && after_ns > peak->begun_ns) {
		rate = (double)(bytes - peak->bytes) * 1e9 / (double)(after_ns - peak->begun_ns);
		if (!slot->known || rate > slot->bytes_per_second)
			slot->bytes_per_second = rate;
		slot->known = true;
	}
	peak->begun_ns = before_ns;
	peak->bytes = bytes;
}

bool peak_get(const struct peak *peak, uint64_t now_ns, double *bytes_per_second)
{
	uint64_t number = now_ns / PEAK_SLOT_NS + 1;
	bool known = false;

	*bytes_per_second = 0;
	for (size_t i = 0; i < PEAK_SLOTS; i++) {
		const struct peak_slot *slot = &peak->slots[i];

		if (!slot->known || number - slot->number >= PEAK_SLOTS)
			continue;
		known = true;
		if (slot->bytes_per_second > *bytes_per_second)
			*bytes_per_second = slot->bytes_per_second;
	}
	return known;
}

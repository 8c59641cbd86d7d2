// SPDX-License-Identifier: BSD-2-Clause
#include "serve.h"

#include <string.h>

static struct slot *find_state(struct slots *slots, enum slot_state state)
{
	for (size_t i = 0; i < SLOTS_ROOM; i++)
		if (slots->list[i].state == state)
			return &slots->list[i];
	return NULL;
}

struct slot *slots_open(struct slots *slots, const uint8_t address[16], int fd, uint64_t now_ns)
{
	struct slot *slot = find_state(slots, SLOT_FREE);

	if (!slot) {
		slots->refused++;
		return NULL;
	}
	*slot = (struct slot){.state = SLOT_WAITS, .fd = fd, .since_ns = now_ns};
	memcpy(slot->address, address, sizeof(slot->address));
	slots->opened++;
	return slot;
}

static bool is_open(const struct slot *slot)
{
	return slot->state == SLOT_WAITS || slot->state == SLOT_REPLIES;
}

/* How many connections there are; of one address, unless @address is NULL. */
static size_t count_open(const struct slots *slots, const uint8_t *address)
{
	size_t count = 0;

	for (size_t i = 0; i < SLOTS_ROOM; i++) {
		const struct slot *slot = &slots->list[i];

		count += is_open(slot) && (!address || !memcmp(slot->address, address, 16));
	}
	return count;
}

static const uint8_t *busiest_address(const struct slots *slots)
{
	const uint8_t *found = NULL;
	size_t most = 0;

	for (size_t i = 0; i < SLOTS_ROOM; i++) {
		const struct slot *slot = &slots->list[i];
		size_t count;

		if (!is_open(slot) || (found && !memcmp(found, slot->address, 16)))
			continue;
		count = count_open(slots, slot->address);
		if (count > most) {
			most = count;
			found = slot->address;
		}
	}
	return found;
}

static struct slot *longest_waiting(struct slots *slots, const uint8_t *address,
				    const struct slot *newest)
{
	struct slot *found = NULL;

	for (size_t i = 0; i < SLOTS_ROOM; i++) {
		struct slot *slot = &slots->list[i];

		if (slot->state == SLOT_WAITS && slot != newest &&
		    (!address || !memcmp(slot->address, address, 16)) &&
		    (!found || slot->since_ns < found->since_ns))
			found = slot;
	}
	return found;
}

struct slot *slots_displace(struct slots *slots, struct slot *newest)
{
	struct slot *found;

	if (count_open(slots, NULL) <= SLOTS_MAX)
		return NULL;
	found = longest_waiting(slots, busiest_address(slots), newest);
	if (!found)
		found = longest_waiting(slots, NULL, newest);
	if (found)
		slots->displaced++;
	else
		slots->refused++;
	found = found ? found : newest;
	found->state = SLOT_CLOSES;
	return found;
}

static bool is_over(const struct slot *slot, uint64_t now_ns)
{
	uint64_t spent_ns = now_ns - slot->since_ns;

	if (slot->state == SLOT_WAITS)
		return spent_ns >= (slot->served ? SLOTS_KEEP_NS : SLOTS_FIRST_NS);
	return slot->state == SLOT_REPLIES && !slot->suspended && spent_ns >= SLOTS_REPLY_NS;
}

struct slot *slots_expire(struct slots *slots, uint64_t now_ns)
{
	for (size_t i = 0; i < SLOTS_ROOM; i++) {
		struct slot *slot = &slots->list[i];

		if (!is_over(slot, now_ns))
			continue;
		slot->state = SLOT_CLOSES;
		slots->expired++;
		return slot;
	}
	return NULL;
}

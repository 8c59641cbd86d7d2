// SPDX-License-Identifier: BSD-2-Clause
/*
 * Who measures whom, and when. The rounds are those of a tournament by the circle method: all ends
 * of a round are in one pair each, so no NIC is measured by many at once, and both ends know. With
 * m = n - 1, n even, i and k meet in round i + k mod m; the last one meets the one that would meet
 * itself.
 */
#include "internal.h"

void rotation_plan_make(struct rotation_plan *plan, uint32_t pps, uint32_t ports_max,
			uint64_t hosts, uint64_t racks)
{
	uint64_t each = (uint64_t)pps * ROTATION_SLOT_NS / 1000000000 / ROTATION_PROBES;
	uint64_t ports = ports_max ? ports_max : 1, near = each / 2, mean;

	*plan = (struct rotation_plan){.pps = pps, .near_slots = 1};
	if (pps < ROTATION_PPS_LEAST || !racks)
		return;
	plan->most = (uint32_t)each;
	plan->near_rounds = near >= ports ? (uint32_t)(near / ports) : 1;
	plan->near_slots = near >= ports ? 1 : (uint32_t)((ports + near - 1) / near);
	plan->far_most = plan->used_most = (uint32_t)(each / 4);
	mean = hosts / racks;
	plan->far_rounds = (uint32_t)(plan->far_most * (mean + !mean));
	/* Never two of one pair in a slot. */
	if (plan->far_rounds > rotation_cycle((uint32_t)racks))
		plan->far_rounds = (uint32_t)rotation_cycle((uint32_t)racks);
	plan->far_rounds += !plan->far_rounds;
}

uint64_t rotation_cycle(uint32_t count)
{
	return count < 2 ? 0 : count - 1 + count % 2;
}

uint32_t rotation_partner(uint32_t count, uint64_t round, uint32_t i)
{
	uint64_t m = rotation_cycle(count), k, partner;

	if (!m || i >= count)
		return ROTATION_NONE;
	k = round % m;
	if (i == m)
		partner = k * (m + 1) / 2 % m;
	else
		partner = (k + m - i) % m;
	if (partner == i)
		partner = m;
	return partner < count ? (uint32_t)partner : ROTATION_NONE;
}

/* splitmix64. */
static uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15ull;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ value >> 27) * 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

uint64_t rotation_near_round(const struct rotation_plan *plan, uint64_t slot)
{
	return slot / plan->near_slots * plan->near_rounds;
}

bool rotation_near_is_in(const struct rotation_plan *plan, uint64_t slot, uint64_t cycle,
			 uint32_t i, uint32_t k)
{
	uint64_t low = i < k ? i : k, high = i < k ? k : i;

	return mix(mix(mix(low) ^ high) ^ cycle) % plan->near_slots == slot % plan->near_slots;
}

/*
 * Within a cycle the hosts of a rack take turns; each cycle begins with one that is drawn for the
 * rack, so that a pair of racks is not measured by the same two hosts again and again.
 */
uint32_t rotation_far_host(uint64_t round, uint32_t racks, uint32_t rack, uint32_t hosts)
{
	uint64_t first = mix(mix(rack) ^ round / rotation_cycle(racks)) % hosts;

	return (uint32_t)((round + first) % hosts);
}

bool rotation_far_is_in(const struct rotation_plan *plan, uint64_t round, uint32_t racks,
			uint32_t hosts)
{
	uint64_t room = (uint64_t)hosts * plan->far_most, cycle = rotation_cycle(racks);
	uint64_t part = (plan->far_rounds + room - 1) / room;

	/* Every round in one of @part cycles. */
	return (round % cycle / hosts + round / cycle) % part == 0;
}

uint64_t rotation_far_draw(uint64_t round, uint32_t racks, uint32_t one, uint32_t other)
{
	uint64_t low = one < other ? one : other, high = one < other ? other : one;

	return mix(mix(mix(low) ^ high) ^ round / rotation_cycle(racks));
}

double rotation_near_cycle_s(const struct rotation_plan *plan, uint32_t ports)
{
	/* Spread over slots, some measurements of a round are beyond the budget of one of them. */
	unsigned int cycles = plan->near_slots > 1 ? 3 : 1;

	return (double)cycles * (double)rotation_cycle(ports) * plan->near_slots /
	       plan->near_rounds * (ROTATION_SLOT_NS / 1e9);
}

double rotation_far_cycle_s(const struct rotation_plan *plan, uint32_t racks)
{
	return (double)rotation_cycle(racks) / plan->far_rounds * (ROTATION_SLOT_NS / 1e9);
}

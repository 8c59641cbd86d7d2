// SPDX-License-Identifier: BSD-2-Clause
/*
 * Flaps of a link, from readings of the kernel's counters. netif_carrier_off() counts each loss of
 * the carrier (net/sched/sch_generic.c), however short, while messages of it may be merged
 * (net/core/link_watch.c): so nothing is missed between two readings, and each reading gives its
 * own time to what it shows.
 */
#include <string.h>

#include "internal.h"

/* --- the window --- */

static void window_add(struct esc_link *link, uint64_t now_ns, uint32_t flaps)
{
	unsigned int at;

	if (link->entries == ESC_LINK_FLAPS) {
		/* The oldest one joins the next: a count above a limit stays above it. */
		unsigned int next = (link->first + 1u) % ESC_LINK_FLAPS;

		link->flap_counts[next] += link->flap_counts[link->first];
		link->first = next;
		link->entries--;
	}
	at = (link->first + link->entries) % ESC_LINK_FLAPS;
	link->flap_ns[at] = now_ns;
	link->flap_counts[at] = flaps;
	link->entries++;
	link->flaps += flaps;
}

uint64_t link_count_since(const struct esc_link *link, uint64_t since_ns)
{
	uint64_t sum = 0;

	for (unsigned int i = link->entries; i-- > 0;) {
		unsigned int at = (link->first + i) % ESC_LINK_FLAPS;

		if (link->flap_ns[at] <= since_ns)
			break;
		sum += link->flap_counts[at];
	}
	return sum;
}

uint64_t link_count(const struct esc_link *link, uint64_t now_ns, uint64_t within_ns)
{
	return link_count_since(link, now_ns > within_ns ? now_ns - within_ns : 0);
}

/* --- readings --- */

static void take_state(struct esc_link *link, const struct link_carrier *reading, uint64_t now_ns)
{
	link->state &= ~(ESC_LINK_ADMIN_UP | ESC_LINK_CARRIER);
	link->state |= reading->admin_up ? ESC_LINK_ADMIN_UP : 0;
	link->state |= reading->carrier ? ESC_LINK_CARRIER : 0;
	/* The counter of a driver that was loaded with the carrier there is 0. */
	if (reading->carrier || reading->up_count)
		link->state |= ESC_LINK_HAD_CARRIER;
	link->ifindex = reading->ifindex;
	link->up_count = reading->up_count;
	link->down_count = reading->down_count;
	if (reading->identity)
		link->identity = reading->identity;
	link->seen_ns = now_ns;
}

/* A baseline: nothing that the counters have is a flap. */
static void begin(struct esc_link *link, const struct link_carrier *reading, uint64_t now_ns,
		  uint64_t settled_ns)
{
	link->settled_ns = settled_ns;
	link->changed_ns = now_ns;
	take_state(link, reading, now_ns);
}

void link_take(struct esc_link *link, const struct link_carrier *reading, uint64_t now_ns,
	       uint64_t settle_ns, struct link_change *out)
{
	bool was_up = link->state & ESC_LINK_ADMIN_UP, had = link->state & ESC_LINK_CARRIER;
	uint32_t losses = reading->down_count - link->down_count;
	uint32_t gains = reading->up_count - link->up_count;
	uint64_t before_ns = link->changed_ns;

	memset(out, 0, sizeof(*out));
	if (!link->seen_ns) {
		/* Boot: links train, and switches come up. */
		begin(link, reading, now_ns, settle_ns);
		return;
	}
	if (link->identity && reading->identity && link->identity != reading->identity) {
		memset(link, 0, sizeof(*link));
		begin(link, reading, now_ns, now_ns + settle_ns);
		out->replaced = true;
		return;
	}
	if (link->ifindex != reading->ifindex || (int32_t)losses < 0 || (int32_t)gains < 0) {
		link->resets++;
		begin(link, reading, now_ns, now_ns + settle_ns);
		out->reset = true;
		return;
	}
	if (!was_up || now_ns < link->settled_ns)
		out->planned = losses;
	else if (!reading->admin_up)
		/* Taking it down is a loss of its own; any others came before. */
		out->planned = losses ? 1 : 0;
	out->flaps = losses - out->planned;
	link->planned += out->planned;
	if (out->flaps)
		window_add(link, now_ns, out->flaps);
	if (losses || gains)
		link->changed_ns = now_ns;
	if (!was_up && reading->admin_up)
		link->settled_ns = now_ns + settle_ns;
	out->returned = !had && reading->carrier;
	out->lasted_ns = out->returned ? now_ns - before_ns : 0;
	take_state(link, reading, now_ns);
}

void link_leave(struct esc_link *link)
{
	link->ifindex = 0;
	link->state &= ~(ESC_LINK_ADMIN_UP | ESC_LINK_CARRIER);
}

/* --- alarms --- */

/* Sets the alarm; false: no threshold is exceeded. */
static bool raise_alarm(struct esc_link *link, const struct link_keys *keys, uint64_t now_ns)
{
	for (uint32_t i = 0; i < keys->thresholds.count; i++) {
		const struct link_threshold *one = &keys->thresholds.list[i];
		uint64_t since_ns = now_ns > one->within_ns ? now_ns - one->within_ns : 0;
		uint64_t flaps;

		if (since_ns < link->counted_ns)
			since_ns = link->counted_ns;
		flaps = link_count_since(link, since_ns);
		if (flaps <= one->more_than)
			continue;
		link->alarm_ns = now_ns;
		link->alarm_within_ns = one->within_ns;
		link->alarm_more_than = one->more_than;
		link->alarm_flaps = flaps < UINT32_MAX ? flaps : UINT32_MAX;
		return true;
	}
	return false;
}

/* From the newest change on, not from the alarm: a link that goes on flapping keeps it. */
static bool is_stable(const struct esc_link *link, uint64_t stable_after_ns, uint64_t now_ns)
{
	uint64_t since_ns = link->alarm_ns > link->changed_ns ? link->alarm_ns : link->changed_ns;

	return link->ifindex && link->state & ESC_LINK_ADMIN_UP && link->state & ESC_LINK_CARRIER &&
	       now_ns - since_ns >= stable_after_ns;
}

enum link_step link_evaluate(struct esc_link *link, const struct link_keys *keys, uint64_t now_ns)
{
	if (!link->alarm_ns)
		return raise_alarm(link, keys, now_ns) ? LINK_RAISED : LINK_NOTHING;
	if (!is_stable(link, keys->stable_after_ns, now_ns))
		return LINK_NOTHING;
	link_acknowledge(link, now_ns);
	return LINK_STABLE;
}

bool link_acknowledge(struct esc_link *link, uint64_t now_ns)
{
	if (!link->alarm_ns)
		return false;
	link->alarm_ns = 0;
	link->counted_ns = now_ns;
	return true;
}

bool link_is_lost(const struct esc_link *link, bool expected, uint64_t now_ns)
{
	return expected && link->ifindex && link->state & ESC_LINK_ADMIN_UP &&
	       !(link->state & ESC_LINK_CARRIER) && now_ns >= link->settled_ns;
}

bool link_is_down(const struct esc_link *link, const struct link_keys *keys, bool expected,
		  uint64_t now_ns)
{
	return link_is_lost(link, expected, now_ns) &&
	       now_ns - link->changed_ns >= keys->down_after_ns;
}

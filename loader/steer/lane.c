// SPDX-License-Identifier: BSD-2-Clause
/*
 * Orders by lane, which steering by itself gives: the port of a lane of `paths`, and the
 * lane, so that the kernel programs take its standby when it is dead.
 */
#include <errno.h>
#include <string.h>

#include "daemon/daemon.h"
#include "internal.h"

/* Back to where it came from, when nobody is in a hurry. */
#define HOLD_OF_RETURN_NS 10000000ull
#define WITHIN_NS 500000000ull

int steer_order_lane(struct steer *steer, struct steered *entry,
		     const struct steer_lane_order *order, uint64_t now_ns)
{
	struct steered was = *entry;
	int err;

	entry->want = (struct esc_steer){
		.sport = order->sport,
		.flags = ESC_STEER_LANE,
		.lane = (uint8_t)order->lane,
		.slot = (uint16_t)order->slot,
		.hold_ns = order->hold_ns,
		.start_local_ns = order->start_local_ns,
		.force_local_ns = order->force_local_ns,
	};
	if (entry->has_back) {
		entry->want.flags |= ESC_STEER_BACK;
		entry->want.back_qpn = entry->back.dest_qpn;
	}
	entry->by_itself = true;
	entry->reason = order->reason;
	entry->done = false;
	entry->ordered_local_ns = now_ns;
	entry->before = entry->now;
	entry->state =
		order->reason == STEER_BY_COVER && !order->sport ? STEERED_COVERED : STEERED_WAITS;
	err = steer_publish(steer, entry);
	if (err)
		*entry = was;
	return err;
}

struct steered *steer_cover(struct steer *steer, const struct esc_qp_key *key,
			    const struct esc_qp *qp, unsigned int slot, unsigned int home,
			    uint64_t now_ns)
{
	const struct steer_lane_order order = {
		.slot = slot, .lane = home, .reason = STEER_BY_COVER};
	struct steered *entry;

	if (steer->count == ESC_STEERS_MAX)
		return NULL;
	entry = steer_add(steer, key);
	if (!entry)
		return NULL;
	entry->first_local_ns = qp->first_local_ns;
	entry->own_sport = qp->sport;
	entry->home = entry->stood_lane = (uint8_t)home;
	steer_count(steer, entry, qp);
	if (!steer_order_lane(steer, entry, &order, now_ns))
		return entry;
	steer->count--;
	return NULL;
}

int steer_go_home(struct steer *steer, struct steered *entry, uint64_t now_ns)
{
	const struct steer_lane_order order = {
		.slot = entry->want.slot, .lane = entry->home, .reason = STEER_BY_COVER};

	return steer_order_lane(steer, entry, &order, now_ns);
}

static void drop(struct steer *steer, struct steered *entry)
{
	steer_withdraw(steer, &entry->key);
	*entry = steer->list[--steer->count];
}

void steer_uncover(struct steer *steer, struct steered *entry)
{
	uint64_t now_ns = time_local_ns();

	entry->by_itself = false;
	if (entry->state == STEERED_COVERED) {
		drop(steer, entry);
		return;
	}
	entry->want = (struct esc_steer){
		.hold_ns = HOLD_OF_RETURN_NS,
		.start_local_ns = now_ns + WITHIN_NS,
		.force_local_ns = now_ns + 2 * WITHIN_NS,
	};
	entry->before = entry->now;
	entry->state = STEERED_CLEARS;
	entry->reason = STEER_BY_OPERATOR;
	entry->done = false;
	entry->ordered_local_ns = now_ns;
	if (steer_publish(steer, entry))
		drop(steer, entry);
}

void steer_uncover_all(struct steer *steer)
{
	for (size_t i = steer->count; i-- > 0;)
		if (steer->list[i].by_itself)
			steer_uncover(steer, &steer->list[i]);
}

// SPDX-License-Identifier: BSD-2-Clause
/* What the contention policy wants, as orders for the kernel programs. */
#include <stdint.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "base/log.h"
#include "auto.h"

#define NEVER_NS UINT64_MAX
#define HOLD_GROWS 8 /* by a part of it, before the order is given anew */

/* Where @path is reached by: its own port, if that is one of the path's; else a lane's. */
static bool aim(const struct auto_pair *pair, const struct steered *entry, uint32_t path,
		struct steer_lane_order *order)
{
	int lane = auto_pair_lane_for(pair, path);

	if (auto_pair_path_of(pair, entry->home) == path) {
		order->lane = entry->home;
		order->sport = 0;
		return true;
	}
	if (lane < 0)
		return false;
	order->lane = (unsigned int)lane;
	order->sport = pair->lanes[lane].sport;
	return true;
}

static void move(struct steer *steer, struct auto_pair *pair, const struct contend_act *act,
		 struct steered *entry, uint64_t now_ns)
{
	bool never = steer_keys(steer->daemon->config)->overtake == STEER_OVERTAKE_NEVER;
	struct steer_lane_order order = {
		.slot = pair->facts.slot,
		.reason = act->kind == CONTEND_BACK ? STEER_BY_TAKEN_BACK : STEER_BY_CONTENTION,
		.hold_ns = (uint64_t)act->hold_ns,
		.start_local_ns = never ? NEVER_NS : (uint64_t)act->start_ns,
		.force_local_ns = never ? NEVER_NS : (uint64_t)act->force_ns,
	};

	if (!aim(pair, entry, act->to, &order))
		return; /* it died since: the policy sees that nothing was done */
	if (steer_order_lane(steer, entry, &order, now_ns))
		auto_tell_full(steer, &entry->key);
}

void auto_follow_hold(struct steer *steer, const struct auto_pair *pair, size_t q,
		      struct steered *entry)
{
	const struct contend_qp *qp = &pair->qps[q];
	struct esc_steer was = entry->want;
	const struct contend_path *from, *to;
	uint64_t hold_ns;

	if (!qp->ordered || qp->arrived_ns || entry->done || qp->from >= ESC_PATH_LANES_MAX ||
	    qp->to >= ESC_PATH_LANES_MAX)
		return;
	from = &pair->paths[qp->from];
	to = &pair->paths[qp->to];
	if (!from->fresh || !to->fresh)
		return;
	hold_ns = (uint64_t)contend_hold_ns(from, to);
	if (hold_ns <= entry->want.hold_ns + entry->want.hold_ns / HOLD_GROWS)
		return;
	entry->want.hold_ns = hold_ns;
	if (steer_publish(steer, entry))
		entry->want = was;
}

void auto_withdraw(struct steer *steer, const struct auto_pair *pair, struct steered *entry,
		   uint64_t now_ns)
{
	const struct steer_lane_order order = {
		.slot = pair->facts.slot,
		.lane = entry->stood_lane,
		.sport = entry->stood_sport,
		.reason = STEER_BY_COVER,
	};

	if (!entry->done)
		steer_order_lane(steer, entry, &order, now_ns);
}

void auto_carry_out(struct steer *steer, struct auto_pair *pair, const struct contend_act *act,
		    uint64_t now_ns)
{
	struct steered *entry = steer_find(steer, &pair->who[act->qp].key);

	auto_tell_act(steer, pair, act);
	if (!entry || !entry->by_itself)
		return; /* a hand was there first */
	if (act->kind == CONTEND_MOVE || act->kind == CONTEND_BACK)
		move(steer, pair, act, entry, now_ns);
	else if (act->kind == CONTEND_UNDONE)
		auto_withdraw(steer, pair, entry, now_ns);
}

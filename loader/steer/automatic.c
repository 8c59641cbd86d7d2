// SPDX-License-Identifier: BSD-2-Clause
/*
 * Automatic rules: they name a candidate path as well as its port, so that the kernel programs
 * use its standby while it is down. A queue pair that stays on its own path has one too.
 */
#include <string.h>

#include "internal.h"

/* On the way back to its own path nothing is urgent. */
#define RETURN_GAP_NS 10000000ull
#define RETURN_DEADLINE_NS 500000000ull

int steer_auto_publish(struct steer *steer, struct auto_rule *one, const struct auto_target *target,
		       uint64_t now_ns)
{
	struct auto_rule was = *one;
	struct rule *rule = &one->rule;
	int err;

	rule->want = (struct esc_steer){
		.sport = target->sport,
		.flags = ESC_STEER_PATH,
		.path = (uint8_t)target->id,
		.slot = (uint16_t)target->slot,
		.flowlet_gap_ns = target->gap_ns,
		.start_local_ns = target->start_local_ns,
		.force_local_ns = target->force_local_ns,
	};
	if (rule->has_back) {
		rule->want.flags |= ESC_STEER_REVERSE;
		rule->want.reverse_qpn = rule->back.dest_qpn;
	}
	rule->state = target->reason == STEER_BY_TRACKING && !target->sport ? RULE_TRACKING
									    : RULE_WAITING;
	rule->in_effect = false;
	rule->published_local_ns = now_ns;
	rule->before = rule->now;
	one->reason = target->reason;
	err = steer_publish(steer, rule);
	if (err)
		*one = was;
	return err;
}

struct auto_rule *steer_track(struct steer *steer, const struct esc_qp_key *key,
			      const struct esc_qp *qp, unsigned int slot, unsigned int home,
			      uint64_t now_ns)
{
	const struct auto_target target = {.slot = slot, .id = home, .reason = STEER_BY_TRACKING};
	struct auto_rule *one =
		steer_rule_total(steer) < ESC_STEERS_MAX ? steer_auto_add(steer, key) : NULL;

	if (!one)
		return NULL;
	one->rule.first_local_ns = qp->first_local_ns;
	one->rule.own_sport = qp->sport;
	one->home = one->last_id = (uint8_t)home;
	steer_count(steer, &one->rule, qp);
	if (!steer_auto_publish(steer, one, &target, now_ns))
		return one;
	steer_rule_forget(steer, &one->rule);
	return NULL;
}

int steer_auto_return(struct steer *steer, struct auto_rule *one, uint64_t now_ns)
{
	const struct auto_target target = {
		.slot = one->rule.want.slot, .id = one->home, .reason = STEER_BY_TRACKING};

	return steer_auto_publish(steer, one, &target, now_ns);
}

/* The return is as after `steer clear`: the rule is one of the operator until it ends. */
void steer_untrack(struct steer *steer, struct auto_rule *one)
{
	uint64_t now_ns = time_local_ns();
	struct rule *rule = one->rule.state == RULE_TRACKING ? NULL : steer_auto_take(steer, one);

	if (!rule) {
		steer_rule_drop(steer, &one->rule);
		return;
	}
	rule->want = (struct esc_steer){
		.flowlet_gap_ns = RETURN_GAP_NS,
		.start_local_ns = now_ns + RETURN_DEADLINE_NS,
		.force_local_ns = now_ns + 2 * RETURN_DEADLINE_NS,
	};
	rule->before = rule->now;
	rule->state = RULE_CLEARING;
	rule->in_effect = false;
	rule->published_local_ns = now_ns;
	if (steer_publish(steer, rule))
		steer_rule_drop(steer, rule);
}

void steer_untrack_all(struct steer *steer)
{
	for (size_t i = steer->auto_count; i-- > 0;)
		steer_untrack(steer, &steer->autos[i]);
}

void steer_switch_automatic(struct steer *steer, bool on, const char *by)
{
	if (steer->automatic == on)
		return;
	steer->automatic = on;
	steer->table_local_ns = 0;
	if (!on) {
		steer_untrack_all(steer);
		pairs_free(&steer->pairs);
	}
	steer_report_automatic(steer, by);
}

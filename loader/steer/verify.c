// SPDX-License-Identifier: BSD-2-Clause
/*
 * What became of a rule: it took effect, the queue pair does as well as before (pacing/verify.h) or
 * is rolled back, or the rule has ended. A queue pair that was rolled back has a penalty.
 */
#include <string.h>

#include "base/array.h"
#include "internal.h"

#define PENALTY_FIRST_NS 10000000000ull
#define PENALTY_MOST_NS 600000000000ull

/* --- penalties --- */

static struct penalty *penalty_find(const struct steer *steer, const struct esc_qp_key *key)
{
	for (size_t i = 0; i < steer->penalty_count; i++)
		if (!memcmp(&steer->penalties[i].key, key, sizeof(*key)))
			return &steer->penalties[i];
	return NULL;
}

const struct penalty *steer_penalty(const struct steer *steer, const struct esc_qp_key *key,
				    uint64_t now_ns)
{
	const struct penalty *penalty = penalty_find(steer, key);

	return penalty && penalty->until_local_ns > now_ns ? penalty : NULL;
}

/* Twice as long each time, until there was none for as long as the longest. NULL: no memory. */
static const struct penalty *penalize(struct steer *steer, const struct esc_qp_key *key,
				      enum verify_result why, uint64_t now_ns)
{
	struct penalty *penalty = penalty_find(steer, key);

	if (!penalty) {
		penalty = array_add(&steer->penalties, &steer->penalty_count, &steer->penalty_room,
				    sizeof(*penalty));
		if (!penalty)
			return NULL;
		*penalty = (struct penalty){.key = *key, .length_ns = PENALTY_FIRST_NS / 2};
	}
	penalty->length_ns *= 2;
	if (penalty->length_ns > PENALTY_MOST_NS)
		penalty->length_ns = PENALTY_MOST_NS;
	penalty->until_local_ns = now_ns + penalty->length_ns;
	penalty->why = why;
	return penalty;
}

void steer_expire_penalties(struct steer *steer, uint64_t now_ns)
{
	for (size_t i = steer->penalty_count; i-- > 0;)
		if (steer->penalties[i].until_local_ns + PENALTY_MOST_NS < now_ns)
			steer->penalties[i] = steer->penalties[--steer->penalty_count];
}

/* --- rules --- */

void steer_end_rule(struct steer *steer, struct rule *rule, const char *why)
{
	if (rule->state != RULE_TRACKING)
		steer_report_ended(steer, rule, why);
	steer_rule_drop(steer, rule);
}

enum progress { GONE, LAPSED, WAITS, TAKES_EFFECT, IN_EFFECT };

/* Reads what the queue pair does now. */
static enum progress progress_of(struct steer *steer, struct rule *rule)
{
	struct esc_qp qp;

	if (steer_read_qp(steer, &rule->key, &qp) || qp.first_local_ns != rule->first_local_ns)
		return GONE;
	rule->now = qp.steer;
	steer_count(steer, rule, &qp);
	if (rule->now.rule == rule->want.number && rule->now.flags & ESC_QP_STEER_LAPSED)
		return LAPSED;
	if (rule->in_effect)
		return IN_EFFECT;
	return rule->now.applied == rule->want.number ? TAKES_EFFECT : WAITS;
}

/* @before: the last counts that are known not to hold a packet of the new path. */
static void take_effect(struct steer *steer, struct rule *rule, const struct verify_counts *before,
			uint64_t now_ns)
{
	struct auto_rule *one = rule->automatic ? (struct auto_rule *)rule : NULL;
	enum steer_reason reason = one ? one->reason : STEER_BY_OPERATOR;

	rule->in_effect = true;
	rule->trigger = rule->now.trigger;
	rule->effect_local_ns = rule->now.applied_local_ns;
	if (one) {
		one->last_id = rule->want.path;
		one->last_sport = rule->want.sport;
	}
	if (reason != STEER_BY_TRACKING) {
		steer->switches[reason]++;
		steer_report_moved(steer, rule, reason);
	}
	if (rule->state == RULE_CLEARING) {
		steer_rule_drop(steer, rule);
	} else if (one && !rule->want.sport) {
		rule->state = RULE_TRACKING;
	} else {
		rule->state = RULE_MOVED;
		verify_start(&rule->verify, before, now_ns,
			     rule->trigger == ESC_STEER_TRIGGER_FORCED);
	}
}

/* True: it does worse, which was reported, and is to be rolled back. */
static bool does_worse(struct steer *steer, struct rule *rule, uint64_t now_ns)
{
	const struct verify_counts from = rule->verify.from;
	enum verify_result verdict = verify_poll(&rule->verify, &rule->counts, now_ns);

	if (verdict == VERIFY_PROVED && rule->state == RULE_MOVED) {
		rule->state = RULE_VERIFIED;
		steer_report_verified(steer, rule, &from);
	}
	if (!verify_is_bad(verdict))
		return false;
	steer->switches[STEER_BY_ROLLBACK]++;
	steer_report_rolled_back(steer, rule, verdict,
				 penalize(steer, &rule->key, verdict, now_ns));
	return true;
}

/*
 * Packets of a tracked queue pair use a standby. The peer reports when that is down too; when it
 * reports nothing any more, what comes back shows it.
 */
static void verify_standby(struct steer *steer, struct auto_rule *one, uint64_t now_ns)
{
	struct rule *rule = &one->rule;
	bool was = one->on_standby;

	one->on_standby = rule->now.flags & ESC_QP_STEER_DIVERTED;
	if (!one->on_standby)
		return;
	if (!was)
		verify_start(&rule->verify, &rule->counts, now_ns, true);
	if (verify_poll(&rule->verify, &rule->counts, now_ns) != VERIFY_SILENT)
		return;
	paths_release(steer->paths, rule->want.slot, rule->want.path);
	one->on_standby = false; /* verified anew from here on */
}

void steer_verify_rule(struct steer *steer, struct rule *rule, uint64_t now_ns)
{
	const struct verify_counts before = rule->counts;

	switch (progress_of(steer, rule)) {
	case GONE:
		steer_end_rule(steer, rule, "gone");
		break;
	case LAPSED:
		steer_end_rule(steer, rule, "lapsed");
		break;
	case WAITS:
		/* One that sends nothing waits for nothing: its next packet comes after a gap. */
		if (rule->state == RULE_CLEARING && rule->now.rule != rule->want.number &&
		    now_ns > rule->want.force_local_ns)
			steer_end_rule(steer, rule, "cleared");
		break;
	case TAKES_EFFECT:
		take_effect(steer, rule, &before, now_ns);
		break;
	case IN_EFFECT:
		if (rule->state == RULE_TRACKING)
			verify_standby(steer, (struct auto_rule *)rule, now_ns);
		else if (does_worse(steer, rule, now_ns) &&
			 (!rule->automatic ||
			  steer_auto_return(steer, (struct auto_rule *)rule, now_ns)))
			steer_rule_drop(steer, rule);
		break;
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * What became of a rule: it took effect, the queue pair does as well as before (pacing/verify.h) or
 * is rolled back, or the rule has ended. A queue pair that was rolled back has a penalty.
 */
#include <stdlib.h>
#include <string.h>

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

static struct penalty *penalty_new(struct steer *steer, const struct esc_qp_key *key)
{
	struct penalty *grown;

	if (steer->penalty_count == steer->penalty_room) {
		size_t room = steer->penalty_room ? 2 * steer->penalty_room : 16;

		grown = reallocarray(steer->penalties, room, sizeof(*grown));
		if (!grown)
			return NULL;
		steer->penalties = grown;
		steer->penalty_room = room;
	}
	grown = &steer->penalties[steer->penalty_count++];
	*grown = (struct penalty){.key = *key, .length_ns = PENALTY_FIRST_NS / 2};
	return grown;
}

/* Twice as long each time, until there was none for as long as the longest. NULL: no memory. */
static const struct penalty *penalize(struct steer *steer, const struct esc_qp_key *key,
				      enum verify_verdict why, uint64_t now_ns)
{
	struct penalty *penalty = penalty_find(steer, key);

	if (!penalty)
		penalty = penalty_new(steer, key);
	if (!penalty)
		return NULL;
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

/* --- what both kinds of rules have in common --- */

void steer_end_rule(struct steer *steer, struct rule *rule, const char *why)
{
	steer_report_ended(steer, rule, why);
	steer_rule_drop(steer, rule);
}

void steer_end_auto(struct steer *steer, struct auto_rule *one, const char *why)
{
	if (one->rule.state != RULE_TRACKING)
		steer_report_ended(steer, &one->rule, why);
	steer_auto_drop(steer, one);
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

static void take_effect(struct steer *steer, struct rule *rule, enum steer_reason reason)
{
	rule->in_effect = true;
	rule->trigger = rule->now.trigger;
	rule->effect_local_ns = rule->now.applied_local_ns;
	if (reason == STEER_BY_TRACKING)
		return;
	steer->switches[reason]++;
	steer_report_moved(steer, rule, reason);
}

/* @before: the last counts that are known not to hold a packet of the new path. */
static void start_verification(struct rule *rule, const struct verify_counts *before,
			       uint64_t now_ns)
{
	rule->state = RULE_MOVED;
	verify_start(&rule->verify, before, now_ns, rule->trigger == ESC_STEER_TRIGGER_FORCED);
}

/* True: it does worse, which was reported, and is to be rolled back. */
static bool does_worse(struct steer *steer, struct rule *rule, uint64_t now_ns)
{
	const struct verify_counts from = rule->verify.from;
	enum verify_verdict verdict = verify_look(&rule->verify, &rule->counts, now_ns);

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

/* --- rules of the operator --- */

/* One that sends nothing has no rule to wait for: its next packet comes after a gap. */
static bool has_cleared(const struct rule *rule, uint64_t now_ns)
{
	return rule->state == RULE_CLEARING && rule->now.rule != rule->want.number &&
	       now_ns > rule->want.force_local_ns;
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
		if (has_cleared(rule, now_ns))
			steer_end_rule(steer, rule, "cleared");
		break;
	case TAKES_EFFECT:
		take_effect(steer, rule, STEER_BY_OPERATOR);
		if (rule->state == RULE_CLEARING)
			steer_rule_drop(steer, rule);
		else
			start_verification(rule, &before, now_ns);
		break;
	case IN_EFFECT:
		if (does_worse(steer, rule, now_ns))
			steer_rule_drop(steer, rule);
		break;
	}
}

/* --- automatic rules --- */

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
	if (verify_look(&rule->verify, &rule->counts, now_ns) != VERIFY_SILENT)
		return;
	paths_release(steer->paths, rule->want.slot, rule->want.path);
	one->on_standby = false; /* verified anew from here on */
}

static void auto_take_effect(struct steer *steer, struct auto_rule *one,
			     const struct verify_counts *before, uint64_t now_ns)
{
	struct rule *rule = &one->rule;

	one->last_id = rule->want.path;
	one->last_sport = rule->want.sport;
	take_effect(steer, rule, one->reason);
	if (rule->want.sport)
		start_verification(rule, before, now_ns);
	else
		rule->state = RULE_TRACKING;
}

void steer_verify_auto(struct steer *steer, struct auto_rule *one, uint64_t now_ns)
{
	const struct verify_counts before = one->rule.counts;

	switch (progress_of(steer, &one->rule)) {
	case GONE:
		steer_end_auto(steer, one, "gone");
		break;
	case LAPSED:
		steer_end_auto(steer, one, "lapsed");
		break;
	case WAITS:
		break;
	case TAKES_EFFECT:
		auto_take_effect(steer, one, &before, now_ns);
		break;
	case IN_EFFECT:
		if (one->rule.state == RULE_TRACKING)
			verify_standby(steer, one, now_ns);
		else if (does_worse(steer, &one->rule, now_ns) &&
			 steer_auto_return(steer, one, now_ns))
			steer_auto_drop(steer, one);
		break;
	}
}

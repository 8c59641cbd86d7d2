// SPDX-License-Identifier: BSD-2-Clause
/*
 * What became of a rule: it took effect, the queue pair does as well as before (pacing/verify.h) or
 * is rolled back, or the rule has ended. A queue pair that was rolled back has a penalty.
 */
#include <string.h>

#include "base/address.h"
#include "base/array.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

#define PENALTY_FIRST_NS 10000000000ull
#define PENALTY_MOST_NS 600000000000ull
#define SWITCH_WAIT_NS 500000000ull /* with two verifications: reported within a second */

/* --- events --- */

const struct event_kind steer_events[] = {STEER_EVENTS(EVENT_KIND){}};

static const struct {
	const char *name, *meaning;
} triggers[ESC_STEER_TRIGGER_MAX] = {
#define X(id, name, text) [ESC_STEER_TRIGGER_##id] = {#name, text},
	ESC_STEER_TRIGGERS(X)
#undef X
};

const char *steer_trigger_name(enum esc_steer_trigger trigger)
{
	return triggers[trigger].name;
}

const char *steer_reason_name(enum steer_reason reason)
{
	static const char *const names[] = {
		[STEER_BY_OPERATOR] = "operator",     [STEER_BY_ROLLBACK] = "rollback",
		[STEER_BY_CONTENTION] = "contention", [STEER_BY_TAKEN_BACK] = "undone",
		[STEER_BY_TRACKING] = "tracking",
	};

	return names[reason];
}

const char *steer_subject(const struct esc_qp_key *key, char out[128])
{
	return address_format_qp(&key->src, &key->dst, key->dest_qpn, out);
}

/* The port, and the flow label if one is set, that packets leave with. */
static json_t *path_json(const struct rule *rule, uint16_t sport, bool has_label, uint32_t label)
{
	json_t *path = json_object();

	json_put_count(path, "sport", sport ? sport : rule->own_sport);
	if (has_label)
		json_put_count(path, "flow_label", label);
	return path;
}

json_t *steer_path_wanted(const struct rule *rule)
{
	return path_json(rule, rule->want.sport, rule->want.flags & ESC_STEER_LABEL,
			 rule->want.flow_label);
}

/* Since @from, where the verification began. */
static json_t *counts_json(const struct rule *rule, const struct verify_counts *from)
{
	const struct verify_counts *now = &rule->counts;
	json_t *seen = json_object();

	json_put_count(seen, "sent", now->sent - from->sent);
	json_put_count(seen, "retransmitted", now->resent - from->resent);
	if (!now->paired || !from->paired)
		return seen;
	json_put_count(seen, "acked", now->back - from->back);
	json_put_count(seen, "naks", now->naks - from->naks);
	json_put_count(seen, "requests_repeated", now->repeated - from->repeated);
	return seen;
}

/* @event: but for kind and subject. */
static void report(struct steer *steer, const struct rule *rule, int kind, struct event event)
{
	char subject[128];

	event.kind = &steer_events[kind];
	event.subject = steer_subject(&rule->key, subject);
	log_info("%s: %s", subject, event.kind->name);
	event.qp = &rule->key;
	events_add(steer->core->events, &event);
}

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
		report(steer, rule, STEERING_ENDED,
		       (struct event){
			       .seen = json_pack("{s:I}", "packets", (json_int_t)rule->now.packets),
			       .done = json_pack("{s:s, s:o}", "reason", why, "from",
						 steer_path_wanted(rule)),
		       });
	steer_rule_drop(steer, rule);
}

/* @before: the last counts that are known not to hold a packet of the new path. */
static void take_effect(struct steer *steer, struct rule *rule, const struct verify_counts *before,
			uint64_t now_ns)
{
	struct auto_rule *one = rule->automatic ? (struct auto_rule *)rule : NULL;
	enum steer_reason reason = one ? one->reason : STEER_BY_OPERATOR;

	rule->in_effect = true;
	rule->trigger = rule->now.trigger;
	if (one) {
		one->last_id = rule->want.path;
		one->last_sport = rule->want.sport;
	}
	if (reason != STEER_BY_TRACKING) {
		uint64_t at_ns = rule->now.applied_local_ns, from_ns = rule->published_local_ns;
		json_int_t waited_us = at_ns > from_ns ? (json_int_t)(at_ns - from_ns) / 1000 : 0;

		steer->switches[reason]++;
		report(steer, rule, PATH_SWITCHED,
		       (struct event){
			       .seen = json_pack("{s:I, s:I}", "own_sport",
						 (json_int_t)rule->own_sport, "waited_us",
						 waited_us),
			       .done = json_pack("{s:s, s:o, s:o}", "reason",
						 steer_reason_name(reason), "from",
						 path_json(rule, rule->before.sport,
							   rule->before.flags & ESC_QP_STEER_LABEL,
							   rule->before.flow_label),
						 "to", steer_path_wanted(rule)),
			       .expected = json_pack("{s:s}", "replies",
						     "as before; else the rule is rolled back"),
			       .result = json_pack("{s:s, s:s}", "trigger",
						   triggers[rule->trigger].name, "meaning",
						   triggers[rule->trigger].meaning),
		       });
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
	enum verify_result result = verify_poll(&rule->verify, &rule->counts, now_ns);
	const struct penalty *penalty;
	json_t *outcome;

	if (result == VERIFY_PROVED && rule->state == RULE_MOVED) {
		rule->state = RULE_VERIFIED;
		report(steer, rule, PATH_VERIFIED,
		       (struct event){
			       .seen = counts_json(rule, &from),
			       .done = json_pack("{s:o}", "path", steer_path_wanted(rule)),
			       .result = json_pack("{s:s}", "meaning", verify_meaning(result)),
		       });
	}
	if (!verify_is_bad(result))
		return false;
	steer->switches[STEER_BY_ROLLBACK]++;
	penalty = penalize(steer, &rule->key, result, now_ns);
	outcome = json_object();
	if (penalty)
		json_put_count(outcome, "penalty_ms", penalty->length_ns / 1000000);
	json_put_count(outcome, "packets", rule->now.packets);
	report(steer, rule, PATH_ROLLED_BACK,
	       (struct event){
		       .seen = counts_json(rule, &rule->verify.from),
		       .done = json_pack(
			       "{s:s, s:o, s:o}", "reason", steer_reason_name(STEER_BY_ROLLBACK),
			       "from", steer_path_wanted(rule), "to", path_json(rule, 0, false, 0)),
		       .expected = json_pack("{s:s, s:s}", "verification", verify_name(result),
					     "meaning", verify_meaning(result)),
		       .result = outcome,
	       });
	return true;
}

/*
 * Packets of a tracked queue pair use a backup. The peer reports when that is down too; when it
 * reports nothing any more, what comes back shows it.
 */
static void verify_backup(struct steer *steer, struct auto_rule *one, uint64_t now_ns)
{
	struct rule *rule = &one->rule;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): tracked rules are automatic */
	bool was = one->on_backup;

	one->on_backup = rule->now.flags & ESC_QP_STEER_DIVERTED;
	if (!one->on_backup)
		return;
	if (!was)
		verify_start(&rule->verify, &rule->counts, now_ns, true);
	if (verify_poll(&rule->verify, &rule->counts, now_ns) != VERIFY_SILENT)
		return;
	paths_release(steer->paths, rule->want.slot, rule->want.path);
	one->on_backup = false; /* verification restarts here */
}

/* The transport's timer, where it is known; 0: it never expires. */
static void put_timer(json_t *object, const struct owner *owner)
{
	if (!owner || !(owner->is.flags & ESC_OWNER_TIMER))
		return;
	json_put_count(object, "ack_timeout_us",
		       owner->is.ack_timeout ? (4096ull << owner->is.ack_timeout) / 1000 : 0);
	json_put_count(object, "retry_count", owner->is.retry_count);
}

/*
 * The port of the backup that its next packet will take since its path is dead; 0: it is not, or
 * there is none.
 */
static uint16_t backup_to_take(const struct steer *steer, const struct rule *rule)
{
	struct path_facts found[ESC_PATHS_MAX];
	uint16_t sports[ESC_PATHS_MAX] = {0};
	int backup = -1;
	size_t count;

	if (!rule->automatic || rule->now.flags & ESC_QP_STEER_DIVERTED)
		return 0;
	count = paths_candidates(steer->paths, rule->want.slot, found);
	for (size_t i = 0; i < count; i++) {
		if (found[i].id < ESC_PATHS_MAX)
			sports[found[i].id] = found[i].sport;
		if (found[i].id == rule->want.path && found[i].state == PATHLIVE_DOWN)
			backup = found[i].backup;
	}
	return backup >= 0 && backup < ESC_PATHS_MAX ? sports[backup] : 0;
}

static bool is_waiting(const struct rule *rule, uint64_t now_ns)
{
	return rule->state == RULE_WAITING && now_ns - rule->published_local_ns >= SWITCH_WAIT_NS;
}

/*
 * It was to leave its path, by a rule or since the path is dead, has sent nothing for a while, and
 * some of what it sent is not acknowledged: until its transport's timer nothing happens.
 */
static void check_wait(struct steer *steer, struct rule *rule, const struct verify_counts *before,
		       uint64_t now_ns)
{
	bool waiting = is_waiting(rule, now_ns);
	uint32_t unacked, next;
	uint16_t backup = 0;
	json_t *seen;

	if (!rule->silent_since_ns || rule->counts.sent != before->sent) {
		rule->silent_since_ns = now_ns;
		rule->wait_reported &= rule->state == RULE_WAITING;
	}
	if (rule->wait_reported || now_ns - rule->silent_since_ns < SWITCH_WAIT_NS)
		return;
	unacked = steer_unacked(steer, rule, &next);
	if (unacked && !waiting)
		backup = backup_to_take(steer, rule);
	if (!unacked || (!waiting && !backup))
		return;
	rule->wait_reported = true;
	seen = json_pack("{s:I, s:I}", "waited_us",
			 (json_int_t)(now_ns - rule->silent_since_ns) / 1000, "unacked_psns",
			 (json_int_t)unacked);
	put_timer(seen, qptable_owner(steer->qps, &rule->key, ""));
	report(steer, rule, SWITCH_WAITS,
	       (struct event){
		       .seen = seen,
		       .expected = json_pack("{s:o}", "to",
					     waiting ? steer_path_wanted(rule)
						     : path_json(rule, backup, false, 0)),
	       });
}

void steer_verify_rule(struct steer *steer, struct rule *rule, uint64_t now_ns)
{
	const struct verify_counts before = rule->counts;
	struct auto_rule *one = rule->automatic ? (struct auto_rule *)rule : NULL;
	struct esc_qp qp;

	if (steer_read_qp(steer, &rule->key, &qp) || qp.first_local_ns != rule->first_local_ns) {
		steer_end_rule(steer, rule, "gone");
		return;
	}
	rule->now = qp.steer;
	steer_count(steer, rule, &qp);
	if (rule->now.rule == rule->want.number && rule->now.flags & ESC_QP_STEER_LAPSED) {
		steer_end_rule(steer, rule, "lapsed");
		return;
	}
	if (!rule->in_effect) {
		if (rule->now.applied == rule->want.number)
			take_effect(steer, rule, &before, now_ns);
		/* One that sends nothing waits for nothing: its next packet comes after a gap. */
		else if (rule->state == RULE_CLEARING && rule->now.rule != rule->want.number &&
			 now_ns > rule->want.force_local_ns)
			steer_end_rule(steer, rule, "cleared");
		else
			check_wait(steer, rule, &before, now_ns);
		return;
	}
	check_wait(steer, rule, &before, now_ns);
	if (rule->state == RULE_TRACKING) {
		verify_backup(steer, one, now_ns);
		return;
	}
	if (!does_worse(steer, rule, now_ns))
		return;
	/* A queue pair of an automatic rule stays tracked on its own path. */
	if (!one ||
	    steer_auto_publish(steer, one,
			       (struct esc_steer){.slot = rule->want.slot, .path = one->home},
			       STEER_BY_TRACKING, now_ns))
		steer_rule_drop(steer, rule);
}

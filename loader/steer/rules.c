// SPDX-License-Identifier: BSD-2-Clause
/*
 * The rules: the map `steers`, which is written here and nowhere else, whether a rule is of the
 * operator or automatic, and the two lists of what is in it.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"
#include "qp/qp.h"

/* --- the map --- */

/* Numbers go on over restarts, with the map. Entries of `qps` begin with a low half of 0. */
static uint32_t next_generation(const struct steer *steer)
{
	uint32_t generation = steer->control->steer_generation + 1;

	return generation & 0xffff ? generation : generation + 1;
}

static void notify_programs(struct steer *steer)
{
	__atomic_store_n(&steer->control->steer_generation, next_generation(steer),
			 __ATOMIC_SEQ_CST);
}

int steer_publish(struct steer *steer, struct rule *rule)
{
	int err;

	rule->want.number = next_generation(steer);
	err = bpf_map_update_elem(steer->steers_fd, &rule->key, &rule->want, BPF_ANY);
	if (!err)
		notify_programs(steer);
	return err;
}

void steer_withdraw_all(struct steer *steer)
{
	struct esc_qp_key key;

	/* Bounded: somebody else may be writing the map. */
	for (int i = 0; i < 2 * ESC_STEERS_MAX; i++) {
		if (bpf_map_get_next_key(steer->steers_fd, NULL, &key))
			break;
		bpf_map_delete_elem(steer->steers_fd, &key);
	}
	notify_programs(steer);
}

/* --- the lists --- */

size_t steer_rule_total(const struct steer *steer)
{
	return steer->rule_count + steer->auto_count;
}

struct rule *steer_rule_at(const struct steer *steer, size_t i)
{
	return i < steer->rule_count ? &steer->rules[i] : &steer->autos[i - steer->rule_count].rule;
}

struct rule *steer_rule_add(struct steer *steer, const struct esc_qp_key *key)
{
	struct rule *rule =
		array_add(&steer->rules, &steer->rule_count, &steer->rule_room, sizeof(*rule));

	if (rule)
		rule->key = *key;
	return rule;
}

struct auto_rule *steer_auto_add(struct steer *steer, const struct esc_qp_key *key)
{
	struct auto_rule *one =
		array_add(&steer->autos, &steer->auto_count, &steer->auto_room, sizeof(*one));

	if (!one)
		return NULL;
	one->rule.key = *key;
	one->rule.automatic = true;
	return one;
}

struct rule *steer_rule_find(const struct steer *steer, const struct esc_qp_key *key)
{
	for (size_t i = 0; i < steer->rule_count; i++)
		if (!memcmp(&steer->rules[i].key, key, sizeof(*key)))
			return &steer->rules[i];
	return NULL;
}

struct auto_rule *steer_auto_find(const struct steer *steer, const struct esc_qp_key *key)
{
	for (size_t i = 0; i < steer->auto_count; i++)
		if (!memcmp(&steer->autos[i].rule.key, key, sizeof(*key)))
			return &steer->autos[i];
	return NULL;
}

void steer_rule_forget(struct steer *steer, struct rule *rule)
{
	if (rule->automatic)
		*(struct auto_rule *)rule = steer->autos[--steer->auto_count];
	else
		*rule = steer->rules[--steer->rule_count];
}

void steer_rule_drop(struct steer *steer, struct rule *rule)
{
	bpf_map_delete_elem(steer->steers_fd, &rule->key);
	notify_programs(steer);
	steer_rule_forget(steer, rule);
}

struct rule *steer_auto_take(struct steer *steer, struct auto_rule *one)
{
	struct rule *rule = steer_rule_add(steer, &one->rule.key);

	if (!rule)
		return NULL;
	*rule = one->rule;
	rule->automatic = false;
	steer_rule_forget(steer, &one->rule);
	return rule;
}

/* --- what the queue pairs do --- */

int steer_read_qp(const struct steer *steer, const struct esc_qp_key *key, struct esc_qp *qp)
{
	return bpf_map_lookup_elem(steer->qps_fd, key, qp);
}

/*
 * Both directions of a queue pair have one source port at both ends (soft-RoCE and most NICs
 * derive it from both numbers). The one entry that fits, or none: of two it is not known which.
 */
static void find_back(struct steer *steer, struct rule *rule)
{
	const struct qp_entry *entries;
	size_t count;

	entries = qptable_entries(steer->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct esc_qp_key *key = &entries[i].key;

		if (key->direction != ESC_DIRECTION_RX || key->port != rule->key.port ||
		    entries[i].qp.sport != rule->own_sport ||
		    memcmp(&key->src, &rule->key.dst, sizeof(key->src)) ||
		    memcmp(&key->dst, &rule->key.src, sizeof(key->dst)))
			continue;
		if (rule->has_back) {
			rule->has_back = false;
			return;
		}
		rule->back = *key;
		rule->has_back = true;
	}
}

void steer_count(struct steer *steer, struct rule *rule, const struct esc_qp *qp)
{
	struct esc_qp back;

	rule->counts = (struct verify_counts){.sent = qp->packets, .resent = qp->retransmits};
	if (!rule->has_back)
		find_back(steer, rule);
	if (!rule->has_back)
		return;
	if (steer_read_qp(steer, &rule->back, &back)) {
		rule->has_back = false;
		return;
	}
	rule->counts.paired = true;
	rule->counts.back = back.packets;
	rule->counts.naks = back.nak_sequence;
	rule->counts.repeated = back.duplicates;
}

/* --- taking over --- */

/* A rule that the daemon before left. One whose queue pair is gone ends when it is verified. */
static int read_rule(struct steer *steer, const struct esc_qp_key *key)
{
	struct esc_steer want = {};
	struct esc_qp qp;
	bool there = !bpf_map_lookup_elem(steer->steers_fd, key, &want) &&
		     !steer_read_qp(steer, key, &qp);
	bool automatic = there && want.flags & ESC_STEER_PATH;
	struct auto_rule *one = automatic ? steer_auto_add(steer, key) : NULL;
	struct rule *rule = one ? &one->rule : automatic ? NULL : steer_rule_add(steer, key);
	bool in_effect;

	if (!rule)
		return -ENOMEM;
	rule->want = want;
	rule->published_local_ns = time_local_ns();
	if (!there)
		return 0;
	in_effect = qp.steer.applied == want.number;
	if (one) {
		one->home = want.path; /* until the paths are known */
		one->last_id = in_effect ? want.path : qp.steer.path;
		one->last_sport = in_effect ? want.sport : qp.steer.rule_sport;
		one->reason = want.sport ? STEER_BY_CONTENTION : STEER_BY_TRACKING;
		rule->state = want.sport ? RULE_WAITING : RULE_TRACKING;
	} else if (!want.sport && !(want.flags & ESC_STEER_LABEL)) {
		rule->state = RULE_CLEARING;
	}
	rule->first_local_ns = qp.first_local_ns;
	rule->own_sport = qp.sport;
	rule->now = rule->before = qp.steer;
	steer_count(steer, rule, &qp);
	if (!in_effect || rule->state == RULE_CLEARING)
		return 0;
	rule->in_effect = true;
	if (rule->state == RULE_TRACKING)
		return 0;
	rule->state = RULE_MOVED;
	rule->trigger = qp.steer.trigger;
	rule->effect_local_ns = qp.steer.applied_local_ns;
	verify_start(&rule->verify, &rule->counts, rule->published_local_ns, false);
	return 0;
}

int steer_read_rules(struct steer *steer)
{
	struct esc_qp_key key, next, *before = NULL;
	int err = 0;

	for (int i = 0; !err && i < ESC_STEERS_MAX; i++) {
		if (bpf_map_get_next_key(steer->steers_fd, before, &next))
			break;
		key = next;
		before = &key;
		err = read_rule(steer, &key);
	}
	return err;
}

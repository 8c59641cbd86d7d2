// SPDX-License-Identifier: BSD-2-Clause
/*
 * The rules: the map `steers`, which is written here and nowhere else, whether a rule is of the
 * operator or automatic, and the two lists of what is in it.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "qp/qp.h"

/* --- the map --- */

/* Numbers go on over restarts, with the map. Entries of `qps` begin with a low half of 0. */
static uint32_t next_generation(const struct steer *steer)
{
	uint32_t generation = steer->control->steer_generation + 1;

	return generation & 0xffff ? generation : generation + 1;
}

static void set_generation(struct steer *steer, uint32_t generation)
{
	__atomic_store_n(&steer->control->steer_generation, generation, __ATOMIC_SEQ_CST);
}

int steer_publish(struct steer *steer, struct rule *rule)
{
	uint32_t generation = next_generation(steer);
	int err;

	rule->want.number = generation;
	err = bpf_map_update_elem(steer->steers_fd, &rule->key, &rule->want, BPF_ANY);
	if (!err)
		set_generation(steer, generation);
	return err;
}

void steer_withdraw(struct steer *steer, const struct esc_qp_key *key)
{
	bpf_map_delete_elem(steer->steers_fd, key);
	set_generation(steer, next_generation(steer));
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
	set_generation(steer, next_generation(steer));
}

/* --- the lists --- */

bool steer_is_full(const struct steer *steer)
{
	return steer->rule_count + steer->auto_count >= ESC_STEERS_MAX;
}

/* Room for one more of @bytes each. */
static int grow(void **list, size_t *room, size_t count, size_t bytes)
{
	size_t more = *room ? 2 * *room : 16;
	void *grown;

	if (count < *room)
		return 0;
	grown = reallocarray(*list, more, bytes);
	if (!grown)
		return -ENOMEM;
	*list = grown;
	*room = more;
	return 0;
}

struct rule *steer_rule_add(struct steer *steer, const struct esc_qp_key *key)
{
	struct rule *rule;

	if (grow((void **)&steer->rules, &steer->rule_room, steer->rule_count, sizeof(*rule)))
		return NULL;
	rule = &steer->rules[steer->rule_count++];
	*rule = (struct rule){.key = *key};
	return rule;
}

struct auto_rule *steer_auto_add(struct steer *steer, const struct esc_qp_key *key)
{
	struct auto_rule *one;

	if (grow((void **)&steer->autos, &steer->auto_room, steer->auto_count, sizeof(*one)))
		return NULL;
	one = &steer->autos[steer->auto_count++];
	*one = (struct auto_rule){.rule.key = *key};
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
	*rule = steer->rules[--steer->rule_count];
}

void steer_auto_forget(struct steer *steer, struct auto_rule *one)
{
	*one = steer->autos[--steer->auto_count];
}

void steer_rule_drop(struct steer *steer, struct rule *rule)
{
	steer_withdraw(steer, &rule->key);
	steer_rule_forget(steer, rule);
}

void steer_auto_drop(struct steer *steer, struct auto_rule *one)
{
	steer_withdraw(steer, &one->rule.key);
	steer_auto_forget(steer, one);
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
	rule->counts.asked = back.duplicates;
}

/* --- taking over --- */

static void read_auto(struct auto_rule *one, const struct esc_qp *qp)
{
	struct rule *rule = &one->rule;

	one->home = rule->want.path; /* until the paths are known */
	one->last_id = rule->want.path;
	one->last_sport = rule->want.sport;
	if (qp->steer.applied != rule->want.number) {
		one->last_id = qp->steer.path;
		one->last_sport = qp->steer.rule_sport;
	}
	one->reason = rule->want.sport ? STEER_BY_CONTENTION : STEER_BY_TRACKING;
	if (!rule->want.sport)
		rule->state = RULE_TRACKING;
}

static void read_effect(struct steer *steer, struct rule *rule, const struct esc_qp *qp)
{
	rule->first_local_ns = qp->first_local_ns;
	rule->own_sport = qp->sport;
	rule->now = rule->before = qp->steer;
	steer_count(steer, rule, qp);
	if (qp->steer.applied != rule->want.number || rule->state == RULE_CLEARING)
		return;
	rule->in_effect = true;
	if (rule->state == RULE_TRACKING)
		return;
	rule->state = RULE_MOVED;
	rule->trigger = qp->steer.trigger;
	rule->effect_local_ns = qp->steer.applied_local_ns;
	verify_start(&rule->verify, &rule->counts, rule->published_local_ns, false);
}

/* One whose queue pair is gone ends with the next verification. */
static int read_rule(struct steer *steer, const struct esc_qp_key *key)
{
	struct esc_steer want = {};
	struct esc_qp qp;
	bool there = !bpf_map_lookup_elem(steer->steers_fd, key, &want) &&
		     !steer_read_qp(steer, key, &qp);
	bool automatic = there && want.flags & ESC_STEER_PATH;
	struct auto_rule *one = automatic ? steer_auto_add(steer, key) : NULL;
	struct rule *rule = one ? &one->rule : automatic ? NULL : steer_rule_add(steer, key);

	if (!rule)
		return -ENOMEM;
	rule->want = want;
	rule->published_local_ns = time_local_ns();
	if (!there)
		return 0;
	if (automatic)
		read_auto(one, &qp);
	else if (!want.sport && !(want.flags & ESC_STEER_LABEL))
		rule->state = RULE_CLEARING;
	read_effect(steer, rule, &qp);
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

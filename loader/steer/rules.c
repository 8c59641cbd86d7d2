// SPDX-License-Identifier: BSD-2-Clause
/*
 * The rules: the map `steers`, which is written here and nowhere else, and the lists of what is in
 * it. An automatic rule names a candidate path as well as its port, so that the kernel programs use
 * its backup while it is down; a queue pair that stays on its own path has one too.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"

/* The return to its own path is not urgent. */
#define RETURN_GAP_NS 10000000ull
#define RETURN_DEADLINE_NS 500000000ull

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

int steer_publish(struct steer *steer, struct rule *rule, struct esc_steer want,
		  enum rule_state state, uint64_t now_ns)
{
	uint16_t ring = rule->want.ring;
	int err;

	want.number = next_generation(steer);
	want.ring = 0;
	if (want.flags & ESC_STEER_PATH)
		want.ring = ring ? ring : steer_ring_take(steer, &rule->key);
	err = bpf_map_update_elem(steer->steers_fd, &rule->key, &want, BPF_ANY);
	if (err && want.ring != ring)
		steer_ring_drop(steer, want.ring);
	if (err)
		return err;
	notify_programs(steer);
	if (ring && !want.ring)
		steer_ring_drop(steer, ring);
	rule->want = want;
	rule->state = state;
	rule->in_effect = false;
	rule->wait_reported = false;
	rule->published_local_ns = now_ns;
	rule->before = rule->now;
	return 0;
}

void steer_withdraw_all(struct steer *steer)
{
	struct esc_qp_key key;

	/* Bounded: another program may be writing the map. */
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

/* Removes it from its list alone; the last one takes its place. */
static void forget(struct steer *steer, struct rule *rule)
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
	steer_ring_drop(steer, rule->want.ring);
	forget(steer, rule);
}

struct rule *steer_auto_take(struct steer *steer, struct auto_rule *one)
{
	struct rule *rule = steer_rule_add(steer, &one->rule.key);

	if (!rule)
		return NULL;
	*rule = one->rule;
	rule->automatic = false;
	forget(steer, &one->rule);
	return rule;
}

/* --- what the queue pairs do --- */

int steer_read_qp(const struct steer *steer, const struct esc_qp_key *key, struct esc_qp *qp)
{
	return bpf_map_lookup_elem(steer->qps_fd, key, qp);
}

static void find_back(struct steer *steer, struct rule *rule)
{
	struct esc_qp qp;

	rule->has_back = qptable_find_back(steer->qps, &rule->key, rule->own_sport, &rule->back) &&
			 !steer_read_qp(steer, &rule->back, &qp);
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

uint32_t steer_unacked(const struct steer *steer, const struct rule *rule, uint32_t *next)
{
	struct esc_qp qp, back;

	if (!rule->has_back || steer_read_qp(steer, &rule->key, &qp) ||
	    steer_read_qp(steer, &rule->back, &back) || !(qp.requests.flags & ESC_PSN_VALID) ||
	    !(back.responses.flags & ESC_PSN_VALID))
		return 0;
	*next = back.responses.next;
	return (qp.requests.next - back.responses.next) & ESC_PSN_MASK;
}

/* --- automatic rules --- */

int steer_auto_publish(struct steer *steer, struct auto_rule *one, struct esc_steer want,
		       enum steer_reason reason, uint64_t now_ns)
{
	bool tracking = reason == STEER_BY_TRACKING && !want.sport;
	int err;

	want.flags = ESC_STEER_PATH;
	if (one->rule.has_back) {
		want.flags |= ESC_STEER_REVERSE;
		want.reverse_qpn = one->rule.back.dest_qpn;
	}
	err = steer_publish(steer, &one->rule, want, tracking ? RULE_TRACKING : RULE_WAITING,
			    now_ns);
	if (!err)
		one->reason = reason;
	return err;
}

struct auto_rule *steer_track(struct steer *steer, const struct esc_qp_key *key,
			      const struct esc_qp *qp, unsigned int slot, unsigned int home,
			      uint64_t now_ns)
{
	const struct esc_steer want = {.slot = (uint16_t)slot, .path = (uint8_t)home};
	struct auto_rule *one =
		steer_rule_total(steer) < ESC_STEERS_MAX ? steer_auto_add(steer, key) : NULL;

	if (!one)
		return NULL;
	one->rule.first_local_ns = qp->first_local_ns;
	one->rule.own_sport = qp->sport;
	one->home = one->last_id = (uint8_t)home;
	steer_count(steer, &one->rule, qp);
	if (!steer_auto_publish(steer, one, want, STEER_BY_TRACKING, now_ns))
		return one;
	forget(steer, &one->rule);
	return NULL;
}

/* The return is as after `steer clear`: the rule is one of the operator until it ends. */
void steer_untrack(struct steer *steer, struct auto_rule *one)
{
	uint64_t now_ns = time_local_ns();
	const struct esc_steer want = {
		.flowlet_gap_ns = RETURN_GAP_NS,
		.start_local_ns = now_ns + RETURN_DEADLINE_NS,
		.force_local_ns = now_ns + 2 * RETURN_DEADLINE_NS,
	};
	struct rule *rule = one->rule.state == RULE_TRACKING ? NULL : steer_auto_take(steer, one);

	if (!rule)
		steer_rule_drop(steer, &one->rule);
	else if (steer_publish(steer, rule, want, RULE_CLEARING, now_ns))
		steer_rule_drop(steer, rule);
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

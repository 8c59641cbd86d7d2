// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tick of steering. It follows each tick of the candidate paths: 10 ms while steered queue
 * pairs use them, else 250 ms. For each pair of addresses: observe, decide, act. Every 250 ms
 * all rules, the operator's and automatic ones, are verified.
 *
 *  observe  how the routes to the peer are now, what each queue pair sends, which path it uses
 *  decide   by pacing/contend.h: which queue pair moves to which route, and when
 *  act      publish the rules, for the kernel programs to obey
 *  verify   what became of each rule: in effect, as good as before, or to be rolled back
 */
#include <string.h>

#include "internal.h"
#include "qp/qp.h"

#define CALM_TICKS 10	 /* while no route stands out, queue pairs are read once in so many ticks */
#define LOST_READINGS 20 /* of the table without its pair: the path of a rule no longer exists */
#define GAP_GROWTH 8	 /* a gap that grows by a part of it is published again */
#define NEVER_NS UINT64_MAX

/* --- observe --- */

static struct auto_rule *auto_rule_of(struct steer *steer, struct pair_qp *member)
{
	struct auto_rule *one;

	if (member->at < steer->auto_count &&
	    !memcmp(&steer->autos[member->at].rule.key, &member->key, sizeof(member->key)))
		return &steer->autos[member->at];
	one = steer_auto_find(steer, &member->key);
	if (one)
		member->at = (size_t)(one - steer->autos);
	return one;
}

int steer_id_of(struct steer *steer, const struct pair *pair, struct pair_qp *member)
{
	const struct auto_rule *one = auto_rule_of(steer, member);
	const struct rule *rule = one ? &one->rule : steer_rule_find(steer, &member->key);

	if (!rule)
		return member->home;
	if (!one)
		return paths_id_of(steer->paths, pair->facts.slot,
				   rule->now.sport ? rule->now.sport : member->own_sport);
	if (rule->in_effect)
		return rule->want.path;
	return member->id >= 0 ? member->id : one->last_id;
}

static void observe_qp(struct steer *steer, struct pair *pair, size_t q, uint64_t now_ns)
{
	struct pair_qp *member = &pair->members[q];
	struct contend_qp *qp = &pair->qps[q];
	struct auto_rule *one = auto_rule_of(steer, member);
	struct rule *rule = one ? &one->rule : steer_rule_find(steer, &member->key);
	struct esc_qp read, back;

	if (steer_read_qp(steer, &member->key, &read) ||
	    read.first_local_ns != member->first_local_ns) {
		qp->path = UINT32_MAX;
		return;
	}
	pair_update_qp(member, qp, &read, (int64_t)now_ns);
	/* For how long it has sent nothing while an acknowledge is missing; 0: not so, or unknown.
	 */
	qp->unanswered_ns = 0;
	if (rule && rule->has_back && member->idle_ns < member->read_ns &&
	    read.requests.flags & ESC_PSN_VALID && !steer_read_qp(steer, &rule->back, &back) &&
	    back.responses.flags & ESC_PSN_VALID && back.responses.next != read.requests.next)
		qp->unanswered_ns = (double)(member->read_ns - member->idle_ns);
	/* A rule that took effect is verified from now on, and the decision has to know its path.
	 */
	if (one && !rule->in_effect && read.steer.applied == rule->want.number) {
		steer_verify_rule(steer, rule, now_ns);
		one = auto_rule_of(steer, member);
	}
	member->id = steer_id_of(steer, pair, member);
	qp->path = pair_route_of(pair, member->id);
	qp->pinned = !one || steer_penalty(steer, &member->key, now_ns);
}

static void observe(struct steer *steer, struct pair *pair, uint64_t now_ns)
{
	pair_update_candidates(pair, steer->paths);
	if (pair_is_calm(pair) && pair->skipped++ % CALM_TICKS)
		return;
	for (size_t q = 0; q < pair->count; q++)
		observe_qp(steer, pair, q, now_ns);
}

/* --- decide --- */

/*
 * Of a rule that waits. The policy may have dropped what it waits for, or the daemon before
 * published it; and a gap that was long enough when it was published may no longer be.
 */
static void decide_waiting(struct steer *steer, struct pair *pair, size_t q)
{
	struct pair_qp *member = &pair->members[q];
	const struct contend_qp *qp = &pair->qps[q];
	const struct auto_rule *one = auto_rule_of(steer, member);
	const struct contend_path *from, *to;

	if (!one || one->rule.in_effect)
		return;
	if (!qp->moving) {
		if (one->reason != STEER_BY_TRACKING)
			member->waiting = RULE_WITHDRAW;
		return;
	}
	if (qp->arrived_ns || qp->from >= ESC_PATHS_MAX || qp->to >= ESC_PATHS_MAX)
		return;
	from = &pair->routes[qp->from];
	to = &pair->routes[qp->to];
	if (!from->fresh || !to->fresh)
		return;
	member->gap_ns = (uint64_t)contend_flowlet_gap_ns(from, to);
	if (member->gap_ns > one->rule.want.flowlet_gap_ns + one->rule.want.flowlet_gap_ns / GAP_GROWTH)
		member->waiting = RULE_RENEW;
}

/* Returns how many @acts there are. */
static size_t decide(struct steer *steer, struct pair *pair, uint64_t now_ns,
		     struct contend_act acts[STEER_ACTS_MAX])
{
	for (size_t q = 0; q < pair->count; q++) {
		pair->members[q].waiting = RULE_KEEP;
		if (pair->members[q].read_ns == (int64_t)now_ns)
			decide_waiting(steer, pair, q);
	}
	return contend_tick(&pair->contend, &steer->budget, (int64_t)now_ns, &steer->random,
			    pair->routes, ESC_PATHS_MAX, pair->qps, pair->count, acts,
			    STEER_ACTS_MAX);
}

/* --- act --- */

/* The rule is not to take effect any more: the path stays as it is. */
static void withdraw(struct steer *steer, const struct pair *pair, struct auto_rule *one,
		     uint64_t now_ns)
{
	const struct auto_target target = {
		.slot = pair->facts.slot,
		.id = one->last_id,
		.sport = one->last_sport,
		.reason = STEER_BY_TRACKING,
	};

	if (!one->rule.in_effect)
		steer_auto_publish(steer, one, &target, now_ns);
}

static void act_on_waiting(struct steer *steer, const struct pair *pair, struct pair_qp *member,
			   uint64_t now_ns)
{
	struct auto_rule *one = member->waiting ? auto_rule_of(steer, member) : NULL;
	struct esc_steer was;

	if (!one)
		return;
	if (member->waiting == RULE_WITHDRAW) {
		withdraw(steer, pair, one, now_ns);
		return;
	}
	was = one->rule.want;
	one->rule.want.flowlet_gap_ns = member->gap_ns;
	if (steer_publish(steer, &one->rule))
		one->rule.want = was;
}

static void act_on(struct steer *steer, const struct pair *pair, const struct contend_act *act,
		   uint64_t now_ns)
{
	bool never = steer_keys(steer->core->config)->overtake == STEER_OVERTAKE_NEVER;
	struct auto_rule *one = steer_auto_find(steer, &pair->members[act->qp].key);
	struct auto_target target = {
		.slot = pair->facts.slot,
		.reason = act->kind == CONTEND_BACK ? STEER_BY_TAKEN_BACK : STEER_BY_CONTENTION,
		.gap_ns = (uint64_t)act->hold_ns,
		.start_local_ns = never ? NEVER_NS : (uint64_t)act->start_ns,
		.force_local_ns = never ? NEVER_NS : (uint64_t)act->force_ns,
	};
	int id;

	steer->acts[act->kind]++;
	steer_report_act(steer, pair, act);
	if (!one)
		return; /* the operator has given it a path meanwhile */
	if (act->kind == CONTEND_UNDONE)
		withdraw(steer, pair, one, now_ns);
	if (act->kind != CONTEND_MOVE && act->kind != CONTEND_BACK)
		return;
	/* The queue pair's own port, if it is one of the route's; else a candidate's. */
	target.id = one->home;
	if (pair_route_of(pair, one->home) != act->to) {
		id = pair_candidate_for(pair, act->to);
		if (id < 0)
			return; /* it went down since: the policy sees that nothing was done */
		target.id = (unsigned int)id;
		target.sport = pair->candidates[id].sport;
	}
	if (steer_auto_publish(steer, one, &target, now_ns))
		steer_report_full(steer, &one->rule.key);
}

static void act(struct steer *steer, struct pair *pair, const struct contend_act *acts,
		size_t count, uint64_t now_ns)
{
	for (size_t q = 0; q < pair->count; q++)
		act_on_waiting(steer, pair, &pair->members[q], now_ns);
	for (size_t i = 0; i < count; i++)
		act_on(steer, pair, &acts[i], now_ns);
}

/* --- verify --- */

static void verify(struct steer *steer, uint64_t now_ns)
{
	steer->verify_due_ns = now_ns + STEER_VERIFY_NS;
	steer_follow_control(steer);
	for (size_t i = steer_rule_total(steer); i-- > 0;)
		steer_verify_rule(steer, steer_rule_at(steer, i), now_ns);
	steer_expire_penalties(steer, now_ns);
}

/* --- which queue pairs are tracked --- */

/* The candidates have other ids, or another one is known to be on its own port's route. */
static void follow_candidates(struct steer *steer, const struct pair *pair,
			      const struct pair_qp *member, struct auto_rule *one, uint64_t now_ns)
{
	const struct esc_steer *want = &one->rule.want;
	struct auto_target target = {.slot = pair->facts.slot,
				     .id = want->path,
				     .sport = want->sport,
				     .reason = STEER_BY_TRACKING};

	if (member->home >= 0)
		one->home = (uint8_t)member->home;
	if (!one->rule.in_effect)
		return;
	if (!target.sport)
		target.id = one->home;
	for (unsigned int i = 0; target.sport && i < ESC_PATHS_MAX; i++)
		if (pair->candidates[i].sport == target.sport)
			target.id = i;
	if (target.slot != want->slot || target.id != want->path)
		steer_auto_publish(steer, one, &target, now_ns);
}

static void track(struct steer *steer, const struct pair *pair, struct pair_qp *member,
		  uint64_t now_ns)
{
	struct auto_rule *one = auto_rule_of(steer, member);
	struct esc_qp qp;

	if (one) {
		one->reading = steer->reading;
		follow_candidates(steer, pair, member, one, now_ns);
		return;
	}
	if (steer_rule_find(steer, &member->key) || member->home < 0 ||
	    steer_read_qp(steer, &member->key, &qp))
		return;
	one = steer_track(steer, &member->key, &qp, pair->facts.slot, (unsigned int)member->home,
			  now_ns);
	if (one)
		one->reading = steer->reading;
	else
		steer_report_full(steer, &member->key);
}

/* Members of the pairs, after each reading of the table; each that has a path has a rule. */
static void track_qps(struct steer *steer, uint64_t now_ns)
{
	const struct qp_entry *entries;
	size_t count;

	steer->table_local_ns = qptable_refreshed_ns(steer->qps);
	steer->reading++;
	entries = qptable_entries(steer->qps, &count);
	for (size_t i = 0; i < steer->pairs.count; i++) {
		struct pair *pair = steer->pairs.list[i];

		if (!(steer_ports(steer) >> pair->facts.port & 1) ||
		    pair_update_members(pair, steer->paths, entries, count, now_ns))
			continue;
		for (size_t q = 0; q < pair->count; q++)
			track(steer, pair, &pair->members[q], now_ns);
	}
	for (size_t i = steer->auto_count; i-- > 0;)
		if (steer->reading - steer->autos[i].reading > LOST_READINGS)
			steer_untrack(steer, &steer->autos[i]);
}

/* --- the tick --- */

void steer_tick(void *self, uint64_t now_ns)
{
	struct contend_act acts[STEER_ACTS_MAX];
	struct steer *steer = self;
	size_t count;

	if (steer->automatic && steer_ports(steer) && paths_are_probed(steer->paths)) {
		pairs_update(steer, &steer->pairs);
		if (steer->table_local_ns != qptable_refreshed_ns(steer->qps))
			track_qps(steer, now_ns);
		for (size_t i = 0; i < steer->pairs.count; i++) {
			struct pair *pair = steer->pairs.list[i];

			if (!(steer_ports(steer) >> pair->facts.port & 1))
				continue;
			observe(steer, pair, now_ns);
			count = decide(steer, pair, now_ns, acts);
			act(steer, pair, acts, count, now_ns);
		}
	}
	if (now_ns >= steer->verify_due_ns)
		verify(steer, now_ns);
}

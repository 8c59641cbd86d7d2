// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tick of steering. It follows each tick of the candidate paths: 10 ms while steered queue
 * pairs use them, else 250 ms. For each pair of addresses: observe, decide, act. Every 250 ms
 * all rules, the operator's and automatic ones, are verified.
 *
 *  observe  how the routes to the peer are now, what each queue pair sends, which path it uses
 *  decide   by pacing/contend.h: which queue pair moves to which route, and when
 *  act      publish the rules, which the kernel programs apply
 *  verify   what became of each rule: in effect, as good as before, or to be rolled back
 */
#include <bpf/bpf.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "internal.h"

#define ACTS_MAX 8	 /* of one pair in a tick */
#define CALM_TICKS 10	 /* while no route stands out, queue pairs are read once in so many ticks */
#define LOST_READINGS 20 /* of the table without its pair: the path of a rule no longer exists */
#define GAP_GROWTH 8	 /* a gap that grows by a part of it is published again */
#define NEVER_NS UINT64_MAX
#define FULL_EVERY_NS 60000000000ull /* between two events of a full table */

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

/* Whether pacing holds its packets; then as the programs have it. */
static bool read_pace(const struct steer *steer, const struct pair *pair,
		      const struct pair_qp *member, const struct esc_qp *read,
		      struct esc_qp_pace *pace)
{
	return read->steer_flags & ESC_QP_PACED && steer->control->flags & ESC_CONTROL_PACE &&
	       steer->control->pace_ports >> pair->facts.port & 1 && steer->qp_pace_fd >= 0 &&
	       !bpf_map_lookup_elem(steer->qp_pace_fd, &member->key, pace);
}

static void observe_qp(struct steer *steer, struct pair *pair, size_t q, uint64_t now_ns)
{
	struct pair_qp *member = &pair->members[q];
	struct contend_qp *qp = &pair->qps[q];
	struct auto_rule *one = auto_rule_of(steer, member);
	struct rule *rule = one ? &one->rule : steer_rule_find(steer, &member->key);
	struct esc_qp_pace pace;
	struct esc_qp read, back;
	bool paced;

	if (steer_read_qp(steer, &member->key, &read) ||
	    read.first_local_ns != member->first_local_ns) {
		qp->path = UINT32_MAX;
		return;
	}
	paced = read_pace(steer, pair, member, &read, &pace);
	pair_update_pace(member, qp, paced ? &pace : NULL, (int64_t)now_ns);
	pair_update_qp(member, qp, &read, (int64_t)now_ns);
	/* How long it has sent nothing while an ACK is missing; 0: it has, or it is not known. */
	qp->unacked_ns = 0;
	if (rule && rule->has_back && pair_idle_since(member) < member->read_ns &&
	    read.requests.flags & ESC_PSN_VALID && !steer_read_qp(steer, &rule->back, &back) &&
	    back.responses.flags & ESC_PSN_VALID && back.responses.next != read.requests.next)
		qp->unacked_ns = (double)(member->read_ns - pair_idle_since(member));
	/* A rule that took effect: the decision needs its path. */
	if (one && !rule->in_effect && read.steer.applied == rule->want.number) {
		steer_verify_rule(steer, rule, now_ns);
		one = auto_rule_of(steer, member);
	}
	member->id = steer_id_of(steer, pair, member);
	qp->path = pair_route_of(pair, member->id);
	qp->pinned = !one || steer_penalty(steer, &member->key, now_ns);
}

/* --- decide --- */

/* The rule is not to take effect any more: the path stays as it is. */
static void withdraw(struct steer *steer, const struct pair *pair, struct auto_rule *one,
		     uint64_t now_ns)
{
	const struct esc_steer want = {
		.slot = (uint16_t)pair->facts.slot, .path = one->last_id, .sport = one->last_sport};

	if (!one->rule.in_effect)
		steer_auto_publish(steer, one, want, STEER_BY_TRACKING, now_ns);
}

/*
 * Of a rule that waits. The policy may have dropped what it waits for, or the daemon before
 * published it; and a gap that was long enough when it was published may no longer be.
 */
static void review_waiting(struct steer *steer, struct pair *pair, size_t q, uint64_t now_ns)
{
	struct auto_rule *one = auto_rule_of(steer, &pair->members[q]);
	const struct contend_qp *qp = &pair->qps[q];
	const struct contend_path *from, *to;
	struct esc_steer want;
	uint64_t gap_ns;

	if (!one || one->rule.in_effect)
		return;
	if (!qp->moving) {
		if (one->reason != STEER_BY_TRACKING)
			withdraw(steer, pair, one, now_ns);
		return;
	}
	if (qp->arrived_ns || qp->from >= ESC_PATHS_MAX || qp->to >= ESC_PATHS_MAX)
		return;
	from = &pair->routes[qp->from];
	to = &pair->routes[qp->to];
	if (!from->fresh || !to->fresh)
		return;
	want = one->rule.want;
	gap_ns = (uint64_t)contend_flowlet_gap_ns(from, to);
	if (gap_ns <= want.flowlet_gap_ns + want.flowlet_gap_ns / GAP_GROWTH)
		return;
	want.flowlet_gap_ns = gap_ns;
	steer_publish(steer, &one->rule, want, one->rule.state, one->rule.published_local_ns);
}

/* --- act --- */

static json_t *act_seen(const struct steer *steer, const struct pair *pair,
			const struct contend_act *act)
{
	const struct delays_entry *own = delays_find(steer->delays, &pair->members[act->qp].key);
	json_t *seen = json_object();

	json_put(seen, "from", pair_route_json(pair, act->from, act->from_ns));
	json_put(seen, "to", pair_route_json(pair, act->to, act->to_ns));
	pair_put_rounded(seen, "bound_ns", act->bound_ns);
	pair_put_rounded(seen, "rate_bps", 8 * act->rate_Bps);
	if (act->before_Bps > 0)
		pair_put_rounded(seen, "rate_before_bps", 8 * act->before_Bps);
	/* The reason for the move, whatever the delays are now. */
	if (act->unacked_ns > 0) {
		pair_put_rounded(seen, "no_reply_for_ns", act->unacked_ns);
		pair_put_rounded(seen, "queue_before_ns", act->queue_before_ns);
	}
	/* What pacing makes of its demand, which the path's delay does not show. */
	if (pair->qps[act->qp].held_Bps > 0) {
		pair_put_rounded(seen, "held_ns", pair->qps[act->qp].held_ns);
		pair_put_rounded(seen, "paced_bps", 8 * pair->qps[act->qp].held_Bps);
	}
	/* The delay of its own packets, where it is measured. */
	if (own && own->recent.samples) {
		json_put_integer(seen, "own_p50_ns", own->recent.p50_ns);
		json_put_count(seen, "own_bound_ns", own->recent.bound_ns);
	}
	return seen;
}

static void report_act(struct steer *steer, const struct pair *pair, const struct contend_act *act,
		       enum steer_reason reason)
{
	bool scheduled = act->kind == CONTEND_MOVE || act->kind == CONTEND_BACK;
	json_t *done = NULL, *expected = json_object(), *result = json_object();
	char subject[128];

	if (scheduled)
		done = json_pack("{s:s, s:I, s:i, s:i}", "reason", steer_reason_name(reason),
				 "hold_ns", (json_int_t)act->hold_ns, "from", (int)act->from, "to",
				 (int)act->to);
	pair_put_rounded(expected, "gain_ns", act->predicted_ns);
	json_put_text(result, "evaluation", scheduled ? "scheduled" : contend_act_name(act->kind));
	json_put_text(result, "meaning", contend_act_text(act->kind));
	if (act->kind == CONTEND_HELPED || act->kind == CONTEND_USELESS)
		pair_put_rounded(result, "gain_ns", act->measured_ns);
	log_info("%s: %s", steer_subject(&pair->members[act->qp].key, subject),
		 contend_act_text(act->kind));
	events_add(
		steer->core->events,
		&(struct event){.kind = &steer_events[scheduled ? MOVE_SCHEDULED : MOVE_EVALUATED],
				.subject = subject,
				.qp = &pair->members[act->qp].key,
				.seen = act_seen(steer, pair, act),
				.done = done,
				.expected = expected,
				.result = result});
}

static void report_full(struct steer *steer, const struct esc_qp_key *key)
{
	uint64_t now_ns = time_local_ns();
	char subject[128];

	if (steer->full_reported_ns && now_ns - steer->full_reported_ns < FULL_EVERY_NS)
		return;
	steer->full_reported_ns = now_ns;
	steer_subject(key, subject);
	log_warning("%s: the map steers takes no rule; it leaves unchanged", subject);
	events_add(steer->core->events,
		   &(struct event){.kind = &steer_events[STEER_TABLE_FULL],
				   .subject = subject,
				   .qp = key,
				   .seen = json_pack("{s:I, s:i}", "rules",
						     (json_int_t)steer_rule_total(steer), "max",
						     ESC_STEERS_MAX)});
}

static void act_on(struct steer *steer, const struct pair *pair, const struct contend_act *act,
		   uint64_t now_ns)
{
	bool never = steer_keys(steer->core->config)->overtake == STEER_OVERTAKE_NEVER;
	struct auto_rule *one = steer_auto_find(steer, &pair->members[act->qp].key);
	enum steer_reason reason =
		act->kind == CONTEND_BACK ? STEER_BY_TAKEN_BACK : STEER_BY_CONTENTION;
	struct esc_steer want = {
		.slot = (uint16_t)pair->facts.slot,
		.flowlet_gap_ns = (uint64_t)act->hold_ns,
		.start_local_ns = never ? NEVER_NS : (uint64_t)act->start_ns,
		.force_local_ns = never ? NEVER_NS : (uint64_t)act->force_ns,
	};
	int id;

	steer->acts[act->kind]++;
	report_act(steer, pair, act, reason);
	if (!one)
		return; /* the operator has given it a path meanwhile */
	if (act->kind == CONTEND_UNDONE)
		withdraw(steer, pair, one, now_ns);
	if (act->kind != CONTEND_MOVE && act->kind != CONTEND_BACK)
		return;
	/* The queue pair's own port, if it is one of the route's; else a candidate's. */
	want.path = one->home;
	if (pair_route_of(pair, one->home) != act->to) {
		id = pair_candidate_for(pair, act->to);
		if (id < 0)
			return; /* it went down since: the policy sees that nothing was done */
		want.path = (uint8_t)id;
		want.sport = pair->candidates[id].sport;
	}
	if (steer_auto_publish(steer, one, want, reason, now_ns))
		report_full(steer, &one->rule.key);
}

/* --- which queue pairs are tracked --- */

/* The candidates have other ids, or another one is known to be on its own port's route. */
static void follow_candidates(struct steer *steer, const struct pair *pair,
			      const struct pair_qp *member, struct auto_rule *one, uint64_t now_ns)
{
	const struct esc_steer *in_force = &one->rule.want;
	struct esc_steer want = {.slot = (uint16_t)pair->facts.slot,
				 .path = in_force->path,
				 .sport = in_force->sport};

	if (member->home >= 0)
		one->home = (uint8_t)member->home;
	if (!one->rule.in_effect)
		return;
	if (!want.sport)
		want.path = one->home;
	for (unsigned int i = 0; want.sport && i < ESC_PATHS_MAX; i++)
		if (pair->candidates[i].sport == want.sport)
			want.path = (uint8_t)i;
	/* What comes back is known now: a drained queue pair, and what is unacknowledged. */
	if (want.slot != in_force->slot || want.path != in_force->path ||
	    (one->rule.has_back && !(in_force->flags & ESC_STEER_REVERSE)))
		steer_auto_publish(steer, one, want, STEER_BY_TRACKING, now_ns);
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
		report_full(steer, &member->key);
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
	struct contend_act acts[ACTS_MAX];
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
			pair_update_candidates(pair, steer->paths);
			steer_repair_pair(steer, pair, now_ns);
			if (!pair_is_calm(pair) || pair->skipped++ % CALM_TICKS == 0)
				for (size_t q = 0; q < pair->count; q++)
					observe_qp(steer, pair, q, now_ns);
			for (size_t q = 0; q < pair->count; q++)
				if (pair->members[q].read_ns == (int64_t)now_ns)
					review_waiting(steer, pair, q, now_ns);
			count = contend_tick(&pair->contend, &steer->budget, (int64_t)now_ns,
					     &steer->random, pair->routes, ESC_PATHS_MAX, pair->qps,
					     pair->count, acts, ACTS_MAX);
			for (size_t a = 0; a < count; a++)
				act_on(steer, pair, &acts[a], now_ns);
		}
	}
	if (now_ns < steer->verify_due_ns)
		return;
	steer->verify_due_ns = now_ns + STEER_VERIFY_NS;
	steer_follow_control(steer);
	for (size_t i = steer_rule_total(steer); i-- > 0;)
		steer_verify_rule(steer, steer_rule_at(steer, i), now_ns);
	steer_expire_penalties(steer, now_ns);
}

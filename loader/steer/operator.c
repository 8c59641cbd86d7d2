// SPDX-License-Identifier: BSD-2-Clause
/* `steer set` and `steer clear`: rules of the operator. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/explain.h"
#include "internal.h"
#include "qp/qp.h"

/* A gap that does not occur between two packets of an undisturbed stream. */
#define FORCED_GAP_NS 1000000ull

/* Which queue pairs the arguments name. */
struct selector {
	bool has_src;
	struct esc_address src, dst;
	uint32_t qpn;
};

static int selector_parse(const struct steer_args *args, struct selector *out, char **error)
{
	*out = (struct selector){.has_src = args->src, .qpn = args->qpn};
	if (args->src && !address_parse(args->src, &out->src))
		return explain(error, -EINVAL, "--src %.64s is no IP address", args->src);
	if (!address_parse(args->dst, &out->dst))
		return explain(error, -EINVAL, "--dst %.64s is no IP address", args->dst);
	return 0;
}

static bool selects(const struct selector *selector, const struct esc_qp_key *key)
{
	return key->dest_qpn == selector->qpn &&
	       !memcmp(&key->dst, &selector->dst, sizeof(key->dst)) &&
	       (!selector->has_src || !memcmp(&key->src, &selector->src, sizeof(key->src)));
}

/* --- checks --- */

/* The one queue pair that sends as @args names it. */
static int find_qp(const struct steer *steer, const struct steer_args *args,
		   const struct qp_entry **out, char **error)
{
	const struct qp_entry *entries;
	struct selector selector;
	size_t count, found = 0;
	int err = selector_parse(args, &selector, error);

	if (err)
		return err;
	core_refresh(steer->core);
	entries = qptable_entries(steer->qps, &count);
	for (size_t i = 0; i < count; i++) {
		if (entries[i].key.direction != ESC_DIRECTION_TX ||
		    !selects(&selector, &entries[i].key))
			continue;
		*out = &entries[i];
		found++;
	}
	if (found == 1)
		return 0;
	if (!found)
		return explain(error, -ENOENT,
			       "no queue pair here sends to %.64s with QPN %u; `escapement qp` "
			       "lists those that do (direction tx)",
			       args->dst, args->qpn);
	return explain(error, -EEXIST,
		       "%zu queue pairs send to %.64s with QPN %u; name one with --src ADDRESS",
		       found, args->dst, args->qpn);
}

static int check_steerable(const struct steer *steer, const struct qp_entry *qp,
			   const struct steer_args *args, char **error)
{
	uint64_t now_ns = time_local_ns();
	const struct penalty *penalty = steer_penalty(steer, &qp->key, now_ns);
	const char *interface = dataplane_port_name(steer->dataplane, qp->key.port);
	char text[128];

	if (dataplane_is_off(steer->dataplane))
		return explain(error, -EBUSY,
			       "the kill switch is on and nothing is attached; `escapement mode "
			       "observe` ends it");
	if (!(steer_ports(steer) >> qp->key.port & 1))
		return explain(error, -EPERM,
			       "%s is in mode observe; `escapement mode steer %s` allows steering",
			       interface ? interface : "its interface", interface ? interface : "");
	steer_subject(&qp->key, text);
	if (args->label && qp->qp.ip_version != 6)
		return explain(error, -EINVAL,
			       "%s is IPv4, which has no flow label; give --sport PORT", text);
	if (penalty)
		return explain(error, -EAGAIN,
			       "%s was rolled back (%s) and is not steered for %llu s more; `steer "
			       "clear` of it ends that",
			       text, verify_meaning(penalty->why),
			       (unsigned long long)(penalty->until_local_ns - now_ns) / 1000000000 +
				       1);
	return 0;
}

/* --- rules --- */

/* The rule is to take effect as @args have it. *@result: the rule. */
static int publish(struct steer *steer, struct rule *rule, const struct steer_args *args,
		   json_t **result, char **error)
{
	uint64_t now_ns = time_local_ns();
	char text[128];
	int err;

	rule->published_local_ns = now_ns;
	rule->in_effect = false;
	rule->before = rule->now;
	rule->want.flowlet_gap_ns = args->force ? FORCED_GAP_NS : args->flowlet_gap_ns;
	rule->want.start_local_ns = args->force ? 0 : now_ns + args->deadline_ns;
	rule->want.force_local_ns = args->force ? 0 : now_ns + 2 * args->deadline_ns;
	err = steer_publish(steer, rule);
	if (err) {
		explain(error, err, "%s: the map steers took no rule: %s",
			steer_subject(&rule->key, text), strerror(-err));
		steer_rule_drop(steer, rule);
		return err;
	}
	*result = steer_rule_json(steer, rule);
	return 0;
}

int steer_set(struct steer *steer, const struct steer_args *args, json_t **result, char **error)
{
	const struct qp_entry *qp = NULL;
	struct auto_rule *one;
	struct rule *rule;
	int err = find_qp(steer, args, &qp, error);

	if (!err)
		err = check_steerable(steer, qp, args, error);
	if (err)
		return err;
	one = steer_auto_find(steer, &qp->key);
	rule = one ? steer_auto_take(steer, one) : steer_rule_find(steer, &qp->key);
	if (!rule && !one) {
		if (steer_rule_total(steer) >= ESC_STEERS_MAX)
			return explain(error, -ENOSPC,
				       "%d queue pairs are steered, which is the most",
				       ESC_STEERS_MAX);
		rule = steer_rule_add(steer, &qp->key);
	}
	if (!rule)
		return -ENOMEM;
	rule->now = qp->qp.steer;
	if (!(qp->qp.steer_flags & ESC_QP_STEERED)) { /* counts of earlier rules stay in it */
		rule->now.sport = 0;
		rule->now.flags = 0;
	}
	rule->first_local_ns = qp->qp.first_local_ns;
	rule->own_sport = qp->qp.sport;
	rule->state = RULE_WAITING;
	rule->want.sport = args->sport;
	rule->want.flow_label = args->flow_label;
	rule->want.flags = args->label ? ESC_STEER_LABEL : 0;
	steer_count(steer, rule, &qp->qp);
	return publish(steer, rule, args, result, error);
}

/* The result is appended to @results. */
static int clear_rule(struct steer *steer, struct rule *rule, const struct steer_args *args,
		      json_t *results, char **error)
{
	json_t *result;
	int err;

	if (rule->automatic)
		rule = steer_auto_take(steer, (struct auto_rule *)rule);
	if (!rule)
		return -ENOMEM;
	rule->state = RULE_CLEARING;
	rule->want.sport = 0;
	rule->want.flow_label = 0;
	rule->want.flags = 0;
	err = publish(steer, rule, args, &result, error);
	if (!err)
		json_array_append_new(results, result);
	return err;
}

int steer_clear(struct steer *steer, const struct steer_args *args, json_t **result, char **error)
{
	struct selector selector;
	bool found = false;
	int err = selector_parse(args, &selector, error);

	if (err)
		return err;
	*result = json_array();
	for (size_t i = steer->penalty_count; i-- > 0;) {
		if (!selects(&selector, &steer->penalties[i].key))
			continue;
		steer->penalties[i] = steer->penalties[--steer->penalty_count];
		found = true;
	}
	for (size_t i = steer->rule_count; !err && i-- > 0;) {
		if (!selects(&selector, &steer->rules[i].key))
			continue;
		err = clear_rule(steer, &steer->rules[i], args, *result, error);
		found = true;
	}
	for (size_t i = steer->auto_count; !err && i-- > 0;) {
		if (!selects(&selector, &steer->autos[i].rule.key))
			continue;
		err = clear_rule(steer, &steer->autos[i].rule, args, *result, error);
		found = true;
	}
	if (!err && !found)
		err = explain(error, -ENOENT,
			      "no queue pair to %.64s with QPN %u is steered; `escapement steer` "
			      "lists those that are",
			      args->dst, args->qpn);
	if (err) {
		json_decref(*result);
		*result = NULL;
	}
	return err;
}

void steer_clear_all(struct steer *steer, bool force, json_t **result)
{
	const struct steer_args args = {.flowlet_gap_ns = STEER_FLOWLET_GAP_NS,
					.deadline_ns = STEER_DEADLINE_NS,
					.force = force};

	*result = json_array();
	steer->penalty_count = 0;
	for (size_t i = steer->rule_count; i-- > 0;)
		clear_rule(steer, &steer->rules[i], &args, *result, NULL);
	for (size_t i = steer->auto_count; i-- > 0;)
		if (steer->autos[i].rule.state != RULE_TRACKING)
			clear_rule(steer, &steer->autos[i].rule, &args, *result, NULL);
}

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

/* Which queue pairs an order names. */
struct selector {
	bool has_src;
	struct esc_address src, dst;
	uint32_t qpn;
};

static int selector_parse(const struct steer_order *order, struct selector *out, char **error)
{
	*out = (struct selector){.has_src = order->src, .qpn = order->qpn};
	if (order->src && !address_parse(order->src, &out->src))
		return explain(error, -EINVAL, "--src %.64s is no IP address", order->src);
	if (!address_parse(order->dst, &out->dst))
		return explain(error, -EINVAL, "--dst %.64s is no IP address", order->dst);
	return 0;
}

static bool selects(const struct selector *selector, const struct esc_qp_key *key)
{
	return key->dest_qpn == selector->qpn &&
	       !memcmp(&key->dst, &selector->dst, sizeof(key->dst)) &&
	       (!selector->has_src || !memcmp(&key->src, &selector->src, sizeof(key->src)));
}

/* --- checks --- */

/* The one queue pair that sends as @order names it. */
static int find_qp(const struct steer *steer, const struct steer_order *order,
		   const struct qp_entry **out, char **error)
{
	const struct qp_entry *entries;
	struct selector selector;
	size_t count, found = 0;
	int err = selector_parse(order, &selector, error);

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
			       order->dst, order->qpn);
	return explain(error, -EEXIST,
		       "%zu queue pairs send to %.64s with QPN %u; name one with --src ADDRESS",
		       found, order->dst, order->qpn);
}

static int check_steerable(const struct steer *steer, const struct qp_entry *qp,
			   const struct steer_order *order, char **error)
{
	char text[128];

	if (dataplane_is_off(steer->dataplane))
		return explain(error, -EBUSY,
			       "the kill switch is on and nothing is attached; `escapement mode "
			       "observe` ends it");
	if (!(steer_ports(steer) >> qp->key.port & 1)) {
		const char *interface = dataplane_port_name(steer->dataplane, qp->key.port);

		return explain(error, -EPERM,
			       "%s is in mode observe; `escapement mode steer %s` allows steering",
			       interface ? interface : "its interface", interface ? interface : "");
	}
	if (order->label && qp->qp.ip_version != 6)
		return explain(error, -EINVAL,
			       "%s is IPv4, which has no flow label; give --sport PORT",
			       steer_subject(&qp->key, text));
	return 0;
}

static int check_penalty(const struct steer *steer, const struct esc_qp_key *key, char **error)
{
	uint64_t now_ns = time_local_ns();
	const struct penalty *penalty = steer_penalty(steer, key, now_ns);
	char text[128];

	if (!penalty)
		return 0;
	return explain(error, -EAGAIN,
		       "%s was rolled back (%s) and is not steered for %llu s more; `steer "
		       "clear` of it ends that",
		       steer_subject(key, text), verify_meaning(penalty->why),
		       (unsigned long long)(penalty->until_local_ns - now_ns) / 1000000000 + 1);
}

/* --- rules --- */

/* An automatic rule is the operator's from now on; NULL: no memory, then it is as it was. */
static struct rule *take(struct steer *steer, struct auto_rule *one)
{
	struct rule *rule = steer_rule_add(steer, &one->rule.key);

	if (!rule)
		return NULL;
	*rule = one->rule;
	steer_auto_forget(steer, one);
	return rule;
}

/* When it is to take effect. */
static void set_times(struct rule *rule, const struct steer_order *order)
{
	uint64_t now_ns = time_local_ns();

	rule->published_local_ns = now_ns;
	rule->in_effect = false;
	rule->before = rule->now;
	rule->want.flowlet_gap_ns = order->force ? FORCED_GAP_NS : order->flowlet_gap_ns;
	rule->want.start_local_ns = order->force ? 0 : now_ns + order->deadline_ns;
	rule->want.force_local_ns = order->force ? 0 : now_ns + 2 * order->deadline_ns;
}

static int publish(struct steer *steer, struct rule *rule, json_t **result, char **error)
{
	char text[128];
	int err = steer_publish(steer, rule);

	if (err) {
		explain(error, err, "%s: the map steers took no rule: %s",
			steer_subject(&rule->key, text), strerror(-err));
		steer_rule_drop(steer, rule);
		return err;
	}
	*result = steer_rule_json(steer, rule, false);
	return 0;
}

/* *@out: the rule for @key, new, or the one that it has. */
static int rule_for(struct steer *steer, const struct esc_qp_key *key, struct rule **out,
		    char **error)
{
	struct auto_rule *one = steer_auto_find(steer, key);

	*out = one ? take(steer, one) : steer_rule_find(steer, key);
	if (*out || one)
		return *out ? 0 : -ENOMEM;
	if (steer_is_full(steer))
		return explain(error, -ENOSPC, "%d queue pairs are steered, which is the most",
			       ESC_STEERS_MAX);
	*out = steer_rule_add(steer, key);
	return *out ? 0 : -ENOMEM;
}

int steer_set(struct steer *steer, const struct steer_order *order, json_t **result, char **error)
{
	const struct qp_entry *qp = NULL;
	struct rule *rule;
	int err = find_qp(steer, order, &qp, error);

	if (!err)
		err = check_steerable(steer, qp, order, error);
	if (!err)
		err = check_penalty(steer, &qp->key, error);
	if (!err)
		err = rule_for(steer, &qp->key, &rule, error);
	if (err)
		return err;
	rule->now = qp->qp.steer;
	if (!(qp->qp.steer_flags & ESC_QP_STEERED)) { /* counts of earlier rules stay in it */
		rule->now.sport = 0;
		rule->now.flags = 0;
	}
	rule->first_local_ns = qp->qp.first_local_ns;
	rule->own_sport = qp->qp.sport;
	rule->state = RULE_WAITING;
	rule->want.sport = order->sport;
	rule->want.flow_label = order->flow_label;
	rule->want.flags = order->label ? ESC_STEER_LABEL : 0;
	set_times(rule, order);
	steer_count(steer, rule, &qp->qp);
	return publish(steer, rule, result, error);
}

/* Appends to @results. */
static int clear_rule(struct steer *steer, struct rule *rule, const struct steer_order *order,
		      json_t *results, char **error)
{
	json_t *one = NULL;
	int err;

	rule->state = RULE_CLEARING;
	rule->want.sport = 0;
	rule->want.flow_label = 0;
	rule->want.flags = 0;
	set_times(rule, order);
	err = publish(steer, rule, &one, error);
	if (!err)
		json_array_append_new(results, one);
	return err;
}

static int clear_auto(struct steer *steer, struct auto_rule *one, const struct steer_order *order,
		      json_t *results, char **error)
{
	struct rule *rule = take(steer, one);

	return rule ? clear_rule(steer, rule, order, results, error) : -ENOMEM;
}

static size_t end_penalties(struct steer *steer, const struct selector *selector)
{
	size_t ended = 0;

	for (size_t i = steer->penalty_count; i-- > 0;) {
		if (!selects(selector, &steer->penalties[i].key))
			continue;
		steer->penalties[i] = steer->penalties[--steer->penalty_count];
		ended++;
	}
	return ended;
}

/* *@cleared: how many rules there were. */
static int clear_selected(struct steer *steer, const struct selector *selector,
			  const struct steer_order *order, json_t *results, size_t *cleared,
			  char **error)
{
	int err = 0;

	for (size_t i = steer->rule_count; !err && i-- > 0;) {
		if (!selects(selector, &steer->rules[i].key))
			continue;
		err = clear_rule(steer, &steer->rules[i], order, results, error);
		++*cleared;
	}
	for (size_t i = steer->auto_count; !err && i-- > 0;) {
		if (!selects(selector, &steer->autos[i].rule.key))
			continue;
		err = clear_auto(steer, &steer->autos[i], order, results, error);
		++*cleared;
	}
	return err;
}

int steer_clear(struct steer *steer, const struct steer_order *order, json_t **result, char **error)
{
	struct selector selector;
	size_t cleared = 0;
	int err = selector_parse(order, &selector, error);

	*result = json_array();
	if (!err) {
		cleared = end_penalties(steer, &selector);
		err = clear_selected(steer, &selector, order, *result, &cleared, error);
	}
	if (!err && !cleared)
		err = explain(error, -ENOENT,
			      "no queue pair to %.64s with QPN %u is steered; `escapement steer` "
			      "lists those that are",
			      order->dst, order->qpn);
	if (err) {
		json_decref(*result);
		*result = NULL;
	}
	return err;
}

int steer_clear_all(struct steer *steer, bool force, json_t **result)
{
	struct steer_order order = {.flowlet_gap_ns = STEER_FLOWLET_GAP_NS,
				    .deadline_ns = STEER_DEADLINE_NS,
				    .force = force};

	*result = json_array();
	steer->penalty_count = 0;
	for (size_t i = steer->rule_count; i-- > 0;)
		clear_rule(steer, &steer->rules[i], &order, *result, NULL);
	for (size_t i = steer->auto_count; i-- > 0;)
		if (steer->autos[i].rule.state != RULE_TRACKING)
			clear_auto(steer, &steer->autos[i], &order, *result, NULL);
	return 0;
}

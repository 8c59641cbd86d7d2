// SPDX-License-Identifier: BSD-2-Clause
/* The verb `steer`, and what it adds to a queue pair of `qp`. */
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "internal.h"
#include "qp/qp.h"

#define GAP_MOST_NS 60000000000ull
#define DEADLINE_MOST_NS 3600000000000ull

/* --- rules --- */

bool steer_leaves_elsewhere(const struct esc_qp_steer *now)
{
	return now->sport || now->flags & ESC_QP_STEER_LABEL;
}

static void put_path_now(json_t *object, const struct esc_qp_steer *now)
{
	if (now->sport)
		json_put_count(object, "steered_sport", now->sport);
	if (now->flags & ESC_QP_STEER_LABEL)
		json_put_count(object, "steered_flow_label", now->flow_label);
}

static void put_key(json_t *object, const struct esc_qp_key *key)
{
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(object, "src", address_format(&key->src, text));
	json_put_text(object, "dst", address_format(&key->dst, text));
	json_put_count(object, "dest_qpn", key->dest_qpn);
}

json_t *steer_rule_json(const struct steer *steer, const struct rule *rule, bool automatic)
{
	static const char *const states[] = {
		[RULE_WAITING] = "waiting",   [RULE_MOVED] = "moved",
		[RULE_VERIFIED] = "verified", [RULE_CLEARING] = "clearing",
		[RULE_TRACKING] = "tracked",
	};
	json_t *object = json_object();

	put_key(object, &rule->key);
	json_put_text(object, "interface", dataplane_port_name(steer->dataplane, rule->key.port));
	json_put_count(object, "sport", rule->own_sport);
	put_path_now(object, &rule->now);
	json_put(object, "rule", steer_path_wanted(rule));
	json_put_text(object, "state", states[rule->state]);
	json_put_text(object, "by", automatic ? "automatic" : "operator");
	if (rule->in_effect)
		json_put_text(object, "trigger", steer_trigger_name(rule->trigger));
	json_put_count(object, "packets", rule->now.packets);
	json_put_count(object, "refused", rule->now.refused);
	json_put_bool(object, "replies_matched", rule->counts.paired);
	json_put_count(object, "age_ms", (time_local_ns() - rule->published_local_ns) / 1000000);
	return object;
}

static json_t *penalty_json(const struct penalty *penalty, uint64_t now_ns)
{
	json_t *object = json_object();

	put_key(object, &penalty->key);
	json_put_text(object, "reason", verify_name(penalty->why));
	json_put_count(object, "left_ms", (penalty->until_local_ns - now_ns) / 1000000);
	return object;
}

json_t *steer_list(const struct steer *steer)
{
	json_t *rules = json_array(), *penalties = json_array();
	uint64_t now_ns = time_local_ns();
	uint16_t ports = steer_ports(steer);

	for (size_t i = 0; i < steer->rule_count; i++)
		json_array_append_new(rules, steer_rule_json(steer, &steer->rules[i], false));
	for (size_t i = 0; i < steer->auto_count; i++)
		json_array_append_new(rules, steer_rule_json(steer, &steer->autos[i].rule, true));
	for (size_t i = 0; i < steer->penalty_count; i++)
		if (steer->penalties[i].until_local_ns > now_ns)
			json_array_append_new(penalties,
					      penalty_json(&steer->penalties[i], now_ns));
	return json_pack("{s:s, s:b, s:o, s:o, s:o}", "mode", ports ? "steer" : "observe", "auto",
			 steer->automatic, "interfaces", steer_interfaces(steer, ports), "steers",
			 rules, "penalties", penalties);
}

void steer_put_qp(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct steer *steer = self;

	/* An entry of `qps` may be of a rule that has ended since its last packet. */
	if (steer_leaves_elsewhere(&entry->qp.steer) &&
	    (steer_rule_find(steer, &entry->key) || steer_auto_find(steer, &entry->key)))
		put_path_now(qp, &entry->qp.steer);
}

/* --- requests --- */

static json_t *reply_list(void *self, struct request *request)
{
	(void)request;
	return steer_list(self);
}

/* What `set` and `clear` have in common. */
static bool take_order(struct request *request, struct steer_order *order)
{
	uint64_t qpn, sport, label;

	if (!request_text(request, "src", NULL, &order->src) ||
	    !request_text(request, "dst", NULL, &order->dst) ||
	    !request_count(request, "qpn", 0, ESC_QPN_MASK, 0, &qpn) ||
	    !request_count(request, "sport", 0, 65535, 0, &sport) ||
	    !request_count(request, "flow_label", 0, ESC_FLOW_LABEL_MASK, 0, &label) ||
	    !request_count(request, "flowlet_gap_ns", 0, GAP_MOST_NS, STEER_FLOWLET_GAP_NS,
			   &order->flowlet_gap_ns) ||
	    !request_count(request, "deadline_ns", 0, DEADLINE_MOST_NS, STEER_DEADLINE_NS,
			   &order->deadline_ns) ||
	    !request_flag(request, "force", &order->force))
		return false;
	order->qpn = (uint32_t)qpn;
	order->sport = (uint16_t)sport;
	order->flow_label = (uint32_t)label;
	order->label = request_has(request, "flow_label");
	if (order->dst && request_has(request, "qpn"))
		return true;
	request_misuse(request,
		       "which queue pair? give --dst ADDRESS and --qpn NUMBER, as `escapement qp` "
		       "shows them (direction tx)");
	return false;
}

static json_t *reply_set(void *self, struct request *request)
{
	struct steer_order order = {};
	json_t *result = NULL;
	char *error = NULL;

	if (!take_order(request, &order))
		return NULL;
	if (!order.sport && !order.label)
		return request_misuse(
			request,
			"which path? give --sport PORT, 1 to 65535, or for IPv6 --flow-label "
			"LABEL");
	if (steer_set(self, &order, &result, &error))
		return request_fail(request, REQUEST_FAILED, error);
	return result;
}

static json_t *reply_clear(void *self, struct request *request)
{
	struct steer_order order = {};
	json_t *result = NULL;
	char *error = NULL;
	bool all;
	int err;

	if (!request_flag(request, "all", &all) || !request_flag(request, "force", &order.force) ||
	    (!all && !take_order(request, &order)))
		return NULL;
	if (all)
		err = steer_clear_all(self, order.force, &result);
	else
		err = steer_clear(self, &order, &result, &error);
	if (err)
		return request_fail(request, REQUEST_FAILED, error);
	return json_pack("{s:o}", "clearing", result);
}

static json_t *reply_auto(void *self, struct request *request)
{
	const char *state;
	char *error = NULL;
	bool on;

	if (!request_text(request, "state", "", &state))
		return NULL;
	on = !strcmp(state, "on");
	if (!on && strcmp(state, "off"))
		return request_misuse(request, "`steer auto` needs `on` or `off`");
	if (steer_set_automatic(self, on, "command", &error))
		return request_fail(request, REQUEST_FAILED, error);
	return json_pack("{s:b}", "auto", on);
}

static json_t *reply_plan(void *self, struct request *request)
{
	(void)request;
	return steer_plan(self);
}

const struct verb_handler steer_verb_handlers[] = {
	{"steer", reply_list},	    {"steer set", reply_set},	{"steer clear", reply_clear},
	{"steer auto", reply_auto}, {"steer plan", reply_plan}, {},
};

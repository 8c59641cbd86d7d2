// SPDX-License-Identifier: BSD-2-Clause
/* The verb `steer`, and what it adds to a queue pair of `qp`. */
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "internal.h"
#include "qp/qp.h"

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

json_t *steer_rule_json(const struct steer *steer, const struct rule *rule)
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
	json_put_text(object, "by", rule->automatic ? "automatic" : "operator");
	if (rule->in_effect)
		json_put_text(object, "trigger", steer_trigger_name(rule->trigger));
	json_put_count(object, "packets", rule->now.packets);
	json_put_count(object, "refused", rule->now.refused);
	json_put_bool(object, "replies_matched", rule->counts.paired);
	json_put_count(object, "age_ms", (time_local_ns() - rule->published_local_ns) / 1000000);
	return object;
}

static json_t *reply_list(void *self, struct request *request)
{
	json_t *rules = json_array(), *penalties = json_array(), *object;
	const struct steer *steer = self;
	uint64_t now_ns = time_local_ns();
	uint16_t ports = steer_ports(steer);

	(void)request;
	for (size_t i = 0; i < steer_rule_total(steer); i++)
		json_array_append_new(rules, steer_rule_json(steer, steer_rule_at(steer, i)));
	for (size_t i = 0; i < steer->penalty_count; i++) {
		const struct penalty *penalty = &steer->penalties[i];

		if (penalty->until_local_ns <= now_ns)
			continue;
		object = json_object();
		put_key(object, &penalty->key);
		json_put_text(object, "reason", verify_name(penalty->why));
		json_put_count(object, "left_ms", (penalty->until_local_ns - now_ns) / 1000000);
		json_array_append_new(penalties, object);
	}
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

/* What `set` and `clear` have in common. Types and ranges are as the verbs' tables have them. */
static bool take_args(struct request *request, struct steer_args *out)
{
	const json_t *args = request->args;

	*out = (struct steer_args){
		.src = json_string_value(json_object_get(args, "src")),
		.dst = json_string_value(json_object_get(args, "dst")),
		.qpn = (uint32_t)json_count(args, "qpn"),
		.sport = (uint16_t)json_count(args, "sport"),
		.label = request_has(request, "flow_label"),
		.flow_label = (uint32_t)json_count(args, "flow_label"),
		.flowlet_gap_ns = request_has(request, "flowlet_gap_ns")
					  ? json_count(args, "flowlet_gap_ns")
					  : STEER_FLOWLET_GAP_NS,
		.deadline_ns = request_has(request, "deadline_ns") ? json_count(args, "deadline_ns")
								   : STEER_DEADLINE_NS,
		.force = json_is_true(json_object_get(args, "force")),
	};
	if (out->dst && request_has(request, "qpn"))
		return true;
	request_misuse(request,
		       "which queue pair? give --dst ADDRESS and --qpn NUMBER, as `escapement qp` "
		       "shows them (direction tx)");
	return false;
}

static json_t *reply_set(void *self, struct request *request)
{
	struct steer_args args;
	json_t *result = NULL;
	char *error = NULL;

	if (!take_args(request, &args))
		return NULL;
	if (!args.sport && !args.label)
		return request_misuse(
			request,
			"which path? give --sport PORT, 1 to 65535, or for IPv6 --flow-label "
			"LABEL");
	if (steer_set(self, &args, &result, &error))
		return request_fail(request, REQUEST_FAILED, error);
	return result;
}

static json_t *reply_clear(void *self, struct request *request)
{
	struct steer_args args;
	json_t *result = NULL;
	char *error = NULL;

	if (json_is_true(json_object_get(request->args, "all")))
		steer_clear_all(self, json_is_true(json_object_get(request->args, "force")),
				&result);
	else if (!take_args(request, &args))
		return NULL;
	else if (steer_clear(self, &args, &result, &error))
		return request_fail(request, REQUEST_FAILED, error);
	return json_pack("{s:o}", "clearing", result);
}

static json_t *reply_auto(void *self, struct request *request)
{
	bool on = !strcmp(json_text(request->args, "state"), "on");
	char *error = NULL;

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

// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of steering: rules of the operator, and what is listed of all rules. */
#include <errno.h>
#include <string.h>

#include "base/address.h"
#include "base/explain.h"
#include "base/json.h"
#include "internal.h"

#define GAP_NS 1000000ull /* default of --flowlet-gap */
#define DEADLINE_NS 500000000ull
/* A gap that does not occur between two packets of an undisturbed stream. */
#define FORCED_GAP_NS 1000000ull

/* --- replies --- */

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

static json_t *rule_json(const struct steer *steer, const struct rule *rule)
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
	if (rule->automatic)
		json_put_count(object, "path_id", rule->want.path);
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
		json_array_append_new(rules, rule_json(steer, steer_rule_at(steer, i)));
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
	return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o}", "mode", ports ? "steer" : "observe",
			 "auto", steer->automatic, "interfaces", steer_interfaces(steer, ports),
			 "repair", steer_repair_json(steer), "steers", rules, "penalties",
			 penalties);
}

void steer_put_qp(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct steer *steer = self;

	/* An entry of `qps` may be of a rule that has ended since its last packet. */
	if (steer_leaves_elsewhere(&entry->qp.steer) &&
	    (steer_rule_find(steer, &entry->key) || steer_auto_find(steer, &entry->key)))
		put_path_now(qp, &entry->qp.steer);
}

/* --- arguments --- */

/* Of `steer set` and `steer clear`: which queue pairs, and the rule that they are to have. */
struct args {
	bool has_src;
	struct esc_address src, dst;
	const char *dst_text;
	uint32_t qpn;
	struct esc_steer want;
};

static struct esc_steer rule_within(uint64_t gap_ns, uint64_t deadline_ns, bool force)
{
	uint64_t now_ns = time_local_ns();

	return (struct esc_steer){
		.flowlet_gap_ns = force ? FORCED_GAP_NS : gap_ns,
		.start_local_ns = force ? 0 : now_ns + deadline_ns,
		.force_local_ns = force ? 0 : now_ns + 2 * deadline_ns,
	};
}

/* Types, ranges and addresses are as the verbs' tables have them. False: refused. */
static bool take_args(struct request *request, struct args *out)
{
	const char *src = request_text(request, "src", NULL);

	*out = (struct args){
		.has_src = src,
		.dst_text = request_text(request, "dst", NULL),
		.qpn = (uint32_t)request_count(request, "qpn", 0),
		.want = rule_within(request_count(request, "flowlet_gap_ns", GAP_NS),
				    request_count(request, "deadline_ns", DEADLINE_NS),
				    request_flag(request, "force")),
	};
	if (!out->dst_text || !request_has(request, "qpn")) {
		request_misuse(request, "which queue pair? give --dst ADDRESS and --qpn NUMBER, as "
					"`escapement qp` shows them (direction tx)");
		return false;
	}
	if (src)
		address_parse(src, &out->src);
	address_parse(out->dst_text, &out->dst);
	return true;
}

static bool selects(const struct args *args, const struct esc_qp_key *key)
{
	return key->dest_qpn == args->qpn && !memcmp(&key->dst, &args->dst, sizeof(key->dst)) &&
	       (!args->has_src || !memcmp(&key->src, &args->src, sizeof(key->src)));
}

/* --- `steer set` --- */

/* The one queue pair that sends as @args names it. */
static int find_qp(const struct steer *steer, const struct args *args, const struct qp_entry **out,
		   char **error)
{
	const struct qp_entry *entries;
	size_t count, found = 0;

	core_refresh(steer->core);
	entries = qptable_entries(steer->qps, &count);
	for (size_t i = 0; i < count; i++) {
		if (entries[i].key.direction != ESC_DIRECTION_TX || !selects(args, &entries[i].key))
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
			       args->dst_text, args->qpn);
	return explain(error, -EEXIST,
		       "%zu queue pairs send to %.64s with QPN %u; name one with --src ADDRESS",
		       found, args->dst_text, args->qpn);
}

static int check_steerable(const struct steer *steer, const struct qp_entry *qp,
			   const struct args *args, char **error)
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
	if (args->want.flags & ESC_STEER_LABEL && qp->qp.ip_version != 6)
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

/* @want takes effect; the rule goes when the map does not take it. *@result: the rule. */
static int publish(struct steer *steer, struct rule *rule, const struct esc_steer *want,
		   enum rule_state state, json_t **result, char **error)
{
	int err = steer_publish(steer, rule, *want, state, time_local_ns());
	char text[128];

	if (err) {
		explain(error, err, "%s: the map steers took no rule: %s",
			steer_subject(&rule->key, text), strerror(-err));
		steer_rule_drop(steer, rule);
		return err;
	}
	*result = rule_json(steer, rule);
	return 0;
}

static int set(struct steer *steer, const struct args *args, json_t **result, char **error)
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
	steer_count(steer, rule, &qp->qp);
	return publish(steer, rule, &args->want, RULE_WAITING, result, error);
}

static json_t *reply_set(void *self, struct request *request)
{
	json_t *result = NULL;
	char *error = NULL;
	struct args args;

	if (!take_args(request, &args))
		return NULL;
	args.want.sport = (uint16_t)request_count(request, "sport", 0);
	args.want.flow_label = (uint32_t)request_count(request, "flow_label", 0);
	args.want.flags = request_has(request, "flow_label") ? ESC_STEER_LABEL : 0;
	if (!args.want.sport && !args.want.flags)
		return request_misuse(
			request,
			"which path? give --sport PORT, 1 to 65535, or for IPv6 --flow-label "
			"LABEL");
	if (set(self, &args, &result, &error))
		return request_fail(request, REQUEST_FAILED, error);
	return result;
}

/* --- `steer clear` --- */

/* The result is appended to @results. */
static int clear_rule(struct steer *steer, struct rule *rule, const struct esc_steer *want,
		      json_t *results, char **error)
{
	json_t *result;
	int err;

	if (rule->automatic)
		rule = steer_auto_take(steer, (struct auto_rule *)rule);
	if (!rule)
		return -ENOMEM;
	err = publish(steer, rule, want, RULE_CLEARING, &result, error);
	if (!err)
		json_array_append_new(results, result);
	return err;
}

/* @args NULL: all, whatever fails. */
static int clear(struct steer *steer, const struct args *args, const struct esc_steer *want,
		 json_t *results, char **error)
{
	bool found = !args;
	int err = 0;

	for (size_t i = steer->penalty_count; i-- > 0;) {
		if (args && !selects(args, &steer->penalties[i].key))
			continue;
		steer->penalties[i] = steer->penalties[--steer->penalty_count];
		found = true;
	}
	for (size_t i = steer->rule_count; (!args || !err) && i-- > 0;) {
		if (args && !selects(args, &steer->rules[i].key))
			continue;
		err = clear_rule(steer, &steer->rules[i], want, results, error);
		found = true;
	}
	for (size_t i = steer->auto_count; (!args || !err) && i-- > 0;) {
		struct rule *rule = &steer->autos[i].rule;

		if (args ? !selects(args, &rule->key) : rule->state == RULE_TRACKING)
			continue;
		err = clear_rule(steer, rule, want, results, error);
		found = true;
	}
	if (err || found)
		return args ? err : 0;
	return explain(error, -ENOENT,
		       "no queue pair to %.64s with QPN %u is steered; `escapement steer` lists "
		       "those that are",
		       args->dst_text, args->qpn);
}

static json_t *reply_clear(void *self, struct request *request)
{
	bool all = request_flag(request, "all");
	json_t *results;
	char *error = NULL;
	struct args args = {
		.want = rule_within(GAP_NS, DEADLINE_NS, request_flag(request, "force"))};

	if (!all && !take_args(request, &args))
		return NULL;
	results = json_array();
	if (clear(self, all ? NULL : &args, &args.want, results, all ? NULL : &error)) {
		json_decref(results);
		return request_fail(request, REQUEST_FAILED, error);
	}
	return json_pack("{s:o}", "clearing", results);
}

/* --- the others --- */

static json_t *reply_auto(void *self, struct request *request)
{
	bool on = !strcmp(json_text(request->args, "state"), "on");
	char *error = NULL;

	if (steer_set_automatic(self, on, "command", &error))
		return request_fail(request, REQUEST_FAILED, error);
	return json_pack("{s:b}", "auto", on);
}

const struct verb_handler steer_verb_handlers[] = {
	{"steer", reply_list},	    {"steer set", reply_set},	{"steer clear", reply_clear},
	{"steer auto", reply_auto}, {"steer plan", steer_plan}, {},
};

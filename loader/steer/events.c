// SPDX-License-Identifier: BSD-2-Clause
/* Events of steering. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "delay/delay.h"
#include "internal.h"

#define FULL_EVERY_NS 60000000000ull /* between two events of a full table */

enum { STEER_EVENTS(EVENT_ENUM) };
const struct event_kind steer_events[] = {STEER_EVENTS(EVENT_KIND){}};

static const struct {
	const char *name, *meaning;
} triggers[ESC_STEER_TRIGGER_MAX] = {
#define X(id, name, text) [ESC_STEER_TRIGGER_##id] = {#name, text},
	ESC_STEER_TRIGGERS(X)
#undef X
};

const char *steer_trigger_name(enum esc_steer_trigger trigger)
{
	return triggers[trigger].name;
}

const char *steer_reason_name(enum steer_reason reason)
{
	static const char *const names[] = {
		[STEER_BY_OPERATOR] = "operator",     [STEER_BY_ROLLBACK] = "rollback",
		[STEER_BY_CONTENTION] = "contention", [STEER_BY_TAKEN_BACK] = "undone",
		[STEER_BY_TRACKING] = "tracking",
	};

	return names[reason];
}

const char *steer_subject(const struct esc_qp_key *key, char out[128])
{
	return address_format_qp(&key->src, &key->dst, key->dest_qpn, out);
}

json_t *steer_interfaces(const struct steer *steer, uint16_t ports)
{
	json_t *names = json_array();

	for (unsigned int i = 0; i < ESC_PORTS_MAX; i++) {
		const char *name = dataplane_port_name(steer->dataplane, i);

		if (ports >> i & 1 && name)
			json_array_append_new(names, json_string(name));
	}
	return names;
}

/* --- rules --- */

/* The port, and the flow label if one is set, that packets leave with. */
static json_t *path_json(const struct rule *rule, uint16_t sport, bool has_label, uint32_t label)
{
	json_t *path = json_object();

	json_put_count(path, "sport", sport ? sport : rule->own_sport);
	if (has_label)
		json_put_count(path, "flow_label", label);
	return path;
}

json_t *steer_path_wanted(const struct rule *rule)
{
	return path_json(rule, rule->want.sport, rule->want.flags & ESC_STEER_LABEL,
			 rule->want.flow_label);
}

/* Since @from, where the verification began. */
static json_t *counts_json(const struct rule *rule, const struct verify_counts *from)
{
	const struct verify_counts *now = &rule->counts;
	json_t *seen = json_object();

	json_put_count(seen, "sent", now->sent - from->sent);
	json_put_count(seen, "retransmitted", now->resent - from->resent);
	if (!now->paired || !from->paired)
		return seen;
	json_put_count(seen, "acked", now->back - from->back);
	json_put_count(seen, "naks", now->naks - from->naks);
	json_put_count(seen, "requests_repeated", now->repeated - from->repeated);
	return seen;
}

/* @event: but for kind and subject. */
static void add(struct steer *steer, int kind, const char *subject, struct event event)
{
	event.kind = &steer_events[kind];
	event.subject = subject;
	events_add(steer->core->events, &event);
}

static void report(struct steer *steer, const struct rule *rule, int kind, struct event event)
{
	char subject[128];

	log_info("%s: %s", steer_subject(&rule->key, subject), steer_events[kind].name);
	add(steer, kind, subject, event);
}

void steer_report_moved(struct steer *steer, const struct rule *rule, enum steer_reason reason)
{
	uint64_t waited_ns = rule->effect_local_ns > rule->published_local_ns
				     ? rule->effect_local_ns - rule->published_local_ns
				     : 0;

	report(steer, rule, PATH_SWITCHED,
	       (struct event){
		       .seen = json_pack("{s:I, s:I}", "own_sport", (json_int_t)rule->own_sport,
					 "waited_us", (json_int_t)waited_ns / 1000),
		       .done = json_pack("{s:s, s:o, s:o}", "reason", steer_reason_name(reason),
					 "from",
					 path_json(rule, rule->before.sport,
						   rule->before.flags & ESC_QP_STEER_LABEL,
						   rule->before.flow_label),
					 "to", steer_path_wanted(rule)),
		       .expected = json_pack("{s:s}", "replies",
					     "as before; else the rule is rolled back"),
		       .result = json_pack("{s:s, s:s}", "trigger", triggers[rule->trigger].name,
					   "meaning", triggers[rule->trigger].meaning),
	       });
}

void steer_report_verified(struct steer *steer, const struct rule *rule,
			   const struct verify_counts *from)
{
	report(steer, rule, PATH_VERIFIED,
	       (struct event){
		       .seen = counts_json(rule, from),
		       .done = json_pack("{s:o}", "path", steer_path_wanted(rule)),
		       .result = json_pack("{s:s}", "meaning", verify_meaning(VERIFY_PROVED)),
	       });
}

void steer_report_rolled_back(struct steer *steer, const struct rule *rule,
			      enum verify_result verdict, const struct penalty *penalty)
{
	json_t *result = json_object();

	if (penalty)
		json_put_count(result, "penalty_ms", penalty->length_ns / 1000000);
	json_put_count(result, "packets", rule->now.packets);
	report(steer, rule, PATH_ROLLED_BACK,
	       (struct event){
		       .seen = counts_json(rule, &rule->verify.from),
		       .done = json_pack(
			       "{s:s, s:o, s:o}", "reason", steer_reason_name(STEER_BY_ROLLBACK),
			       "from", steer_path_wanted(rule), "to", path_json(rule, 0, false, 0)),
		       .expected = json_pack("{s:s, s:s}", "verification", verify_name(verdict),
					     "meaning", verify_meaning(verdict)),
		       .result = result,
	       });
}

void steer_report_ended(struct steer *steer, const struct rule *rule, const char *why)
{
	report(steer, rule, STEERING_ENDED,
	       (struct event){
		       .seen = json_pack("{s:I}", "packets", (json_int_t)rule->now.packets),
		       .done = json_pack("{s:s, s:o}", "reason", why, "from",
					 steer_path_wanted(rule)),
	       });
}

/* --- modes --- */

void steer_report_mode(struct steer *steer, uint16_t ports, const char *by)
{
	const char *mode = ports ? "steer" : "observe";

	log_info("mode %s (by %s)", mode, by);
	add(steer, STEER_MODE_CHANGED, "daemon",
	    (struct event){.done = json_pack("{s:s, s:s, s:o}", "mode", mode, "by", by,
					     "interfaces", steer_interfaces(steer, ports))});
}

void steer_report_automatic(struct steer *steer, const char *by)
{
	log_info("automatic steering is %s (by %s)", steer->automatic ? "on" : "off", by);
	add(steer, steer->automatic ? STEER_AUTO_ON : STEER_AUTO_OFF, "daemon",
	    (struct event){.done = json_pack("{s:s}", "by", by)});
}

/* --- automatic moves --- */

static json_t *act_seen(const struct steer *steer, const struct pair *pair,
			const struct contend_act *act)
{
	const struct delays_entry *own = delays_find(steer->delays, &pair->members[act->qp].key);
	json_t *seen = json_object();

	json_put(seen, "from", steer_route_json(pair, act->from, act->from_ns));
	json_put(seen, "to", steer_route_json(pair, act->to, act->to_ns));
	steer_put_ns(seen, "bound_ns", act->bound_ns);
	steer_put_rate(seen, "rate_bps", act->rate_Bps);
	if (act->before_Bps > 0)
		steer_put_rate(seen, "rate_before_bps", act->before_Bps);
	/* The reason for the move, whatever the delays are now. */
	if (act->unanswered_ns > 0) {
		steer_put_ns(seen, "no_reply_for_ns", act->unanswered_ns);
		steer_put_ns(seen, "queue_before_ns", act->met_ns);
	}
	/* The delay of its own packets, where it is measured. */
	if (own && own->recent.samples) {
		json_put_integer(seen, "own_p50_ns", own->recent.p50_ns);
		json_put_count(seen, "own_bound_ns", own->recent.bound_ns);
	}
	return seen;
}

void steer_report_act(struct steer *steer, const struct pair *pair, const struct contend_act *act)
{
	bool ordered = act->kind == CONTEND_MOVE || act->kind == CONTEND_BACK;
	enum steer_reason reason =
		act->kind == CONTEND_BACK ? STEER_BY_TAKEN_BACK : STEER_BY_CONTENTION;
	json_t *done = NULL, *expected = json_object(), *result = json_object();
	char subject[128];

	if (ordered)
		done = json_pack("{s:s, s:I, s:i, s:i}", "reason", steer_reason_name(reason),
				 "hold_ns", (json_int_t)act->hold_ns, "from", (int)act->from, "to",
				 (int)act->to);
	steer_put_ns(expected, "gain_ns", act->predicted_ns);
	json_put_text(result, "evaluation", ordered ? "scheduled" : contend_act_name(act->kind));
	json_put_text(result, "meaning", contend_act_text(act->kind));
	if (act->kind == CONTEND_HELPED || act->kind == CONTEND_USELESS)
		steer_put_ns(result, "gain_ns", act->measured_ns);
	steer_subject(&pair->members[act->qp].key, subject);
	log_info("%s: %s", subject, contend_act_text(act->kind));
	add(steer, ordered ? MOVE_SCHEDULED : MOVE_EVALUATED, subject,
	    (struct event){.seen = act_seen(steer, pair, act),
			   .done = done,
			   .expected = expected,
			   .result = result});
}

void steer_report_full(struct steer *steer, const struct esc_qp_key *key)
{
	uint64_t now_ns = time_local_ns();
	char subject[128];

	if (steer->full_reported_ns && now_ns - steer->full_reported_ns < FULL_EVERY_NS)
		return;
	steer->full_reported_ns = now_ns;
	steer_subject(key, subject);
	log_warning("%s: the map steers takes no rule; it leaves unchanged", subject);
	add(steer, STEER_TABLE_FULL, subject,
	    (struct event){.seen = json_pack("{s:I, s:i}", "rules",
					     (json_int_t)steer_rule_total(steer), "max",
					     ESC_STEERS_MAX)});
}

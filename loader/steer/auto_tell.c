// SPDX-License-Identifier: BSD-2-Clause
/* Steering by itself in words: an event for each act, and the plan. */
#include <math.h>
#include <string.h>

#include "base/address.h"
#include "daemon/daemon.h"
#include "delay/delay.h"
#include "core/events.h"
#include "base/log.h"
#include "base/json.h"
#include "core/core.h"
#include "auto.h"

#define QUIET_NS 60000000000ull /* between two events of one kind of fault */

static void put_ns(json_t *object, const char *key, double ns)
{
	if (!isnan(ns))
		json_object_set_new(object, key, json_integer((json_int_t)llround(ns)));
}

static void put_rate(json_t *object, const char *key, double Bps)
{
	if (!isnan(Bps))
		json_object_set_new(object, key, json_integer((json_int_t)llround(8 * Bps)));
}

/* A path by the source port that probes walk it with. */
static json_t *show_end(const struct auto_pair *pair, uint32_t path, double delay_ns)
{
	json_t *end = json_object();

	json_put_count(end, "lane", path);
	if (path < ESC_PATH_LANES_MAX && pair->lanes[path].sport)
		json_put_count(end, "sport", pair->lanes[path].sport);
	put_ns(end, "delay_ns", delay_ns);
	if (path < ESC_PATH_LANES_MAX)
		put_ns(end, "floor_ns", pair->paths[path].floor_ns);
	return end;
}

/* Its own packets' delay, where receipts tell it. */
static void put_own_delay(const struct steer *steer, const struct auto_qp *who, json_t *seen)
{
	const struct delays_entry *delays = delays_find(steer->daemon->delays, &who->key);

	if (!delays || !delays->recent.samples)
		return;
	put_ns(seen, "own_p50_ns", (double)delays->recent.p50_ns);
	json_put_count(seen, "own_bound_ns", delays->recent.bound_ns);
}

static json_t *show_seen(const struct steer *steer, const struct auto_pair *pair,
			 const struct contend_act *act)
{
	json_t *seen = json_object();

	json_object_set_new(seen, "from", show_end(pair, act->from, act->from_ns));
	json_object_set_new(seen, "to", show_end(pair, act->to, act->to_ns));
	put_ns(seen, "bound_ns", act->bound_ns);
	put_rate(seen, "rate_bps", act->rate_Bps);
	if (act->before_Bps > 0)
		put_rate(seen, "rate_before_bps", act->before_Bps);
	/* Why it goes, whatever the delays of this moment are. */
	if (act->unanswered_ns > 0) {
		put_ns(seen, "unanswered_for_ns", act->unanswered_ns);
		put_ns(seen, "queue_met_ns", act->met_ns);
	}
	put_own_delay(steer, &pair->who[act->qp], seen);
	return seen;
}

void auto_tell_act(struct steer *steer, const struct auto_pair *pair, const struct contend_act *act)
{
	bool ordered = act->kind == CONTEND_MOVE || act->kind == CONTEND_BACK;
	json_t *done = NULL, *expected = json_object(), *result = json_object();
	char subject[128];

	if (ordered)
		done = json_pack("{s:s, s:I, s:i, s:i}", "reason",
				 steer_reason_name(act->kind == CONTEND_BACK ? STEER_BY_TAKEN_BACK
									     : STEER_BY_CONTENTION),
				 "hold_ns", (json_int_t)act->hold_ns, "from", (int)act->from, "to",
				 (int)act->to);
	put_ns(expected, "gain_ns", act->predicted_ns);
	json_put_text(result, "verdict", ordered ? "ordered" : contend_act_name(act->kind));
	json_put_text(result, "meaning", contend_act_text(act->kind));
	if (act->kind == CONTEND_HELPED || act->kind == CONTEND_USELESS)
		put_ns(result, "gain_ns", act->measured_ns);
	steer_subject(&pair->who[act->qp].key, subject);
	log_info("%s: %s", subject, contend_act_text(act->kind));
	events_record(steer->daemon->ledger, ordered ? "move_ordered" : "move_judged", subject,
		   show_seen(steer, pair, act), done, expected, result);
}

void auto_tell_full(struct steer *steer, const struct esc_qp_key *key)
{
	struct steer_auto *by_itself = steer->by_itself;
	uint64_t now_ns = time_local_ns();
	char subject[128];

	if (by_itself->full_told_ns && now_ns - by_itself->full_told_ns < QUIET_NS)
		return;
	by_itself->full_told_ns = now_ns;
	steer_subject(key, subject);
	log_warning("%s: the map steers takes no order; it leaves as it comes", subject);
	events_record(
		steer->daemon->ledger, "steer_table_full", subject,
		json_pack("{s:I, s:i}", "orders", (json_int_t)steer->count, "most", ESC_STEERS_MAX),
		NULL, NULL, NULL);
}

/* --- the plan --- */

static json_t *show_path(const struct auto_pair *pair, size_t number)
{
	const struct contend_path *path = &pair->paths[number];
	json_t *object = json_object();

	json_put_count(object, "lane", number);
	json_put_count(object, "sport", pair->lanes[number].sport);
	json_object_set_new(object, "measured", json_boolean(path->fresh));
	if (path->fresh) {
		put_ns(object, "floor_ns", path->floor_ns);
		put_ns(object, "delay_ns", path->delay_ns);
		put_ns(object, "noise_ns", path->noise_ns);
		put_ns(object, "bound_ns", path->bound_ns);
	}
	json_object_set_new(
		object, "contended",
		json_boolean(path->fresh && path->stands_out >= pair->contend.config.looks));
	json_put_count(object, "qps", path->own);
	put_rate(object, "rate_bps", path->own_Bps);
	return object;
}

static json_t *show_move(const struct auto_pair *pair, size_t q, int to, double gain_ns)
{
	const struct contend_qp *qp = &pair->qps[q];
	json_t *move = json_object();

	json_put_count(move, "dest_qpn", pair->who[q].key.dest_qpn);
	json_object_set_new(move, "from", show_end(pair, qp->path, pair->paths[qp->path].delay_ns));
	json_object_set_new(move, "to", show_end(pair, (uint32_t)to, pair->paths[to].delay_ns));
	put_ns(move, "gain_ns", gain_ns);
	put_rate(move, "rate_bps", qp->rate_Bps);
	if (qp->ordered)
		json_put_text(move, "state", "ordered");
	return move;
}

/* Why nothing would move; the first that is true. */
static const char *why_nothing(const struct auto_pair *pair)
{
	unsigned int fresh = 0, contended = 0, busy = 0, pinned = 0;

	for (size_t i = 0; i < ESC_PATH_LANES_MAX; i++) {
		fresh += pair->paths[i].fresh;
		contended += pair->paths[i].fresh &&
			     pair->paths[i].stands_out >= pair->contend.config.looks;
	}
	for (size_t i = 0; i < pair->count; i++) {
		busy += pair->qps[i].rate_Bps >= pair->contend.config.idle_Bps;
		pinned += pair->qps[i].pinned;
	}
	if (!fresh)
		return "no path's delay is known now: there is no fabric time, or the peer does "
		       "not answer, or paths are not told apart yet";
	if (fresh == 1)
		return "there is one path only";
	if (!contended)
		return "no path's delay stands out over its floor";
	if (!busy)
		return "no queue pair sends enough to matter";
	if (pinned == pair->count)
		return "all queue pairs were given their path by hand, or were taken back a while "
		       "ago";
	return "no queue pair would be better off elsewhere: its queue is its own, or stands on "
	       "all "
	       "paths, or what is free was tried and did not help";
}

json_t *auto_show_pair(const struct auto_pair *pair, int64_t now_ns)
{
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];
	json_t *paths = json_array(), *moves = json_array(), *object;
	double gain_ns;

	for (size_t i = 0; i < ESC_PATH_LANES_MAX; i++)
		if (pair->lanes[i].sport && pair->path[i] == i)
			json_array_append_new(paths, show_path(pair, i));
	for (size_t q = 0; q < pair->count; q++) {
		int to = pair->qps[q].pinned
				 ? CONTEND_NOWHERE
				 : contend_best(&pair->contend, now_ns, pair->paths,
						ESC_PATH_LANES_MAX, &pair->qps[q], &gain_ns);

		if (to >= 0)
			json_array_append_new(moves, show_move(pair, q, to, gain_ns));
	}
	object = json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "src",
			   address_format(&pair->facts.key.src, src), "dst",
			   address_format(&pair->facts.key.dst, dst), "peer", pair->facts.peer,
			   "qps", (json_int_t)pair->count, "paths", paths, "moves", moves);
	if (!json_array_size(moves))
		json_put_text(object, "why", why_nothing(pair));
	return object;
}

// SPDX-License-Identifier: BSD-2-Clause
/* `steer plan`: the routes as the policy sees them, and what it would move. */
#include <math.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "internal.h"
#include "qp/qp.h"

#define STALE_NS 600000000ll /* paths are probed each 250 ms where nothing is steered */

void steer_put_ns(json_t *object, const char *key, double ns)
{
	if (!isnan(ns))
		json_put_integer(object, key, llround(ns));
}

void steer_put_rate(json_t *object, const char *key, double Bps)
{
	steer_put_ns(object, key, 8 * Bps);
}

json_t *steer_route_json(const struct pair *pair, uint32_t route, double delay_ns)
{
	json_t *object = json_object();

	json_put_count(object, "path_id", route);
	if (route < ESC_PATHS_MAX && pair->candidates[route].sport)
		json_put_count(object, "sport", pair->candidates[route].sport);
	steer_put_ns(object, "delay_ns", delay_ns);
	if (route < ESC_PATHS_MAX)
		steer_put_ns(object, "floor_ns", pair->routes[route].floor_ns);
	return object;
}

static bool is_contended(const struct pair *pair, size_t route)
{
	const struct contend_path *path = &pair->routes[route];

	return path->fresh && path->stands_out >= pair->contend.config.ticks;
}

/* A route as the policy sees it. */
static json_t *route_json(const struct pair *pair, size_t number)
{
	const struct contend_path *route = &pair->routes[number];
	json_t *object = json_object();

	json_put_count(object, "path_id", number);
	json_put_count(object, "sport", pair->candidates[number].sport);
	json_put_bool(object, "measured", route->fresh);
	if (route->fresh) {
		steer_put_ns(object, "floor_ns", route->floor_ns);
		steer_put_ns(object, "delay_ns", route->delay_ns);
		steer_put_ns(object, "noise_ns", route->noise_ns);
		steer_put_ns(object, "bound_ns", route->bound_ns);
	}
	json_put_bool(object, "contended", is_contended(pair, number));
	json_put_count(object, "qps", route->own);
	steer_put_rate(object, "rate_bps", route->own_Bps);
	return object;
}

static json_t *move_json(const struct pair *pair, size_t q, int to, double gain_ns)
{
	const struct contend_qp *qp = &pair->qps[q];
	json_t *move = json_object();

	json_put_count(move, "dest_qpn", pair->members[q].key.dest_qpn);
	json_put(move, "from", steer_route_json(pair, qp->path, pair->routes[qp->path].delay_ns));
	json_put(move, "to", steer_route_json(pair, (uint32_t)to, pair->routes[to].delay_ns));
	steer_put_ns(move, "gain_ns", gain_ns);
	steer_put_rate(move, "rate_bps", qp->rate_Bps);
	if (qp->moving)
		json_put_text(move, "state", "scheduled");
	return move;
}

/* Why nothing would move; the first that is true. */
static const char *why_nothing(const struct pair *pair)
{
	unsigned int fresh = 0, contended = 0, busy = 0, pinned = 0;

	for (size_t i = 0; i < ESC_PATHS_MAX; i++) {
		fresh += pair->routes[i].fresh;
		contended += is_contended(pair, i);
	}
	for (size_t i = 0; i < pair->count; i++) {
		busy += pair->qps[i].rate_Bps >= pair->contend.config.idle_Bps;
		pinned += pair->qps[i].pinned;
	}
	if (!fresh)
		return "no path's delay is known now: there is no fabric time, or the peer does "
		       "not reply, or paths are not distinguished yet";
	if (fresh == 1)
		return "there is one path only";
	if (!contended)
		return "no path's delay exceeds its floor significantly";
	if (!busy)
		return "no queue pair sends enough to matter";
	if (pinned == pair->count)
		return "all queue pairs have a rule of the operator or a penalty";
	return "no queue pair would be better off elsewhere: its queue is its own, or is on "
	       "all paths, or what is free was tried and did not help";
}

static json_t *pair_json(const struct pair *pair, int64_t now_ns)
{
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];
	json_t *routes = json_array(), *moves = json_array(), *object;
	double gain_ns;

	for (size_t i = 0; i < ESC_PATHS_MAX; i++)
		if (pair->candidates[i].sport && pair->route_of[i] == i)
			json_array_append_new(routes, route_json(pair, i));
	for (size_t q = 0; q < pair->count; q++) {
		int to = pair->qps[q].pinned ? CONTEND_NOWHERE
					     : contend_best(&pair->contend, now_ns, pair->routes,
							    ESC_PATHS_MAX, &pair->qps[q], &gain_ns);

		if (to >= 0)
			json_array_append_new(moves, move_json(pair, q, to, gain_ns));
	}
	object = json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "src",
			   address_format(&pair->facts.key.src, src), "dst",
			   address_format(&pair->facts.key.dst, dst), "peer", pair->facts.peer,
			   "qps", (json_int_t)pair->count, "paths", routes, "moves", moves);
	if (!json_array_size(moves))
		json_put_text(object, "reason", why_nothing(pair));
	return object;
}

/* --- while automatic steering is off --- */

/* As the policy would see the pair if it had been on until now. */
static void evaluate_once(struct steer *steer, struct pair *pair, uint64_t now_ns)
{
	struct contend_budget budget = {0};
	const struct qp_entry *entries;
	uint64_t random = 0;
	size_t count;

	pair->contend.config.stale_ns = STALE_NS;
	entries = qptable_entries(steer->qps, &count);
	pair_update_candidates(pair, steer->paths);
	if (pair_update_members(pair, steer->paths, entries, count, now_ns))
		return;
	for (size_t q = 0; q < pair->count; q++) {
		struct pair_qp *member = &pair->members[q];

		/* Rates as the table has them: there is no tick that reads each queue pair. */
		for (size_t i = 0; i < count; i++)
			if (!memcmp(&entries[i].key, &member->key, sizeof(member->key)))
				pair->qps[q].rate_Bps = entries[i].bytes_per_second;
		pair->qps[q].path = pair_route_of(pair, steer_id_of(steer, pair, member));
		pair->qps[q].pinned = steer_rule_find(steer, &member->key);
	}
	for (unsigned int i = 0; i < pair->contend.config.ticks; i++)
		contend_tick(&pair->contend, &budget, (int64_t)now_ns, &random, pair->routes,
			     ESC_PATHS_MAX, pair->qps, pair->count, NULL, 0);
}

json_t *steer_plan(struct steer *steer)
{
	struct pair_list once = {}, *pairs = steer->automatic ? &steer->pairs : &once;
	uint64_t now_ns = time_local_ns();
	json_t *list = json_array();

	if (!steer->automatic) {
		core_refresh(steer->core);
		pairs_update(steer, &once);
		for (size_t i = 0; i < once.count; i++)
			evaluate_once(steer, once.list[i], now_ns);
	}
	for (size_t i = 0; i < pairs->count; i++)
		json_array_append_new(list, pair_json(pairs->list[i], (int64_t)now_ns));
	pairs_free(&once);
	return json_pack("{s:b, s:o}", "auto", steer->automatic, "pairs", list);
}

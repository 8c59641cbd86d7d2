// SPDX-License-Identifier: BSD-2-Clause
/* One pair of addresses as the policy sees it: its routes, its queue pairs, and `steer plan`. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/array.h"
#include "base/json.h"
#include "internal.h"
#include "net/rtnl.h"

#define NO_ROUTE UINT32_MAX
#define FRAME_BYTES 38	      /* of Ethernet, with preamble and gap, beside the MTU */
#define TICKS 4		      /* on end: a burst of a few ms is no reason to move */
#define SMOOTH_NS 40e6	      /* of rates: four ticks */
#define IDLE_NS 60000000000ll /* perhaps it has ended */
#define STALE_NS 600000000ll  /* paths are probed each 250 ms where nothing is steered */
#define MESSAGE_PART 0.25     /* weight of a new mean */
#define MESSAGE_MOST_NS 10e9  /* longer than a move waits for a message's start */

/* --- the pairs --- */

bool pair_configure(const struct steer *steer, unsigned int port, struct contend_config *config)
{
	bool held = rtnl_wait(CORE_RTNL_MS);
	const char *interface = held ? NULL : dataplane_port_name(steer->dataplane, port);
	const struct steer_keys *keys = steer_keys(steer->core->config);
	double bps = keys->capacity_bps;
	struct link_facts link;

	contend_config_default(config);
	if (bps <= 0 && interface)
		bps = ethtool_speed_bps(interface);
	config->ticks = TICKS;
	config->capacity_Bps = bps / 8;
	if (interface && !rtnl_link(interface, &link))
		config->packet_bytes = link.mtu + FRAME_BYTES;
	config->moves_per_s = keys->moves_per_s;
	config->moves_burst = fmax(config->moves_per_s / 2, 1);
	return !held;
}

struct pair *pair_new(const struct path_pair_facts *facts, const struct contend_config *config)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		return NULL;
	pair->facts = *facts;
	contend_init(&pair->contend, config);
	return pair;
}

void pair_free(struct pair *pair)
{
	if (!pair)
		return;
	free(pair->qps);
	free(pair->members);
	free(pair);
}

void pairs_update(struct steer *steer, struct pair_list *pairs)
{
	struct pair **list = pairs->list;
	struct contend_config config;
	size_t kept = 0;

	for (size_t i = 0; i < pairs->count; i++)
		list[i]->there = false;
	for (unsigned int slot = 0; slot < ESC_PATH_SLOTS_MAX; slot++) {
		const struct path_pair_facts *facts = paths_pair(steer->paths, slot);
		size_t at = 0;

		if (!facts)
			continue;
		/* There is a list. NOLINTBEGIN(clang-analyzer-core.NullDereference) */
		while (at < pairs->count &&
		       (list[at]->facts.port != facts->port ||
			memcmp(&list[at]->facts.key, &facts->key, sizeof(facts->key))))
			at++;
		/* NOLINTEND(clang-analyzer-core.NullDereference) */
		if (at == pairs->count) {
			if (array_reserve(&pairs->list, &pairs->room, at + 1, sizeof(*list)))
				continue;
			list = pairs->list;
			contend_config_default(&config);
			list[at] = pair_new(facts, &config);
			if (!list[at])
				continue;
			pairs->count++;
		}
		if (!list[at]->configured)
			list[at]->configured =
				pair_configure(steer, facts->port, &list[at]->contend.config);
		list[at]->there = true;
		list[at]->facts = *facts;
	}
	for (size_t i = 0; i < pairs->count; i++) {
		if (list[i]->there)
			list[kept++] = list[i];
		else
			pair_free(list[i]);
	}
	pairs->count = kept;
}

void pairs_free(struct pair_list *pairs)
{
	while (pairs->count)
		pair_free(pairs->list[--pairs->count]);
	free(pairs->list);
	*pairs = (struct pair_list){};
}

/* --- routes --- */

/* The usable candidate of a route with the best measurement: those in use are probed more often. */
static const struct path_facts *best_measured(const struct pair *pair, size_t route)
{
	const struct path_facts *best = NULL;

	for (size_t i = 0; i < ESC_PATHS_MAX; i++) {
		const struct path_facts *path = &pair->candidates[i];

		if (!path->sport || pair->route_of[i] != route || !path->usable)
			continue;
		if (!best || path->interval_ns < best->interval_ns ||
		    (path->interval_ns == best->interval_ns && path->out.at_ns > best->out.at_ns))
			best = path;
	}
	return best;
}

void pair_update_candidates(struct pair *pair, const struct paths *paths)
{
	struct path_facts found[ESC_PATHS_MAX], *candidates = pair->candidates;
	uint16_t sports[ESC_PATHS_MAX];
	bool changed = false;
	size_t count = paths_candidates(paths, pair->facts.slot, found);

	for (size_t i = 0; i < ESC_PATHS_MAX; i++)
		sports[i] = candidates[i].sport;
	memset(candidates, 0, sizeof(pair->candidates));
	for (size_t i = 0; i < count; i++)
		if (found[i].id < ESC_PATHS_MAX)
			candidates[found[i].id] = found[i];
	for (size_t i = 0; i < ESC_PATHS_MAX; i++) {
		size_t first = 0;

		/* Candidates of one group are one route, which is known by the first of them. */
		while (first < i && (!candidates[i].group || !candidates[first].sport ||
				     candidates[first].group != candidates[i].group))
			first++;
		changed |= sports[i] &&
			   (pair->route_of[i] != first || sports[i] != candidates[i].sport);
		pair->route_of[i] = (uint8_t)first;
	}
	if (changed)
		contend_reset_paths(pair->routes, ESC_PATHS_MAX, pair->qps, pair->count);
	for (size_t i = 0; i < ESC_PATHS_MAX; i++) {
		struct contend_path *route = &pair->routes[i];
		/* Which other ports share the route is only known of groups. */
		bool known = candidates[i].group && pair->route_of[i] == i;
		const struct path_facts *path = known ? best_measured(pair, i) : NULL;

		route->usable = path && path->out.at_ns;
		if (!route->usable)
			continue;
		route->floor_ns = path->out.floor_ns;
		route->delay_ns = path->out.delay_ns;
		route->worst_ns = fmax(path->out.worst_ns, path->out.delay_ns);
		route->noise_ns = isnan(path->out.noise_ns) ? 0 : path->out.noise_ns;
		route->bound_ns = path->out.bound_ns;
		route->measured_ns = path->out.at_ns;
	}
}

uint32_t pair_route_of(const struct pair *pair, int id)
{
	const struct path_facts *path;

	if (id < 0 || id >= ESC_PATHS_MAX || !pair->candidates[id].sport)
		return NO_ROUTE;
	path = &pair->candidates[id];
	if (path->diverted_ns && path->backup >= 0 && path->backup < ESC_PATHS_MAX)
		return pair->route_of[path->backup];
	return pair->route_of[id];
}

int pair_candidate_for(const struct pair *pair, uint32_t route)
{
	const struct path_facts *path = route < ESC_PATHS_MAX ? best_measured(pair, route) : NULL;

	return path ? (int)path->id : -1;
}

bool pair_is_calm(const struct pair *pair)
{
	for (size_t i = 0; i < ESC_PATHS_MAX; i++)
		if (pair->routes[i].contended_ticks)
			return false;
	for (size_t i = 0; i < pair->count; i++)
		if (pair->qps[i].moving)
			return false;
	return true;
}

/* --- queue pairs --- */

void pair_update_pace(struct pair_qp *member, struct contend_qp *qp, const struct esc_qp_pace *pace,
		      int64_t now_ns)
{
	uint64_t packets, waited_ns;
	double ns = (double)(now_ns - member->paced_ns);

	if (!pace) {
		qp->held_ns = qp->held_Bps = 0;
		member->paced_ns = member->departed_ns = 0;
		return;
	}
	packets = pace->packets - member->paced;
	waited_ns = pace->waited_ns - member->waited_ns;
	qp->held_Bps = (double)pace->flow.rate_Bps;
	member->departed_ns = (int64_t)pace->flow.departed_ns;
	/* While it waits for a packet that is held, nothing is known but that. */
	if (member->paced_ns && (packets || member->departed_ns < now_ns))
		qp->held_ns += (1 - exp(-ns / SMOOTH_NS)) *
			       ((packets ? (double)waited_ns / (double)packets : 0) - qp->held_ns);
	member->paced_ns = now_ns;
	member->paced = pace->packets;
	member->waited_ns = pace->waited_ns;
}

int64_t pair_idle_since(const struct pair_qp *member)
{
	return member->departed_ns > member->idle_ns ? member->departed_ns : member->idle_ns;
}

void pair_update_qp(struct pair_qp *member, struct contend_qp *qp, const struct esc_qp *read,
		    int64_t now_ns)
{
	double ns = (double)(now_ns - member->read_ns);
	uint64_t messages = read->messages - member->messages;

	if (!member->read_ns || read->packets < member->packets || ns <= 0) {
		member->idle_ns = now_ns;
	} else {
		double rate = (double)(read->bytes - member->bytes) * 1e9 / ns;
		double mean_ns = (double)(now_ns - member->message_ns) / (double)messages;

		qp->rate_Bps += (1 - exp(-ns / SMOOTH_NS)) * (rate - qp->rate_Bps);
		qp->idle_gap_ns = 0;
		if (read->packets == member->packets)
			qp->idle_gap_ns = fmax((double)(now_ns - pair_idle_since(member)), 0);
		if (read->packets != member->packets)
			member->idle_ns = now_ns;
		if (messages && member->message_ns && mean_ns <= MESSAGE_MOST_NS)
			qp->message_ns += qp->message_ns > 0
						  ? MESSAGE_PART * (mean_ns - qp->message_ns)
						  : mean_ns;
		if (messages)
			member->message_ns = now_ns;
	}
	member->read_ns = now_ns;
	member->packets = read->packets;
	member->bytes = read->bytes;
	member->messages = read->messages;
}

/* Its index, or the count. Tables are sorted, so it is mostly the one after the last. */
static size_t find_member(const struct pair *pair, const struct qp_entry *entry, size_t from)
{
	for (size_t n = 0; n < pair->count; n++) {
		size_t i = (from + n) % pair->count;

		if (pair->members[i].first_local_ns == entry->qp.first_local_ns &&
		    !memcmp(&pair->members[i].key, &entry->key, sizeof(entry->key)))
			return i;
	}
	return pair->count;
}

int pair_update_members(struct pair *pair, const struct paths *paths,
			const struct qp_entry *entries, size_t count, uint64_t now_ns)
{
	size_t at = 0, room;

	for (size_t i = 0; i < pair->count; i++)
		pair->members[i].there = false;
	for (const struct qp_entry *entry = entries; entry < entries + count; entry++) {
		const struct esc_qp_key *key = &entry->key;
		struct pair_qp *member;

		if (key->direction != ESC_DIRECTION_TX || key->port != pair->facts.port ||
		    memcmp(&key->src, &pair->facts.key.src, sizeof(key->src)) ||
		    memcmp(&key->dst, &pair->facts.key.dst, sizeof(key->dst)))
			continue;
		/*
		 * One that is idle may have ended, and where candidates are short one that sends
		 * needs the candidate that its rule keeps.
		 */
		if (pair->facts.crowded && (int64_t)(now_ns - entry->seen_local_ns) > IDLE_NS)
			continue;
		at = find_member(pair, entry, at);
		if (at == pair->count) {
			room = pair->room;
			if (array_reserve(&pair->qps, &room, at + 1, sizeof(*pair->qps)) ||
			    array_reserve(&pair->members, &pair->room, at + 1,
					  sizeof(*pair->members)))
				return -ENOMEM;
			pair->qps[at] = (struct contend_qp){.path = NO_ROUTE};
			pair->members[at] = (struct pair_qp){
				.key = *key, .first_local_ns = entry->qp.first_local_ns, .id = -1};
			pair->count++;
		}
		member = &pair->members[at++];
		member->there = true;
		member->own_sport = entry->qp.sport;
		member->home = paths_id_of(paths, pair->facts.slot, member->own_sport);
	}
	for (size_t i = pair->count; i-- > 0;) {
		if (pair->members[i].there)
			continue;
		pair->count--;
		pair->members[i] = pair->members[pair->count];
		pair->qps[i] = pair->qps[pair->count];
	}
	return 0;
}

/* --- `steer plan` --- */

void pair_put_rounded(json_t *object, const char *key, double value)
{
	if (!isnan(value))
		json_put_integer(object, key, llround(value));
}

json_t *pair_route_json(const struct pair *pair, uint32_t route, double delay_ns)
{
	json_t *object = json_object();

	json_put_count(object, "path_id", route);
	if (route < ESC_PATHS_MAX && pair->candidates[route].sport)
		json_put_count(object, "sport", pair->candidates[route].sport);
	pair_put_rounded(object, "delay_ns", delay_ns);
	if (route < ESC_PATHS_MAX)
		pair_put_rounded(object, "floor_ns", pair->routes[route].floor_ns);
	return object;
}

static bool is_contended(const struct pair *pair, size_t route)
{
	const struct contend_path *path = &pair->routes[route];

	return path->fresh && path->contended_ticks >= pair->contend.config.ticks;
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
		pair_put_rounded(object, "floor_ns", route->floor_ns);
		pair_put_rounded(object, "delay_ns", route->delay_ns);
		pair_put_rounded(object, "noise_ns", route->noise_ns);
		pair_put_rounded(object, "bound_ns", route->bound_ns);
	}
	json_put_bool(object, "contended", is_contended(pair, number));
	json_put_count(object, "qps", route->own);
	pair_put_rounded(object, "rate_bps", 8 * route->own_Bps);
	return object;
}

static json_t *move_json(const struct pair *pair, size_t q, int to, double gain_ns)
{
	const struct contend_qp *qp = &pair->qps[q];
	json_t *move = json_object();

	json_put_count(move, "dest_qpn", pair->members[q].key.dest_qpn);
	json_put(move, "from", pair_route_json(pair, qp->path, pair->routes[qp->path].delay_ns));
	json_put(move, "to", pair_route_json(pair, (uint32_t)to, pair->routes[to].delay_ns));
	pair_put_rounded(move, "gain_ns", gain_ns);
	pair_put_rounded(move, "rate_bps", 8 * qp->rate_Bps);
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

/* While automatic steering is off: as the policy would see the pair if it had been on until now. */
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

json_t *steer_plan(void *self, struct request *request)
{
	struct steer *steer = self;
	struct pair_list once = {}, *pairs = steer->automatic ? &steer->pairs : &once;
	uint64_t now_ns = time_local_ns();
	json_t *list = json_array();

	(void)request;
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

// SPDX-License-Identifier: BSD-2-Clause
/* One pair of addresses as the policy sees it: its routes and its queue pairs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"
#include "net/ethtool.h"
#include "net/rtnl.h"
#include "qp/qp.h"

#define NO_ROUTE UINT32_MAX
#define FRAME_BYTES 38	      /* of Ethernet, with preamble and gap, beside the MTU */
#define TICKS 4		      /* on end: a burst of a few ms is no reason to move */
#define SMOOTH_NS 40e6	      /* of rates: four ticks */
#define IDLE_NS 60000000000ll /* perhaps it has ended */
#define MESSAGE_PART 0.25     /* weight of a new mean */
#define MESSAGE_MOST_NS 10e9  /* longer than a move waits for a message's start */

/* --- the pairs --- */

void pair_configure(const struct steer *steer, unsigned int port, struct contend_config *config)
{
	const char *interface = dataplane_port_name(steer->dataplane, port);
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
	const struct path_pair_facts *facts;
	size_t count = paths_pairs(steer->paths, &facts), kept = 0;
	struct pair **list = pairs->list;
	struct contend_config config;

	for (size_t i = 0; i < pairs->count; i++)
		list[i]->there = false;
	for (size_t i = 0; i < count; i++) {
		size_t at = 0;

		while (at < pairs->count &&
		       (list[at]->facts.port != facts[i].port ||
			memcmp(&list[at]->facts.key, &facts[i].key, sizeof(facts[i].key))))
			at++;
		if (at == pairs->count) {
			if (array_reserve(&pairs->list, &pairs->room, at + 1, sizeof(*list)))
				continue;
			list = pairs->list;
			pair_configure(steer, facts[i].port, &config);
			list[at] = pair_new(&facts[i], &config);
			if (!list[at])
				continue;
			pairs->count++;
		}
		list[at]->there = true;
		list[at]->facts = facts[i];
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
		    (path->interval_ns == best->interval_ns &&
		     path->measured_ns > best->measured_ns))
			best = path;
	}
	return best;
}

static void update_route(struct pair *pair, size_t number)
{
	struct contend_path *route = &pair->routes[number];
	/* Which other ports share the route is only known of groups. */
	const struct path_facts *path =
		pair->candidates[number].group && pair->route_of[number] == number
			? best_measured(pair, number)
			: NULL;

	route->usable = path && path->measured_ns;
	if (!route->usable)
		return;
	route->floor_ns = path->floor_ns;
	route->delay_ns = path->delay_ns;
	route->worst_ns = path->worst_ns >= path->delay_ns ? path->worst_ns : path->delay_ns;
	route->noise_ns = isnan(path->noise_ns) ? 0 : path->noise_ns;
	route->bound_ns = path->bound_ns;
	route->measured_ns = path->measured_ns;
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
		contend_forget(pair->routes, ESC_PATHS_MAX, pair->qps, pair->count);
	for (size_t i = 0; i < ESC_PATHS_MAX; i++)
		update_route(pair, i);
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
		if (pair->routes[i].stands_out)
			return false;
	for (size_t i = 0; i < pair->count; i++)
		if (pair->qps[i].moving)
			return false;
	return true;
}

/* --- queue pairs --- */

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
		qp->idle_gap_ns =
			read->packets == member->packets ? (double)(now_ns - member->idle_ns) : 0;
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

static int add_member(struct pair *pair, const struct qp_entry *entry)
{
	size_t room = pair->room;

	if (array_reserve(&pair->qps, &room, pair->count + 1, sizeof(*pair->qps)) ||
	    array_reserve(&pair->members, &pair->room, pair->count + 1, sizeof(*pair->members)))
		return -ENOMEM;
	pair->qps[pair->count] = (struct contend_qp){.path = NO_ROUTE};
	pair->members[pair->count++] = (struct pair_qp){
		.key = entry->key,
		.first_local_ns = entry->qp.first_local_ns,
		.own_sport = entry->qp.sport,
		.home = -1,
		.id = -1,
	};
	return 0;
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

/*
 * One of the pair's queue pairs. One that is idle may have ended, and where candidates are short
 * one that sends needs the candidate that its rule keeps.
 */
static bool is_member(const struct pair *pair, const struct qp_entry *entry, uint64_t now_ns)
{
	const struct esc_qp_key *key = &entry->key;

	return key->direction == ESC_DIRECTION_TX && key->port == pair->facts.port &&
	       !memcmp(&key->src, &pair->facts.key.src, sizeof(key->src)) &&
	       !memcmp(&key->dst, &pair->facts.key.dst, sizeof(key->dst)) &&
	       !(pair->facts.crowded && (int64_t)(now_ns - entry->seen_local_ns) > IDLE_NS);
}

int pair_update_members(struct pair *pair, const struct paths *paths,
			const struct qp_entry *entries, size_t count, uint64_t now_ns)
{
	size_t at = 0;

	for (size_t i = 0; i < pair->count; i++)
		pair->members[i].there = false;
	for (size_t i = 0; i < count; i++) {
		struct pair_qp *member;

		if (!is_member(pair, &entries[i], now_ns))
			continue;
		at = find_member(pair, &entries[i], at);
		if (at == pair->count && add_member(pair, &entries[i]))
			return -ENOMEM;
		member = &pair->members[at++];
		member->there = true;
		member->own_sport = entries[i].qp.sport;
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

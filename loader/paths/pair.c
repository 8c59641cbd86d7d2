// SPDX-License-Identifier: BSD-2-Clause
/* Pairs of addresses between which there are queue pairs, and which source ports are candidates. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/log.h"
#include "clocksync/graph.h"
#include "fleet/fleet.h"
#include "internal.h"
#include "maps/barrier.h"
#include "pacing/random.h"
#include "qp/qp.h"

/* Without a reply for so long there is no peer, or none with the programs. */
#define REPLIES_NS 3000000000ll
/* A queue pair that has sent nothing for so long may have ended. */
#define AWAKE_NS 10000000000ll
/* After this time without a reply from a switch, the other candidates are random ports. */
#define NO_REPLY_NS 3000000000ull

bool paths_pair_replies(const struct paths_pair *pair, uint64_t now_ns)
{
	/* Some records of this tick are younger than its beginning. */
	return pair->replied_ns && (int64_t)(now_ns - pair->replied_ns) < REPLIES_NS;
}

/* --- slots of the map --- */

struct paths_pair *paths_find(const struct paths *paths, const struct esc_path_key *key)
{
	uint32_t slot;

	if (bpf_map_lookup_elem(paths->slots_fd, key, &slot) || slot >= ESC_PATH_SLOTS_MAX)
		return NULL;
	return paths->by_slot[slot];
}

/* The programs read the port first: between two of them there is none. */
static void candidate_write(const struct candidate *path, uint16_t sport)
{
	struct esc_path *map = path->map;

	store(map->sport, 0);
	smp_wmb();
	store(map->deadline_ns, 0);
	store(map->diverted_ns, 0);
	store(map->backup, ESC_PATH_NONE);
	store(map->state, PATHLIVE_UP);
	store(map->floor_ns, 0);
	memset(&map->live, 0, sizeof(map->live));
	map->diverted = map->probes = map->replies = 0;
	__atomic_store_n(&map->sport, sport, __ATOMIC_SEQ_CST);
}

/* --- a pair --- */

void paths_candidate_clear(struct candidate *path, uint16_t sport)
{
	path->facts = (struct path_facts){
		.slot = path->facts.slot, .id = path->facts.id, .sport = sport, .backup = -1};
	path->damp = (struct pathlive_damp){};
	path->rules = 0;
	memset(path->sent_then, 0, sizeof(path->sent_then));
	pathstat_clear(&path->out);
	pathstat_clear(&path->in);
	pathstat_clear(&path->rtt);
}

struct paths_pair *paths_pair_new(const struct paths *paths, unsigned int slot,
				  const struct esc_path_key *key, uint8_t port, const char *host,
				  uint64_t now_ns)
{
	struct paths_pair *pair = calloc(1, sizeof(*pair));
	struct pathset_config config;

	if (!pair)
		return NULL;
	pathset_config_default(&config);
	/* At 0.95 one survey in twenty misses a route, and a fabric has many pairs. */
	config.confidence = 0.999;
	config.ports_most = PATHSET_PORTS_MAX;
	pathset_init(&pair->set, &config);
	pair->facts.slot = slot;
	pair->facts.key = *key;
	pair->facts.port = port;
	snprintf(pair->facts.peer, sizeof(pair->facts.peer), "%s", host);
	pair->peer_id = graph_member_id(host);
	pair->since_ns = now_ns;
	pair->changed = true;
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++) {
		struct candidate *path = &pair->candidates[i];

		path->facts.slot = slot;
		path->facts.id = i;
		path->map = &paths->map[slot].paths[i];
		paths_candidate_clear(path, 0);
	}
	return pair;
}

static void pair_open(struct paths *paths, struct paths_pair *pair)
{
	const struct config *config = paths->core->config;
	const struct port_info *port = &paths->ports[pair->facts.port % ESC_PORTS_MAX];
	struct pathpacket packet = {
		.from = pair->facts.key.src,
		.to = pair->facts.key.dst,
		.to_port = ESC_ROCEV2_PORT,
		.target = pair->peer_id,
		.flags = port->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0,
	};
	char text[ADDRESS_TEXT_BYTES];
	int err = -ENODEV;

	if (port->ifindex && !dataplane_lacks(paths->dataplane, port->name)) {
		snprintf(pair->interface, sizeof(pair->interface), "%s", port->name);
		pair->ifindex = port->ifindex;
		for (size_t i = 0; i < config->interface_count; i++)
			if (!strcmp(config->interfaces[i].name, port->name))
				packet.to_port = config->interfaces[i].probe_port;
		err = pathsend_add(paths->send, pair->interface, &packet, pair->facts.slot,
				   &pair->sending);
	}
	if (err && err != pair->open_error && err != -ENODEV)
		log_warning("paths to %s (%s) cannot be probed from %s: %s", pair->facts.peer,
			    address_format(&packet.to, text), pair->interface, strerror(-err));
	pair->open_error = err;
}

void paths_pair_forget(struct paths_pair *pair)
{
	for (unsigned int i = 0; pair && i < ESC_PATHS_MAX; i++) {
		pathstat_free(&pair->candidates[i].out);
		pathstat_free(&pair->candidates[i].in);
		pathstat_free(&pair->candidates[i].rtt);
	}
	free(pair);
}

void paths_pair_end(struct paths *paths, struct paths_pair *pair)
{
	unsigned int slot = pair->facts.slot;

	pathsend_remove(paths->send, pair->sending);
	bpf_map_delete_elem(paths->slots_fd, &pair->facts.key);
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++) {
		paths_report_dropped(paths, pair, &pair->candidates[i]);
		candidate_write(&pair->candidates[i], 0);
	}
	__atomic_store_n(&paths->map[slot].peer, 0, __ATOMIC_SEQ_CST);
	paths->by_slot[slot] = NULL;
	paths->facts.pairs--;
	paths_pair_forget(pair);
}

void paths_take_over(struct paths *paths, uint64_t now_ns)
{
	const struct members *members = fleet_members(paths->core->fleet);

	for (unsigned int number = 0; number < ESC_PATH_SLOTS_MAX; number++) {
		struct esc_paths *slot = &paths->map[number];
		const char *host = slot->peer ? members_host(members, &slot->key.dst) : NULL;
		struct paths_pair *pair = NULL;

		if (host && graph_member_id(host) == slot->peer)
			pair = paths_pair_new(paths, number, &slot->key, slot->port, host, now_ns);
		if (!pair) {
			__atomic_store_n(&slot->peer, 0, __ATOMIC_SEQ_CST);
			continue;
		}
		paths->by_slot[number] = pair;
		paths->facts.pairs++;
		for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
			pair->candidates[i].facts.sport = pair->candidates[i].map->sport;
		for_each_candidate (pair, path) {
			pathset_add(&pair->set, path->facts.sport);
			/* What is missing was sent before this daemon started. */
			__atomic_store_n(&path->map->deadline_ns, 0, __ATOMIC_SEQ_CST);
			memset(&path->map->live, 0, sizeof(path->map->live));
			/* Packets that use a backup do so until the path has been up for long. */
			path->facts.diverted_ns = path->map->diverted_ns;
			if (path->facts.diverted_ns)
				pathlive_step(&path->damp, &paths->live, PATHLIVE_DOWN,
					      (int64_t)now_ns);
		}
		pair_open(paths, pair);
	}
}

/* --- which ports are candidates --- */

int paths_set_index(const struct paths_pair *pair, uint16_t sport)
{
	for (size_t i = 0; i < pair->set.count; i++)
		if (pair->set.ports[i].sport == sport)
			return (int)i;
	return -ENOENT;
}

static uint16_t group_of(const struct paths_pair *pair, uint16_t sport)
{
	int index = paths_set_index(pair, sport);

	return index < 0 ? 0 : pair->set.ports[index].group;
}

/* All ports of a route have one candidate, even where several of them are still candidates. */
int paths_pair_id_of(const struct paths_pair *pair, uint16_t sport)
{
	uint16_t group = sport ? group_of(pair, sport) : 0;

	for_each_candidate (pair, path)
		if (group && group_of(pair, path->facts.sport) == group)
			return (int)path->facts.id;
	for_each_candidate (pair, path)
		if (path->facts.sport == sport)
			return (int)path->facts.id;
	return -ENOENT;
}

bool paths_is_own(const struct paths_pair *pair, uint16_t sport, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pair->own[i] == sport)
			return true;
	return false;
}

/* @sport 0: @path is a candidate no more. */
static void candidate_set(struct paths *paths, struct paths_pair *pair, struct candidate *path,
			  uint16_t sport)
{
	if (pair->sending)
		pathsend_set(paths->send, pair->sending, path->facts.id, 0, 0);
	paths_report_dropped(paths, pair, path);
	paths_candidate_clear(path, sport);
	candidate_write(path, sport);
	for_each_candidate (pair, other)
		if (other->facts.backup == (int)path->facts.id)
			other->facts.backup = -1;
	if (sport)
		pathset_add(&pair->set, sport);
}

/* What it is worth to keep a candidate: one that has a rule stays in any case. */
enum worth { WORTH_NOTHING, WORTH_LITTLE, WORTH_A_ROUTE, WORTH_RULES };

static enum worth worth_of(const struct paths_pair *pair, const struct candidate *path)
{
	uint16_t group = group_of(pair, path->facts.sport);

	if (path->rules)
		return WORTH_RULES;
	if (!group)
		return paths_is_own(pair, path->facts.sport, pair->own_awake) ? WORTH_A_ROUTE
									      : WORTH_LITTLE;
	/* Of candidates on one route one is enough: one with rules, else the first. */
	for_each_candidate (pair, other)
		if (other != path && group_of(pair, other->facts.sport) == group &&
		    (other->rules || other < path))
			return WORTH_NOTHING;
	return WORTH_A_ROUTE;
}

/* An entry for a new one: a free one, else that of a candidate of less than @worth; NULL: none. */
static struct candidate *find_room(const struct paths *paths, struct paths_pair *pair,
				   enum worth worth)
{
	struct candidate *found = NULL, *empty = NULL;
	unsigned int count = 0;

	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++) {
		struct candidate *path = &pair->candidates[i];
		enum worth here;

		if (!path->facts.sport) {
			empty = empty ? empty : path;
			continue;
		}
		count++;
		here = worth_of(pair, path);
		if (here < worth) {
			worth = here;
			found = path;
		}
	}
	return count < paths->core->config->paths.per_peer ? empty : found;
}

/* A candidate for @sport, unless its route has one. */
static void candidate_add(struct paths *paths, struct paths_pair *pair, uint16_t sport,
			  enum worth worth)
{
	struct candidate *path =
		paths_pair_id_of(pair, sport) < 0 ? find_room(paths, pair, worth) : NULL;

	if (path)
		candidate_set(paths, pair, path, sport);
}

/* Drops those beyond paths.per_peer, after a reload, and the second one on a route. */
static void drop_surplus(struct paths *paths, struct paths_pair *pair)
{
	unsigned int count = 0;

	for_each_candidate (pair, path)
		count++;
	for (unsigned int i = ESC_PATHS_MAX; i-- > 0;) {
		struct candidate *path = &pair->candidates[i];
		enum worth worth = path->facts.sport ? worth_of(pair, path) : WORTH_RULES;

		if (worth == WORTH_NOTHING ||
		    (count > paths->core->config->paths.per_peer && worth < WORTH_RULES)) {
			candidate_set(paths, pair, path, 0);
			count--;
		}
	}
}

static void choose_candidates(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	bool unknown = paths_is_silent(pair) || (pair->distance_known && !pair->distance);

	pair->changed = false;
	pathset_group(&pair->set);
	drop_surplus(paths, pair);
	/* One for each route that is known. */
	for (size_t g = 1; g <= pair->set.groups; g++)
		candidate_add(paths, pair, pair->set.ports[pair->set.representative[g]].sport,
			      WORTH_A_ROUTE);
	/*
	 * And one for each port of a queue pair without a known route; where there is room, for
	 * those of idle queue pairs as well.
	 */
	for (size_t i = 0; i < pair->own_count; i++)
		candidate_add(paths, pair, pair->own[i],
			      i < pair->own_awake ? WORTH_A_ROUTE : WORTH_LITTLE);
	/* Where no switch replies ports are drawn, and their delays distinguish routes. */
	unknown = unknown && now_ns - pair->since_ns >= NO_REPLY_NS &&
		  !pathset_is_complete(&pair->set);
	while (unknown && find_room(paths, pair, WORTH_LITTLE)) {
		uint16_t sport = (uint16_t)(PATHSET_PORT_FIRST +
					    pacing_random(&paths->random) % PATHSET_PORT_COUNT);

		if (paths_set_index(pair, sport) < 0)
			candidate_add(paths, pair, sport, WORTH_LITTLE);
	}
	pair->facts.crowded = false;
	for (size_t i = 0; i < pair->own_awake; i++)
		pair->facts.crowded |= paths_pair_id_of(pair, pair->own[i]) < 0;
}

/* --- the table of queue pairs --- */

/* Adds a port of a queue pair. A full set drops what is neither a candidate nor one of those. */
static void pair_add_port(struct paths_pair *pair, uint16_t sport)
{
	struct pathset *set = &pair->set;
	size_t kept = 0;
	int added;

	if (!sport || paths_is_own(pair, sport, pair->own_count) ||
	    pair->own_count == PATHS_OWN_PORTS_MAX)
		return;
	pair->own[pair->own_count++] = sport;
	added = pathset_add(set, sport);
	if (added == -ENOSPC) {
		for (size_t i = 0; i < set->count; i++) {
			bool keep = paths_is_own(pair, set->ports[i].sport, pair->own_count);

			for_each_candidate (pair, path)
				keep |= path->facts.sport == set->ports[i].sport;
			if (keep)
				set->ports[kept++] = set->ports[i];
		}
		set->count = kept;
		set->groups = 0;
		pathset_group(set);
		added = pathset_add(set, sport);
	}
	pair->changed |= added >= 0;
}

/* The pair of a queue pair, if need be a new one; NULL: its peer is no other member, or no slot. */
static struct paths_pair *pair_for(struct paths *paths, const struct qp_entry *entry,
				   uint64_t now_ns)
{
	struct esc_path_key key = {entry->key.src, entry->key.dst};
	struct paths_pair *pair = paths_find(paths, &key);
	struct esc_paths *slot;
	uint32_t number = 0;
	const char *host;

	if (pair)
		return pair;
	host = members_host(fleet_members(paths->core->fleet), &key.dst);
	if (!host || !strcmp(host, paths->core->config->host))
		return NULL;
	while (number < ESC_PATH_SLOTS_MAX && paths->by_slot[number])
		number++;
	if (number < ESC_PATH_SLOTS_MAX)
		pair = paths_pair_new(paths, number, &key, entry->key.port, host, now_ns);
	if (pair) {
		slot = &paths->map[number];
		store(slot->peer, 0);
		smp_wmb();
		slot->key = key;
		slot->port = entry->key.port;
		slot->peer_epoch = 0;
		for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
			candidate_write(&pair->candidates[i], 0);
		__atomic_store_n(&slot->peer, pair->peer_id, __ATOMIC_SEQ_CST);
		if (!bpf_map_update_elem(paths->slots_fd, &key, &number, BPF_ANY)) {
			paths->by_slot[number] = pair;
			paths->facts.pairs++;
			pair_open(paths, pair);
			return pair;
		}
		__atomic_store_n(&slot->peer, 0, __ATOMIC_SEQ_CST);
		paths_pair_forget(pair);
	}
	if (!paths->facts.pairs_refused++)
		paths_report_full(paths, host);
	return NULL;
}

/* Pairs of addresses of queue pairs that are awake, or idle, and their ports. */
static void scan_qps(struct paths *paths, bool awake, uint64_t now_ns)
{
	struct paths_pair *pair = NULL;
	const struct qp_entry *entries;
	size_t count;

	entries = qptable_entries(paths->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *entry = &entries[i];
		bool sends = entry->moved_local_ns &&
			     (int64_t)(now_ns - entry->moved_local_ns) < AWAKE_NS;

		if (entry->key.direction != ESC_DIRECTION_TX || sends != awake)
			continue;
		/* They are sorted: the next one is mostly of the same pair. */
		if (!pair ||
		    memcmp(&pair->facts.key.src, &entry->key.src, sizeof(entry->key.src)) ||
		    memcmp(&pair->facts.key.dst, &entry->key.dst, sizeof(entry->key.dst)))
			pair = pair_for(paths, entry, now_ns);
		if (!pair)
			continue;
		pair->seen = true;
		pair->facts.port = entry->key.port;
		pair->qps++;
		pair_add_port(pair, entry->qp.sport);
		pair->own_awake = awake ? pair->own_count : pair->own_awake;
	}
}

void paths_update_pairs(struct paths *paths, uint64_t now_ns)
{
	struct paths_pair *pair;

	for_each_pair (paths, pair) {
		pair->seen = false;
		pair->qps = 0;
		pair->own_before = pair->own_awake;
		pair->own_count = pair->own_awake = 0;
	}
	/* A queue pair that does not send may have ended: those that do come first. */
	scan_qps(paths, true, now_ns);
	scan_qps(paths, false, now_ns);
	for_each_pair (paths, pair) {
		unsigned int rules = 0;

		/* It ends with its queue pairs, member or interface; not while rules lead there. */
		for_each_candidate (pair, path)
			rules += path->rules;
		if (!pair->seen && !rules && now_ns - pair->since_ns > PATHS_UPDATE_NS) {
			paths_pair_end(paths, pair);
			continue;
		}
		if (pair->sending &&
		    paths->ports[pair->facts.port % ESC_PORTS_MAX].ifindex != pair->ifindex) {
			pathsend_remove(paths->send, pair->sending);
			pair->sending = NULL;
		}
		if (!pair->sending)
			pair_open(paths, pair);
		pair->changed |= pair->own_awake != pair->own_before;
		if (pair->sending && pair->changed)
			choose_candidates(paths, pair, now_ns);
	}
}

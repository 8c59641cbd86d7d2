// SPDX-License-Identifier: BSD-2-Clause
/* Pairs of addresses between which there are queue pairs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/log.h"
#include "clocksync/graph.h"
#include "fleet/fleet.h"
#include "internal.h"
#include "qp/qp.h"

/* Without a reply for so long there is no peer, or none with the programs. */
#define REPLIES_NS 3000000000ll
/* A queue pair that has sent nothing for so long may have ended. */
#define AWAKE_NS 10000000000ll

bool paths_pair_replies(const struct paths_pair *pair, uint64_t now_ns)
{
	/* Some records of this tick are younger than its beginning. */
	return pair->replied_ns && (int64_t)(now_ns - pair->replied_ns) < REPLIES_NS;
}

static void pair_open(struct paths *paths, struct paths_pair *pair)
{
	const struct config *config = paths->core->config;
	const struct port_info *port = &paths->ports[pair->port % ESC_PORTS_MAX];
	struct pathsend_config wanted = {
		.interface = pair->interface,
		.from = pair->key.src,
		.to = pair->key.dst,
		.to_port = ESC_ROCEV2_PORT,
		.target = pair->peer,
		.phase = pair->slot,
	};
	char text[ADDRESS_TEXT_BYTES];
	int err = -ENODEV;

	if (port->ifindex && !dataplane_stamps_missing(paths->dataplane, port->name)) {
		snprintf(pair->interface, sizeof(pair->interface), "%s", port->name);
		pair->ifindex = port->ifindex;
		wanted.flags = port->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0;
		for (size_t i = 0; i < config->interface_count; i++)
			if (!strcmp(config->interfaces[i].name, port->name))
				wanted.to_port = config->interfaces[i].probe_port;
		err = pathsend_add(paths->send, &wanted, &pair->sending);
	}
	if (err && err != pair->open_error && err != -ENODEV)
		log_warning("paths to %s (%s) cannot be probed from %s: %s", pair->host,
			    address_format(&pair->key.dst, text), pair->interface, strerror(-err));
	pair->open_error = err;
}

static struct paths_pair *pair_new(const struct esc_path_key *key, uint8_t port, const char *host,
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
	pair->key = *key;
	pair->port = port;
	pair->peer = graph_member_id(host);
	pair->since_ns = now_ns;
	pair->changed = true;
	snprintf(pair->host, sizeof(pair->host), "%s", host);
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
		paths_candidate_clear(&pair->candidates[i], 0);
	return pair;
}

void paths_pair_end(struct paths *paths, struct paths_pair *pair)
{
	pathsend_remove(paths->send, pair->sending);
	paths_slot_free(paths, pair);
	paths_pair_forget(pair);
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

/* Left by the daemon before: candidates may have rules, and keep their ids. */
static void slot_take_over(struct paths *paths, unsigned int number, uint64_t now_ns)
{
	struct esc_paths *slot = &paths->map[number];
	const char *host = members_host(fleet_members(paths->core->fleet), &slot->key.dst);
	struct paths_pair *pair = host && graph_member_id(host) == slot->peer
					  ? pair_new(&slot->key, slot->port, host, now_ns)
					  : NULL;

	if (!pair) {
		__atomic_store_n(&slot->peer, 0, __ATOMIC_SEQ_CST);
		return;
	}
	pair->slot = number;
	paths->by_slot[number] = pair;
	paths->pairs++;
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++) {
		struct esc_path *entry = &slot->paths[i];
		struct candidate *path = &pair->candidates[i];

		paths_candidate_clear(path, entry->sport);
		if (!path->sport)
			continue;
		pathset_add(&pair->set, path->sport);
		/* What is missing was sent before this daemon started. */
		__atomic_store_n(&entry->deadline_ns, 0, __ATOMIC_SEQ_CST);
		memset(&entry->live, 0, sizeof(entry->live));
		/* Packets that use a standby do so until the path has been up for long. */
		path->diverted_ns = entry->diverted_ns;
		if (path->diverted_ns)
			pathlive_step(&path->damp, &paths->live, PATHLIVE_DOWN, (int64_t)now_ns);
	}
	pair_open(paths, pair);
}

void paths_take_over(struct paths *paths, uint64_t now_ns)
{
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		if (paths->map[i].peer)
			slot_take_over(paths, i, now_ns);
}

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

			for_each_candidate (pair, id)
				keep |= pair->candidates[id].sport == set->ports[i].sport;
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

/* The pair of a queue pair, new if need be; NULL: its peer is no other member, or no slot is free.
 */
static struct paths_pair *pair_for(struct paths *paths, const struct qp_entry *entry,
				   uint64_t now_ns)
{
	struct esc_path_key key = {entry->key.src, entry->key.dst};
	struct paths_pair *pair = paths_find(paths, &key);
	const char *host;

	if (pair)
		return pair;
	host = members_host(fleet_members(paths->core->fleet), &key.dst);
	if (!host || !strcmp(host, paths->core->config->host))
		return NULL;
	pair = pair_new(&key, entry->key.port, host, now_ns);
	if (pair && !paths_slot_take(paths, pair)) {
		pair_open(paths, pair);
		return pair;
	}
	if (!paths->total.pairs_refused++ && pair)
		paths_report_full(paths, pair);
	free(pair);
	return NULL;
}

/* It ends with its queue pairs, its member or its interface; not while rules lead there. */
static void pair_update(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	unsigned int rules = 0;

	for_each_candidate (pair, i)
		rules += pair->candidates[i].rules;
	if (!pair->seen && !rules && now_ns - pair->since_ns > PATHS_UPDATE_NS) {
		paths_pair_end(paths, pair);
		return;
	}
	if (pair->sending && paths->ports[pair->port % ESC_PORTS_MAX].ifindex != pair->ifindex) {
		pathsend_remove(paths->send, pair->sending);
		pair->sending = NULL;
	}
	if (!pair->sending)
		pair_open(paths, pair);
	pair->changed |= pair->own_awake != pair->own_before;
	if (pair->sending && pair->changed)
		paths_choose_candidates(paths, pair, now_ns);
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
		if (!pair || memcmp(&pair->key.src, &entry->key.src, sizeof(pair->key.src)) ||
		    memcmp(&pair->key.dst, &entry->key.dst, sizeof(pair->key.dst)))
			pair = pair_for(paths, entry, now_ns);
		if (!pair)
			continue;
		pair->seen = true;
		pair->port = entry->key.port;
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
	for_each_pair (paths, pair)
		pair_update(paths, pair, now_ns);
}

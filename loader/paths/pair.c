// SPDX-License-Identifier: BSD-2-Clause
/* Pairs of addresses that have queue pairs, and which of their ports are lanes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "clocksync/graph.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "pacing/random.h"
#include "internal.h"
#include "qp/table.h"

/* An answer is missing for so long: nobody is there, or nobody with the program. */
#define ANSWERS_NS 3000000000ll
/* Without a word from any switch, the other lanes are drawn blindly. */
#define BLIND_NS 3000000000ull
/* A queue pair that has not moved for so long may have ended. */
#define AWAKE_NS 10000000000ll

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

/* All ports of a path have one lane, even if several have one of their own still: so those go. */
int paths_pair_lane_of(const struct paths_pair *pair, uint16_t sport)
{
	uint16_t group = sport ? group_of(pair, sport) : 0;

	for (unsigned int i = 0; group && i < ESC_PATH_LANES_MAX; i++)
		if (pair->lanes[i].sport && group_of(pair, pair->lanes[i].sport) == group)
			return (int)i;
	for (unsigned int i = 0; sport && i < ESC_PATH_LANES_MAX; i++)
		if (pair->lanes[i].sport == sport)
			return (int)i;
	return -ENOENT;
}

bool paths_pair_answers(const struct paths_pair *pair, uint64_t now_ns)
{
	/* Of this very look's records some are younger than its beginning. */
	return pair->replied_ns && (int64_t)(now_ns - pair->replied_ns) < ANSWERS_NS;
}

/* --- lanes --- */

static void lane_clear(struct paths_lane *lane, uint16_t sport, uint64_t now_ns)
{
	struct pathstat out = lane->out, in = lane->in, rtt = lane->rtt;

	*lane = (struct paths_lane){
		.sport = sport,
		.out = out,
		.in = in,
		.rtt = rtt,
		.since_ns = now_ns,
		.standby = -1,
	};
	pathstat_clear(&lane->out);
	pathstat_clear(&lane->in);
	pathstat_clear(&lane->rtt);
}

static void lane_set(struct paths *paths, struct paths_pair *pair, unsigned int number,
		     uint16_t sport, uint64_t now_ns)
{
	if (pair->sending)
		pathsend_set(paths->send, pair->sending, number, 0, 0);
	lane_clear(&pair->lanes[number], sport, now_ns);
	paths_lane_write(paths, pair, number, sport);
	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++)
		if (pair->lanes[i].standby == (int)number)
			pair->lanes[i].standby = -1;
	if (sport)
		pathset_add(&pair->set, sport);
}

bool paths_is_own(const struct paths_pair *pair, uint16_t sport, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pair->own[i] == sport)
			return true;
	return false;
}

/* How much a lane is worth: what has an order stays whatever happens. */
enum worth { WORTH_NOTHING, WORTH_LITTLE, WORTH_A_PATH, WORTH_ORDERS };

static enum worth lane_worth(const struct paths_pair *pair, unsigned int number)
{
	const struct paths_lane *lane = &pair->lanes[number];
	uint16_t group = group_of(pair, lane->sport);

	if (lane->orders)
		return WORTH_ORDERS;
	if (!group)
		return paths_is_own(pair, lane->sport, pair->own_awake) ? WORTH_A_PATH
									: WORTH_LITTLE;
	/* Of lanes on one path one is enough: one with orders, else the first. */
	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++) {
		const struct paths_lane *other = &pair->lanes[i];

		if (i != number && other->sport && group_of(pair, other->sport) == group &&
		    (other->orders || i < number))
			return WORTH_NOTHING;
	}
	return WORTH_A_PATH;
}

/* A number for a new lane: one that is free, else that of a lane of less than @worth. -1: none. */
static int lane_room(const struct paths *paths, const struct paths_pair *pair, enum worth worth)
{
	unsigned int most = paths->daemon->config->paths.per_peer, there = 0;
	enum worth least = worth;
	int found = -1, empty = -1;

	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++) {
		enum worth here;

		if (!pair->lanes[i].sport) {
			empty = empty < 0 ? (int)i : empty;
			continue;
		}
		there++;
		here = lane_worth(pair, i);
		if (here < least) {
			least = here;
			found = (int)i;
		}
	}
	return there < most ? empty : found;
}

static void lane_add(struct paths *paths, struct paths_pair *pair, uint16_t sport, enum worth worth,
		     uint64_t now_ns)
{
	int number = lane_room(paths, pair, worth);

	if (number >= 0)
		lane_set(paths, pair, (unsigned int)number, sport, now_ns);
}

/* One lane for each path that is known. */
static void lanes_for_groups(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	for (size_t g = 1; g <= pair->set.groups; g++) {
		uint16_t sport = pair->set.ports[pair->set.representative[g]].sport;

		if (paths_pair_lane_of(pair, sport) < 0)
			lane_add(paths, pair, sport, WORTH_A_PATH, now_ns);
	}
}

/* And for each port of a queue pair of which nobody knows whose path it takes; where there is room,
 * for those of queue pairs that are still. */
static void lanes_for_own(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	for (size_t i = 0; i < pair->own_count; i++)
		if (paths_pair_lane_of(pair, pair->own[i]) < 0)
			lane_add(paths, pair, pair->own[i],
				 i < pair->own_awake ? WORTH_A_PATH : WORTH_LITTLE, now_ns);
}

/* Where no switch answers, ports are drawn: their delays will tell. */
static void lanes_blindly(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	bool blind = paths_is_silent(pair) || (pair->distance_known && !pair->distance);

	if (!blind || now_ns - pair->since_ns < BLIND_NS || pathset_is_complete(&pair->set))
		return;
	while (lane_room(paths, pair, WORTH_LITTLE) >= 0) {
		uint16_t sport = (uint16_t)(PATHSET_PORT_FIRST +
					    pacing_random(&paths->random) % PATHSET_PORT_COUNT);

		if (paths_set_index(pair, sport) < 0)
			lane_add(paths, pair, sport, WORTH_LITTLE, now_ns);
	}
}

/* More than there may be, after a reload; and two on one path. */
static void lanes_drop(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	unsigned int most = paths->daemon->config->paths.per_peer, there = 0;

	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++)
		there += pair->lanes[i].sport != 0;
	for (unsigned int i = ESC_PATH_LANES_MAX; i-- > 0;) {
		enum worth worth = pair->lanes[i].sport ? lane_worth(pair, i) : WORTH_ORDERS;

		if (worth == WORTH_NOTHING || (there > most && worth < WORTH_ORDERS)) {
			lane_set(paths, pair, i, 0, now_ns);
			there--;
		}
	}
}

void paths_choose_lanes(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	pair->changed = false;
	pathset_group(&pair->set);
	lanes_drop(paths, pair, now_ns);
	lanes_for_groups(paths, pair, now_ns);
	lanes_for_own(paths, pair, now_ns);
	lanes_blindly(paths, pair, now_ns);
	pair->crowded = false;
	for (size_t i = 0; i < pair->own_awake; i++)
		pair->crowded |= paths_pair_lane_of(pair, pair->own[i]) < 0;
}

/* --- pairs --- */

static bool pair_find_port(const struct paths *paths, struct paths_pair *pair, uint16_t *to_port,
			   uint8_t *flags)
{
	const struct config *config = paths->daemon->config;
	const struct port_info *port = &paths->ports[pair->port % ESC_PORTS_MAX];

	if (!port->ifindex || dataplane_stamps_missing(paths->daemon->dataplane, port->name))
		return false;
	snprintf(pair->interface, sizeof(pair->interface), "%s", port->name);
	pair->ifindex = port->ifindex;
	*flags = port->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0;
	for (size_t i = 0; i < config->interface_count; i++)
		if (!strcmp(config->interfaces[i].name, port->name))
			*to_port = config->interfaces[i].probe_port;
	return true;
}

static void pair_open(struct paths *paths, struct paths_pair *pair)
{
	struct pathsend_config config = {
		.from = pair->key.src,
		.to = pair->key.dst,
		.to_port = ESC_ROCEV2_PORT,
		.target = pair->peer,
		.phase = pair->slot,
	};
	char text[ADDRESS_TEXT_BYTES];
	int err = pair_find_port(paths, pair, &config.to_port, &config.flags) ? 0 : -ENODEV;

	config.interface = pair->interface;
	if (!err)
		err = pathsend_add(paths->send, &config, &pair->sending);
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
	/* At 0.95 one survey in twenty misses a path, and a fabric has many pairs. */
	config.confidence = 0.999;
	config.ports_most = PATHSET_PORTS_MAX;
	pathset_init(&pair->set, &config);
	pair->key = *key;
	pair->port = port;
	pair->peer = graph_member_id(host);
	pair->since_ns = now_ns;
	pair->changed = true;
	snprintf(pair->host, sizeof(pair->host), "%s", host);
	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++)
		lane_clear(&pair->lanes[i], 0, now_ns);
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
	for (unsigned int i = 0; pair && i < ESC_PATH_LANES_MAX; i++) {
		pathstat_free(&pair->lanes[i].out);
		pathstat_free(&pair->lanes[i].in);
		pathstat_free(&pair->lanes[i].rtt);
	}
	free(pair);
}

void paths_end_all(struct paths *paths)
{
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		if (paths->by_slot[i])
			paths_pair_end(paths, paths->by_slot[i]);
}

static struct paths_pair *pair_add(struct paths *paths, const struct esc_path_key *key,
				   uint8_t port, const char *host, uint64_t now_ns)
{
	struct paths_pair *pair = pair_new(key, port, host, now_ns);
	int err = pair ? paths_slot_take(paths, pair) : -ENOMEM;

	if (!err) {
		pair_open(paths, pair);
		return pair;
	}
	paths->pairs_refused++;
	if (pair && !paths->refusal_told)
		paths_tell_full(paths, pair);
	paths->refusal_told = true;
	free(pair);
	return NULL;
}

/* What the daemon before us left: its lanes have orders perhaps, and go on under their numbers. */
static void slot_adopt(struct paths *paths, unsigned int number, uint64_t now_ns)
{
	struct esc_paths *slot = &paths->map[number];
	const char *host =
		members_host(fleet_members(paths->daemon->core.fleet), &slot->key.dst);
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
	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++) {
		struct esc_lane *lane = &slot->lanes[i];
		uint16_t sport = lane->sport;

		lane_clear(&pair->lanes[i], sport, now_ns);
		if (!sport)
			continue;
		pathset_add(&pair->set, sport);
		/* What was sent and not heard was before we were here. */
		__atomic_store_n(&lane->deadline_ns, 0, __ATOMIC_SEQ_CST);
		memset(&lane->live, 0, sizeof(lane->live));
		/* Where packets take a standby they stay there until the lane has been up for long.
		 */
		pair->lanes[i].diverted_ns = lane->diverted_ns;
		if (lane->diverted_ns)
			pathlive_step(&pair->lanes[i].damp, &paths->live, PATHLIVE_DOWN,
				      (int64_t)now_ns);
	}
	pair_open(paths, pair);
}

void paths_adopt(struct paths *paths, uint64_t now_ns)
{
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		if (paths->map[i].peer)
			slot_adopt(paths, i, now_ns);
}

/* Room for a port of a queue pair: what is neither a lane nor one of those now is forgotten. */
static void set_make_room(struct paths_pair *pair)
{
	struct pathset *set = &pair->set;
	size_t kept = 0;

	for (size_t i = 0; i < set->count; i++) {
		struct pathset_port *port = &set->ports[i];
		bool lane = false;

		for (unsigned int k = 0; k < ESC_PATH_LANES_MAX; k++)
			lane |= pair->lanes[k].sport == port->sport;
		if (lane || paths_is_own(pair, port->sport, pair->own_count))
			set->ports[kept++] = *port;
	}
	set->count = kept;
	set->groups = 0;
	pathset_group(set);
}

static void pair_see_port(struct paths_pair *pair, uint16_t sport)
{
	int added;

	if (!sport || paths_is_own(pair, sport, pair->own_count))
		return;
	if (pair->own_count < PATHS_OWN_PORTS_MAX)
		pair->own[pair->own_count++] = sport;
	else
		return;
	added = pathset_add(&pair->set, sport);
	if (added == -ENOSPC) {
		set_make_room(pair);
		added = pathset_add(&pair->set, sport);
	}
	pair->changed |= added >= 0;
}

static struct paths_pair *pair_for(struct paths *paths, const struct qp_entry *entry,
				   uint64_t now_ns)
{
	const struct config *config = paths->daemon->config;
	struct esc_path_key key;
	struct paths_pair *pair;
	const char *host;

	memset(&key, 0, sizeof(key));
	key.src = entry->key.src;
	key.dst = entry->key.dst;
	pair = paths_find(paths, &key);
	if (pair)
		return pair;
	host = members_host(fleet_members(paths->daemon->core.fleet), &key.dst);
	if (!host || !strcmp(host, config->host))
		return NULL;
	return pair_add(paths, &key, entry->key.port, host, now_ns);
}

static void forget_round(struct paths *paths)
{
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++) {
		struct paths_pair *pair = paths->by_slot[i];

		if (!pair)
			continue;
		pair->seen = false;
		pair->qps = 0;
		pair->own_before = pair->own_awake;
		pair->own_count = pair->own_awake = 0;
	}
}

/* Gone with its queue pairs, its member or its interface; not while orders lead there. */
static void pair_follow(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	unsigned int orders = 0;

	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++)
		orders += pair->lanes[i].orders;
	if (!pair->seen && !orders && now_ns - pair->since_ns > PATHS_ROUND_NS) {
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
		paths_choose_lanes(paths, pair, now_ns);
}

/* It may have ended: what moves goes first. */
static bool is_awake(const struct qp_entry *entry, uint64_t now_ns)
{
	return entry->moved_local_ns && (int64_t)(now_ns - entry->moved_local_ns) < AWAKE_NS;
}

/* Pairs of addresses of queue pairs that are awake, or are still, and their ports. */
static void see_qps(struct paths *paths, bool awake, uint64_t now_ns)
{
	struct paths_pair *pair = NULL;
	const struct qp_entry *entries;
	size_t count;

	entries = qptable_entries(paths->daemon->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *entry = &entries[i];

		if (entry->key.direction != ESC_DIRECTION_TX || is_awake(entry, now_ns) != awake)
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
		pair_see_port(pair, entry->qp.sport);
		pair->own_awake = awake ? pair->own_count : pair->own_awake;
	}
}

void paths_follow_qps(struct paths *paths, uint64_t now_ns)
{
	forget_round(paths);
	see_qps(paths, true, now_ns);
	see_qps(paths, false, now_ns);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		if (paths->by_slot[i])
			pair_follow(paths, paths->by_slot[i], now_ns);
}

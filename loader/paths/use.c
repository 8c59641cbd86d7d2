// SPDX-License-Identifier: BSD-2-Clause
/* Who takes which lane, and how often each is probed below the budget. */
#include <bpf/bpf.h>

#include "daemon/daemon.h"
#include "mesh/mesh.h"
#include "internal.h"
#include "qp/table.h"
#include "steer/steer.h"

/* The lane that a queue pair's packets take: by its order, else by the port they leave with. */
static int lane_of(const struct paths *paths, const struct paths_pair *pair,
		   const struct qp_entry *entry, bool *ordered)
{
	struct esc_steer order;
	uint16_t sport = entry->qp.sport;

	*ordered = false;
	if (!(steer_ports(paths->daemon->steer) >> pair->port & 1) ||
	    bpf_map_lookup_elem(paths->steers_fd, &entry->key, &order))
		return paths_pair_lane_of(pair, sport);
	if (order.flags & ESC_STEER_LANE && order.slot == pair->slot &&
	    order.lane < ESC_PATH_LANES_MAX) {
		*ordered = true;
		return order.lane;
	}
	return paths_pair_lane_of(pair, order.sport ? order.sport : sport);
}

static void count_qps(struct paths *paths)
{
	const struct qp_entry *entries;
	struct paths_pair *pair = NULL;
	size_t count;

	entries = qptable_entries(paths->daemon->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *entry = &entries[i];
		struct esc_path_key key = {entry->key.src, entry->key.dst};
		bool ordered;
		int lane;

		if (entry->key.direction != ESC_DIRECTION_TX)
			continue;
		if (!pair || memcmp(&pair->key, &key, sizeof(key)))
			pair = paths_find(paths, &key);
		lane = pair ? lane_of(paths, pair, entry, &ordered) : -1;
		if (lane < 0)
			continue;
		pair->lanes[lane].qps++;
		pair->lanes[lane].orders += ordered;
	}
}

static bool is_down(const struct paths_lane *lane)
{
	return lane->damp.state == PATHLIVE_DOWN || lane->damp.state == PATHLIVE_HELD;
}

/* A lane that is down, or not trusted yet, has seconds to prove itself. */
static enum path_use use_of(const struct paths *paths, const struct paths_pair *pair,
			    unsigned int number, uint64_t now_ns)
{
	const struct paths_lane *lane = &pair->lanes[number];

	if (!lane->sport || !pair->sending)
		return PATH_UNUSED;
	/* Of a peer that never answers one lane is enough to see when it does. */
	if (!paths_pair_answers(pair, now_ns) && now_ns - pair->since_ns > 10 * PATHS_ROUND_NS)
		for (unsigned int i = 0; i < number; i++)
			if (!pair->replied_ns && pair->lanes[i].sport)
				return PATH_UNUSED;
	if (!(steer_ports(paths->daemon->steer) >> pair->port & 1) || !pair->replied_ns)
		return PATH_WATCHED;
	return lane->qps && !is_down(lane) ? PATH_ACTIVE : PATH_STANDBY;
}

static void demand_count(struct paths *paths, struct pathbudget_demand *demand, uint64_t now_ns)
{
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++) {
		struct paths_pair *pair = paths->by_slot[i];

		for (unsigned int k = 0; pair && k < ESC_PATH_LANES_MAX; k++) {
			pair->lanes[k].use = use_of(paths, pair, k, now_ns);
			demand->lanes[pair->lanes[k].use]++;
		}
	}
}

/*
 * What may die is judged by what is sent: a longer deadline comes before the longer interval, and
 * a shorter one behind it.
 */
static void lane_apply(struct paths *paths, struct paths_pair *pair, unsigned int number,
		       uint64_t now_ns)
{
	struct paths_lane *lane = &pair->lanes[number];
	struct esc_lane *map = paths_map_lane(paths, pair, number);
	uint64_t interval_ns = paths->share.interval_ns[lane->use], deadline_ns = 0;
	struct pathstat_now rtt;

	if (paths_pair_answers(pair, now_ns) && lane->use) {
		pathstat_now(&lane->rtt, (int64_t)PATHS_SLOW_NS, &rtt);
		deadline_ns = pathlive_deadline(&paths->live, rtt.floor_ns, rtt.spread_ns,
						(double)interval_ns);
	}
	if (!deadline_ns || deadline_ns > lane->deadline_ns)
		__atomic_store_n(&map->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
	pathsend_set(paths->send, pair->sending, number, lane->sport, interval_ns);
	lane->interval_ns = interval_ns;
	lane->deadline_ns = deadline_ns;
	__atomic_store_n(&map->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
}

/* Paced flows begin with it: what they see themselves may be of a queue that stands. */
static void tell_floors(struct paths *paths, const struct paths_pair *pair, uint64_t now_ns)
{
	double mesh_ns = mesh_get_floor(core_find(&paths->daemon->core, "mesh"), &pair->key.dst);

	for (unsigned int k = 0; k < ESC_PATH_LANES_MAX; k++) {
		struct esc_lane *map = paths_map_lane(paths, pair, k);
		uint32_t floor_ns = 0;

		if (pair->lanes[k].sport)
			floor_ns =
				pathstat_told_floor(&pair->lanes[k].out, (int64_t)now_ns, mesh_ns);
		if (map->floor_ns == floor_ns)
			continue;
		__atomic_store_n(&map->floor_ns, floor_ns, __ATOMIC_RELAXED);
		paths->floors++;
	}
}

uint32_t paths_floors(const struct paths *paths)
{
	return paths ? paths->floors : 0;
}

void paths_follow_uses(struct paths *paths, uint64_t now_ns)
{
	const struct config *config = paths->daemon->config;
	struct pathbudget_demand demand = {
		.wanted_ns = {[PATH_WATCHED] = PATHBUDGET_WATCH_NS,
			      [PATH_STANDBY] = config->paths.standby_interval_ns,
			      [PATH_ACTIVE] = config->paths.probe_interval_ns},
		.budget_pps = config->paths.budget_pps,
	};

	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		for (unsigned int k = 0; paths->by_slot[i] && k < ESC_PATH_LANES_MAX; k++)
			paths->by_slot[i]->lanes[k].qps = paths->by_slot[i]->lanes[k].orders = 0;
	count_qps(paths);
	demand_count(paths, &demand, now_ns);
	pathbudget_share(&demand, &paths->share);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		for (unsigned int k = 0; paths->by_slot[i] && k < ESC_PATH_LANES_MAX; k++)
			if (paths->by_slot[i]->sending && paths->by_slot[i]->lanes[k].sport)
				lane_apply(paths, paths->by_slot[i], k, now_ns);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		if (paths->by_slot[i])
			tell_floors(paths, paths->by_slot[i], now_ns);
	if (paths->share.bites != paths->bites_told)
		paths_tell_budget(paths);
	paths->bites_told = paths->share.bites;
}

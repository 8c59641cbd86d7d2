// SPDX-License-Identifier: BSD-2-Clause
/* Which queue pairs use which candidate path, and how often each is probed within the budget. */
#include <bpf/bpf.h>

#include "internal.h"
#include "mesh/mesh.h"
#include "qp/qp.h"

/* A bit for each interface on which queue pairs may be steered. */
static uint16_t steered_ports(const struct paths *paths)
{
	const struct esc_control *control = dataplane_control(paths->dataplane);

	return control->flags & ESC_CONTROL_STEER ? control->steer_ports : 0;
}

/* The candidate that a queue pair's packets use: by its rule, else by the port they leave with. */
static int id_of(const struct paths *paths, const struct paths_pair *pair,
		 const struct qp_entry *entry, bool *by_rule)
{
	struct esc_steer rule;
	uint16_t sport = entry->qp.sport;

	*by_rule = false;
	if (!(steered_ports(paths) >> pair->port & 1) ||
	    bpf_map_lookup_elem(paths->steers_fd, &entry->key, &rule))
		return paths_pair_id_of(pair, sport);
	if (rule.flags & ESC_STEER_PATH && rule.slot == pair->slot && rule.path < ESC_PATHS_MAX) {
		*by_rule = true;
		return rule.path;
	}
	return paths_pair_id_of(pair, rule.sport ? rule.sport : sport);
}

static void count_qps(struct paths *paths)
{
	const struct qp_entry *entries;
	struct paths_pair *pair;
	size_t count;

	for_each_pair (paths, pair)
		for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
			pair->candidates[i].qps = pair->candidates[i].rules = 0;
	pair = NULL;
	entries = qptable_entries(paths->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *entry = &entries[i];
		struct esc_path_key key = {entry->key.src, entry->key.dst};
		bool by_rule;
		int id;

		if (entry->key.direction != ESC_DIRECTION_TX)
			continue;
		if (!pair || memcmp(&pair->key, &key, sizeof(key)))
			pair = paths_find(paths, &key);
		id = pair ? id_of(paths, pair, entry, &by_rule) : -1;
		if (id < 0)
			continue;
		pair->candidates[id].qps++;
		pair->candidates[id].rules += by_rule;
	}
}

static enum path_use use_of(const struct paths *paths, const struct paths_pair *pair,
			    unsigned int id, uint64_t now_ns)
{
	const struct candidate *path = &pair->candidates[id];

	if (!path->sport || !pair->sending)
		return PATH_UNUSED;
	/* Of a peer that never replies one path is enough to see when it does. */
	if (!pair->replied_ns && now_ns - pair->since_ns > 10 * PATHS_UPDATE_NS)
		for (unsigned int i = 0; i < id; i++)
			if (pair->candidates[i].sport)
				return PATH_UNUSED;
	if (!(steered_ports(paths) >> pair->port & 1) || !pair->replied_ns)
		return PATH_WATCHED;
	/* One that is down, or not trusted yet, may take seconds to be trusted. */
	return path->qps && path->damp.state != PATHLIVE_DOWN &&
			       path->damp.state != PATHLIVE_HOLD_DOWN
		       ? PATH_ACTIVE
		       : PATH_STANDBY;
}

/*
 * A path is down when its probes do not arrive in time, so a longer deadline is written before the
 * longer interval, and a shorter one after it.
 */
static void candidate_apply(struct paths *paths, struct paths_pair *pair, unsigned int id,
			    uint64_t now_ns)
{
	struct candidate *path = &pair->candidates[id];
	struct esc_path *map = paths_map_entry(paths, pair, id);
	uint64_t interval_ns = paths->total.share.interval_ns[path->use], deadline_ns = 0;
	struct pathstat_now rtt;

	if (paths_pair_replies(pair, now_ns) && path->use) {
		pathstat_now(&path->rtt, (int64_t)PATHS_TICK_IDLE_NS, &rtt);
		deadline_ns = pathlive_deadline(&paths->live, rtt.floor_ns, rtt.spread_ns,
						(double)interval_ns);
	}
	if (!deadline_ns || deadline_ns > path->deadline_ns)
		__atomic_store_n(&map->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
	pathsend_set(paths->send, pair->sending, id, path->sport, interval_ns);
	path->interval_ns = interval_ns;
	path->deadline_ns = deadline_ns;
	__atomic_store_n(&map->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
}

/* Paced flows start with it: the delays that they see may be of a standing queue. */
static void publish_floors(struct paths *paths, const struct paths_pair *pair, uint64_t now_ns)
{
	double mesh_ns = mesh_get_floor(paths->mesh, &pair->key.dst);

	for (unsigned int k = 0; k < ESC_PATHS_MAX; k++) {
		struct esc_path *map = paths_map_entry(paths, pair, k);
		uint32_t floor_ns = 0;

		if (pair->candidates[k].sport)
			floor_ns = pathstat_published_floor(&pair->candidates[k].out,
							    (int64_t)now_ns, mesh_ns);
		if (map->floor_ns == floor_ns)
			continue;
		__atomic_store_n(&map->floor_ns, floor_ns, __ATOMIC_RELAXED);
		paths->floors++;
	}
}

uint32_t paths_floors(const struct paths *paths)
{
	return paths->floors;
}

void paths_update_uses(struct paths *paths, uint64_t now_ns)
{
	const struct config *config = paths->core->config;
	struct pathbudget_share *share = &paths->total.share;
	struct pathbudget_demand demand = {
		.wanted_ns = {[PATH_WATCHED] = PATHBUDGET_WATCH_NS,
			      [PATH_STANDBY] = config->paths.standby_interval_ns,
			      [PATH_ACTIVE] = config->paths.probe_interval_ns},
		.budget_pps = config->paths.budget_pps,
	};
	struct paths_pair *pair;

	count_qps(paths);
	for_each_pair (paths, pair)
		for (unsigned int i = 0; i < ESC_PATHS_MAX; i++) {
			pair->candidates[i].use = use_of(paths, pair, i, now_ns);
			demand.candidates[pair->candidates[i].use]++;
		}
	pathbudget_share(&demand, share);
	for_each_pair (paths, pair) {
		for_each_candidate (pair, i)
			if (pair->sending)
				candidate_apply(paths, pair, i, now_ns);
		publish_floors(paths, pair, now_ns);
	}
	if (share->limited != paths->limit_reported)
		paths_report_budget(paths);
	paths->limit_reported = share->limited;
}

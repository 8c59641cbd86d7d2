// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which queue pairs use which candidate path and how often each is probed; which is up or down, and
 * which is the backup of which: the daemon's side of pacing/pathlive.h.
 */
#include <bpf/bpf.h>
#include <math.h>
#include <string.h>

#include "internal.h"
#include "mesh/mesh.h"
#include "qp/qp.h"

#define TRIES_PART 100
#define TRIES_LEAST_PPS 10u
#define TRIES_MOST_PPS 200u
#define SLOW_PART 10 /* of the budget, at least, is for paths that are not in use */

/* --- the budget --- */

void pathbudget_share(const struct pathbudget_demand *demand, struct pathbudget_share *out)
{
	uint32_t tries_pps = demand->budget_pps / TRIES_PART;
	double wanted[PATH_USES] = {}, active, slow, left, active_given, slow_given;

	for (enum path_use use = PATH_WATCHED; use < PATH_USES; use++)
		if (demand->wanted_ns[use])
			wanted[use] = (double)demand->candidates[use] * 1e9 /
				      (double)demand->wanted_ns[use];
	active = wanted[PATH_ACTIVE];
	slow = wanted[PATH_STANDBY] + wanted[PATH_WATCHED];
	if (tries_pps < TRIES_LEAST_PPS)
		tries_pps = TRIES_LEAST_PPS;
	if (tries_pps > TRIES_MOST_PPS)
		tries_pps = TRIES_MOST_PPS;
	left = (double)demand->budget_pps - tries_pps;
	active_given = fmin(active, left - fmin(slow, left / SLOW_PART));
	slow_given = fmin(slow, left - active_given);
	*out = (struct pathbudget_share){
		.wanted_pps = active + slow,
		.given_pps = active_given + slow_given,
		.tries_pps = tries_pps,
		.limited = active_given < active || slow_given < slow,
	};
	for (enum path_use use = PATH_WATCHED; use < PATH_USES; use++) {
		double pps = use == PATH_ACTIVE ? active : slow;
		double given = use == PATH_ACTIVE ? active_given : slow_given;

		out->interval_ns[use] = demand->wanted_ns[use];
		if (given < pps)
			out->interval_ns[use] =
				(uint64_t)ceil((double)demand->wanted_ns[use] * pps / given);
	}
}

/* --- uses, each 250 ms --- */

/* Queue pairs may be steered on the pair's interface. */
static bool is_steered(const struct paths *paths, const struct paths_pair *pair)
{
	const struct esc_control *control = dataplane_control(paths->dataplane);

	return control->flags & ESC_CONTROL_STEER && control->steer_ports >> pair->facts.port & 1;
}

/* The candidate that packets use: by the rule, else by the port that they leave with. */
static void count_qps(struct paths *paths)
{
	const struct qp_entry *entries;
	struct paths_pair *pair;
	size_t count;

	for_each_pair (paths, pair)
		for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
			pair->candidates[i].facts.qps = pair->candidates[i].rules = 0;
	pair = NULL;
	entries = qptable_entries(paths->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *entry = &entries[i];
		struct esc_path_key key = {entry->key.src, entry->key.dst};
		struct esc_steer rule = {};
		bool by_rule;
		int id;

		if (entry->key.direction != ESC_DIRECTION_TX)
			continue;
		if (!pair || memcmp(&pair->facts.key, &key, sizeof(key)))
			pair = paths_find(paths, &key);
		if (!pair)
			continue;
		if (is_steered(paths, pair))
			bpf_map_lookup_elem(paths->steers_fd, &entry->key, &rule);
		by_rule = rule.flags & ESC_STEER_PATH && rule.slot == pair->facts.slot &&
			  rule.path < ESC_PATHS_MAX;
		id = by_rule ? rule.path
			     : paths_pair_id_of(pair, rule.sport ? rule.sport : entry->qp.sport);
		if (id < 0)
			continue;
		pair->candidates[id].facts.qps++;
		pair->candidates[id].rules += by_rule;
	}
}

/*
 * Backups, by id, that are probed as a path in use is: nothing was confirmed on that one for half
 * its deadline, so that the peer's reports on it come with their probes; or its packets take them.
 */
static uint16_t find_urgent(const struct paths_pair *pair, uint64_t now_ns)
{
	uint16_t urgent = 0;

	for_each_candidate (pair, path) {
		const struct path_facts *facts = &path->facts;
		uint64_t since_ns = load(path->map->live.since_ns);
		bool silent = facts->deadline_ns &&
			      load(path->map->live.unconfirmed) >= PATHLIVE_UNCONFIRMED &&
			      now_ns > since_ns && now_ns - since_ns >= facts->deadline_ns / 2;

		if (facts->qps && facts->backup >= 0 && (silent || facts->diverted_ns))
			urgent |= (uint16_t)(1u << facts->backup);
	}
	return urgent;
}

static enum path_use use_of(const struct paths *paths, const struct paths_pair *pair,
			    const struct candidate *path, uint64_t now_ns)
{
	if (!path->facts.sport || !pair->sending)
		return PATH_UNUSED;
	/* Of a peer that never replies one path is enough to see when it does. */
	if (!pair->replied_ns && now_ns - pair->since_ns > 10 * PATHS_UPDATE_NS) {
		for_each_candidate (pair, other)
			if (other < path)
				return PATH_UNUSED;
	}
	if (!is_steered(paths, pair) || !pair->replied_ns)
		return PATH_WATCHED;
	/* One that is down, or not trusted yet, may take seconds to be trusted. */
	return (path->facts.qps || pair->urgent >> path->facts.id & 1) &&
			       path->damp.state != PATHLIVE_DOWN &&
			       path->damp.state != PATHLIVE_HOLD_DOWN
		       ? PATH_ACTIVE
		       : PATH_STANDBY;
}

/*
 * The deadline of a path that is down becomes that of its longer interval. Until it was silent for
 * that long, too, the shorter one stays: by the longer one it would be alive, and packets would
 * take it again.
 */
static bool would_revive(const struct candidate *path, uint64_t deadline_ns)
{
	const struct pathlive_path *live = &path->map->live;
	uint64_t before_ns = path->facts.deadline_ns;

	return before_ns && deadline_ns > before_ns && pathlive_is_dead(live, before_ns) &&
	       !pathlive_is_dead(live, deadline_ns);
}

/*
 * A path is down when its probes do not arrive in time, so a longer deadline is written before the
 * longer interval, and a shorter one after it.
 */
static void candidate_apply(struct paths *paths, struct paths_pair *pair, struct candidate *path,
			    uint64_t now_ns)
{
	struct path_facts *facts = &path->facts;
	uint64_t interval_ns = paths->facts.share.interval_ns[facts->use], deadline_ns = 0;
	struct path_delay rtt;

	if (paths_pair_replies(pair, now_ns) && facts->use) {
		pathstat_now(&path->rtt, (int64_t)PATHS_TICK_IDLE_NS, &rtt);
		deadline_ns = pathlive_deadline(&paths->live, rtt.floor_ns, rtt.spread_ns,
						(double)interval_ns);
		if (would_revive(path, deadline_ns))
			deadline_ns = facts->deadline_ns;
	}
	if (!deadline_ns || deadline_ns > facts->deadline_ns)
		store(path->map->deadline_ns, deadline_ns);
	pathsend_set(paths->send, pair->sending, facts->id, facts->sport, interval_ns);
	facts->interval_ns = interval_ns;
	facts->deadline_ns = deadline_ns;
	store(path->map->deadline_ns, deadline_ns);
}

void paths_update_uses(struct paths *paths, uint64_t now_ns)
{
	const struct config *config = paths->core->config;
	struct pathbudget_share *share = &paths->facts.share;
	struct pathbudget_demand demand = {
		.wanted_ns = {[PATH_WATCHED] = PATHBUDGET_WATCH_NS,
			      [PATH_STANDBY] = config->paths.standby_interval_ns,
			      [PATH_ACTIVE] = config->paths.probe_interval_ns},
		.budget_pps = config->paths.budget_pps,
	};
	struct paths_pair *pair;

	count_qps(paths);
	paths->uses_changed = false;
	for_each_pair (paths, pair) {
		pair->urgent = find_urgent(pair, now_ns);
		for (unsigned int i = 0; i < ESC_PATHS_MAX; i++) {
			struct candidate *path = &pair->candidates[i];

			path->facts.use = use_of(paths, pair, path, now_ns);
			demand.candidates[path->facts.use]++;
		}
	}
	pathbudget_share(&demand, share);
	for_each_pair (paths, pair) {
		double mesh_ns = mesh_get_floor(paths->mesh, &pair->facts.key.dst);

		for_each_candidate (pair, path)
			if (pair->sending)
				candidate_apply(paths, pair, path, now_ns);
		/* Paced flows start with the floor: the delays that they see may be of a queue. */
		for (unsigned int i = 0; i < ESC_PATHS_MAX; i++) {
			const struct candidate *path = &pair->candidates[i];
			uint32_t floor_ns = 0;

			if (path->facts.sport)
				floor_ns = pathstat_published_floor(&path->out, (int64_t)now_ns,
								    mesh_ns);
			if (path->map->floor_ns == floor_ns)
				continue;
			store(path->map->floor_ns, floor_ns);
			paths->floors++;
		}
	}
	if (share->limited != paths->limit_reported)
		paths_report_budget(paths);
	paths->limit_reported = share->limited;
}

/* --- up or down, each tick --- */

/* Fields are written one by one while they are read: down is what is so in two readings. */
static enum pathlive_state state_read(const struct candidate *path, uint64_t now_ns,
				      struct pathlive_path *live)
{
	const struct esc_path *map = path->map;
	enum pathlive_state seen = PATHLIVE_SUSPECT;

	for (int i = 0; i < 2 && seen != PATHLIVE_UP; i++) {
		*live = (struct pathlive_path){
			.unconfirmed = load(map->live.unconfirmed),
			.since_ns = load(map->live.since_ns),
			.received_peer_ns = load(map->live.received_peer_ns),
			.report_peer_ns = load(map->live.report_peer_ns),
			.report_ns = load(map->live.report_ns),
		};
		seen = path->facts.deadline_ns
			       ? pathlive_evaluate(live, path->facts.deadline_ns, now_ns)
			       : PATHLIVE_UP;
	}
	return seen;
}

/* Packets use the backup since the last tick. */
static void detect_failover(struct paths *paths, const struct paths_pair *pair,
			    struct candidate *path, const struct pathlive_path *live)
{
	struct paths_facts *total = &paths->facts;
	uint64_t diverted_ns = load(path->map->diverted_ns);
	int64_t received_ns = 0;
	unsigned int bucket = 0;

	if (diverted_ns == path->facts.diverted_ns)
		return;
	path->facts.diverted_ns = diverted_ns;
	if (!diverted_ns)
		return;
	total->failovers++;
	/* When the peer last received a probe, by our clock: late by the report's way back. */
	if (live->received_peer_ns && live->report_peer_ns >= live->received_peer_ns)
		received_ns = (int64_t)(live->report_ns -
					(live->report_peer_ns - live->received_peer_ns));
	/*
	 * A probe has arrived again before this tick: the length of the silence is lost. The
	 * deadline at hand may be the longer one of a path that is probed rarely since it is down.
	 */
	if ((int64_t)diverted_ns - received_ns < paths->live.dead_after_ns)
		received_ns = 0;
	if (received_ns) {
		double seconds = (double)((int64_t)diverted_ns - received_ns) / 1e9;

		while (bucket < PATHS_FAILOVER_BUCKETS - 1 &&
		       seconds > paths_failover_bounds[bucket])
			bucket++;
		total->failover[bucket]++;
		total->failover_sum_s += seconds;
	}
	paths_report_failover(paths, pair, path, received_ns);
}

bool paths_release(struct paths *paths, unsigned int slot, unsigned int id)
{
	struct paths_pair *pair = slot < ESC_PATH_SLOTS_MAX ? paths->by_slot[slot] : NULL;
	struct candidate *path = pair && id < ESC_PATHS_MAX ? &pair->candidates[id] : NULL;

	if (!path || !path->facts.sport || paths_pair_replies(pair, time_local_ns()))
		return false;
	if (path->map->diverted_ns)
		paths_report_return(paths, pair, path, 0, path->map->diverted_ns);
	__atomic_store_n(&path->map->diverted_ns, 0, __ATOMIC_SEQ_CST);
	path->facts.diverted_ns = 0;
	return true;
}

/* True: the backups have to be chosen again. */
static bool candidate_evaluate(struct paths *paths, struct paths_pair *pair, struct candidate *path,
			       uint64_t now_ns)
{
	enum pathlive_state before = path->damp.state, seen, state;
	bool trusted = before == PATHLIVE_UP || before == PATHLIVE_SUSPECT;
	int64_t failed_ns = path->damp.failed_ns;
	struct pathlive_path live;
	uint64_t diverted_ns;

	seen = state_read(path, now_ns, &live);
	detect_failover(paths, pair, path, &live);
	/* The programs have seen a failure that was over before this tick. */
	if (path->facts.diverted_ns && trusted)
		seen = PATHLIVE_DOWN;
	/*
	 * The peer reports nothing any more (its daemon has ended, perhaps): a path that went down
	 * is not known to be up. Its packets stay on the backup while replies come over that
	 * (steer/ checks it).
	 */
	if (!path->facts.deadline_ns && !trusted)
		seen = PATHLIVE_SUSPECT;
	state = pathlive_step(&path->damp, &paths->live, seen, (int64_t)now_ns);
	if (state == before)
		return false;
	store(path->map->state, (uint8_t)state);
	if (state == PATHLIVE_DOWN && trusted) {
		paths_report_down(paths, pair, path, &live);
		paths_unsettle(pair, now_ns);
	} else if (state == PATHLIVE_HOLD_DOWN) {
		paths_unsettle(pair, now_ns);
	} else if (state == PATHLIVE_UP && before == PATHLIVE_HOLD_DOWN) {
		/* Packets return to it. */
		diverted_ns = load(path->map->diverted_ns);
		__atomic_store_n(&path->map->diverted_ns, 0, __ATOMIC_SEQ_CST);
		path->facts.diverted_ns = 0;
		paths->facts.returns += diverted_ns != 0;
		paths_report_return(paths, pair, path, failed_ns, diverted_ns);
	}
	return true;
}

void paths_evaluate(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	bool changed = false;

	for_each_candidate (pair, path)
		changed |= candidate_evaluate(paths, pair, path, now_ns);
	if (changed)
		paths_choose_backups(pair);
	paths->uses_changed |= (find_urgent(pair, now_ns) & ~pair->urgent) != 0;
}

/* --- backups --- */

bool paths_was_received(const struct candidate *path)
{
	return path->rtt.samples || load(path->map->live.received_peer_ns);
}

void paths_choose_backups(struct paths_pair *pair)
{
	struct pathlive_choice choices[ESC_PATHS_MAX];
	struct candidate *listed[ESC_PATHS_MAX];
	size_t count = 0;

	for_each_candidate (pair, path) {
		int index = paths_set_index(pair, path->facts.sport);
		struct pathlive_choice *choice = &choices[count];
		struct path_delay now;

		pathstat_now(&path->out, (int64_t)PATHS_TICK_IDLE_NS, &now);
		*choice = (struct pathlive_choice){
			.state = path->damp.state,
			.delay_ns = now.delay_ns,
			.spread_ns = now.spread_ns,
		};
		/* One of which no probe was ever received is no help. */
		if (choice->state == PATHLIVE_UP && !paths_was_received(path))
			choice->state = PATHLIVE_SUSPECT;
		if (index >= 0) {
			choice->group = pair->set.ports[index].group;
			memcpy(choice->hops, pair->set.ports[index].hops, sizeof(choice->hops));
		}
		listed[count++] = path;
	}
	for (size_t i = 0; i < count; i++) {
		int backup = pathlive_choose_backup(choices, count, i);

		backup = backup < 0 ? -1 : (int)listed[backup]->facts.id;
		listed[i]->facts.backup = backup;
		store(listed[i]->map->backup, backup < 0 ? ESC_PATH_NONE : (uint8_t)backup);
	}
}

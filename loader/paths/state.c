// SPDX-License-Identifier: BSD-2-Clause
/* Up or down, and which path is the standby of which: the daemon's side of pacing/pathlive.h. */
#include <math.h>
#include <string.h>

#include "internal.h"

/* A path is usable that was measured in the last so many intervals, or within MEASURED_NS. */
#define MEASURED_INTERVALS 4
#define MEASURED_NS 50000000ull

#define load(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* Fields are written one by one while they are read: down is what is so in two readings. */
static enum pathlive_state state_read(const struct esc_path *map, uint64_t deadline_ns,
				      uint64_t now_ns, struct pathlive_path *live)
{
	enum pathlive_state seen = PATHLIVE_SUSPECT;

	for (int i = 0; i < 2 && seen != PATHLIVE_UP; i++) {
		*live = (struct pathlive_path){
			.unconfirmed = load(map->live.unconfirmed),
			.since_ns = load(map->live.since_ns),
			.received_peer_ns = load(map->live.received_peer_ns),
			.report_peer_ns = load(map->live.report_peer_ns),
			.report_ns = load(map->live.report_ns),
		};
		seen = deadline_ns ? pathlive_judge(live, deadline_ns, now_ns) : PATHLIVE_UP;
	}
	return seen;
}

/* --- packets that use a standby --- */

static void detect_failover(struct paths *paths, struct paths_pair *pair, unsigned int id,
			    const struct pathlive_path *live)
{
	struct candidate *path = &pair->candidates[id];
	const struct esc_path *map = paths_map_entry(paths, pair, id);
	uint64_t diverted_ns = load(map->diverted_ns);
	int64_t heard_ns = 0;
	unsigned int bucket = 0;
	double seconds;

	if (diverted_ns == path->diverted_ns)
		return;
	path->diverted_ns = diverted_ns;
	if (!diverted_ns)
		return;
	paths->total.failovers++;
	/* When the peer last received a probe of it, by our clock: late by the report's way back.
	 */
	if (live->received_peer_ns && live->report_peer_ns >= live->received_peer_ns)
		heard_ns = (int64_t)(live->report_ns -
				     (live->report_peer_ns - live->received_peer_ns));
	/* A probe has arrived again before this tick: the length of the silence is lost. */
	if ((int64_t)diverted_ns - heard_ns < (int64_t)path->deadline_ns)
		heard_ns = 0;
	if (heard_ns) {
		seconds = (double)((int64_t)diverted_ns - heard_ns) / 1e9;
		while (bucket < PATHS_FAILOVER_BUCKETS - 1 &&
		       seconds > paths_failover_bounds[bucket])
			bucket++;
		paths->total.failover[bucket]++;
		paths->total.failover_sum_s += seconds;
	}
	paths_report_failover(paths, pair, id, map, heard_ns);
}

/* Trusted again: packets return to it. */
static void candidate_restore(struct paths *paths, struct paths_pair *pair, unsigned int id,
			      int64_t died_ns)
{
	struct candidate *path = &pair->candidates[id];
	struct esc_path *map = paths_map_entry(paths, pair, id);
	uint64_t diverted_ns = load(map->diverted_ns), packets = load(map->diverted);

	__atomic_store_n(&map->diverted_ns, 0, __ATOMIC_SEQ_CST);
	path->diverted_ns = 0;
	paths->total.returns += diverted_ns != 0;
	paths_report_up(paths, pair, id, died_ns, diverted_ns, packets);
}

bool paths_release(struct paths *paths, unsigned int slot, unsigned int id)
{
	struct paths_pair *pair = slot < ESC_PATH_SLOTS_MAX ? paths->by_slot[slot] : NULL;
	struct esc_path *map;

	if (!pair || id >= ESC_PATHS_MAX || !pair->candidates[id].sport ||
	    paths_pair_replies(pair, time_local_ns()))
		return false;
	map = paths_map_entry(paths, pair, id);
	paths_report_released(paths, pair, id, load(map->diverted_ns), load(map->diverted));
	__atomic_store_n(&map->diverted_ns, 0, __ATOMIC_SEQ_CST);
	pair->candidates[id].diverted_ns = 0;
	return true;
}

/* --- one candidate --- */

static bool is_trusted(enum pathlive_state state)
{
	return state == PATHLIVE_UP || state == PATHLIVE_SUSPECT;
}

/* True: the standbys have to be chosen again. */
static bool candidate_evaluate(struct paths *paths, struct paths_pair *pair, unsigned int id,
			       uint64_t now_ns)
{
	struct candidate *path = &pair->candidates[id];
	struct esc_path *map = paths_map_entry(paths, pair, id);
	enum pathlive_state before = path->damp.state, seen;
	int64_t died_ns = path->damp.died_ns;
	struct pathlive_path live;

	seen = state_read(map, path->deadline_ns, now_ns, &live);
	detect_failover(paths, pair, id, &live);
	/* The programs have seen a failure that was over before this tick. */
	if (path->diverted_ns && is_trusted(before))
		seen = PATHLIVE_DOWN;
	/*
	 * The peer reports nothing any more (its daemon has ended, perhaps): a path that went down
	 * is not known to be up. Its packets stay on the standby while replies come over that
	 * (steer/ watches it).
	 */
	if (!path->deadline_ns && !is_trusted(before))
		seen = PATHLIVE_SUSPECT;
	pathlive_step(&path->damp, &paths->live, seen, (int64_t)now_ns);
	if (path->damp.state == before)
		return false;
	__atomic_store_n(&map->state, (uint8_t)path->damp.state, __ATOMIC_RELAXED);
	if (path->damp.state == PATHLIVE_DOWN && is_trusted(before)) {
		paths_report_down(paths, pair, id, &live);
		paths_unsettle(pair, now_ns);
	} else if (path->damp.state == PATHLIVE_HOLD_DOWN) {
		paths_unsettle(pair, now_ns);
	} else if (path->damp.state == PATHLIVE_UP && before == PATHLIVE_HOLD_DOWN) {
		candidate_restore(paths, pair, id, died_ns);
	}
	return true;
}

void paths_evaluate(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	bool changed = false;

	for_each_candidate (pair, i)
		changed |= candidate_evaluate(paths, pair, i, now_ns);
	if (changed)
		paths_choose_standbys(paths, pair);
}

/* --- standbys --- */

/* A probe was replied to, or reported as received: the way back may be down. */
static bool was_heard(const struct candidate *path, const struct esc_path *map)
{
	return path->rtt.samples || load(map->live.received_peer_ns);
}

static void choice_of(const struct paths *paths, const struct paths_pair *pair, unsigned int id,
		      struct pathlive_choice *out)
{
	const struct esc_path *map = paths_map_entry(paths, pair, id);
	const struct candidate *path = &pair->candidates[id];
	int index = paths_set_index(pair, path->sport);
	struct pathstat_now now;

	pathstat_now(&path->out, (int64_t)PATHS_TICK_IDLE_NS, &now);
	*out = (struct pathlive_choice){
		.state = path->damp.state,
		.delay_ns = now.delay_ns,
		.spread_ns = now.spread_ns,
	};
	/* One that never was heard is no help. */
	if (!was_heard(path, map) && out->state == PATHLIVE_UP)
		out->state = PATHLIVE_SUSPECT;
	if (index < 0)
		return;
	out->group = pair->set.ports[index].group;
	memcpy(out->hops, pair->set.ports[index].hops, sizeof(out->hops));
}

void paths_choose_standbys(struct paths *paths, struct paths_pair *pair)
{
	struct pathlive_choice choices[ESC_PATHS_MAX];
	unsigned int ids[ESC_PATHS_MAX];
	size_t count = 0;

	for_each_candidate (pair, i) {
		choice_of(paths, pair, i, &choices[count]);
		ids[count++] = i;
	}
	for (size_t i = 0; i < count; i++) {
		int chosen = pathlive_choose_backup(choices, count, i);
		int backup = chosen < 0 ? -1 : (int)ids[chosen];

		pair->candidates[ids[i]].backup = backup;
		__atomic_store_n(&paths_map_entry(paths, pair, ids[i])->backup,
				 backup < 0 ? ESC_PATH_NONE : (uint8_t)backup, __ATOMIC_RELAXED);
	}
}

/* --- facts --- */

void paths_candidate_facts(const struct paths *paths, const struct paths_pair *pair,
			   unsigned int id, uint64_t now_ns, struct path_facts *out)
{
	const struct candidate *path = &pair->candidates[id];
	const struct esc_path *map = paths_map_entry(paths, pair, id);
	/* "Now" is the last four probes or so. */
	uint64_t span_ns = MEASURED_INTERVALS * path->interval_ns;
	int index = paths_set_index(pair, path->sport);
	struct pathstat_now there, back;

	pathstat_now(&path->out, (int64_t)span_ns, &there);
	pathstat_now(&path->in, (int64_t)span_ns, &back);
	*out = (struct path_facts){
		.slot = pair->slot,
		.id = id,
		.sport = path->sport,
		.state = path->damp.state,
		.heard = was_heard(path, map),
		.floor_ns = there.floor_ns,
		.delay_ns = there.delay_ns,
		.worst_ns = there.worst_ns,
		.noise_ns = there.noise_ns,
		.bound_ns = there.bound_ns,
		.measured_ns = there.at_ns,
		.in_floor_ns = back.floor_ns,
		.in_delay_ns = back.delay_ns,
		.in_bound_ns = back.bound_ns,
		.diverted_ns = load(map->diverted_ns),
		.diverted_packets = load(map->diverted),
		.sent = load(map->probes),
		.replied = load(map->replies),
		.lost = path->lost,
		.backup = path->backup,
		.use = path->use,
		.interval_ns = path->interval_ns,
		.deadline_ns = path->deadline_ns,
		.qps = path->qps,
	};
	if (span_ns < MEASURED_NS)
		span_ns = MEASURED_NS;
	out->usable = out->state == PATHLIVE_UP && !out->diverted_ns && out->measured_ns &&
		      now_ns < (uint64_t)out->measured_ns + span_ns;
	if (index < 0)
		return;
	out->group = pair->set.ports[index].group;
	memcpy(out->hops, pair->set.ports[index].hops, sizeof(out->hops));
}

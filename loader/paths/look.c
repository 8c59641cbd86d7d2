// SPDX-License-Identifier: BSD-2-Clause
/* Dead or alive, and who stands in: the daemon's side of pacing/pathlive.h. */
#include <math.h>
#include <string.h>

#include "daemon/daemon.h"
#include "internal.h"
#include "steer/steer.h"

/* A lane is usable that was measured in the last so many intervals, or within MEASURED_NS. */
#define MEASURED_INTERVALS 4
#define MEASURED_NS 50000000ull

const double paths_failover_bounds[PATHS_FAILOVER_BUCKETS - 1] = {
	0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 1,
};

#define load(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

static void live_read(const struct pathlive_lane *from, struct pathlive_lane *out)
{
	out->unheard = load(from->unheard);
	out->since_ns = load(from->since_ns);
	out->heard_peer_ns = load(from->heard_peer_ns);
	out->word_peer_ns = load(from->word_peer_ns);
	out->word_ns = load(from->word_ns);
	out->reserved = 0;
}

/* Fields are written one by one while they are read: what is dead is so twice on end. */
static enum pathlive_state lane_see(const struct esc_lane *map, uint64_t deadline_ns,
				    uint64_t now_ns, struct pathlive_lane *live)
{
	enum pathlive_state seen;

	live_read(&map->live, live);
	if (!deadline_ns)
		return PATHLIVE_UP;
	seen = pathlive_judge(live, deadline_ns, now_ns);
	if (seen == PATHLIVE_UP)
		return seen;
	live_read(&map->live, live);
	return pathlive_judge(live, deadline_ns, now_ns);
}

/* When the peer last heard the lane, by our own clock: late by the words' way back. 0: never. */
static int64_t heard_at(const struct pathlive_lane *live)
{
	if (!live->heard_peer_ns || live->word_peer_ns < live->heard_peer_ns)
		return 0;
	return (int64_t)(live->word_ns - (live->word_peer_ns - live->heard_peer_ns));
}

/* --- packets that take a standby --- */

static void failover_count(struct paths *paths, double seconds)
{
	unsigned int bucket = 0;

	while (bucket < PATHS_FAILOVER_BUCKETS - 1 && seconds > paths_failover_bounds[bucket])
		bucket++;
	paths->failover[bucket]++;
	paths->failover_sum_s += seconds;
}

static void see_diversion(struct paths *paths, struct paths_pair *pair, unsigned int number,
			  const struct pathlive_lane *live)
{
	struct paths_lane *lane = &pair->lanes[number];
	const struct esc_lane *map = paths_map_lane(paths, pair, number);
	uint64_t diverted_ns = load(map->diverted_ns);
	int64_t heard_ns = heard_at(live);

	if (diverted_ns == lane->diverted_ns)
		return;
	lane->diverted_ns = diverted_ns;
	if (!diverted_ns)
		return;
	paths->failovers++;
	/* It was heard again before we looked: how long it had not been is not known any more. */
	if ((int64_t)diverted_ns - heard_ns < (int64_t)lane->deadline_ns)
		heard_ns = 0;
	if (heard_ns)
		failover_count(paths, (double)((int64_t)diverted_ns - heard_ns) / 1e9);
	paths_tell_failover(paths, pair, number, map, heard_ns);
}

/* Trusted again: packets go back to it. */
static void lane_return(struct paths *paths, struct paths_pair *pair, unsigned int number,
			int64_t died_ns)
{
	struct paths_lane *lane = &pair->lanes[number];
	struct esc_lane *map = paths_map_lane(paths, pair, number);
	uint64_t diverted_ns = load(map->diverted_ns), packets = load(map->diverted);

	__atomic_store_n(&map->diverted_ns, 0, __ATOMIC_SEQ_CST);
	lane->diverted_ns = 0;
	paths->returns += diverted_ns != 0;
	paths_tell_up(paths, pair, number, died_ns, diverted_ns, packets);
}

bool paths_let_go(struct paths *paths, unsigned int slot, unsigned int number)
{
	struct paths_pair *pair = slot < ESC_PATH_SLOTS_MAX ? paths->by_slot[slot] : NULL;
	struct esc_lane *map;

	if (!pair || number >= ESC_PATH_LANES_MAX || !pair->lanes[number].sport ||
	    paths_pair_answers(pair, time_local_ns()))
		return false;
	map = paths_map_lane(paths, pair, number);
	paths_tell_let_go(paths, pair, number, load(map->diverted_ns), load(map->diverted));
	__atomic_store_n(&map->diverted_ns, 0, __ATOMIC_SEQ_CST);
	pair->lanes[number].diverted_ns = 0;
	return true;
}

/* --- one lane --- */

static bool is_trusted(enum pathlive_state state)
{
	return state == PATHLIVE_UP || state == PATHLIVE_SUSPECT;
}

/* True: who stands in for whom has to be asked again. */
static bool lane_judge(struct paths *paths, struct paths_pair *pair, unsigned int number,
		       uint64_t now_ns)
{
	struct paths_lane *lane = &pair->lanes[number];
	struct esc_lane *map = paths_map_lane(paths, pair, number);
	enum pathlive_state before = lane->damp.state, seen;
	int64_t died_ns = lane->damp.died_ns;
	struct pathlive_lane live;

	seen = lane_see(map, lane->deadline_ns, now_ns, &live);
	see_diversion(paths, pair, number, &live);
	/* The programs have seen a death that was over before we looked. */
	if (lane->diverted_ns && is_trusted(before))
		seen = PATHLIVE_DOWN;
	/*
	 * The peer says nothing any more (its daemon is gone, perhaps): a lane that died is not
	 * known to live. Its packets stay on the standby while they are answered there: steer.c.
	 */
	if (!lane->deadline_ns && !is_trusted(before))
		seen = PATHLIVE_SUSPECT;
	pathlive_step(&lane->damp, &paths->live, seen, (int64_t)now_ns);
	if (lane->damp.state == before)
		return false;
	__atomic_store_n(&map->state, (uint8_t)lane->damp.state, __ATOMIC_RELAXED);
	if (lane->damp.state == PATHLIVE_DOWN && is_trusted(before)) {
		paths_tell_down(paths, pair, number, &live);
		paths_unsettle(pair, now_ns);
	} else if (lane->damp.state == PATHLIVE_HELD) {
		paths_unsettle(pair, now_ns);
	} else if (lane->damp.state == PATHLIVE_UP && before == PATHLIVE_HELD) {
		lane_return(paths, pair, number, died_ns);
	}
	return true;
}

void paths_judge(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	bool changed = false;

	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++)
		if (pair->lanes[i].sport)
			changed |= lane_judge(paths, pair, i, now_ns);
	if (changed)
		paths_choose_standbys(paths, pair);
}

/* --- who stands in --- */

/* Answered, or said to be heard: the way back may be dead. */
static bool lane_heard(const struct paths_lane *lane, const struct esc_lane *map)
{
	return lane->rtt.samples || load(map->live.heard_peer_ns);
}

static void choice_of(const struct paths *paths, const struct paths_pair *pair, unsigned int number,
		      struct pathlive_choice *out)
{
	const struct esc_lane *map = paths_map_lane(paths, pair, number);
	const struct paths_lane *lane = &pair->lanes[number];
	int index = paths_set_index(pair, lane->sport);
	struct pathstat_now now;

	pathstat_now(&lane->out, (int64_t)PATHS_SLOW_NS, &now);
	*out = (struct pathlive_choice){
		.state = lane->damp.state,
		.delay_ns = now.delay_ns,
		.spread_ns = now.spread_ns,
	};
	/* One that never was heard is no help. */
	if (!lane_heard(lane, map) && out->state == PATHLIVE_UP)
		out->state = PATHLIVE_SUSPECT;
	if (index < 0)
		return;
	out->group = pair->set.ports[index].group;
	memcpy(out->hops, pair->set.ports[index].hops, sizeof(out->hops));
}

void paths_choose_standbys(struct paths *paths, struct paths_pair *pair)
{
	struct pathlive_choice choices[ESC_PATH_LANES_MAX];
	unsigned int numbers[ESC_PATH_LANES_MAX];
	size_t count = 0;

	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++) {
		if (!pair->lanes[i].sport)
			continue;
		choice_of(paths, pair, i, &choices[count]);
		numbers[count++] = i;
	}
	for (size_t i = 0; i < count; i++) {
		int chosen = pathlive_choose_standby(choices, count, i);
		struct esc_lane *map = paths_map_lane(paths, pair, numbers[i]);

		pair->lanes[numbers[i]].standby = chosen < 0 ? -1 : (int)numbers[chosen];
		__atomic_store_n(&map->standby,
				 chosen < 0 ? ESC_PATH_LANE_NONE : (uint8_t)numbers[chosen],
				 __ATOMIC_RELAXED);
	}
}

/* --- what a look finds --- */

static void put_delays(const struct paths_lane *lane, int64_t span_ns, struct path_lane_facts *out)
{
	struct pathstat_now now;

	pathstat_now(&lane->in, span_ns, &now);
	out->in_floor_ns = now.floor_ns;
	out->in_delay_ns = now.delay_ns;
	out->in_worst_ns = now.worst_ns;
	out->in_noise_ns = now.noise_ns;
	out->in_bound_ns = now.bound_ns;
	pathstat_now(&lane->out, span_ns, &now);
	out->floor_ns = now.floor_ns;
	out->delay_ns = now.delay_ns;
	out->worst_ns = now.worst_ns;
	out->noise_ns = now.noise_ns;
	out->bound_ns = now.bound_ns;
	out->measured_ns = now.at_ns;
}

void paths_lane_facts(const struct paths *paths, const struct paths_pair *pair, unsigned int number,
		      uint64_t now_ns, struct path_lane_facts *out)
{
	const struct paths_lane *lane = &pair->lanes[number];
	const struct esc_lane *map = paths_map_lane(paths, pair, number);
	uint64_t recent_ns = MEASURED_INTERVALS * lane->interval_ns;
	int index = paths_set_index(pair, lane->sport);

	recent_ns = recent_ns > MEASURED_NS ? recent_ns : MEASURED_NS;
	memset(out, 0, sizeof(*out));
	out->slot = pair->slot;
	out->lane = number;
	out->sport = lane->sport;
	out->state = lane->damp.state;
	out->heard = lane_heard(lane, map);
	/* "Now" is the last four probes or so. */
	put_delays(lane, (int64_t)(MEASURED_INTERVALS * lane->interval_ns), out);
	out->diverted_ns = load(map->diverted_ns);
	out->diverted_packets = load(map->diverted);
	out->usable = out->state == PATHLIVE_UP && !out->diverted_ns && out->measured_ns &&
		      now_ns < (uint64_t)out->measured_ns + recent_ns;
	out->sent = load(map->probes);
	out->answered = load(map->replies);
	out->lost = lane->lost;
	out->standby = lane->standby;
	out->use = lane->use;
	out->interval_ns = lane->interval_ns;
	out->deadline_ns = lane->deadline_ns;
	out->qps = lane->qps;
	if (index < 0)
		return;
	out->group = pair->set.ports[index].group;
	memcpy(out->hops, pair->set.ports[index].hops, sizeof(out->hops));
}

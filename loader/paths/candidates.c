// SPDX-License-Identifier: BSD-2-Clause
/* Which source ports of a pair of addresses are its candidate paths. */
#include <errno.h>

#include "internal.h"
#include "pacing/random.h"

/* Without a reply from any switch for so long, the other candidates are drawn at random. */
#define NO_REPLY_NS 3000000000ull

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

	for_each_candidate (pair, i)
		if (group && group_of(pair, pair->candidates[i].sport) == group)
			return (int)i;
	for_each_candidate (pair, i)
		if (pair->candidates[i].sport == sport)
			return (int)i;
	return -ENOENT;
}

bool paths_is_own(const struct paths_pair *pair, uint16_t sport, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pair->own[i] == sport)
			return true;
	return false;
}

void paths_candidate_clear(struct candidate *path, uint16_t sport)
{
	struct pathstat out = path->out, in = path->in, rtt = path->rtt;

	*path = (struct candidate){
		.sport = sport,
		.out = out,
		.in = in,
		.rtt = rtt,
		.backup = -1,
	};
	pathstat_clear(&path->out);
	pathstat_clear(&path->in);
	pathstat_clear(&path->rtt);
}

static void candidate_set(struct paths *paths, struct paths_pair *pair, unsigned int id,
			  uint16_t sport)
{
	if (pair->sending)
		pathsend_set(paths->send, pair->sending, id, 0, 0);
	paths_candidate_clear(&pair->candidates[id], sport);
	paths_write_candidate(paths, pair, id, sport);
	for_each_candidate (pair, i)
		if (pair->candidates[i].backup == (int)id)
			pair->candidates[i].backup = -1;
	if (sport)
		pathset_add(&pair->set, sport);
}

/* What it is worth to keep a candidate: one that has a rule stays in any case. */
enum worth { WORTH_NOTHING, WORTH_LITTLE, WORTH_A_ROUTE, WORTH_RULES };

static enum worth worth_of(const struct paths_pair *pair, unsigned int id)
{
	const struct candidate *path = &pair->candidates[id];
	uint16_t group = group_of(pair, path->sport);

	if (path->rules)
		return WORTH_RULES;
	if (!group)
		return paths_is_own(pair, path->sport, pair->own_awake) ? WORTH_A_ROUTE
									: WORTH_LITTLE;
	/* Of candidates on one route one is enough: one with rules, else the first. */
	for_each_candidate (pair, i)
		if (i != id && group_of(pair, pair->candidates[i].sport) == group &&
		    (pair->candidates[i].rules || i < id))
			return WORTH_NOTHING;
	return WORTH_A_ROUTE;
}

/* An id for a new one: one that is free, else that of a candidate of less than @worth. -1: none. */
static int find_id(const struct paths *paths, const struct paths_pair *pair, enum worth worth)
{
	unsigned int most = paths->core->config->paths.per_peer, count = 0;
	int found = -1, empty = -1;

	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++) {
		enum worth here;

		if (!pair->candidates[i].sport) {
			empty = empty < 0 ? (int)i : empty;
			continue;
		}
		count++;
		here = worth_of(pair, i);
		if (here < worth) {
			worth = here;
			found = (int)i;
		}
	}
	return count < most ? empty : found;
}

/* A candidate for @sport, unless its route has one. */
static void candidate_add(struct paths *paths, struct paths_pair *pair, uint16_t sport,
			  enum worth worth)
{
	int id = paths_pair_id_of(pair, sport) < 0 ? find_id(paths, pair, worth) : -1;

	if (id >= 0)
		candidate_set(paths, pair, (unsigned int)id, sport);
}

/* Drops those beyond paths.per_peer, after a reload, and the second one on a route. */
static void drop_surplus(struct paths *paths, struct paths_pair *pair)
{
	unsigned int most = paths->core->config->paths.per_peer, count = 0;

	for_each_candidate (pair, i)
		count++;
	for (unsigned int i = ESC_PATHS_MAX; i-- > 0;) {
		enum worth worth = pair->candidates[i].sport ? worth_of(pair, i) : WORTH_RULES;

		if (worth == WORTH_NOTHING || (count > most && worth < WORTH_RULES)) {
			candidate_set(paths, pair, i, 0);
			count--;
		}
	}
}

void paths_choose_candidates(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
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
	 * And one for each port of a queue pair whose route is not known; where there is room, for
	 * those of idle queue pairs as well.
	 */
	for (size_t i = 0; i < pair->own_count; i++)
		candidate_add(paths, pair, pair->own[i],
			      i < pair->own_awake ? WORTH_A_ROUTE : WORTH_LITTLE);
	/* Where no switch replies ports are drawn, and their delays distinguish routes. */
	unknown = unknown && now_ns - pair->since_ns >= NO_REPLY_NS &&
		  !pathset_is_complete(&pair->set);
	while (unknown && find_id(paths, pair, WORTH_LITTLE) >= 0) {
		uint16_t sport = (uint16_t)(PATHSET_PORT_FIRST +
					    pacing_random(&paths->random) % PATHSET_PORT_COUNT);

		if (paths_set_index(pair, sport) < 0)
			candidate_add(paths, pair, sport, WORTH_LITTLE);
	}
	pair->crowded = false;
	for (size_t i = 0; i < pair->own_awake; i++)
		pair->crowded |= paths_pair_id_of(pair, pair->own[i]) < 0;
}

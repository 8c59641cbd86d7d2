// SPDX-License-Identifier: BSD-2-Clause
/* Ports into paths: by hops, by delays, by both; how long to search; routes that change. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "pacing/pathset.h"
#include "tests/lib/rng.h"

#define SEED 20240607
#define DISTANCE 3

/* A fabric that hashes ports onto @paths spines between two leaves. */
struct world {
	struct rng rng;
	uint64_t salt;
	unsigned paths;
	double silent; /* part of probes without a reply */
	double queue_ns[64];
	double common_ns; /* the host's own link */
};

static unsigned path_of(const struct world *world, uint16_t sport)
{
	return (unsigned)(rng_mix(world->salt ^ sport) % world->paths);
}

static void hops_of(struct world *world, uint16_t sport, uint64_t hops[PATHSET_HOPS])
{
	for (int h = 0; h < PATHSET_HOPS; h++)
		hops[h] = 0;
	hops[0] = 1;
	hops[1] = 100 + path_of(world, sport);
	hops[2] = 1000 + path_of(world, sport); /* the last leaf replies by the port it came in */
	for (int h = 0; h < DISTANCE; h++)
		if (rng_unit(&world->rng) < world->silent)
			hops[h] = 0;
}

static struct pathset *make(unsigned distance)
{
	struct pathset *set = malloc(sizeof(*set));
	struct pathset_config config;

	pathset_config_default(&config);
	config.distance = distance;
	config.ports_most = PATHSET_PORTS_MAX;
	pathset_init(set, &config);
	return set;
}

static size_t index_of(const struct pathset *set, uint16_t sport)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->ports[i].sport == sport)
			return i;
	abort();
}

/* Ticks until the search is over; returns rounds. */
static unsigned search(struct world *world, struct pathset *set, unsigned rounds_most)
{
	uint16_t ports[PATHSET_PORTS_MAX];
	unsigned rounds = 0;
	size_t count;

	while (rounds < rounds_most &&
	       (count = pathset_next(set, rng_next(&world->rng), 8, ports)) > 0) {
		for (size_t i = 0; i < count; i++) {
			uint64_t hops[PATHSET_HOPS];

			hops_of(world, ports[i], hops);
			pathset_add_hops(set, index_of(set, ports[i]), hops);
		}
		pathset_group(set);
		rounds++;
	}
	return rounds;
}

static void check_groups(const struct world *world, const struct pathset *set)
{
	for (size_t a = 0; a < set->count; a++)
		for (size_t b = 0; b < a; b++) {
			const struct pathset_port *p = &set->ports[a], *q = &set->ports[b];

			if (!p->group || !q->group)
				continue;
			cr_assert_eq(p->group == q->group,
				     path_of(world, p->sport) == path_of(world, q->sport));
		}
	for (size_t g = 1; g <= set->groups; g++)
		cr_assert_eq(set->ports[set->representative[g]].group, g);
}

Test(pathset, the_stopping_points_are_those_of_multipath_detection)
{
	static const unsigned points[] = {6, 11, 16, 21, 27, 33};

	for (unsigned k = 1; k <= 6; k++)
		cr_assert_eq(pathset_ports_needed(0.95, k), points[k - 1], "%u: %u", k,
			     pathset_ports_needed(0.95, k));
}

Test(pathset, all_paths_are_found_with_the_stated_confidence)
{
	struct world world = {.silent = 0};
	unsigned missed = 0, trials = 600;

	rng_seed(&world.rng, SEED);
	for (unsigned t = 0; t < trials; t++) {
		struct pathset *set = make(DISTANCE);

		world.paths = 1 + t % 8;
		world.salt = rng_next(&world.rng);
		search(&world, set, 100);
		cr_assert(pathset_is_complete(set));
		cr_assert_leq(set->groups, world.paths);
		missed += set->groups < world.paths;
		check_groups(&world, set);
		free(set);
	}
	/* The rule applies at each number of paths, so slightly more than 5% may be missed. */
	cr_assert_leq(missed, trials * 0.1, "%u of %u, seed %d", missed, trials, SEED);
}

Test(pathset, enough_is_enough)
{
	struct world world = {.paths = 8, .salt = 5};
	struct pathset *set = make(DISTANCE);

	rng_seed(&world.rng, SEED);
	set->config.paths_wanted = 3;
	search(&world, set, 100);
	cr_assert_geq(set->groups, 3);
	cr_assert_lt(set->count, 20);
	free(set);
}

Test(pathset, silent_switches_leave_ports_undecided_not_wrong)
{
	struct world world = {.paths = 4, .silent = 0.3};

	rng_seed(&world.rng, SEED);
	for (int t = 0; t < 100; t++) {
		struct pathset *set = make(DISTANCE);

		world.salt = rng_next(&world.rng);
		search(&world, set, 10);
		cr_assert_leq(set->groups, 4, "no path is counted twice");
		check_groups(&world, set);
		free(set);
	}
}

Test(pathset, behind_a_fork_without_replies_hops_decide_nothing)
{
	struct pathset *set = make(DISTANCE);
	uint64_t hops[PATHSET_HOPS] = {1, 0, 3};

	for (uint16_t p = 0; p < 6; p++)
		pathset_add_hops(set, (size_t)pathset_add(set, 50000 + p), hops);
	pathset_group(set);
	for (size_t i = 1; i < 6; i++)
		cr_assert_eq(pathset_relate(set, 0, i), PATHSET_UNKNOWN);
	cr_assert_eq(set->groups, 1);
	cr_assert_not(pathset_is_complete(set));
	free(set);
}

/* A slot: bursts come and go on each path, and on the link that all share. */
static void slot(struct world *world, struct pathset *set, uint64_t number)
{
	world->common_ns = rng_unit(&world->rng) < 0.3 ? 50000 * rng_exponential(&world->rng) : 0;
	for (unsigned p = 0; p < world->paths; p++)
		world->queue_ns[p] =
			rng_unit(&world->rng) < 0.4 ? 40000 * rng_exponential(&world->rng) : 0;
	for (size_t i = 0; i < set->count; i++) {
		unsigned path = path_of(world, set->ports[i].sport);

		pathset_sample(set, i, number,
			       20000 + world->queue_ns[path] + world->common_ns +
				       300 * fabs(rng_normal(&world->rng)));
	}
}

Test(pathset, queues_that_come_and_go_together_are_one_path)
{
	struct world world = {.paths = 3};
	unsigned undecided = 0, ports = 0, groups = 0;

	rng_seed(&world.rng, SEED);
	for (int t = 0; t < 100; t++) {
		struct pathset *set = make(0);

		world.salt = rng_next(&world.rng);
		for (int p = 0; p < 10; p++)
			pathset_add_floor(set, (size_t)pathset_add(set, (uint16_t)(50000 + p)),
					  20000);
		for (uint64_t s = 1; s <= PATHSET_SAMPLES; s++)
			slot(&world, set, s);
		groups += pathset_group(set) == 3;
		check_groups(&world, set);
		for (size_t i = 0; i < set->count; i++, ports++)
			undecided += !set->ports[i].group;
		free(set);
	}
	cr_assert_lt(undecided, ports / 10, "%u of %u undecided, seed %d", undecided, ports, SEED);
	cr_assert_gt(groups, 70);
}

Test(pathset, without_queues_equal_floors_decide_nothing_and_unequal_ones_do)
{
	struct pathset *set = make(0);

	for (int p = 0; p < 4; p++)
		pathset_add_floor(set, (size_t)pathset_add(set, (uint16_t)(50000 + p)),
				  20000 + (p & 1) * 30000);
	cr_assert_eq(pathset_relate(set, 0, 2), PATHSET_UNKNOWN);
	cr_assert_eq(pathset_relate(set, 0, 1), PATHSET_DIFFERENT);
	cr_assert_eq(pathset_group(set), 2);
	free(set);
}

Test(pathset, a_change_of_routes_is_seen_once_and_searched_anew)
{
	struct world world = {.paths = 4, .salt = 9};
	struct pathset *set = make(DISTANCE);
	uint64_t hops[PATHSET_HOPS];
	unsigned renewed = 0;

	rng_seed(&world.rng, SEED);
	search(&world, set, 100);
	cr_assert_eq(set->groups, 4);
	world.salt = 10; /* all ports are hashed anew */
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < set->count; i++) {
			hops_of(&world, set->ports[i].sport, hops);
			renewed += pathset_add_hops(set, i, hops);
		}
	cr_assert_eq(renewed, 1);
	cr_assert_eq(set->generation, 1);
	pathset_group(set);
	search(&world, set, 100);
	check_groups(&world, set);
	cr_assert_eq(set->groups, 4);
	free(set);
}

Test(pathset, one_odd_reply_is_no_change)
{
	struct pathset *set = make(DISTANCE);
	uint64_t hops[PATHSET_HOPS] = {1, 2, 3}, odd[PATHSET_HOPS] = {1, 9, 3};

	pathset_add(set, 50000);
	cr_assert_not(pathset_add_hops(set, 0, hops));
	cr_assert_not(pathset_add_hops(set, 0, odd));
	cr_assert_not(pathset_add_hops(set, 0, hops));
	cr_assert_not(pathset_add_hops(set, 0, odd));
	cr_assert_eq(set->ports[0].hops[1], 2);
	cr_assert(pathset_add_hops(set, 0, odd));
	cr_assert_eq(set->ports[0].hops[1], 9);
	free(set);
}

Test(pathset, a_floor_that_moves_is_a_change_of_routes)
{
	struct pathset *set = make(0);

	pathset_add(set, 50000);
	pathset_add(set, 50001);
	pathset_add_floor(set, 0, 20000);
	pathset_add_floor(set, 1, 20000);
	cr_assert_not(pathset_add_floor(set, 0, 20900), "noise");
	cr_assert_not(pathset_add_floor(set, 0, 60000), "once");
	cr_assert(pathset_add_floor(set, 0, 60100));
	cr_assert_not(set->ports[1].fresh);
	cr_assert_not(pathset_add_floor(set, 1, 60000), "expected: no news");
	cr_assert(set->ports[1].fresh);
	cr_assert_not(pathset_add_floor(set, 1, NAN));
	free(set);
}

Test(pathset, ports_end)
{
	struct pathset *set = make(DISTANCE);
	uint16_t ports[PATHSET_PORTS_MAX];
	size_t count, all = 0;

	cr_assert_eq(pathset_add(set, 50000), 0);
	cr_assert_eq(pathset_add(set, 50000), -EEXIST);
	for (uint64_t r = 1; r < 400 && set->count < PATHSET_PORTS_MAX; r++)
		pathset_add(set, (uint16_t)(50000 + r));
	cr_assert_eq(pathset_add(set, 49999), -ENOSPC);
	count = pathset_next(set, 1, PATHSET_PORTS_MAX, ports);
	cr_assert_eq(count, PATHSET_PORTS_MAX, "all have to be probed");
	for (size_t i = 0; i < count; i++)
		all += ports[i] >= PATHSET_PORT_FIRST;
	cr_assert_eq(all, count);
	free(set);
}

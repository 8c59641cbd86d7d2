// SPDX-License-Identifier: BSD-2-Clause
/*
 * The best choice: first the fewest tiers, then the least worst floor, then the least worst p99.
 * For each of these the question whether hosts with at most that value exist is one for a clique,
 * and the least value follows by bisection between what greedy choices have and what is excluded.
 * Each question has a limit of effort, counted and not timed, so that the choice does not depend on
 * the machine; one that is not answered leaves a gap, which is stated.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define EFFORT 60000000u /* words of each question: some 50 ms */

bool search_may_join(const struct place_search *search, size_t a, size_t b)
{
	const struct place_map *map = search->map;
	uint64_t most_ns = search->goal->most_ns;

	if (most_ns && map->upper_ns[a * map->count + b] > most_ns)
		return false;
	return !search->goal->same_leaf || map->group[a] == map->group[b];
}

int value_compare(const struct place_value *a, const struct place_value *b)
{
	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	if (a->floor_ns != b->floor_ns)
		return a->floor_ns < b->floor_ns ? -1 : 1;
	return (a->p99_ns > b->p99_ns) - (a->p99_ns < b->p99_ns);
}

struct place_value search_value(const struct place_search *search, const size_t *set)
{
	const struct place_map *map = search->map;
	struct place_value value = {};

	for (size_t i = 0; i < search->goal->hosts; i++)
		for (size_t k = 0; k < i; k++) {
			size_t at = set[i] * map->count + set[k];

			value.tier = value.tier > map->tier[at] ? value.tier : map->tier[at];
			if (map->floor_ns[at] > value.floor_ns)
				value.floor_ns = map->floor_ns[at];
			if (map->p99_ns[at] > value.p99_ns)
				value.p99_ns = map->p99_ns[at];
		}
	return value;
}

void search_take(struct place_search *search, const size_t *set)
{
	struct place_value value = search_value(search, set);

	if (search->has_best && value_compare(&value, &search->value) >= 0)
		return;
	memmove(search->best, set, search->goal->hosts * sizeof(*set));
	search->value = value;
	search->has_best = true;
}

/* Are there hosts with at most this value? They are taken. An enum clique_answer, or -ENOMEM. */
static int ask(struct place_search *search, struct place_value most, uint64_t effort)
{
	const struct place_map *map = search->map;
	size_t count = map->count, words = CLIQUE_WORDS(count);
	uint64_t *edges = calloc(count * words + 1, sizeof(*edges));
	int answer;

	if (!edges)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < count; k++) {
			size_t at = i * count + k;

			if (i != k && map->tier[at] <= most.tier &&
			    map->floor_ns[at] <= most.floor_ns && map->p99_ns[at] <= most.p99_ns &&
			    search_may_join(search, i, k))
				edges[i * words + k / 64] |= 1ull << k % 64;
		}
	answer = clique_find(edges, count, &search->rule, effort, search->trial);
	free(edges);
	if (answer == CLIQUE_FOUND)
		search_take(search, search->trial);
	return answer;
}

/* The value @most with its floor, or its p99, as a number that can be bisected. */
static struct place_value with(struct place_value most, bool p99, uint32_t number)
{
	if (p99)
		most.p99_ns = number;
	else
		most.floor_ns = number;
	return most;
}

static uint32_t best_number(const struct place_search *search, bool p99)
{
	return p99 ? search->value.p99_ns : search->value.floor_ns;
}

/*
 * The least floor (or p99) with @most else: the best choice improves; *@least becomes what none is
 * below. What is excluded is so for all lower numbers, too. Questions without effort come first;
 * one that is not answered only moves the next question up.
 */
static int bisect(struct place_search *search, struct place_value most, bool p99, uint32_t *least)
{
	uint32_t low = 0, high = best_number(search, p99), middle;
	int answer;

	while (low < high) {
		middle = low + (high - low) / 2;
		answer = ask(search, with(most, p99, middle), 0);
		if (answer < 0)
			return answer;
		low = answer == CLIQUE_NONE ? middle + 1 : low;
		high = answer == CLIQUE_NONE ? high : middle;
	}
	*least = low;
	while (low < best_number(search, p99)) {
		middle = low + (best_number(search, p99) - low) / 2;
		answer = ask(search, with(most, p99, middle), EFFORT);
		if (answer < 0)
			return answer;
		if (answer == CLIQUE_FOUND)
			continue;
		low = middle + 1;
		if (answer == CLIQUE_NONE)
			*least = low;
	}
	return 0;
}

/* The fewest tiers: one that fewer cannot be excluded for is not exact. */
static int find_tier(struct place_search *search, struct place_choice *choice)
{
	struct place_value most = {0, PLACE_UNKNOWN, PLACE_UNKNOWN};

	choice->tier_exact = true;
	for (; most.tier <= PLACE_CORE; most.tier++) {
		int answer;

		if (search->has_best && search->value.tier <= most.tier)
			return 0;
		answer = ask(search, most, EFFORT);
		if (answer < 0)
			return answer;
		if (answer == CLIQUE_UNDECIDED)
			choice->tier_exact = false;
	}
	return search->has_best ? 0 : choice->tier_exact ? -ENOENT : -EAGAIN;
}

/* Everything with the rule on groups as it is. */
static int solve_rule(struct place_search *search, struct place_choice *choice)
{
	struct place_value most = {.floor_ns = PLACE_UNKNOWN, .p99_ns = PLACE_UNKNOWN};
	uint32_t least_p99_ns = 0;
	int err = local_search(search);

	err = err ? err : find_tier(search, choice);
	if (err)
		return err;
	most.tier = search->value.tier;
	err = bisect(search, most, false, &choice->least_ns);
	choice->floor_exact = choice->least_ns == search->value.floor_ns;
	most.floor_ns = search->value.floor_ns;
	err = err ? err : bisect(search, most, true, &least_p99_ns);
	choice->exact =
		choice->tier_exact && choice->floor_exact && least_p99_ns == search->value.p99_ns;
	return err ? err : local_polish(search);
}

/* --- rules on groups --- */

/* Spread: hosts of one leaf at most; pack: leaves at most. The least that there is room for. */
static int first_rule(struct place_search *search)
{
	size_t groups = search->map->group_count, want = search->goal->hosts, room = 0, most = 0;
	size_t *sizes = calloc(groups + 1, sizeof(*sizes));

	if (!sizes)
		return -ENOMEM;
	memcpy(sizes, search->sizes, groups * sizeof(*sizes));
	qsort(sizes, groups, sizeof(*sizes), map_larger_first);
	while (room < want && most < want) {
		if (search->goal->pack)
			room += most < groups ? sizes[most] : 0;
		for (size_t g = 0; search->goal->spread && g < groups; g++)
			room += sizes[g] > most;
		most++;
	}
	free(sizes);
	search->rule.group_most = search->goal->spread ? most : 0;
	search->rule.groups_most = search->goal->pack ? most : 0;
	return 0;
}

static int solve_rules(struct place_search *search, struct place_choice *choice)
{
	bool undecided = false;
	int err = first_rule(search);

	while (!err) {
		size_t *level = search->goal->spread ? &search->rule.group_most
				: search->goal->pack ? &search->rule.groups_most
						     : NULL;

		err = solve_rule(search, choice);
		if (!level || (err != -ENOENT && err != -EAGAIN) || *level >= search->goal->hosts)
			break;
		undecided |= err == -EAGAIN;
		err = 0;
		++*level;
	}
	if (undecided) {
		choice->exact = choice->tier_exact = false;
		err = err == -ENOENT ? -EAGAIN : err;
	}
	choice->rule = search->rule;
	return err;
}

static int by_number(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

int place_solve(const struct place_map *map, const struct place_goal *goal,
		struct place_choice *choice)
{
	struct place_search search = {
		.map = map,
		.goal = goal,
		.rule = {.want = goal->hosts, .group = map->group, .group_count = map->group_count},
		.sizes = calloc(map->group_count + 1, sizeof(size_t)),
		.best = calloc(goal->hosts + 1, sizeof(size_t)),
		.trial = calloc(goal->hosts + 1, sizeof(size_t))};
	int err = search.sizes && search.best && search.trial ? 0 : -ENOMEM;

	*choice = (struct place_choice){};
	for (size_t i = 0; !err && i < map->count; i++)
		search.sizes[map->group[i]]++;
	if (!err)
		err = goal->hosts > map->count ? -ENOENT : solve_rules(&search, choice);
	free(search.sizes);
	free(search.trial);
	if (err) {
		free(search.best);
		return err;
	}
	qsort(search.best, goal->hosts, sizeof(*search.best), by_number);
	choice->hosts = search.best;
	choice->value = search.value;
	return 0;
}

int place_closest(const struct place_map *map, const struct place_goal *goal,
		  struct place_choice *choice)
{
	struct place_goal any = *goal;
	struct place_map flat = *map;
	int err;

	any.most_ns = 0;
	any.spread = any.pack = false;
	flat.floor_ns = map->upper_ns;
	flat.tier = calloc(map->count * map->count + 1, sizeof(*flat.tier));
	flat.p99_ns = calloc(map->count * map->count + 1, sizeof(*flat.p99_ns));
	err = flat.tier && flat.p99_ns ? place_solve(&flat, &any, choice) : -ENOMEM;
	free(flat.tier);
	free(flat.p99_ns);
	return err;
}

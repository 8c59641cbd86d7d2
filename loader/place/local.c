// SPDX-License-Identifier: BSD-2-Clause
/* Greedy choices and swaps: what the exact search starts from, and keeps where it ends early. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define STARTS_LEAST 32
#define STARTS_EFFORT 100000000u /* hosts compared to grow choices from more of them */
#define IMPROVED 32		 /* of the choices, the best */
#define SWAPS_MOST 500

/* A choice that grows, and what each host would make of it. */
struct draft {
	struct place_search *search;
	size_t *set, count;
	bool *in, *barred;	  /* of each host; barred: may not join one of the set */
	struct place_value *with; /* of each host: the worst of its pairs with the set */
	size_t *of_group, groups_open;
};

static struct place_value worse(struct place_value value, const struct place_map *map, size_t a,
				size_t b)
{
	size_t at = a * map->count + b;

	value.tier = value.tier > map->tier[at] ? value.tier : map->tier[at];
	value.floor_ns = value.floor_ns > map->floor_ns[at] ? value.floor_ns : map->floor_ns[at];
	value.p99_ns = value.p99_ns > map->p99_ns[at] ? value.p99_ns : map->p99_ns[at];
	return value;
}

/* Hosts that fit into the groups that are open with @group, and the largest others. */
static size_t room_with(const struct draft *draft, size_t group)
{
	const struct clique_rule *rule = &draft->search->rule;
	size_t *sizes = calloc(rule->group_count + 1, sizeof(*sizes)), others = 0, room = 0;
	size_t left = rule->groups_most - draft->groups_open - 1;

	for (size_t g = 0; sizes && g < rule->group_count; g++) {
		if (draft->of_group[g] || g == group)
			room += draft->search->sizes[g];
		else
			sizes[others++] = draft->search->sizes[g];
	}
	if (sizes)
		qsort(sizes, others, sizeof(*sizes), map_larger_first);
	for (size_t g = 0; sizes && g < others && g < left; g++)
		room += sizes[g];
	free(sizes);
	return room;
}

/* By the rules on groups. */
static bool fits(const struct draft *draft, size_t host)
{
	const struct clique_rule *rule = &draft->search->rule;
	size_t group = rule->group[host];

	if (rule->group_most && draft->of_group[group] >= rule->group_most)
		return false;
	if (!rule->groups_most || draft->of_group[group])
		return true;
	return draft->groups_open < rule->groups_most && room_with(draft, group) >= rule->want;
}

static void add(struct draft *draft, size_t host)
{
	const struct place_map *map = draft->search->map;

	draft->set[draft->count++] = host;
	draft->in[host] = true;
	draft->groups_open += !draft->of_group[map->group[host]]++;
	for (size_t i = 0; i < map->count; i++) {
		if (i == host)
			continue;
		draft->with[i] = worse(draft->with[i], map, i, host);
		draft->barred[i] |= !search_may_join(draft->search, i, host);
	}
}

static void begin(struct draft *draft)
{
	size_t count = draft->search->map->count;

	memset(draft->in, 0, count * sizeof(*draft->in));
	memset(draft->barred, 0, count * sizeof(*draft->barred));
	memset(draft->with, 0, count * sizeof(*draft->with));
	memset(draft->of_group, 0, draft->search->map->group_count * sizeof(*draft->of_group));
	draft->count = draft->groups_open = 0;
}

/* Always the host that makes it worse by least. Whether there were enough. */
static bool grow(struct draft *draft, size_t start)
{
	size_t count = draft->search->map->count;

	begin(draft);
	for (size_t best = start; best < count;) {
		add(draft, best);
		if (draft->count == draft->search->goal->hosts)
			return true;
		best = count;
		for (size_t i = 0; i < count; i++)
			if (!draft->in[i] && !draft->barred[i] &&
			    (best == count ||
			     value_compare(&draft->with[i], &draft->with[best]) < 0) &&
			    fits(draft, i))
				best = i;
	}
	return false;
}

/* --- swaps --- */

static bool is_swap_allowed(const struct draft *draft, size_t out, size_t in)
{
	const struct clique_rule *rule = &draft->search->rule;
	size_t from = rule->group[draft->set[out]], to = rule->group[in];
	size_t open = draft->groups_open;

	for (size_t i = 0; i < draft->count; i++)
		if (i != out && !search_may_join(draft->search, draft->set[i], in))
			return false;
	if (from == to)
		return true;
	open = open - (draft->of_group[from] == 1) + !draft->of_group[to];
	return (!rule->group_most || draft->of_group[to] < rule->group_most) &&
	       (!rule->groups_most || open <= rule->groups_most);
}

static void swap(struct draft *draft, size_t out, size_t in)
{
	const size_t *group = draft->search->rule.group;

	draft->in[draft->set[out]] = false;
	draft->groups_open -= !--draft->of_group[group[draft->set[out]]];
	draft->in[in] = true;
	draft->groups_open += !draft->of_group[group[in]]++;
	draft->set[out] = in;
}

/* The member whose worst pair is the worst of all. */
static size_t worst_member(const struct draft *draft)
{
	struct place_value worst = {}, here;
	size_t at = 0;

	for (size_t i = 0; i < draft->count; i++) {
		here = (struct place_value){};
		for (size_t k = 0; k < draft->count; k++)
			if (i != k)
				here = worse(here, draft->search->map, draft->set[i],
					     draft->set[k]);
		if (!i || value_compare(&here, &worst) > 0) {
			worst = here;
			at = i;
		}
	}
	return at;
}

/* The best host in place of member @out; map->count: none is better than it. */
static size_t best_instead(const struct draft *draft, size_t out)
{
	const struct place_map *map = draft->search->map;
	struct place_value best = {}, here;
	size_t found = map->count;

	for (size_t k = 0; k < draft->count; k++)
		if (k != out)
			best = worse(best, map, draft->set[out], draft->set[k]);
	for (size_t i = 0; i < map->count; i++) {
		if (draft->in[i])
			continue;
		here = (struct place_value){};
		for (size_t k = 0; k < draft->count && value_compare(&here, &best) < 0; k++)
			if (k != out)
				here = worse(here, map, i, draft->set[k]);
		if (value_compare(&here, &best) < 0 && is_swap_allowed(draft, out, i)) {
			best = here;
			found = i;
		}
	}
	return found;
}

static void improve(struct draft *draft)
{
	for (size_t swaps = 0; swaps < SWAPS_MOST; swaps++) {
		size_t out = worst_member(draft), in = best_instead(draft, out);

		if (in == draft->search->map->count)
			return;
		swap(draft, out, in);
	}
}

static int draft_new(struct draft *draft, struct place_search *search)
{
	size_t count = search->map->count;

	*draft = (struct draft){
		.search = search,
		.set = calloc(search->goal->hosts + 1, sizeof(*draft->set)),
		.in = calloc(count + 1, sizeof(*draft->in)),
		.barred = calloc(count + 1, sizeof(*draft->barred)),
		.with = calloc(count + 1, sizeof(*draft->with)),
		.of_group = calloc(search->map->group_count + 1, sizeof(*draft->of_group))};
	return draft->set && draft->in && draft->barred && draft->with && draft->of_group ? 0
											  : -ENOMEM;
}

static void draft_free(struct draft *draft)
{
	free(draft->set);
	free(draft->in);
	free(draft->barred);
	free(draft->with);
	free(draft->of_group);
}

struct start {
	struct place_value value;
	size_t host;
};

static int by_start(const void *a, const void *b)
{
	const struct start *x = a, *y = b;
	int order = value_compare(&x->value, &y->value);

	return order ? order : (x->host > y->host) - (x->host < y->host);
}

static size_t count_starts(const struct place_search *search)
{
	size_t count = search->map->count;
	size_t most = STARTS_EFFORT / (count * search->goal->hosts + 1);

	most = most > STARTS_LEAST ? most : STARTS_LEAST;
	return count < most ? count : most;
}

/* Choices that grow from as many hosts as the effort allows; swaps improve the best of them. */
int local_search(struct place_search *search)
{
	size_t count = search->map->count, starts = count_starts(search), grown = 0;
	struct start *list = calloc(starts + 1, sizeof(*list));
	struct draft draft;
	int err = draft_new(&draft, search);

	err = list ? err : -ENOMEM;
	for (size_t i = 0; !err && i < starts; i++) {
		if (!grow(&draft, i * count / starts))
			continue;
		search_take(search, draft.set);
		list[grown++] = (struct start){search_value(search, draft.set), i * count / starts};
	}
	if (grown)
		qsort(list, grown, sizeof(*list), by_start);
	for (size_t i = 0; i < grown && i < IMPROVED; i++) {
		grow(&draft, list[i].host);
		improve(&draft);
		search_take(search, draft.set);
	}
	free(list);
	draft_free(&draft);
	return err;
}

/* --- polish --- */

/* Of @host with all members but @out: hops before delay. UINT64_MAX: beyond the value. */
static uint64_t sum_with(const struct draft *draft, size_t host, size_t out)
{
	const struct place_map *map = draft->search->map;
	const struct place_value *most = &draft->search->value;
	uint64_t sum = 0;

	for (size_t k = 0; k < draft->count; k++) {
		size_t at = host * map->count + draft->set[k];

		if (k == out)
			continue;
		if (map->tier[at] > most->tier || map->floor_ns[at] > most->floor_ns ||
		    map->p99_ns[at] > most->p99_ns)
			return UINT64_MAX;
		sum += ((uint64_t)map->tier[at] << 48) + map->floor_ns[at];
	}
	return sum;
}

/* One pass over the members; whether a host was replaced. */
static bool polish_once(struct draft *draft)
{
	bool any = false;

	for (size_t out = 0; out < draft->count; out++) {
		uint64_t least = sum_with(draft, draft->set[out], out), sum;
		size_t best = SIZE_MAX;

		for (size_t i = 0; i < draft->search->map->count; i++) {
			sum = draft->in[i] ? UINT64_MAX : sum_with(draft, i, out);
			if (sum < least && is_swap_allowed(draft, out, i)) {
				least = sum;
				best = i;
			}
		}
		if (best == SIZE_MAX)
			continue;
		swap(draft, out, best);
		any = true;
	}
	return any;
}

int local_polish(struct place_search *search)
{
	struct draft draft;
	int err = draft_new(&draft, search);

	for (size_t i = 0; !err && i < search->goal->hosts; i++)
		add(&draft, search->best[i]);
	for (size_t pass = 0; !err && pass < 10 && polish_once(&draft);)
		pass++;
	if (!err)
		memcpy(search->best, draft.set, search->goal->hosts * sizeof(*draft.set));
	if (!err)
		search->value = search_value(search, search->best);
	draft_free(&draft);
	return err;
}

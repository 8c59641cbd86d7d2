// SPDX-License-Identifier: BSD-2-Clause
/*
 * Cliques of a given size, by branch and bound with colors (Tomita and Seki 2003; in words of bits:
 * San Segundo 2011): vertices of one color have no edges, so a clique has at most one of each.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct clique {
	size_t count, words;
	const struct clique_rule *rule;
	size_t *label;		       /* of the caller, of each vertex */
	uint64_t *edges;	       /* of vertices by descending degree */
	uint64_t *masks;	       /* of each group its vertices */
	size_t *of_group, groups_open; /* taken */
	size_t *taken, depth;
	uint64_t effort;
	bool found, exhausted;
	int err;
};

static bool has_bit(const uint64_t *bits, size_t at)
{
	return bits[at / 64] >> at % 64 & 1;
}

static void set_bit(uint64_t *bits, size_t at)
{
	bits[at / 64] |= 1ull << at % 64;
}

static size_t count_common(const uint64_t *a, const uint64_t *b, size_t words)
{
	size_t count = 0;

	for (size_t i = 0; i < words; i++)
		count += (size_t)__builtin_popcountll(a[i] & b[i]);
	return count;
}

/* --- bounds --- */

/* What is left of @of: each group with its limit. */
static size_t room_of_groups(const struct clique *clique, const uint64_t *of)
{
	size_t room = 0;

	for (size_t g = 0; g < clique->rule->group_count; g++) {
		size_t here = count_common(of, clique->masks + g * clique->words, clique->words);
		size_t left = clique->rule->group_most - clique->of_group[g];

		room += here < left ? here : left;
	}
	return room;
}

/* The groups that are open, and the largest of others. */
static size_t room_of_few(struct clique *clique, const uint64_t *of)
{
	size_t room = 0, others = 0, left = clique->rule->groups_most - clique->groups_open;
	size_t *sizes = calloc(clique->rule->group_count + 1, sizeof(*sizes));

	if (!sizes) {
		clique->err = -ENOMEM;
		return 0;
	}
	for (size_t g = 0; g < clique->rule->group_count; g++) {
		size_t here = count_common(of, clique->masks + g * clique->words, clique->words);

		if (clique->of_group[g])
			room += here;
		else
			sizes[others++] = here;
	}
	qsort(sizes, others, sizeof(*sizes), map_larger_first);
	for (size_t g = 0; g < others && g < left; g++)
		room += sizes[g];
	free(sizes);
	return room;
}

/* How many of @of may be taken at most, by the rules on groups. */
static size_t room_in(struct clique *clique, const uint64_t *of)
{
	if (clique->rule->group_most)
		return room_of_groups(clique, of);
	if (clique->rule->groups_most)
		return room_of_few(clique, of);
	return SIZE_MAX / 2;
}

/* @order: the vertices of @of by color; @colors: the number of each one's color, from 1. */
static void color(struct clique *clique, const uint64_t *of, uint32_t *order, uint32_t *colors,
		  uint64_t *scratch)
{
	uint64_t *left = scratch, *now = scratch + clique->words;
	size_t count = 0, words = clique->words, first = 0;
	uint32_t number = 0;

	memcpy(left, of, words * sizeof(*left));
	for (;;) {
		while (first < words && !left[first])
			first++;
		if (first == words)
			return;
		number++;
		memcpy(now, left, words * sizeof(*now));
		for (size_t w = first; w < words; w++)
			while (now[w]) {
				size_t at = w * 64 + (size_t)__builtin_ctzll(now[w]);
				const uint64_t *edges = clique->edges + at * words;

				left[w] &= ~(1ull << at % 64);
				now[w] &= ~(1ull << at % 64);
				for (size_t k = w; k < words; k++)
					now[k] &= ~edges[k];
				order[count] = (uint32_t)at;
				colors[count++] = number;
			}
	}
}

/* --- search --- */

static void take(struct clique *clique, size_t vertex)
{
	size_t group = clique->rule->group[clique->label[vertex]];

	clique->taken[clique->depth++] = clique->label[vertex];
	clique->groups_open += !clique->of_group[group]++;
}

static void give_back(struct clique *clique, size_t vertex)
{
	size_t group = clique->rule->group[clique->label[vertex]];

	clique->depth--;
	clique->groups_open -= !--clique->of_group[group];
}

/* What may follow @vertex, which was taken, of @of. */
static void restrict_to(const struct clique *clique, size_t vertex, const uint64_t *of,
			uint64_t *next)
{
	const struct clique_rule *rule = clique->rule;
	size_t words = clique->words, group = rule->group[clique->label[vertex]];

	for (size_t w = 0; w < words; w++)
		next[w] = of[w] & clique->edges[vertex * words + w];
	if (rule->group_most && clique->of_group[group] == rule->group_most)
		for (size_t w = 0; w < words; w++)
			next[w] &= ~clique->masks[group * words + w];
	if (rule->groups_most && clique->groups_open == rule->groups_most)
		for (size_t g = 0; g < rule->group_count; g++)
			if (!clique->of_group[g])
				for (size_t w = 0; w < words; w++)
					next[w] &= ~clique->masks[g * words + w];
}

/* Whether there is anything to search below. */
static bool is_over(const struct clique *clique)
{
	return clique->found || clique->exhausted || clique->err;
}

/* Extends what is taken by vertices of @of, which is used up. */
static void extend(struct clique *clique, uint64_t *of)
{
	size_t count = count_common(of, of, clique->words), want = clique->rule->want;
	uint32_t *order;
	uint64_t *next;

	if (clique->depth == want) {
		clique->found = true;
		return;
	}
	if (clique->depth + count < want || clique->depth + room_in(clique, of) < want)
		return;
	if (clique->effort < (count + 1) * clique->words) {
		clique->exhausted = true;
		return;
	}
	clique->effort -= (count + 1) * clique->words;
	order = calloc(2 * count + 1, sizeof(*order));
	next = calloc(2 * clique->words, sizeof(*next));
	if (!order || !next) {
		clique->err = -ENOMEM;
		goto out;
	}
	color(clique, of, order, order + count, next);
	for (size_t k = count; k-- > 0 && !is_over(clique);) {
		if (clique->depth + order[count + k] < want)
			break;
		take(clique, order[k]);
		restrict_to(clique, order[k], of, next);
		extend(clique, next);
		if (!clique->found)
			give_back(clique, order[k]);
		of[order[k] / 64] &= ~(1ull << order[k] % 64);
	}
out:
	free(order);
	free(next);
}

/* --- preparation --- */

struct ranked {
	size_t vertex, degree;
};

static int by_degree(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->degree != y->degree)
		return x->degree < y->degree ? 1 : -1;
	return (x->vertex > y->vertex) - (x->vertex < y->vertex);
}

/* Without vertices that have fewer edges than a clique needs, again until all have: by degree. */
static size_t peel(const uint64_t *edges, size_t count, size_t want, struct ranked *ranked,
		   uint64_t *alive)
{
	size_t words = CLIQUE_WORDS(count), left = 0;
	bool again = true;

	for (size_t i = 0; i < count; i++)
		set_bit(alive, i);
	while (again) {
		again = false;
		for (size_t i = 0; i < count; i++) {
			if (!has_bit(alive, i))
				continue;
			ranked[i].degree = count_common(alive, edges + i * words, words);
			if (ranked[i].degree + 1 >= want)
				continue;
			alive[i / 64] &= ~(1ull << i % 64);
			again = true;
		}
	}
	for (size_t i = 0; i < count; i++)
		if (has_bit(alive, i))
			ranked[left++] = (struct ranked){i, ranked[i].degree};
	qsort(ranked, left, sizeof(*ranked), by_degree);
	return left;
}

/* The subgraph of @ranked, with new numbers. */
static int prepare(struct clique *clique, const uint64_t *edges, size_t words,
		   const struct ranked *ranked)
{
	size_t count = clique->count, groups = clique->rule->group_count;

	clique->words = CLIQUE_WORDS(count);
	clique->label = calloc(count + 1, sizeof(*clique->label));
	clique->taken = calloc(clique->rule->want + 1, sizeof(*clique->taken));
	clique->of_group = calloc(groups + 1, sizeof(*clique->of_group));
	clique->edges = calloc(count * clique->words + 1, sizeof(*clique->edges));
	clique->masks = calloc(groups * clique->words + 1, sizeof(*clique->masks));
	if (!clique->label || !clique->taken || !clique->of_group || !clique->edges ||
	    !clique->masks)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const uint64_t *old = edges + ranked[i].vertex * words;

		clique->label[i] = ranked[i].vertex;
		set_bit(clique->masks + clique->rule->group[ranked[i].vertex] * clique->words, i);
		for (size_t k = 0; k < count; k++)
			if (has_bit(old, ranked[k].vertex))
				set_bit(clique->edges + i * clique->words, k);
	}
	return 0;
}

/* With no effort to search: do the rules on groups and the colors exclude it? */
static bool is_excluded(struct clique *clique, const uint64_t *all)
{
	uint32_t *order = calloc(2 * clique->count + 1, sizeof(*order));
	uint64_t *scratch = calloc(2 * clique->words + 1, sizeof(*scratch));
	bool excluded = room_in(clique, all) < clique->rule->want;

	if (order && scratch) {
		color(clique, all, order, order + clique->count, scratch);
		excluded |= order[2 * clique->count - 1] < clique->rule->want;
	} else {
		clique->err = -ENOMEM;
	}
	free(order);
	free(scratch);
	return excluded;
}

static int run(struct clique *clique, size_t *found)
{
	uint64_t *all = calloc(clique->words + 1, sizeof(*all));
	bool excluded;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < clique->count; i++)
		set_bit(all, i);
	excluded = is_excluded(clique, all);
	if (!excluded && clique->effort)
		extend(clique, all);
	free(all);
	if (clique->err)
		return clique->err;
	if (excluded)
		return CLIQUE_NONE;
	if (clique->found)
		memcpy(found, clique->taken, clique->rule->want * sizeof(*found));
	return clique->found			      ? CLIQUE_FOUND
	       : clique->exhausted || !clique->effort ? CLIQUE_UNDECIDED
						      : CLIQUE_NONE;
}

int clique_find(const uint64_t *edges, size_t count, const struct clique_rule *rule,
		uint64_t effort, size_t *found)
{
	struct clique clique = {.rule = rule, .effort = effort};
	struct ranked *ranked = calloc(count + 1, sizeof(*ranked));
	uint64_t *alive = calloc(CLIQUE_WORDS(count) + 1, sizeof(*alive));
	int answer = ranked && alive ? CLIQUE_NONE : -ENOMEM;

	if (!answer)
		clique.count = peel(edges, count, rule->want, ranked, alive);
	if (!answer && clique.count >= rule->want) {
		answer = prepare(&clique, edges, CLIQUE_WORDS(count), ranked);
		answer = answer ? answer : run(&clique, found);
	}
	free(ranked);
	free(alive);
	free(clique.label);
	free(clique.taken);
	free(clique.of_group);
	free(clique.edges);
	free(clique.masks);
	return answer;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef ESC_PLACE_INTERNAL_H
#define ESC_PLACE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "place.h"
#include "topo/topo.h"

#define PLACE_HOSTS_MAX 4096
#define PLACE_UNKNOWN UINT32_MAX /* a floor that was neither measured nor can be estimated */

/* --- map.c: hosts and what is between each two of them --- */

enum place_tier { PLACE_LEAF, PLACE_POD, PLACE_CORE };

/* Matrices of @count by @count, symmetric. Delays are two-way, of the worst rail, in ns. */
struct place_map {
	size_t count;
	uint32_t *floor_ns; /* PLACE_UNKNOWN */
	uint32_t *upper_ns; /* with the bound of its error */
	uint32_t *p99_ns;   /* 0: not known */
	uint8_t *tier;	    /* enum place_tier; without a tree all are PLACE_LEAF */
	bool *estimated;    /* on one rail or more by the tree, not measured */
	size_t *group;	    /* hosts that share their leaf on every rail */
	size_t group_count;
};

struct place_map *map_new(size_t count);
void map_free(struct place_map *map);
/* For qsort() of size_t. */
int map_larger_first(const void *a, const void *b);

/* --- hosts.c: from a topology --- */

struct place_hosts {
	const struct topo *topo;
	struct place_map *map;
	const char **names; /* of the candidates, in order; of @topo */
	size_t *first_nic;
	json_t *left_out; /* [{"host": , "reason": }] */
	bool tree;	  /* a leaf is known */
};

/* @topo is borrowed. -ENOMEM, or -E2BIG with *@error. */
int hosts_of_topo(struct place_hosts *fleet, const struct topo *topo, char **error);
void hosts_free(struct place_hosts *fleet);

/* --- clique.c --- */

struct clique_rule {
	size_t want;
	const size_t *group; /* of each vertex */
	size_t group_count;
	size_t group_most;  /* vertices of one group; 0: any number */
	size_t groups_most; /* groups; 0: any number */
};

enum clique_answer { CLIQUE_NONE, CLIQUE_FOUND, CLIQUE_UNDECIDED };

#define CLIQUE_WORDS(count) (((count) + 63) / 64)

/*
 * Are there @rule->want vertices of @count that all have edges to each other? @edges has
 * CLIQUE_WORDS(count) words for each vertex, symmetric, without loops. @effort limits the words
 * that are examined, 0: what degrees and colors show, no search. @found has room for
 * @rule->want vertices. An enum clique_answer, or -ENOMEM.
 */
int clique_find(const uint64_t *edges, size_t count, const struct clique_rule *rule,
		uint64_t effort, size_t *found);

/* --- search.c --- */

struct place_goal {
	size_t hosts;
	uint64_t most_ns; /* of upper_ns; 0: any */
	bool spread, pack, same_leaf;
};

/* Compared member by member, in this order. */
struct place_value {
	unsigned int tier;
	uint32_t floor_ns, p99_ns; /* of the worst pair */
};

struct place_choice {
	size_t *hosts; /* goal.hosts of them, ascending */
	struct place_value value;
	uint32_t least_ns; /* no choice of this tier has a lower worst floor */
	bool exact;	   /* no choice is better; else it is not known whether one is */
	bool tier_exact, floor_exact;
	struct clique_rule rule; /* as it was satisfied */
};

struct place_search {
	const struct place_map *map;
	const struct place_goal *goal;
	struct clique_rule rule;
	size_t *sizes; /* of groups */
	bool has_best;
	size_t *best, *trial;
	struct place_value value;
};

bool search_may_join(const struct place_search *search, size_t a, size_t b);
int value_compare(const struct place_value *a, const struct place_value *b);
struct place_value search_value(const struct place_search *search, const size_t *set);
/* Takes @set when it is better than the best. */
void search_take(struct place_search *search, const size_t *set);

/*
 * 0; -ENOENT: there is no such choice; -EAGAIN: none was found, and none could be excluded;
 * -ENOMEM. The caller frees choice->hosts.
 */
int place_solve(const struct place_map *map, const struct place_goal *goal,
		struct place_choice *choice);
/* The choice with the least worst upper_ns, whatever its tier: what a limit would have to allow. */
int place_closest(const struct place_map *map, const struct place_goal *goal,
		  struct place_choice *choice);

/* --- local.c --- */

/* Greedy choices from some starts, each improved by swaps. 0 or -ENOMEM. */
int local_search(struct place_search *search);
/* Swaps that leave the value and take away hops, then delay, of all pairs together. */
int local_polish(struct place_search *search);

/* --- ring.c --- */

/* @hosts in an order in which neighbors, and the last and the first, are near. */
void ring_order(const struct place_map *map, size_t *hosts, size_t count);

#endif

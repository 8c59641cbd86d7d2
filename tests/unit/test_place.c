// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "place/internal.h"
#include "tests/lib/rng.h"

#define GAP_NS 2500.0

static uint64_t date_seed(void)
{
	const char *given = getenv("ESCAPEMENT_SEED");

	return given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) / 86400;
}

/* --- random maps --- */

static void set_pair(struct place_map *map, size_t a, size_t b, unsigned int tier, double floor_ns,
		     double bound_ns, double p99_ns)
{
	for (size_t side = 0; side < 2; side++) {
		size_t at = side ? a * map->count + b : b * map->count + a;

		map->tier[at] = (uint8_t)tier;
		map->floor_ns[at] = (uint32_t)lrint(floor_ns);
		map->upper_ns[at] = (uint32_t)lrint(floor_ns + bound_ns);
		map->p99_ns[at] = (uint32_t)lrint(p99_ns);
	}
}

/* Leaves of @leaf hosts, @pod leaves in a pod; hosts' own parts and noise. */
static struct place_map *draw_map(struct rng *rng, size_t count, size_t leaf, size_t pod)
{
	struct place_map *map = map_new(count);
	double *own_ns = calloc(count + 1, sizeof(*own_ns));

	map->group_count = (count + leaf - 1) / leaf;
	for (size_t i = 0; i < count; i++) {
		map->group[i] = i / leaf;
		own_ns[i] = 3000 + fmax(-2000, 0.4 * GAP_NS * rng_normal(rng));
		for (size_t k = 0; k < i; k++) {
			size_t x = i / leaf, y = k / leaf;
			unsigned int tier = (x != y) + (x / pod != y / pod);
			double floor_ns = own_ns[i] + own_ns[k] + 4000 + tier * GAP_NS +
					  300 * rng_exponential(rng);

			set_pair(map, i, k, tier, floor_ns, 200 * rng_unit(rng),
				 rng_below(rng, 4) ? floor_ns * (1 + rng_unit(rng)) : 0);
		}
	}
	free(own_ns);
	return map;
}

/* --- every choice --- */

struct every {
	struct place_search search;
	bool found;
	size_t level;
	struct place_value value;
};

/* Hosts of the fullest leaf, or leaves; 0: @allowed has what is infeasible. */
static size_t level_of(const struct place_map *map, const struct place_goal *goal,
		       const size_t *set)
{
	size_t of_group[16] = {}, most = 0, open = 0;

	for (size_t i = 0; i < goal->hosts; i++) {
		open += !of_group[map->group[set[i]]]++;
		if (of_group[map->group[set[i]]] > most)
			most = of_group[map->group[set[i]]];
	}
	return goal->spread ? most : goal->pack ? open : 0;
}

static void try_set(struct every *every, const size_t *set)
{
	const struct place_goal *goal = every->search.goal;
	size_t level = level_of(every->search.map, goal, set);
	struct place_value value = search_value(&every->search, set);

	for (size_t i = 0; i < goal->hosts; i++)
		for (size_t k = 0; k < i; k++)
			if (!search_may_join(&every->search, set[i], set[k]))
				return;
	if (every->found && (level > every->level ||
			     (level == every->level && value_compare(&value, &every->value) >= 0)))
		return;
	*every = (struct every){every->search, true, level, value};
}

static void try_all(struct every *every)
{
	const struct place_map *map = every->search.map;
	size_t set[16];

	for (uint32_t bits = 0; bits < 1u << map->count; bits++) {
		size_t count = 0;

		if ((size_t)__builtin_popcount(bits) != every->search.goal->hosts)
			continue;
		for (size_t i = 0; i < map->count; i++)
			if (bits >> i & 1)
				set[count++] = i;
		try_set(every, set);
	}
}

static void compare_with_every(struct rng *rng, uint64_t seed, size_t *solved, size_t *none)
{
	size_t count = 2 + rng_below(rng, 13);
	struct place_map *map = draw_map(rng, count, 1 + rng_below(rng, 5), 1 + rng_below(rng, 3));
	struct place_goal goal = {.hosts = 1 + rng_below(rng, count)};
	struct place_choice choice;
	struct every every = {.search = {.map = map, .goal = &goal}};
	int err;

	goal.spread = !rng_below(rng, 3);
	goal.pack = !goal.spread && !rng_below(rng, 3);
	goal.same_leaf = !goal.spread && !rng_below(rng, 4);
	if (!rng_below(rng, 2))
		goal.most_ns = (uint64_t)(10000 + 8000 * rng_unit(rng));
	try_all(&every);
	err = place_solve(map, &goal, &choice);
	cr_assert_eq(err, every.found ? 0 : -ENOENT, "seed %llu: %d", (unsigned long long)seed,
		     err);
	if (every.found) {
		struct place_value value = search_value(&every.search, choice.hosts);

		cr_assert(choice.exact, "seed %llu", (unsigned long long)seed);
		cr_assert_eq(value_compare(&choice.value, &every.value), 0,
			     "seed %llu: %zu of %zu: tier %u, %u, %u; best %u, %u, %u",
			     (unsigned long long)seed, goal.hosts, count, choice.value.tier,
			     choice.value.floor_ns, choice.value.p99_ns, every.value.tier,
			     every.value.floor_ns, every.value.p99_ns);
		cr_assert_eq(value_compare(&value, &every.value), 0, "what is said of it is true");
		cr_assert_eq(level_of(map, &goal, choice.hosts), every.level);
		for (size_t i = 0; i < goal.hosts; i++)
			for (size_t k = 0; k < i; k++)
				cr_assert(search_may_join(&every.search, choice.hosts[i],
							  choice.hosts[k]));
		free(choice.hosts);
		++*solved;
	} else {
		++*none;
	}
	map_free(map);
}

#ifdef __SANITIZE_ADDRESS__
#define DRAWS 60
#define MANY 200
#define SCATTERED 60
#else
#define DRAWS 400
#define MANY 1000
#define SCATTERED 1000
#endif

Test(place, equals_the_best_of_all_choices)
{
	size_t solved = 0, none = 0;
	struct rng rng;

	for (uint64_t seed = date_seed(), i = 0; i < DRAWS; i++) {
		rng_seed(&rng, seed * 1000 + i);
		compare_with_every(&rng, seed * 1000 + i, &solved, &none);
	}
	fprintf(stderr,
		"# seed %llu: %zu choices equal to the best of all, %zu that do not exist\n",
		(unsigned long long)date_seed(), solved, none);
	cr_expect_gt(solved, DRAWS / 2);
	cr_expect_gt(none, 0);
}

/* --- many hosts --- */

/* The worst floor of a random choice, and of one that always takes the nearest to all taken. */
static uint32_t by_lot(const struct place_search *search, struct rng *rng)
{
	size_t count = search->map->count, *all = calloc(count, sizeof(*all));
	struct place_value value;

	for (size_t i = 0; i < count; i++)
		all[i] = i;
	for (size_t i = 0; i < search->goal->hosts; i++) {
		size_t other = i + rng_below(rng, count - i), kept = all[i];

		all[i] = all[other];
		all[other] = kept;
	}
	value = search_value(search, all);
	free(all);
	return value.floor_ns;
}

static struct place_value greedy(const struct place_search *search, size_t start)
{
	size_t count = search->map->count, *set = calloc(count, sizeof(*set)), size = 1;
	uint32_t *far = calloc(count, sizeof(*far));
	struct place_value value;

	set[0] = start;
	for (; size < search->goal->hosts; size++) {
		size_t best = SIZE_MAX;

		for (size_t i = 0; i < count; i++) {
			uint32_t floor_ns = search->map->floor_ns[i * count + set[size - 1]];

			far[i] = i == set[size - 1]  ? UINT32_MAX
				 : floor_ns > far[i] ? floor_ns
						     : far[i];
			if (far[i] != UINT32_MAX && (best == SIZE_MAX || far[i] < far[best]))
				best = i;
		}
		set[size] = best;
	}
	value = search_value(search, set);
	free(set);
	free(far);
	return value;
}

/* Any delay between any two: nothing that a search could use. */
static struct place_map *draw_scattered(struct rng *rng, size_t count)
{
	struct place_map *map = map_new(count);

	map->group_count = 1;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < i; k++)
			set_pair(map, i, k, 0, 5000 + 10000 * rng_unit(rng), 0, 0);
	return map;
}

static void compare_many(struct rng *rng, struct place_map *map, size_t hosts)
{
	struct place_goal goal = {.hosts = hosts};
	struct place_search search = {.map = map, .goal = &goal};
	struct place_choice choice;
	struct place_value best = {PLACE_CORE + 1, 0, 0}, one;
	struct timespec begun, done;
	uint64_t lots = 0;

	for (size_t i = 0; i < 20; i++) {
		lots += by_lot(&search, rng);
		one = greedy(&search, rng_below(rng, map->count));
		if (value_compare(&one, &best) < 0)
			best = one;
	}
	clock_gettime(CLOCK_MONOTONIC, &begun);
	cr_assert_eq(place_solve(map, &goal, &choice), 0);
	clock_gettime(CLOCK_MONOTONIC, &done);
	fprintf(stderr,
		"# %zu of %zu hosts, one-way floor of the worst pair: at random %.2f us, best of "
		"20 "
		"greedy %.2f us (tier %u), chosen %.2f us (tier %u), none below %.2f us%s; %.2f "
		"s\n",
		hosts, map->count, (double)lots / 20 / 2e3, best.floor_ns / 2e3, best.tier,
		choice.value.floor_ns / 2e3, choice.value.tier, choice.least_ns / 2e3,
		choice.exact ? ", exact" : "",
		(double)(done.tv_sec - begun.tv_sec) +
			(double)(done.tv_nsec - begun.tv_nsec) / 1e9);
	one = search_value(&search, choice.hosts);
	cr_expect_eq(value_compare(&one, &choice.value), 0);
	cr_expect_leq(value_compare(&choice.value, &best), 0, "worse than greedy");
	cr_expect_lt(choice.value.floor_ns, lots / 20);
	cr_expect_leq(choice.least_ns, choice.value.floor_ns);
	free(choice.hosts);
	map_free(map);
}

Test(place, many_hosts)
{
	static const size_t sizes[] = {16, 64, 200};
	struct rng rng;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && sizes[i] < MANY; i++) {
		rng_seed(&rng, date_seed() + i);
		compare_many(&rng, draw_map(&rng, MANY, 32, 8), sizes[i]);
	}
}

Test(place, many_hosts_without_order)
{
	struct rng rng;

	rng_seed(&rng, date_seed());
	compare_many(&rng, draw_scattered(&rng, SCATTERED), SCATTERED / 16);
}

static bool is_clique(const uint64_t *edges, const size_t *set, size_t size)
{
	for (size_t i = 0; i < size; i++)
		for (size_t k = 0; k < i; k++)
			if (!(edges[set[i]] >> set[k] & 1))
				return false;
	return true;
}

static bool has_clique(const uint64_t *edges, size_t count, size_t want)
{
	size_t set[16];

	for (uint32_t bits = 0; bits < 1u << count; bits++) {
		size_t size = 0;

		for (size_t i = 0; i < count; i++)
			if (bits >> i & 1)
				set[size++] = i;
		if (size == want && is_clique(edges, set, want))
			return true;
	}
	return false;
}

/* Without a search nothing is excluded that there is; with one every question is answered. */
Test(place, cliques_of_graphs_by_lot)
{
	static const size_t group[16] = {};
	size_t excluded = 0, none = 0;
	struct rng rng;

	rng_seed(&rng, date_seed());
	for (size_t draw = 0; draw < 400; draw++) {
		size_t count = 2 + rng_below(&rng, 10), found[16];
		struct clique_rule rule = {
			.want = 1 + rng_below(&rng, count), .group = group, .group_count = 1};
		uint64_t edges[16] = {};
		bool has;
		int quick, full;

		for (size_t i = 0; i < count; i++)
			for (size_t k = 0; k < i; k++)
				if (rng_below(&rng, 10) < 6) {
					edges[i] |= 1ull << k;
					edges[k] |= 1ull << i;
				}
		has = has_clique(edges, count, rule.want);
		quick = clique_find(edges, count, &rule, 0, found);
		full = clique_find(edges, count, &rule, UINT64_MAX, found);
		cr_assert_neq(quick, CLIQUE_FOUND);
		cr_assert(!has || quick == CLIQUE_UNDECIDED, "excluded, though it is there");
		cr_assert_eq(full, has ? CLIQUE_FOUND : CLIQUE_NONE);
		cr_assert(!has || is_clique(edges, found, rule.want));
		none += !has;
		excluded += quick == CLIQUE_NONE;
	}
	cr_expect_gt(excluded, 0);
	cr_expect_gt(none, excluded, "some need a search");
}

Test(place, ring_visits_leaves_once)
{
	struct place_map *map;
	struct rng rng;
	size_t hosts[24], seen[24] = {}, changes = 0;

	rng_seed(&rng, date_seed());
	map = draw_map(&rng, 24, 4, 3);
	for (size_t i = 0; i < 24; i++)
		hosts[i] = i * 7 % 24;
	ring_order(map, hosts, 24);
	for (size_t i = 0; i < 24; i++) {
		seen[hosts[i]]++;
		changes += map->group[hosts[i]] != map->group[hosts[(i + 1) % 24]];
	}
	for (size_t i = 0; i < 24; i++)
		cr_expect_eq(seen[i], 1);
	cr_expect_eq(changes, 6, "%zu links between leaves", changes);
	map_free(map);
}

/* --- from exports --- */

/* Which peers of the fleet below have what. */
struct fleet {
	size_t hosts, leaf;
	size_t silent; /* it has no export; from 1, 0: none */
	size_t down;   /* all others have it as down; the same */
	json_t *odd;   /* the floor of one pair in each odd_every; NULL */
	size_t odd_every;
	bool front;  /* a front-end NIC in each, all on one leaf, far slower */
	bool sparse; /* pairs of two leaves are measured by their first hosts alone */
};

static double floor_of(const struct fleet *fleet, size_t a, size_t b)
{
	double leaf_ns = a / fleet->leaf == b / fleet->leaf ? 0 : GAP_NS;

	return 6000 + 40.0 * (double)(a % fleet->leaf + b % fleet->leaf) + leaf_ns;
}

static json_t *floor_json(const struct fleet *fleet, size_t a, size_t b)
{
	if (fleet->odd && (a * 13 + b * 7) % fleet->odd_every == 0)
		return json_incref(fleet->odd);
	return json_integer(llrint(floor_of(fleet, a, b)));
}

static json_t *peers_of(const struct fleet *fleet, size_t host)
{
	json_t *peers = json_array();

	for (size_t to = 0; to < fleet->hosts; to++) {
		bool near = to / fleet->leaf == host / fleet->leaf;
		long long floor_ns = llrint(floor_of(fleet, host, to));

		if (to == host ||
		    (fleet->sparse && !near && (to % fleet->leaf > 1 || host % fleet->leaf > 1)))
			continue;
		json_array_append_new(
			peers,
			json_pack("{s:s, s:o, s:s, s:s, s:o, s:s, s:{s:o, s:I}}", "interface",
				  "eth1", "peer", json_sprintf("h%zu", to + 1), "plane", "backend",
				  "rail", "1", "address", json_sprintf("10.1.0.%zu", to + 1),
				  "state", fleet->down == to + 1 ? "down" : "up", "rtt_ns", "min",
				  floor_json(fleet, host, to), "p99", (json_int_t)(2 * floor_ns)));
	}
	return peers;
}

/* The front end is not what a job is chosen by. */
static void add_front(json_t *export, const struct fleet *fleet, size_t host)
{
	json_t *replies = json_object_get(export, "replies");
	json_t *status = json_object_get(json_object_get(replies, "status"), "probing");
	json_t *peers = json_object_get(json_object_get(replies, "peers"), "peers");

	json_array_append_new(json_object_get(status, "planes"),
			      json_pack("{s:s, s:[{s:s, s:o}]}", "plane", "frontend", "nics",
					"interface", "eth0", "address",
					json_sprintf("10.9.0.%zu", host + 1)));
	for (size_t to = 0; to < fleet->hosts; to++)
		if (to != host)
			json_array_append_new(
				peers,
				json_pack("{s:s, s:o, s:s, s:o, s:s, s:{s:I}}", "interface", "eth0",
					  "peer", json_sprintf("h%zu", to + 1), "plane", "frontend",
					  "address", json_sprintf("10.9.0.%zu", to + 1), "state",
					  "up", "rtt_ns", "min", (json_int_t)(90000 - 100 * to)));
}

/* All exports in one file; its name. */
static char *write_exports(const struct fleet *fleet)
{
	static char path[] = "/tmp/test_place.XXXXXX";
	FILE *out;

	strcpy(path + sizeof(path) - 7, "XXXXXX");
	out = fdopen(mkstemp(path), "w");
	for (size_t i = 0; i < fleet->hosts; i++) {
		json_t *export;

		if (fleet->silent == i + 1)
			continue;
		export = json_pack(
			"{s:s, s:i, s:i, s:o, s:{s:{s:{s:[{s:s, s:[{s:s, s:s, s:o}]}]}}, "
			"s:{s:o}}}",
			"format", "escapement-report", "version", 1, "time_ns", 1, "host",
			json_sprintf("h%zu", i + 1), "replies", "status", "probing", "planes",
			"plane", "backend", "nics", "interface", "eth1", "rail", "1", "address",
			json_sprintf("10.1.0.%zu", i + 1), "peers", "peers", peers_of(fleet, i));
		cr_assert(export);
		if (fleet->front)
			add_front(export, fleet, i);
		json_dumpf(export, out, 0);
		fputc('\n', out);
		json_decref(export);
	}
	fclose(out);
	return path;
}

/* @options: a JSON object. The result, or NULL with what was said in *@error. */
static json_t *place(const struct fleet *fleet, size_t hosts, const char *options, char **error)
{
	char *path = write_exports(fleet);
	json_t *args = json_loads(options, 0, NULL), *result;
	int exit;

	json_object_set_new(args, "hosts", json_integer((json_int_t)hosts));
	json_object_set_new(args, "from", json_pack("[s]", path));
	*error = NULL;
	result = place_verbs.verbs[0].run(args, &exit, error);
	cr_assert_eq(result == NULL, *error != NULL);
	json_decref(args);
	unlink(path);
	return result;
}

Test(place, from_exports)
{
	struct fleet fleet = {.hosts = 16, .leaf = 4};
	char *error;
	json_t *result = place(&fleet, 4, "{}", &error);

	cr_assert(result, "%s", error);
	cr_expect_str_eq(json_text(result, "within"), "one leaf");
	cr_expect_eq(json_count(result, "leaf_groups"), 1);
	cr_expect_str_eq(json_text(result, "node_list"), "h[1-4]");
	cr_expect_str_eq(json_text(result, "release_list"), "h[5-16]");
	cr_expect_eq(json_count(result, "worst_owd_ns"), (6000 + 40 * 5) / 2);
	cr_expect_eq(json_count(result, "worst_two_way_p99_ns"), 2 * (6000 + 40 * 5));
	cr_expect(json_is_true(json_object_get(result, "exact")));
	json_decref(result);
	/* Of two leaves those that add the least. */
	result = place(&fleet, 4, "{\"spread\": true}", &error);
	cr_assert(result, "%s", error);
	cr_expect_str_eq(json_text(result, "node_list"), "h[1,5,9,13]");
	json_decref(result);
	result = place(&fleet, 6, "{\"pack\": true}", &error);
	cr_assert(result, "%s", error);
	cr_expect_eq(json_count(result, "leaf_groups"), 2);
	json_decref(result);
}

Test(place, front_end_does_not_count)
{
	struct fleet fleet = {.hosts = 16, .leaf = 4, .front = true};
	char *error;
	json_t *result = place(&fleet, 4, "{}", &error);

	cr_assert(result, "%s", error);
	cr_expect_str_eq(json_text(result, "node_list"), "h[1-4]");
	cr_expect_eq(json_count(result, "worst_owd_ns"), (6000 + 40 * 5) / 2);
	cr_expect_eq(json_count(result, "pairs_estimated"), 0);
	json_decref(result);
}

Test(place, formats)
{
	struct fleet fleet = {.hosts = 16, .leaf = 4};
	char *error;
	json_t *result = place(&fleet, 2, "{\"slurm\": true}", &error);

	cr_assert(result, "%s", error);
	cr_expect_str_eq(json_text(result, "text"), "h[1-2]");
	json_decref(result);
	result = place(&fleet, 2, "{\"hostfile\": true}", &error);
	cr_expect_str_eq(json_text(result, "text"), "h1\nh2");
	json_decref(result);
	result = place(&fleet, 2, "{\"ranks\": true}", &error);
	cr_expect_str_eq(json_text(result, "text"), "rank 0=h1 slot=0\nrank 1=h2 slot=0");
	json_decref(result);
}

Test(place, left_out)
{
	struct fleet fleet = {.hosts = 16, .leaf = 4, .silent = 1, .down = 6};
	char *error;
	json_t *result = place(&fleet, 14, "{}", &error);

	cr_assert(result, "%s", error);
	cr_expect_str_eq(json_text(result, "node_list"), "h[2-5,7-16]");
	cr_expect_str_eq(json_text(result, "release_list"), "h[1,6]");
	cr_expect_eq(json_array_size(json_object_get(result, "left_out")), 2);
	json_decref(result);
	result = place(&fleet, 15, "{}", &error);
	cr_expect_null(result);
	cr_expect(error &&
			  strstr(error, "15 hosts are asked for, 14 can be chosen; 2 are left out: "
					"h1 (no export"),
		  "%s", error);
	free(error);
}

Test(place, estimates_what_was_not_measured)
{
	struct fleet fleet = {.hosts = 16, .leaf = 4, .sparse = true};
	char *error;
	json_t *result = place(&fleet, 12, "{}", &error);

	cr_assert(result, "%s", error);
	cr_expect_str_eq(json_text(result, "within"), "several pods");
	cr_expect_gt(json_count(result, "pairs_estimated"), 0);
	cr_expect_gt(json_count(result, "pairs_measured"), 0);
	cr_expect_eq(json_count(result, "pairs_measured") + json_count(result, "pairs_estimated"),
		     66);
	json_decref(result);
}

static void expect_error(const struct fleet *fleet, size_t hosts, const char *options,
			 const char *text)
{
	char *error;

	cr_expect_null(place(fleet, hosts, options, &error));
	cr_expect(error && strstr(error, text), "%s", error);
	free(error);
}

/* Numbers that no fabric has, in every place of the exports. */
Test(place, numbers_out_of_range)
{
	static const char *const numbers[] = {
		"1e300", "-1e300", "1e-300", "9223372036854775807", "-1", "0", "4294967295000"};
	struct fleet fleet = {.hosts = 12, .leaf = 4};
	size_t results = 0;

	for (size_t which = 0; which < sizeof(numbers) / sizeof(*numbers); which++)
		for (size_t every = 1; every < 12; every += 5) {
			char *error;
			json_t *result;

			fleet.odd = json_loads(numbers[which], JSON_DECODE_ANY, NULL);
			fleet.odd_every = every;
			result = place(&fleet, 3, "{}", &error);
			results += result != NULL;
			if (result)
				cr_expect_eq(json_array_size(json_object_get(result, "hosts")), 3);
			free(error);
			json_decref(result);
			json_decref(fleet.odd);
		}
	cr_expect_gt(results, 0);
}

Test(place, what_cannot_be_had)
{
	struct fleet fleet = {.hosts = 16, .leaf = 4}, flat = {.hosts = 8, .leaf = 8};

	expect_error(
		&fleet, 8, "{\"max_owd_ns\": 3500}",
		"there are no 8 hosts within 3.5us of each other: the closest choice has up to "
		"4.29us between h");
	expect_error(&fleet, 5, "{\"same_rail\": true}",
		     "no 5 hosts share their leaf on every rail: at most 4 do");
	expect_error(&fleet, 17, "{}", "17 hosts are asked for, these exports have 16");
	expect_error(&fleet, 4, "{\"same_rail\": true, \"spread\": true}", "contradicts");
	expect_error(&flat, 4, "{\"pack\": true}", "no leaf is known");
}

Test(place, files_that_are_no_exports)
{
	json_t *args = json_pack("{s:i, s:[s]}", "hosts", 2, "from", "/nonexistent");
	char *error = NULL, path[] = "/tmp/test_place.XXXXXX";
	FILE *out;
	int exit;

	close(mkstemp(path));
	cr_expect_null(place_verbs.verbs[0].run(args, &exit, &error));
	cr_expect(error && strstr(error, "/nonexistent"), "%s", error);
	free(error);
	error = NULL;
	cr_assert((out = fopen(path, "w")));
	fputs("{\n\"format\": ", out);
	fclose(out);
	json_object_set_new(args, "from", json_pack("[s]", path));
	cr_expect_null(place_verbs.verbs[0].run(args, &exit, &error));
	cr_expect(error && strstr(error, path) && strstr(error, "line 2: not JSON"), "%s", error);
	unlink(path);
	free(error);
	json_decref(args);
}

// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "tests/lib/rng.h"
#include "topo/internal.h"

#define GAP_NS 2500.0

/* A fabric of three tiers, its NICs' own delays and floors with noise. */
struct world {
	struct topo *topo;
	struct rng rng;
	size_t racks, rack_hosts, rack_of_pod;
	double *own_ns, noise_ns, bound_ns;
};

static size_t rack_of(const struct world *world, size_t nic)
{
	return nic / world->rack_hosts;
}

static double path_ns(const struct world *world, size_t a, size_t b)
{
	size_t x = rack_of(world, a), y = rack_of(world, b);

	return 4000 + (x != y) * GAP_NS +
	       (x / world->rack_of_pod != y / world->rack_of_pod) * GAP_NS;
}

/* A floor is the least of several passages: noise adds to it. */
static void measure(struct world *world, size_t a, size_t b)
{
	double floor_ns = world->own_ns[a] + world->own_ns[b] + path_ns(world, a, b);

	topo_add_pair(world->topo, a, b, floor_ns + world->noise_ns * rng_exponential(&world->rng),
		      world->bound_ns, false);
}

static void build(struct world *world, double host_ns)
{
	size_t nics = world->racks * world->rack_hosts;
	char address[32], host[32];

	world->topo = topo_new();
	world->own_ns = calloc(nics, sizeof(double));
	for (size_t i = 0; i < nics; i++) {
		snprintf(address, sizeof(address), "10.%zu.%zu.%zu", i >> 16, i >> 8 & 255,
			 i & 255);
		snprintf(host, sizeof(host), "h%zu", i);
		cr_assert_eq(topo_nic(world->topo, address, host, "eth1", "backend", "1"), i);
		world->own_ns[i] = 3000 + fmax(-2000, host_ns * rng_normal(&world->rng));
	}
}

static void end(struct world *world)
{
	topo_free(world->topo);
	free(world->own_ns);
}

/* NICs whose leaf is not exactly their rack. */
static size_t count_wrong(const struct world *world, bool pods)
{
	size_t nics = world->topo->nic_count, wrong = 0;
	size_t *of_rack = calloc(nics + 1, sizeof(*of_rack)),
	       *sizes = calloc(nics + 1, sizeof(*sizes));
	size_t divide = pods ? world->rack_hosts * world->rack_of_pod : world->rack_hosts;

	for (size_t i = 0; i < nics; i++) {
		const struct topo_nic *nic = &world->topo->nics[i];
		size_t group = pods ? nic->pod : nic->leaf;

		if (group != TOPO_NONE && ++sizes[group] && !of_rack[i / divide])
			of_rack[i / divide] = group + 1;
	}
	for (size_t i = 0; i < nics; i++) {
		const struct topo_nic *nic = &world->topo->nics[i];
		size_t group = pods ? nic->pod : nic->leaf;

		wrong += group == TOPO_NONE || of_rack[i / divide] != group + 1 ||
			 sizes[group] != divide;
	}
	free(of_rack);
	free(sizes);
	return wrong;
}

static void measure_all(struct world *world)
{
	size_t nics = world->topo->nic_count;

	for (size_t i = 0; i < nics; i++)
		for (size_t k = 0; k < i; k++)
			measure(world, i, k);
}

/* As the mesh and the rotation measure: ten neighbors, the own rack, a pair of each two racks. */
static void measure_fleet(struct world *world)
{
	size_t nics = world->topo->nic_count, size = world->rack_hosts;

	for (size_t i = 0; i < nics; i++) {
		for (size_t k = 0; k < 5; k++)
			measure(world, i, rng_below(&world->rng, nics));
		for (size_t k = rack_of(world, i) * size; k < i; k++)
			measure(world, i, k);
	}
	for (size_t x = 0; x < world->racks; x++)
		for (size_t y = 0; y < x; y++)
			measure(world, x * size + rng_below(&world->rng, size),
				y * size + rng_below(&world->rng, size));
}

static uint64_t date_seed(void)
{
	const char *given = getenv("ESCAPEMENT_SEED");

	return given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) / 86400;
}

/* NICs in a wrong leaf that are not marked. */
static size_t count_deceived(const struct world *world)
{
	size_t deceived = 0, shared, size = world->rack_hosts;

	for (size_t i = 0; i < world->topo->nic_count; i++) {
		const struct topo_nic *nic = &world->topo->nics[i];

		shared = 0;
		for (size_t k = i / size * size; k < (i / size + 1) * size; k++)
			shared += nic->leaf == world->topo->nics[k].leaf;
		deceived += nic->leaf != TOPO_NONE && topo_is_certain(nic) &&
			    (2 * shared <= size || world->topo->leaves[nic->leaf].nics > size);
	}
	return deceived;
}

/* 16 NICs have few pairs each, and the noise of floors is harsh: a fabric in a hundred is not
 * resolved. */
Test(topo, racks_and_pods_by_delays)
{
	size_t exact = 0, fabrics = 100;

	for (uint64_t seed = date_seed(), i = 0; i < fabrics; i++) {
		struct world world = {
			.racks = 4, .rack_hosts = 4, .rack_of_pod = 2, .noise_ns = 200};

		rng_seed(&world.rng, seed + i);
		build(&world, 0.3 * GAP_NS);
		measure_all(&world);
		cr_assert_eq(topo_solve(world.topo), 0);
		exact += !count_wrong(&world, false) && !count_wrong(&world, true);
		cr_expect_eq(count_deceived(&world), 0, "seed %llu: a wrong leaf is not marked",
			     (unsigned long long)(seed + i));
		end(&world);
	}
	fprintf(stderr, "# seed %llu: %zu of %zu fabrics of 16 NICs exact\n",
		(unsigned long long)date_seed(), exact, fabrics);
	cr_expect_geq(exact, fabrics * 95 / 100);
}

/* Sanitizers make it ten times slower. */
#ifdef __SANITIZE_ADDRESS__
#define RACKS 36
#else
#define RACKS 312
#endif

Test(topo, ten_thousand_nics)
{
	struct world world = {.racks = RACKS, .rack_hosts = 32, .rack_of_pod = 12, .noise_ns = 300};
	struct timespec begun, done;
	size_t wrong, pods;

	rng_seed(&world.rng, date_seed());
	build(&world, 0.3 * GAP_NS);
	measure_fleet(&world);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	cr_assert_eq(topo_solve(world.topo), 0);
	clock_gettime(CLOCK_MONOTONIC, &done);
	wrong = count_wrong(&world, false);
	pods = count_wrong(&world, true);
	fprintf(stderr,
		"# %zu NICs, %zu pairs (%zu bytes): %zu in wrong leaves, %zu in wrong pods, %.2f "
		"s\n",
		world.topo->nic_count, world.topo->pair_count,
		world.topo->pair_count * sizeof(struct topo_pair) +
			world.topo->nic_count * sizeof(struct topo_nic),
		wrong, pods,
		(double)(done.tv_sec - begun.tv_sec) +
			(double)(done.tv_nsec - begun.tv_nsec) / 1e9);
	cr_expect_leq(wrong, world.topo->nic_count / 1000);
	cr_expect_leq(pods, world.topo->nic_count / 1000);
	end(&world);
}

static bool has_note(const struct topo *topo, const char *text)
{
	const json_t *note;
	size_t i;

	json_array_foreach (topo->notes, i, note)
		if (strstr(json_text(note, "note"), text))
			return true;
	return false;
}

Test(topo, one_rack_is_flat)
{
	/* Of these the noise of all but the date's has tiers. */
	uint64_t seeds[] = {100, 112, 121, 142, 145, 150, 157, 20261128, date_seed()};

	for (size_t i = 0; i < sizeof(seeds) / sizeof(*seeds); i++) {
		struct world world = {
			.racks = 1, .rack_hosts = 16, .rack_of_pod = 1, .noise_ns = 300};

		rng_seed(&world.rng, seeds[i]);
		build(&world, GAP_NS);
		measure_all(&world);
		cr_assert_eq(topo_solve(world.topo), 0);
		cr_expect_eq(world.topo->leaf_count, 0, "no leaf is guessed");
		cr_expect(has_note(world.topo, "flat"));
		cr_expect(has_note(world.topo, "no leaf is known"));
		end(&world);
	}
}

Test(topo, bounds_wider_than_the_differences)
{
	struct world world = {.racks = 4,
			      .rack_hosts = 4,
			      .rack_of_pod = 2,
			      .noise_ns = 100,
			      .bound_ns = 3 * GAP_NS};

	rng_seed(&world.rng, date_seed());
	build(&world, 300);
	measure_all(&world);
	cr_assert_eq(topo_solve(world.topo), 0);
	cr_expect_eq(world.topo->leaf_count, 0, "what the bounds allow is not shown as a tree");
	cr_expect(has_note(world.topo, "flat"));
	end(&world);
}

/* --- switch replies --- */

/* h1..h4, on leaves 1 1 2 2, each with two uplinks; the addresses are of ports, as in Linux. */
static json_t *export_of(unsigned int host, unsigned int leaf, unsigned int rails)
{
	json_t *paths = json_array(), *pairs = json_array(), *nics = json_array();
	char name[16];

	snprintf(name, sizeof(name), "h%u", host);
	for (unsigned int rail = 1; rail <= rails; rail++) {
		unsigned int on = leaf + 10 * rail;

		json_array_append_new(nics, json_pack("{s:o, s:o, s:o}", "interface",
						      json_sprintf("eth%u", rail), "rail",
						      json_sprintf("%u", rail), "address",
						      json_sprintf("10.%u.0.%u", rail, host)));
		for (unsigned int to = 1; to <= 8; to++) {
			if (to == host)
				continue;
			for (unsigned int spine = 1; spine <= 2; spine++)
				json_array_append_new(
					paths,
					json_pack("{s:o, s:o, s:o, s:[o, o]}", "peer",
						  json_sprintf("h%u", to), "from",
						  json_sprintf("10.%u.0.%u", rail, host), "to",
						  json_sprintf("10.%u.0.%u", rail, to), "hops",
						  json_sprintf("192.%u.%u.1", on, host),
						  json_sprintf("193.%u.%u.1", on, spine)));
		}
	}
	return json_pack("{s:s, s:i, s:s, s:{s:{s:{s:[{s:s, s:o}]}}, s:{s:o, s:o}}}", "format",
			 "escapement-report", "time_ns", 1, "host", name, "replies", "status",
			 "probing", "planes", "plane", "backend", "nics", nics, "paths", "paths",
			 paths, "pairs", pairs);
}

static struct topo *by_switches(const unsigned int leaves[8], unsigned int rails)
{
	struct topo *topo = topo_new();
	char *error = NULL;

	for (unsigned int i = 0; i < 8; i++) {
		json_t *export = export_of(i + 1, leaves[i], rails);

		cr_assert_eq(topo_read(topo, export, &error), 0);
		json_decref(export);
	}
	cr_assert_eq(topo_solve(topo), 0);
	return topo;
}

Test(topo, leaves_by_switch_replies)
{
	static const unsigned int leaves[8] = {1, 1, 2, 2, 3, 3, 4, 4};
	struct topo *topo = by_switches(leaves, 1);
	json_t *json = topo_json(topo);
	const json_t *leaf;
	size_t i;

	cr_expect_eq(topo->leaf_count, 4);
	json_array_foreach (json_object_get(json, "leaves"), i, leaf) {
		cr_expect_eq(json_count(leaf, "nic_count"), 2);
		cr_expect_eq(json_count(leaf, "uplinks"), 2);
		cr_expect_str_eq(json_text(leaf, "by"), "switches");
		cr_expect_null(json_object_get(leaf, "certainty"), "a reply has no probability");
	}
	json_array_foreach (json_object_get(json, "nics"), i, leaf)
		cr_expect(json_is_true(json_object_get(leaf, "certain")));
	json_decref(json);
	topo->nics[0].conflict = true;
	cr_expect_not(topo_is_certain(&topo->nics[0]), "delays show another leaf");
	topo_free(topo);
}

/* Of 8 NICs h1 alone has delays to others: 7 of 28 pairs. */
Test(topo, an_sla_counts_what_was_not_measured)
{
	const struct verb *verb = topo_verbs.verbs;
	json_t *peers = json_array(), *args, *result;
	char *error = NULL;
	int exit = 0;

	while (strcmp(verb->name, "topo sla") != 0)
		verb++;
	for (int to = 2; to <= 8; to++)
		json_array_append_new(peers, json_pack("{s:o, s:o, s:s, s:s, s:s, s:{s:i, s:i}}",
						       "peer", json_sprintf("h%d", to), "address",
						       json_sprintf("10.1.0.%d", to), "interface",
						       "eth1", "plane", "backend", "rail", "1",
						       "rtt_ns", "min", 40000, "floor", 4000));
	args = json_pack("{s:i, s:{s:{s:s, s:{s:[{s:s, s:[{s:s, s:s, s:s}]}]}}, s:{s:o}}}",
			 "max_owd_ns", 8000, "replies", "status", "host", "h1", "probing", "planes",
			 "plane", "backend", "nics", "interface", "eth1", "rail", "1", "address",
			 "10.1.0.1", "peers", "peers", peers);
	cr_assert_not_null(args);
	result = verb->run(args, &exit, &error);
	cr_assert_not_null(result, "%s", error);
	cr_expect_eq(json_count(result, "pairs_checked"), 7);
	cr_expect_eq(json_count(result, "pairs_not_measured"), 21);
	cr_expect_eq(json_count(result, "violation_count"), 0);
	json_decref(result);
	json_decref(args);
}

Test(topo, differs_from_an_earlier_one)
{
	static const unsigned int before[8] = {1, 1, 1, 1, 2, 2, 2, 2};
	static const unsigned int after[8] = {1, 1, 1, 2, 2, 2, 2, 2};
	struct topo *one = by_switches(before, 1), *two = by_switches(after, 1);
	json_t *expected = topo_json(one), *now = topo_json(two), *same, *moved;
	const json_t *changes;

	same = check_diff(expected, expected, NULL);
	moved = check_diff(expected, now, NULL);
	changes = json_object_get(moved, "changes");
	cr_expect_eq(json_array_size(json_object_get(same, "changes")), 0);
	cr_expect_eq(json_array_size(changes), 1);
	cr_expect_str_eq(json_text(json_array_get(changes, 0), "nic"), "h4 eth1");
	cr_expect_str_eq(json_text(json_array_get(changes, 0), "change"),
			 "is on leaf2, was on leaf1: shares it with 0 of 3 NICs of before");
	json_decref(expected);
	json_decref(now);
	json_decref(same);
	json_decref(moved);
	topo_free(one);
	topo_free(two);
}

Test(topo, formats)
{
	static const unsigned int leaves[8] = {1, 1, 2, 2, 3, 3, 4, 4};
	struct topo *topo = by_switches(leaves, 1);
	json_t *json = topo_json(topo);
	char *slurm = text_slurm(json, ""), *ranks = text_ranks(json, "");

	cr_expect(strstr(slurm, "SwitchName=leaf1 Nodes=h[1-2]\n"), "%s", slurm);
	cr_expect(strstr(slurm, "SwitchName=leaf4 Nodes=h[7-8]\n"), "%s", slurm);
	cr_expect(strstr(ranks, "rank 2=h3 slot=0\n"), "%s", ranks);
	free(slurm);
	free(ranks);
	json_decref(json);
	topo_free(topo);
}

/* Of h@host what a run of all pairs has, that ended @age_ns ago; leaves of two. */
static json_t *export_of_run(unsigned int host, double age_ns)
{
	json_t *results = json_array();

	for (unsigned int to = 1; to <= 8; to++)
		if (to != host)
			json_array_append_new(
				results,
				json_pack("{s:o, s:o, s:i, s:i, s:i}", "peer",
					  json_sprintf("h%u", to), "to",
					  json_sprintf("10.1.0.%u", to), "owd_out_ns",
					  (host - 1) / 2 == (to - 1) / 2 ? 4000 : 6500, "owd_in_ns",
					  (host - 1) / 2 == (to - 1) / 2 ? 4000 : 6500, "bound_ns",
					  50));
	return json_pack(
		"{s:s, s:i, s:o, s:{s:{s:I}, s:{s:I, s:i, s:i, s:[{s:s, s:s, s:s, s:o, s:o}]}}}",
		"format", "escapement-report", "time_ns", 1, "host", json_sprintf("h%u", host),
		"replies", "clock", "fabric_ns", (json_int_t)(1e18 + age_ns), "pairs", "run_ns",
		(json_int_t)(1e18 - 7e9), "rounds", 7, "round_ns", 1000000000, "nics", "interface",
		"eth1", "rail", "1", "plane", "backend", "address", json_sprintf("10.1.0.%u", host),
		"results", results);
}

static struct topo *of_runs(double age_ns)
{
	struct topo *topo = topo_new();
	char *error = NULL;

	for (unsigned int host = 1; host <= 8; host++) {
		json_t *export = export_of_run(host, age_ns);

		cr_assert_eq(topo_read(topo, export, &error), 0);
		json_decref(export);
	}
	cr_assert_eq(topo_solve(topo), 0);
	return topo;
}

Test(topo, a_run_of_all_pairs)
{
	struct topo *recent = of_runs(600e9), *old = of_runs(2 * 3600e9);

	cr_expect_eq(recent->pair_count, 28);
	cr_expect_eq(recent->leaf_count, 4);
	for (size_t i = 0; i < recent->pair_count; i++)
		cr_expect_float_eq(recent->pairs[i].bound_ns, 50, 0.1);
	cr_expect_eq(old->pair_count, 0, "cables may have moved since");
	topo_free(recent);
	topo_free(old);
}

/* The second rail becomes the front end, whose NICs have no rail. */
static void make_front(json_t *export)
{
	json_t *status = json_object_get(json_object_get(export, "replies"), "status");
	json_t *planes = json_object_get(json_object_get(status, "probing"), "planes");
	json_t *nics = json_object_get(json_array_get(planes, 0), "nics");
	json_t *nic = json_incref(json_array_get(nics, 1));

	json_object_del(nic, "rail");
	json_array_remove(nics, 1);
	json_array_append_new(planes, json_pack("{s:s, s:[o]}", "plane", "frontend", "nics", nic));
}

Test(topo, formats_have_the_back_end)
{
	static const unsigned int leaves[8] = {1, 1, 2, 2, 3, 3, 4, 4};
	struct topo *topo = topo_new();
	char *error = NULL, *slurm;
	json_t *json, *export;

	for (unsigned int i = 0; i < 8; i++) {
		export = export_of(i + 1, leaves[i], 2);
		make_front(export);
		cr_assert_eq(topo_read(topo, export, &error), 0);
		json_decref(export);
	}
	cr_assert_eq(topo_solve(topo), 0);
	json = topo_json(topo);
	cr_expect_eq(topo->leaf_count, 8);
	slurm = text_slurm(json, "");
	cr_expect(strstr(slurm, ", rail 1\nSwitchName=leaf1 Nodes=h[1-2]\n"), "%s", slurm);
	cr_expect_not(strstr(slurm, "leaf5"), "%s", slurm);
	free(slurm);
	json_decref(json);
	topo_free(topo);
}

Test(topo, names_of_hosts)
{
	json_t *names = json_pack("[s, s, s, s, s, s, s, s]", "n10", "n9", "n08", "n8", "a-1.x",
				  "n09", "a", "n11");
	char *text = topo_fold_names(names);

	cr_expect_str_eq(text, "a,a-1.x,n[08-09,8-11]");
	cr_expect(topo_is_node_name("gpu-7.rack_1"));
	cr_expect_not(topo_is_node_name("a,b"));
	cr_expect_not(topo_is_node_name("-a"));
	cr_expect_not(topo_is_node_name(""));
	cr_expect(names_are_dns("gpu-7.rack1"));
	cr_expect_not(names_are_dns("gpu_7"));
	cr_expect_not(names_are_dns("a..b"));
	cr_expect_not(names_are_dns("A"));
	free(text);
	json_decref(names);
}

/* Without noise the fit leaves differences that are none of switches. */
Test(topo, differences_of_nanoseconds_are_no_tier)
{
	struct world world = {.racks = 1, .rack_hosts = 8, .rack_of_pod = 1};

	rng_seed(&world.rng, date_seed());
	build(&world, 0);
	for (size_t i = 0; i < 8; i++)
		for (size_t k = 0; k < i; k++)
			topo_add_pair(world.topo, i, k, 6000 + 40.0 * (double)(i + k), 0, false);
	cr_assert_eq(topo_solve(world.topo), 0);
	cr_expect_eq(world.topo->leaf_count, 0);
	cr_expect(has_note(world.topo, "flat"));
	end(&world);
}

Test(topo, a_swapped_cable)
{
	static const unsigned int leaves[8] = {1, 1, 1, 1, 2, 2, 2, 2};
	struct topo *topo = by_switches(leaves, 3);
	json_t *json = topo_json(topo), *list;

	cr_expect_eq(topo->leaf_count, 6);
	cr_expect_eq(json_array_size(json_object_get(json, "misplaced")), 0);
	topo->nics[topo_nic(topo, "10.2.0.2", "", "", "", "")].leaf =
		topo->nics[topo_nic(topo, "10.2.0.8", "", "", "", "")].leaf;
	json_decref(json);
	json = topo_json(topo);
	list = json_object_get(json, "misplaced");
	cr_expect_eq(json_array_size(list), 1, "%s", json_dumps(list, 0));
	cr_expect_str_eq(json_text(json_array_get(list, 0), "host"), "h2");
	cr_expect_str_eq(json_text(json_array_get(list, 0), "interface"), "eth2");
	json_decref(json);
	topo_free(topo);
}

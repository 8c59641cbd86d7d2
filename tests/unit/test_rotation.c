// SPDX-License-Identifier: BSD-2-Clause
/* The schedule of probes in turn: who meets whom, when, within which budget; and the racks that it
 * is made of. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "pacing/random.h"
#include "rotation/internal.h"

static uint64_t seed(void)
{
	const char *given = getenv("SEED");
	uint64_t value = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	printf("# SEED=%llu\n", (unsigned long long)value);
	return value;
}

/* --- rounds --- */

Test(rotation, each_meets_every_other_once_and_one_in_a_round)
{
	for (uint32_t n = 0; n <= 33; n++) {
		uint64_t cycle = rotation_cycle(n);
		unsigned char met[33][33] = {};

		for (uint64_t round = 7 * cycle; round < 8 * cycle; round++)
			for (uint32_t i = 0; i < n; i++) {
				uint32_t other = rotation_partner(n, round, i);

				if (other == ROTATION_NONE)
					continue;
				cr_assert(other < n && other != i, "%u of %u meets %u", i, n,
					  other);
				cr_assert_eq(rotation_partner(n, round, other), i);
				met[i][other]++;
			}
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t k = 0; k < n; k++)
				cr_assert_eq(met[i][k], i != k, "%u and %u of %u: %u", i, k, n,
					     met[i][k]);
	}
	cr_expect_eq(rotation_partner(5, 1, 5), ROTATION_NONE);
}

/* --- fleets --- */

struct world {
	struct rotation_plan plan;
	uint32_t racks, ports;
	uint32_t *hosts; /* of each rack */
	uint64_t host_count;
};

static void world_open(struct world *world, uint32_t racks, uint32_t least, uint32_t most,
		       uint32_t ports, uint32_t pps, uint64_t state)
{
	*world = (struct world){.racks = racks, .ports = ports};
	world->hosts = calloc(racks, sizeof(*world->hosts));
	cr_assert(world->hosts);
	for (uint32_t i = 0; i < racks; i++) {
		world->hosts[i] = least + (uint32_t)(pacing_random(&state) % (most - least + 1));
		world->host_count += world->hosts[i];
	}
	rotation_plan_make(&world->plan, pps, ports, world->host_count, racks);
}

/*
 * The slots until each pair of NICs of a rack of @hosts was measured by one end at least. @most:
 * the most measurements of a host in a slot.
 */
static uint64_t near_slots(const struct world *world, uint32_t hosts, uint64_t first,
			   uint32_t *most)
{
	const struct rotation_plan *plan = &world->plan;
	uint32_t count = hosts * world->ports;
	uint64_t cycle = rotation_cycle(count), slot = first;
	uint64_t left = (uint64_t)count * (count - world->ports) / 2;
	unsigned char *met = calloc(count, count);
	uint32_t *here = calloc(hosts, sizeof(*here));

	cr_assert(met && here);
	for (*most = 0; left && slot < first + 20000; slot++) {
		memset(here, 0, hosts * sizeof(*here));
		for (uint32_t i = 0; i < count; i++)
			for (uint64_t k = 0; k < plan->near_rounds && k < cycle; k++) {
				uint64_t round = rotation_near_round(plan, slot);
				uint32_t other = rotation_partner(count, round + k, i);
				uint32_t host = i / world->ports;

				if (other == ROTATION_NONE || other / world->ports == host ||
				    !rotation_near_is_in(plan, slot, round / cycle, i, other) ||
				    here[host] == plan->most)
					continue;
				left -= !met[(size_t)i * count + other];
				met[(size_t)i * count + other] = 1;
				met[(size_t)other * count + i] = 1;
				if (++here[host] > *most)
					*most = here[host];
			}
	}
	free(met);
	free(here);
	return slot - first;
}

/* The same of pairs of racks, measured by one end at least. */
static uint64_t far_slots(const struct world *world, uint64_t first, uint32_t *most)
{
	const struct rotation_plan *plan = &world->plan;
	uint64_t cycle = rotation_cycle(world->racks), slot = first;
	uint64_t left = (uint64_t)world->racks * (world->racks - 1) / 2;
	unsigned char *met = calloc(world->racks, world->racks);

	cr_assert(met);
	for (*most = 0; left && slot < first + 20000; slot++)
		for (uint32_t a = 0; a < world->racks; a++) {
			uint32_t here[64] = {}; /* of each host */

			for (uint64_t k = 0; k < plan->far_rounds && k < cycle; k++) {
				uint64_t round = slot * plan->far_rounds + k;
				uint32_t b = rotation_partner(world->racks, round, a);
				uint32_t host =
					rotation_far_host(round, world->racks, a, world->hosts[a]);
				uint32_t low = a < b ? a : b, high = a < b ? b : a;

				if (b == ROTATION_NONE ||
				    !rotation_far_is_in(plan, round, world->racks, world->hosts[a]))
					continue;
				left -= !met[(size_t)low * world->racks + high];
				met[(size_t)low * world->racks + high] = 1;
				if (++here[host] > *most)
					*most = here[host];
			}
		}
	free(met);
	return slot - first;
}

/* 100,000 hosts with 8 NICs: the time until all is measured is what is shown, within the budget. */
Test(rotation, a_large_fleet_is_measured_in_the_time_that_is_shown)
{
	static const uint32_t budgets[] = {24, 50, 100, 400};
	uint64_t first = seed();

	for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
		struct world world;
		uint32_t near_most, far_most;
		uint64_t near, far;
		double near_s, far_s;

		world_open(&world, 3125, 32, 32, 8, budgets[i], first);
		near = near_slots(&world, 32, first, &near_most);
		far = far_slots(&world, first, &far_most);
		near_s = rotation_near_cycle_s(&world.plan, 256);
		far_s = rotation_far_cycle_s(&world.plan, 3125);
		printf("# 100,000 hosts, 8 NICs, racks of 32, %u probes/s: NIC pairs of a rack "
		       "after %g s "
		       "(shown: %.0f s), pairs of racks after %g s (shown: %.0f s); at most %u and "
		       "%u of %u measurements in "
		       "a slot\n",
		       budgets[i], near * 2.0, near_s, far * 2.0, far_s, near_most, far_most,
		       world.plan.most);
		/* Beginning within a round and a cycle costs one of each. */
		cr_expect(near * 2 <= near_s + 4.0 * world.plan.near_slots);
		cr_expect(far * 2 <= far_s + 4, "%g s, shown %g s", far * 2.0, far_s);
		cr_expect(far_most <= world.plan.far_most + 1, "%u", far_most);
		free(world.hosts);
	}
}

/* Racks of other sizes, some of one host: each pair is measured by one of its ends in a few cycles.
 */
Test(rotation, small_racks_are_measured_as_well)
{
	uint64_t state = seed();

	for (unsigned int n = 0; n < 20; n++) {
		uint32_t racks = 2 + (uint32_t)(pacing_random(&state) % 150), most;
		struct world world;
		uint64_t far;
		double shown_s;

		world_open(&world, racks, 1, 40, 1 + n % 8, 24 + 20 * n, state);
		far = far_slots(&world, pacing_random(&state) >> 20, &most);
		shown_s = rotation_far_cycle_s(&world.plan, racks);
		cr_expect(far * 2 <= 60 * (shown_s + 4), "%u racks: %g s, shown %g s", racks,
			  far * 2.0, shown_s);
		cr_expect(most <= world.plan.most, "%u", most);
		free(world.hosts);
	}
}

Test(rotation, a_budget_that_is_too_small_is_none)
{
	struct rotation_plan plan;

	rotation_plan_make(&plan, ROTATION_PPS_LEAST - 1, 8, 100, 10);
	cr_expect_eq(plan.most, 0);
	rotation_plan_make(&plan, ROTATION_PPS_LEAST, 8, 100, 10);
	cr_expect(plan.most && plan.far_most && plan.used_most && plan.near_rounds == 1);
	for (uint32_t pps = ROTATION_PPS_LEAST; pps < 5000; pps += 7)
		for (uint32_t ports = 1; ports <= 16; ports++) {
			rotation_plan_make(&plan, pps, ports, 100, 10);
			cr_expect(plan.near_rounds * ports <= plan.near_slots * plan.most / 2 + 1 &&
				  plan.far_most + plan.used_most <= plan.most / 2);
			cr_expect(plan.most * ROTATION_PROBES <= pps * 2);
			cr_expect(plan.most <= ROTATION_ACTIVE_MAX);
		}
}

/* --- racks and NICs of the member list --- */

static struct members *parse(const char *text, char **error)
{
	struct members *members = NULL;

	*error = NULL;
	members_parse("m.json", text, strlen(text), &members, error);
	return members;
}

#define LABELS(...) "\"labels\": {" __VA_ARGS__ "}}"
#define AT(address) "{\"targets\": [\"" address "\"], "

static void expect_ports(const struct members *members, size_t host, enum fleet_plane plane,
			 const char *wanted)
{
	const struct member *ports[8];
	size_t count = members_ports(members, &members->hosts[host], plane, ports, 8);
	char text[ADDRESS_TEXT_BYTES], all[256] = "";

	for (size_t i = 0; i < count; i++) {
		strcat(all, i ? " " : "");
		strcat(all, address_format(&ports[i]->address, text));
	}
	cr_expect_str_eq(all, wanted);
}

Test(racks, the_order_is_that_of_the_labels)
{
	char *error;
	struct members *members = parse(
		"[" AT("10.0.9.1") LABELS("\"host\": \"z\"") "," /* of no rack */
		AT("10.2.0.2") LABELS("\"host\": \"b\", \"rack\": \"r2\", \"rail\": \"10\"") "," AT(
			"10.1.0.2")
			LABELS("\"host\": \"b\", \"rail\": \"9\", \"pod\": \"p\"") "," AT("fd00::2")
				LABELS("\"host\": \"b\", \"rail\": \"9\"") "," AT("10.3.0.2")
					LABELS("\"host\": \"b\", \"plane\": \"frontend\"") "," AT(
						"10.0.0.4")
						LABELS("\"host\": \"d\", \"rack\": "
						       "\"r1\"") ","
								 "{\"targets\": "
								 "[\"10.0.0.3\", "
								 "\"10.1.0.3\", "
								 "\"fd00::3\"],"
								 " " LABELS("\"host\": "
									    "\"c\", "
									    "\"rack\": "
									    "\"r2\"") "]",
		&error);

	cr_assert(members, "%s", error);
	cr_assert_eq(members->host_count, 4);
	cr_assert_eq(members->rack_count, 3);
	cr_expect_str_eq(members_host_name(members, &members->hosts[0]), "d");
	cr_expect_str_eq(members_host_name(members, &members->hosts[1]), "b");
	cr_expect_str_eq(members_host_name(members, &members->hosts[2]), "c");
	cr_expect_str_eq(members_host_name(members, &members->hosts[3]), "z");
	cr_expect_str_eq(members_host_rack(members, &members->hosts[1]), "r2");
	cr_expect_str_eq(members_host_pod(members, &members->hosts[1]), "p");
	cr_expect_null(members_host_rack(members, &members->hosts[3]));
	cr_expect_eq(members->racks[1].first, 1);
	cr_expect_eq(members->racks[1].count, 2);
	expect_ports(members, 1, FLEET_PLANE_BACKEND, "10.1.0.2 10.2.0.2");
	expect_ports(members, 1, FLEET_PLANE_FRONTEND, "10.1.0.2 10.2.0.2 10.3.0.2");
	expect_ports(members, 2, FLEET_PLANE_BACKEND, "10.0.0.3 10.1.0.3");
	cr_expect_eq(members->ports_max, 3);
	members_free(members);
}

Test(racks, labels_that_contradict_are_refused_by_name)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{"[" AT("10.0.0.2") LABELS("\"host\": \"b\", \"rack\": \"r1\"") "," AT("10.0.0.3")
			 LABELS("\"host\": \"c\", \"rack\": \"r1\"") "," AT("10.1.0.2")
				 LABELS("\"host\": \"b\", \"rack\": \"r2\"") "]",
		 "m.json: host b is in rack r1 (entry 0) and in rack r2 (entry 2); keep one"},
		{"[" AT("10.0.0.2") LABELS("\"host\": \"b\", \"pod\": \"p1\"") "," AT("10.1.0.2")
			 LABELS("\"host\": \"b\", \"pod\": \"p2\"") "]",
		 "m.json: host b is in pod p1 (entry 0) and in pod p2 (entry 1); keep one"},
		{"[" AT("10.0.0.2") LABELS(
			 "\"host\": \"b\", \"rack\": \"r1\", \"pod\": \"p1\"") "," AT("10.1.0.2")
			 LABELS("\"host\": \"c\", \"rack\": \"r1\", \"pod\": \"p2\"") "]",
		 "m.json: rack r1 is in pod p1 (host b) and in pod p2 (host c); keep one"},
		{"[" AT("10.0.0.2") LABELS("\"host\": \"b\", \"rail\": \"1\"") "," AT("10.0.0.2")
			 LABELS("\"host\": \"b\", \"rail\": \"2\"") "]",
		 "m.json: the address 10.0.0.2 is in rail 1 (entry 0) and in rail 2 (entry 1); "
		 "keep one"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *error;

		cr_expect_null(parse(bad[i].text, &error));
		cr_assert(error);
		cr_expect_str_eq(error, bad[i].error);
		free(error);
	}
}

/* --- links that lose all --- */

#define S 1000000000ull

Test(rotation, three_measurements_with_some_replies_are_lost_paths)
{
	struct rotation_lost lost = {};

	cr_expect_not(rotation_lost_add(&lost, ROTATION_PROBES, 7, 100 * S));
	cr_expect_not(rotation_lost_add(&lost, ROTATION_PROBES, 10, 120 * S));
	cr_expect_not(rotation_lost_add(&lost, ROTATION_PROBES, 11, 130 * S), "one may be chance");
	cr_expect_not(rotation_lost_add(&lost, ROTATION_PROBES, 0, 130 * S), "a silent NIC");
	cr_expect_not(rotation_lost_add(&lost, 5, 2, 130 * S), "it was not sent whole");
	cr_expect(rotation_lost_add(&lost, ROTATION_PROBES, 8, 160 * S), "within a minute");
	cr_expect_not(rotation_lost_add(&lost, ROTATION_PROBES, 8, 170 * S), "begins once");
	cr_expect_not(rotation_lost_is_over(&lost, 170 * S - 1), "a tick has the time it began at");
	cr_expect_not(rotation_lost_is_over(&lost, 290 * S));
	cr_expect(rotation_lost_is_over(&lost, 290 * S + 1));
}

Test(rotation, measurements_that_are_far_apart_are_none)
{
	struct rotation_lost lost = {};

	for (uint64_t i = 1; i < 100; i++)
		cr_assert_not(rotation_lost_add(&lost, ROTATION_PROBES, 6, 31 * i * S));
}

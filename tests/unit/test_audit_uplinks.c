// SPDX-License-Identifier: BSD-2-Clause
/* Uplinks of ToRs: what a host records of surveyed paths, and which ToR a merge names. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "audit/internal.h"
#include "base/json.h"

#define CHECK "topology.uplinks"
#define TORS_MOST 5
#define SPINES 4

/* Two hosts below each ToR. */
struct world {
	int tors;
	int uplinks[TORS_MOST];
	int surveyed;	/* hosts with queue pairs, of all */
	bool silent;	/* switches do not reply */
	bool searching; /* surveys are not complete */
	bool far;	/* five switches between ToRs: each is a pod */
};

static void address_of(int host, char out[32])
{
	snprintf(out, 32, "10.%d.%d.2", host / 2 + 1, host % 2 + 1);
}

static void add_pair(const struct world *world, int from, int to, json_t *pairs, json_t *paths)
{
	bool near = from / 2 == to / 2;
	char here[32], there[32], hop[2][48];
	json_t *hops;

	address_of(from, here);
	address_of(to, there);
	json_array_append_new(pairs, json_pack("{s:s, s:s, s:i, s:b}", "from", here, "to", there,
					       "distance",
					       near	    ? 1
					       : world->far ? 5
							    : 3,
					       "complete", !world->searching));
	for (int spine = 0; spine < (near ? 1 : SPINES); spine++) {
		snprintf(hop[0], sizeof(hop[0]), "10.%d.%d.1", from / 2 + 1, from % 2 + 1);
		snprintf(hop[1], sizeof(hop[1]), "10.100.%d.%d", spine, from / 2 + 1);
		hops = world->silent ? json_array()
				     : json_pack("[s, s*]", hop[0], near ? NULL : hop[1]);
		json_array_append_new(
			paths, json_pack("{s:s, s:s, s:s, s:o}", "from", here, "to", there, "state",
					 !near && spine >= world->uplinks[from / 2] ? "down" : "up",
					 "hops", hops));
	}
}

static json_t *report_of(const struct world *world, int host)
{
	json_t *pairs = json_array(), *paths = json_array(), *daemon, *report;
	struct audit_options options = {.root = "/nowhere", .only = CHECK};
	char name[16], address[32];

	for (int to = 0; to < 2 * world->tors && host < world->surveyed; to++)
		if (to != host)
			add_pair(world, host, to, pairs, paths);
	address_of(host, address);
	snprintf(name, sizeof(name), "h%d", host + 1);
	daemon = json_pack("{s:{s:s, s:{s:[{s:s, s:[{s:s, s:s, s:s}]}]}}, s:{s:o, s:o}}", "status",
			   "host", name, "probing", "planes", "plane", "backend", "nics",
			   "interface", "eth1", "address", address, "rail", "1", "paths", "pairs",
			   pairs, "paths", paths);
	options.daemon = daemon;
	report = audit_local(&options);
	json_decref(daemon);
	cr_assert(report);
	return report;
}

static json_t *merged_of(const struct world *world)
{
	json_t *reports = json_array(), *merged;
	char *error = NULL;

	for (int host = 0; host < 2 * world->tors; host++)
		json_array_append_new(reports, report_of(world, host));
	merged = audit_merge(reports, NULL, &error);
	cr_assert(merged, "%s", error);
	json_decref(reports);
	return merged;
}

/* Of the entries of a host's eth1. */
static const json_t *entry_of(const json_t *report, int host)
{
	const json_t *entry = json_array_get(json_object_get(report, "results"), (size_t)host);

	cr_assert(entry);
	return entry;
}

Test(audit_uplinks, of_a_host)
{
	struct world world = {3, {4, 3, 4}, 4, false, false, false};
	json_t *report = report_of(&world, 2);

	cr_expect_str_eq(json_text(entry_of(report, 0), "result"), "recorded");
	cr_expect_str_eq(json_text(entry_of(report, 0), "value"), "3");
	/* One of each switch, and of each peer. */
	cr_expect_leq(json_array_size(json_object_get(entry_of(report, 0), "paths")), 3 + 5);
	json_decref(report);
	report = report_of(&world, 4);
	cr_expect_str_eq(json_text(entry_of(report, 0), "result"), "unknown");
	cr_expect(strstr(json_text(entry_of(report, 0), "reason"), "no queue pairs"));
	json_decref(report);
	world.silent = true;
	report = report_of(&world, 2);
	cr_expect(strstr(json_text(entry_of(report, 0), "reason"), "no switch"));
	json_decref(report);
	world = (struct world){1, {4}, 2, false, false, false};
	report = report_of(&world, 0);
	cr_expect(strstr(json_text(entry_of(report, 0), "reason"), "leaves its ToR"));
	json_decref(report);
}

/* The ToR with fewer uplinks is named once, with the NICs below it. */
Test(audit_uplinks, merge_names_the_tor)
{
	struct world world = {4, {4, 4, 3, 4}, 8, false, false, false};
	json_t *merged = merged_of(&world);
	const json_t *bad = entry_of(merged, 4);

	cr_expect_eq(json_count(merged, "errors"), 1);
	cr_expect_eq(json_count(merged, "skipped"), 1);
	cr_expect_eq(json_count(merged, "passed"), 6);
	cr_expect_str_eq(json_text(bad, "result"), "fail");
	cr_expect_str_eq(json_text(bad, "value"), "3 uplinks of the ToR of h5 eth1, h6 eth1");
	cr_expect_str_eq(json_text(bad, "expected"), "4, as 3 of 4 ToRs of the pod");
	cr_expect(*json_text(bad, "remedy"));
	cr_expect_str_eq(json_text(entry_of(merged, 5), "reason"),
			 "the ToR of h5 eth1, which failed");
	cr_expect_null(json_object_get(bad, "paths"));
	json_decref(merged);
	world.uplinks[2] = 4;
	merged = merged_of(&world);
	cr_expect_eq(json_count(merged, "passed"), 8);
	json_decref(merged);
	/* A spine that all lack is no fault of a ToR. */
	for (int i = 0; i < 4; i++)
		world.uplinks[i] = 2;
	merged = merged_of(&world);
	cr_expect_eq(json_count(merged, "passed"), 8);
	json_decref(merged);
}

/* What cannot be compared is unknown. */
Test(audit_uplinks, merge_cannot_tell)
{
	static const struct world worlds[] = {
		{2, {4, 3}, 4, false, false, false},	   /* two ToRs */
		{4, {4, 3, 2, 1}, 8, false, false, false}, /* no majority */
		{4, {4, 4, 3, 4}, 8, true, false, false},
		{4, {4, 4, 3, 4}, 8, false, true, false},
		{4, {4, 4, 3, 4}, 8, false, false, true},
		{4, {4, 4, 3, 4}, 0, false, false, false},
	};

	for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
		json_t *merged = merged_of(&worlds[i]);

		cr_expect_eq(json_count(merged, "unknown"), 2 * (unsigned int)worlds[i].tors,
			     "world %zu: %d", i, (int)json_count(merged, "unknown"));
		json_decref(merged);
	}
}

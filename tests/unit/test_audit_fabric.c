// SPDX-License-Identifier: BSD-2-Clause
/* Pairs of NICs that fail: what one host says of them, and which NIC the reports of many name. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/internal.h"
#include "base/json.h"
#include "pacing/random.h"

static uint64_t seed(void)
{
	const char *given = getenv("SEED");
	uint64_t value = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	printf("# SEED=%llu\n", (unsigned long long)value);
	return value;
}

static const json_t *entry_of(const json_t *report, const char *check, const char *subject)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(report, "results"), i, entry)
		if (!strcmp(json_text(entry, "check"), check) &&
		    !strcmp(json_text(entry, "subject"), subject))
			return entry;
	return NULL;
}

/* --- one host, by the daemon's reply --- */

static json_t *run(json_t *pairs)
{
	json_t *daemon = json_pack("{s:{s:s}, s:o*}", "status", "host", "h1", "pairs", pairs);
	struct audit_options options = {.root = "/nowhere", .fleet = true, .daemon = daemon};
	json_t *report = audit_local(&options);

	json_decref(daemon);
	cr_assert(report);
	return report;
}

/* 15 pairs of eth1; @fault (NULL: none) is that of h7. */
static json_t *reply(const char *state, int measured, const char *fault)
{
	json_t *faults = json_object(), *list = json_array();

	if (fault) {
		json_object_set_new(faults, fault, json_integer(1));
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
					"fault", fault, "peer", "h7", "to", "10.0.0.7", "sent", 100,
					"lost", 1, "bytes", 9000, "owd_out_ns", 9000, "owd_in_ns",
					4000, "bound_ns", 300, "limit_ns", 6000));
	}
	return json_pack(
		"{s:s, s:I, s:i, s:I, s:f, s:[{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:i, s:o, "
		"s:[{s:s, s:i, s:b}, {s:s, s:i, s:b}], s:o}]}",
		"state", state, "run_ns", (json_int_t)100, "rounds", 15, "round_ns",
		(json_int_t)500000000, "takes_s", 7.5, "nics", "interface", "eth1", "address",
		"10.0.0.1", "pairs", 15, "measured", measured, "small_replied", 45,
		"full_size_replied", 45, "budget_pps", 424.0, "budget_bytes_per_second", 132480,
		"faults", faults, "classes", "class", "rack", "pairs", 2, "judged", 0, "class",
		"fabric", "pairs", 13, "judged", 1, "faulty", list);
}

Test(audit_fabric, each_check_passes_fails_and_is_unknown)
{
	static const char *const rows[][3] = {
		{"fabric.pairs", "silent", "h7 10.0.0.7"},
		{"fabric.loss", "loss", "lost 1 of 100"},
		{"fabric.mtu", "mtu", "none of 9000 bytes"},
		{"fabric.latency", "latency", "9.00us +- 0.300us of 6.00us at most"},
		{"fabric.asymmetry", "asymmetry", "5000 ns more there than back, +- 0.300us"},
	};

	for (size_t i = 0; i < 5; i++) {
		json_t *good = run(reply("completed", 15, NULL));
		json_t *bad = run(reply("completed", 15, rows[i][1]));
		json_t *half = run(reply("completed", 12, NULL));
		json_t *none = run(reply("none", 0, NULL)), *absent = run(NULL);
		const json_t *entry = entry_of(bad, rows[i][0], "eth1");

		cr_expect_str_eq(json_text(entry_of(good, rows[i][0], "eth1"), "result"), "pass");
		cr_expect_str_eq(json_text(entry, "result"), "fail", "%s", rows[i][0]);
		cr_expect(strstr(json_text(entry, "value"), rows[i][2]), "%s",
			  json_text(entry, "value"));
		cr_expect_eq(json_array_size(json_object_get(entry, "pairs")), 1);
		cr_expect_eq(json_count(bad, "errors"), json_count(good, "errors") + 1);
		cr_expect_str_eq(json_text(entry_of(half, rows[i][0], "eth1"), "result"),
				 "unknown");
		cr_expect_str_eq(json_text(entry_of(none, rows[i][0], ""), "result"), "unknown");
		cr_expect_str_eq(json_text(entry_of(absent, rows[i][0], ""), "result"), "unknown");
		json_decref(good);
		json_decref(bad);
		json_decref(half);
		json_decref(none);
		json_decref(absent);
	}
}

/* Two of 15 pairs are in a class of their own. In another run queue pairs use one of all. */
Test(audit_fabric, what_was_not_judged_is_said)
{
	static const char *const checks[] = {"fabric.pairs", "fabric.loss", "fabric.mtu",
					     "fabric.latency", "fabric.asymmetry"};
	json_t *some = run(reply("completed", 15, NULL)), *daemon = reply("completed", 15, NULL);
	const json_t *entry = entry_of(some, "fabric.latency", "eth1");
	json_t *used;

	cr_expect(strstr(json_text(entry, "value"), "13 of 15 pairs"), "%s",
		  json_text(entry, "value"));
	json_object_set_new(json_array_get(json_object_get(daemon, "nics"), 0), "used",
			    json_integer(1));
	used = run(daemon);
	for (size_t i = 0; i < 5; i++)
		cr_expect_str_eq(json_text(entry_of(used, checks[i], "eth1"), "result"),
				 i < 3 ? "pass" : "unknown");
	json_decref(some);
	json_decref(used);
}

/* --- many hosts --- */

enum { HOSTS = 24, RAILS = 2, NICS = HOSTS * RAILS };

struct world {
	const char *check;
	bool guilty[NICS];	 /* of host * RAILS + rail */
	bool silent[HOSTS];	 /* no report */
	bool failed[NICS][NICS]; /* as seen from the first one */
};

static void address_of(int nic, char out[32])
{
	snprintf(out, 32, "10.%d.0.%d", nic % RAILS, nic / RAILS + 1);
}

static json_t *nic_entry(const struct world *world, int nic)
{
	json_t *list = json_array(), *entry;
	char address[32], host[16], subject[16];

	for (int other = nic % RAILS; other < NICS; other += RAILS) {
		if (!world->failed[nic][other])
			continue;
		address_of(other, address);
		snprintf(host, sizeof(host), "h%d", other / RAILS + 1);
		json_array_append_new(list, json_pack("{s:s, s:s}", "peer", host, "to", address));
	}
	address_of(nic, address);
	snprintf(subject, sizeof(subject), "mlx5_%d:1", nic % RAILS);
	entry = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s}", "check", world->check, "group",
			  "fabric", "subject", subject, "result",
			  json_array_size(list) ? "fail" : "pass", "address", address,
			  "pairs_measured", HOSTS - 1, "value", "some");
	if (json_array_size(list))
		json_put_text(entry, "remedy", "replace it");
	if (json_array_size(list))
		json_object_set(entry, "pairs", list);
	json_decref(list);
	return entry;
}

static json_t *merged_of(const struct world *world)
{
	json_t *reports = json_array(), *merged;
	char *error = NULL;

	for (int h = 0; h < HOSTS; h++) {
		json_t *results = json_array();
		char host[16];

		if (world->silent[h]) {
			json_decref(results);
			continue;
		}
		for (int rail = 0; rail < RAILS; rail++)
			json_array_append_new(results, nic_entry(world, h * RAILS + rail));
		snprintf(host, sizeof(host), "h%d", h + 1);
		json_array_append_new(reports, json_pack("{s:i, s:i, s:s, s:[], s:o}", "version",
							 AUDIT_REPORT_VERSION, "run_ns", 1, "host",
							 host, "nics", "results", results));
	}
	merged = audit_merge(reports, NULL, &error);
	cr_assert(merged, "%s", error);
	json_decref(reports);
	return merged;
}

static void fail_pair(struct world *world, int one, int other)
{
	world->failed[one][other] = world->failed[other][one] = true;
}

/* A NIC with a fault fails with half of the others, and of the rest with @percent. */
static void fail_nic(struct world *world, int nic, unsigned int percent, uint64_t *state)
{
	world->guilty[nic] = true;
	for (int other = nic % RAILS, i = 0; other < NICS; other += RAILS, i++)
		if (other != nic && (i % 2 || pacing_random(state) % 100 < percent))
			fail_pair(world, nic, other);
}

/* The NICs that are named are those with a fault: of hosts without a report by their address. */
static void expect_guilty(const struct world *world, const json_t *merged)
{
	for (int nic = 0; nic < NICS; nic++) {
		char host[16], subject[32];
		const json_t *entry;
		bool named = false;
		size_t i;

		snprintf(host, sizeof(host), "h%d", nic / RAILS + 1);
		if (world->silent[nic / RAILS])
			address_of(nic, subject);
		else
			snprintf(subject, sizeof(subject), "mlx5_%d:1", nic % RAILS);
		json_array_foreach (json_object_get(merged, "results"), i, entry)
			named |= !strcmp(json_text(entry, "host"), host) &&
				 !strcmp(json_text(entry, "subject"), subject) &&
				 !strcmp(json_text(entry, "result"), "fail") &&
				 *json_text(entry, "remedy");
		cr_expect_eq(named, world->guilty[nic], "%s %s: %s", host, subject,
			     named ? "named" : "not named");
	}
}

Test(audit_fabric, the_nics_at_fault_are_named_and_no_other)
{
	static const char *const checks[] = {"fabric.pairs", "fabric.loss", "fabric.mtu",
					     "fabric.latency", "fabric.asymmetry"};
	uint64_t state = seed();

	for (int n = 0; n < 200; n++) {
		struct world world = {.check = checks[n % 5]};
		uint64_t count = pacing_random(&state) % 5;
		json_t *merged;

		for (uint64_t i = 0; i < count; i++) {
			int nic = (int)(pacing_random(&state) % NICS);

			fail_nic(&world, nic, n % 2 ? 100 : 70, &state);
			/* Its host is gone, with its other NICs. */
			if (n % 3 == 0 && i == 0) {
				int host = nic / RAILS;

				world.silent[host] = true;
				for (int k = 0; k < RAILS; k++)
					if (!world.guilty[host * RAILS + k])
						fail_nic(&world, host * RAILS + k, 100, &state);
			}
		}
		merged = merged_of(&world);
		expect_guilty(&world, merged);
		json_decref(merged);
	}
}

/* A path between two NICs is an error of the pair, which both ends have. */
Test(audit_fabric, a_pair_stays_a_pair)
{
	struct world world = {.check = "fabric.loss"};
	json_t *merged;

	fail_pair(&world, 0, 6);
	world.guilty[0] = world.guilty[6] = true;
	merged = merged_of(&world);
	expect_guilty(&world, merged);
	cr_expect_eq(json_count(merged, "errors"), 2);
	json_decref(merged);
}

/* An end that was held up sees long delays with all; the others see none with it. */
Test(audit_fabric, delays_of_one_end_alone_are_no_error)
{
	struct world world = {.check = "fabric.latency"};
	json_t *merged;

	for (int other = 2; other < NICS; other += RAILS)
		world.failed[0][other] = true;
	merged = merged_of(&world);
	cr_expect_eq(json_count(merged, "errors"), 0);
	json_decref(merged);
	world.check = "fabric.loss";
	world.guilty[0] = true;
	merged = merged_of(&world);
	expect_guilty(&world, merged);
	json_decref(merged);
}

/* --- a NIC that is down, and what depends on it --- */

static json_t *down_report(const char *host, const char *check, const char *subject, json_t *down)
{
	return json_pack("{s:i, s:i, s:s, s:[], s:[{s:s, s:s, s:s, s:s, s:s, s:s, s:o*}]}",
			 "version", 1, "run_ns", 1, "host", host, "nics", "results", "check", check,
			 "group", "backend", "name", "x", "subject", subject, "result", "fail",
			 "value", "x", "peers_down", down);
}

/* h2's NIC is down: that its peers miss it is no error of theirs, that h1 misses h3 too is one. */
Test(audit_fabric, peers_of_a_nic_that_is_down)
{
	json_t *reports = json_pack(
		"[o, o, o]",
		down_report("h1", "backend.connectivity", "mlx5_0:1", json_pack("[s]", "h2")),
		down_report("h2", "nic.active", "mlx5_0:1", NULL),
		down_report("h3", "backend.connectivity", "mlx5_0:1", json_pack("[s]", "h2")));
	char *error = NULL;
	json_t *merged = audit_merge(reports, NULL, &error), *entry;

	cr_assert(merged, "%s", error);
	cr_expect_eq(json_count(merged, "errors"), 1);
	cr_expect_str_eq(json_text(entry_of(merged, "nic.active", "mlx5_0:1"), "result"), "fail");
	entry = (json_t *)entry_of(merged, "backend.connectivity", "mlx5_0:1");
	cr_expect_str_eq(json_text(entry, "result"), "skipped");
	cr_expect_str_eq(json_text(entry, "reason"), "NICs are down: h2");
	json_decref(merged);
	entry = json_array_get(json_object_get(json_array_get(reports, 0), "results"), 0);
	json_array_append_new(json_object_get(entry, "peers_down"), json_string("h3"));
	merged = audit_merge(reports, NULL, &error);
	cr_assert(merged, "%s", error);
	cr_expect_eq(json_count(merged, "errors"), 2);
	json_decref(merged);
	json_decref(reports);
}

static json_t *peers_report(const char *host, int up, json_t *down)
{
	json_t *report = down_report(host, "backend.connectivity", "mlx5_0:1", down), *entry;

	entry = json_array_get(json_object_get(report, "results"), 0);
	json_object_set_new(entry, "peers_up", json_integer(up));
	return report;
}

/* h2 sees none of its peers, as without a key: that they miss it is no error of theirs. */
Test(audit_fabric, peers_of_a_host_that_is_cut_off)
{
	json_t *reports = json_pack("[o, o, o]", peers_report("h1", 1, json_pack("[s]", "h2")),
				    peers_report("h2", 0, json_pack("[s, s]", "h1", "h3")),
				    peers_report("h3", 1, json_pack("[s]", "h2")));
	char *error = NULL;
	json_t *merged = audit_merge(reports, NULL, &error), *entry;
	size_t i;

	cr_assert(merged, "%s", error);
	json_array_foreach (json_object_get(merged, "results"), i, entry)
		cr_expect_str_eq(json_text(entry, "result"), i == 1 ? "fail" : "skipped", "%s",
				 json_text(entry, "host"));
	json_decref(merged);
	/* All see none: no one is to blame alone. */
	for (i = 0; i < 3; i += 2) {
		entry = json_array_get(json_object_get(json_array_get(reports, i), "results"), 0);
		json_object_set_new(entry, "peers_up", json_integer(0));
		json_object_set_new(entry, "peers_down",
				    json_pack("[s, s]", "h2", i ? "h1" : "h3"));
	}
	merged = audit_merge(reports, NULL, &error);
	cr_assert(merged, "%s", error);
	cr_expect_eq(json_count(merged, "errors"), 3);
	json_decref(merged);
	json_decref(reports);
}

/* The one host without a key fails, and none of a fleet without. */
Test(audit_fabric, key_of_the_probes)
{
	for (int with = 0; with < 2; with++) {
		json_t *reports = json_array(), *merged;
		char *error = NULL;

		for (int i = 0; i < 4; i++) {
			json_t *daemon = json_pack("{s:{s:{s:b}}}", "status", "probing",
						   "authority", with && i != 2);
			struct audit_options options = {
				.root = "/nowhere", .daemon = daemon, .only = "clock.key"};
			json_t *report = audit_local(&options);

			cr_expect_str_eq(json_text(entry_of(report, "clock.key", ""), "result"),
					 "recorded");
			json_object_set_new(report, "host", json_sprintf("h%d", i));
			json_array_append_new(reports, report);
			json_decref(daemon);
		}
		merged = audit_merge(reports, NULL, &error);
		cr_assert(merged, "%s", error);
		cr_expect_eq(json_count(merged, "errors"), with);
		for (int i = 0; i < 4; i++)
			cr_expect_str_eq(
				json_text(json_array_get(json_object_get(merged, "results"), i),
					  "result"),
				with && i == 2 ? "fail" : "pass");
		json_decref(merged);
		json_decref(reports);
	}
}

static void add_result(json_t *report, const char *check, const char *subject, const char *result,
		       const char *member, const char *text)
{
	json_array_append_new(json_object_get(report, "results"),
			      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "check", check, "group",
					"backend", "name", "x", "subject", subject, "result",
					result, member, text));
}

/*
 * The peers of a host without a key are down, or only silent yet, and its clock comes and goes: all
 * of it is skipped, and its key alone is the error. So are the peers of a NIC whose pairs failed.
 */
Test(audit_fabric, one_cause_is_one_error)
{
	static const char *const states[] = {"fail", "unknown", "pass"};

	for (size_t state = 0; state < 3; state++) {
		json_t *reports = json_array(), *merged;
		char *error = NULL;

		for (int i = 0; i < 4; i++) {
			json_t *report =
				json_pack("{s:i, s:i, s:o, s:[], s:[]}", "version", 1, "run_ns", 1,
					  "host", json_sprintf("h%d", i), "nics", "results");

			add_result(report, "clock.key", "", "recorded", "value",
				   i == 2 ? "none" : "there is one");
			if (i == 2)
				add_result(report, "clock.synced", "", states[state], "value", "x");
			if (i == 1)
				add_result(report, "fabric.pairs", "b:1", "fail", "value", "x");
			add_result(report, "backend.connectivity", "a:1",
				   i == 2 ? states[state] : "pass", "value", "x");
			add_result(report, "backend.connectivity", "b:1",
				   i == 1 ? states[state] : "pass", "value", "x");
			json_array_append_new(reports, report);
		}
		merged = audit_merge(reports, NULL, &error);
		cr_assert(merged, "%s", error);
		cr_expect_eq(json_count(merged, "errors"), 2, "state %zu", state);
		cr_expect_eq(json_count(merged, "skipped"), state == 2 ? 0 : 3, "state %zu", state);
		cr_expect_eq(json_count(merged, "unknown"), 0, "state %zu", state);
		json_decref(merged);
		json_decref(reports);
	}
}

/* Without enough peers that are up there is nothing to be synced with: that is the error. */
Test(audit_fabric, clock_of_a_host_without_peers)
{
	static const struct {
		size_t up, all;
		const char *result;
	} rows[] = {{0, 0, "fail"},    {0, 1, "skipped"}, {1, 1, "fail"}, {1, 2, "skipped"},
		    {2, 3, "skipped"}, {3, 4, "fail"},	  {4, 4, "fail"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *list = json_array(), *daemon, *report;

		for (size_t k = 0; k < rows[i].all; k++)
			json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "peer", "h2",
							      "interface", "eth1", "state",
							      k < rows[i].up ? "up" : "down"));
		daemon = json_pack("{s:{s:s, s:i}, s:{s:o}}", "clock", "state", "holdover",
				   "bound_ns", 5000, "peers", "peers", list);
		struct audit_options options = {
			.root = "/nowhere", .daemon = daemon, .only = "clock"};

		report = audit_local(&options);
		cr_expect_str_eq(json_text(entry_of(report, "clock.synced", ""), "result"),
				 rows[i].result, "%zu of %zu", rows[i].up, rows[i].all);
		cr_expect_str_eq(json_text(entry_of(report, "clock.bound", ""), "result"),
				 "skipped");
		json_decref(report);
		json_decref(daemon);
	}
}

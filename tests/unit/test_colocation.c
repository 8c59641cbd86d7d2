// SPDX-License-Identifier: BSD-2-Clause
/* Hosts that share a machine, from exports: the verb `colocation`, and `place` with them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "clocksync/cycles.h"
#include "colocation/colocation.h"
#include "place/place.h"
#include "tests/lib/rng.h"

#define HOSTS 5
#define POINTS 300
#define FIRST 500000 /* grid index */

/* Which machine each is on, and the machines' rates. h1 and h2 share one, h3 and h5 another. */
static const unsigned int machines[HOSTS] = {0, 0, 1, 2, 1};
static const double rates_ppb[] = {4000, -2500, 4003};

static struct rng rng;

static json_t *cycles_of(size_t host, size_t points)
{
	json_t *ahead = json_array(), *bound = json_array();
	double start_ns = 1e5 * (double)host;

	for (size_t i = 0; i < points; i++) {
		double ahead_ns = start_ns + rates_ppb[machines[host]] * (double)i * 2 +
				  20 * rng_normal(&rng);

		json_array_append_new(ahead, i % 50 == 7 ? json_null()
							 : json_integer((json_int_t)ahead_ns));
		json_array_append_new(bound, i % 50 == 7 ? json_null() : json_integer(100));
	}
	return json_pack("{s:s, s:i, s:I, s:I, s:I, s:o, s:o}", "counter", "tsc", "steps", 0,
			 "reference_hz", (json_int_t)2500000000, "first_fabric_ns",
			 (json_int_t)(FIRST + POINTS - points) * CYCLES_STEP_NS, "step_ns",
			 (json_int_t)CYCLES_STEP_NS, "ahead_ns", ahead, "bound_ns", bound);
}

/* All in one leaf, the farther apart the more their numbers differ. */
static json_t *peers_of(size_t host)
{
	json_t *peers = json_array();

	for (size_t i = 0; i < HOSTS; i++)
		if (i != host)
			json_array_append_new(
				peers,
				json_pack("{s:o, s:o, s:s, s:s, s:s, s:{s:I}}", "peer",
					  json_sprintf("h%zu", i + 1), "address",
					  json_sprintf("10.0.0.%zu", i + 1), "interface", "eth1",
					  "plane", "backend", "state", "up", "rtt_ns", "min",
					  (json_int_t)(10000 + 100 * labs((long)i - (long)host))));
	return json_pack("{s:o}", "peers", peers);
}

static json_t *export_of(size_t host)
{
	json_t *status = json_pack("{s:o, s:{s:[{s:s, s:[{s:s, s:o}]}]}}", "host",
				   json_sprintf("h%zu", host + 1), "probing", "planes", "plane",
				   "backend", "nics", "interface", "eth1", "address",
				   json_sprintf("10.0.0.%zu", host + 1));

	return json_pack("{s:s, s:i, s:I, s:o, s:{s:o, s:o, s:o}}", "format", "escapement-report",
			 "version", 1, "time_ns", (json_int_t)1, "host",
			 json_sprintf("h%zu", host + 1), "replies", "status", status, "peers",
			 peers_of(host), "cycles", cycles_of(host, POINTS));
}

static json_t *exports(void)
{
	json_t *list = json_array();

	rng_seed(&rng, 7);
	for (size_t i = 0; i < HOSTS; i++)
		json_array_append_new(list, export_of(i));
	return list;
}

static json_t *cycles_in(json_t *list, size_t host)
{
	return json_object_get(json_object_get(json_array_get(list, host), "replies"), "cycles");
}

/* The verb, with a file of @list, which is released. */
static json_t *run(const struct verb_set *set, json_t *list, json_t *args, char **error)
{
	char path[] = "/tmp/esc-coloc-XXXXXX";
	int fd = mkstemp(path), exit = 0;
	json_t *result;

	cr_assert(fd >= 0 && !json_dumpfd(list, fd, 0));
	close(fd);
	json_object_set_new(args, "from", json_pack("[s]", path));
	*error = NULL;
	result = set->verbs[0].run(args, &exit, error);
	unlink(path);
	json_decref(args);
	json_decref(list);
	return result;
}

static json_t *compare(json_t *list)
{
	char *error;
	json_t *result = run(&colocation_verbs, list, json_object(), &error);

	cr_assert_not_null(result, "%s", error);
	return result;
}

static const char *verdict(const json_t *result, const char *a, const char *b)
{
	static const char *const lists[] = {"same", "undecided"};
	const json_t *row;
	size_t i;

	for (size_t k = 0; k < 2; k++)
		json_array_foreach (json_object_get(result, lists[k]), i, row)
			if (!strcmp(json_text(row, "a"), a) && !strcmp(json_text(row, "b"), b))
				return json_text(row, "verdict");
	return "";
}

/* In ppb, of the pair at @index of those that are the same. */
static double rate_of(const json_t *result, size_t index)
{
	return json_real_value(json_object_get(
		json_array_get(json_object_get(result, "same"), index), "rate_ppb"));
}

static const char *note_of(const json_t *result, size_t host)
{
	return json_text(json_array_get(json_object_get(result, "hosts"), host), "note");
}

Test(colocation, groups)
{
	json_t *result = compare(exports());
	const json_t *groups = json_object_get(result, "groups");

	cr_expect_str_eq(verdict(result, "h1", "h2"), "same");
	cr_expect_str_eq(verdict(result, "h3", "h5"), "same");
	cr_expect_eq(json_count(result, "pairs_same"), 2);
	/* h4 is 3 ppb from h1 and h2: 1800 ns in ten minutes, beyond the bounds. */
	cr_expect_eq(json_count(result, "pairs_other"), 8);
	cr_expect_eq(json_array_size(groups), 2);
	cr_expect_eq(json_count(json_array_get(groups, 0), "floor_ns") > 0 ||
			     json_real_value(json_object_get(json_array_get(groups, 0),
							     "floor_ns")) == 10100,
		     true);
	json_decref(result);
}

/* Fabric time's rate changes by 13 ppm in ten minutes, and each host lacks other points. */
static void bend(json_t *list)
{
	for (size_t host = 0; host < HOSTS; host++) {
		json_t *cycles = cycles_in(list, host);
		json_t *ahead = json_object_get(cycles, "ahead_ns");
		json_t *bound = json_object_get(cycles, "bound_ns");

		for (size_t i = 0; i < POINTS; i++) {
			double from_middle = (double)i / POINTS - 0.5;
			json_t *value = json_array_get(ahead, i);

			if (i % 97 / 4 == 3 * host) {
				json_array_set_new(ahead, i, json_null());
				json_array_set_new(bound, i, json_null());
			} else if (json_is_integer(value)) {
				json_integer_set(value, json_integer_value(value) +
								(json_int_t)(4e6 * from_middle *
									     from_middle));
			}
		}
	}
}

Test(colocation, points_are_missing_while_fabric_time_changes_its_rate)
{
	json_t *list = exports(), *result;

	bend(list);
	result = compare(list);
	cr_expect_str_eq(verdict(result, "h1", "h2"), "same");
	cr_expect_str_eq(verdict(result, "h3", "h5"), "same");
	cr_expect_eq(json_count(result, "pairs_same"), 2);
	cr_expect_eq(json_count(result, "pairs_other"), 8);
	cr_expect_float_eq(rate_of(result, 0), 0, 0.1, "%f ppb", rate_of(result, 0));
	json_decref(result);
}

/* Of fabric time in the first @points of all hosts: 5 us. */
static void widen_bounds(json_t *list, size_t points)
{
	for (size_t host = 0; host < HOSTS; host++) {
		json_t *bound = json_object_get(cycles_in(list, host), "bound_ns");

		for (size_t i = 0; i < json_array_size(bound) && i < points; i++)
			if (!json_is_null(json_array_get(bound, i)))
				json_array_set_new(bound, i, json_integer(5000));
	}
}

Test(colocation, undecided_is_not_other)
{
	json_t *list = exports(), *result;

	/* The same points, and a clock that may be wrong by more than what h4 differs by. */
	widen_bounds(list, SIZE_MAX);
	result = compare(list);
	cr_expect_eq(json_count(result, "pairs_same"), 2);
	cr_expect_eq(json_count(result, "pairs_unknown"), 2, "h4 with h1 and h2");
	cr_expect_eq(json_count(result, "pairs_other"), 6);
	json_decref(result);
}

/* A clock that was slewed for 6 s cannot be wrong by that at all times. */
Test(colocation, wide_bounds_for_a_moment_do_not_undo_the_rest)
{
	json_t *list = exports(), *result;

	widen_bounds(list, 3);
	result = compare(list);
	cr_expect_eq(json_count(result, "pairs_same"), 2);
	cr_expect_eq(json_count(result, "pairs_unknown"), 0);
	cr_expect_eq(json_count(result, "pairs_other"), 8);
	json_decref(result);
}

Test(colocation, short_and_missing_series)
{
	json_t *list = exports(), *result, *replies;

	/* h1 has a minute, h2 ten seconds, h3 an older daemon, h4 no counter, h5 nonsense. */
	replies = json_object_get(json_array_get(list, 0), "replies");
	json_object_set_new(replies, "cycles", cycles_of(0, 30));
	replies = json_object_get(json_array_get(list, 1), "replies");
	json_object_set_new(replies, "cycles", cycles_of(1, 5));
	json_object_del(json_object_get(json_array_get(list, 2), "replies"), "cycles");
	json_object_set_new(cycles_in(list, 3), "note", json_string("no counter here"));
	json_object_set_new(cycles_in(list, 4), "step_ns", json_integer(1));
	result = compare(list);
	cr_expect_eq(json_count(result, "pairs_unknown"), 10, "of nothing but h1");
	cr_expect_str_eq(note_of(result, 0), "");
	cr_expect(strstr(note_of(result, 1), "too few points"), "%s", note_of(result, 1));
	cr_expect(strstr(note_of(result, 2), "earlier release"), "%s", note_of(result, 2));
	cr_expect_str_eq(note_of(result, 3), "no counter here");
	cr_expect(strstr(note_of(result, 4), "form"), "%s", note_of(result, 4));
	json_decref(result);
}

Test(colocation, later_and_other_fabric)
{
	json_t *list = exports(), *result, *replies;

	/* h1 and h2 began later than the others: compared over what they have. */
	for (size_t host = 0; host < 2; host++) {
		replies = json_object_get(json_array_get(list, host), "replies");
		json_object_set_new(replies, "cycles", cycles_of(host, 250));
	}
	/* h5 is of another fabric time. */
	json_object_set_new(cycles_in(list, 4), "first_fabric_ns",
			    json_integer(7 * CYCLES_STEP_NS));
	result = compare(list);
	cr_expect_str_eq(verdict(result, "h1", "h2"), "same");
	cr_expect(strstr(note_of(result, 4), "in common"), "%s", note_of(result, 4));
	cr_expect_eq(json_count(result, "pairs_unknown"), 4, "all of h5");
	json_decref(result);
}

/* One host replies with its export, which is accepted as one. */
Test(colocation, own_export)
{
	json_t *export = export_of(0), *args = json_object(), *result, *again;
	char *error = NULL;
	int exit = 0;

	json_object_set(args, "replies", json_object_get(export, "replies"));
	result = colocation_verbs.verbs[0].run(args, &exit, &error);
	cr_assert_not_null(result, "%s", error);
	cr_expect_eq(json_array_size(json_object_get(result, "notes")), 1);
	again = compare(json_incref(result));
	cr_expect_eq(json_count(again, "host_count"), 1);
	json_decref(result);
	json_decref(again);
	json_decref(args);
	json_decref(export);
}

static bool has(const json_t *list, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (!strcmp(json_string_value(one), name))
			return true;
	return false;
}

/* h1, h2 and h3 are nearest to each other; h2 shares its machine with h1, h5 with h3. */
Test(colocation, place)
{
	char *error;
	json_t *result = run(&place_verbs, exports(), json_pack("{s:i}", "hosts", 3), &error);
	const json_t *hosts = json_object_get(result, "hosts");

	cr_assert_not_null(result, "%s", error);
	cr_expect(has(hosts, "h1") && has(hosts, "h3") && has(hosts, "h4"));
	cr_expect_eq(json_count(result, "most_of_a_machine"), 1);
	cr_expect_str_eq(
		json_text(json_array_get(json_object_get(result, "left_out"), 0), "reason"),
		"it shares its machine with h1");
	json_decref(result);
	result = run(&place_verbs, exports(), json_pack("{s:i}", "hosts", 4), &error);
	cr_assert_not_null(result, "%s", error);
	cr_expect_eq(json_count(result, "most_of_a_machine"), 2, "there are three machines");
	json_decref(result);
	result = run(&place_verbs, exports(), json_pack("{s:i}", "hosts", 6), &error);
	cr_expect_null(result);
	cr_expect(error && strstr(error, "these exports have 5"), "%s", error);
	free(error);
}

/* --- the points --- */

/* How many steps are reported when the rate changes by 30 ppm. */
static unsigned int count_steps(double bound_ns)
{
	struct cycles *cycles = calloc(1, sizeof(*cycles));
	struct cycles_step step;
	unsigned int steps = 0;

	for (int64_t i = 0; i < 100; i++) {
		int64_t fabric_ns = 1000000000000ll + i * CYCLES_STEP_NS;
		uint64_t more = i > 50 ? (uint64_t)(i - 50) * 60000 : 0;

		steps += cycles_add(cycles, fabric_ns, 1000 + (uint64_t)fabric_ns + more, bound_ns,
				    &step);
	}
	free(cycles);
	return steps;
}

Test(colocation, a_step_within_the_bounds_is_of_fabric_time)
{
	cr_expect_eq(count_steps(100), 1);
	cr_expect_eq(count_steps(2e6), 0);
}

/* The rate of fabric time goes up and down by 1 ppm in 90 s; after 15 minutes the counter's
 * changes. */
Test(colocation, the_wander_of_fabric_time_is_no_step)
{
	struct cycles *cycles = calloc(1, sizeof(*cycles));
	int64_t period = 45, stepped = 450, last = 480;
	struct cycles_step step;
	unsigned int steps = 0;

	for (int64_t i = 0; i < last; i++) {
		int64_t fabric_ns = 1000000000000ll + i * CYCLES_STEP_NS;
		double wave = 2 * M_PI * (double)i / (double)period;
		double ahead_ns = 1000 * cos(wave) / (2 * M_PI) * (double)period * 2;

		if (i > stepped)
			ahead_ns += 60000.0 * (double)(i - stepped);
		steps +=
			cycles_add(cycles, fabric_ns,
				   (uint64_t)(fabric_ns + 1000000 + llrint(ahead_ns)), 1000, &step);
		if (i <= stepped)
			cr_assert_eq(steps, 0, "at %d s", (int)(2 * i));
	}
	cr_expect_eq(steps, 1);
	free(cycles);
}

Test(colocation, points)
{
	struct cycles *cycles = calloc(1, sizeof(*cycles));
	struct cycles_step step;
	struct cycles_rate rate;

	/* A counter of 1 GHz, 4 ppm fast; read four times in an interval, at no regular times. */
	for (int64_t i = 0; i < 4 * (CYCLES_POINTS + 100); i++) {
		int64_t fabric_ns =
			1000000000000ll + i * CYCLES_STEP_NS / 4 + i * 7919 % 1000 * 400000;
		uint64_t counter = 123456789 + (uint64_t)fabric_ns + (uint64_t)(fabric_ns / 250000);

		cr_expect_not(cycles_add(cycles, fabric_ns, counter, 50, &step));
	}
	cr_assert(cycles_rate(cycles, &rate));
	cr_expect_float_eq(rate.hz, 1000004000.0, 0.01, "%f", rate.hz);
	cr_expect(rate.noise_ns < 2, "%f", rate.noise_ns);
	/* Points off by 51 ns, those before the middle early and those after it late. */
	cr_expect_float_eq(rate.bound_ppb, 51 * 3 / (CYCLES_POINTS * 2.0), 1e-3, "%f",
			   rate.bound_ppb);
	cr_expect_eq(cycles->count, CYCLES_POINTS);
	cr_expect(isnan(cycles_at(cycles, cycles->last - CYCLES_POINTS).ahead_ns));
	cr_expect(isnan(cycles_at(cycles, cycles->last + 1).ahead_ns));
	/* A counter that was reset. */
	cr_expect_not(cycles_add(cycles, (cycles->last + 3) * CYCLES_STEP_NS, 5, 50, &step));
	cr_expect_eq(cycles->count, 0);
	free(cycles);
}

/* Fabric time that runs 100 ppm fast in every other quarter of a second, at @time_ns. */
static int64_t uneven_ns(int64_t time_ns)
{
	int64_t quarter_ns = CYCLES_STEP_NS / 8, quarter = time_ns / quarter_ns;
	int64_t fast_ns = (quarter + 1) / 2 * quarter_ns;

	fast_ns += quarter % 2 ? 0 : time_ns % quarter_ns;
	return 1000000000000ll + time_ns + fast_ns / 10000;
}

/* Points are of whole intervals: when within them the counter was read, and how often, is not in
 * them. */
Test(colocation, points_do_not_depend_on_when_the_counter_is_read)
{
	static struct cycles hosts[2];
	struct cycles_step step;

	for (int64_t i = 0; i < 8 * 50; i++)
		for (int64_t h = 0; h < 2; h++)
			for (int64_t k = 0; k <= h; k++) {
				int64_t time_ns =
					i * CYCLES_STEP_NS / 8 + k * (1 + i * 7919 % 200) * 1000000;

				cr_expect_not(cycles_add(&hosts[h], uneven_ns(time_ns),
							 1000 + (uint64_t)time_ns, 50, &step));
			}
	cr_assert_geq(hosts[0].count, 45);
	cr_assert_eq(hosts[0].last, hosts[1].last);
	for (unsigned int i = 1; i < 40; i++)
		cr_expect_float_eq(cycles_at(&hosts[0], hosts[0].last - i).ahead_ns,
				   cycles_at(&hosts[1], hosts[1].last - i).ahead_ns, 3);
}

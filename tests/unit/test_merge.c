// SPDX-License-Identifier: BSD-2-Clause
/* Event logs of several hosts in one order, against the true times of drawn events. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "tests/lib/rng.h"

#define US 1000ll
#define MS 1000000ll
#define BEGIN_NS 1769860800000000000ll

/* An event of @host, the @number'th of the daemon that started at @start. -1: no fabric time. */
static void add(struct merge *merge, int host, int start, int number, int64_t wall_ns,
		int64_t fabric_ns, int64_t bound_ns, int64_t true_ns)
{
	char line[512], fabric[96] = "";

	if (bound_ns >= 0)
		snprintf(fabric, sizeof(fabric), "\"fabric_ns\":%lld,\"bound_ns\":%lld,",
			 (long long)fabric_ns, (long long)bound_ns);
	snprintf(line, sizeof(line),
		 "{\"version\":1,\"id\":\"h%d:%x:%d\",\"host\":\"h%d\",\"time_ns\":%lld,%s"
		 "\"kind\":\"k\",\"seen\":{\"true_ns\":%lld}}\n",
		 host, start, number, host, (long long)wall_ns, fabric, (long long)true_ns);
	cr_assert(merge_line(merge, line, strlen(line)), "%s", line);
}

static int64_t true_of(const struct merged *one)
{
	return json_integer_value(json_object_get(json_object_get(one->event, "seen"), "true_ns"));
}

static bool is_ordered(const struct merged *a, const struct merged *b)
{
	return !strcmp(a->host, b->host)
		       ? a->start < b->start || (a->start == b->start && a->number < b->number)
		       : a->high_ns < b->low_ns;
}

/* Events of two hosts in turn, 10 us apart; errors of fabric time are drawn within the bound. */
static size_t draw_pairs(struct merge *merge, struct rng *rng, int64_t bound_ns)
{
	size_t by_wall = 0;

	for (int i = 0; i < 1000; i++) {
		int first = (int)(rng_next(rng) % 2);
		int64_t wall_ns[2];

		for (int k = 0; k < 2; k++) {
			int host = k ? !first : first;
			int64_t true_ns = BEGIN_NS + i * MS + k * 10 * US;
			int64_t error_ns = (int64_t)(rng_next(rng) % (2 * bound_ns + 1)) - bound_ns;

			/* As by NTP: a system clock may be some 100 us from another one. */
			wall_ns[k] = true_ns + (host ? 150 * US : -150 * US);
			add(merge, host, 1, i, wall_ns[k], true_ns + error_ns, bound_ns, true_ns);
		}
		by_wall += wall_ns[0] < wall_ns[1];
	}
	return by_wall;
}

/* Each interval may be off by its bound: a quarter of the distance is always enough. */
Test(merge, events_10_us_apart_are_ordered_where_the_bounds_allow_it)
{
	struct merge merge = {};
	struct rng rng;
	size_t right = 0, by_wall;

	rng_seed(&rng, 16);
	by_wall = draw_pairs(&merge, &rng, 2490);
	merge_sort(&merge);
	cr_expect_eq(merge_count_not_ordered(&merge, NULL), 0);
	cr_assert_eq(merge.count, 2000);
	for (size_t i = 0; i < merge.count; i += 2)
		right += true_of(&merge.list[i]) < true_of(&merge.list[i + 1]) &&
			 strcmp(merge.list[i].host, merge.list[i + 1].host);
	cr_expect_eq(right, 1000, "%zu of 1000", right);
	cr_expect(by_wall > 400 && by_wall < 600, "by the system clocks %zu of 1000", by_wall);
	merge_free(&merge);
}

Test(merge, where_they_do_not_it_says_so)
{
	struct merge merge = {};
	struct rng rng;

	rng_seed(&rng, 17);
	draw_pairs(&merge, &rng, 5100);
	merge_sort(&merge);
	cr_expect_gt(merge_count_not_ordered(&merge, NULL), 0);
	for (size_t i = 0; i + 1 < merge.count; i++) {
		const struct merged *one = &merge.list[i + 1];

		if (!one->not_ordered)
			cr_expect_lt(true_of(&merge.list[i]), true_of(one));
	}
	merge_free(&merge);
}

/* Random hosts, restarts, bounds and events without fabric time. */
static void draw_any(struct merge *merge, struct rng *rng)
{
	int hosts = 1 + (int)(rng_next(rng) % 5);
	int start[5] = {}, number[5] = {};
	int64_t true_ns = BEGIN_NS;

	for (int i = 0; i < 60; i++) {
		int host = (int)(rng_next(rng) % hosts);
		int64_t bound_ns = (int64_t)(rng_next(rng) % 3 ? rng_next(rng) % 40000 : 200);
		int64_t error_ns = (int64_t)(rng_next(rng) % (2 * bound_ns + 1)) - bound_ns;

		true_ns += 1 + (int64_t)(rng_next(rng) % 20000);
		if (rng_next(rng) % 16 == 0) {
			start[host]++;
			number[host] = 0;
		}
		if (rng_next(rng) % 8 == 0)
			bound_ns = -1;
		add(merge, host, start[host], number[host]++,
		    true_ns + (int64_t)(rng_next(rng) % MS), true_ns + error_ns, bound_ns, true_ns);
	}
}

Test(merge, what_it_orders_is_true_and_what_it_does_not_is_counted)
{
	struct rng rng;

	rng_seed(&rng, 18);
	for (int run = 0; run < 300; run++) {
		struct merge merge = {};

		draw_any(&merge, &rng);
		merge_sort(&merge);
		merge_count_not_ordered(&merge, NULL);
		for (size_t i = 0; i < merge.count; i++) {
			const struct merged *one = &merge.list[i];
			size_t open = 0;

			for (size_t k = 0; k < i; k++) {
				bool ordered = is_ordered(&merge.list[k], one);

				open += !ordered;
				cr_assert(!ordered || true_of(&merge.list[k]) < true_of(one));
				cr_assert(!is_ordered(one, &merge.list[k]));
			}
			cr_assert_eq(one->not_ordered, open);
		}
		merge_free(&merge);
	}
}

Test(merge, an_event_of_two_files_is_there_once)
{
	struct merge merge = {};

	for (int i = 0; i < 2; i++)
		for (int n = 0; n < 5; n++)
			add(&merge, 1, 1, n, BEGIN_NS, n, 1, n);
	merge_sort(&merge);
	cr_expect_eq(merge.count, 5);
	merge_free(&merge);
}

/* Fabric time that was reset: of what came before only the host's own order is known. */
Test(merge, an_earlier_fabric_time_is_not_compared)
{
	struct merge merge = {};

	add(&merge, 1, 1, 0, BEGIN_NS, 900 * MS, US, 0);
	add(&merge, 1, 2, 0, BEGIN_NS + 1, 10 * MS, US, 1);
	add(&merge, 2, 1, 0, BEGIN_NS + 2, 5 * MS, US, 2);
	add(&merge, 2, 1, 1, BEGIN_NS + 3, 20 * MS, US, 3);
	merge_sort(&merge);
	merge_count_not_ordered(&merge, NULL);
	for (size_t i = 0; i < merge.count; i++)
		if (true_of(&merge.list[i]) == 0)
			cr_expect(!merge.list[i].timed);
	cr_expect_eq(true_of(&merge.list[3]), 3);
	cr_expect_eq(merge.list[3].not_ordered, 0);
	merge_free(&merge);
}

Test(merge, what_is_no_event_is_refused)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"{\"id\":\"h1:1:1\",\"host\":\"h1\",\"kind\":\"k\"}",
		"{\"id\":\"h2:1:1\",\"host\":\"h1\",\"kind\":\"k\",\"time_ns\":1}",
		"{\"id\":\"h1:1\",\"host\":\"h1\",\"kind\":\"k\",\"time_ns\":1}",
		"{\"id\":\"h1:1:-1\",\"host\":\"h1\",\"kind\":\"k\",\"time_ns\":1}",
		"{\"id\":\"h1:1:1\",\"host\":\"h1\",\"kind\":\"k\",\"time_ns\":1,\"fabric_ns\":1}",
		"{\"id\":\"h1:1:1\",\"host\":\"h1\",\"kind\":\"k\",\"time_ns\":1,\"fabric_ns\":1,"
		"\"bound_ns\":-1}",
		"{\"id\":\"h1:1:1\",\"host\":\"h1\",\"kind\":\"k\",\"time_ns\":1,\"fabric_ns\":1,"
		"\"bound_ns\":9223372036854775807}",
	};
	struct merge merge = {};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect(!merge_line(&merge, bad[i], strlen(bad[i])), "%s", bad[i]);
	cr_expect_eq(merge.count, 0);
	merge_sort(&merge);
	merge_free(&merge);
}

Test(merge, filters)
{
	json_t *event =
		json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "path_down", "severity", "warning",
			  "subject", "h2", "fault", "path:h2/a>b/5", "job", "job_7");
	static const struct {
		const char *args;
		bool matches;
	} cases[] = {
		{"{}", true},
		{"{\"kinds\":[\"path_down\"]}", true},
		{"{\"kinds\":[\"path_up\"]}", false},
		{"{\"kinds\":[\"path_up\",\"path_*\"]}", true},
		{"{\"severity\":\"notice\"}", true},
		{"{\"severity\":\"warning\"}", true},
		{"{\"severity\":\"critical\"}", false},
		{"{\"subject\":\"h2\"}", true},
		{"{\"subject\":\"job_7\"}", true},
		{"{\"subject\":\"h3\"}", false},
		{"{\"subject\":\"h2\",\"kinds\":[\"x\"]}", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *args = json_loads(cases[i].args, 0, NULL);

		cr_expect_eq(cli_event_matches(args, event), cases[i].matches, "%s", cases[i].args);
		json_decref(args);
	}
	json_decref(event);
}

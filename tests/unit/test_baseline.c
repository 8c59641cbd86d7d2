// SPDX-License-Identifier: BSD-2-Clause
/*
 * Baselines: series with diurnal loads, weekends, bursts and slow links over simulated days; what
 * is slower as a destination or as a NIC; the file. ESCAPEMENT_SEED draws another fleet,
 * BASELINE_SERIES a larger one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "baseline/internal.h"
#include "tests/lib/rng.h"

#define MINUTE 60000000000ull
#define START (20000 * BASELINE_DAY_NS) /* a Thursday, midnight */
#define DAYS 30

static const struct baseline_law law = {0.1, MINUTE, BASELINE_DAY_NS};

static uint64_t seed_of(void)
{
	const char *text = getenv("ESCAPEMENT_SEED");

	return text && *text ? strtoull(text, NULL, 0) : 1;
}

static unsigned int series_count(void)
{
	const char *text = getenv("BASELINE_SERIES");

	return text && *text ? (unsigned int)strtoul(text, NULL, 0) : 24;
}

static struct baseline_key key_of(unsigned int destination, enum baseline_kind kind, uint16_t sport)
{
	struct baseline_key key = {.interface = "eth1", .sport = sport, .kind = (uint8_t)kind};

	key.dst.bytes[15] = (uint8_t)destination;
	return key;
}

/* --- a simulated link --- */

struct link {
	struct rng rng;
	bool rate;
	double base;	      /* ns, or bytes/s, when nothing else is there */
	double day, night;    /* utilization */
	double peak_hour;     /* of the load */
	double weekend;	      /* share of the load then */
	double service_ns;    /* of one packet or burst in its queue */
	double bound_share;   /* of the clock, of the base */
	double phase, height; /* of today */
	double clock;	      /* its error, as a share of the bound */
	uint64_t burst_until, wide_until;
	double slower; /* 0.1: the link is that much slower */
};

static void link_draw(struct link *link, uint64_t seed, bool rate)
{
	*link = (struct link){.rate = rate};
	rng_seed(&link->rng, seed);
	link->base = rate ? 1e9 + 49e9 * rng_unit(&link->rng) : 2000 + 28000 * rng_unit(&link->rng);
	link->night = 0.05 + 0.3 * rng_unit(&link->rng);
	link->day = link->night + (0.9 - link->night) * pow(rng_unit(&link->rng), 2);
	link->peak_hour = 24 * rng_unit(&link->rng);
	link->weekend = 0.2 + 0.8 * rng_unit(&link->rng);
	link->service_ns = 500 + 20000 * rng_unit(&link->rng);
	link->bound_share = rate ? 0 : 0.005 + 0.015 * rng_unit(&link->rng);
	link->height = 1;
}

/* The share of time in which others use it. */
static double link_load(struct link *link, uint64_t now_ns)
{
	uint64_t day = now_ns / BASELINE_DAY_NS;
	double hour = (double)(now_ns % BASELINE_DAY_NS) / BASELINE_HOUR_NS;
	double shape = 0.5 + 0.5 * cos((hour - link->peak_hour - link->phase) * M_PI / 12);
	double load = link->night + (link->day - link->night) * shape * link->height;

	/* 20000 was a Thursday. */
	if (day % 7 == (20000 + 2) % 7 || day % 7 == (20000 + 3) % 7)
		load *= link->weekend;
	return fmin(load, 0.95);
}

/* What changes between minutes: bursts that leave no gap, the clock, the day. */
static void link_pass(struct link *link, uint64_t now_ns)
{
	struct rng *rng = &link->rng;

	if (now_ns % BASELINE_DAY_NS < MINUTE) {
		link->phase = rng_normal(rng) / 2;
		link->height = 1 + 0.1 * rng_normal(rng);
	}
	if (now_ns > link->burst_until + 30 * MINUTE && rng_below(rng, 480) == 0)
		link->burst_until = now_ns + (1 + rng_below(rng, 6)) * MINUTE;
	if (rng_below(rng, 2000) == 0)
		link->wide_until = now_ns + 60 * MINUTE;
	link->clock = 0.9 * link->clock + 0.1 * rng_normal(rng);
	link->clock = fmax(-1, fmin(1, link->clock));
}

static double link_bound(const struct link *link, uint64_t now_ns)
{
	return link->bound_share * link->base * (now_ns < link->wide_until ? 20 : 1);
}

/* The least delay of some probes, or the mean rate of a second's messages. */
static double link_sample(struct link *link, uint64_t now_ns)
{
	double load = link_load(link, now_ns), least = INFINITY;
	bool burst = now_ns < link->burst_until;

	if (link->rate) {
		double share = 1 - load * (0.2 + 0.8 * rng_unit(&link->rng));

		return link->base * (1 - link->slower) * share * (burst ? 0.5 : 1) *
		       (1 + 0.003 * rng_normal(&link->rng));
	}
	for (unsigned int i = 0; i < 20; i++) {
		double queue = burst ? 3 * link->service_ns : 0;

		if (rng_unit(&link->rng) < load)
			queue += link->service_ns / (1 - load) * rng_exponential(&link->rng);
		least = fmin(least, queue);
	}
	return link->base * (1 + link->slower) + least + link_bound(link, now_ns) * link->clock +
	       20 * rng_exponential(&link->rng);
}

static enum baseline_step link_minute(struct link *link, struct baseline_series *series,
				      uint64_t now_ns)
{
	enum baseline_step step = BASELINE_NOTHING, one;

	link_pass(link, now_ns);
	for (unsigned int i = 0; i < 10; i++) {
		uint64_t at_ns = now_ns + i * MINUTE / 10;

		one = baseline_take(series, &law, at_ns, link_sample(link, at_ns),
				    link_bound(link, at_ns));
		step = one ? one : step;
	}
	return step;
}

/* --- no finding of what is usual --- */

Test(baseline, a_diurnal_load_is_no_finding, .timeout = 600)
{
	unsigned int findings = 0, compared = 0, sensitive = 0, count = series_count();

	for (unsigned int i = 0; i < count; i++) {
		bool rate = i % 2;
		struct baseline_series series = {
			.key = key_of(i, rate ? BASELINE_THROUGHPUT : BASELINE_PATH, 1)};
		struct link link;

		link_draw(&link, seed_of() * 100000 + i, rate);
		for (uint64_t minute = 0; minute < DAYS * 1440; minute++) {
			if (link_minute(&link, &series, START + minute * MINUTE) ==
			    BASELINE_BEGINS) {
				findings++;
				cr_log_warn("series %u (%s), minute %lu: slower by %.3f, need %.3f",
					    i, rate ? "rate" : "delay", (unsigned long)minute,
					    baseline_change(&series), (double)series.need);
			}
			compared += series.need > 0;
			sensitive +=
				series.need > 0 &&
				baseline_state(&series, &law, series.seen_ns) == BASELINE_USUAL;
		}
	}
	cr_expect_eq(findings, 0, "seed %lu: %u findings", (unsigned long)seed_of(), findings);
	/* All but the first day is compared. */
	cr_expect_gt(compared, count * (DAYS - 2) * 1440u);
	cr_log_info("%u series, %.1f%% of their minutes show 10%% for sure", count,
		    100.0 * sensitive / compared);
}

/* --- what is 10% slower is found --- */

Test(baseline, a_slow_link_is_found_within_eleven_minutes, .timeout = 600)
{
	unsigned int missed = 0, tried = 0, blind = 0, stuck = 0;
	unsigned int worst = 0, count = series_count();

	for (unsigned int i = 0; i < count; i++) {
		bool rate = i % 2, began = false, ended = false, usual = true;
		struct baseline_series series = {
			.key = key_of(i, rate ? BASELINE_THROUGHPUT : BASELINE_PATH, 1)};
		unsigned int minute;
		struct link link;
		uint64_t at;

		link_draw(&link, seed_of() * 100000 + 50000 + i, rate);
		at = 3 * 1440 + rng_below(&link.rng, 5 * 1440);
		for (uint64_t m = 0; m < at; m++)
			link_minute(&link, &series, START + m * MINUTE);
		/* It varies by more: that is shown, and promised nothing of. */
		if (baseline_state(&series, &law, series.seen_ns) != BASELINE_USUAL) {
			blind++;
			continue;
		}
		link.slower = 0.1;
		for (minute = 0; minute < 60 && !began; minute++) {
			began = link_minute(&link, &series, START + (at + minute) * MINUTE) ==
				BASELINE_BEGINS;
			usual &= began || minute > 11 ||
				 baseline_state(&series, &law, series.seen_ns) == BASELINE_USUAL;
		}
		if (!usual) {
			blind++;
			continue;
		}
		tried++;
		worst = minute > worst ? minute : worst;
		missed += minute > 11;
		if (minute > 11)
			cr_log_warn("series %u (%s): minute %u, need %.3f, shows %.3f", i,
				    rate ? "rate" : "delay", minute, (double)series.need,
				    (double)series.shows);
		link.slower = 0;
		for (at += minute, minute = 0; minute < 60 && !ended; minute++)
			ended = link_minute(&link, &series, START + (at + minute) * MINUTE) ==
				BASELINE_ENDS;
		stuck += began && !ended;
	}
	cr_expect_eq(missed, 0, "seed %lu: %u of %u", (unsigned long)seed_of(), missed, tried);
	cr_expect_eq(stuck, 0);
	/* Of these loads: with the others too much varies by the hour. */
	cr_expect_geq(tried, count / 3);
	cr_log_info("%u of %u slow links, the last in minute %u; %u vary by more", tried - missed,
		    tried, worst, blind);
}

/* --- the law, minute by minute --- */

static void feed(struct baseline_series *series, uint64_t *now_ns, unsigned int minutes,
		 double value, double bound)
{
	for (unsigned int i = 0; i < minutes; i++, *now_ns += MINUTE)
		baseline_take(series, &law, *now_ns, value, bound);
}

/* @minutes of @value; returns the step that came of them, the last one. */
static enum baseline_step steps(struct baseline_series *series, uint64_t *now_ns,
				unsigned int minutes, double value, double bound)
{
	enum baseline_step step = BASELINE_NOTHING, one;

	for (unsigned int i = 0; i < minutes; i++, *now_ns += MINUTE) {
		one = baseline_take(series, &law, *now_ns, value, bound);
		step = one ? one : step;
	}
	return step;
}

Test(baseline, less_than_ten_minutes_or_less_than_three_quarters_is_usual)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_PATH, 1)};
	uint64_t now_ns = START;

	feed(&series, &now_ns, 2 * 1440, 10000, 10);
	cr_expect_eq(steps(&series, &now_ns, 8, 20000, 10), BASELINE_NOTHING);
	cr_expect_eq(steps(&series, &now_ns, 60, 10000, 10), BASELINE_NOTHING);
	cr_expect_eq(steps(&series, &now_ns, 600, 10700, 10), BASELINE_NOTHING);
	cr_expect_eq(steps(&series, &now_ns, 60, 10000, 10), BASELINE_NOTHING);
	cr_expect_eq(steps(&series, &now_ns, 11, 11000, 10), BASELINE_BEGINS);
	cr_expect_eq(steps(&series, &now_ns, 300, 11000, 10), BASELINE_NOTHING);
	cr_expect_float_eq(baseline_change(&series), 0.1, 1e-3);
	cr_expect_eq(steps(&series, &now_ns, 11, 10100, 10), BASELINE_ENDS);
}

/* With a value in one of four minutes ten of them are never near each other: nothing is compared.
 */
Test(baseline, with_few_values_it_is_idle_and_not_usual)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_PATH, 1)};
	uint64_t now_ns = START;

	feed(&series, &now_ns, 2 * 1440, 10000, 10);
	cr_expect_eq(baseline_state(&series, &law, now_ns), BASELINE_USUAL);
	for (unsigned int i = 0; i < 20; i++, now_ns += 4 * MINUTE)
		cr_expect_eq(baseline_take(&series, &law, now_ns, 20000, 10), BASELINE_NOTHING);
	cr_expect_eq(baseline_state(&series, &law, now_ns), BASELINE_IDLE);
}

Test(baseline, a_rate_is_slower_when_it_is_lower)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_THROUGHPUT, 0)};
	uint64_t now_ns = START;

	feed(&series, &now_ns, 2 * 1440, 1e9, 0);
	cr_expect_eq(steps(&series, &now_ns, 60, 1.3e9, 0), BASELINE_NOTHING);
	cr_expect_eq(steps(&series, &now_ns, 11, 0.9e9, 0), BASELINE_BEGINS);
	cr_expect_eq(steps(&series, &now_ns, 11, 1e9, 0), BASELINE_ENDS);
}

Test(baseline, a_delay_within_the_bounds_is_usual)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_PATH, 1)};
	uint64_t now_ns = START;

	feed(&series, &now_ns, 2 * 1440, 10000, 100);
	cr_expect_eq(steps(&series, &now_ns, 60, 12000, 1950), BASELINE_NOTHING);
	cr_expect_eq(steps(&series, &now_ns, 12, 12000, 1800), BASELINE_BEGINS);
}

Test(baseline, it_is_learned_for_a_day_first)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_PATH, 1)};
	uint64_t now_ns = START;

	feed(&series, &now_ns, 1000, 10000, 10);
	cr_expect_eq(steps(&series, &now_ns, 300, 12000, 10), BASELINE_NOTHING);
	cr_expect_eq(baseline_state(&series, &law, now_ns), BASELINE_LEARNING);
	cr_expect(isnan(baseline_change(&series)));
}

Test(baseline, what_is_slower_is_not_learned_for_a_week_and_then_usual)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_PATH, 1)};
	uint64_t now_ns = START;

	feed(&series, &now_ns, 2 * 1440, 10000, 10);
	cr_expect_eq(steps(&series, &now_ns, 6 * 1440, 11500, 10), BASELINE_BEGINS);
	cr_expect_float_eq(baseline_change(&series), 0.15, 0.01);
	cr_expect_eq(steps(&series, &now_ns, 1450, 11500, 10), BASELINE_ACCEPTED);
	cr_expect_eq(steps(&series, &now_ns, 3 * 1440, 11500, 10), BASELINE_NOTHING);
	cr_expect_eq(steps(&series, &now_ns, 12, 13000, 10), BASELINE_BEGINS);
}

Test(baseline, bins_of_two_jobs_are_not_put_together)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_THROUGHPUT, 0)};
	uint64_t now_ns = START;

	feed(&series, &now_ns, 2 * 1440, 1e9, 0);
	for (unsigned int i = 0; i < 20; i++) {
		cr_expect_eq(steps(&series, &now_ns, 5, 0.5e9, 0), BASELINE_NOTHING);
		now_ns += 40 * MINUTE;
		cr_expect_eq(steps(&series, &now_ns, 1, 1e9, 0), BASELINE_NOTHING);
		now_ns += 40 * MINUTE;
	}
}

Test(baseline, a_finding_of_what_is_not_measured_any_more_ends)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_PATH, 1)};
	enum baseline_step step = BASELINE_NOTHING;
	uint64_t now_ns = START;

	feed(&series, &now_ns, 2 * 1440, 10000, 10);
	cr_assert_eq(steps(&series, &now_ns, 12, 12000, 10), BASELINE_BEGINS);
	for (unsigned int i = 0; i < 59; i++)
		cr_expect_eq(baseline_pass(&series, &law, now_ns += MINUTE), BASELINE_NOTHING);
	for (unsigned int i = 0; i < 3 && !step; i++)
		step = baseline_pass(&series, &law, now_ns += MINUTE);
	cr_expect_eq(step, BASELINE_GOES);
}

Test(baseline, a_clock_that_is_set_back_begins_no_finding)
{
	struct baseline_series series = {.key = key_of(1, BASELINE_PATH, 1)};
	uint64_t now_ns = START;

	feed(&series, &now_ns, 2 * 1440, 10000, 10);
	now_ns -= BASELINE_DAY_NS * 100;
	cr_expect_eq(steps(&series, &now_ns, 100, 10000, 10), BASELINE_NOTHING);
	now_ns += BASELINE_DAY_NS * 100;
	cr_expect_eq(steps(&series, &now_ns, 100, 10000, 10), BASELINE_NOTHING);
}

/* --- destinations and NICs --- */

static struct {
	struct baseline_book book;
	uint64_t now_ns;
	unsigned int begun, ended, own_begun;
	char why[16];
	struct baseline_subject newest;
} world;

static void count_begin(void *context, const struct baseline_subject *subject, const char *reason)
{
	(void)context;
	(void)reason;
	world.begun++;
	world.own_begun += subject->own;
	world.newest = *subject;
}

static void count_end(void *context, const struct baseline_subject *subject, const char *reason)
{
	(void)context;
	(void)subject;
	world.ended++;
	snprintf(world.why, sizeof(world.why), "%s", reason);
}

/* Of 6 destinations on two paths, the first @slow, and of these @paths paths, are slower. */
static void pass_world(unsigned int minutes, unsigned int slow, unsigned int paths)
{
	for (; minutes; minutes--, world.now_ns += MINUTE) {
		for (unsigned int d = 0; d < 6; d++)
			for (uint16_t p = 0; p < 2; p++) {
				struct baseline_key key = key_of(d, BASELINE_PATH, p);

				baseline_book_take(&world.book, &law, &key, world.now_ns,
						   d < slow && p < paths ? 12000 : 10000, 10);
			}
		baseline_book_evaluate(&world.book, &law, world.now_ns, count_begin, count_end,
				       NULL);
	}
}

static void world_begin(void)
{
	memset(&world, 0, sizeof(world));
	world.now_ns = START;
	pass_world(2 * 1440, 0, 0);
}

static void world_end(void)
{
	baseline_book_clear(&world.book);
}

Test(baseline, a_destination_is_one_finding, .init = world_begin, .fini = world_end)
{
	cr_expect_eq(world.begun, 0);
	pass_world(30, 1, 2);
	cr_expect_eq(world.begun, 1);
	cr_expect_not(world.newest.own);
	cr_expect_eq(world.newest.slow, 2);
	cr_expect_eq(world.newest.compared, 2);
	pass_world(30, 0, 0);
	cr_expect_eq(world.ended, 1);
	cr_expect_str_eq(world.why, "usual");
	cr_expect_eq(world.book.subject_count, 0);
}

Test(baseline, all_destinations_are_the_nic, .init = world_begin, .fini = world_end)
{
	pass_world(30, 5, 2);
	cr_expect_eq(world.begun, 1, "%u", world.begun);
	cr_expect(world.newest.own);
	cr_expect_str_eq(world.newest.interface, "eth1");
	cr_expect_eq(world.newest.compared, 6);
	/* One is left. */
	pass_world(30, 1, 2);
	cr_expect_eq(world.begun, 2);
	cr_expect_eq(world.ended, 1);
	cr_expect_not(world.newest.own);
}

Test(baseline, one_path_of_two_to_all_destinations_is_not_the_nic, .init = world_begin,
     .fini = world_end)
{
	pass_world(30, 6, 1);
	cr_expect_eq(world.own_begun, 0);
	cr_expect_eq(world.begun, 6);
}

static bool is_first(const void *context, const struct baseline_series *series)
{
	(void)context;
	return series->key.dst.bytes[15] == 0;
}

Test(baseline, what_is_forgotten_ends, .init = world_begin, .fini = world_end)
{
	pass_world(30, 1, 2);
	cr_expect_eq(baseline_book_forget(&world.book, is_first, NULL), 2);
	pass_world(1, 1, 2);
	cr_expect_eq(world.ended, 1);
	cr_expect_str_eq(world.why, "forgotten");
	pass_world(600, 1, 2);
	cr_expect_eq(world.begun, 1);
}

Test(baseline, when_it_is_full_the_one_that_is_silent_longest_goes)
{
	struct baseline_book book = {};
	uint64_t now_ns = START;

	for (uint32_t i = 0; i < BASELINE_SERIES_MAX; i++) {
		struct baseline_key key = key_of(i % 250, BASELINE_PATH, (uint16_t)(i / 250));

		baseline_book_take(&book, &law, &key, now_ns + i, 1000, 1);
	}
	for (uint16_t i = 0; i < 3; i++) {
		struct baseline_key key = key_of(251, BASELINE_PATH, i);

		baseline_book_take(&book, &law, &key, now_ns + BASELINE_SERIES_MAX, 1000, 1);
	}
	cr_expect_eq(book.left_out, 3);
	now_ns += BASELINE_HOUR_NS;
	for (uint16_t i = 0; i < 3; i++) {
		struct baseline_key key = key_of(251, BASELINE_PATH, i);

		baseline_book_take(&book, &law, &key, now_ns, 1000, 1);
	}
	cr_expect_eq(book.left_out, 3, "none more: there was room");
	cr_expect_eq(book.count, BASELINE_SERIES_MAX);
	for (size_t i = 0; i < book.count; i++)
		cr_expect_geq(book.list[i]->seen_ns, START + 3);
	baseline_book_clear(&book);
}

/* --- the file --- */

static void add(void *context, const struct baseline_series *series)
{
	baseline_book_add(context, series);
}

Test(baseline, the_file_has_all_that_was_learned, .init = world_begin, .fini = world_end)
{
	struct baseline_book other = {};
	const char *reason = "";
	size_t bytes;
	void *data;

	pass_world(30, 1, 2);
	data = baseline_encode(world.book.list, world.book.count, law.bin_ns, &bytes);
	cr_assert_not_null(data);
	cr_assert_eq(baseline_decode(data, bytes, law.bin_ns, add, &other, &reason), 0, "%s",
		     reason);
	cr_expect_eq(other.count, 12);
	/* After a restart it is reported again, by the same name, and ends when it is over. */
	baseline_book_clear(&world.book);
	world.book = other;
	world.begun = 0;
	pass_world(1, 1, 2);
	cr_expect_eq(world.begun, 1);
	pass_world(30, 0, 0);
	cr_expect_eq(world.ended, 1);
	/* What begins later is compared at once. */
	pass_world(12, 2, 2);
	cr_expect_eq(world.begun, 3);
	free(data);
}

Test(baseline, a_damaged_file_is_refused_whole, .init = world_begin, .fini = world_end)
{
	struct baseline_book other = {};
	const char *reason;
	unsigned char *data, *copy;
	struct rng rng;
	size_t bytes;

	rng_seed(&rng, seed_of());
	data = baseline_encode(world.book.list, world.book.count, law.bin_ns, &bytes);
	cr_assert_eq(baseline_decode(data, bytes, law.bin_ns + 1, add, &other, &reason), -EINVAL);
	cr_expect_not_null(strstr(reason, "baseline.after"));
	for (unsigned int i = 0; i < 2000; i++) {
		size_t left = i % 2 ? bytes : rng_below(&rng, bytes);

		copy = malloc(left + 1);
		memcpy(copy, data, left);
		if (i % 2)
			copy[rng_below(&rng, bytes)] ^= (unsigned char)(1 + rng_below(&rng, 255));
		cr_expect_eq(baseline_decode(copy, left, law.bin_ns, add, &other, &reason),
			     -EINVAL);
		free(copy);
	}
	cr_expect_eq(other.count, 0);
	baseline_book_clear(&other);
	free(data);
}

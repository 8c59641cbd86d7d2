// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "delay/internal.h"
#include "core/events.h"
#include "qp/internal.h"

#define SECOND 1000000000ULL
#define MS 1000000ULL
#define WINDOW (1ULL << ESC_OWD_WINDOW_SHIFT)
#define IDLE (10 * SECOND)

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static void start_random(void)
{
	const char *given = getenv("SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	cr_log_info("SEED=%llu", (unsigned long long)seed);
	fprintf(stderr, "# SEED=%llu\n", (unsigned long long)seed);
}

/* As the programs do it. */
static void sample(struct esc_qp_owd *owd, uint64_t ktime_ns, int64_t delay_ns,
		   int64_t threshold_ns)
{
	uint32_t number = (uint32_t)(ktime_ns >> ESC_OWD_WINDOW_SHIFT);
	struct esc_owd_window *window = &owd->windows[number % ESC_OWD_WINDOWS];
	bool above = delay_ns > threshold_ns;

	if (window->number != number) {
		memset(window, 0, sizeof(*window));
		window->number = number;
	}
	if (!window->samples || delay_ns < window->min_ns)
		window->min_ns = delay_ns;
	if (!window->samples || delay_ns > window->max_ns)
		window->max_ns = delay_ns;
	window->samples++;
	window->sum_ns += delay_ns;
	window->bound_ns = window->bound_ns > 700 ? window->bound_ns : 700;
	window->over += above;
	window->crossings += above && !owd->above;
	owd->over += above;
	owd->crossings += above && !owd->above;
	owd->above = above;
	if (!owd->samples || delay_ns < owd->min_ns)
		owd->min_ns = delay_ns;
	if (!owd->samples || delay_ns > owd->max_ns)
		owd->max_ns = delay_ns;
	if (!owd->receipts)
		owd->first_ktime_ns = ktime_ns;
	owd->samples_sent++;
	owd->receipts++;
	owd->samples++;
	owd->feedback_sum_ns += 20000;
	owd->last_ktime_ns = ktime_ns;
	owd->last_ns = delay_ns;
	owd->last_bound_ns = 700;
	owd->histogram[esc_owd_bucket(delay_ns)]++;
}

/* --- the histogram --- */

Test(delayhist, buckets_of_the_map_have_their_bounds)
{
	for (uint32_t i = 0; i + 1 < ESC_OWD_BUCKETS; i++) {
		uint64_t floor = esc_owd_bucket_floor(i), end = esc_owd_bucket_floor(i + 1);

		cr_assert_eq(esc_owd_bucket((int64_t)floor), i);
		cr_assert_eq(esc_owd_bucket((int64_t)end - 1), i);
		cr_assert(i < 32 ? end - floor == 8 : (double)(end - floor) <= (double)floor / 32);
	}
}

static int compare(const void *a, const void *b)
{
	const int64_t *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

Test(delayhist, quantiles_are_within_a_bucket_of_the_sorted_samples)
{
	static const double parts[] = {0.01, 0.5, 0.9, 0.99, 1};

	start_random();
	for (int round = 0; round < 200; round++) {
		uint32_t now[ESC_OWD_BUCKETS] = {}, before[ESC_OWD_BUCKETS];
		struct delayhist hist = {};
		size_t count = 1 + draw(500);
		int64_t values[500];

		/* Counters that are about to wrap. */
		for (size_t i = 0; i < ESC_OWD_BUCKETS; i++)
			now[i] = before[i] = UINT32_MAX - draw(3);
		for (size_t i = 0; i < count; i++) {
			values[i] = (int64_t)draw(1000) << draw(18);
			now[esc_owd_bucket(values[i])]++;
		}
		qsort(values, count, sizeof(*values), compare);
		cr_assert_eq(delayhist_add_since(&hist, now, before), 0);
		cr_assert_eq(delayhist_samples(&hist), count);
		for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
			size_t rank = (size_t)(parts[i] * (double)count + 0.999999);
			int64_t truth = values[rank ? rank - 1 : 0];
			int64_t told = delayhist_quantile(&hist, parts[i]);

			cr_assert(llabs(told - truth) <= 4 + truth / 32, "%lld for %lld",
				  (long long)told, (long long)truth);
		}
		delayhist_free(&hist);
	}
}

Test(delayhist, adding_is_adding_bucket_by_bucket)
{
	start_random();
	for (int round = 0; round < 200; round++) {
		struct delayhist sum = {};
		uint64_t truth[ESC_OWD_BUCKETS] = {}, at = 0;

		for (int part = 0; part < 5; part++) {
			uint32_t now[ESC_OWD_BUCKETS] = {};
			struct delayhist more = {};

			for (uint32_t i = draw(60); i > 0; i--)
				now[draw(draw(2) ? 40 : ESC_OWD_BUCKETS)]++;
			for (size_t i = 0; i < ESC_OWD_BUCKETS; i++)
				truth[i] += now[i];
			cr_assert_eq(delayhist_add_since(&more, now, NULL), 0);
			cr_assert_eq(delayhist_add(&sum, &more), 0);
			delayhist_free(&more);
		}
		for (uint32_t i = 0; i < ESC_OWD_BUCKETS; i++) {
			if (!truth[i])
				continue;
			cr_assert_lt(at, sum.count);
			cr_assert_eq(sum.bars[at].bucket, i);
			cr_assert_eq(sum.bars[at++].count, truth[i]);
		}
		cr_assert_eq(at, sum.count);
		delayhist_free(&sum);
	}
}

/* --- one queue pair --- */

struct one {
	struct delays_entry *entry;
	struct esc_qp_owd owd;
	struct delayhist scratch;
	uint64_t now_ns;
};

static void one_open(struct one *one)
{
	memset(one, 0, sizeof(*one));
	one->entry = calloc(1, sizeof(*one->entry));
	one->now_ns = 1000 * WINDOW;
}

static void one_close(struct one *one)
{
	delays_entry_free(one->entry);
	delayhist_free(&one->scratch);
}

static void one_look(struct one *one)
{
	cr_assert_eq(delays_entry_read(one->entry, &one->owd, one->now_ns, false, &one->scratch),
		     0);
}

/*
 * Looks at times of chance, at most 1.8 s apart, and writes now and then: the
 * span of each write has all of its samples, its extremes and its crossings.
 */
Test(delays_entry, a_scrape_leaves_nothing_out)
{
	struct one one;

	start_random();
	one_open(&one);
	for (int scrape = 0; scrape < 60; scrape++) {
		int64_t min = INT64_MAX, max = INT64_MIN;
		uint64_t samples = 0, over = one.owd.over, crossings = one.owd.crossings;
		double sum = 0;

		for (uint32_t look = 1 + draw(12); look > 0; look--) {
			uint64_t until = one.now_ns + 10 * MS + draw(1790) * MS;

			while (one.now_ns < until) {
				int64_t delay = 2000 + draw(3000);

				if (!draw(200))
					delay = 50000 + (int64_t)draw(400000);
				one.now_ns += MS + draw(20 * MS);
				sample(&one.owd, one.now_ns, delay, 100000);
				min = delay < min ? delay : min;
				max = delay > max ? delay : max;
				sum += (double)delay;
				samples++;
			}
			one_look(&one);
		}
		cr_assert_eq(one.entry->scrape.samples, samples);
		cr_assert_eq(one.entry->scrape.over, one.owd.over - over);
		cr_assert_eq(one.entry->scrape.crossings, one.owd.crossings - crossings);
		/* A window in progress at the write may have earlier extremes: a bucket. */
		cr_assert(llabs(one.entry->scrape.max_ns - max) <= max / 32);
		cr_assert(llabs(one.entry->scrape.min_ns - min) <= 8 + min / 32);
		cr_assert_float_eq(one.entry->scrape.mean_ns, sum / (double)samples, 1);
		cr_assert_leq(one.entry->scrape.p50_ns, one.entry->scrape.p99_ns);
		cr_assert_leq(one.entry->scrape.p99_ns, one.entry->scrape.max_ns);
		cr_assert_geq(one.entry->scrape.p50_ns, one.entry->scrape.min_ns);
		cr_assert_eq(one.entry->scrape.bound_ns, 700);
		delays_entry_written(one.entry);
	}
	one_close(&one);
}

Test(delays_entry, a_burst_of_one_sample_is_there_at_the_next_write)
{
	struct one one;

	one_open(&one);
	for (int i = 0; i < 5000; i++) {
		one.now_ns += MS;
		sample(&one.owd, one.now_ns, i == 777 ? 4321000 : 3000, 100000);
		if (i % 250 == 249)
			one_look(&one);
	}
	cr_assert_eq(one.entry->scrape.max_ns, 4321000);
	cr_assert_eq(one.entry->scrape.over, 1);
	cr_assert_eq(one.entry->scrape.crossings, 1);
	cr_assert_lt(one.entry->recent.max_ns, 4000, "not in the recent window");
	delays_entry_written(one.entry);
	one.now_ns += MS;
	sample(&one.owd, one.now_ns, 3000, 100000);
	one_look(&one);
	cr_assert_eq(one.entry->scrape.samples, 1);
	cr_assert_eq(one.entry->scrape.crossings, 0);
	cr_assert_lt(one.entry->scrape.max_ns, 3200);
	one_close(&one);
}

/* No poll for ten seconds: windows are lost, the histogram is complete. */
Test(delays_entry, a_late_poll_is_as_wide_as_a_bucket)
{
	struct one one;

	one_open(&one);
	for (int i = 0; i < 10000; i++) {
		one.now_ns += MS;
		sample(&one.owd, one.now_ns, i == 10 ? 900000 : 3000, 100000);
	}
	one_look(&one);
	cr_assert_eq(one.entry->scrape.samples, 10000);
	cr_assert(llabs(one.entry->scrape.max_ns - 900000) <= 900000 / 32);
	cr_assert_eq(one.entry->scrape.crossings, 1);
	one_close(&one);
}

Test(delays_entry, recent_is_the_last_second)
{
	struct one one;

	one_open(&one);
	for (int i = 0; i < 3000; i++) {
		one.now_ns += MS;
		sample(&one.owd, one.now_ns, 3000, 100000);
		if (i % 250 == 249)
			one_look(&one);
	}
	cr_assert(one.entry->recent.samples >= 750 && one.entry->recent.samples <= 1350, "%llu",
		  (unsigned long long)one.entry->recent.samples);
	cr_assert(llabs(one.entry->recent.p50_ns - 3000) <= 3000 / 32);
	for (int i = 0; i < 1400; i++) {
		one.now_ns += MS;
		sample(&one.owd, one.now_ns, 50000, 100000);
		if (i % 250 == 249)
			one_look(&one);
	}
	one_look(&one);
	cr_assert(one.entry->recent.min_ns > 48000, "old ones are out: %lld",
		  (long long)one.entry->recent.min_ns);
	cr_assert(one.entry->poll.samples == 150, "since the last poll");
	delays_entry_still(one.entry);
	cr_assert_eq(one.entry->recent.samples, 0);
	one_close(&one);
}

Test(delays_entry, the_floor_is_of_thirty_seconds)
{
	struct one one;
	int64_t floor = 0;

	one_open(&one);
	cr_assert_not(delays_entry_floor(one.entry, one.now_ns, &floor));
	for (int i = 0; i < 2000; i++) {
		one.now_ns += 20 * MS; /* 40 s: 2 us until 35 s before the end, then 5 us */
		sample(&one.owd, one.now_ns, i < 250 ? 2000 : 5000, 100000);
		if (i % 12 == 0)
			one_look(&one);
		if (i == 1000) {
			cr_assert(delays_entry_floor(one.entry, one.now_ns, &floor));
			cr_assert_eq(floor, 2000);
		}
	}
	cr_assert(delays_entry_floor(one.entry, one.now_ns, &floor));
	cr_assert_eq(floor, 5000);
	cr_assert_not(delays_entry_floor(one.entry, one.now_ns + 40 * SECOND, &floor));
	one_close(&one);
}

Test(delays_entry, a_recreated_entry_counts_from_zero)
{
	struct one one;

	one_open(&one);
	for (int i = 0; i < 500; i++)
		sample(&one.owd, one.now_ns += MS, 3000, 100000);
	one_look(&one);
	memset(&one.owd, 0, sizeof(one.owd));
	for (int i = 0; i < 7; i++)
		sample(&one.owd, one.now_ns += MS, 300000, 100000);
	one_look(&one);
	cr_assert_eq(one.entry->poll.samples, 7);
	cr_assert_eq(one.entry->scrape.samples, 507);
	one_close(&one);
}

/* --- the maps --- */

struct world {
	int qps_fd, owd_fd, sent_fd;
	struct events *ledger;
	struct qptable *table;
	struct delays *delays;
	uint64_t now_ns;
};

static int make_map(const char *name, size_t value_bytes, uint32_t max)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_HASH, name, sizeof(struct esc_qp_key), value_bytes,
				max, NULL);

	if (fd < 0)
		cr_skip_test("no map can be made: %s", strerror(-fd));
	return fd;
}

static void world_open(struct world *world, uint32_t max)
{
	world->qps_fd = make_map("test_qps", sizeof(struct esc_qp), 2 * max);
	world->owd_fd = make_map("test_owd", sizeof(struct esc_qp_owd), max);
	world->sent_fd = make_map("test_sent", sizeof(struct esc_qp_sent), max);
	world->now_ns = 1000 * WINDOW;
	cr_assert_eq(events_new(&world->ledger, 1000, NULL), 0);
	cr_assert_eq(qptable_new(&world->table, world->qps_fd, 2 * max, IDLE, world->ledger), 0);
	cr_assert_eq(delays_new(&world->delays, world->owd_fd, world->sent_fd, max, world->table),
		     0);
}

static void world_close(struct world *world)
{
	delays_free(world->delays);
	qptable_free(world->table);
	events_free(world->ledger);
	close(world->qps_fd);
	close(world->owd_fd);
	close(world->sent_fd);
}

static struct esc_qp_key key_of(uint32_t qpn, enum esc_direction direction)
{
	struct esc_qp_key key = {.dest_qpn = qpn, .direction = direction};
	bool tx = direction == ESC_DIRECTION_TX;

	memcpy(key.src.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
	memcpy(key.dst.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\2", 16);
	key.src.bytes[15] = tx ? 1 : 2;
	key.dst.bytes[15] = tx ? 2 : 1;
	return key;
}

static void put_qp(struct world *world, uint32_t qpn, enum esc_direction direction,
		   const struct esc_qp *qp)
{
	struct esc_qp_key key = key_of(qpn, direction);

	cr_assert_eq(bpf_map_update_elem(world->qps_fd, &key, qp, BPF_ANY), 0);
}

static void put_owd(struct world *world, uint32_t qpn, const struct esc_qp_owd *owd)
{
	struct esc_qp_key key = key_of(qpn, ESC_DIRECTION_TX);
	static const struct esc_qp_sent sent;

	cr_assert_eq(bpf_map_update_elem(world->owd_fd, &key, owd, BPF_ANY), 0);
	cr_assert_eq(bpf_map_update_elem(world->sent_fd, &key, &sent, BPF_ANY), 0);
}

static bool has(int fd, uint32_t qpn)
{
	struct esc_qp_key key = key_of(qpn, ESC_DIRECTION_TX);
	static struct esc_qp_owd room;

	return !bpf_map_lookup_elem(fd, &key, &room);
}

static void look(struct world *world)
{
	cr_assert_eq(qptable_refresh(world->table, world->now_ns, 0), 0);
	cr_assert_eq(delays_poll(world->delays, world->now_ns), 0);
}

Test(delays, entries_follow_the_table)
{
	struct world world;
	struct esc_qp qp = {.packets = 10, .first_local_ns = 1};
	static struct esc_qp_owd owd;
	struct esc_qp_key key;

	world_open(&world, 64);
	look(&world);
	put_qp(&world, 5, ESC_DIRECTION_TX, &qp);
	put_qp(&world, 5, ESC_DIRECTION_RX, &qp);
	put_qp(&world, 3, ESC_DIRECTION_TX, &qp);
	world.now_ns += 250 * MS;
	sample(&owd, world.now_ns - MS, 4000, 100000);
	put_owd(&world, 5, &owd);
	put_owd(&world, 77, &owd); /* of no queue pair */
	look(&world);
	cr_assert_eq(world.delays->tracked, 1);
	key = key_of(3, ESC_DIRECTION_TX);
	cr_assert_null(delays_find(world.delays, &key));
	cr_assert_not_null(qptable_find(world.table, &key));
	key = key_of(5, ESC_DIRECTION_TX);
	cr_assert_eq(delays_find(world.delays, &key)->recent.samples, 1);
	cr_assert_eq(delays_find(world.delays, &key)->recent.p50_ns, 4000);
	cr_assert_eq(delays_find(world.delays, &key)->owd.last_ktime_ns, world.now_ns - MS);
	cr_assert_float_eq(delays_find(world.delays, &key)->feedback_ns, 20000, 0.1);
	key = key_of(5, ESC_DIRECTION_RX);
	cr_assert_null(delays_find(world.delays, &key));
	world_close(&world);
}

Test(delays, orphans_are_deleted)
{
	struct world world;
	struct esc_qp qp = {.packets = 10, .first_local_ns = 1};
	static struct esc_qp_owd owd;
	struct esc_qp_key key = key_of(5, ESC_DIRECTION_TX);

	world_open(&world, 64);
	sample(&owd, world.now_ns, 4000, 100000);
	put_qp(&world, 5, ESC_DIRECTION_TX, &qp);
	put_owd(&world, 5, &owd);
	put_owd(&world, 77, &owd); /* left by a daemon before us */
	look(&world);
	cr_assert(has(world.owd_fd, 5) && has(world.sent_fd, 5));
	cr_assert_not(has(world.owd_fd, 77));
	cr_assert_not(has(world.sent_fd, 77));
	/* The queue pair goes: so do its delays. */
	bpf_map_delete_elem(world.qps_fd, &key);
	world.now_ns += 250 * MS;
	look(&world);
	cr_assert_not(has(world.owd_fd, 5));
	cr_assert_not(has(world.sent_fd, 5));
	cr_assert_eq(world.delays->tracked, 0);
	/* Recorded, and never a receipt. */
	bpf_map_update_elem(world.sent_fd, &key, &(struct esc_qp_sent){}, BPF_ANY);
	world.now_ns += 61 * SECOND;
	look(&world);
	cr_assert_not(has(world.sent_fd, 5));
	world_close(&world);
}

Test(delays, idle_queue_pairs_take_their_delays_with_them)
{
	struct world world;
	struct esc_qp qp = {.packets = 10, .first_local_ns = 1};
	static struct esc_qp_owd owd;

	world_open(&world, 64);
	sample(&owd, world.now_ns, 4000, 100000);
	put_qp(&world, 5, ESC_DIRECTION_TX, &qp);
	put_owd(&world, 5, &owd);
	for (uint64_t t = 0; t < IDLE + SECOND; t += 500 * MS) {
		look(&world);
		world.now_ns += 500 * MS;
	}
	cr_assert_not(has(world.owd_fd, 5));
	world_close(&world);
}

/* A restart: what was there is not counted a second time, and shown as ever. */
Test(delays, a_new_daemon_begins_where_the_map_is)
{
	struct world world;
	struct esc_qp qp = {.packets = 10, .first_local_ns = 1};
	static struct esc_qp_owd owd;
	struct esc_qp_key key = key_of(5, ESC_DIRECTION_TX);
	const struct delays_entry *entry;
	struct delays_span ever;

	world_open(&world, 64);
	for (int i = 0; i < 1000; i++)
		sample(&owd, world.now_ns - 30 * SECOND + (uint64_t)i * MS, 200000, 100000);
	put_qp(&world, 5, ESC_DIRECTION_TX, &qp);
	put_owd(&world, 5, &owd);
	look(&world);
	entry = delays_find(world.delays, &key);
	delays_entry_ever(entry, &ever);
	cr_assert_eq(ever.samples, 1000);
	cr_assert_eq(ever.min_ns, 200000);
	cr_assert_eq(entry->owd.over, 1000);
	cr_assert_eq(entry->recent.samples, 0);
	cr_assert_eq(entry->scrape.samples, 0);
	cr_assert_eq(entry->scrape.over, 0);
	cr_assert_eq(world.delays->ports[0].counts.samples, 0);
	for (int i = 0; i < 3; i++)
		sample(&owd, world.now_ns + (uint64_t)i * MS, 8000, 100000);
	put_owd(&world, 5, &owd);
	qp.packets += 3;
	put_qp(&world, 5, ESC_DIRECTION_TX, &qp);
	world.now_ns += 250 * MS;
	look(&world);
	entry = delays_find(world.delays, &key);
	cr_assert_eq(entry->recent.samples, 3);
	cr_assert_eq(entry->scrape.samples, 3);
	cr_assert_eq(entry->scrape.max_ns, 8000);
	cr_assert_eq(world.delays->ports[0].counts.samples, 3);
	cr_assert_eq(world.delays->ports[0].histogram[esc_owd_bucket(8000)], 3);
	cr_assert_float_eq(world.delays->ports[0].sum_ns, 24000, 0.1);
	cr_assert_eq(world.delays->destination_count, 1);
	cr_assert_eq(world.delays->destinations[0].counts.receipts, 3);
	world_close(&world);
}

/* Few that move among many are read one by one; the others are still. */
Test(delays, still_queue_pairs_are_not_read)
{
	struct world world;
	struct esc_qp qp = {.packets = 10, .first_local_ns = 1};
	static struct esc_qp_owd owd;
	struct esc_qp_key key = key_of(40, ESC_DIRECTION_TX);
	const struct delays_entry *entry;

	world_open(&world, 64);
	look(&world);
	world.now_ns += 250 * MS;
	sample(&owd, world.now_ns, 4000, 100000);
	for (uint32_t qpn = 1; qpn <= 60; qpn++) {
		put_qp(&world, qpn, ESC_DIRECTION_TX, &qp);
		put_owd(&world, qpn, &owd);
	}
	look(&world);
	cr_assert_eq(world.delays->tracked, 60);
	world.now_ns += 3 * SECOND;
	qp.packets++;
	put_qp(&world, 40, ESC_DIRECTION_TX, &qp);
	sample(&owd, world.now_ns, 9000, 100000);
	put_owd(&world, 40, &owd);
	look(&world);
	entry = delays_find(world.delays, &key);
	cr_assert_eq(entry->recent.samples, 1);
	cr_assert_eq(entry->recent.max_ns, 9000);
	key = key_of(41, ESC_DIRECTION_TX);
	entry = delays_find(world.delays, &key);
	cr_assert_eq(entry->owd.samples, 1);
	cr_assert_eq(entry->recent.samples, 0);
	cr_assert_eq(entry->scrape.samples, 1, "kept until it is written");
	delays_written(world.delays);
	world.now_ns += 250 * MS;
	look(&world);
	cr_assert_eq(delays_find(world.delays, &key)->scrape.samples, 0);
	world_close(&world);
}

Test(delays, samples_since_a_receipt)
{
	struct world world;
	struct esc_qp tx = {.packets = 10, .first_local_ns = 1};
	static struct esc_qp_owd owd;
	struct esc_qp_key key = key_of(5, ESC_DIRECTION_TX);
	const struct delays_entry *entry;

	world_open(&world, 64);
	sample(&owd, world.now_ns, 4000, 100000);
	for (int i = 0; i < 8; i++) {
		put_qp(&world, 5, ESC_DIRECTION_TX, &tx);
		put_owd(&world, 5, &owd);
		look(&world);
		world.now_ns += 250 * MS;
		tx.packets += 100;
		owd.samples_sent += 50;
	}
	entry = delays_find(world.delays, &key);
	cr_assert_eq(entry->owd.samples_sent - entry->sent_at_receipt, 350);
	cr_assert_float_eq(entry->feedback_ns, 20000, 0.1);
	world_close(&world);
}

Test(delays, without_the_maps_there_are_no_delays)
{
	struct world world;
	struct esc_qp qp = {.packets = 10, .first_local_ns = 1};
	struct esc_qp_key key = key_of(5, ESC_DIRECTION_TX);

	world_open(&world, 16);
	delays_free(world.delays);
	cr_assert_eq(delays_new(&world.delays, -1, -1, 0, world.table), 0);
	put_qp(&world, 5, ESC_DIRECTION_TX, &qp);
	look(&world);
	world.now_ns += 250 * MS;
	look(&world);
	cr_assert_not_null(qptable_find(world.table, &key));
	cr_assert_null(delays_find(world.delays, &key));
	cr_assert_eq(delays_interval_ns(world.delays), DELAYS_FAST_NS);
	world_close(&world);
}

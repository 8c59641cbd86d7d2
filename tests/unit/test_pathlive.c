// SPDX-License-Identifier: BSD-2-Clause
/* Failures by the peer's reports, per direction; damping of flaps; backups share no switch. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "pacing/pathlive.h"
#include "tests/lib/rng.h"

#define SEED 20240607
#define MS 1000000ll
#define SECOND 1000000000ll
#define DEADLINE (3 * MS)
#define PEER_AHEAD (777 * SECOND) /* its clock is its own */

/* The peer by its own reports: when it last received each of our paths. */
struct peer {
	int64_t heard_ns[4]; /* our time; 0: never */
};

static void send(struct pathlive_path *path, struct peer *peer, int l, int64_t now_ns, bool arrives)
{
	pathlive_sent(&path[l], (uint64_t)now_ns);
	if (arrives)
		peer->heard_ns[l] = now_ns + MS / 10;
}

/* A report on all paths leaves the peer at @then and comes at @now. */
static void word(struct pathlive_path *paths, const struct peer *peer, int count, int64_t then_ns,
		 int64_t now_ns)
{
	for (int l = 0; l < count; l++) {
		uint64_t age = peer->heard_ns[l] ? (uint64_t)(then_ns - peer->heard_ns[l])
						 : PATHLIVE_NEVER;

		pathlive_report(&paths[l], (uint64_t)(then_ns + PEER_AHEAD), age, (uint64_t)now_ns);
	}
}

/* Both paths are probed each millisecond; what the fabric does is in the arguments. Time of death
 * of path 0. */
static int64_t run(int64_t from_ns, int64_t to_ns, bool there, bool words, bool probes)
{
	struct pathlive_path paths[2] = {{0}};
	struct peer peer = {{0}};

	for (int64_t t = SECOND; t < SECOND + 200 * MS; t += MS) {
		bool trouble = t >= from_ns && t < to_ns;

		if (probes || !trouble) {
			send(paths, &peer, 0, t, there || !trouble);
			send(paths, &peer, 1, t, true);
		}
		if (words || !trouble)
			word(paths, &peer, 2, t + MS / 5, t + 2 * MS / 5);
		cr_assert_not(pathlive_is_dead(&paths[1], DEADLINE), "the other path is up");
		if (pathlive_is_dead(&paths[0], DEADLINE))
			return t;
	}
	return 0;
}

Test(pathlive, a_silent_loss_is_found_in_a_few_probes)
{
	int64_t from = SECOND + 100 * MS, died = run(from, INT64_MAX, false, true, true);

	cr_assert(died >= from + DEADLINE && died <= from + DEADLINE + 3 * MS, "%lld",
		  (long long)(died - from));
}

Test(pathlive, silence_alone_kills_nothing)
{
	int64_t from = SECOND + 50 * MS, to = from + 100 * MS;

	cr_assert_eq(run(from, to, true, false, true), 0, "a peer that stalls");
	cr_assert_eq(run(from, to, true, true, false), 0, "a daemon that no longer probes");
	cr_assert_eq(run(from, to, true, false, false), 0, "a host that stalls");
	cr_assert_eq(run(0, 0, true, true, true), 0, "nothing at all");
}

Test(pathlive, a_path_idle_for_an_hour_is_not_dead_when_used_again)
{
	struct pathlive_path path = {0};

	pathlive_report(&path, PEER_AHEAD, 3600 * SECOND, SECOND);
	for (int i = 0; i < 10; i++)
		pathlive_sent(&path, (uint64_t)(SECOND + i * MS / 10));
	pathlive_report(&path, PEER_AHEAD + MS, 3600 * SECOND + MS, SECOND + MS);
	cr_assert_not(pathlive_is_dead(&path, DEADLINE));
	pathlive_report(&path, PEER_AHEAD + 4 * MS, 3600 * SECOND + 4 * MS, SECOND + 4 * MS);
	cr_assert(pathlive_is_dead(&path, DEADLINE));
}

Test(pathlive, never_received_is_dead_only_when_probed)
{
	struct pathlive_path path = {0};

	pathlive_report(&path, PEER_AHEAD, PATHLIVE_NEVER, SECOND);
	cr_assert_not(pathlive_is_dead(&path, DEADLINE));
	for (int i = 0; i < 5; i++)
		pathlive_sent(&path, (uint64_t)(SECOND + i * MS));
	cr_assert_not(pathlive_is_dead(&path, DEADLINE), "no report since");
	pathlive_report(&path, PEER_AHEAD + 5 * MS, PATHLIVE_NEVER, SECOND + 5 * MS);
	cr_assert(pathlive_is_dead(&path, DEADLINE));
	pathlive_report(&path, PEER_AHEAD + 6 * MS, 0, SECOND + 6 * MS);
	cr_assert_not(pathlive_is_dead(&path, DEADLINE), "received again");
}

Test(pathlive, two_losses_are_chance)
{
	struct pathlive_path path = {0};

	pathlive_report(&path, PEER_AHEAD, 0, SECOND);
	pathlive_sent(&path, SECOND + MS);
	pathlive_sent(&path, SECOND + 2 * MS);
	pathlive_report(&path, PEER_AHEAD + 50 * MS, 50 * MS, SECOND + 50 * MS);
	cr_assert_not(pathlive_is_dead(&path, DEADLINE));
	pathlive_sent(&path, SECOND + 51 * MS);
	cr_assert(pathlive_is_dead(&path, DEADLINE));
}

/* Reports arrive late, twice and out of order; the path is up: it must never count as dead. */
Test(pathlive, a_live_path_is_never_dead_whatever_becomes_of_reports)
{
	struct rng rng;

	rng_seed(&rng, SEED);
	for (int trial = 0; trial < 200; trial++) {
		struct pathlive_path paths[1] = {{0}};
		struct peer peer = {{0}}, past[16] = {{{0}}};
		int64_t then[16] = {0};
		double loss = 0.9 * rng_unit(&rng);

		for (int i = 0; i < 400; i++) {
			int64_t t = SECOND + i * MS;
			int old = (int)rng_below(&rng, 16);

			send(paths, &peer, 0, t, true);
			past[i % 16] = peer;
			then[i % 16] = t + MS / 5;
			if (rng_unit(&rng) < loss || !then[old])
				continue;
			word(paths, &past[old], 1, then[old], t + MS / 2);
			cr_assert_not(pathlive_is_dead(&paths[0], DEADLINE),
				      "seed %d trial %d step %d", SEED, trial, i);
		}
	}
}

Test(pathlive, suspect_without_reports)
{
	struct pathlive_path path = {0};

	pathlive_report(&path, PEER_AHEAD, 0, SECOND);
	for (int i = 0; i < 5; i++)
		pathlive_sent(&path, (uint64_t)(SECOND + i * MS));
	cr_assert_eq(pathlive_evaluate(&path, DEADLINE, SECOND + 2 * MS), PATHLIVE_UP);
	cr_assert_eq(pathlive_evaluate(&path, DEADLINE, SECOND + 5 * MS), PATHLIVE_SUSPECT);
}

Test(pathlive, the_deadline_leaves_room_for_slow_and_rare)
{
	struct pathlive_config config;

	pathlive_config_default(&config);
	cr_assert_eq(pathlive_deadline(&config, 1e5, 1e4, 1e6), (uint64_t)(3 * MS));
	cr_assert_eq(pathlive_deadline(&config, NAN, NAN, NAN), (uint64_t)(3 * MS));
	cr_assert_eq(pathlive_deadline(&config, 1e5, 1e4, 20e6), (uint64_t)(60 * MS));
	cr_assert_eq(pathlive_deadline(&config, 10e6, 5e6, 1e6), (uint64_t)(30 * MS));
}

/* --- damping --- */

/* Steps of 100 ms; times that traffic was taken away. */
static unsigned flap(const bool *alive, size_t steps, struct pathlive_damp *damp)
{
	struct pathlive_config config;
	unsigned taken = 0;

	pathlive_config_default(&config);
	for (size_t i = 0; i < steps; i++) {
		enum pathlive_state was = damp->state;

		pathlive_step(damp, &config, alive[i] ? PATHLIVE_UP : PATHLIVE_DOWN,
			      SECOND + (int64_t)i * 100 * MS);
		taken += was == PATHLIVE_UP && damp->state == PATHLIVE_DOWN;
	}
	return taken;
}

Test(pathlive, one_failure_returns_after_return_after)
{
	struct pathlive_damp damp = {0};
	bool alive[200];

	for (int i = 0; i < 200; i++)
		alive[i] = i < 10 || i >= 20;
	cr_assert_eq(flap(alive, 60, &damp), 1);
	cr_assert_eq(damp.state, PATHLIVE_HOLD_DOWN);
	memset(&damp, 0, sizeof(damp));
	flap(alive, 80, &damp);
	cr_assert_eq(damp.state, PATHLIVE_UP);
	cr_assert_eq(damp.return_count, 1);
}

Test(pathlive, however_it_flaps_traffic_leaves_twice_a_minute_at_most)
{
	struct rng rng;

	rng_seed(&rng, SEED);
	for (int trial = 0; trial < 500; trial++) {
		struct pathlive_damp damp = {0};
		bool alive[600];
		size_t at = 0;

		while (at < 600) {
			size_t up = 1 + rng_below(&rng, 100), down = 1 + rng_below(&rng, 20);

			for (; up && at < 600; up--)
				alive[at++] = true;
			for (; down && at < 600; down--)
				alive[at++] = false;
		}
		cr_assert_leq(flap(alive, 600, &damp), 2, "seed %d trial %d", SEED, trial);
	}
}

Test(pathlive, the_hold_down_grows_and_decays)
{
	struct pathlive_config config;
	struct pathlive_damp damp = {0};
	int64_t now = SECOND, last = 0;

	pathlive_config_default(&config);
	config.return_after_ns = 0;
	for (int i = 0; i < 10; i++, now += SECOND / 2) {
		pathlive_step(&damp, &config, PATHLIVE_DOWN, now);
		cr_assert(damp.hold_ns >= last && damp.hold_ns <= config.hold_most_ns);
		last = damp.hold_ns;
		pathlive_step(&damp, &config, PATHLIVE_UP, now + SECOND / 4);
	}
	cr_assert_eq(last, config.hold_most_ns);
	pathlive_step(&damp, &config, PATHLIVE_UP, now + 61 * SECOND);
	cr_assert_eq(damp.state, PATHLIVE_UP);
	now += 3600 * SECOND;
	pathlive_step(&damp, &config, PATHLIVE_UP, now);
	pathlive_step(&damp, &config, PATHLIVE_DOWN, now + 1);
	cr_assert_eq(damp.hold_ns, config.hold_least_ns);
}

Test(pathlive, carrier_loss_counts_at_once_and_its_return_proves_nothing)
{
	struct pathlive_config config;
	struct pathlive_damp damp = {0};

	pathlive_config_default(&config);
	cr_assert_eq(pathlive_carrier(&damp, &config, false, SECOND), PATHLIVE_DOWN);
	cr_assert_eq(pathlive_step(&damp, &config, PATHLIVE_UP, 2 * SECOND), PATHLIVE_DOWN);
	cr_assert_eq(pathlive_carrier(&damp, &config, true, 3 * SECOND), PATHLIVE_DOWN);
	cr_assert_eq(pathlive_step(&damp, &config, PATHLIVE_UP, 3 * SECOND), PATHLIVE_HOLD_DOWN);
	cr_assert_eq(pathlive_step(&damp, &config, PATHLIVE_UP, 9 * SECOND), PATHLIVE_UP);
}

Test(pathlive, a_path_in_hold_down_that_is_not_received_starts_again)
{
	struct pathlive_config config;
	struct pathlive_damp damp = {0};

	pathlive_config_default(&config);
	pathlive_step(&damp, &config, PATHLIVE_DOWN, SECOND);
	pathlive_step(&damp, &config, PATHLIVE_UP, 2 * SECOND);
	pathlive_step(&damp, &config, PATHLIVE_SUSPECT, 6 * SECOND);
	cr_assert_eq(pathlive_step(&damp, &config, PATHLIVE_UP, 8 * SECOND), PATHLIVE_HOLD_DOWN);
	cr_assert_eq(pathlive_step(&damp, &config, PATHLIVE_UP, 11 * SECOND), PATHLIVE_UP);
}

/* --- backup --- */

Test(pathlive, the_backup_is_up_disjoint_and_fast)
{
	struct pathlive_choice paths[5] = {
		{PATHLIVE_UP, 1, {10, 21, 31, 40}, 1000, 10},
		{PATHLIVE_UP, 1, {10, 21, 31, 40}, 900, 10},
		{PATHLIVE_UP, 2, {10, 22, 31, 40}, 950, 10},
		{PATHLIVE_UP, 3, {10, 23, 33, 40}, 1200, 10},
		{PATHLIVE_UP, 4, {10, 24, 34, 40}, 1100, 10},
	};

	cr_assert_eq(pathlive_choose_backup(paths, 5, 0), 4);
	paths[4].state = PATHLIVE_HOLD_DOWN;
	cr_assert_eq(pathlive_choose_backup(paths, 5, 0), 3);
	paths[3].state = PATHLIVE_DOWN;
	cr_assert_eq(pathlive_choose_backup(paths, 5, 0), 2);
	paths[2].state = PATHLIVE_SUSPECT;
	cr_assert_eq(pathlive_choose_backup(paths, 5, 0), 1);
	paths[1].state = PATHLIVE_DOWN;
	cr_assert_eq(pathlive_choose_backup(paths, 5, 0), 4, "in hold-down, but it replies");
	paths[4].state = PATHLIVE_DOWN;
	cr_assert_eq(pathlive_choose_backup(paths, 5, 0), -ENOENT);
}

Test(pathlive, equal_delays_give_the_same_backup_each_time)
{
	struct pathlive_choice paths[3] = {
		{PATHLIVE_UP, 1, {0}, NAN, 0},
		{PATHLIVE_UP, 2, {0}, 1005, 10},
		{PATHLIVE_UP, 3, {0}, 1000, 10},
	};

	cr_assert_eq(pathlive_choose_backup(paths, 3, 0), 1);
	paths[1].delay_ns = NAN;
	cr_assert_eq(pathlive_choose_backup(paths, 3, 0), 2);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The contention policy tick by tick; tests/sim has it in fabrics. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pacing/contend.h"
#include "pacing/random.h"
#include "tests/lib/rng.h"

#define SEED 20240607
#define MS 1000000ll
#define SECOND 1000000000ll
#define PATHS 4
#define QPS 6
#define ACTS 16

/* One destination; floors of 100 us, a queue on path 0. */
struct scene {
	struct contend contend;
	struct contend_budget budget;
	struct contend_path paths[PATHS];
	struct contend_qp qps[QPS];
	size_t qp_count;
	struct contend_act acts[ACTS];
	uint64_t random;
	int64_t now_ns;
};

static void scene_init(struct scene *scene, size_t qps, double queue_ns)
{
	struct contend_config config;

	memset(scene, 0, sizeof(*scene));
	contend_config_default(&config);
	config.packet_bytes = 100; /* so that the thresholds below are what decides */
	contend_init(&scene->contend, &config);
	scene->random = SEED;
	scene->now_ns = SECOND;
	scene->qp_count = qps;
	for (size_t q = 0; q < qps; q++)
		scene->qps[q].rate_Bps = 5e6;
	for (int p = 0; p < PATHS; p++)
		scene->paths[p] = (struct contend_path){.usable = true,
							.floor_ns = 1e5,
							.delay_ns = 1e5 + (p ? 0 : queue_ns),
							.noise_ns = 100,
							.bound_ns = 1000};
}

/* Fresh measurements, one tick. */
static size_t tick(struct scene *scene)
{
	for (int p = 0; p < PATHS; p++) {
		struct contend_path *path = &scene->paths[p];

		path->worst_ns = fmax(path->worst_ns, path->delay_ns);
		if (path->measured_ns >= 0)
			path->measured_ns = scene->now_ns - MS;
	}
	scene->now_ns += 10 * MS;
	return contend_tick(&scene->contend, &scene->budget, scene->now_ns, &scene->random,
			    scene->paths, PATHS, scene->qps, scene->qp_count, scene->acts, ACTS);
}

/* Ticks until something is done; acts, 0 when nothing was. */
static size_t tick_on(struct scene *scene, unsigned ticks)
{
	size_t acts = 0;

	while (ticks-- && !acts)
		acts = tick(scene);
	return acts;
}

Test(contend, a_contended_path_is_left_for_a_free_one)
{
	struct scene s;
	const struct contend_act *act = s.acts;

	scene_init(&s, 2, 5e6);
	cr_assert_eq(tick_on(&s, 200), 1);
	cr_assert_eq(act->kind, CONTEND_MOVE);
	cr_assert_eq(act->from, 0);
	cr_assert(act->to > 0 && act->to < PATHS);
	cr_assert(act->predicted_ns > 1e6 && act->predicted_ns < 5e6);
	cr_assert_geq((double)act->hold_ns, 5e6 + 1000, "behind the old path's queue");
	cr_assert(act->start_ns >= s.now_ns && act->force_ns > act->start_ns);
	cr_assert(act->unacked_ns == 0 && act->queue_before_ns == 0, "it sends");
	cr_assert_str_eq(contend_act_name(act->kind), "move");
}

Test(contend, nothing_moves_where_nothing_is_gained)
{
	struct scene s;

	scene_init(&s, 2, 40e3);
	cr_assert_eq(tick_on(&s, 500), 0, "less than half the floor");
	scene_init(&s, 2, 5e6);
	for (int p = 1; p < PATHS; p++)
		s.paths[p].delay_ns = s.paths[0].delay_ns;
	cr_assert_eq(tick_on(&s, 500), 0, "contended everywhere");
	scene_init(&s, 2, 5e6);
	for (int p = 1; p < PATHS; p++)
		s.paths[p].delay_ns = 1e5 + 3e6;
	cr_assert_eq(tick_on(&s, 500), 0, "two there and one to come is no better");
	scene_init(&s, 2, 500e3);
	s.paths[0].bound_ns = 1e6;
	cr_assert_eq(tick_on(&s, 500), 0, "within the clock's bound");
	scene_init(&s, 2, 5e6);
	s.qps[0].rate_Bps = s.qps[1].rate_Bps = 100;
	cr_assert_eq(tick_on(&s, 500), 0, "idle");
	scene_init(&s, 2, 5e6);
	s.qps[0].pinned = s.qps[1].pinned = true;
	cr_assert_eq(tick_on(&s, 500), 0, "pinned by the operator");
	scene_init(&s, 0, 5e6);
	cr_assert_eq(tick_on(&s, 500), 0, "none of ours");
}

Test(contend, paths_that_are_dead_or_were_not_measured_are_not_chosen)
{
	struct scene s;

	for (uint64_t r = 0; r < 50; r++) {
		scene_init(&s, 2, 5e6);
		s.random = r;
		s.paths[1].usable = false;
		s.paths[2].measured_ns = -1; /* tick() leaves it */
		cr_assert_eq(tick_on(&s, 300), 1);
		cr_assert_eq(s.acts[0].to, 3);
	}
	scene_init(&s, 2, 5e6);
	s.paths[0].measured_ns = -1;
	cr_assert_eq(tick_on(&s, 300), 0, "nor is one left by what it was long ago");
}

Test(contend, a_floor_below_zero_within_the_clocks_bound_is_a_measurement)
{
	struct scene s;

	for (int valid = 0; valid < 2; valid++) {
		scene_init(&s, 2, 5e6);
		s.paths[2].usable = s.paths[3].usable = false;
		s.paths[1].floor_ns = s.paths[1].delay_ns = valid ? -900 : -1100;
		cr_assert_eq(tick_on(&s, 300), valid);
	}
	cr_assert_eq(s.acts[0].to, 1);
	cr_assert_geq((double)s.acts[0].hold_ns, 5e6, "behind the old path's queue");
}

/* The host's own queue is on all paths; one has another's packets now and then besides. */
Test(contend, a_path_that_is_used_is_distinguished_from_a_free_one)
{
	unsigned to_used = 0;

	for (uint64_t r = 0; r < 200; r++) {
		struct scene s;

		scene_init(&s, 2, 5e6);
		s.random = SEED + r;
		for (int p = 0; p < PATHS; p++)
			s.paths[p].delay_ns += 40e3;
		s.paths[1].delay_ns += 100e3;
		s.paths[2].usable = false;
		cr_assert_eq(tick_on(&s, 300), 1);
		to_used += s.acts[0].to == 1;
	}
	cr_assert_leq(to_used, 4, "%u of 200", to_used);
}

Test(contend, a_queue_pair_on_an_empty_path_is_soon_resident)
{
	struct scene s;

	scene_init(&s, 1, 0);
	s.qps[0].rate_Bps = 0;
	for (int i = 0; i < 12; i++) {
		s.qps[0].rate_Bps += 0.3 * (10e6 - s.qps[0].rate_Bps);
		cr_assert_eq(tick(&s), 0);
	}
	cr_assert(s.qps[0].resident);
	/* A second one joins: half is left, and its rate falls. */
	s.paths[0].delay_ns += 5e6;
	s.qps[0].rate_Bps = 6e6;
	tick(&s);
	cr_assert(s.qps[0].resident, "the last one moves");
	/* It is distinguished from one that sends far more than while its path was calm. */
	s.qps[0].rate_Bps = 30e6;
	tick(&s);
	cr_assert_not(s.qps[0].resident);
}

/*
 * Mean ticks until the first of two residents moves, which send @now_Bps where each sent 10 MB/s
 * before, from a path with a queue of @queue_ns to one whose delay is @other_ns.
 */
static double ticks_of_residents(double now_Bps, double queue_ns, double other_ns)
{
	unsigned sum = 0;

	for (uint64_t r = 0; r < 200; r++) {
		struct scene s;

		scene_init(&s, 2, 0);
		s.random = SEED + r;
		s.qps[0].rate_Bps = s.qps[1].rate_Bps = 10e6;
		for (int p = 1; p < PATHS; p++)
			s.paths[p].floor_ns = s.paths[p].delay_ns = other_ns;
		cr_assert_eq(tick_on(&s, 30), 0);
		cr_assert(s.qps[0].resident && s.qps[1].resident);
		s.paths[0].delay_ns += queue_ns;
		s.qps[0].rate_Bps = s.qps[1].rate_Bps = now_Bps;
		for (unsigned n = 0; n < 500 && !tick(&s); n++)
			sum++;
	}
	return sum / 200.0;
}

Test(contend, residents_of_a_path_that_lost_capacity_do_not_wait_for_newcomers)
{
	double shared = ticks_of_residents(6e6, 5e6, 1e5);
	double lost = ticks_of_residents(2e6, 5e6, 1e5);

	cr_assert_gt(shared, 4 * lost, "%.1f and %.1f ticks", shared, lost);
}

Test(contend, the_delay_of_a_path_that_lost_capacity_does_not_delay_its_moves)
{
	double near = ticks_of_residents(2e6, 200e6, 1e5);
	double far = ticks_of_residents(2e6, 200e6, 100e6);

	cr_assert_lt(near, 15, "%.1f ticks, of 10 ms each", near);
	cr_assert_gt(far, 2 * near, "%.1f and %.1f ticks", near, far);
}

/* Queue pairs of four, that sent 10 MB/s each, that leave their path in the tick of the first. */
static size_t moves_together(struct scene *s, double line_Bps, double now_Bps, unsigned newcomers)
{
	size_t acts;

	scene_init(s, 4, 0);
	s->contend.config.capacity_Bps = line_Bps;
	s->paths[2].usable = s->paths[3].usable = false;
	for (int q = 0; q < 4; q++)
		s->qps[q].rate_Bps = 10e6;
	cr_assert_eq(tick_on(s, 30), 0);
	for (unsigned q = 0; q < newcomers; q++)
		s->qps[q].path = 1;
	cr_assert_eq(tick_on(s, 30), 0);
	s->paths[0].delay_ns += 20e6;
	for (unsigned q = newcomers; q < 4; q++)
		s->qps[q].rate_Bps = now_Bps;
	acts = tick_on(s, 500);
	for (size_t a = 0; a < acts; a++)
		cr_assert(s->acts[a].kind == CONTEND_MOVE && s->acts[a].to == 1);
	return acts;
}

Test(contend, residents_of_a_path_that_lost_capacity_move_together_where_there_is_room)
{
	struct scene s;

	cr_assert_eq(moves_together(&s, 0, 7e6, 0), 1,
		     "it has most of its capacity: one at a time");
	cr_assert_eq(moves_together(&s, 0, 1e6, 0), 3, "30 of 40 MB/s are free");
	cr_assert_eq(moves_together(&s, 0, 1e6, 2), 1, "20 of 40 MB/s are in use");
	cr_assert_eq(moves_together(&s, 0, 1e6, 1), 2, "20 MB/s beside 10");
	cr_assert_eq(moves_together(&s, 60e6, 1e6, 0), 4, "what is left is too little for one");
}

/* The one that stayed has a tenth of its rate then, after 200 ms with a queue of its own. */
static bool last_leaves(double line_Bps)
{
	struct contend_qp *last = NULL;
	struct scene s;

	cr_assert_eq(moves_together(&s, line_Bps, 3.5e6, 0), 3, "enough for one");
	for (int q = 0; q < 4; q++) {
		last = s.qps[q].moving ? last : &s.qps[q];
		s.qps[q].path = s.qps[q].moving;
		s.qps[q].rate_Bps = s.qps[q].moving ? 10e6 : 1e6;
	}
	s.paths[0].noise_ns = 3e6;
	for (int n = 0; n < 500 && !last->moving; n++) {
		s.paths[0].delay_ns = n < 20 ? 1e5 : 20e6;
		tick(&s);
	}
	return last->moving;
}

Test(contend, the_last_leaves_a_path_that_lost_capacity_where_there_is_room)
{
	cr_assert(last_leaves(60e6));
	cr_assert_not(last_leaves(0), "30 of 40 MB/s are in use");
}

/* Each is awaited on its own: the first to arrive does not end the wait for the other. */
Test(contend, a_path_is_awaited_until_the_last_of_several_moves)
{
	struct scene s;
	uint32_t last;

	scene_init(&s, 3, 0);
	s.paths[2].usable = s.paths[3].usable = false;
	for (int q = 0; q < 3; q++)
		s.qps[q].rate_Bps = 10e6;
	cr_assert_eq(tick_on(&s, 30), 0);
	s.paths[0].delay_ns += 200e6;
	for (int q = 0; q < 3; q++)
		s.qps[q].rate_Bps = 1e6;
	cr_assert_eq(tick_on(&s, 500), 2);
	last = s.acts[1].qp;
	s.qps[s.acts[0].qp].path = 1;
	tick(&s);
	cr_assert_eq(s.paths[1].busy_until_ns, s.qps[last].expire_ns);
	s.qps[last].path = 1;
	tick(&s);
	cr_assert_eq(s.paths[1].busy_until_ns - s.now_ns,
		     s.qps[last].evaluate_ns - s.paths[1].busy_until_ns);
}

/* Wherever it goes there is a queue, and less of it elsewhere. */
static unsigned moves_of_one(int seconds)
{
	struct scene s;
	unsigned moves = 0;

	scene_init(&s, 1, 5e6);
	for (int i = 0; i < 100 * seconds; i++) {
		for (int p = 0; p < PATHS; p++)
			s.paths[p].delay_ns = 1e5 + (p == (int)s.qps[0].path ? 5e6 : 1e6);
		for (size_t a = 0, n = tick(&s); a < n; a++)
			if (s.acts[a].kind == CONTEND_MOVE || s.acts[a].kind == CONTEND_BACK) {
				s.qps[0].path = s.acts[a].to;
				moves++;
			}
		/* As if it had helped: another one is wanted at once. */
		for (int p = 0; p < PATHS; p++)
			s.paths[p].backoff_until_ns = 0;
	}
	return moves;
}

Test(contend, repeated_moves_wait_longer)
{
	unsigned soon = moves_of_one(1), late = moves_of_one(10);

	cr_assert_geq(soon, 1);
	cr_assert_leq(late, 32, "%u in 10 s", late);
}

Test(contend, a_short_queue_is_no_contention)
{
	struct scene s;

	scene_init(&s, 2, 5e6);
	for (int i = 0; i < 500; i++) {
		s.paths[0].delay_ns = i % 2 ? 5e6 : 1e5;
		cr_assert_eq(tick(&s), 0);
	}
}

Test(contend, one_at_a_time_and_the_next_when_it_shows)
{
	struct scene s;
	unsigned target;

	scene_init(&s, 4, 20e6);
	s.contend.config.capacity_Bps = 20e6; /* it is all ours: no dice */
	cr_assert_eq(tick_on(&s, 5), 1);
	target = s.acts[0].to;
	cr_assert_eq(tick_on(&s, 5), 0, "it has not gone yet");
	s.qps[s.acts[0].qp].path = target;
	cr_assert_eq(tick(&s), 0, "its going does not show yet");
	s.paths[0].delay_ns = 15.1e6;
	s.paths[target].delay_ns = 5.1e6;
	for (int i = 0; i < 40; i++)
		if (tick(&s) && s.acts[0].kind == CONTEND_HELPED)
			return;
	cr_assert_fail("was not evaluated");
}

/* A move by which nothing gets better: the queue comes along. */
static void play_in_vain(struct scene *s, unsigned ticks, unsigned kinds[5], int64_t *last_ns)
{
	for (unsigned i = 0; i < ticks; i++) {
		size_t acts = tick(s);

		for (size_t a = 0; a < acts; a++) {
			const struct contend_act *act = &s->acts[a];

			kinds[act->kind]++;
			if (act->kind != CONTEND_MOVE && act->kind != CONTEND_BACK)
				continue;
			*last_ns = s->now_ns;
			s->qps[act->qp].path = act->to;
			s->paths[act->from].delay_ns = 1e5;
			s->paths[act->to].delay_ns = 1e5 + 5e6;
		}
	}
}

Test(contend, what_did_not_help_is_reverted_and_rarely_tried_again)
{
	struct scene s;
	unsigned kinds[5] = {0}, later[5] = {0};
	int64_t last_ns = 0;

	scene_init(&s, 1, 5e6);
	play_in_vain(&s, 300, kinds, &last_ns);
	cr_assert_geq(kinds[CONTEND_USELESS], 1);
	cr_assert_eq(kinds[CONTEND_HELPED], 0);
	cr_assert_eq(kinds[CONTEND_BACK], kinds[CONTEND_USELESS]);
	cr_assert_eq(s.qps[0].path, 0);
	cr_assert_leq(kinds[CONTEND_MOVE], 4);
	play_in_vain(&s, 500, later, &last_ns);
	cr_assert_leq(later[CONTEND_MOVE], 1);
	play_in_vain(&s, 6000, later, &last_ns);
	cr_assert_leq(later[CONTEND_MOVE], 8, "an hour's tries would be a few");
}

Test(contend, a_path_that_did_not_help_is_shut_twice_as_long_each_time)
{
	for (uint64_t seed = 0; seed < 30; seed++) {
		unsigned kinds[5] = {0};
		int64_t last_ns = 0;
		struct scene s;

		scene_init(&s, 1, 5e6);
		s.random = seed;
		s.contend.config.capacity_Bps = 1e9; /* it cannot be all its own, so it hopes on */
		s.paths[2].usable = s.paths[3].usable = false;
		play_in_vain(&s, 2000, kinds, &last_ns);
		cr_assert(kinds[CONTEND_MOVE] >= 4 && kinds[CONTEND_MOVE] <= 9, "%u in 20 s",
			  kinds[CONTEND_MOVE]);
	}
}

Test(contend, with_all_the_capacity_there_is_no_move)
{
	struct scene s;

	scene_init(&s, 1, 5e6);
	s.contend.config.capacity_Bps = 5.2e6;
	cr_assert_eq(tick_on(&s, 1000), 0);
	s.qps[0].rate_Bps = 2.6e6;
	cr_assert_eq(tick_on(&s, 1000), 1, "with half of it there is");
}

Test(contend, a_rule_that_is_not_carried_out_expires)
{
	struct scene s;

	scene_init(&s, 1, 5e6);
	cr_assert_eq(tick_on(&s, 300), 1);
	cr_assert_eq(tick_on(&s, 300), 1);
	cr_assert_eq(s.acts[0].kind, CONTEND_UNDONE);
	cr_assert_not(s.qps[0].moving);
}

Test(contend, a_failover_in_between_ends_the_order)
{
	struct scene s;
	unsigned to;

	scene_init(&s, 1, 5e6);
	cr_assert_eq(tick_on(&s, 300), 1);
	to = s.acts[0].to;
	s.qps[0].path = to == 3 ? 2 : 3;
	cr_assert_eq(tick(&s), 0);
	cr_assert_not(s.qps[0].moving);
	cr_assert_leq(s.paths[to].busy_until_ns, s.now_ns);
}

Test(contend, the_same_seed_is_the_same_run)
{
	struct scene a, b;

	scene_init(&a, 3, 5e6);
	scene_init(&b, 3, 5e6);
	for (int i = 0; i < 300; i++) {
		size_t acts = tick(&a);

		cr_assert_eq(acts, tick(&b));
		cr_assert_arr_eq(a.acts, b.acts, acts * sizeof(*a.acts));
	}
}

Test(contend, the_plan_is_what_would_be_done)
{
	struct scene s;
	double gain;

	scene_init(&s, 2, 5e6);
	s.paths[1].delay_ns = s.paths[2].delay_ns = 1e5 + 1e6;
	cr_assert_eq(contend_best(&s.contend, s.now_ns, s.paths, PATHS, &s.qps[0], &gain),
		     CONTEND_NOWHERE);
	tick(&s);
	tick(&s);
	cr_assert_eq(contend_best(&s.contend, s.now_ns, s.paths, PATHS, &s.qps[0], &gain), 3);
	cr_assert(gain > 2e6 && gain < 3e6, "%f: half of the queue comes along", gain);
}

Test(contend, of_many_hosts_that_see_the_same_few_go_at_once)
{
	unsigned gone = 0, at_once = 0, to[PATHS] = {0};

	for (unsigned h = 0; h < 1000; h++) {
		struct scene s;

		scene_init(&s, 1, 50e6);
		s.contend.config.capacity_Bps = 1e9;
		s.qps[0].rate_Bps = 1e6;
		s.random = rng_mix(h);
		s.paths[1].delay_ns += 5e6;
		if (tick_on(&s, 3))
			at_once++;
		else if (!tick_on(&s, 200))
			continue;
		gone++;
		to[s.acts[0].to]++;
	}
	cr_assert_gt(gone, 990);
	cr_assert_lt(at_once, 100, "%u", at_once);
	cr_assert(to[2] > 400 && to[3] > 400 && to[1] < 100, "by room: %u %u %u", to[1], to[2],
		  to[3]);
}

Test(contend, moves_of_a_host_are_bounded)
{
	struct contend_budget budget = {0};
	unsigned moves = 0;
	int64_t now = SECOND;
	uint64_t random = SEED;
	static struct scene scenes[64];

	for (int d = 0; d < 64; d++) {
		scene_init(&scenes[d], 2, 5e6);
		scenes[d].contend.config.capacity_Bps = 10e6;
	}
	for (int i = 0; i < 100; i++, now += 10 * MS)
		for (int d = 0; d < 64; d++) {
			struct scene *s = &scenes[d];
			size_t acts;

			for (int p = 0; p < PATHS; p++)
				s->paths[p].measured_ns = now;
			acts = contend_tick(&s->contend, &budget, now, &random, s->paths, PATHS,
					    s->qps, s->qp_count, s->acts, ACTS);
			for (size_t a = 0; a < acts; a++)
				moves += s->acts[a].kind == CONTEND_MOVE;
		}
	cr_assert(moves >= 20 && moves <= 31, "%u in a second", moves);
}

/* A queue of 5 ms while it sends; then it is silent for @silent_ms, and the queue is gone. */
static void fall_silent(struct scene *s, double silent_ms)
{
	s->contend.config.capacity_Bps = s->qps[0].rate_Bps;
	cr_assert_eq(tick_on(s, 50), 0, "the queue is its own, by its rate");
	s->paths[0].delay_ns = 1e5;
	s->qps[0].rate_Bps = 0;
	for (double ms = 10; ms < silent_ms; ms += 10) {
		s->qps[0].unacked_ns = ms * MS;
		cr_assert_eq(tick(s), 0, "after %.0f ms", ms);
	}
	s->qps[0].unacked_ns = silent_ms * MS;
}

Test(contend, a_timeout_moves_by_the_queue_before_it)
{
	unsigned gone = 0;

	for (uint64_t r = 0; r < 300; r++) {
		struct scene s;

		scene_init(&s, 1, 5e6);
		s.random = SEED + r;
		fall_silent(&s, 220);
		if (!tick(&s))
			continue;
		gone++;
		cr_assert_eq(s.acts[0].kind, CONTEND_MOVE);
		cr_assert(s.acts[0].predicted_ns > 4e6, "%.0f", s.acts[0].predicted_ns);
		cr_assert_eq(s.acts[0].unacked_ns, 220 * MS);
		cr_assert_float_eq(s.acts[0].queue_before_ns, 5e6, 1e4, "%.0f",
				   s.acts[0].queue_before_ns);
		cr_assert_leq(s.paths[0].busy_until_ns, s.now_ns, "others may move meanwhile");
		/* The rule waits for as long as the silence lasts. */
		for (double ms = 230; ms < 2000; ms += 10) {
			s.qps[0].unacked_ns = ms * MS;
			cr_assert_eq(tick(&s), 0, "after %.0f ms", ms);
		}
		s.qps[0].path = s.acts[0].to;
		s.qps[0].unacked_ns = 0;
		s.qps[0].rate_Bps = 5e6;
		cr_assert_eq(tick_on(&s, 100), 1);
		cr_assert_eq(s.acts[0].kind, CONTEND_HELPED);
	}
	cr_assert(gone > 180 && gone < 240, "not all: the other may be silent too: %u", gone);
}

Test(contend, silence_alone_is_no_reason)
{
	for (uint64_t r = 0; r < 50; r++) {
		struct scene s;

		scene_init(&s, 1, 5e6);
		s.random = SEED + r;
		fall_silent(&s, 190);
		s.qps[0].unacked_ns = 0;
		cr_assert_eq(tick_on(&s, 100), 0, "all is acknowledged: it has nothing to send");
		scene_init(&s, 1, 0);
		s.random = SEED + r;
		fall_silent(&s, 500);
		cr_assert_eq(tick_on(&s, 100), 0, "it had no queue");
		scene_init(&s, 1, 5e6);
		s.random = SEED + r;
		s.qps[0].pinned = true;
		fall_silent(&s, 500);
		cr_assert_eq(tick_on(&s, 100), 0, "pinned by the operator");
		scene_init(&s, 1, 5e6);
		s.random = SEED + r;
		fall_silent(&s, 200);
		s.paths[0].measured_ns = -1;
		cr_assert_eq(tick_on(&s, 100), 0, "its path was not measured since");
	}
}

/* Two paced senders share a path: a shorter queue than a used one has. @common: of all paths. */
static void pace_half(struct scene *s, bool common)
{
	scene_init(s, 1, 0);
	s->contend.config.capacity_Bps = 10e6;
	s->contend.config.packet_bytes = 1000;
	s->qps[0].held_ns = 20e6;
	s->qps[0].held_Bps = 5e6;
	for (int p = 0; p < PATHS; p++)
		s->paths[p].delay_ns = 1e5 + (common || !p ? 2e5 : 0);
}

Test(contend, what_pacing_holds_is_contention_of_its_path)
{
	struct scene s;

	pace_half(&s, false);
	s.qps[0].held_ns = s.qps[0].held_Bps = 0;
	cr_expect_eq(tick_on(&s, 1000), 0, "not paced: a queue as on any used path");
	pace_half(&s, true);
	cr_expect_eq(tick_on(&s, 1000), 0, "all paths have that queue: it is the receiver's port");
	pace_half(&s, false);
	s.qps[0].held_Bps = 9.5e6;
	cr_expect_eq(tick_on(&s, 1000), 0, "it has all that a path carries");
	pace_half(&s, false);
	cr_assert_eq(tick_on(&s, 1000), 1);
	cr_expect_eq(s.acts[0].kind, CONTEND_MOVE);
	cr_expect(s.acts[0].predicted_ns > 9e6 && s.acts[0].predicted_ns < 11e6, "%.0f",
		  s.acts[0].predicted_ns);
	s.qps[0].path = s.acts[0].to;
	s.qps[0].held_ns = 0;
	s.qps[0].held_Bps = 10e6;
	s.paths[0].delay_ns = 1e5;
	cr_assert_eq(tick_on(&s, 100), 1);
	cr_expect_eq(s.acts[0].kind, CONTEND_HELPED);
	cr_expect(s.acts[0].measured_ns > 9e6, "%.0f", s.acts[0].measured_ns);
	cr_expect_eq(tick_on(&s, 1000), 0, "it stays there");
}

/* A queue at the receiver's port loses packets of either path. */
Test(contend, a_timeout_by_a_queue_of_all_paths_moves_nothing)
{
	for (uint64_t r = 0; r < 50; r++) {
		struct scene s;

		scene_init(&s, 1, 5e6);
		s.random = SEED + r;
		for (int p = 1; p < PATHS; p++)
			s.paths[p].delay_ns = 1e5 + 4e6;
		cr_assert_eq(tick_on(&s, 20), 0);
		for (int p = 0; p < PATHS; p++)
			s.paths[p].delay_ns = 1e5;
		s.qps[0].rate_Bps = 0;
		for (double ms = 10; ms < 900; ms += 10) {
			s.qps[0].unacked_ns = ms * MS;
			cr_assert_eq(tick(&s), 0, "after %.0f ms", ms);
		}
	}
}

/* It is moved, and falls silent there too, again and again. */
Test(contend, repeated_losses_make_moves_rarer)
{
	struct scene s;
	unsigned moves = 0;

	scene_init(&s, 1, 5e6);
	s.contend.config.capacity_Bps = 5e6;
	for (int silence = 0; silence < 60; silence++) {
		for (int i = 0; i < 100; i++) {
			struct contend_path *path = &s.paths[s.qps[0].path];
			bool silent = i >= 20;
			size_t acts;

			for (int p = 0; p < PATHS; p++)
				s.paths[p].delay_ns = 1e5;
			path->delay_ns = silent ? 1e5 : 5e6;
			s.qps[0].rate_Bps = silent ? 0 : 5e6;
			s.qps[0].unacked_ns = silent ? (i - 19) * 10.0 * MS : 0;
			acts = tick(&s);
			for (size_t a = 0; a < acts; a++)
				moves += s.acts[a].kind == CONTEND_MOVE;
			if (i == 99 && s.qps[0].moving && !s.qps[0].arrived_ns)
				s.qps[0].path = s.qps[0].to;
		}
	}
	cr_assert(moves >= 3 && moves <= 14, "%u in a minute", moves);
}

/* A rule that waits for a pause between messages; meanwhile the other one of the path is gone. */
Test(contend, a_rule_of_long_ago_ends_when_the_path_is_its_own)
{
	for (int left_alone = 0; left_alone < 2; left_alone++) {
		struct scene s;

		scene_init(&s, 1, 5e6);
		s.contend.config.capacity_Bps = 1e7;
		s.qps[0].message_ns = 1e9;
		cr_assert_eq(tick_on(&s, 300), 1);
		cr_assert_eq(s.acts[0].kind, CONTEND_MOVE);
		s.qps[0].rate_Bps = left_alone ? 1e7 : 5e6;
		cr_assert_eq(tick_on(&s, 95), 0, "alone for less than a second");
		cr_assert(s.qps[0].moving);
		cr_assert_eq(tick_on(&s, 20), (size_t)left_alone);
		cr_assert_eq(s.qps[0].moving, !left_alone);
		if (left_alone)
			cr_assert_eq(s.acts[0].kind, CONTEND_UNDONE);
	}
}

static double any(struct rng *rng)
{
	static const double odd[] = {0, -1e9, 1e18, 1};

	if (rng_below(rng, 20) == 0)
		return NAN;
	if (rng_below(rng, 20) == 0)
		return INFINITY;
	return rng_below(rng, 10) ? 1e7 * rng_unit(rng) : odd[rng_below(rng, 4)];
}

static void check(const struct scene *s, size_t acts)
{
	for (size_t a = 0; a < acts; a++) {
		const struct contend_act *act = &s->acts[a];

		cr_assert(act->qp < s->qp_count && act->from < PATHS && act->to < PATHS);
		if (act->kind != CONTEND_MOVE && act->kind != CONTEND_BACK)
			continue;
		cr_assert_eq(act->from, s->qps[act->qp].path);
		cr_assert_neq(act->from, act->to);
		cr_assert(s->paths[act->to].usable && s->paths[act->to].fresh);
		cr_assert_geq(act->hold_ns, 0);
		cr_assert_geq(act->force_ns, act->start_ns);
		cr_assert_not(s->qps[act->qp].pinned && act->kind == CONTEND_MOVE);
	}
}

Test(contend, whatever_its_inputs_its_rules_make_sense)
{
	struct rng rng;

	rng_seed(&rng, SEED);
	for (int trial = 0; trial < 300; trial++) {
		struct scene s;

		scene_init(&s, 1 + rng_below(&rng, QPS), 5e6);
		s.random = rng_next(&rng);
		s.contend.config.capacity_Bps = rng_below(&rng, 2) ? 0 : 1e7 * rng_unit(&rng);
		for (int i = 0; i < 200; i++) {
			for (int p = 0; p < PATHS; p++) {
				s.paths[p].usable = rng_below(&rng, 10);
				s.paths[p].delay_ns = any(&rng);
				s.paths[p].floor_ns = rng_below(&rng, 9) ? 1e5 : any(&rng);
				s.paths[p].noise_ns = rng_below(&rng, 9) ? 100 : any(&rng);
				s.paths[p].bound_ns = rng_below(&rng, 9) ? 100 : any(&rng);
			}
			for (size_t q = 0; q < s.qp_count; q++) {
				s.qps[q].rate_Bps = any(&rng);
				s.qps[q].unacked_ns = rng_below(&rng, 3) ? 0 : 100 * any(&rng);
				s.qps[q].pinned = !rng_below(&rng, 10);
				if (!rng_below(&rng, 5))
					s.qps[q].path = (uint32_t)rng_below(&rng, PATHS + 1);
			}
			check(&s, tick(&s));
		}
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* A pair of addresses as the policy sees it, over paths that the test makes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "qp/qp.h"
#include "steer/internal.h"

#define MS 1000000ll
#define SECOND 1000000000ll
#define FLOOR_NS 20000.0

static struct path_facts paths_[ESC_PATHS_MAX];
static size_t path_count;

const struct path_pair_facts *paths_pair(const struct paths *paths, unsigned int slot)
{
	(void)paths;
	(void)slot;
	return NULL;
}

size_t paths_candidates(const struct paths *paths, unsigned int slot,
			struct path_facts out[ESC_PATHS_MAX])
{
	(void)paths;
	(void)slot;
	memcpy(out, paths_, path_count * sizeof(*out));
	return path_count;
}

int paths_id_of(const struct paths *paths, unsigned int slot, uint16_t sport)
{
	(void)paths;
	(void)slot;
	for (size_t i = 0; i < path_count; i++)
		if (paths_[i].sport == sport)
			return (int)paths_[i].id;
	return -ENOENT;
}

bool paths_are_probed(const struct paths *paths)
{
	(void)paths;
	return true;
}

bool paths_release(struct paths *paths, unsigned int slot, unsigned int id)
{
	(void)paths;
	(void)slot;
	(void)id;
	return false;
}

void paths_on_tick(struct paths *paths, paths_tick_fn *fn, void *context)
{
	(void)paths;
	(void)fn;
	(void)context;
}

void paths_get(const struct paths *paths, struct paths_facts *out)
{
	(void)paths;
	*out = (struct paths_facts){};
}

static struct path_facts path(unsigned int id, uint32_t group)
{
	return (struct path_facts){
		.slot = 3,
		.id = id,
		.sport = (uint16_t)(50000 + id),
		.group = group,
		.usable = true,
		.out = {.floor_ns = FLOOR_NS,
			.delay_ns = FLOOR_NS,
			.worst_ns = FLOOR_NS,
			.noise_ns = 100,
			.bound_ns = 100,
			.at_ns = SECOND},
		.backup = -1,
		.interval_ns = MS,
	};
}

static struct pair *make(size_t count)
{
	struct path_pair_facts facts = {.slot = 3};
	struct contend_config config;

	facts.key.src.bytes[15] = 1;
	facts.key.dst.bytes[15] = 2;
	contend_config_default(&config);
	path_count = count;
	for (unsigned int i = 0; i < count; i++)
		paths_[i] = path(i, i + 1);
	return pair_new(&facts, &config);
}

static struct qp_entry entry(const struct pair *pair, uint32_t qpn, uint16_t sport)
{
	struct qp_entry made = {.key = {.src = pair->facts.key.src,
					.dst = pair->facts.key.dst,
					.dest_qpn = qpn,
					.direction = ESC_DIRECTION_TX}};

	made.qp.sport = sport;
	made.qp.first_local_ns = 7;
	return made;
}

Test(steer_pair, candidates_of_a_group_are_one_route)
{
	struct pair *pair = make(4);

	paths_[2].group = paths_[0].group;
	paths_[0].interval_ns = 20 * MS;
	paths_[2].out.delay_ns = paths_[2].out.worst_ns = 2 * FLOOR_NS;
	paths_[3].group = 0;
	pair_update_candidates(pair, NULL);
	cr_expect_eq(pair_route_of(pair, 2), 0);
	cr_expect(pair->routes[0].usable);
	cr_expect_eq(pair->routes[0].delay_ns, 2 * FLOOR_NS,
		     "of the candidate that is probed more often");
	cr_expect(!pair->routes[2].usable, "a route is known by the first of its group");
	cr_expect(!pair->routes[3].usable, "what shares its route is not known yet");
	cr_expect_eq(pair_candidate_for(pair, 0), 2);
	cr_expect_eq(pair_candidate_for(pair, 3), 3);
	cr_expect_eq(pair_route_of(pair, 9), UINT32_MAX);
	pair_free(pair);
}

Test(steer_pair, what_is_diverted_is_on_the_backup)
{
	struct pair *pair = make(3);

	paths_[1].diverted_ns = 5;
	paths_[1].usable = false;
	paths_[1].backup = 2;
	pair_update_candidates(pair, NULL);
	cr_expect_eq(pair_route_of(pair, 1), 2);
	cr_expect(!pair->routes[1].usable);
	cr_expect_eq(pair_candidate_for(pair, 1), -1);
	pair_free(pair);
}

Test(steer_pair, ids_that_change_are_dropped)
{
	struct pair *pair = make(3);

	pair_update_candidates(pair, NULL);
	pair->routes[1].backoff_until_ns = 5 * SECOND;
	pair_update_candidates(pair, NULL);
	cr_expect_eq(pair->routes[1].backoff_until_ns, 5 * SECOND);
	paths_[2].sport = 60000;
	pair_update_candidates(pair, NULL);
	cr_expect_eq(pair->routes[1].backoff_until_ns, 0);
	pair_free(pair);
}

Test(steer_pair, queue_pairs_come_and_go)
{
	struct pair *pair = make(2);
	struct qp_entry entries[] = {entry(pair, 17, 50000), entry(pair, 18, 50001),
				     entry(pair, 19, 40000), entry(pair, 20, 50000)};

	entries[3].key.dst.bytes[15] = 9; /* another pair's */
	pair_update_candidates(pair, NULL);
	cr_assert_eq(pair_update_members(pair, NULL, entries, 4, SECOND), 0);
	cr_assert_eq(pair->count, 3);
	cr_expect_eq(pair->members[0].home, 0);
	cr_expect_eq(pair->members[1].home, 1);
	cr_expect_lt(pair->members[2].home, 0, "no candidate has its port");
	pair->qps[1].moves = 5;
	cr_assert_eq(pair_update_members(pair, NULL, &entries[1], 1, SECOND), 0);
	cr_assert_eq(pair->count, 1);
	cr_expect_eq(pair->qps[0].moves, 5, "what is known of it stays with it");
	entries[1].qp.first_local_ns = 8;
	cr_assert_eq(pair_update_members(pair, NULL, &entries[1], 1, SECOND), 0);
	cr_expect_eq(pair->qps[0].moves, 0, "the same numbers, another queue pair");
	pair_free(pair);
}

Test(steer_pair, idle_queue_pairs_give_way_where_candidates_are_short)
{
	struct pair *pair = make(2);
	struct qp_entry entries[] = {entry(pair, 17, 50000), entry(pair, 18, 50001)};

	entries[1].seen_local_ns = 50 * SECOND;
	pair_update_candidates(pair, NULL);
	cr_assert_eq(pair_update_members(pair, NULL, entries, 2, 70 * SECOND), 0);
	cr_expect_eq(pair->count, 2, "idle for 70 s, but its candidate is not needed");
	pair->facts.crowded = true;
	cr_assert_eq(pair_update_members(pair, NULL, entries, 2, 50 * SECOND), 0);
	cr_expect_eq(pair->count, 2, "not for long enough");
	cr_assert_eq(pair_update_members(pair, NULL, entries, 2, 70 * SECOND), 0);
	cr_assert_eq(pair->count, 1);
	cr_expect_eq(pair->members[0].key.dest_qpn, 18);
	pair_free(pair);
}

Test(steer_pair, rates_gaps_and_messages)
{
	struct pair_qp member = {0};
	struct contend_qp qp = {0};
	struct esc_qp read = {0};
	int64_t now = SECOND;

	for (int i = 0; i < 60; i++, now += 10 * MS) {
		read.packets += 10;
		read.bytes += 10000;
		read.messages += i % 4 == 0;
		pair_update_qp(&member, &qp, &read, now);
	}
	cr_expect_float_eq(qp.rate_Bps, 1e6, 1e3);
	cr_expect_float_eq(qp.message_ns, 40e6, 1e5);
	cr_expect_eq(qp.idle_gap_ns, 0);
	for (int i = 0; i < 5; i++, now += 10 * MS)
		pair_update_qp(&member, &qp, &read, now);
	cr_expect_float_eq(qp.idle_gap_ns, 50e6, 1);
	cr_expect_lt(qp.rate_Bps, 0.3e6);
	read.packets = 1; /* its entry was deleted and came again */
	read.bytes = 100;
	pair_update_qp(&member, &qp, &read, now);
	cr_expect_geq(qp.rate_Bps, 0);
}

Test(steer_pair, what_pacing_holds_is_neither_sent_nor_silence)
{
	struct pair_qp member = {0};
	struct contend_qp qp = {0};
	struct esc_qp read = {0};
	struct esc_qp_pace pace = {.flow = {.rate_Bps = 125000}};
	int64_t now = SECOND;

	for (int i = 0; i < 60; i++, now += 10 * MS) {
		read.packets += 2;
		pace.packets += 2;
		pace.waited_ns += 2 * 30 * MS;
		pace.flow.departed_ns = (uint64_t)(now + 300 * MS);
		pair_update_pace(&member, &qp, &pace, now);
		pair_update_qp(&member, &qp, &read, now);
	}
	cr_expect_float_eq(qp.held_ns, 30e6, 1e3);
	cr_expect_eq(qp.held_Bps, 125000);
	for (int i = 0; i < 20; i++, now += 10 * MS) {
		pair_update_pace(&member, &qp, &pace, now);
		pair_update_qp(&member, &qp, &read, now);
	}
	cr_expect_eq(qp.idle_gap_ns, 0, "its newest packet has not left");
	cr_expect_gt(pair_idle_since(&member), now);
	cr_expect_float_eq(qp.held_ns, 30e6, 1e3);
	for (int i = 0; i < 14; i++, now += 10 * MS) {
		pair_update_pace(&member, &qp, &pace, now);
		pair_update_qp(&member, &qp, &read, now);
	}
	cr_expect_float_eq(qp.idle_gap_ns, 40e6, 1);
	cr_expect_lt(qp.held_ns, 20e6);
	pair_update_pace(&member, &qp, NULL, now);
	cr_expect(qp.held_ns == 0 && qp.held_Bps == 0, "pacing is off");
}

/* Two share a route, another one is free: the policy wants one of them there. */
Test(steer_pair, the_policy_detects_contention)
{
	struct pair *pair = make(2);
	struct qp_entry entries[] = {entry(pair, 17, 50000), entry(pair, 18, 50000)};
	struct contend_budget budget = {0};
	struct contend_act acts[4];
	uint64_t random = 1;
	size_t count = 0;
	double gain;

	pair->contend.config.capacity_Bps = 5e6;
	cr_assert_eq(pair_update_members(pair, NULL, entries, 2, SECOND), 0);
	for (int64_t now = SECOND; !count && now < 3 * SECOND; now += 10 * MS) {
		for (int i = 0; i < 2; i++) {
			paths_[i].out.at_ns = now;
			paths_[i].out.delay_ns = paths_[i].out.worst_ns = i ? FLOOR_NS : 5e6;
		}
		pair_update_candidates(pair, NULL);
		for (int q = 0; q < 2; q++) {
			entries[q].qp.packets += 25;
			entries[q].qp.bytes += 25000;
			pair_update_qp(&pair->members[q], &pair->qps[q], &entries[q].qp, now);
			pair->qps[q].path = pair_route_of(pair, pair->members[q].home);
		}
		count = contend_tick(&pair->contend, &budget, now, &random, pair->routes,
				     ESC_PATHS_MAX, pair->qps, pair->count, acts, 4);
		if (now > SECOND + 50 * MS && !count)
			cr_expect_eq(contend_best(&pair->contend, now, pair->routes, ESC_PATHS_MAX,
						  &pair->qps[0], &gain),
				     1);
	}
	cr_assert_eq(count, 1);
	cr_expect_eq(acts[0].kind, CONTEND_MOVE);
	cr_expect_eq(acts[0].from, 0);
	cr_expect_eq(acts[0].to, 1);
	cr_expect(!pair_is_calm(pair));
	pair_free(pair);
}

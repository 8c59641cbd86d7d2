// SPDX-License-Identifier: BSD-2-Clause
/* What steering by itself shows its policy, over paths that a test makes up. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "qp/table.h"
#include "steer/auto.h"

#define MS 1000000ll
#define SECOND 1000000000ll
#define FLOOR_NS 20000.0

static struct path_facts lanes[ESC_PATH_LANES_MAX];
static size_t lane_count;

/* These win over the real ones (mk/face.mk). */
size_t paths_candidates(const struct paths *paths, unsigned int slot,
		   struct path_facts out[ESC_PATH_LANES_MAX])
{
	(void)paths;
	(void)slot;
	memcpy(out, lanes, lane_count * sizeof(*out));
	return lane_count;
}

int paths_id_of(const struct paths *paths, unsigned int slot, uint16_t sport)
{
	(void)paths;
	(void)slot;
	for (size_t i = 0; i < lane_count; i++)
		if (lanes[i].sport == sport)
			return (int)lanes[i].id;
	return -ENOENT;
}

static struct path_facts lane(unsigned int number, uint32_t group)
{
	return (struct path_facts){
		.slot = 3,
		.id = number,
		.sport = (uint16_t)(50000 + number),
		.group = group,
		.usable = true,
		.floor_ns = FLOOR_NS,
		.delay_ns = FLOOR_NS,
		.worst_ns = FLOOR_NS,
		.noise_ns = 100,
		.bound_ns = 100,
		.measured_ns = SECOND,
		.standby = -1,
		.interval_ns = MS,
	};
}

static struct auto_pair *make(size_t count)
{
	struct path_pair_facts facts = {.slot = 3, .candidates = count};
	struct contend_config config;

	facts.key.src.bytes[15] = 1;
	facts.key.dst.bytes[15] = 2;
	contend_config_default(&config);
	lane_count = count;
	for (unsigned int i = 0; i < count; i++)
		lanes[i] = lane(i, i + 1);
	return auto_pair_new(&facts, &config);
}

static struct qp_entry entry(const struct auto_pair *pair, uint32_t qpn, uint16_t sport)
{
	struct qp_entry made = {.key = {.src = pair->facts.key.src,
					.dst = pair->facts.key.dst,
					.dest_qpn = qpn,
					.direction = ESC_DIRECTION_TX}};

	made.qp.sport = sport;
	made.qp.first_local_ns = 7;
	return made;
}

Test(steer_auto, lanes_of_a_group_are_one_path)
{
	struct auto_pair *pair = make(4);

	lanes[2].group = lanes[0].group;
	lanes[0].interval_ns = 20 * MS;
	lanes[2].delay_ns = lanes[2].worst_ns = 2 * FLOOR_NS;
	lanes[3].group = 0;
	auto_pair_see_lanes(pair, NULL);
	cr_expect_eq(auto_pair_path_of(pair, 2), 0);
	cr_expect(pair->paths[0].usable);
	cr_expect_eq(pair->paths[0].delay_ns, 2 * FLOOR_NS,
		     "of the lane that is probed more often");
	cr_expect(!pair->paths[2].usable, "it is the first of its group that stands for it");
	cr_expect(!pair->paths[3].usable, "what shares a path is not known yet");
	cr_expect_eq(auto_pair_lane_for(pair, 0), 2);
	cr_expect_eq(auto_pair_lane_for(pair, 3), 3);
	cr_expect_eq(auto_pair_path_of(pair, 9), UINT32_MAX);
	auto_pair_free(pair);
}

Test(steer_auto, what_is_diverted_is_on_the_standby)
{
	struct auto_pair *pair = make(3);

	lanes[1].diverted_ns = 5;
	lanes[1].usable = false;
	lanes[1].standby = 2;
	auto_pair_see_lanes(pair, NULL);
	cr_expect_eq(auto_pair_path_of(pair, 1), 2);
	cr_expect(!pair->paths[1].usable);
	cr_expect_eq(auto_pair_lane_for(pair, 1), -1);
	auto_pair_free(pair);
}

Test(steer_auto, numbers_that_change_are_forgotten)
{
	struct auto_pair *pair = make(3);

	auto_pair_see_lanes(pair, NULL);
	pair->paths[1].shut_until_ns = 5 * SECOND;
	auto_pair_see_lanes(pair, NULL);
	cr_expect_eq(pair->paths[1].shut_until_ns, 5 * SECOND);
	lanes[2].sport = 60000;
	auto_pair_see_lanes(pair, NULL);
	cr_expect_eq(pair->paths[1].shut_until_ns, 0);
	auto_pair_free(pair);
}

Test(steer_auto, queue_pairs_come_and_go)
{
	struct auto_pair *pair = make(2);
	struct qp_entry entries[] = {entry(pair, 17, 50000), entry(pair, 18, 50001),
				     entry(pair, 19, 40000), entry(pair, 20, 50000)};

	entries[3].key.dst.bytes[15] = 9; /* another pair's */
	auto_pair_see_lanes(pair, NULL);
	cr_assert_eq(auto_pair_see_table(pair, NULL, entries, 4, SECOND), 0);
	cr_assert_eq(pair->count, 3);
	cr_expect_eq(pair->who[0].home, 0);
	cr_expect_eq(pair->who[1].home, 1);
	cr_expect_lt(pair->who[2].home, 0, "no lane has its port");
	pair->qps[1].moves = 5;
	cr_assert_eq(auto_pair_see_table(pair, NULL, &entries[1], 1, SECOND), 0);
	cr_assert_eq(pair->count, 1);
	cr_expect_eq(pair->qps[0].moves, 5, "what is known of it stays with it");
	entries[1].qp.first_local_ns = 8;
	cr_assert_eq(auto_pair_see_table(pair, NULL, &entries[1], 1, SECOND), 0);
	cr_expect_eq(pair->qps[0].moves, 0, "the same numbers, another queue pair");
	auto_pair_free(pair);
}

Test(steer_auto, what_is_still_gives_way_where_lanes_are_short)
{
	struct auto_pair *pair = make(2);
	struct qp_entry entries[] = {entry(pair, 17, 50000), entry(pair, 18, 50001)};

	entries[1].seen_local_ns = 50 * SECOND;
	auto_pair_see_lanes(pair, NULL);
	cr_assert_eq(auto_pair_see_table(pair, NULL, entries, 2, 70 * SECOND), 0);
	cr_expect_eq(pair->count, 2, "still for 70 s, but nobody wants its lane");
	pair->facts.crowded = true;
	cr_assert_eq(auto_pair_see_table(pair, NULL, entries, 2, 50 * SECOND), 0);
	cr_expect_eq(pair->count, 2, "not for long enough");
	cr_assert_eq(auto_pair_see_table(pair, NULL, entries, 2, 70 * SECOND), 0);
	cr_assert_eq(pair->count, 1);
	cr_expect_eq(pair->who[0].key.dest_qpn, 18);
	auto_pair_free(pair);
}

Test(steer_auto, rates_gaps_and_messages)
{
	struct auto_qp who = {0};
	struct contend_qp qp = {0};
	struct esc_qp read = {0};
	int64_t now = SECOND;

	for (int i = 0; i < 60; i++, now += 10 * MS) {
		read.packets += 10;
		read.bytes += 10000;
		read.messages += i % 4 == 0;
		auto_qp_see(&who, &qp, &read, now);
	}
	cr_expect_float_eq(qp.rate_Bps, 1e6, 1e3);
	cr_expect_float_eq(qp.message_ns, 40e6, 1e5);
	cr_expect_eq(qp.idle_gap_ns, 0);
	for (int i = 0; i < 5; i++, now += 10 * MS)
		auto_qp_see(&who, &qp, &read, now);
	cr_expect_float_eq(qp.idle_gap_ns, 50e6, 1);
	cr_expect_lt(qp.rate_Bps, 0.3e6);
	read.packets = 1; /* its entry was deleted and came again */
	read.bytes = 100;
	auto_qp_see(&who, &qp, &read, now);
	cr_expect_geq(qp.rate_Bps, 0);
}

/* Two share a path, another path is free: the policy wants one of them there. */
Test(steer_auto, the_policy_sees_contention)
{
	struct auto_pair *pair = make(2);
	struct qp_entry entries[] = {entry(pair, 17, 50000), entry(pair, 18, 50000)};
	struct contend_budget budget = {0};
	struct contend_act acts[4];
	uint64_t random = 1;
	size_t count = 0;
	double gain;

	pair->contend.config.capacity_Bps = 5e6;
	cr_assert_eq(auto_pair_see_table(pair, NULL, entries, 2, SECOND), 0);
	for (int64_t now = SECOND; !count && now < 3 * SECOND; now += 10 * MS) {
		for (int i = 0; i < 2; i++) {
			lanes[i].measured_ns = now;
			lanes[i].delay_ns = lanes[i].worst_ns = i ? FLOOR_NS : 5e6;
		}
		auto_pair_see_lanes(pair, NULL);
		for (int q = 0; q < 2; q++) {
			entries[q].qp.packets += 25;
			entries[q].qp.bytes += 25000;
			auto_qp_see(&pair->who[q], &pair->qps[q], &entries[q].qp, now);
			pair->qps[q].path = auto_pair_path_of(pair, pair->who[q].home);
		}
		count = contend_look(&pair->contend, &budget, now, &random, pair->paths,
				     ESC_PATH_LANES_MAX, pair->qps, pair->count, acts, 4);
		if (now > SECOND + 50 * MS && !count)
			cr_expect_eq(contend_best(&pair->contend, now, pair->paths,
						  ESC_PATH_LANES_MAX, &pair->qps[0], &gain),
				     1);
	}
	cr_assert_eq(count, 1);
	cr_expect_eq(acts[0].kind, CONTEND_MOVE);
	cr_expect_eq(acts[0].from, 0);
	cr_expect_eq(acts[0].to, 1);
	cr_expect(!auto_pair_is_calm(pair));
	auto_pair_free(pair);
}

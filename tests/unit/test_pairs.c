// SPDX-License-Identifier: BSD-2-Clause
/* Runs of all pairs: when what is sent, what it costs, and which pairs are reported. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "base/json.h"
#include "pacing/random.h"
#include "pairs/internal.h"
#include "replies.h"

#define SECOND 1000000000ull

static uint64_t seed(void)
{
	const char *given = getenv("SEED");
	uint64_t value = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	printf("# SEED=%llu\n", (unsigned long long)value);
	return value;
}

/* --- time --- */

Test(pairs, hosts_that_begin_together_make_one_run)
{
	uint64_t id = pairs_run_id(100 * SECOND);

	cr_expect_eq(id, 110 * SECOND);
	cr_expect_eq(pairs_run_id(101 * SECOND), id);
	cr_expect_eq(pairs_run_id(107 * SECOND), id);
	cr_expect_eq(pairs_run_id(107 * SECOND + 1), 120 * SECOND, "3 s are left for the others");
}

Test(pairs, a_round)
{
	struct pairs_plan plan = {.run_ns = 50 * SECOND, .round_ns = SECOND / 2, .rounds = 15};
	unsigned int probes, echoes;
	uint64_t round;

	cr_expect_eq(pairs_at(&plan, 50 * SECOND - 1, false, &round, &probes, &echoes),
		     PAIRS_WAITING);
	cr_expect_eq(pairs_at(&plan, 50 * SECOND, false, &round, &probes, &echoes), PAIRS_RUNNING);
	cr_expect(!round && !probes && !echoes);
	pairs_at(&plan, 50 * SECOND + 150000000, false, &round, &probes, &echoes);
	cr_expect(!round && probes == 50 && echoes == 3, "%u %u", probes, echoes);
	pairs_at(&plan, 50 * SECOND + 300000000, false, &round, &probes, &echoes);
	cr_expect(!round && probes == PAIRS_PROBES && echoes == PAIRS_ECHOES);
	pairs_at(&plan, 50 * SECOND + 499999999, false, &round, &probes, &echoes);
	cr_expect(!round && probes == PAIRS_PROBES);
	cr_expect_eq(pairs_at(&plan, 57 * SECOND, false, &round, &probes, &echoes), PAIRS_RUNNING);
	cr_expect(round == 14 && !probes);
	cr_expect_eq(pairs_at(&plan, 57 * SECOND + SECOND / 2, false, &round, &probes, &echoes),
		     PAIRS_OVER);
}

/* What is due by quarters of an interval: path requests of both ends, and echo requests. */
Test(pairs, no_two_requests_at_once)
{
	struct pairs_plan plan = {.run_ns = SECOND, .round_ns = 2200000000, .rounds = 1};
	unsigned int had[2][2] = {}, alone = 0;

	for (uint64_t quarter = 0; quarter <= 4 * PAIRS_PROBES + 1; quarter++) {
		unsigned int due = 0;

		for (int second = 0; second < 2; second++) {
			unsigned int now[2];
			uint64_t round;

			pairs_at(&plan, SECOND + quarter * 5000000, second, &round, &now[0],
				 &now[1]);
			for (int kind = 0; kind < 2; kind++) {
				due += now[kind] - had[second][kind];
				had[second][kind] = now[kind];
			}
		}
		cr_expect_leq(due, 1, "quarter %d", (int)quarter);
		alone += due;
	}
	cr_expect_eq(alone, 2 * (PAIRS_PROBES + PAIRS_ECHOES));
}

/* Nothing above 1% of the speed while a round sends; the default is enough for 1 Gbit/s. */
Test(pairs, slow_links_have_longer_rounds)
{
	static const double speeds[] = {5e5, 20e6, 100e6, 177e6, 200e6, 1e9, 400e9};

	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		struct pairs_plan plan = {.round_ns = pairs_round_least(1500, speeds[i]),
					  .rounds = 1};
		double round = (double)plan.round_ns / 1e9;
		double sending = round > 0.5 ? round - 0.2 : round * 0.6;
		double bits = 8 * (double)pairs_load(&plan, 1500).bytes;

		cr_expect_leq(bits / sending, speeds[i] * PAIRS_SHARE * 1.0001, "%g", speeds[i]);
		cr_expect(plan.round_ns <= PAIRS_ROUND_DEFAULT_NS || speeds[i] < 200e6, "%g",
			  speeds[i]);
		cr_expect(plan.round_ns > PAIRS_ROUND_MOST_NS || speeds[i] > 5e5, "%g", speeds[i]);
	}
	cr_expect_eq(pairs_round_least(1500, 0), 0);
	cr_expect_gt(pairs_round_least(9000, 20e6), pairs_round_least(1500, 20e6));
}

/* --- a fleet --- */

/*
 * One host's ticks in a round: late by up to 300 ms now and then, and its fabric time wrong by up
 * to 10 us. Adds what it sends to @packets, by windows of a second from the run's begin.
 */
static void send_round(const struct pairs_plan *plan, uint64_t round, bool second, uint64_t *state,
		       uint32_t *packets, unsigned int *sent)
{
	uint64_t at = plan->run_ns + round * plan->round_ns, end = at + plan->round_ns;
	unsigned int probes = 0, echoes = 0;
	int64_t wrong = (int64_t)(pacing_random(state) % 20000) - 10000;

	while (at < end) {
		unsigned int probes_due, echoes_due, burst = 0;
		uint64_t now_round;

		if (pairs_at(plan, at + (uint64_t)wrong, second, &now_round, &probes_due,
			     &echoes_due) == PAIRS_RUNNING &&
		    now_round == round) {
			for (; probes < probes_due && burst < PAIRS_BURST; probes++, burst++)
				packets[(at - plan->run_ns) / SECOND]++;
			if (echoes < echoes_due) {
				echoes++;
				packets[(at - plan->run_ns) / SECOND]++;
			}
		}
		at += PAIRS_TICK_NS +
		      (pacing_random(state) % 100 ? 0 : pacing_random(state) % 300000000);
	}
	*sent = probes;
}

/* Each NIC's partner replies as often as it is sent to: with its own, these are all its packets. */
Test(pairs, no_nic_is_above_its_budget)
{
	enum { HOSTS = 64 };
	struct pairs_plan plan = {
		.run_ns = 10 * SECOND, .round_ns = PAIRS_ROUND_DEFAULT_NS, .rounds = HOSTS - 1};
	struct pairs_load load = pairs_load(&plan, 9000);
	static uint32_t packets[HOSTS][HOSTS];
	uint64_t state = seed();
	uint32_t most = 0;

	for (uint64_t round = 0; round < plan.rounds; round++)
		for (uint32_t i = 0; i < HOSTS; i++) {
			uint32_t other = rotation_partner(HOSTS, round, i), mine[HOSTS] = {};
			unsigned int sent;

			cr_assert_neq(other, ROTATION_NONE);
			send_round(&plan, round, i > other, &state, mine, &sent);
			cr_expect_leq(sent, PAIRS_PROBES);
			for (uint32_t s = 0; s < HOSTS; s++) {
				packets[i][s] += mine[s];
				packets[other][s] += mine[s];
			}
		}
	for (uint32_t i = 0; i < HOSTS; i++)
		for (uint32_t s = 0; s < HOSTS; s++)
			most = packets[i][s] > most ? packets[i][s] : most;
	printf("# at most %u packets of a NIC in a second, budget %.0f\n", most,
	       load.packets_per_second);
	cr_expect_leq(most, load.packets_per_second);
}

/* 10,000 hosts with 8 NICs: rails are alike, and each is a tournament of its own. */
Test(pairs, ten_thousand_hosts)
{
	const uint32_t hosts = 10000;
	struct pairs_plan plan = {.round_ns = PAIRS_ROUND_DEFAULT_NS,
				  .rounds = rotation_cycle(hosts)};
	struct pairs_load load = pairs_load(&plan, 9000);
	unsigned char *met = calloc(hosts, hosts / 8);
	uint64_t pairs = 0;

	cr_assert(met);
	cr_expect_eq(plan.rounds, hosts - 1);
	for (uint64_t round = 0; round < plan.rounds; round++)
		for (uint32_t i = 0; i < hosts; i++) {
			uint32_t other = rotation_partner(hosts, round, i);
			unsigned char *byte = &met[(size_t)i * (hosts / 8) + other / 8];

			cr_assert(other < hosts && other != i && !(*byte & 1u << other % 8));
			*byte |= (unsigned char)(1u << other % 8);
			pairs++;
		}
	cr_expect_eq(pairs, (uint64_t)hosts * (hosts - 1));
	printf("# 10,000 hosts, 8 NICs: %llu rounds in %.0f s; each NIC sends %.0f packets/s, %.0f "
	       "kB/s, %.2f GB in all\n",
	       (unsigned long long)plan.rounds, (double)(plan.rounds * plan.round_ns) / 1e9,
	       load.packets_per_second, load.bytes_per_second / 1e3, (double)load.bytes / 1e9);
	cr_expect_leq(load.bytes_per_second, 1e6, "8 Mbit/s");
	free(met);
}

/* --- what is wrong --- */

#define PAIRS 40

static void fill(struct pairs_pair *list, uint64_t *state)
{
	for (size_t i = 0; i < PAIRS; i++)
		list[i] = (struct pairs_pair){
			.out_ns = 5000 + (int64_t)(pacing_random(state) % 200),
			.in_ns = 5000 + (int64_t)(pacing_random(state) % 200),
			.bound_ns = 300,
			.sent = PAIRS_PROBES,
			.replied = PAIRS_PROBES,
			.class = PAIRS_FABRIC,
			.small_sent = 3,
			.small_replied = 3,
			.full_sent = 3,
			.full_replied = 3,
		};
}

/* The faults of @list, and that of pair @at alone; any other pair with a fault fails the test. */
static unsigned int judge(const struct pairs_pair *list, size_t at)
{
	struct pairs_limit limits[PAIRS_CLASSES];

	cr_assert_eq(pairs_limits(list, PAIRS, limits), 0);
	for (size_t i = 0; i < PAIRS; i++)
		cr_expect(i == at || !pairs_judge(&list[i], limits), "pair %zu", i);
	return pairs_judge(&list[at], limits);
}

Test(pairs, each_fault_is_found_alone)
{
	uint64_t state = seed();

	for (unsigned int n = 0; n < 50; n++) {
		size_t at = pacing_random(&state) % PAIRS;
		struct pairs_pair good[PAIRS], list[PAIRS];

		fill(good, &state);
		cr_expect_eq(judge(good, at), 0);
		memcpy(list, good, sizeof(list));
		list[at].replied = 0;
		list[at].out_ns = list[at].in_ns = 0;
		cr_expect_eq(judge(list, at), 1u << PAIRS_SILENT);
		memcpy(list, good, sizeof(list));
		list[at].replied--;
		cr_expect_eq(judge(list, at), 1u << PAIRS_LOSS);
		memcpy(list, good, sizeof(list));
		list[at].full_replied = 0;
		cr_expect_eq(judge(list, at), 1u << PAIRS_MTU);
		list[at].small_replied = 0;
		cr_expect_eq(judge(list, at), 0, "without ICMP nothing is known");
		memcpy(list, good, sizeof(list));
		list[at].in_ns = list[at].out_ns = 7500;
		cr_expect_eq(judge(list, at), 1u << PAIRS_LATENCY);
		list[at].bound_ns = 3000;
		cr_expect_eq(judge(list, at), 0, "the clock may be wrong by as much");
		memcpy(list, good, sizeof(list));
		list[at].in_ns = 4000;
		list[at].out_ns = 6200;
		cr_expect_eq(judge(list, at), 1u << PAIRS_ASYMMETRY);
		memcpy(list, good, sizeof(list));
		list[at].sent = list[at].replied = PAIRS_PROBES_LEAST - 1;
		list[at].out_ns = 90000;
		cr_expect_eq(judge(list, at), 0, "too little was sent");
		list[at].sent = list[at].replied = PAIRS_PROBES;
		cr_expect_eq(judge(list, at), 1u << PAIRS_LATENCY);
		list[at].used = true;
		cr_expect_eq(judge(list, at), 0, "packets of queue pairs are in the delay");
		list[at].replied--;
		cr_expect_eq(judge(list, at), 1u << PAIRS_LOSS, "lost is lost");
	}
}

/* Two of 39 pairs in a rack are no class: far ones are not measured against near ones. */
Test(pairs, classes_are_apart)
{
	struct pairs_pair list[PAIRS];
	struct pairs_limit limits[PAIRS_CLASSES];
	uint64_t state = seed();

	fill(list, &state);
	for (size_t i = 0; i < 2; i++) {
		list[i].class = PAIRS_RACK;
		list[i].out_ns = list[i].in_ns = 1000 + 3000 * (int64_t)i;
	}
	cr_assert_eq(pairs_limits(list, PAIRS, limits), 0);
	cr_expect_eq(limits[PAIRS_RACK].pairs, 2);
	cr_expect_eq(pairs_judge(&list[1], limits), 0);
	for (size_t i = 2; i < 5; i++) {
		list[i].class = PAIRS_RACK;
		list[i].out_ns = list[i].in_ns = 1000 + (int64_t)i;
	}
	cr_assert_eq(pairs_limits(list, PAIRS, limits), 0);
	cr_expect_eq(pairs_judge(&list[1], limits), 1u << PAIRS_LATENCY);
	cr_expect_eq(pairs_judge(&list[9], limits), 0);
	cr_assert_eq(pairs_limits(list, 0, limits), 0);
	cr_expect_eq(limits[PAIRS_FABRIC].pairs, 0);
}

/* --- messages --- */

Test(pairs, echo_replies)
{
	uint8_t message[64] = {0, 0, 1, 2, 0x12, 0x34, 0, 7, 1};
	struct pairs_echo echo;

	cr_expect(echo_parse(message, sizeof(message), true, 0x1234, &echo));
	cr_expect(echo.sequence == 7 && echo.full);
	cr_expect(!echo_parse(message, sizeof(message), true, 0x1235, &echo), "of another program");
	cr_expect(!echo_parse(message, sizeof(message), false, 0x1234, &echo));
	for (size_t bytes = 0; bytes < 9; bytes++)
		cr_expect(!echo_parse(message, bytes, true, 0x1234, &echo));
	message[8] = 0;
	cr_expect(echo_parse(message, 9, true, 0x1234, &echo) && !echo.full);
	message[0] = 8;
	cr_expect(!echo_parse(message, sizeof(message), true, 0x1234, &echo), "a request");
	message[0] = 129;
	cr_expect(echo_parse(message, sizeof(message), false, 0x1234, &echo));
	message[1] = 1;
	cr_expect(!echo_parse(message, sizeof(message), false, 0x1234, &echo));
}

/* --- replies --- */

/* h1 with h2, which replied, and h3, which did not. */
Test(pairs, all_results_on_request)
{
	struct member members[3] = {{.host = "h1"}, {.host = "h2"}, {.host = "h3"}};
	const struct member *others[3] = {&members[0], &members[1], &members[2]};
	uint8_t places[3] = {0, 1, 0};
	struct pairs_pair results[3] = {
		{},
		{.out_ns = 4000, .in_ns = 4100, .bound_ns = 50, .sent = 100, .replied = 99},
		{.sent = 100},
	};
	struct pairs_lane lane = {.own.interface = "eth1",
				  .self = &members[0],
				  .others = others,
				  .places = places,
				  .count = 3,
				  .results = results,
				  .partner = ROTATION_NONE,
				  .mtu = 1500};
	struct pairs pairs = {.state = "completed", .lanes = &lane, .lane_count = 1};
	struct request request;
	json_t *reply, *nic, *list;

	pairs.plan = (struct pairs_plan){
		.run_ns = 1000, .round_ns = SECOND, .rounds = 3, .most_rounds = 5};
	cr_assert(address_parse("10.1.0.1", &members[0].address));
	cr_assert(address_parse("10.1.0.2", &members[1].address));
	cr_assert(address_parse("10.1.0.3", &members[2].address));
	lane.own.address = members[0].address;
	reply = replies_get(pairs_verb_handlers, &pairs, "pairs", "{}", &request);
	nic = json_array_get(json_object_get(reply, "nics"), 0);
	cr_expect_null(json_object_get(nic, "results"));
	cr_expect_null(json_object_get(nic, "members"));
	json_decref(reply);
	reply = replies_get(pairs_verb_handlers, &pairs, "pairs", "{\"all\": true}", &request);
	nic = json_array_get(json_object_get(reply, "nics"), 0);
	list = json_object_get(nic, "results");
	cr_assert_eq(json_array_size(list), 1, "a pair without a reply has no delay");
	cr_expect_str_eq(json_text(json_array_get(list, 0), "peer"), "h2");
	cr_expect_str_eq(json_text(json_array_get(list, 0), "to"), "10.1.0.2");
	cr_expect_eq(json_count(json_array_get(list, 0), "owd_out_ns"), 4000);
	cr_expect_eq(json_count(json_array_get(list, 0), "owd_in_ns"), 4100);
	cr_expect_eq(json_count(json_array_get(list, 0), "bound_ns"), 50);
	list = json_object_get(nic, "members");
	cr_assert_eq(json_array_size(list), 3, "with our own");
	cr_expect_str_eq(json_text(json_array_get(list, 1), "host"), "h2");
	cr_expect_str_eq(json_text(json_array_get(list, 1), "address"), "10.1.0.2");
	cr_expect_eq(json_count(json_array_get(list, 1), "place"), 1);
	cr_expect_eq(json_count(reply, "over_ns"), 1000 + 5 * SECOND, "that of all hosts");
	json_decref(reply);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The probe graph, and how a host moves among its neighbours. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocksync/graph.h"
#include "clocksync/hostclock.h"
#include "tests/lib/rng.h"

#define MS 1000000ll
#define ROUND (250 * MS)

static void ids_make(uint64_t *ids, size_t count)
{
	char name[16];

	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "h%zu", i + 1);
		ids[i] = graph_member_id(name);
	}
}

static bool joined(const struct graph *graph, size_t a, size_t b)
{
	for (uint32_t e = graph->start[a]; e < graph->start[a + 1]; e++)
		if (graph->peers[e] == b)
			return true;
	return false;
}

Test(clock_graph, every_host_has_the_degree_and_edges_go_both_ways)
{
	static const size_t counts[] = {1, 2, 8, 11, 12, 16, 40, 1000};
	uint64_t ids[1000];

	ids_make(ids, 1000);
	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
		struct graph graph;
		size_t n = counts[c];

		cr_assert_eq(graph_build(&graph, ids, n, 10, 0), 0);
		for (size_t h = 0; h < n; h++) {
			size_t degree = graph.start[h + 1] - graph.start[h];

			cr_assert_geq(degree, n <= 11 ? n - 1 : 10, "%zu of %zu has %zu", h, n,
				      degree);
			cr_assert_leq(degree, 22);
			for (uint32_t e = graph.start[h]; e < graph.start[h + 1]; e++) {
				cr_assert_neq(graph.peers[e], h);
				cr_assert(joined(&graph, graph.peers[e], h));
			}
		}
		if (n == 1000)
			cr_assert_leq(graph.start[n], 10.5 * 1000);
		graph_free(&graph);
	}
}

Test(clock_graph, the_order_of_the_list_does_not_matter)
{
	uint64_t ids[50], other[50];
	struct graph a, b;

	ids_make(ids, 50);
	for (size_t i = 0; i < 50; i++)
		other[i] = ids[(i * 17 + 3) % 50];
	graph_build(&a, ids, 50, 10, 3);
	graph_build(&b, other, 50, 10, 3);
	for (size_t i = 0; i < 50; i++)
		for (size_t j = 0; j < 50; j++)
			cr_assert_eq(joined(&b, i, j),
				     joined(&a, (i * 17 + 3) % 50, (j * 17 + 3) % 50));
	graph_free(&a);
	graph_free(&b);
}

Test(clock_graph, one_member_more_changes_few_edges)
{
	uint64_t ids[501];
	struct graph before, after;
	size_t changed = 0;

	ids_make(ids, 501);
	graph_build(&before, ids, 500, 10, 0);
	graph_build(&after, ids, 501, 10, 0);
	for (size_t i = 0; i < 500; i++)
		for (size_t j = i + 1; j < 500; j++)
			changed += joined(&before, i, j) != joined(&after, i, j);
	cr_assert_leq(changed, 12, "%zu edges between others changed", changed);
	graph_free(&before);
	graph_free(&after);
}

Test(clock_graph, meshes_differ_and_degrees_are_checked)
{
	uint64_t ids[100];
	struct graph a, b;
	size_t same = 0;

	ids_make(ids, 100);
	cr_assert_eq(graph_build(&a, ids, 100, 0, 0), -EINVAL);
	cr_assert_eq(graph_build(&a, ids, 100, GRAPH_DEGREE_MAX + 1, 0), -EINVAL);
	graph_build(&a, ids, 100, 10, 0);
	graph_build(&b, ids, 100, 10, 1);
	for (size_t i = 0; i < 100; i++)
		for (size_t j = i + 1; j < 100; j++)
			same += joined(&a, i, j) && joined(&b, i, j);
	cr_assert_lt(same, 120);
	graph_free(&a);
	graph_free(&b);
}

Test(clock_graph, ranks_are_a_permutation)
{
	uint64_t ids[64];
	bool seen[64] = {false};

	ids_make(ids, 64);
	for (size_t i = 0; i < 64; i++)
		seen[graph_rank(ids, 64, i, 0)] = true;
	for (size_t i = 0; i < 64; i++)
		cr_assert(seen[i]);
}

/* A host with neighbours whose clocks are all right but for what is added. */
struct stage {
	struct hostclock clock;
	struct edge_estimate edges[12];
	struct clock_view views[12];
	struct consensus_input input[12];
	size_t reports;	     /* of the first so many neighbors; 0: of all */
	double lie_reach;    /* of falsetickers; 0: 0.75 */
	double far_sigma_ns; /* of all edges but the first three; 0: as theirs */
	struct {
		double late_ns, off_ns; /* lateness and what it moves the offset by */
		double sigma_ns;	/* 0: far_sigma_ns decides */
	} late[12];
	uint32_t bound_ns; /* in the neighbors' views */
	int64_t now;
};

static void stage_init(struct stage *stage)
{
	struct hostclock_config config = {.degree = 12, .rank = 5};

	memset(stage, 0, sizeof(*stage));
	stage->now = 1000000 * MS;
	hostclock_init(&stage->clock, &config, stage->now);
}

/* One round; neighbour i reports @lie[i] ns more than it has, and has @reach (unless it is a
 * falseticker).
 */
static void stage_round(struct stage *stage, const double *lie, double reach)
{
	stage->now += ROUND;
	for (int i = 0; i < 12; i++) {
		struct clock_line line = {.local_ns = stage->now - ROUND / 2,
					  .fabric_ns = stage->now - ROUND / 2 + 5000000};

		stage->edges[i] = (struct edge_estimate){.valid = true,
							 .local_ns = stage->now - ROUND,
							 .offset_sigma_ns = 2,
							 .drift_sigma_ppb = 2,
							 .late_ns = stage->late[i].late_ns};
		if (stage->late[i].sigma_ns > 0)
			stage->edges[i].offset_sigma_ns = stage->late[i].sigma_ns;
		else if (i >= 3 && stage->far_sigma_ns > 0)
			stage->edges[i].offset_sigma_ns = stage->far_sigma_ns;
		stage->views[i] = (struct clock_view){
			.state = CLOCK_SYNCED,
			.bound_ns = stage->bound_ns,
			.reach = (uint16_t)((stage->lie_reach > 0 ? stage->lie_reach : 0.75) *
					    CLOCK_REACH_ONE)};
		if (!lie || lie[i] == 0)
			stage->views[i].reach = (uint16_t)(reach * CLOCK_REACH_ONE);
		line = clock_line_move(&line, line.local_ns,
				       stage->late[i].off_ns + (lie ? lie[i] : 0));
		clock_view_put(&stage->views[i], &line);
		stage->input[i] =
			(struct consensus_input){&stage->edges[i], &stage->views[i], ROUND / 2};
	}
	hostclock_round(&stage->clock, stage->now, stage->input,
			stage->reports ? stage->reports : 12);
}

/* A host that has been synced for long. */
static void stage_synced(struct stage *stage)
{
	stage_init(stage);
	for (int i = 0; i < 30; i++)
		stage_round(stage, NULL, 1);
}

/* The edges from @from on are late by @late_ns, which moves their offsets by @off_ns. */
static void stage_late(struct stage *stage, int from, double late_ns, double off_ns,
		       double sigma_ns)
{
	for (int i = from; i < 12; i++) {
		stage->late[i].late_ns = late_ns;
		stage->late[i].off_ns = off_ns;
		stage->late[i].sigma_ns = sigma_ns;
	}
}

static double stage_error(const struct stage *stage)
{
	return (double)(clock_model_read(&stage->clock.model, stage->now) - stage->now - 5000000);
}

Test(clock_consensus, joins_in_one_round_and_is_synced_within_seconds)
{
	static struct stage stage;

	stage_init(&stage);
	stage_round(&stage, NULL, 1);
	cr_assert_eq(stage.clock.last_result, CONSENSUS_JOINED);
	cr_assert_lt(fabs(stage_error(&stage)), 5);
	for (int i = 0; i < 12; i++)
		stage_round(&stage, NULL, 1);
	cr_assert_eq(stage.clock.state, CLOCK_SYNCED);
	cr_assert_lt(stage.clock.bound.now_ns, 500);
	cr_assert_eq(stage.clock.consensus.used, 12);
}

Test(clock_consensus, falsetickers_are_refused_and_named)
{
	static struct stage stage;
	double lie[12] = {0};

	stage_synced(&stage);
	for (int i = 0; i < 5; i++)
		lie[i] = 3000;
	for (int i = 0; i < 20; i++)
		stage_round(&stage, lie, 1);
	cr_assert_lt(fabs(stage_error(&stage)), 5);
	for (int i = 0; i < 12; i++) {
		const struct consensus_peer *peer = &stage.clock.consensus.peers[i];

		cr_assert_eq(peer->status, i < 5 ? CONSENSUS_REFUSED_OFFSET : CONSENSUS_USED);
		cr_assert_eq(peer->refused_since_ns != 0, i < 5);
		cr_assert_eq(peer->apart_since_ns, peer->refused_since_ns);
		if (i < 5)
			cr_assert_geq(stage.now - peer->refused_since_ns, 19 * ROUND);
	}
}

Test(clock_consensus, refused_within_the_bounds_of_both_is_not_apart)
{
	static const struct {
		double off_ns;
		bool apart;
	} steps[] = {{100, false}, {900, false}, {3000, true},
		     {900, true},  {100, false}, {3000, true}};
	static struct stage stage;
	const struct consensus_peer *peer = &stage.clock.consensus.peers[3];
	double lie[12] = {0};

	stage_init(&stage);
	stage.bound_ns = 1000;
	for (int i = 0; i < 30; i++)
		stage_round(&stage, NULL, 1);
	cr_assert_lt(stage.clock.bound.now_ns, 500);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		lie[3] = steps[i].off_ns;
		for (int round = 0; round < 20; round++)
			stage_round(&stage, lie, 1);
		cr_assert_eq(peer->status, CONSENSUS_REFUSED_OFFSET);
		cr_assert_eq(peer->apart_since_ns != 0, steps[i].apart, "%zu", i);
	}
	lie[3] = 0;
	stage_round(&stage, lie, 1);
	cr_assert_eq(peer->status, CONSENSUS_USED);
	cr_assert_eq(peer->apart_since_ns, 0);
}

Test(clock_consensus, the_majority_does_not_move_and_a_minority_does)
{
	for (int small = 0; small < 2; small++) {
		static struct stage stage;
		double other[12] = {0};

		stage_synced(&stage);
		for (int i = 0; i < 8; i++)
			other[i] = 20000;
		/* Eight of twelve are elsewhere; the reach of the four with us decides. */
		for (int i = 0; i < 30; i++)
			stage_round(&stage, other, small ? 0.3 : 0.85);
		if (small)
			cr_assert_lt(fabs(stage_error(&stage) - 20000), 100, "%f",
				     stage_error(&stage));
		else
			cr_assert_lt(fabs(stage_error(&stage)), 5);
	}
}

Test(clock_consensus, only_rounds_in_a_row_make_a_minority_move)
{
	static struct stage stage;
	double other[12] = {0};

	stage_synced(&stage);
	for (int i = 0; i < 8; i++)
		other[i] = 20000;
	for (int i = 0; i < 30; i++)
		stage_round(&stage, i % 3 ? other : NULL, 0.3);
	cr_assert_eq(stage.clock.consensus.moves, 0);
	cr_assert_lt(fabs(stage_error(&stage)), 5);
}

Test(clock_consensus, reports_that_agree_with_anything_are_no_votes_for_another_group)
{
	static struct stage stage;
	double other[12] = {20000};

	stage_synced(&stage);
	stage_late(&stage, 8, 0, 0, 10000);
	for (int i = 0; i < 30; i++)
		stage_round(&stage, other, 0.3);
	cr_assert_eq(stage.clock.consensus.moves, 0);
	cr_assert_lt(fabs(stage_error(&stage)), 5);
}

Test(clock_consensus, late_edges_are_corrected_during_and_after_a_move)
{
	static struct stage stage;
	double other[12] = {0};

	stage_synced(&stage);
	stage_late(&stage, 0, 600, 600, 0);
	for (int i = 0; i < 10; i++)
		stage_round(&stage, NULL, 1);
	cr_assert_lt(fabs(stage_error(&stage)), 5, "%f", stage_error(&stage));
	for (int i = 0; i < 8; i++)
		other[i] = 20000;
	for (int i = 0; i < 60; i++) {
		stage_round(&stage, other, 0.3);
		cr_assert_leq(stage.clock.consensus.moves, 1, "round %d", i);
	}
	cr_assert_eq(stage.clock.consensus.moves, 1);
	cr_assert_lt(fabs(stage_error(&stage) - 20000), 5, "%f", stage_error(&stage));
}

/* A peer's spell ends as our own begins: lateness changes by less than the offset. */
Test(clock_consensus, an_edge_that_lateness_does_not_explain_moves_no_clock)
{
	static struct stage stage;

	stage_synced(&stage);
	stage_late(&stage, 0, 200, -150, 30);
	stage_late(&stage, 1, 0, 0, 30);
	for (int i = 0; i < 10; i++)
		stage_round(&stage, NULL, 1);
	stage_late(&stage, 0, 700, 500, 60);
	stage_late(&stage, 1, 700, 700, 500);
	for (int i = 0; i < 4; i++) {
		stage_round(&stage, NULL, 1);
		cr_assert_lt(fabs(stage_error(&stage)), 20, "round %d: %f", i, stage_error(&stage));
	}
	stage_late(&stage, 0, 0, 0, 0);
	stage_round(&stage, NULL, 1);
	cr_assert_eq(stage.clock.consensus.peers[0].status, CONSENSUS_USED);
	cr_assert_lt(fabs(stage_error(&stage)), 20);
}

Test(clock_consensus, the_bound_is_that_of_most_of_the_fleet)
{
	static struct stage stage;
	double bound, standard_ns = 30000 / sqrt(12);

	/* A rack whose uplinks were full from the start. */
	stage_init(&stage);
	stage.far_sigma_ns = 30000;
	for (int i = 0; i < 100; i++)
		stage_round(&stage, NULL, 1);
	cr_assert_geq(stage.clock.bound.now_ns, 2 * standard_ns);
	/* Where the rack is in the fleet is known since; then they fill again. */
	stage.far_sigma_ns = 0;
	for (int i = 0; i < 100; i++)
		stage_round(&stage, NULL, 1);
	bound = stage.clock.bound.now_ns;
	cr_assert_lt(bound, 500);
	stage.far_sigma_ns = 30000;
	for (int i = 0; i < 40; i++)
		stage_round(&stage, NULL, 1);
	cr_assert_geq(stage.clock.bound.now_ns, bound);
	cr_assert_lt(stage.clock.bound.now_ns, standard_ns);
}

Test(clock_consensus, an_only_neighbor_that_is_behind_is_followed_if_it_has_most_of_the_fleet)
{
	for (int most = 0; most < 2; most++) {
		static struct stage stage;
		double lie[12] = {-20000000};

		stage_init(&stage);
		for (int i = 0; i < 40; i++)
			stage_round(&stage, NULL, 1);
		stage.reports = 1;
		stage.lie_reach = most ? 1 : 0.3;
		for (int i = 0; i < 12; i++)
			stage_round(&stage, lie, 1);
		if (most)
			cr_assert_lt(fabs(stage_error(&stage) + 20000000), 100000, "%f",
				     stage_error(&stage));
		else
			cr_assert_lt(fabs(stage_error(&stage)), 1000, "%f", stage_error(&stage));
	}
}

Test(clock_consensus, alone_it_holds_over_and_its_bound_grows)
{
	static struct stage stage;
	struct clock_view view;
	uint32_t generation;
	double bound;

	stage_init(&stage);
	for (int i = 0; i < 40; i++)
		stage_round(&stage, NULL, 1);
	bound = stage.clock.bound.now_ns;
	for (int i = 0; i < 40; i++) {
		hostclock_view(&stage.clock, &view);
		generation = view.generation;
		stage.now += ROUND;
		hostclock_round(&stage.clock, stage.now, NULL, 0);
		/* Or its neighbors would take it for gone, and two in holdover would stay there. */
		hostclock_view(&stage.clock, &view);
		cr_assert_neq(view.generation, generation);
	}
	cr_assert_eq(stage.clock.state, CLOCK_HOLDOVER);
	cr_assert_gt(stage.clock.bound.now_ns, bound + 100);
	cr_assert_lt(fabs(stage_error(&stage)), stage.clock.bound.now_ns);
}

/* As between emulated machines: offsets change by 10 us a second for a while, slopes are right. */
Test(clock_consensus, alone_it_keeps_the_slopes_rate_if_offsets_changed)
{
	static struct stage stage;

	stage_init(&stage);
	for (int i = 0; i < 120; i++) {
		stage_late(&stage, 0, 0, i < 80 ? 0 : 2500 * (i - 80), 20000);
		stage_round(&stage, NULL, 1);
	}
	cr_assert(stage.clock.consensus.settled);
	cr_assert_gt(holdover_deviation_ppb(&stage.clock.consensus.holdover), 3000);
	for (int i = 0; i < 8; i++) {
		stage.now += ROUND;
		hostclock_round(&stage.clock, stage.now, NULL, 0);
		cr_assert_lt(fabs(stage.clock.consensus.line.rate_ppb), 1000, "%f",
			     stage.clock.consensus.line.rate_ppb);
	}
}

Test(clock_consensus, the_fit_of_a_long_window_is_not_stale)
{
	for (int window_s = 2; window_s <= 10; window_s += 8) {
		static struct stage stage;

		stage_init(&stage);
		for (int i = 0; i < 40; i++) {
			stage_round(&stage, NULL, 1);
			for (int n = 0; n < 12; n++) {
				stage.edges[n].window_s = window_s;
				stage.edges[n].local_ns -= 5000 * MS;
			}
			stage.now += ROUND;
			hostclock_round(&stage.clock, stage.now, stage.input, 12);
		}
		cr_assert_eq(stage.clock.consensus.used, window_s == 10 ? 12 : 0, "%d s: %u",
			     window_s, stage.clock.consensus.used);
	}
}

Test(clock_consensus, bootstrap_waits_for_its_rank_and_for_neighbours_with_time)
{
	struct hostclock_config config = {.degree = 2, .rank = 1};
	struct clock_view view = {.state = CLOCK_SYNCED};
	struct consensus_input received = {NULL, &view, 0};
	static struct hostclock clock;
	int64_t now = 1000 * MS;

	hostclock_init(&clock, &config, now);
	cr_assert_eq(hostclock_round(&clock, now + 1000 * MS, NULL, 0), CLOCK_FREE_RUNNING);
	cr_assert_neq(hostclock_round(&clock, now + 1600 * MS, NULL, 0), CLOCK_FREE_RUNNING);
	hostclock_init(&clock, &config, now);
	cr_assert_eq(hostclock_round(&clock, now + 5000 * MS, &received, 1), CLOCK_FREE_RUNNING);
}

Test(clock_consensus, nonsense_from_a_neighbour_is_survived)
{
	static struct stage stage;
	struct rng rng;

	rng_seed(&rng, 20240607);
	stage_init(&stage);
	for (int i = 0; i < 20; i++)
		stage_round(&stage, NULL, 1);
	for (int i = 0; i < 200; i++) {
		stage_round(&stage, NULL, 1);
		for (int n = 0; n < 3; n++) {
			uint64_t *words = (uint64_t *)(void *)&stage.views[n];

			for (size_t w = 0; w < sizeof(stage.views[n]) / 8; w++)
				words[w] = rng_next(&rng);
			stage.views[n].rate_q40 >>= 34;
			stage.views[n].state = CLOCK_SYNCED;
		}
		hostclock_round(&stage.clock, stage.now, stage.input, 12);
	}
	cr_assert_lt(fabs(stage_error(&stage)), 10);
}

/* Hosts that are each other's neighbours, with exact edges; local clocks of other rates. */
#define FLEET 8
struct fleet {
	struct hostclock clocks[FLEET];
	struct clock_view views[FLEET];
	size_t count;
	int64_t now;		   /* of an ideal clock */
	int64_t stopped_ns[FLEET]; /* time for which a local clock did not advance */
};

static int64_t fleet_local(const struct fleet *fleet, size_t host, int64_t now)
{
	double rate_ppb = 700.0 * (double)host - 2000;

	return (int64_t)(host + 1) * 1000000 * MS + now + llround((double)now * rate_ppb * 1e-9) -
	       fleet->stopped_ns[host];
}

static void fleet_init(struct fleet *fleet, size_t count)
{
	memset(fleet, 0, sizeof(*fleet));
	fleet->count = count;
	for (size_t h = 0; h < count; h++) {
		struct hostclock_config config = {.degree = (unsigned)count - 1, .rank = h};

		hostclock_init(&fleet->clocks[h], &config, fleet_local(fleet, h, 0));
	}
}

/* @span after the round before; hosts below @reachable have edges to each other. */
static void fleet_round(struct fleet *fleet, int64_t span, size_t reachable)
{
	int64_t then;

	fleet->now += span;
	then = fleet->now - ROUND;
	for (size_t h = 0; h < fleet->count; h++) {
		struct edge_estimate edges[FLEET];
		struct consensus_input input[FLEET];
		size_t count = 0;

		for (size_t peer = 0; h < reachable && peer < reachable; peer++) {
			int64_t here = fleet_local(fleet, h, then);

			if (peer == h)
				continue;
			edges[count] = (struct edge_estimate){
				.valid = true,
				.local_ns = here,
				.offset_ns = fleet_local(fleet, peer, then) - here,
				.drift_ppb = 700.0 * ((double)peer - (double)h),
				.offset_sigma_ns = 20,
				.drift_sigma_ppb = 10,
			};
			input[count] = (struct consensus_input){&edges[count], &fleet->views[peer],
								ROUND / 2};
			count++;
		}
		hostclock_round(&fleet->clocks[h], fleet_local(fleet, h, fleet->now), input, count);
	}
	for (size_t h = 0; h < fleet->count; h++)
		hostclock_view(&fleet->clocks[h], &fleet->views[h]);
}

static size_t fleet_in(const struct fleet *fleet, enum clock_state state)
{
	size_t count = 0;

	for (size_t h = 0; h < fleet->count; h++)
		count += fleet->clocks[h].state == state;
	return count;
}

static int64_t fleet_reading(const struct fleet *fleet, size_t host)
{
	return clock_model_read(&fleet->clocks[host].model, fleet_local(fleet, host, fleet->now));
}

Test(clock_consensus, of_two_hosts_the_one_whose_clock_stopped_moves)
{
	/* Its daemon sees its neighbor so many rounds after the neighbor sees it. */
	for (size_t late = 0; late < 20; late += 5) {
		static struct fleet fleet;
		int64_t apart[2];

		fleet_init(&fleet, 2);
		for (int i = 0; i < 100; i++)
			fleet_round(&fleet, ROUND, 2);
		for (size_t h = 0; h < 2; h++) {
			cr_assert_eq(fleet.clocks[h].state, CLOCK_SYNCED);
			apart[h] = fleet_reading(&fleet, h) - fleet.now;
		}
		for (int i = 0; i < 40; i++) {
			fleet.stopped_ns[0] += ROUND;
			fleet_round(&fleet, ROUND, 0);
		}
		for (size_t i = 0; i < 40; i++) {
			struct consensus_input none = {NULL, NULL, 0};
			struct hostclock before = fleet.clocks[0];

			fleet_round(&fleet, ROUND, 2);
			if (i < late) {
				fleet.clocks[0] = before;
				hostclock_round(&fleet.clocks[0], fleet_local(&fleet, 0, fleet.now),
						&none, 1);
				hostclock_view(&fleet.clocks[0], &fleet.views[0]);
			}
			cr_assert_lt(llabs(fleet_reading(&fleet, 1) - fleet.now - apart[1]), 100000,
				     "%zu late, round %zu: %f ms", late, i,
				     (double)(fleet_reading(&fleet, 1) - fleet.now - apart[1]) /
					     1e6);
		}
		cr_assert_lt(llabs(fleet_reading(&fleet, 0) - fleet_reading(&fleet, 1)), 1000);
		cr_assert_eq(fleet_in(&fleet, CLOCK_SYNCED), 2);
	}
}

Test(clock_consensus, a_fleet_whose_time_was_lost_in_an_outage_has_one_again)
{
	static const size_t counts[] = {2, 3, FLEET};
	static struct fleet fleet;

	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
		fleet_init(&fleet, counts[c]);
		for (int i = 0; i < 240; i++)
			fleet_round(&fleet, ROUND, FLEET);
		cr_assert_eq(fleet_in(&fleet, CLOCK_SYNCED), fleet.count);
		/* Ten hours. */
		for (int i = 0; i < 3600; i++)
			fleet_round(&fleet, 10000 * MS, 0);
		cr_assert_eq(fleet_in(&fleet, CLOCK_FREE_RUNNING), fleet.count);
		for (int i = 0; i < 80; i++)
			fleet_round(&fleet, ROUND, FLEET);
		cr_assert_eq(fleet_in(&fleet, CLOCK_SYNCED), fleet.count, "%zu of %zu",
			     fleet_in(&fleet, CLOCK_SYNCED), fleet.count);
		/* The same time scale: from the local clock of the first, 2 ppm slow at most. */
		cr_assert_leq(llabs(fleet_reading(&fleet, 0) - fleet.now - 1000000 * MS), 120 * MS);
		for (size_t h = 1; h < fleet.count; h++)
			cr_assert_leq(llabs(fleet_reading(&fleet, h) - fleet_reading(&fleet, 0)),
				      200);
	}
}

Test(clock_consensus, half_of_the_neighbours_are_enough_for_that)
{
	static struct fleet fleet;

	fleet_init(&fleet, 3);
	for (int i = 0; i < 240; i++)
		fleet_round(&fleet, ROUND, 3);
	for (int i = 0; i < 3600; i++)
		fleet_round(&fleet, 10000 * MS, 0);
	for (int i = 0; i < 80; i++)
		fleet_round(&fleet, ROUND, 2);
	cr_assert_eq(fleet.clocks[0].state, CLOCK_SYNCED);
	cr_assert_eq(fleet.clocks[1].state, CLOCK_SYNCED);
	cr_assert_eq(fleet.clocks[2].state, CLOCK_FREE_RUNNING);
}

Test(clock_consensus, a_smaller_part_has_no_time_until_the_others_are_back)
{
	static struct fleet fleet;

	fleet_init(&fleet, FLEET);
	for (int i = 0; i < 240; i++)
		fleet_round(&fleet, ROUND, FLEET);
	for (int i = 0; i < 3600; i++)
		fleet_round(&fleet, 10000 * MS, 0);
	/* Three of eight reach each other: they cannot know what time the others have. */
	for (int i = 0; i < 400; i++)
		fleet_round(&fleet, ROUND, 3);
	cr_assert_eq(fleet_in(&fleet, CLOCK_FREE_RUNNING), FLEET);
	for (int i = 0; i < 80; i++)
		fleet_round(&fleet, ROUND, FLEET);
	cr_assert_eq(fleet_in(&fleet, CLOCK_SYNCED), FLEET);
}

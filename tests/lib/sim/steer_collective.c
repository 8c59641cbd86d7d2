// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/steer_collective.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/sim/stats.h"

/* As tests/lib/collectives.py has them. */
#define HOSTS 4
#define SPINES 2
#define LINK_BPS 5e6
#define PACKET_BYTES 4156
#define MESSAGE_PACKETS 32
#define QUEUE_PACKETS 16
#define WINDOW_PACKETS 64
#define PROBE_NS 60000000ll
#define TIMEOUT_NS 1073000000ll
#define THRESHOLD_NS 66000000ull
#define HOLD_NS 500000000ull
#define REST_NS 100000000ll
#define ONSET_S 0.5
#define LEAD_ROUNDS 2
#define LONGEST_S 600
#define UNEVEN 0.05 /* no two hosts are as fast */

struct plan {
	struct steer_config config;
	struct best_flow flows[HOSTS * HOSTS];
	unsigned jobs[HOSTS * HOSTS], spines[HOSTS * HOSTS];
	size_t count;
	uint64_t rounds;
};

const char *collective_name(enum collective_pattern pattern)
{
	static const char *const names[] = {
#define X(id, text) text,
		COLLECTIVE_PATTERNS(X)
#undef X
	};

	return names[pattern];
}

static void add(struct plan *plan, unsigned from, unsigned to, unsigned job, const double *speeds)
{
	plan->jobs[plan->count] = job;
	plan->flows[plan->count++] =
		(struct best_flow){.from = from, .to = to, .demand_bps = speeds[from]};
}

/* Ranks are on either leaf by turns: 0 and 1 on the first leaf are hosts 0 and 2 of a ring. */
static void add_flows(struct plan *plan, enum collective_pattern pattern, const double *speeds)
{
	static const unsigned ring[HOSTS] = {0, 2, 1, 3};

	for (unsigned r = 0; r < HOSTS; r++) {
		if (pattern == COLLECTIVE_RING)
			add(plan, ring[r], ring[(r + 1) % HOSTS], 0, speeds);
		if (pattern == COLLECTIVE_TWO_JOBS) /* 0 and 2, 1 and 3 */
			add(plan, r / 2 + r % 2 * 2, r / 2 + (1 - r % 2) * 2, r / 2, speeds);
		if (pattern == COLLECTIVE_INCAST && r)
			add(plan, r, 0, 0, speeds);
		for (unsigned to = 0; pattern == COLLECTIVE_TO_ALL && to < HOSTS; to++)
			if (to != r)
				add(plan, r, to, 0, speeds);
	}
}

static struct steer_job job_of(enum collective_pattern pattern, unsigned job)
{
	bool ring = pattern == COLLECTIVE_RING || pattern == COLLECTIVE_TWO_JOBS;

	return (struct steer_job){
		.pattern = ring ? STEER_RING : STEER_TO_ALL,
		.start_s = ONSET_S + 0.3 * job,
		.chunk_bytes = (uint64_t)MESSAGE_PACKETS * PACKET_BYTES,
		.pause_ns = REST_NS,
		.steps = ring ? 2 * (pattern == COLLECTIVE_RING ? HOSTS - 1 : 3) : 0,
	};
}

/* As contendlab.place(): two that leave a leaf, or come to one, are on one spine. */
static bool is_crowded(const struct plan *plan)
{
	unsigned up[2][SPINES] = {{0}}, down[2][SPINES] = {{0}}, crossing[2] = {0};

	for (size_t f = 0; f < plan->count; f++) {
		unsigned from = plan->flows[f].from / 2, to = plan->flows[f].to / 2;

		if (from == to)
			continue;
		crossing[from]++;
		up[from][plan->spines[f]]++;
		down[to][plan->spines[f]]++;
	}
	for (unsigned leaf = 0; leaf < 2; leaf++)
		for (unsigned s = 0; s < SPINES; s++)
			if (up[leaf][s] * SPINES > crossing[leaf] ||
			    down[leaf][s] * SPINES > crossing[!leaf])
				return true;
	return false;
}

static void make(struct plan *plan, enum collective_pattern pattern, uint64_t seed, unsigned rounds,
		 bool placed)
{
	struct steer_config *config = &plan->config;
	double speeds[HOSTS];
	struct rng rng;

	*plan = (struct plan){.rounds = rounds + LEAD_ROUNDS};
	rng_seed(&rng, seed);
	steer_config_default(config, seed);
	config->shape = (struct net_shape){
		.leaves = 2,
		.hosts_per_leaf = HOSTS / 2,
		.spines = SPINES,
		.fabric_bps = LINK_BPS,
		.host_bps = LINK_BPS,
		.hop_ns = 20000,
		.packet_bytes = PACKET_BYTES,
		.queue_bytes = (uint64_t)QUEUE_PACKETS * PACKET_BYTES,
		.timeout_ns = TIMEOUT_NS,
		.one_line = true,
	};
	config->probe_ns = PROBE_NS;
	config->onset_s = ONSET_S;
	config->contend.ticks = 4; /* as the daemon's */
	config->contend.packet_bytes = PACKET_BYTES;
	config->contend.capacity_Bps = LINK_BPS / 8;
	config->job_count = pattern == COLLECTIVE_TWO_JOBS ? 2 : 1;
	for (unsigned j = 0; j < config->job_count; j++)
		config->jobs[j] = job_of(pattern, j);
	for (unsigned h = 0; h < HOSTS; h++)
		speeds[h] = LINK_BPS * (1 - UNEVEN * rng_unit(&rng));
	add_flows(plan, pattern, speeds);
	do {
		for (size_t f = 0; f < plan->count; f++)
			plan->spines[f] = (unsigned)rng_below(&rng, SPINES);
	} while (is_crowded(plan) == placed);
}

static void choose_law(struct steer_config *config, enum collective_law law)
{
	struct pause_rule *rule = &config->shape.rule;

	config->policy = law == LAW_STEERING || law == LAW_BOTH ? STEER_OURS : STEER_ECMP;
	*rule = (struct pause_rule){};
	if (law != LAW_PACING && law != LAW_BOTH)
		return;
	pause_rule_default(rule, THRESHOLD_NS, (uint64_t)(LINK_BPS / 8));
	rule->hold_max_ns = HOLD_NS;
}

static bool is_done(const struct steer *steer, uint64_t rounds)
{
	for (size_t j = 0; j < steer->config.job_count; j++)
		if (steer->config.jobs[j].rounds < rounds)
			return false;
	return true;
}

static void collect(struct collective_result *r, enum collective_law law, const struct steer *steer,
		    const struct plan *plan, struct stats *medians, unsigned seeds)
{
	struct stats took = {0};
	double sent = 0, again = 0;

	for (size_t j = 0; j < steer->config.job_count; j++)
		for (uint64_t n = LEAD_ROUNDS; n < plan->rounds; n++)
			stats_add(&took, (double)steer->config.jobs[j].took_ns[n]);
	stats_add(medians, stats_percentile(&took, 0.5));
	stats_free(&took);
	for (size_t q = 0; q < plan->count; q++) {
		const struct net_qp *qp = &steer->net.qps[q];

		sent += (double)qp->wire_bytes / PACKET_BYTES;
		again += (double)qp->wire_bytes / PACKET_BYTES - (double)qp->gone;
		r->timeouts[law] += (double)qp->timeouts / seeds;
	}
	r->again[law] += again / sent / seeds;
	r->moves[law] += (double)steer->figures.moves / seeds;
}

static void run(struct plan *plan, enum collective_law law, struct collective_result *r,
		struct stats *medians, unsigned seeds)
{
	struct steer *steer = malloc(sizeof(*steer));

	choose_law(&plan->config, law);
	if (!steer || steer_init(steer, &plan->config, plan->flows, plan->count, plan->jobs,
				 (uint64_t)WINDOW_PACKETS * PACKET_BYTES,
				 (uint64_t)MESSAGE_PACKETS * PACKET_BYTES, plan->spines)) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	steer->trace = getenv("STEER_TRACE") && law == LAW_BOTH;
	while (!is_done(steer, plan->rounds) && steer->net.now_ns < LONGEST_S * 1000000000ll)
		net_run(&steer->net, steer->net.now_ns + 100000000);
	if (!is_done(steer, plan->rounds)) {
		printf("Bail out! a round does not end\n");
		exit(1);
	}
	if (steer->trace)
		for (uint64_t n = 0; n < plan->rounds; n++)
			printf("# round %lu: %.0f ms\n", (unsigned long)n,
			       (double)steer->config.jobs[0].took_ns[n] * 1e-6);
	collect(r, law, steer, plan, medians, seeds);
	steer_free(steer);
	free(steer);
}

void collective_run(enum collective_pattern pattern, bool placed, uint64_t seed, unsigned seeds,
		    unsigned rounds, struct collective_result *r)
{
	struct stats medians[LAWS] = {{0}};
	struct plan *plan = malloc(sizeof(*plan));

	if (!plan) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	*r = (struct collective_result){};
	for (unsigned s = 0; s < seeds; s++) {
		make(plan, pattern, seed + s, rounds, placed);
		for (unsigned law = 0; law < LAWS; law++)
			run(plan, law, r, &medians[law], seeds);
	}
	for (unsigned law = 0; law < LAWS; law++) {
		r->took_ns[law] = stats_percentile(&medians[law], 0.5);
		stats_free(&medians[law]);
	}
	r->part = r->took_ns[LAW_BOTH] / fmin(r->took_ns[LAW_PACING], r->took_ns[LAW_STEERING]);
	free(plan);
}

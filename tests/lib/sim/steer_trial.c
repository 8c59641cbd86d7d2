// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/steer_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONSET_S 0.2
#define SECOND_JOB_S 0.6
#define CHUNK_BYTES 262144

struct plan {
	struct steer_config config;
	struct best_flow flows[BEST_FLOWS_MAX];
	unsigned jobs[BEST_FLOWS_MAX], start[BEST_FLOWS_MAX], best[BEST_FLOWS_MAX];
	size_t count;
};

static double or_else(double value, double other)
{
	return value > 0 ? value : other;
}

static void add(struct plan *plan, unsigned from, unsigned to, unsigned job, double demand_bps)
{
	if (plan->count == BEST_FLOWS_MAX)
		abort();
	plan->jobs[plan->count] = job;
	plan->flows[plan->count++] = (struct best_flow){from, to, demand_bps};
}

/* Ranks of a job go round the leaves: neighbours are on different ones. */
static void add_jobs(struct plan *plan, const struct trial *trial)
{
	const struct net_shape *shape = &plan->config.shape;
	unsigned ranks = shape->leaves * shape->hosts_per_leaf / 2, hosts[BEST_FLOWS_MAX];

	for (unsigned job = 0; job < 2; job++) {
		bool ring = trial->flows == TRIAL_RINGS || (trial->flows == TRIAL_MIXED && !job);

		for (unsigned r = 0; r < ranks; r++)
			hosts[r] = r % shape->leaves * shape->hosts_per_leaf +
				   r / shape->leaves * 2 + job;
		for (unsigned r = 0; r < ranks; r++)
			for (unsigned d = 1; d < (ring ? 2 : ranks); d++) {
				unsigned to = hosts[(r + d) % ranks];

				if (hosts[r] / shape->hosts_per_leaf != to / shape->hosts_per_leaf)
					add(plan, hosts[r], to, job, 0);
			}
		plan->config.jobs[job] = (struct steer_job){
			.pattern = ring ? STEER_RING : STEER_TO_ALL,
			.start_s = job ? SECOND_JOB_S : ONSET_S,
			.chunk_bytes = CHUNK_BYTES,
			.pause_ns = 2000000,
		};
	}
	plan->config.job_count = 2;
	plan->config.onset_s = SECOND_JOB_S;
}

/* Of a link: what a queue pair of the ring and of the all-to-all requests, by spines. */
static const double lab_parts[][2] = {[2] = {0.45, 0.15}, [3] = {0.6, 0.15}, [4] = {0.55, 0.25}};

/* Ranks are on either leaf by turns; those on one leaf do not load the fabric. */
static void add_lab_jobs(struct plan *plan)
{
	const struct net_shape *shape = &plan->config.shape;
	const double *parts = lab_parts[shape->spines];

	for (unsigned r = 0; r < 4; r++)
		add(plan, r % 2 * shape->hosts_per_leaf + r / 2,
		    (r + 1) % 2 * shape->hosts_per_leaf + (r + 1) % 4 / 2, 0,
		    parts[0] * shape->fabric_bps);
	for (unsigned leaf = 0; leaf < 2; leaf++)
		for (unsigned pair = 0; pair < 4; pair++)
			add(plan, leaf * shape->hosts_per_leaf + 2 + pair / 2,
			    !leaf * shape->hosts_per_leaf + 2 + pair % 2, 1,
			    parts[1] * shape->fabric_bps);
	for (unsigned job = 0; job < 2; job++)
		plan->config.jobs[job] = (struct steer_job){
			.pattern = STEER_STREAM, .start_s = job ? ONSET_S + 0.7 : ONSET_S};
	plan->config.job_count = 2;
	plan->config.onset_s = ONSET_S + 0.7;
}

static void add_streams(struct plan *plan, const struct trial *trial, struct rng *rng)
{
	const struct net_shape *shape = &plan->config.shape;
	unsigned per_leaf = shape->hosts_per_leaf, hosts = per_leaf * shape->leaves;

	unsigned qps = trial->qps;
	double demand_part = trial->demand_part;

	if (trial->placed_part > 0) {
		qps = QPS_LEAST + (unsigned)rng_below(rng, qps - QPS_LEAST + 1);
		demand_part = trial->placed_part / ((qps + shape->spines - 1) / shape->spines);
	}
	for (unsigned f = 0; f < qps; f++) {
		unsigned from = f % per_leaf, to = per_leaf + f % per_leaf;

		if (trial->flows == TRIAL_RANDOM) {
			from = (unsigned)rng_below(rng, hosts);
			do {
				to = (unsigned)rng_below(rng, hosts);
			} while (to / per_leaf == from / per_leaf);
		} else if (trial->flows == TRIAL_INCAST) {
			to = per_leaf;
		}
		add(plan, from, to, 0, demand_part * shape->fabric_bps);
	}
	plan->config.jobs[0] = (struct steer_job){.pattern = STEER_STREAM, .start_s = ONSET_S};
}

/* Streams of two leaves: the demand on some link is above its capacity. */
static bool is_crowded(const struct plan *plan)
{
	double asked_bps[STEER_SPINES_MAX] = {0};

	for (size_t f = 0; f < plan->count; f++)
		asked_bps[plan->start[f]] += plan->flows[f].demand_bps;
	for (unsigned s = 0; s < plan->config.shape.spines; s++)
		if (asked_bps[s] > plan->config.shape.fabric_bps)
			return true;
	return false;
}

static void draw_start(struct plan *plan, const struct trial *trial, struct rng *rng)
{
	do {
		for (size_t f = 0; f < plan->count; f++)
			plan->start[f] =
				trial->all_on_one ? 0 : (unsigned)rng_below(rng, trial->spines);
	} while (trial->placed_part > 0 && !is_crowded(plan));
}

static void make(struct plan *plan, const struct trial *trial, uint64_t seed)
{
	struct net_shape *shape = &plan->config.shape;
	struct rng rng;
	bool exhaustive;

	memset(plan, 0, sizeof(*plan));
	rng_seed(&rng, seed);
	steer_config_default(&plan->config, seed);
	shape->leaves = trial->leaves ? trial->leaves : 2;
	shape->spines = trial->spines;
	shape->hosts_per_leaf = trial->hosts ? trial->hosts : trial->qps;
	shape->fabric_bps = or_else(trial->fabric_bps, 100e6);
	shape->host_bps = or_else(trial->host_part, 1) * shape->fabric_bps;
	if (shape->fabric_bps > 10e9)
		shape->hop_ns = 1000;
	plan->config.onset_s = ONSET_S;
	plan->config.seconds = or_else(trial->seconds, 2.2);
	plan->config.noise_ns = or_else(trial->noise_ns, 1000);
	plan->config.clock_ns = or_else(trial->clock_ns, 1000);
	plan->config.late = trial->late;
	if (trial->capacity_known)
		plan->config.contend.capacity_Bps = fmin(shape->fabric_bps, shape->host_bps) / 8;
	if (trial->flows == TRIAL_RINGS || trial->flows == TRIAL_ALL_TO_ALL ||
	    trial->flows == TRIAL_MIXED)
		add_jobs(plan, trial);
	else if (trial->flows == TRIAL_LAB_JOBS)
		add_lab_jobs(plan);
	else
		add_streams(plan, trial, &rng);
	draw_start(plan, trial, &rng);
	if (plan->count > 64)
		for (size_t f = 0; f < plan->count; f++)
			plan->best[f] = (unsigned)(f % trial->spines);
	else
		best_place(shape, plan->flows, plan->count, &rng, plan->best, &exhaustive);
}

static struct steer_figures run(struct plan *plan, const struct trial *trial,
				enum steer_policy policy, double best_bps)
{
	struct steer *steer = malloc(sizeof(*steer));
	struct steer_figures figures;

	plan->config.policy = policy;
	if (!steer || steer_init(steer, &plan->config, plan->flows, plan->count, plan->jobs,
				 trial->window_bytes ? trial->window_bytes : 64000, 65536,
				 policy == STEER_BEST ? plan->best : plan->start)) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	steer->trace = getenv("STEER_TRACE") && policy == STEER_OURS;
	steer_run(steer);
	figures = steer->figures;
	figures.settled_s = steer_settled_s(steer, 0.95 * best_bps);
	steer_free(steer);
	free(steer);
	return figures;
}

static void count(struct trial_result *r, const struct steer_figures *best,
		  const struct steer_figures *ecmp, const struct steer_figures *ours,
		  struct stats *settled)
{
	double part = ours->late_bps / best->late_bps;

	r->ours += part;
	r->ours_least = fmin(r->ours_least, part);
	r->held += part >= 0.95;
	r->half_second += ours->settled_s <= 0.5;
	r->ecmp += ecmp->late_bps / best->late_bps;
	r->half += ours->half_second_bps / best->half_second_bps;
	r->half_ecmp += ecmp->half_second_bps / best->half_second_bps;
	r->moves += (double)ours->moves;
	r->moves_most = fmax(r->moves_most, (double)ours->moves);
	r->moves_of_one = fmax(r->moves_of_one, ours->moves_most);
	r->late_moves += (double)ours->late_moves;
	r->useless += (double)ours->useless;
	r->queue_worst_ns = fmax(r->queue_worst_ns, ours->queue_worst_ns);
	r->queue_ecmp_ns = fmax(r->queue_ecmp_ns, ecmp->queue_worst_ns);
	r->overtaken += ours->overtaken;
	stats_add(settled, fmin(ours->settled_s, 99));
}

void trial_run(const struct trial *trial, uint64_t seed, unsigned seeds, struct trial_result *r)
{
	struct plan *plan = malloc(sizeof(*plan));
	struct stats settled = {0};

	if (!plan) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	*r = (struct trial_result){.seeds = seeds, .ours_least = INFINITY};
	for (unsigned s = 0; s < seeds; s++) {
		struct steer_figures best, ecmp, ours;

		make(plan, trial, seed + 1000 * s);
		best = run(plan, trial, STEER_BEST, 0);
		ecmp = run(plan, trial, STEER_ECMP, best.late_bps);
		ours = run(plan, trial, STEER_OURS, best.late_bps);
		count(r, &best, &ecmp, &ours, &settled);
	}
	/* A whole packet's way through the empty fabric. */
	r->floor_ns =
		NET_HOPS * ((double)plan->config.shape.hop_ns +
			    plan->config.shape.packet_bytes * 8e9 / plan->config.shape.fabric_bps);
	r->ours /= seeds;
	r->ecmp /= seeds;
	r->half /= seeds;
	r->half_ecmp /= seeds;
	r->moves /= seeds;
	r->late_moves /= seeds;
	r->useless /= seeds;
	r->settled_median_s = stats_percentile(&settled, 0.5);
	r->settled_most_s = stats_percentile(&settled, 1);
	stats_free(&settled);
	free(plan);
}

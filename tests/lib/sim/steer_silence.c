// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/steer_silence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* As tests/lib/collectives.py has them. */
#define LINK_BPS 5e6
#define PACKET_BYTES 4116
#define MESSAGE_PACKETS 32
#define QUEUE_PACKETS 16
#define WINDOW_PACKETS 64
#define PROBE_NS 60000000ll
#define TIMEOUT_MS 1073
#define ONSET_S 0.5
#define UNEVEN 0.05 /* no two hosts are as fast */

static double or_else(double value, double other)
{
	return value > 0 ? value : other;
}

static void make(const struct silence_trial *trial, uint64_t seed, struct steer_config *config)
{
	steer_config_default(config, seed);
	config->shape = (struct net_shape){
		.leaves = 2,
		.hosts_per_leaf = (trial->hosts + 1) / 2,
		.spines = trial->spines,
		.fabric_bps = LINK_BPS,
		.host_bps = LINK_BPS * or_else(trial->host_part, 1),
		.hop_ns = 20000,
		.packet_bytes = PACKET_BYTES,
		.queue_bytes = (uint64_t)QUEUE_PACKETS * PACKET_BYTES,
		.timeout_ns = (int64_t)(or_else(trial->timeout_ms, TIMEOUT_MS) * 1e6),
	};
	config->probe_ns = PROBE_NS;
	config->onset_s = ONSET_S;
	config->seconds = or_else(trial->seconds, 25);
	config->contend.ticks = 4; /* as the daemon's */
	config->contend.packet_bytes = PACKET_BYTES;
	config->contend.capacity_Bps = trial->capacity_not_known ? 0 : LINK_BPS / 8;
	config->jobs[0] =
		(struct steer_job){.pattern = trial->pattern,
				   .start_s = ONSET_S,
				   .pause_ns = (int64_t)(trial->rest_s * 1e9),
				   .chunk_bytes = (uint64_t)MESSAGE_PACKETS * PACKET_BYTES};
	config->job_count = 1;
}

/* Each sends to the next, which is on the other leaf. */
static size_t add_flows(const struct silence_trial *trial, const struct net_shape *shape,
			struct rng *rng, struct best_flow *flows, unsigned *spines)
{
	size_t count = trial->pattern == STEER_RING ? trial->hosts : trial->hosts / 2;

	if (!count)
		count = 1;
	for (size_t f = 0; f < count; f++) {
		size_t rank = trial->pattern == STEER_RING ? f : 2 * f, next = rank + 1;

		next = trial->pattern == STEER_RING ? next % trial->hosts : next;
		flows[f] = (struct best_flow){
			.from = (unsigned)(rank % 2 * shape->hosts_per_leaf + rank / 2),
			.to = (unsigned)(next % 2 * shape->hosts_per_leaf + next / 2),
			.demand_bps = shape->host_bps * (1 - UNEVEN * rng_unit(rng)),
		};
		spines[f] = trial->placed ? (unsigned)(rank / 2 % trial->spines) : 0;
	}
	return count;
}

static void run(const struct silence_trial *trial, uint64_t seed, struct silence_result *r,
		struct stats *parted)
{
	struct steer *steer = malloc(sizeof(*steer));
	struct best_flow flows[BEST_FLOWS_MAX];
	unsigned spines[BEST_FLOWS_MAX];
	struct steer_config config;
	struct rng rng;
	size_t count;
	double crowded_s;

	make(trial, seed, &config);
	rng_seed(&rng, seed);
	count = add_flows(trial, &config.shape, &rng, flows, spines);
	if (!steer ||
	    steer_init(steer, &config, flows, count, NULL, (uint64_t)WINDOW_PACKETS * PACKET_BYTES,
		       (uint64_t)MESSAGE_PACKETS * PACKET_BYTES, spines)) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	steer->trace = getenv("STEER_TRACE") != NULL;
	steer_run(steer);
	crowded_s = fmax(steer->figures.crowded_s - ONSET_S, 0);
	/* The last second may be one in which nothing was to be seen. */
	if (steer->figures.crowded_s > config.seconds - 1)
		crowded_s = 99;
	else
		r->parted++;
	stats_add(parted, crowded_s);
	r->moves += (double)steer->figures.moves;
	r->moves_most = fmax(r->moves_most, (double)steer->figures.moves);
	r->rounds += (double)steer->figures.rounds[0];
	for (size_t q = 0; q < count; q++)
		r->timeouts += (double)steer->net.qps[q].timeouts;
	steer_free(steer);
	free(steer);
}

void silence_run(const struct silence_trial *trial, uint64_t seed, unsigned seeds,
		 struct silence_result *r)
{
	struct stats parted = {0};

	*r = (struct silence_result){.seeds = seeds};
	for (unsigned s = 0; s < seeds; s++)
		run(trial, seed + 1000 * s, r, &parted);
	r->median_s = stats_percentile(&parted, 0.5);
	r->part95_s = stats_percentile(&parted, 0.95);
	r->most_s = stats_percentile(&parted, 1);
	r->moves /= seeds;
	r->rounds /= seeds;
	r->timeouts /= seeds;
	stats_free(&parted);
}

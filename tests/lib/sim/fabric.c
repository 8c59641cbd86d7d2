// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/fabric.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define MTU_BITS 12000.0
#define HOP_NS 500.0
/* A standing queue: TCP fills it, loses, halves, and fills it again. */
#define SAW_NS 300e6
#define SAW_DEPTH 0.3

int fabric_init(struct fabric *fabric, const struct fabric_config *config, uint64_t seed)
{
	fabric->config = *config;
	fabric->leaves = (config->hosts + config->hosts_per_leaf - 1) / config->hosts_per_leaf;
	fabric->count = 2 * config->hosts + 2 * fabric->leaves * config->spines;
	rng_seed(&fabric->rng, seed ^ 0xfab);
	fabric->queues = calloc(fabric->count, sizeof(*fabric->queues));
	if (!fabric->queues)
		return -ENOMEM;
	for (size_t i = 0; i < fabric->count; i++) {
		struct queue *queue = &fabric->queues[i];

		rng_seed(&queue->rng, seed + 77 * (i + 1));
		queue->next = 1;
		queue->stands_full =
			rng_unit(&fabric->rng) <
			(i < 2 * config->hosts ? config->full_hosts : config->full_part);
		queue->full_phase = rng_unit(&fabric->rng);
	}
	return 0;
}

void fabric_free(struct fabric *fabric)
{
	free(fabric->queues);
	fabric->queues = NULL;
}

/* Time to the next burst, through the pauses between bursts of bursts. */
static double next_arrival(const struct fabric_config *config, struct queue *queue, double after)
{
	double service = config->burst_bytes * 8e9 / config->rate_bps,
	       mean = service / config->load;
	double at;

	if (config->on_ms <= 0)
		return after + mean * rng_exponential(&queue->rng);
	mean *= config->on_ms / (config->on_ms + config->off_ms);
	while ((at = after + mean * rng_exponential(&queue->rng)) > queue->switch_ns) {
		after = queue->switch_ns + 1e6 * config->off_ms * rng_exponential(&queue->rng);
		queue->switch_ns = after + 1e6 * config->on_ms * rng_exponential(&queue->rng);
	}
	return at;
}

static void queue_run(const struct fabric_config *config, struct queue *queue, double until)
{
	double service = config->burst_bytes * 8e9 / config->rate_bps;

	for (;;) {
		size_t last = (queue->next - 1) % FABRIC_HISTORY,
		       slot = queue->next % FABRIC_HISTORY;
		double at, work;

		if (queue->arrival_ns[last] > until)
			return;
		at = next_arrival(config, queue, queue->arrival_ns[last]);
		work = queue->work_ns[last] - (at - queue->arrival_ns[last]);
		queue->arrival_ns[slot] = at;
		queue->work_ns[slot] = (work > 0 ? work : 0) + service;
		queue->next++;
	}
}

/* The queue that TCP keeps; its bytes come and go by packets. */
static double standing_ns(const struct fabric_config *config, struct queue *queue, double at)
{
	double saw = at / SAW_NS + queue->full_phase;

	saw -= floor(saw);
	return config->full_ns * (1 - SAW_DEPTH * (1 - saw)) +
	       rng_unit(&queue->rng) * MTU_BITS * 1e9 / config->rate_bps;
}

static double queue_wait(const struct fabric_config *config, struct queue *queue, double at)
{
	size_t index, oldest;
	double work;

	if (queue->stands_full && at >= config->full_from_s * 1e9 && at < config->full_to_s * 1e9)
		return standing_ns(config, queue, at);
	if (config->load <= 0)
		return 0;
	queue_run(config, queue, at);
	oldest = queue->next > FABRIC_HISTORY ? queue->next - FABRIC_HISTORY : 0;
	for (index = queue->next - 1; index > oldest; index--)
		if (queue->arrival_ns[index % FABRIC_HISTORY] <= at)
			break;
	work = queue->work_ns[index % FABRIC_HISTORY] -
	       (at - queue->arrival_ns[index % FABRIC_HISTORY]);
	if (work <= 0)
		return 0;
	if (config->priority)
		return rng_unit(&queue->rng) * MTU_BITS * 1e9 / config->rate_bps;
	return work;
}

double fabric_cross(struct fabric *fabric, size_t from, size_t to, unsigned path, double at_ns)
{
	const struct fabric_config *config = &fabric->config;
	size_t here = from / config->hosts_per_leaf, there = to / config->hosts_per_leaf;
	size_t spine = path % config->spines, ups = 2 * config->hosts;
	size_t downs = ups + fabric->leaves * config->spines;
	double at = at_ns;

	at += HOP_NS + queue_wait(config, &fabric->queues[from], at);
	if (here != there) {
		at += HOP_NS +
		      queue_wait(config, &fabric->queues[ups + here * config->spines + spine], at);
		at += HOP_NS + queue_wait(config,
					  &fabric->queues[downs + there * config->spines + spine],
					  at);
	}
	at += HOP_NS + queue_wait(config, &fabric->queues[config->hosts + to], at);
	return at - at_ns;
}

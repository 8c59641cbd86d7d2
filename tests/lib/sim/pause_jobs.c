// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/pause_jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_BYTES 4096
#define LONGEST_NS 60000000000ll
#define PASSES 64

struct run {
	const struct pause_jobs *jobs;
	struct pnet net;
	unsigned *from, *to; /* hosts of each flow */
	unsigned *spine;     /* that it takes; `spines`: none */
	unsigned *steps;     /* of the ring: chunks that came on each flow in this round */
	size_t left;	     /* messages of this round that are not there yet */
	unsigned round;
	int64_t began_ns;
	struct stats took_ns;
};

/* Links: ports of hosts out and in, then leaves to spines and back. */
static unsigned port_out(const struct pause_jobs *j, unsigned host)
{
	(void)j;
	return host;
}

static unsigned port_in(const struct pause_jobs *j, unsigned host)
{
	return j->hosts + host;
}

static unsigned leaf_up(const struct pause_jobs *j, unsigned leaf, unsigned spine)
{
	return 2 * j->hosts + leaf * j->spines + spine;
}

static unsigned leaf_down(const struct pause_jobs *j, unsigned leaf, unsigned spine)
{
	return 2 * j->hosts + (j->leaves + leaf) * j->spines + spine;
}

/* Neighbours in numbers are on different leaves. */
static unsigned leaf_of(const struct pause_jobs *j, unsigned host)
{
	return host % j->leaves;
}

/* Of the two links through a spine, how many flows the fuller one has, and both. */
static unsigned crowd(const struct run *run, size_t f, unsigned spine)
{
	const struct pause_jobs *j = run->jobs;
	unsigned up = 0, down = 0;

	for (size_t other = 0; other < run->net.flow_count; other++) {
		if (other == f || run->spine[other] != spine)
			continue;
		up += leaf_of(j, run->from[other]) == leaf_of(j, run->from[f]);
		down += leaf_of(j, run->to[other]) == leaf_of(j, run->to[f]);
	}
	return 1000 * (up > down ? up : down) + up + down;
}

/* Each in turn leaves for the emptiest, until no move gains. */
static void place(struct run *run)
{
	const struct pause_jobs *j = run->jobs;
	bool moved = true;

	for (int pass = 0; moved && pass < PASSES; pass++) {
		moved = false;
		for (size_t f = 0; f < run->net.flow_count; f++) {
			unsigned first = (unsigned)rng_below(&run->net.rng, j->spines);
			unsigned least = crowd(run, f, run->spine[f]);

			if (run->spine[f] == j->spines)
				continue;
			for (unsigned i = 0; i < j->spines; i++) {
				unsigned spine = (first + i) % j->spines;
				unsigned users = crowd(run, f, spine);

				/* What is as good breaks a tie that no single move would. */
				if (users > least || spine == run->spine[f])
					continue;
				moved = true;
				least = users;
				run->spine[f] = spine;
			}
		}
	}
}

static void choose_spines(struct run *run)
{
	const struct pause_jobs *j = run->jobs;

	for (size_t f = 0; f < run->net.flow_count; f++) {
		run->spine[f] = (unsigned)rng_below(&run->net.rng, j->spines);
		/* No queue. */
		if (leaf_of(j, run->from[f]) == leaf_of(j, run->to[f]))
			run->spine[f] = j->spines;
	}
	if (j->placed)
		place(run);
}

static void set_flow(struct run *run, size_t f)
{
	const struct pause_jobs *j = run->jobs;
	struct pnet_flow *flow = &run->net.flows[f];
	unsigned from = run->from[f], to = run->to[f], hops = 0;
	unsigned spine = run->spine[f];

	flow->links[hops++] = port_out(j, from);
	if (spine < j->spines) {
		flow->links[hops++] = leaf_up(j, leaf_of(j, from), spine);
		flow->links[hops++] = leaf_down(j, leaf_of(j, to), spine);
	}
	flow->links[hops++] = port_in(j, to);
	flow->hops = hops;
	flow->way_ns = (int64_t)(j->rtt_ns / 2);
	flow->kind = PNET_GOBACK;
	flow->window = 128;
	flow->ahead = j->ahead ? j->ahead : 2;
	flow->ahead_less = j->ahead_less ? j->ahead_less : flow->ahead;
	flow->message = j->chunk;
	flow->paced = !j->off;
	pause_rule_default(&flow->rule, (uint64_t)j->threshold_ns, (uint64_t)(j->bps / 8));
}

static size_t flow_count(const struct pause_jobs *j)
{
	switch (j->pattern) {
	case PAUSE_RING:
		return j->hosts;
	case PAUSE_ALL_TO_ALL:
		return (size_t)j->hosts * (j->hosts - 1);
	default:
		return j->hosts - 1;
	}
}

static void name_flows(struct run *run)
{
	const struct pause_jobs *j = run->jobs;
	size_t f = 0;

	for (unsigned a = 0; a < j->hosts; a++) {
		for (unsigned b = 0; b < j->hosts; b++) {
			if (a == b || (j->pattern == PAUSE_RING && b != (a + 1) % j->hosts) ||
			    (j->pattern == PAUSE_BURSTS && b))
				continue;
			run->from[f] = a;
			run->to[f++] = b;
		}
	}
}

/* Messages that a flow carries in a round. */
static unsigned messages(const struct pause_jobs *j)
{
	return j->pattern == PAUSE_RING ? 2 * (j->hosts - 1) : 1;
}

static void begin(struct pnet *net, uint32_t timer)
{
	struct run *run = net->context;

	(void)timer;
	run->began_ns = net->now_ns;
	run->left = net->flow_count * messages(run->jobs);
	memset(run->steps, 0, net->flow_count * sizeof(*run->steps));
	for (size_t f = 0; f < net->flow_count; f++)
		pnet_start(net, f, run->jobs->chunk);
}

static void done(struct pnet *net, size_t f)
{
	struct run *run = net->context;
	const struct pause_jobs *j = run->jobs;

	run->steps[f]++;
	/* Whoever got a chunk passes it on; a host's own flow has the next one's number. */
	if (j->pattern == PAUSE_RING && run->steps[f] < messages(j))
		pnet_start(net, (f + 1) % net->flow_count, j->chunk);
	if (--run->left)
		return;
	stats_add(&run->took_ns, (double)(net->now_ns - run->began_ns));
	if (++run->round < j->rounds)
		pnet_timer(net, 0, net->now_ns + (int64_t)(j->rest_ns * (1 + rng_unit(&net->rng))));
}

static int set_up(struct run *run, uint64_t seed)
{
	const struct pause_jobs *j = run->jobs;
	size_t flows = flow_count(j), links = 2 * j->hosts + 2 * j->leaves * j->spines;
	int err = pnet_init(&run->net, links, flows, seed);

	if (err)
		return err;
	run->from = calloc(flows, sizeof(*run->from));
	run->to = calloc(flows, sizeof(*run->to));
	run->spine = calloc(flows, sizeof(*run->spine));
	run->steps = calloc(flows, sizeof(*run->steps));
	run->net.context = run;
	run->net.packet_bytes = PACKET_BYTES;
	run->net.sample_every = j->sample_every ? j->sample_every : 1;
	run->net.noise_ns = j->noise_ns;
	run->net.timeout_ns = (int64_t)j->timeout_ns;
	run->net.measure_ns = INT64_MAX;
	run->net.on_done = done;
	run->net.on_timer = begin;
	for (size_t l = 0; l < links; l++) {
		run->net.links[l].ns_per_byte = 8e9 / j->bps;
		if (l >= j->hosts)
			run->net.links[l].buffer_bytes = (uint64_t)(j->buffer_ns * j->bps / 8e9);
	}
	name_flows(run);
	choose_spines(run);
	for (size_t f = 0; f < flows; f++)
		set_flow(run, f);
	return 0;
}

/* A link that several messages share carries them one after another. */
static double ideal(const struct run *run)
{
	double most = 0;

	for (size_t l = 0; l < run->net.link_count; l++) {
		unsigned users = 0;

		for (size_t f = 0; f < run->net.flow_count; f++)
			for (unsigned h = 0; h < run->net.flows[f].hops; h++)
				users += run->net.flows[f].links[h] == l;
		most = fmax(most, users);
	}
	return most * messages(run->jobs) * run->jobs->chunk * PACKET_BYTES * 8e9 / run->jobs->bps;
}

void pause_jobs_run(const struct pause_jobs *jobs, uint64_t seed, struct pause_job_figures *g)
{
	struct run run = {.jobs = jobs};

	memset(g, 0, sizeof(*g));
	if (set_up(&run, seed))
		return;
	pnet_timer(&run.net, 0, run.net.now_ns);
	while (run.round < jobs->rounds && run.net.now_ns < LONGEST_NS)
		pnet_run(&run.net, run.net.now_ns + 1000000);
	g->done = run.round;
	g->p50_ns = stats_percentile(&run.took_ns, 0.5);
	g->p99_ns = stats_percentile(&run.took_ns, 0.99);
	g->least_ns = stats_percentile(&run.took_ns, 0);
	g->most_ns = stats_percentile(&run.took_ns, 1);
	g->ideal_ns = ideal(&run);
	for (size_t l = 0; l < run.net.link_count; l++)
		g->dropped += run.net.links[l].dropped;
	for (size_t f = 0; f < run.net.flow_count; f++) {
		g->packets += run.net.flows[f].sent;
		g->again += run.net.flows[f].again;
		g->timeouts += run.net.flows[f].timeouts;
	}
	stats_free(&run.took_ns);
	free(run.from);
	free(run.to);
	free(run.spine);
	free(run.steps);
	pnet_free(&run.net);
}

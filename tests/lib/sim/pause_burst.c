// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/pause_burst.h"

#include <math.h>
#include <string.h>

#define PACKET_BYTES 1500
#define WATCH_NS 1000

struct run {
	const struct pause_burst *burst;
	struct pnet net;
	double over_ns;
};

enum { TIMER_BURST, TIMER_REST, TIMER_WATCH };

static void set_load(struct pnet *net, const struct pause_burst *b, double load)
{
	for (size_t f = 0; f < net->flow_count; f++) {
		struct pnet_flow *flow = &net->flows[f];

		flow->demand_Bps = load * b->bps / 8 / b->senders;
		if (flow->demand_ns > net->now_ns)
			flow->demand_ns = net->now_ns;
		pnet_start(net, f, UINT64_MAX);
	}
}

static void on_timer(struct pnet *net, uint32_t timer)
{
	struct run *run = net->context;
	const struct pause_burst *b = run->burst;
	const struct pnet_link *link = &net->links[0];

	switch (timer) {
	case TIMER_BURST:
		set_load(net, b, b->burst_load);
		pnet_timer(net, TIMER_REST, net->now_ns + (int64_t)b->burst_ns);
		pnet_timer(net, TIMER_BURST, net->now_ns + (int64_t)b->every_ns);
		break;
	case TIMER_REST:
		set_load(net, b, b->load);
		break;
	default:
		run->over_ns +=
			(double)(link->free_ns - net->now_ns) > b->threshold_ns ? WATCH_NS : 0;
		pnet_timer(net, TIMER_WATCH, net->now_ns + WATCH_NS);
	}
}

static void set_flow(struct pnet *net, const struct pause_burst *b, unsigned f)
{
	struct pnet_flow *flow = &net->flows[f];

	flow->links[0] = 1 + f;
	flow->hops = 2;
	flow->way_ns = (int64_t)(b->rtt_ns / 2);
	flow->kind = PNET_GOBACK;
	flow->window = UINT32_MAX;
	flow->ahead = flow->ahead_less = 2;
	flow->strawman = b->law == PAUSE_LAW_STRAWMAN;
	flow->paced = b->law != PAUSE_LAW_NONE && f >= (unsigned)lround(b->unpaced * b->senders);
	flow->clock_ns = b->clock_part * b->threshold_ns * (2 * rng_unit(&net->rng) - 1);
	flow->demand_Bps = b->load * b->bps / 8 / b->senders;
	/* Their packets do not come all at once. */
	flow->demand_ns = net->now_ns + (int64_t)(f * PACKET_BYTES * 8e9 / b->bps);
	pause_rule_default(&flow->rule, (uint64_t)b->threshold_ns, (uint64_t)(b->bps / 8));
	flow->rule.gain = (unsigned)lround((b->gain > 0 ? b->gain : 1) * PAUSE_GAIN_ONE);
	if (b->law != PAUSE_LAW_RATE)
		flow->rule.flags &= ~PAUSE_RATE;
}

void pause_burst_run(const struct pause_burst *burst, uint64_t seed, struct pause_burst_figures *g)
{
	struct run run = {.burst = burst};
	struct pnet *net = &run.net;
	struct pnet_link *link;

	memset(g, 0, sizeof(*g));
	if (pnet_init(net, 1 + burst->senders, burst->senders, seed))
		return;
	net->packet_bytes = PACKET_BYTES;
	net->feedback_loss = burst->feedback_loss;
	net->timeout_ns = 1000000000000;
	net->context = &run;
	net->on_timer = on_timer;
	for (unsigned f = 0; f <= burst->senders; f++)
		net->links[f].ns_per_byte = 8e9 / burst->bps;
	link = &net->links[0];
	link->watch = true;
	for (unsigned f = 0; f < burst->senders; f++) {
		set_flow(net, burst, f);
		pnet_start(net, f, UINT64_MAX);
	}
	pnet_run(net, net->now_ns + (int64_t)burst->every_ns);
	pnet_measure(net);
	pnet_timer(net, TIMER_BURST, net->now_ns);
	pnet_timer(net, TIMER_WATCH, net->now_ns);
	pnet_run(net, net->now_ns + (int64_t)(burst->every_ns * burst->bursts) - 1);
	g->wasted_ns = (double)link->wasted_ns / burst->bursts;
	g->wasted = (double)link->wasted_ns / (burst->every_ns * burst->bursts);
	g->over_ns = run.over_ns / burst->bursts;
	g->peak_ns = link->peak_ns;
	g->p99_ns = stats_percentile(&link->waits, 0.99);
	pnet_free(net);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/pause_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLICES 10

static void set_flow(struct pnet *net, const struct pause_trial *t, unsigned f)
{
	struct pnet_flow *flow = &net->flows[f];

	flow->links[0] = 1 + f;
	flow->links[1] = 0;
	flow->hops = 2;
	flow->way_ns = (int64_t)(t->rtt_ns / 2);
	flow->kind = t->kind;
	flow->window = t->window ? t->window : 128;
	flow->ahead = t->ahead ? t->ahead : 2;
	flow->ahead_less = t->ahead_less ? t->ahead_less : flow->ahead;
	flow->paced = !t->off && f >= (unsigned)lround(t->unpaced * t->senders);
	pause_rule_default(&flow->rule, (uint64_t)t->threshold_ns, (uint64_t)(t->host_bps / 8));
	if (t->hold_ns > 0)
		flow->rule.hold_max_ns = (uint64_t)t->hold_ns;
	if (t->gain > 0)
		flow->rule.gain = (unsigned)lround(t->gain * PAUSE_GAIN_ONE);
	flow->floor_ns = (int64_t)t->floor_ns;
	flow->rule.threshold_ns += (uint64_t)t->floor_ns;
	if (t->floor_known)
		flow->pace.floor_ns = (uint64_t)t->floor_ns + 1;
	if (t->start_part > 0)
		flow->rule.start_Bps = (uint64_t)(t->start_part * t->host_bps / 8);
	if (t->pause_only)
		flow->rule.flags &= ~PAUSE_RATE;
	if (f >= t->senders - t->heavy)
		flow->rule.weight = 3 * PAUSE_WEIGHT_ONE;
	flow->clock_ns = t->clock_part * t->threshold_ns * (2 * rng_unit(&net->rng) - 1);
}

static int set_up(struct pnet *net, const struct pause_trial *t, uint64_t seed)
{
	int err = pnet_init(net, 1 + t->senders, t->senders, seed);

	if (err)
		return err;
	net->packet_bytes = t->packet_bytes ? t->packet_bytes : 1500;
	if (t->timeout_ns > 0)
		net->timeout_ns = (int64_t)t->timeout_ns;
	net->sample_every = t->sample_every ? t->sample_every : 1;
	net->feedback_loss = t->feedback_loss;
	net->noise_ns = t->noise_ns;
	net->links[0].ns_per_byte = 8e9 / t->link_bps;
	net->links[0].buffer_bytes = (uint64_t)(t->buffer_ns * t->link_bps / 8e9);
	net->links[0].mark_bytes = t->ecn ? net->links[0].buffer_bytes / 5 : 0;
	net->links[0].watch = true;
	for (unsigned f = 0; f < t->senders; f++) {
		net->links[1 + f].ns_per_byte = 8e9 / t->host_bps;
		set_flow(net, t, f);
	}
	return 0;
}

static double jain(const double *rates, unsigned count)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < count; i++) {
		sum += rates[i];
		squares += rates[i] * rates[i];
	}
	return squares > 0 ? sum * sum / (count * squares) : 0;
}

static double mean(const double *values, unsigned from, unsigned to)
{
	double sum = 0;

	for (unsigned i = from; i < to; i++)
		sum += values[i];
	return to > from ? sum / (to - from) : NAN;
}

static void measure(struct pnet *net, const struct pause_trial *t, struct pause_figures *g)
{
	int64_t slice_ns = (int64_t)(t->seconds * 1e9 / SLICES);
	double *rates = calloc(t->senders, sizeof(*rates));
	uint64_t *before = calloc(t->senders, sizeof(*before)), paused = 0;
	struct pnet_link *link = &net->links[0];
	unsigned plain = (unsigned)lround(t->unpaced * t->senders);

	pnet_measure(net);
	for (unsigned f = 0; f < t->senders; f++) {
		before[f] = net->flows[f].delivered;
		paused += net->flows[f].pace.paused_ns;
	}
	for (int s = 0; s < SLICES; s++) {
		pnet_run(net, net->now_ns + slice_ns);
		for (unsigned f = 0; f < t->senders; f++) {
			rates[f] = (double)(net->flows[f].delivered - before[f]);
			before[f] = net->flows[f].delivered;
		}
		g->jain_short += jain(rates, t->senders) / SLICES;
	}
	for (unsigned f = 0; f < t->senders; f++) {
		rates[f] = (double)(net->flows[f].delivered - net->flows[f].measured);
		g->again += net->flows[f].again;
		g->timeouts += net->flows[f].timeouts;
		g->paused += (double)net->flows[f].pace.paused_ns;
	}
	g->paused = (g->paused - (double)paused) / (t->seconds * 1e9 * t->senders);
	g->jain = jain(rates, t->senders);
	g->least = 1e300;
	for (unsigned f = 0; f < t->senders; f++)
		g->least = fmin(g->least, rates[f] / mean(rates, 0, t->senders));
	g->heavy_part = mean(rates, t->senders - t->heavy, t->senders) /
			mean(rates, 0, t->senders - t->heavy);
	g->paced_part = mean(rates, plain, t->senders) / mean(rates, 0, plain);
	g->used = ((double)link->busy_ns - fmax(0, (double)(link->free_ns - net->now_ns))) /
		  (t->seconds * 1e9);
	g->wasted = (double)link->wasted_ns / (t->seconds * 1e9);
	g->packets = link->packets;
	g->dropped = link->dropped;
	g->peak_ns = link->peak_ns;
	g->p50_ns = stats_percentile(&link->waits, 0.5);
	g->p99_ns = stats_percentile(&link->waits, 0.99);
	free(rates);
	free(before);
}

void pause_trial_run(const struct pause_trial *t, uint64_t seed, struct pause_figures *g)
{
	struct pnet net;

	memset(g, 0, sizeof(*g));
	if (set_up(&net, t, seed))
		return;
	net.measure_ns = INT64_MAX;
	for (unsigned f = 0; f < t->senders - t->late; f++)
		pnet_start(&net, f, UINT64_MAX);
	pnet_run(&net, net.now_ns + (int64_t)(t->warm * 5e8));
	for (unsigned f = t->senders - t->late; f < t->senders; f++)
		pnet_start(&net, f, UINT64_MAX);
	pnet_run(&net, net.now_ns + (int64_t)(t->warm * 5e8));
	g->first_peak_ns = net.links[0].peak_ns;
	g->first_dropped = net.links[0].dropped;
	for (unsigned f = 0; f < t->senders; f++)
		g->first_again += net.flows[f].again;
	measure(&net, t, g);
	pnet_free(&net);
}

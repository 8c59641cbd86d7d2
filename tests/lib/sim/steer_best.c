// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/steer_best.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXHAUSTIVE_MOST 20000.0
#define STARTS 12
#define LINKS_MAX 4096

struct filling {
	double left_bps[LINKS_MAX];
	unsigned users[LINKS_MAX];
	size_t links;
};

static void links_of(const struct net_shape *shape, const struct best_flow *flow, unsigned spine,
		     unsigned links[NET_HOPS])
{
	unsigned hosts = shape->leaves * shape->hosts_per_leaf;
	unsigned trunks = shape->leaves * shape->spines;

	links[0] = flow->from;
	links[1] = hosts + flow->to;
	links[2] = 2 * hosts + flow->from / shape->hosts_per_leaf * shape->spines + spine;
	links[3] = 2 * hosts + trunks + flow->to / shape->hosts_per_leaf * shape->spines + spine;
}

static void filling_init(struct filling *filling, const struct net_shape *shape)
{
	unsigned hosts = shape->leaves * shape->hosts_per_leaf;

	filling->links = 2 * hosts + 2 * shape->leaves * shape->spines;
	if (filling->links > LINKS_MAX)
		abort();
	for (size_t l = 0; l < filling->links; l++) {
		filling->left_bps[l] = l < 2 * hosts ? shape->host_bps : shape->fabric_bps;
		filling->users[l] = 0;
	}
}

/* The rate by which all unfrozen flows can still grow. */
static double smallest_share(const struct filling *filling)
{
	double share = INFINITY;

	for (size_t l = 0; l < filling->links; l++)
		if (filling->users[l])
			share = fmin(share, filling->left_bps[l] / filling->users[l]);
	return share;
}

/* Max-min by progressive filling. */
double best_total_bps(const struct net_shape *shape, const struct best_flow *flows, size_t count,
		      const unsigned *spines)
{
	struct filling filling;
	unsigned links[BEST_FLOWS_MAX][NET_HOPS];
	double rates[BEST_FLOWS_MAX] = {0}, total = 0;
	bool frozen[BEST_FLOWS_MAX] = {false};
	size_t left = count;

	filling_init(&filling, shape);
	for (size_t f = 0; f < count; f++) {
		links_of(shape, &flows[f], spines[f], links[f]);
		for (int h = 0; h < NET_HOPS; h++)
			filling.users[links[f][h]]++;
	}
	while (left) {
		double step = smallest_share(&filling);

		for (size_t f = 0; f < count; f++)
			if (!frozen[f] && flows[f].demand_bps > 0)
				step = fmin(step, flows[f].demand_bps - rates[f]);
		for (size_t f = 0; f < count; f++) {
			if (frozen[f])
				continue;
			rates[f] += step;
			for (int h = 0; h < NET_HOPS; h++)
				filling.left_bps[links[f][h]] -= step;
		}
		for (size_t f = 0; f < count; f++) {
			bool full = flows[f].demand_bps > 0 &&
				    rates[f] >= flows[f].demand_bps * (1 - 1e-9);

			for (int h = 0; h < NET_HOPS; h++)
				full |= filling.left_bps[links[f][h]] <= 1e-6 * shape->fabric_bps;
			if (frozen[f] || !full)
				continue;
			frozen[f] = true;
			left--;
			total += rates[f];
			for (int h = 0; h < NET_HOPS; h++)
				filling.users[links[f][h]]--;
		}
	}
	return total;
}

/* Of equal totals the one whose links are evenly used. */
static double score(const struct net_shape *shape, const struct best_flow *flows, size_t count,
		    const unsigned *spines)
{
	unsigned users[2][64 * 64] = {{0}};
	double uneven = 0;

	for (size_t f = 0; f < count; f++) {
		unsigned from = flows[f].from / shape->hosts_per_leaf;
		unsigned to = flows[f].to / shape->hosts_per_leaf;

		uneven += users[0][from * shape->spines + spines[f]]++;
		uneven += users[1][to * shape->spines + spines[f]]++;
	}
	return best_total_bps(shape, flows, count, spines) * (1 - 1e-7 * uneven);
}

static double climb(const struct net_shape *shape, const struct best_flow *flows, size_t count,
		    unsigned *spines)
{
	double best = score(shape, flows, count, spines);
	bool better = true;

	while (better) {
		better = false;
		for (size_t f = 0; f < count; f++)
			for (unsigned s = 0; s < shape->spines; s++) {
				unsigned was = spines[f];
				double now;

				spines[f] = s;
				now = s == was ? 0 : score(shape, flows, count, spines);
				if (now > best * (1 + 1e-12)) {
					best = now;
					better = true;
				} else {
					spines[f] = was;
				}
			}
	}
	return best;
}

static void try_all(const struct net_shape *shape, const struct best_flow *flows, size_t count,
		    unsigned *spines)
{
	unsigned now[BEST_FLOWS_MAX] = {0};
	double best = -1;
	size_t f = 0;

	/* The first flow stays: spines are alike. */
	while (f < count) {
		double value = score(shape, flows, count, now);

		if (value > best) {
			best = value;
			memcpy(spines, now, count * sizeof(*now));
		}
		for (f = 1; f < count && ++now[f] == shape->spines; f++)
			now[f] = 0;
		if (count < 2)
			break;
	}
}

double best_place(const struct net_shape *shape, const struct best_flow *flows, size_t count,
		  struct rng *rng, unsigned *spines, bool *exhaustive)
{
	unsigned now[BEST_FLOWS_MAX];
	double best = -1;

	*exhaustive = pow(shape->spines, (double)count - 1) <= EXHAUSTIVE_MOST;
	if (*exhaustive) {
		try_all(shape, flows, count, spines);
		return best_total_bps(shape, flows, count, spines);
	}
	for (int start = 0; start < STARTS; start++) {
		double value;

		for (size_t f = 0; f < count; f++)
			now[f] = start ? (unsigned)rng_below(rng, shape->spines)
				       : (unsigned)(f % shape->spines);
		value = climb(shape, flows, count, now);
		if (value > best) {
			best = value;
			memcpy(spines, now, count * sizeof(*now));
		}
	}
	return best_total_bps(shape, flows, count, spines);
}

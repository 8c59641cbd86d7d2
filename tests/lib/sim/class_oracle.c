// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/class_oracle.h"

#include <stdlib.h>
#include <string.h>

#include "clocksync/edge.h"

#define HOPS 4
#define LOAD 0.9
#define MTU_BITS 12000.0
#define STAMP_NS 4.0
#define FLOOR_NS 3000
#define WINDOW_NS 2000000000LL
#define PAIR_NS 500000
#define SPACING_NS 5000
#define SIDE_POINTS (2 * WINDOW_NS / PAIR_NS)
#define WARM_WINDOWS 5 /* in which an edge learns its floor and noise */
/* The distribution is a table by nanoseconds; values above carry next to no information. */
#define BELOW_NS 60
#define TABLE_NS 1200
#define TICK_NS 450
#define MISS_NS 200 /* the farthest that an estimate can be off */

struct density {
	double log_at[BELOW_NS + TABLE_NS];
	double upto[BELOW_NS + TABLE_NS];
};

/* One hop more: nothing, or evenly up to a packet's time. */
static void hop_add(double *table, int count, double packet_ns)
{
	double sum = 0, *out = calloc((size_t)count, sizeof(*out));
	int length = (int)packet_ns;

	for (int i = 0; out && i < count; i++) {
		sum += table[i] - (i >= length ? table[i - length] : 0);
		out[i] = (1 - LOAD) * table[i] + LOAD * sum / length;
	}
	if (out)
		memcpy(table, out, (size_t)count * sizeof(*out));
	free(out);
}

static void density_make(struct density *density, double packet_ns)
{
	double waits[TABLE_NS] = {1}, deviation = M_SQRT2 * STAMP_NS, upto = 0;

	for (int hop = 0; hop < HOPS; hop++)
		hop_add(waits, TABLE_NS, packet_ns);
	for (int i = 0; i < BELOW_NS + TABLE_NS; i++) {
		double sum = 0;

		for (int w = 0; w < TABLE_NS; w++) {
			double away = (i - BELOW_NS - w) / deviation;

			if (fabs(away) < 10)
				sum += fmax(waits[w], 0) * exp(-away * away / 2);
		}
		sum /= deviation * sqrt(2 * M_PI);
		upto += sum;
		density->log_at[i] = log(fmax(sum, 1e-30));
		density->upto[i] = upto;
	}
}

/* Points below a line form a Poisson process, whatever happens above it. */
static double log_likelihood(const struct density *density, const double *waits, size_t count,
			     int moved_ns)
{
	double sum = -(double)SIDE_POINTS * density->upto[BELOW_NS + TICK_NS - moved_ns];

	for (size_t i = 0; i < count; i++) {
		int at = (int)floor(waits[i] + 0.5) - moved_ns + BELOW_NS;

		sum += density->log_at[at < 0 ? 0 : at];
	}
	return sum;
}

/* Mean of the posterior under a flat prior: how far off the best estimate is. */
static double pitman(const struct density *density, const double *waits, size_t count)
{
	double at[2 * MISS_NS + 1], most = -INFINITY, sum = 0, weights = 0;

	for (int m = -MISS_NS; m <= MISS_NS; m++) {
		at[m + MISS_NS] = log_likelihood(density, waits, count, m);
		most = fmax(most, at[m + MISS_NS]);
	}
	for (int m = -MISS_NS; m <= MISS_NS; m++) {
		double weight = exp(at[m + MISS_NS] - most);

		sum += weight * m;
		weights += weight;
	}
	return sum / weights;
}

struct sample {
	double *waits[2]; /* those below TICK_NS */
	size_t count[2];
};

static double draw(struct rng *rng, double packet_ns)
{
	double wait = STAMP_NS * M_SQRT2 * rng_normal(rng);

	for (int hop = 0; hop < HOPS; hop++)
		if (rng_unit(rng) < LOAD)
			wait += packet_ns * rng_unit(rng);
	return wait;
}

static void window_draw(struct sample *sample, struct edge *edge, int64_t begin_ns,
			double packet_ns, struct rng *rng)
{
	sample->count[0] = sample->count[1] = 0;
	for (int64_t i = 0; i < SIDE_POINTS; i++)
		for (int s = 0; s < 2; s++) {
			int64_t at_ns = begin_ns + i / 2 * PAIR_NS + i % 2 * SPACING_NS;
			double wait = draw(rng, packet_ns);
			struct clock_probe probe = {at_ns, at_ns + FLOOR_NS + (int64_t)rint(wait),
						    (uint32_t)(at_ns / PAIR_NS)};

			edge_add(edge, (enum clock_side)s, &probe, probe.rx_ns);
			if (wait < TICK_NS)
				sample->waits[s][sample->count[s]++] = wait;
		}
}

static void judge(struct class_oracle *oracle, const struct density *density,
		  const struct sample *sample, const struct edge_estimate *estimate)
{
	double best = (pitman(density, sample->waits[0], sample->count[0]) -
		       pitman(density, sample->waits[1], sample->count[1])) /
		      2;
	double ours = (double)estimate->offset_ns + estimate->offset_fraction_ns;

	oracle->best_ns += best * best;
	oracle->ours_ns += ours * ours;
	oracle->windows++;
}

struct class_oracle class_oracle_run(double rate_bps, unsigned windows, uint64_t seed)
{
	const struct edge_prior prior = {.known = true, .span_ppb = 200};
	double packet_ns = MTU_BITS * 1e9 / rate_bps;
	struct edge_scratch *scratch = malloc(sizeof(*scratch));
	struct density *density = malloc(sizeof(*density));
	struct edge *edge = malloc(sizeof(*edge));
	struct class_oracle oracle = {0};
	struct sample sample;
	struct rng rng;

	rng_seed(&rng, seed);
	for (int s = 0; s < 2; s++)
		sample.waits[s] = malloc(SIDE_POINTS * sizeof(double));
	if (!scratch || !density || !edge || !sample.waits[0] || !sample.waits[1])
		goto out;
	density_make(density, packet_ns);
	edge_init(edge, WINDOW_NS);
	for (unsigned w = 0; w < windows + WARM_WINDOWS; w++) {
		int64_t begin_ns = (int64_t)(w + 1) * WINDOW_NS;

		window_draw(&sample, edge, begin_ns, packet_ns, &rng);
		edge_fit(edge, begin_ns + WINDOW_NS - 1, &prior, scratch);
		if (w >= WARM_WINDOWS && edge->estimate.valid)
			judge(&oracle, density, &sample, &edge->estimate);
	}
	oracle.best_ns = sqrt(oracle.best_ns / fmax(1, oracle.windows));
	oracle.ours_ns = sqrt(oracle.ours_ns / fmax(1, oracle.windows));
out:
	for (int s = 0; s < 2; s++)
		free(sample.waits[s]);
	free(scratch);
	free(density);
	free(edge);
	return oracle;
}

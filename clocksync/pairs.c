// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/pairs.h"

#include <math.h>
#include <string.h>

#include "clocksync/ns.h"

/* Half octaves: bin b holds changes below 2^(b/2) ns. */
#define TOLERANCE_MIN_BIN 8  /* 16 ns: four timestamps of a NIC's 4 ns */
#define TOLERANCE_MAX_BIN 16 /* 256 ns: above, a knee is that of queues */
/* A knee: twice the tolerance would keep less than this part more. */
#define KNEE 0.25
#define PAIRS_ENOUGH 16
/* For a first knee one in so many, up to twice as many as above: a few do by chance. */
#define PAIRS_PART 20
#define DECAY 0.8      /* a round of 250 ms: a time constant of about one second */
#define NOISE_RISE 1.1 /* a round; down at once: the NIC has one noise, queues add */
#define NOISE_START_NS 30.0
#define NOISE_MIN_NS 1.0

void pairs_init(struct pairs_filter *filter)
{
	memset(filter, 0, sizeof(*filter));
	filter->tolerance_ns = 256;
	filter->noise_ns = NOISE_START_NS;
}

static int change_bin(int64_t change_ns)
{
	uint64_t square, size = change_ns < 0 ? -(uint64_t)change_ns : (uint64_t)change_ns;

	if (size >> 16)
		return PAIRS_BINS - 1;
	square = size * size; /* floor(log2 of the square) is in half octaves */
	return square ? 64 - __builtin_clzll(square) : 0;
}

enum pairs_result pairs_add(struct pairs_filter *filter, enum clock_side side,
			    const struct clock_probe *probe)
{
	const struct clock_probe *first = &filter->last[side];
	int64_t change;
	int bin;

	if (!filter->waiting[side] || first->pair != probe->pair) {
		filter->last[side] = *probe;
		filter->waiting[side] = true;
		return PAIRS_FIRST;
	}
	filter->waiting[side] = false;
	change = ns_sub(ns_sub(probe->rx_ns, first->rx_ns), ns_sub(probe->tx_ns, first->tx_ns));
	bin = change_bin(change);
	filter->histogram[bin < PAIRS_BINS ? bin : PAIRS_BINS - 1] += 1;
	filter->seen++;
	if (filter->no_knee || change > filter->tolerance_ns || change < -filter->tolerance_ns)
		return PAIRS_STRETCHED;
	filter->kept++;
	return PAIRS_KEPT;
}

/* Median of the changes within the tolerance, as a standard deviation. */
static double core_deviation(const float *upto, int tolerance_bin)
{
	double half = upto[tolerance_bin] / 2, low, inside;
	int bin = 0;

	while (bin < tolerance_bin && upto[bin] < half)
		bin++;
	low = bin ? upto[bin - 1] : 0;
	inside = upto[bin] > low ? (half - low) / (upto[bin] - low) : 1;
	return exp2((bin - 1 + inside) / 2) / 0.6745;
}

void pairs_adapt(struct pairs_filter *filter)
{
	float upto[PAIRS_BINS], sum = 0;
	double noise, enough = PAIRS_ENOUGH;
	int bin;

	for (int i = 0; i < PAIRS_BINS; i++) {
		sum += filter->histogram[i];
		upto[i] = sum;
		filter->histogram[i] *= DECAY;
	}
	if (!filter->measured)
		enough = fmax(enough, fmin(2 * PAIRS_ENOUGH, sum / PAIRS_PART));
	for (bin = TOLERANCE_MIN_BIN; bin <= TOLERANCE_MAX_BIN; bin++)
		if (upto[bin] >= enough && upto[bin + 2] - upto[bin] <= KNEE * upto[bin])
			break;
	filter->no_knee = bin > TOLERANCE_MAX_BIN;
	if (filter->no_knee)
		return;
	filter->tolerance_ns = exp2(bin / 2.0);
	/* A change of spacing has the noise of four timestamps: two deviations of one. */
	noise = fmax(core_deviation(upto, bin) / 2, NOISE_MIN_NS);
	if (filter->measured)
		noise = fmin(noise, filter->noise_ns * NOISE_RISE);
	filter->noise_ns = noise;
	filter->measured = true;
}

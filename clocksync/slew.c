// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/slew.h"

#include <math.h>
#include <stdlib.h>

/* Readings after which a rate is known better than a round's change of it shows. */
#define READINGS_LEAST 3
#define NOISE_NS 20.0 /* beside the width of the readings: both clocks are whole nanoseconds */
/* Beyond what the kernel slews by, it is another clock. */
#define RATE_MOST_PPB 2e8

static double ratio_ppb(int64_t local_ns, int64_t raw_ns)
{
	return (double)(local_ns - raw_ns) / (double)raw_ns * 1e9;
}

/* The rate @ppb as seen by a clock that runs faster by @than_ppb. */
static double slower_ppb(double ppb, double than_ppb)
{
	return (ppb - than_ppb) / (1 + than_ppb * 1e-9);
}

static double half_ns(const struct slew_reading *a, const struct slew_reading *b)
{
	return (double)(a->width_ns + b->width_ns) / 2 + NOISE_NS;
}

bool slew_add(struct slew *slew, const struct slew_reading *reading, struct slew_change *change)
{
	struct slew_reading last = slew->last;
	double rate_ppb, moved_ns, limit_ns;
	bool changed;
	int64_t ran_ns = ns_sub(reading->raw_ns, last.raw_ns);

	slew->last = *reading;
	if (!slew->readings++) {
		slew->first = *reading;
		return false;
	}
	if (ran_ns <= 0 ||
	    fabs(ratio_ppb(ns_sub(reading->local_ns, last.local_ns), ran_ns)) > RATE_MOST_PPB) {
		*slew = (struct slew){.first = *reading,
				      .last = *reading,
				      .readings = 1,
				      .changes = slew->changes};
		return false;
	}
	rate_ppb = ratio_ppb(ns_sub(reading->local_ns, last.local_ns), ran_ns);
	moved_ns = (rate_ppb - slew->rate_ppb) * 1e-9 * (double)ran_ns;
	limit_ns = half_ns(&last, reading) + half_ns(&slew->first, &last) * (double)ran_ns /
						     (double)(last.raw_ns - slew->first.raw_ns + 1);
	changed = slew->readings > READINGS_LEAST && fabs(moved_ns) > limit_ns;
	/* It changed some time in between, so the next reading shows the rest of it. */
	if (changed || slew->unsettled) {
		change->from_ns = last.local_ns;
		change->until_ns = changed ? reading->local_ns : last.local_ns;
		change->ppb = (rate_ppb - slew->rate_ppb) / (1 + slew->rate_ppb * 1e-9);
		slew->first = last;
		slew->rate_ppb = rate_ppb;
		slew->readings = READINGS_LEAST;
		slew->changes += changed && !slew->unsettled;
		slew->unsettled = changed;
		return true;
	}
	slew->rate_ppb = ratio_ppb(ns_sub(reading->local_ns, slew->first.local_ns),
				   ns_sub(reading->raw_ns, slew->first.raw_ns));
	return false;
}

static void convert_line(struct clock_line *line, const struct slew_change *change)
{
	*line = clock_line_move(line, change->from_ns, 0);
	line->rate_ppb = slower_ppb(line->rate_ppb, change->ppb);
}

void slew_host(struct hostclock *host, const struct slew_change *change)
{
	struct consensus *consensus = &host->consensus;

	if (consensus->has_line || consensus->restarted)
		convert_line(&consensus->line, change);
	for (unsigned int i = 0; i < CONSENSUS_PAST; i++)
		if (consensus->past_ns[i])
			convert_line(&consensus->past[i], change);
	if (consensus->holdover.count)
		convert_line(&consensus->holdover.base, change);
}

static void convert_cell(struct edge_cell *cell, const struct slew_change *change)
{
	for (unsigned int i = 0; i < cell->count; i++) {
		struct edge_point *point = &cell->points[i];
		int64_t before_ns = ns_sub(point->x_ns, change->from_ns), moved_ns;

		if (before_ns >= 0)
			continue;
		moved_ns = llrint((double)before_ns * change->ppb * 1e-9);
		point->x_ns += moved_ns;
		point->y_ns -= moved_ns;
	}
}

void slew_edge(struct edge *edge, const struct slew_change *change)
{
	int64_t first = change->from_ns / edge->bucket_ns;

	for (unsigned int i = 0; i < EDGE_BUCKETS; i++) {
		struct edge_bucket *bucket = &edge->buckets[i];

		if (bucket->index < 0)
			continue;
		if (bucket->index >= first && change->until_ns != change->from_ns) {
			*bucket = (struct edge_bucket){.index = -1};
			continue;
		}
		for (unsigned int s = 0; s < 2; s++) {
			convert_cell(&bucket->all[s], change);
			convert_cell(&bucket->kept[s], change);
		}
	}
	edge->slope_ppb = slower_ppb(edge->slope_ppb, change->ppb);
	for (unsigned int i = 0; i < sizeof(edge->past) / sizeof(edge->past[0]); i++)
		edge->past[i].drift_ppb = slower_ppb(edge->past[i].drift_ppb, change->ppb);
}

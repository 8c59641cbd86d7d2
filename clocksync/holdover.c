// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/holdover.h"

#include <math.h>
#include <string.h>

#include "clocksync/reports.h"

#define SECOND_NS 1000000000LL
/* A line that was not followed for so long says nothing of the time between. */
#define GAP_MAX_NS 40000000000LL
#define JUDGED_AFTER 4 /* entries, seconds */
#define SQUARE_GAIN 0.125
#define PEAK_FADE 0.98
#define ERROR_FACTOR 3.0
/* Nothing was judged yet: less with every second that is known. */
#define ERROR_START_PPB 400.0
#define ERROR_LEAST_PPB 2.0
#define WANDER_FADE 0.995
#define WANDER_FACTOR 3.5
#define WANDER_LEAST 8.0
/* As long as little of it was seen, less every second: what starts hosts also warms them up. */
#define WANDER_UNKNOWN 20.0
#define WANDER_UNKNOWN_FADE 0.96
#define WANDER_SPAN 1 /* which of the spans shows it: 8 s */

static const unsigned span_entries[HOLDOVER_SPANS] = {4, 8, 16, 32};

void holdover_begin(struct holdover *held)
{
	held->count = 0;
	memset(held->spans, 0, sizeof(held->spans));
}

static unsigned slot_of(unsigned entry)
{
	return entry % (HOLDOVER_SPAN_MAX + 1);
}

/* Of the entries @from to @to, against the base. */
static double slope(const struct holdover *held, unsigned from, unsigned to)
{
	unsigned a = slot_of(from), b = slot_of(to);
	double span_s = (double)(held->past[b].local_ns - held->past[a].local_ns) * 1e-9;

	return span_s > 0 ? (held->past[b].ahead_ns - held->past[a].ahead_ns) / span_s : 0;
}

/*
 * Median of the slopes over half of the span: up to a third of the entries may
 * be off (a load that began, windows that thinned out) without moving it.
 */
static double rate_over(const struct holdover *held, unsigned entries)
{
	double slopes[HOLDOVER_SPAN_MAX / 2 + 1];
	unsigned half = entries / 2, first = held->count - 1 - entries;

	if (!half)
		half = 1;
	for (unsigned i = 0; i + half <= entries; i++)
		slopes[i] = slope(held, first + i, first + i + half);
	return reports_median(slopes, entries - half + 1);
}

/* The rate of @JUDGED_AFTER seconds ago against what came since. */
static void judge(struct holdover *held, unsigned s, unsigned last)
{
	double came = slope(held, last - JUDGED_AFTER, last), error;

	if (last < span_entries[s] + JUDGED_AFTER)
		return;
	error = fabs(held->spans[s].rate_ppb[(last - JUDGED_AFTER) % HOLDOVER_DELAY] - came);
	if (!held->spans[s].judged++)
		held->spans[s].square = error * error;
	held->spans[s].square += SQUARE_GAIN * (error * error - held->spans[s].square);
	held->spans[s].peak_ppb = fmax(error, held->spans[s].peak_ppb * PEAK_FADE);
}

static void learn_wander(struct holdover *held, unsigned last, double rate_ppb)
{
	const double *before = &held->spans[WANDER_SPAN].rate_ppb[last % HOLDOVER_DELAY];
	double moved = fabs(rate_ppb - *before) / HOLDOVER_DELAY;

	held->wander_ppb_per_s *= WANDER_FADE;
	if (last < span_entries[WANDER_SPAN] + HOLDOVER_DELAY)
		return;
	held->wander_seen++;
	held->wander_ppb_per_s = fmax(held->wander_ppb_per_s, moved);
}

void holdover_add(struct holdover *held, const struct clock_line *line, int64_t now_ns)
{
	unsigned last;

	if (held->count) {
		int64_t since_ns = ns_sub(now_ns, held->past[slot_of(held->count - 1)].local_ns);

		if (since_ns >= 0 && since_ns < SECOND_NS - SECOND_NS / 16)
			return;
		if (since_ns < 0 || since_ns > GAP_MAX_NS)
			holdover_begin(held);
	}
	if (!held->count)
		held->base = *line;
	last = held->count++;
	held->past[slot_of(last)].local_ns = now_ns;
	held->past[slot_of(last)].ahead_ns = clock_line_gap(line, &held->base, now_ns);
	for (unsigned s = 0; s < HOLDOVER_SPANS && last >= span_entries[s]; s++) {
		double rate_ppb = rate_over(held, span_entries[s]);

		judge(held, s, last);
		if (s == WANDER_SPAN)
			learn_wander(held, last, rate_ppb);
		held->spans[s].rate_ppb[last % HOLDOVER_DELAY] = rate_ppb;
	}
}

/* Which span was least wrong; HOLDOVER_SPANS: none was judged. */
static unsigned best_span(const struct holdover *held)
{
	unsigned best = HOLDOVER_SPANS;

	for (unsigned s = 0; s < HOLDOVER_SPANS; s++)
		if (held->spans[s].judged &&
		    (best == HOLDOVER_SPANS || held->spans[s].square < held->spans[best].square))
			best = s;
	return best;
}

double holdover_ppb(const struct holdover *held, const struct clock_line *line)
{
	unsigned best = best_span(held);

	if (best < HOLDOVER_SPANS)
		return held->base.rate_ppb +
		       held->spans[best].rate_ppb[(held->count - 1) % HOLDOVER_DELAY];
	if (held->count < 3)
		return line->rate_ppb;
	return held->base.rate_ppb +
	       rate_over(held, held->count > span_entries[0] ? span_entries[0] : held->count - 1);
}

double holdover_deviation_ppb(const struct holdover *held)
{
	unsigned best = best_span(held);

	return best < HOLDOVER_SPANS ? sqrt(held->spans[best].square) : -1;
}

double holdover_error_ppb(const struct holdover *held)
{
	unsigned best = best_span(held);

	if (best == HOLDOVER_SPANS)
		return ERROR_START_PPB / (1 + held->count);
	return ERROR_FACTOR * fmax(held->spans[best].peak_ppb, ERROR_LEAST_PPB);
}

double holdover_wander(const struct holdover *held)
{
	double unknown = WANDER_UNKNOWN * pow(WANDER_UNKNOWN_FADE, held->wander_seen);

	return fmax(fmax(unknown, WANDER_LEAST), WANDER_FACTOR * held->wander_ppb_per_s);
}

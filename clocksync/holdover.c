// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/holdover.h"

#include <math.h>
#include <string.h>

#include "clocksync/reports.h"

#define SECOND_NS 1000000000LL
/* After a longer gap between two lines the history is dropped. */
#define GAP_MAX_NS 40000000000LL
#define EVALUATED_AFTER 4 /* entries, seconds */
#define SQUARE_GAIN 0.125
#define PEAK_FADE 0.98
#define ERROR_FACTOR 3.5
/* Before the first evaluation; decreases with every recorded second. */
#define ERROR_START_PPB 400.0
#define ERROR_LEAST_PPB 2.0
#define WANDER_FADE 0.995
#define WANDER_FACTOR 3.5
#define WANDER_LEAST 8.0
/* Initial estimate, decreases every second: hosts warm up after a start. */
#define WANDER_UNKNOWN 20.0
#define WANDER_UNKNOWN_FADE 0.96
#define WANDER_SPAN 1 /* index of the span it is computed from: 8 s */

static const unsigned span_entries[HOLDOVER_SPANS] = {4, 8, 16, 32};

void holdover_begin(struct holdover *holdover)
{
	holdover->count = 0;
	memset(holdover->spans, 0, sizeof(holdover->spans));
}

static unsigned slot_of(unsigned entry)
{
	return entry % (HOLDOVER_SPAN_MAX + 1);
}

/* Of the entries @from to @to, against the base. */
static double slope(const struct holdover *holdover, unsigned from, unsigned to)
{
	unsigned a = slot_of(from), b = slot_of(to);
	double span_s = (double)(holdover->past[b].local_ns - holdover->past[a].local_ns) * 1e-9;

	return span_s > 0 ? (holdover->past[b].ahead_ns - holdover->past[a].ahead_ns) / span_s : 0;
}

/*
 * Median of the slopes over half of the span: robust against a third of the entries (start of
 * a load, windows with few points).
 */
static double rate_over(const struct holdover *holdover, unsigned entries)
{
	double slopes[HOLDOVER_SPAN_MAX / 2 + 1];
	unsigned half = entries / 2, first = holdover->count - 1 - entries;

	if (!half)
		half = 1;
	for (unsigned i = 0; i + half <= entries; i++)
		slopes[i] = slope(holdover, first + i, first + i + half);
	return reports_median(slopes, entries - half + 1);
}

/* Compares the rate of EVALUATED_AFTER seconds ago with the slope since then. */
static void evaluate(struct holdover *holdover, unsigned s, unsigned last)
{
	double since = slope(holdover, last - EVALUATED_AFTER, last), error;

	if (last < span_entries[s] + EVALUATED_AFTER)
		return;
	error = fabs(holdover->spans[s].rate_ppb[(last - EVALUATED_AFTER) % HOLDOVER_DELAY] -
		     since);
	if (!holdover->spans[s].evaluations++)
		holdover->spans[s].square = error * error;
	holdover->spans[s].square += SQUARE_GAIN * (error * error - holdover->spans[s].square);
	holdover->spans[s].peak_ppb = fmax(error, holdover->spans[s].peak_ppb * PEAK_FADE);
}

static void learn_wander(struct holdover *holdover, unsigned last, double rate_ppb)
{
	const double *before = &holdover->spans[WANDER_SPAN].rate_ppb[last % HOLDOVER_DELAY];
	double moved = fabs(rate_ppb - *before) / HOLDOVER_DELAY;

	holdover->wander_ppb_per_s *= WANDER_FADE;
	if (last < span_entries[WANDER_SPAN] + HOLDOVER_DELAY)
		return;
	holdover->wander_seen++;
	holdover->wander_ppb_per_s = fmax(holdover->wander_ppb_per_s, moved);
}

void holdover_add(struct holdover *holdover, const struct clock_line *line, int64_t now_ns)
{
	unsigned last;

	if (holdover->count) {
		int64_t since_ns =
			ns_sub(now_ns, holdover->past[slot_of(holdover->count - 1)].local_ns);

		if (since_ns >= 0 && since_ns < SECOND_NS - SECOND_NS / 16)
			return;
		if (since_ns < 0 || since_ns > GAP_MAX_NS)
			holdover_begin(holdover);
	}
	if (!holdover->count)
		holdover->base = *line;
	last = holdover->count++;
	holdover->past[slot_of(last)].local_ns = now_ns;
	holdover->past[slot_of(last)].ahead_ns = clock_line_gap(line, &holdover->base, now_ns);
	for (unsigned s = 0; s < HOLDOVER_SPANS && last >= span_entries[s]; s++) {
		double rate_ppb = rate_over(holdover, span_entries[s]);

		evaluate(holdover, s, last);
		if (s == WANDER_SPAN)
			learn_wander(holdover, last, rate_ppb);
		holdover->spans[s].rate_ppb[last % HOLDOVER_DELAY] = rate_ppb;
	}
}

/* The span with the least error; HOLDOVER_SPANS: none evaluated yet. */
static unsigned best_span(const struct holdover *holdover)
{
	unsigned best = HOLDOVER_SPANS;

	for (unsigned s = 0; s < HOLDOVER_SPANS; s++)
		if (holdover->spans[s].evaluations &&
		    (best == HOLDOVER_SPANS ||
		     holdover->spans[s].square < holdover->spans[best].square))
			best = s;
	return best;
}

double holdover_ppb(const struct holdover *holdover, const struct clock_line *line)
{
	unsigned best = best_span(holdover);

	if (best < HOLDOVER_SPANS)
		return holdover->base.rate_ppb +
		       holdover->spans[best].rate_ppb[(holdover->count - 1) % HOLDOVER_DELAY];
	if (holdover->count < 3)
		return line->rate_ppb;
	return holdover->base.rate_ppb + rate_over(holdover, holdover->count > span_entries[0]
								     ? span_entries[0]
								     : holdover->count - 1);
}

double holdover_deviation_ppb(const struct holdover *holdover)
{
	unsigned best = best_span(holdover);

	return best < HOLDOVER_SPANS ? sqrt(holdover->spans[best].square) : -1;
}

double holdover_error_ppb(const struct holdover *holdover)
{
	unsigned best = best_span(holdover);

	if (best == HOLDOVER_SPANS)
		return ERROR_START_PPB / (1 + holdover->count);
	return ERROR_FACTOR * fmax(holdover->spans[best].peak_ppb, ERROR_LEAST_PPB);
}

double holdover_wander(const struct holdover *holdover)
{
	double unknown = WANDER_UNKNOWN * pow(WANDER_UNKNOWN_FADE, holdover->wander_seen);

	return fmax(fmax(unknown, WANDER_LEAST), WANDER_FACTOR * holdover->wander_ppb_per_s);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/cycles.h"

#include <math.h>
#include <stdlib.h>

#include "clocksync/ns.h"

#define SECOND_NS 1000000000ull
#define STEP_S ((double)CYCLES_STEP_NS / 1e9)
/* Points after a step, before it, and how long ago those may be. */
#define AFTER 6
#define MIXED 2 /* intervals that may contain both rates */
#define BEFORE 30
#define BEFORE_AGE 150
#define BEFORE_LEAST 8
#define RATE_LEAST 8
/* Rate: six deviations of its estimate; level: what no wander does within half a minute. */
#define STEP_SIGMAS 6.0
#define JUMP_LEAST_NS 20000.0
/* So often in the past, AFTER points apart, the rate is compared in the same way. */
#define WANDERS 20
#define WANDERS_LEAST 4
/* Until it was, 80 s: a change is so many times as large as it has to be otherwise. */
#define WANDERS_UNKNOWN 10.0
/* From this distance a reading is another clock, not a point. */
#define FAR_NS 1e9

struct fit {
	unsigned int count;
	double x, rate_ppb, level_ns; /* the line at x, in steps */
	double spread_s;	      /* root of the sum of squares of x, in seconds */
};

void cycles_restart(struct cycles *cycles)
{
	cycles->reference_hz = 0;
	cycles->base_counter = 0;
	cycles->count = cycles->suspect = 0;
	cycles->reads = false;
}

struct cycles_point cycles_at(const struct cycles *cycles, int64_t index)
{
	if (index > cycles->last || index <= cycles->last - cycles->count)
		return (struct cycles_point){.ahead_ns = NAN};
	return cycles->points[index % CYCLES_POINTS];
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double cycles_noise_ns(const double *ahead_ns, unsigned int count)
{
	double sizes[CYCLES_POINTS];
	unsigned int found = 0;

	for (unsigned int i = 1; i + 1 < count && found < CYCLES_POINTS; i++) {
		double second = ahead_ns[i - 1] - 2 * ahead_ns[i] + ahead_ns[i + 1];

		if (isfinite(second))
			sizes[found++] = fabs(second);
	}
	if (found < 4)
		return NAN;
	qsort(sizes, found, sizeof(sizes[0]), by_size);
	return sizes[found / 2] / 0.6745 / sqrt(6);
}

/* The newest @most valid points at or before @index, not older than @oldest. */
static struct fit fit_line(const struct cycles *cycles, int64_t index, int64_t oldest,
			   unsigned int most)
{
	double n = 0, x = 0, y = 0, xx = 0, xy = 0;
	struct fit fit = {};

	for (int64_t at = index; at >= oldest && at > cycles->last - cycles->count; at--) {
		double dx = (double)(at - index), dy = cycles_at(cycles, at).ahead_ns;

		if (!isfinite(dy) || fit.count == most)
			continue;
		fit.count++;
		n++;
		x += dx;
		y += dy;
		xx += dx * dx;
		xy += dx * dy;
	}
	if (n > 1 && n * xx - x * x > 0) {
		fit.rate_ppb = (n * xy - x * y) / (n * xx - x * x) / STEP_S;
		fit.spread_s = sqrt((xx - x * x / n)) * STEP_S;
	}
	fit.level_ns = n ? y / n : NAN;
	fit.x = (double)index + (n ? x / n : 0);
	return fit;
}

/* Errors of the points, each as large as its bound, that together turn the line the most. */
static double rate_bound_ppb(const struct cycles *cycles, const struct fit *fit)
{
	double sum = 0;

	for (int64_t at = cycles->last - cycles->count + 1; at <= cycles->last; at++) {
		struct cycles_point point = cycles_at(cycles, at);

		if (isfinite(point.ahead_ns))
			sum += fabs((double)at - fit->x) * STEP_S * (point.bound_ns + 1);
	}
	return sum / (fit->spread_s * fit->spread_s);
}

bool cycles_rate(const struct cycles *cycles, struct cycles_rate *rate)
{
	struct fit fit =
		fit_line(cycles, cycles->last, cycles->last - CYCLES_POINTS, CYCLES_POINTS);
	double ahead_ns[CYCLES_POINTS];

	if (!cycles->reference_hz || fit.count < RATE_LEAST)
		return false;
	for (unsigned int i = 0; i < cycles->count; i++)
		ahead_ns[i] = cycles_at(cycles, cycles->last - cycles->count + 1 + i).ahead_ns;
	rate->hz = (double)cycles->reference_hz * (1 + fit.rate_ppb * 1e-9);
	rate->bound_ppb = rate_bound_ppb(cycles, &fit);
	rate->noise_ns = cycles_noise_ns(ahead_ns, cycles->count);
	return true;
}

/* How far the counter is ahead of fabric time, since the base. */
static double ahead_of(const struct cycles *cycles, int64_t fabric_ns, uint64_t counter)
{
	uint64_t ran = counter - cycles->base_counter, hz = cycles->reference_hz;
	int64_t whole_ns = (int64_t)(ran / hz * SECOND_NS);

	return (double)ns_sub(whole_ns, ns_sub(fabric_ns, cycles->base_fabric_ns)) +
	       (double)(ran % hz) * 1e9 / (double)hz;
}

/*
 * The reference is the rate over the first two readings: near enough for what a reading is late.
 */
static void begin(struct cycles *cycles, int64_t fabric_ns, uint64_t counter)
{
	double ran_s = (double)ns_sub(fabric_ns, cycles->base_fabric_ns) / 1e9;
	double hz = (double)(counter - cycles->base_counter) / ran_s;

	if (cycles->base_counter && counter > cycles->base_counter && ran_s > 0.9 * STEP_S &&
	    ran_s < 10 * STEP_S && hz > 1e5 && hz < 1e11) {
		cycles->reference_hz = (uint64_t)llrint(hz);
		return;
	}
	if (cycles->base_counter && ran_s > 0 && ran_s <= 0.9 * STEP_S)
		return;
	cycles->base_counter = counter;
	cycles->base_fabric_ns = fabric_ns;
}

static void put_point(struct cycles *cycles, int64_t index, const struct cycles_point *point)
{
	if (cycles->count && index - cycles->last >= CYCLES_POINTS)
		cycles->count = 0;
	if (!cycles->count)
		cycles->last = index - 1;
	while (cycles->last < index) {
		cycles->last++;
		cycles->points[cycles->last % CYCLES_POINTS].ahead_ns = NAN;
		cycles->count += cycles->count < CYCLES_POINTS;
	}
	cycles->points[index % CYCLES_POINTS] = *point;
}

/*
 * Medians of slopes and of levels, so that a late reading, or one while CLOCK_MONOTONIC begins to
 * be slewed, changes neither. The newest @most valid points from @index on.
 */
static struct fit fit_robust(const struct cycles *cycles, int64_t index, int64_t oldest,
			     unsigned int most)
{
	double x[BEFORE], y[BEFORE], slopes[BEFORE * BEFORE / 2], level[BEFORE];
	struct fit fit = {};
	unsigned int found = 0, apart;

	for (int64_t at = index; at >= oldest && at > cycles->last - cycles->count; at--)
		if (fit.count < most && isfinite(cycles_at(cycles, at).ahead_ns)) {
			x[fit.count] = (double)at;
			y[fit.count++] = cycles_at(cycles, at).ahead_ns;
		}
	if (fit.count < 2)
		return fit;
	/* Of few all pairs; of many those that are half of them apart. */
	apart = fit.count > 2 * AFTER ? fit.count / 2 : 1;
	for (unsigned int i = 0; i < fit.count; i++)
		for (unsigned int k = i + apart; k < (apart > 1 ? i + apart + 1 : fit.count); k++)
			if (k < fit.count)
				slopes[found++] = (y[i] - y[k]) / (x[i] - x[k]);
	qsort(slopes, found, sizeof(slopes[0]), by_size);
	fit.rate_ppb = (slopes[found / 2] + slopes[(found - 1) / 2]) / 2 / STEP_S;
	fit.x = (x[0] + x[fit.count - 1]) / 2;
	for (unsigned int i = 0; i < fit.count; i++) {
		level[i] = y[i] - fit.rate_ppb * STEP_S * (x[i] - fit.x);
		fit.spread_s += pow((x[i] - fit.x) * STEP_S, 2);
	}
	qsort(level, fit.count, sizeof(level[0]), by_size);
	fit.level_ns = level[fit.count / 2];
	fit.spread_s = sqrt(fit.spread_s);
	return fit;
}

static double most_bound_ns(const struct cycles *cycles, int64_t first, int64_t last)
{
	double most_ns = 0;

	for (int64_t at = first; at <= last; at++)
		if (isfinite(cycles_at(cycles, at).ahead_ns))
			most_ns = fmax(most_ns, cycles_at(cycles, at).bound_ns);
	return most_ns;
}

/*
 * Deviation of what AFTER points up to @index differ by from those before them where nothing
 * happened: the rate of fabric time wanders as well, by ppm where timestamps are off by
 * microseconds. NAN: not known.
 */
static double wander_ppb(const struct cycles *cycles, int64_t index)
{
	double sizes[WANDERS];
	unsigned int found = 0;

	for (unsigned int i = 0; i < WANDERS; i++, index -= AFTER) {
		struct fit after = fit_robust(cycles, index, index - AFTER, AFTER);
		struct fit before =
			fit_robust(cycles, index - AFTER, index - AFTER - BEFORE_AGE, BEFORE);

		if (after.count == AFTER && before.count >= BEFORE_LEAST)
			sizes[found++] = fabs(after.rate_ppb - before.rate_ppb);
	}
	if (found < WANDERS_LEAST)
		return NAN;
	qsort(sizes, found, sizeof(sizes[0]), by_size);
	return sizes[found / 2] / 0.6745;
}

/* Beyond the noise of points, and beyond what the rate wanders by. */
static bool is_step(const struct cycles *cycles, int64_t split, double change_ppb, double limit_ppb)
{
	double wander;

	if (change_ppb <= limit_ppb)
		return false;
	wander = wander_ppb(cycles, split);
	return change_ppb > (isfinite(wander) ? STEP_SIGMAS * wander : WANDERS_UNKNOWN * limit_ppb);
}

/* The newest points against those before them. */
static bool differs(const struct cycles *cycles, struct cycles_step *step)
{
	struct fit after = fit_robust(cycles, cycles->last, cycles->last - 4 * AFTER, AFTER);
	int64_t split = cycles->last;
	double ahead_ns[2 * BEFORE + 1], noise_ns, limit_ppb, size_ns;
	unsigned int found = 0;
	struct fit before;
	double old_ns, new_ns;

	/* Points since the rate first differed are not used for the rate before. */
	for (unsigned int k = 0;
	     split > cycles->last - cycles->count && k < AFTER + cycles->suspect; split--)
		k += isfinite(cycles_at(cycles, split).ahead_ns);
	before = fit_robust(cycles, split, split - BEFORE_AGE, BEFORE);
	if (after.count < AFTER || before.count < BEFORE_LEAST)
		return false;
	for (int64_t at = split - 2 * BEFORE; at <= split; at++)
		ahead_ns[found++] = cycles_at(cycles, at).ahead_ns;
	old_ns = most_bound_ns(cycles, split - BEFORE, split);
	new_ns = most_bound_ns(cycles, split + 1, cycles->last);
	noise_ns = cycles_noise_ns(ahead_ns, found);
	if (!isfinite(noise_ns))
		return false;
	limit_ppb = STEP_SIGMAS * noise_ns * hypot(1 / after.spread_s, 1 / before.spread_s);
	/* Fabric time may be what changed, within its bounds. */
	limit_ppb = fmax(limit_ppb, (new_ns / AFTER + old_ns / BEFORE) / STEP_S);
	if (limit_ppb < CYCLES_RATE_STEP_PPB)
		limit_ppb = CYCLES_RATE_STEP_PPB;
	/* Up to half way to the points before and after the step each rate is its own. */
	size_ns = (after.x - before.x) * STEP_S * (after.rate_ppb + before.rate_ppb) / 2;
	*step = (struct cycles_step){
		.before_ppb = before.rate_ppb,
		.after_ppb = after.rate_ppb,
		.jump_ns = after.level_ns - before.level_ns - size_ns,
	};
	return is_step(cycles, split, fabs(after.rate_ppb - before.rate_ppb), limit_ppb) ||
	       fabs(step->jump_ns) >
		       JUMP_LEAST_NS + 20 * noise_ns + 2 * (old_ns + new_ns) +
			       fabs(after.rate_ppb - before.rate_ppb) * BEFORE * STEP_S;
}

/* Those of the newest AFTER points alone stay. */
static void forget_before(struct cycles *cycles)
{
	unsigned int keep = 0, valid = 0;

	while (keep < cycles->count && valid < AFTER)
		valid += isfinite(cycles_at(cycles, cycles->last - keep++).ahead_ns);
	cycles->count = keep;
}

/* The interval's mean. As cycles_add(). */
static bool end_interval(struct cycles *cycles, int64_t index, struct cycles_step *step)
{
	struct cycles_point point = {
		.ahead_ns = cycles->area / (double)CYCLES_STEP_NS,
		.bound_ns = cycles->bound_ns,
	};

	if (cycles->count && index <= cycles->last)
		return false;
	put_point(cycles, index, &point);
	if (!differs(cycles, step)) {
		cycles->suspect = 0;
		return false;
	}
	/* Until all points after are of the new rate, and none of an interval with both. */
	if (++cycles->suspect < AFTER + MIXED)
		return false;
	cycles->suspect = 0;
	forget_before(cycles);
	return true;
}

static void begin_area(struct cycles *cycles, const struct cycles_reading *from)
{
	cycles->newest = *from;
	cycles->area = cycles->bound_ns = 0;
	cycles->whole = from->fabric_ns % CYCLES_STEP_NS == 0;
}

static void add_area(struct cycles *cycles, const struct cycles_reading *to)
{
	const struct cycles_reading *from = &cycles->newest;

	cycles->area +=
		(from->ahead_ns + to->ahead_ns) / 2 * (double)(to->fabric_ns - from->fabric_ns);
	cycles->bound_ns = fmax(cycles->bound_ns, fmax(from->bound_ns, to->bound_ns));
	cycles->newest = *to;
}

bool cycles_add(struct cycles *cycles, int64_t fabric_ns, uint64_t counter, double bound_ns,
		struct cycles_step *step)
{
	struct cycles_reading to = {.fabric_ns = fabric_ns, .bound_ns = bound_ns}, edge = to;
	int64_t span_ns, index;
	bool stepped = false;

	if (fabric_ns <= 0)
		return false;
	if (!cycles->reference_hz)
		begin(cycles, fabric_ns, counter);
	if (!cycles->reference_hz)
		return false;
	to.ahead_ns = ahead_of(cycles, fabric_ns, counter);
	if (!(fabs(to.ahead_ns) < FAR_NS)) {
		cycles_restart(cycles);
		return false;
	}
	span_ns = ns_sub(fabric_ns, cycles->newest.fabric_ns);
	if (!cycles->reads || span_ns <= 0 || span_ns > CYCLES_STEP_NS) {
		cycles->reads = true;
		begin_area(cycles, &to);
		return false;
	}
	index = cycles->newest.fabric_ns / CYCLES_STEP_NS;
	edge.fabric_ns = (index + 1) * CYCLES_STEP_NS;
	if (edge.fabric_ns <= fabric_ns) {
		edge.ahead_ns = cycles->newest.ahead_ns +
				(to.ahead_ns - cycles->newest.ahead_ns) *
					(double)(edge.fabric_ns - cycles->newest.fabric_ns) /
					(double)span_ns;
		add_area(cycles, &edge);
		stepped = cycles->whole && end_interval(cycles, index, step);
		begin_area(cycles, &edge);
	}
	add_area(cycles, &to);
	return stepped;
}

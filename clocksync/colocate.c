// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/colocate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clocksync/colocategroup.h"
#include "clocksync/cycles.h"

#define STEP_S ((double)CYCLES_STEP_NS / 1e9)
#define BLOCKS_MAX 64
#define COMPONENTS_MAX 24
#define MISSING_MOST 2 /* blocks in a row that are filled */
#define FILL_PASSES 3
#define STARTS_SHARE 0.9 /* of the hosts set the window; later ones have a shorter one */
#define STALE_POINTS 30
#define BASE_DENSITY (1 / 20000.0) /* per ppb: rates of hosts within +-10 ppm */
#define RING_PPB 1000.0
#define SCALED_PRIOR 2e-3  /* of guests on one machine those whose counter is scaled */
#define SAMPLES 4000	   /* pairs that the wander of a fleet is taken of */
#define FITTED_NATS 3.0	   /* what a fitted size is ahead of the listed noises, the rarest 0.05 */
#define NO_EVIDENCE (-2.3) /* log of the ratio: ten to one against */

/*
 * Slower errors of fabric time than a point's: a factor, 1 + (red / m)^2 of component m, or an
 * error `slow` times as large in long waves that is forgotten in @lasts_s.
 */
static const struct {
	double weight, factor, red, slow, lasts_s;
} noises[] = {
	{0.20, 1, 0, 0, 0},  {0.10, 2, 0, 0, 0},   {0.05, 4, 0, 0, 0},	 {0.05, 16, 0, 0, 0},
	{0.10, 1, 2, 0, 0},  {0.15, 1, 8, 0, 0},   {0.10, 1, 32, 0, 0},	 {0.07, 1, 0, 4, 10},
	{0.06, 1, 0, 4, 40}, {0.06, 1, 0, 16, 10}, {0.06, 1, 0, 16, 40},
};
/* Pairs of hosts whose wander has much in common: it may be of the room. */
static const struct {
	double weight, factor;
} wanders[] = {{0.6, 1}, {0.25, 0.5}, {0.15, 0.25}};
#define NOISES (sizeof(noises) / sizeof(noises[0]))
#define WANDERS (sizeof(wanders) / sizeof(wanders[0]))

/* Through a host's points: at point x of the window level + slope * x. */
struct line {
	double level, slope, count; /* count: points that are there */
};

struct member {
	size_t host;
	bool fresh; /* its pairs are of this window */
	struct line line;
	double rate_hz, rate_ppb; /* the latter against the fleet's median */
	double noise_ns, bound_ns, rate_bound_ppb;
	double wander; /* its square, relative to the fleet's */
	double crowd;  /* density of others' rates near its own, per ppb */
	double component[COMPONENTS_MAX];
};

struct window {
	int64_t begin, end;			     /* of grid indices */
	size_t length, block_count, component_count; /* length: points of a block */
	double seconds;
	struct member *members;
	size_t count;
	double fleet[COMPONENTS_MAX]; /* variance between two hosts; 0: not known */
	bool fleet_known;
	double density; /* of differences of rates, per ppb */
	double basis[COMPONENTS_MAX][BLOCKS_MAX];
	double common[CYCLES_POINTS]; /* of fabric time: beside the lines of all hosts */
};

/* --- a host's series in a window --- */

static size_t window_points(const struct window *window)
{
	return (size_t)(window->end - window->begin);
}

static double point_of(const struct colocate_series *series, int64_t index)
{
	if (index < series->first || index >= series->first + (int64_t)series->count)
		return NAN;
	return series->ahead_ns[index - series->first];
}

/*
 * A host's point @x of the window. One that it lacks is on its line, with what the points of the
 * others have in common then: fabric time may bend by more than the rates of two counters differ,
 * and lines through different points of one curve have different slopes.
 */
static double filled_point(const struct colocate_series *series, const struct window *window,
			   const struct line *line, size_t x)
{
	double y = point_of(series, window->begin + (int64_t)x);

	return isfinite(y) ? y : line->level + line->slope * (double)x + window->common[x];
}

/* @known: of the pass before, which fills what is missing; NULL: it is left out. */
static struct line fit(const struct colocate_series *series, const struct window *window,
		       const struct line *known)
{
	double n = 0, x = 0, y = 0, xx = 0, xy = 0, middle, base = NAN;
	size_t points = window_points(window);
	struct line line = {};

	middle = (double)points / 2;
	for (size_t at = 0; at < points; at++) {
		double dx = (double)at - middle;
		double dy = known ? filled_point(series, window, known, at)
				  : point_of(series, window->begin + (int64_t)at);

		if (!isfinite(dy))
			continue;
		if (!isfinite(base))
			base = dy;
		dy -= base;
		n++;
		x += dx;
		y += dy;
		xx += dx * dx;
		xy += dx * dy;
	}
	line.count = known ? known->count : n;
	if (n > 2) {
		line.slope = (n * xy - x * y) / (n * xx - x * x);
		line.level = base + (y - line.slope * x) / n - line.slope * middle;
	}
	return line;
}

/* Whether a host's gaps are short enough: in blocks, the first and the last one are there. */
static bool covers(const struct colocate_series *series, const struct window *window)
{
	size_t missing = MISSING_MOST;

	for (size_t k = 0; k < window->block_count; k++) {
		size_t found = 0;

		for (size_t i = 0; i < window->length; i++)
			found += isfinite(point_of(
				series, window->begin + (int64_t)(k * window->length + i)));
		missing = found ? 0 : missing + 1;
		if (missing > MISSING_MOST)
			return false;
	}
	return !missing;
}

/*
 * Errors of fabric time that turn a host's line the most: each as large as its bound, before the
 * middle of the window to one side, after it to the other. Of what is missing the largest.
 */
static double rate_bound_ppb(const struct colocate_series *series, const struct window *window)
{
	double middle = (double)(window_points(window) - 1) / 2, sum = 0, squares = 0;

	for (size_t x = 0; x < window_points(window); x++) {
		double from_middle = fabs((double)x - middle), bound_ns = series->bound_ns;
		int64_t index = window->begin + (int64_t)x;

		if (series->bounds_ns && isfinite(point_of(series, index)))
			bound_ns = series->bounds_ns[index - series->first];
		sum += from_middle * bound_ns;
		squares += from_middle * from_middle;
	}
	return sum / (squares * STEP_S);
}

static bool begin_member(const struct colocate_series *series, const struct window *window,
			 struct member *member)
{
	double points[CYCLES_POINTS];
	unsigned int found = 0;

	member->line = fit(series, window, NULL);
	if (member->line.count < COLOCATE_POINTS_LEAST || !(series->reference_hz > 0) ||
	    !covers(series, window))
		return false;
	for (int64_t at = window->begin; at < window->end && found < CYCLES_POINTS; at++)
		points[found++] = point_of(series, at);
	member->noise_ns = cycles_noise_ns(points, found);
	if (!isfinite(member->noise_ns))
		return false;
	/* Points are whole nanoseconds. */
	member->noise_ns = member->noise_ns < 0.5 ? 0.5 : member->noise_ns;
	member->bound_ns = series->bound_ns;
	member->rate_bound_ppb = rate_bound_ppb(series, window);
	return true;
}

/* The mean of what points are beside the lines of their hosts; where there is none, in between. */
static void take_common(const struct colocate_series *series, struct window *window)
{
	size_t points = window_points(window), last = SIZE_MAX;

	for (size_t x = 0; x < points; x++) {
		double sum = 0, n = 0;

		for (size_t i = 0; i < window->count; i++) {
			const struct member *member = &window->members[i];
			double y = point_of(&series[member->host], window->begin + (int64_t)x);

			if (!isfinite(y))
				continue;
			sum += y - member->line.level - member->line.slope * (double)x;
			n++;
		}
		if (!n)
			continue;
		window->common[x] = sum / n;
		for (size_t k = last == SIZE_MAX ? 0 : last + 1; k < x; k++)
			window->common[k] =
				last == SIZE_MAX
					? window->common[x]
					: window->common[last] +
						  (window->common[x] - window->common[last]) *
							  (double)(k - last) / (double)(x - last);
		last = x;
	}
	for (size_t k = last + 1; last != SIZE_MAX && k < points; k++)
		window->common[k] = window->common[last];
}

static void end_member(const struct colocate_series *series, const struct window *window,
		       struct member *member)
{
	double blocks[BLOCKS_MAX];

	for (size_t k = 0; k < window->block_count; k++) {
		double sum = 0;

		for (size_t x = k * window->length; x < (k + 1) * window->length; x++)
			sum += filled_point(series, window, &member->line, x) - member->line.level -
			       member->line.slope * (double)x;
		blocks[k] = sum / (double)window->length;
	}
	member->rate_hz = series->reference_hz * (1 + member->line.slope / STEP_S * 1e-9);
	for (size_t m = 0; m < window->component_count; m++) {
		member->component[m] = 0;
		for (size_t k = 0; k < window->block_count; k++)
			member->component[m] += blocks[k] * window->basis[m][k];
	}
}

/* Hosts whose series cover the window; those in @wanted are fresh. */
static void take_members(const struct colocate_series *series, size_t count, const bool *wanted,
			 struct window *window)
{
	window->count = 0;
	for (size_t i = 0; i < count; i++) {
		struct member *member = &window->members[window->count];

		*member = (struct member){.host = i, .fresh = wanted[i]};
		window->count += begin_member(&series[i], window, member);
	}
	/* Each pass leaves of an error as much as the share of points that are missing. */
	for (int pass = 0; pass < FILL_PASSES; pass++) {
		take_common(series, window);
		for (size_t i = 0; i < window->count; i++) {
			struct member *member = &window->members[i];

			member->line = fit(&series[member->host], window, &member->line);
		}
	}
	for (size_t i = 0; i < window->count; i++)
		end_member(&series[window->members[i].host], window, &window->members[i]);
}

/* --- the fleet --- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double slope_noise_ppb(const struct window *window, double noise_ns)
{
	double points = (double)(window->block_count * window->length);

	return noise_ns * sqrt(12 / points) / window->seconds;
}

static double pair_noise_ns(const struct member *a, const struct member *b)
{
	return hypot(a->noise_ns, b->noise_ns);
}

/* How dense rates are, of the fleet and around each host; those of one machine are not counted. */
static int take_rates(struct window *window)
{
	double *rates = calloc(window->count + 1, sizeof(*rates)), pairs = 0, middle;

	if (!rates)
		return -ENOMEM;
	for (size_t i = 0; i < window->count; i++)
		rates[i] = window->members[i].rate_hz;
	qsort(rates, window->count, sizeof(*rates), by_value);
	middle = rates[window->count / 2];
	for (size_t i = 0; i < window->count; i++) {
		window->members[i].rate_ppb = (window->members[i].rate_hz / middle - 1) * 1e9;
		rates[i] = (rates[i] / middle - 1) * 1e9;
	}
	for (size_t i = 0; i < window->count; i++) {
		struct member *member = &window->members[i];
		double core = 10 * slope_noise_ppb(window, 1.5 * member->noise_ns), near = 0;
		size_t low = 0, high = window->count;

		/* So much may the rates of one counter differ by slower errors of fabric time. */
		core = fmin(fmax(core, 4 * member->bound_ns / window->seconds), RING_PPB);

		while (low < high) {
			size_t at = (low + high) / 2;

			if (rates[at] < member->rate_ppb - core - RING_PPB)
				low = at + 1;
			else
				high = at;
		}
		for (; low < window->count && rates[low] <= member->rate_ppb + core + RING_PPB;
		     low++)
			near += fabs(rates[low] - member->rate_ppb) > core;
		member->crowd = near / (double)window->count / (2 * RING_PPB);
		pairs += member->crowd;
	}
	window->density = pairs / (double)window->count;
	if (window->density < BASE_DENSITY)
		window->density = BASE_DENSITY;
	free(rates);
	return 0;
}

/* Whether their rates are so far apart that the two are certainly different. */
static bool is_far(const struct window *window, const struct member *a, const struct member *b)
{
	return fabs(a->rate_ppb - b->rate_ppb) >
	       100 * slope_noise_ppb(window, pair_noise_ns(a, b)) + 100;
}

/* What all hosts have in common is of fabric time, or of their room. */
static void center_components(struct window *window)
{
	double values[COLOCATE_HOSTS_MAX], middle;

	for (size_t m = 0; m < window->component_count; m++) {
		for (size_t i = 0; i < window->count; i++)
			values[i] = window->members[i].component[m];
		qsort(values, window->count, sizeof(values[0]), by_value);
		middle = values[window->count / 2];
		for (size_t i = 0; i < window->count; i++)
			window->members[i].component[m] -= middle;
	}
}

static int take_wander(struct window *window)
{
	double *squares[COMPONENTS_MAX] = {};
	size_t found = 0, draw = 0;
	uint64_t state = 88172645463325252ull; /* the same choice of pairs each time */
	int err = 0;

	if (window->count < COLOCATE_FLEET_LEAST)
		return 0;
	for (size_t m = 0; m < window->component_count; m++) {
		squares[m] = calloc(SAMPLES, sizeof(double));
		err = squares[m] ? err : -ENOMEM;
	}
	while (!err && found < SAMPLES && draw++ < 10 * SAMPLES) {
		const struct member *a, *b;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		a = &window->members[(state >> 32) % window->count];
		b = &window->members[(state & 0xffffffff) % window->count];
		if (!is_far(window, a, b))
			continue;
		for (size_t m = 0; m < window->component_count; m++)
			squares[m][found] = pow(a->component[m] - b->component[m], 2);
		found++;
	}
	center_components(window);
	window->fleet_known = !err && found >= COLOCATE_FLEET_LEAST;
	for (size_t m = 0; m < window->component_count; m++) {
		if (window->fleet_known) {
			qsort(squares[m], found, sizeof(double), by_value);
			window->fleet[m] = squares[m][found / 2] / 0.455;
		}
		free(squares[m]);
	}
	for (size_t i = 0; window->fleet_known && i < window->count; i++) {
		struct member *member = &window->members[i];
		double sum = 2; /* a prior of two components like the fleet's */

		for (size_t m = 0; m < window->component_count; m++)
			sum += 2 * pow(member->component[m], 2) / window->fleet[m];
		member->wander = sum / (double)(window->component_count + 2);
		member->wander = member->wander > 1 ? 1 : member->wander;
	}
	return err;
}

/* --- a pair --- */

static double log_normal(double value, double variance)
{
	return -0.5 * (log(2 * M_PI * variance) + value * value / variance);
}

static double log_sum(const double *logs, size_t count)
{
	double most = logs[0], sum = 0;

	for (size_t i = 1; i < count; i++)
		most = most > logs[i] ? most : logs[i];
	for (size_t i = 0; i < count; i++)
		sum += exp(logs[i] - most);
	return most + log(sum);
}

/* Logarithms of likelihoods of one pair. */
struct evidence {
	double same;   /* one counter */
	double scaled; /* one counter, scaled for one of them; without SCALED_PRIOR */
	double other;
};

/* Variance of component @m, 1 for the rate, by the noise @k, relative to a point's. */
static double noise_at(const struct window *window, size_t k, double m, double most)
{
	double waves = m * M_PI * noises[k].lasts_s / window->seconds;
	double slow = fmin(noises[k].slow, most);

	return pow(fmin(noises[k].factor, most), 2) + pow(noises[k].red / m, 2) +
	       slow * slow / (1 + waves * waves);
}

/*
 * Without a fleet to compare with, wander is no evidence for one machine. It shows how much the
 * rates may be off: each noise counts by how well it explains the wander. It speaks against one
 * machine where none does so as well as white noise of its own size, which was fitted to it.
 */
static struct evidence weigh_rates(double same, double noise, double fitted, double crowd)
{
	return (struct evidence){
		.same = same - noise + fmin(0, noise - fitted + FITTED_NATS),
		.scaled = -INFINITY,
		.other = log(crowd),
	};
}

static struct evidence weigh(const struct window *window, const struct member *a,
			     const struct member *b)
{
	double noise_ns = pair_noise_ns(a, b), bound_ns = a->bound_ns + b->bound_ns;
	double block = noise_ns * noise_ns / (double)window->length;
	double rate_ppb = a->rate_ppb - b->rate_ppb, ratio = 0, crowd, alike;
	double rate = pow(slope_noise_ppb(window, noise_ns), 2);
	double same[NOISES], scaled[NOISES], other[WANDERS];
	double difference[COMPONENTS_MAX];
	double most = bound_ns > noise_ns ? bound_ns / noise_ns : 1;
	struct evidence evidence;

	for (size_t m = 0; m < window->component_count; m++) {
		difference[m] = a->component[m] - b->component[m];
		ratio += pow(difference[m], 2) / block / (double)window->component_count;
	}
	ratio = ratio < 1 ? 1 : ratio;
	for (size_t k = 0; k < NOISES; k++) {
		scaled[k] = log(noises[k].weight);
		for (size_t m = 0; m < window->component_count; m++)
			scaled[k] += log_normal(difference[m],
						block * noise_at(window, k, (double)m + 2, most));
		same[k] = scaled[k] + log_normal(rate_ppb, rate * noise_at(window, k, 1, most));
	}
	for (size_t k = 0; k < WANDERS; k++) {
		other[k] = log(wanders[k].weight);
		for (size_t m = 0; m < window->component_count; m++) {
			double variance = block * ratio;

			if (window->fleet_known)
				variance = fmax(block, window->fleet[m] * (a->wander + b->wander) /
							       2 * pow(wanders[k].factor, 2));
			other[k] += log_normal(difference[m], variance);
		}
	}
	crowd = fmax(window->density, fmax(a->crowd, b->crowd));
	if (!window->fleet_known)
		return weigh_rates(log_sum(same, NOISES), log_sum(scaled, NOISES),
				   log_sum(other, WANDERS), crowd);
	evidence.same = log_sum(same, NOISES);
	evidence.scaled = log_sum(scaled, NOISES) + log(crowd);
	evidence.other = log_sum(other, WANDERS) + log(crowd);
	/*
	 * Components of wander are not independent: that of two machines in one room is alike by
	 * its phase and period alone. So it counts half where it speaks for one machine.
	 */
	alike = (log_sum(scaled, NOISES) - log_sum(other, WANDERS)) / 2;
	if (alike > 0) {
		evidence.same -= alike;
		evidence.scaled -= alike;
	}
	return evidence;
}

static double correlation_of(const struct window *window, const struct member *a,
			     const struct member *b)
{
	double aa = 0, bb = 0, ab = 0;

	for (size_t m = 0; m < window->component_count; m++) {
		aa += a->component[m] * a->component[m];
		bb += b->component[m] * b->component[m];
		ab += a->component[m] * b->component[m];
	}
	return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
}

/* Far apart in rate, and their wander differs as that of hosts does: no need to weigh. */
static bool is_plainly_other(const struct window *window, const struct member *a,
			     const struct member *b)
{
	double sum = 0;

	if (!is_far(window, a, b) || !window->fleet_known)
		return false;
	for (size_t m = 0; m < window->component_count; m++)
		sum += pow(a->component[m] - b->component[m], 2) / window->fleet[m];
	return sum > 0.3 * (double)window->component_count;
}

/* Whether one counter would take an error of fabric time beyond its bounds. */
static bool exceeds_bounds(const struct window *window, const struct member *a,
			   const struct member *b)
{
	double most_ns = 2 * (a->bound_ns + b->bound_ns), square = 0;

	for (size_t m = 0; m < window->component_count; m++)
		square += pow(a->component[m] - b->component[m], 2);
	return fabs(a->rate_ppb - b->rate_ppb) > a->rate_bound_ppb + b->rate_bound_ppb ||
	       2 * sqrt(square / (double)window->block_count) > most_ns;
}

static void judge(const struct window *window, const struct member *a, const struct member *b,
		  struct colocate_pair *pair)
{
	struct evidence evidence;
	double prior = window->fleet_known ? COLOCATE_PRIOR : COLOCATE_PRIOR_SMALL;
	double logs[2], ratio;

	pair->rate_ppb = (float)((a->rate_hz / b->rate_hz - 1) * 1e9);
	pair->verdict = COLOCATE_OTHER;
	pair->probability = 0;
	if (is_plainly_other(window, a, b) && exceeds_bounds(window, a, b))
		return;
	evidence = weigh(window, a, b);
	logs[0] = evidence.same - evidence.other;
	logs[1] = log(SCALED_PRIOR) + evidence.scaled - evidence.other;
	/* In a small fleet wander cannot show one machine, so that nothing shows a scaled one. */
	ratio = window->fleet_known ? log_sum(logs, 2) : logs[0];
	pair->probability = (float)(1 / (1 + exp(-ratio) * (1 - prior) / prior));
	pair->correlation = (float)correlation_of(window, a, b);
	pair->scaled = window->fleet_known && logs[1] > logs[0];
	pair->verdict = pair->probability >= COLOCATE_CERTAIN		      ? COLOCATE_SAME
			: ratio < NO_EVIDENCE && exceeds_bounds(window, a, b) ? COLOCATE_OTHER
									      : COLOCATE_UNKNOWN;
}

/* --- windows --- */

static void set_basis(struct window *window)
{
	size_t points = window_points(window);

	window->length = (points + BLOCKS_MAX - 1) / BLOCKS_MAX;
	window->block_count = points / window->length;
	window->begin = window->end - (int64_t)(window->block_count * window->length);
	window->seconds = (double)(window->block_count * window->length) * STEP_S;
	window->component_count = window->block_count / 3;
	if (window->component_count > COMPONENTS_MAX)
		window->component_count = COMPONENTS_MAX;
	for (size_t m = 0; m < window->component_count; m++)
		for (size_t k = 0; k < window->block_count; k++)
			window->basis[m][k] = sqrt(2 / (double)window->block_count) *
					      cos(M_PI * (double)(m + 2) * ((double)k + 0.5) /
						  (double)window->block_count);
}

/* All pairs with a host in @wanted; hosts whose series do not cover the window are left out. */
static int solve_window(struct window *window, const struct colocate_series *series, size_t count,
			const bool *wanted, struct colocate *out)
{
	int err;

	window->count = 0;
	if (window->end - window->begin < COLOCATE_POINTS_LEAST)
		return 0;
	set_basis(window);
	take_members(series, count, wanted, window);
	if (!window->count)
		return 0;
	err = take_rates(window);
	if (!err)
		err = take_wander(window);
	for (size_t i = 0; !err && i < window->count; i++) {
		const struct member *a = &window->members[i];

		if (a->fresh) {
			out->seconds[a->host] = window->seconds;
			out->rate_hz[a->host] = a->rate_hz;
			out->noise_ns[a->host] = a->noise_ns;
		}
		for (size_t k = i + 1; k < window->count; k++) {
			const struct member *b = &window->members[k];

			if (a->fresh || b->fresh)
				judge(window, a, b,
				      &out->pairs[colocate_index(count, a->host, b->host)]);
		}
	}
	return err;
}

static int solve_windows(const struct colocate_series *series, size_t count, struct colocate *out)
{
	struct window *window = calloc(1, sizeof(*window));
	double *starts = calloc(count + 1, sizeof(*starts)), last = -INFINITY, first = -INFINITY;
	bool *wanted = calloc(count + 1, sizeof(*wanted));
	size_t usable = 0;
	int err = 0;

	if (window)
		window->members = calloc(count + 1, sizeof(*window->members));
	if (!window || !starts || !wanted || !window->members) {
		err = -ENOMEM;
		goto out;
	}
	for (size_t i = 0; i < count; i++)
		if (series[i].count)
			last = fmax(last, (double)(series[i].first + (int64_t)series[i].count));
	window->end = INT64_MAX;
	for (size_t i = 0; i < count; i++) {
		int64_t end = series[i].first + (int64_t)series[i].count;

		if (series[i].count < COLOCATE_POINTS_LEAST || (double)end < last - STALE_POINTS)
			continue;
		starts[usable++] = (double)series[i].first;
		wanted[i] = true;
		window->end = end < window->end ? end : window->end;
	}
	if (!usable)
		goto out;
	qsort(starts, usable, sizeof(*starts), by_value);
	window->begin = (int64_t)starts[(size_t)((double)(usable - 1) * STARTS_SHARE)];
	if (window->begin < window->end - CYCLES_POINTS)
		window->begin = window->end - CYCLES_POINTS;
	err = solve_window(window, series, count, wanted, out);
	/* The rest over what all of them have, if that is not too short. */
	for (size_t i = 0; i < count; i++) {
		wanted[i] = wanted[i] && !(out->seconds[i] > 0) &&
			    series[i].first + 2 * COLOCATE_POINTS_LEAST < window->end;
		if (wanted[i])
			first = fmax(first, (double)series[i].first);
	}
	if (!err && first > (double)window->begin) {
		window->begin = (int64_t)first;
		window->fleet_known = false;
		err = solve_window(window, series, count, wanted, out);
	}
out:
	if (window)
		free(window->members);
	free(window);
	free(starts);
	free(wanted);
	return err;
}

int colocate_solve(const struct colocate_series *series, size_t count, struct colocate *out)
{
	size_t pairs = count ? count * (count - 1) / 2 : 0;
	int err;

	*out = (struct colocate){.count = count};
	if (count > COLOCATE_HOSTS_MAX)
		return -E2BIG;
	out->pairs = calloc(pairs + 1, sizeof(*out->pairs));
	out->group = calloc(count + 1, sizeof(*out->group));
	out->seconds = calloc(count + 1, sizeof(*out->seconds));
	out->rate_hz = calloc(count + 1, sizeof(*out->rate_hz));
	out->noise_ns = calloc(count + 1, sizeof(*out->noise_ns));
	if (!out->pairs || !out->group || !out->seconds || !out->rate_hz || !out->noise_ns)
		return -ENOMEM;
	for (size_t i = 0; i < pairs; i++)
		out->pairs[i] = (struct colocate_pair){
			.probability = NAN, .rate_ppb = NAN, .correlation = NAN};
	for (size_t i = 0; i < count; i++)
		out->rate_hz[i] = out->noise_ns[i] = NAN;
	err = solve_windows(series, count, out);
	return err ? err : colocate_group(out);
}

void colocate_free(struct colocate *colocate)
{
	free(colocate->pairs);
	free(colocate->group);
	free(colocate->seconds);
	free(colocate->rate_hz);
	free(colocate->noise_ns);
	*colocate = (struct colocate){};
}

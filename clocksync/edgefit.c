// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/edgefit.h"

#include <errno.h>
#include <math.h>

#define STEPS_MAX 80
#define BRACKET_FIRST_PPB 20.0
#define BRACKET_GROWTH 8.0
#define SLOPE_EXACT_PPB 1e-6
#define MISSES_MAX 3

/* Backward points are mirrored, so that both sides minimize residuals. */
struct problem {
	const struct edgefit_side *side;
	size_t k[2];
	double *scratch;
};

/* A supporting line of the objective: its value and derivative at a slope. */
struct tangent {
	double slope, value, derivative;
};

static double mirror(int s)
{
	return s ? -1 : 1;
}

/* The k-th smallest (from 1) of @v, which is reordered. Wirth's selection. */
static double select_kth(double *v, size_t count, size_t k)
{
	ptrdiff_t low = 0, high = (ptrdiff_t)count - 1, target = (ptrdiff_t)k - 1;

	while (low < high) {
		double pivot = v[target];
		ptrdiff_t i = low, j = high;

		do {
			while (v[i] < pivot)
				i++;
			while (pivot < v[j])
				j--;
			if (i <= j) {
				double swap = v[i];
				v[i++] = v[j];
				v[j--] = swap;
			}
		} while (i <= j);
		if (j < target)
			low = i;
		if (target < i)
			high = j;
	}
	return v[target];
}

static double residual(const struct edgefit_side *side, int s, size_t i, double slope)
{
	return mirror(s) * (side->y[i] - slope * side->x[i]);
}

/* Up to so many lowest values: insertion into a sorted array; else selection. */
#define FEW 8

static double lowest_few(const double *v, size_t count, size_t k)
{
	double low[FEW];
	size_t have = 0;

	for (size_t i = 0; i < count; i++) {
		size_t j;

		/* k is at least 1 here. NOLINTNEXTLINE(clang-analyzer-core.*) */
		if (have == k && v[i] >= low[k - 1])
			continue;
		j = have < k ? have++ : k - 1;
		for (; j && low[j - 1] > v[i]; j--)
			low[j] = low[j - 1];
		low[j] = v[i];
	}
	return low[k - 1];
}

static double edge_of(const struct problem *problem, int s, size_t k, double slope)
{
	const struct edgefit_side *side = &problem->side[s];

	for (size_t i = 0; i < side->count; i++)
		problem->scratch[i] = residual(side, s, i, slope);
	if (k <= FEW)
		return lowest_few(problem->scratch, side->count, k);
	return select_kth(problem->scratch, side->count, k);
}

/* Adds one side's mean of the lowest residuals and its derivative. */
static void add_side(const struct problem *problem, int s, struct tangent *at)
{
	const struct edgefit_side *side = &problem->side[s];
	double edge = edge_of(problem, s, problem->k[s], at->slope);
	double sum = 0, x_sum = 0, x_tied = 0, weight = (double)problem->k[s] - 0.5, rest;
	size_t below = 0, tied = 0;

	for (size_t i = 0; i < side->count; i++) {
		double r = residual(side, s, i, at->slope);

		if (r < edge) {
			sum += r;
			x_sum += side->x[i];
			below++;
		} else if (r == edge) {
			x_tied += side->x[i];
			tied++;
		}
	}
	rest = weight - (double)below;
	sum += rest * edge;
	x_sum += rest * x_tied / (double)tied;
	at->value += sum / weight;
	at->derivative -= mirror(s) * x_sum / weight;
}

static struct tangent evaluate(const struct problem *problem, double slope, unsigned *steps)
{
	struct tangent at = {.slope = slope};

	add_side(problem, 0, &at);
	add_side(problem, 1, &at);
	(*steps)++;
	return at;
}

/* Steps from @low away to where the objective falls again, or to the limit. */
static struct tangent bracket(const struct problem *problem, struct tangent *from, double limit,
			      unsigned *steps)
{
	double direction = limit > from->slope ? 1 : -1, step = BRACKET_FIRST_PPB;

	for (;;) {
		double slope = from->slope + direction * step;
		struct tangent to;

		if (direction * (limit - slope) < 0)
			slope = limit;
		to = evaluate(problem, slope, steps);
		if (to.derivative * direction <= 0 || slope == limit)
			return to;
		*from = to;
		step *= BRACKET_GROWTH;
	}
}

/* Slope at the intersection of two tangents; the middle when they are nearly parallel. */
static double intersection(const struct tangent *low, const struct tangent *high)
{
	double fall = low->derivative - high->derivative;
	double slope = (high->value - low->value + low->derivative * low->slope -
			high->derivative * high->slope) /
		       fall;

	if (fall > 0 && slope > low->slope && slope < high->slope)
		return slope;
	return (low->slope + high->slope) / 2;
}

static struct tangent cutting_planes(const struct problem *problem, struct tangent low,
				     struct tangent high, unsigned *steps)
{
	struct tangent best = low.value > high.value ? low : high;

	while (high.slope - low.slope > SLOPE_EXACT_PPB && *steps < STEPS_MAX) {
		double width = high.slope - low.slope, slope = intersection(&low, &high);
		double upper = low.value + low.derivative * (slope - low.slope);
		struct tangent at = evaluate(problem, slope, steps);

		if (at.value >= best.value)
			best = at;
		/* On both tangents: the objective's corner itself. */
		if (at.derivative == 0 || upper - at.value <= 1e-9 * (1 + fabs(at.value)))
			break;
		*(at.derivative > 0 ? &low : &high) = at;
		if (high.slope - low.slope > width / 2) {
			at = evaluate(problem, (low.slope + high.slope) / 2, steps);
			if (at.value >= best.value)
				best = at;
			*(at.derivative > 0 ? &low : &high) = at;
		}
	}
	return best;
}

static void describe_side(const struct problem *problem, int s, struct edgefit_line *line)
{
	const struct edgefit_side *side = &problem->side[s];
	double edge = edge_of(problem, s, problem->k[s], line->slope_ppb), least = edge;
	double sum = 0, squares = 0;
	size_t count = 0;

	for (size_t i = 0; i < side->count; i++) {
		double r = residual(side, s, i, line->slope_ppb);

		if (r > edge)
			continue;
		least = fmin(least, r);
		sum += side->x[i];
		squares += side->x[i] * side->x[i];
		count++;
	}
	line->k[s] = problem->k[s];
	line->y_spread[s] = edge - least;
	line->x_mean[s] = sum / (double)count;
	line->x_spread[s] =
		sqrt(fmax(0, squares / (double)count - line->x_mean[s] * line->x_mean[s]));
	*(s ? &line->lower_ns : &line->upper_ns) = mirror(s) * edge;
}

static void solve(const struct problem *problem, const struct edgefit_hint *hint,
		  struct edgefit_line *line)
{
	double start = fmin(fmax(hint->slope_ppb, hint->least_ppb), hint->most_ppb);
	struct tangent low, high, best;
	unsigned steps = 0;

	best = low = high = evaluate(problem, start, &steps);
	if (best.derivative > 0 && start < hint->most_ppb)
		high = bracket(problem, &low, hint->most_ppb, &steps);
	else if (best.derivative < 0 && start > hint->least_ppb)
		low = bracket(problem, &high, hint->least_ppb, &steps);
	if (low.derivative > 0 && high.derivative < 0)
		best = cutting_planes(problem, low, high, &steps);
	else
		best = low.value > high.value ? low : high;
	line->slope_ppb = best.slope;
	line->value = best.value;
	line->steps += steps;
	line->clamped = best.slope <= hint->least_ppb || best.slope >= hint->most_ppb;
}

int edgefit_solve(const struct edgefit_side side[2], const size_t k[2],
		  const struct edgefit_hint *hint, double *scratch, struct edgefit_line *line)
{
	struct problem problem = {side, {k[0], k[1]}, scratch};

	for (int s = 0; s < 2; s++)
		if (k[s] < 1 || k[s] > side[s].count)
			return -EINVAL;
	line->steps = 0;
	solve(&problem, hint, line);
	describe_side(&problem, 0, line);
	describe_side(&problem, 1, line);
	return 0;
}

/* State of the search for k. */
struct search {
	size_t best[2];
	int misses[2];
};

static void search_evaluate(const struct problem *problem, double slope, size_t k,
			    const size_t most[2], double gap_ns, double width_ns,
			    struct search *search)
{
	double edge[2], gap[2];

	for (int s = 0; s < 2; s++) {
		edge[s] = edge_of(problem, s, problem->k[s], slope);
		gap[s] = edge[s] - edge_of(problem, s, (problem->k[s] + 1) / 2, slope);
	}
	for (int s = 0; s < 2; s++) {
		if (k > most[s] || search->misses[s] >= MISSES_MAX)
			continue;
		if (gap[s] <= gap_ns && edge[0] + edge[1] <= width_ns) {
			search->best[s] = k;
			search->misses[s] = 0;
		} else {
			search->misses[s]++;
		}
	}
}

/* Tries one k; false when a larger one cannot be better. */
static bool search_try(struct search *search, const struct edgefit_side side[2], size_t k,
		       const size_t most[2], double gap_ns, struct edgefit_hint *warm,
		       double *scratch, struct edgefit_line *line)
{
	struct problem problem = {side, {k, k}, scratch};

	for (int s = 0; s < 2; s++)
		if (k > most[s])
			problem.k[s] = search->best[s];
	solve(&problem, warm, line);
	warm->slope_ppb = line->slope_ppb;
	search_evaluate(&problem, line->slope_ppb, k, most, gap_ns, warm->width_ns, search);
	return search->misses[0] < MISSES_MAX || search->misses[1] < MISSES_MAX;
}

int edgefit_adapt(const struct edgefit_side side[2], const size_t most[2], double gap_ns,
		  const struct edgefit_hint *hint, double *scratch, struct edgefit_line *line)
{
	size_t largest = most[0] > most[1] ? most[0] : most[1], k = hint->first_k;
	struct edgefit_hint warm = *hint;
	struct search search = {{2, 2}, {0, 0}};

	if (side[0].count < 2 || side[1].count < 2)
		return -EINVAL;
	line->steps = 0;
	if (k > 2 && k <= most[0] && k <= most[1])
		search_try(&search, side, k, most, gap_ns, &warm, scratch, line);
	if (search.best[0] == 2 || search.best[1] == 2) {
		search = (struct search){{2, 2}, {0, 0}};
		k = 1;
	}
	while ((k *= 2) <= largest)
		if (!search_try(&search, side, k, most, gap_ns, &warm, scratch, line))
			break;
	return edgefit_solve(side, search.best, &warm, scratch, line);
}

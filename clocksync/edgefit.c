// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/edgefit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define STEPS_MAX 80
#define BRACKET_FIRST_PPB 2.0
#define BRACKET_GROWTH 8.0
#define SLOPE_EXACT_PPB 1e-6
#define MISSES_MAX 3

/*
 * Backward points are mirrored, so that both sides minimize residuals. With another slope a
 * residual changes by no more than `reach` times the slope's change, and so does the k-th smallest
 * one: the one that is `known` says of most points that they are not among the k lowest.
 */
struct problem {
	const struct edgefit_side *side;
	size_t k[2];
	double *scratch, *scratch_x; /* residuals of some points of a side, and their x */
	double reach[2];	     /* largest |x| of a side */
	struct {
		double slope, edge;
		size_t k; /* 0: none is known */
	} known[2];
};

/* A supporting line of the objective: its value and derivative at a slope. */
struct tangent {
	double slope, value, derivative;
};

static double mirror(int s)
{
	return s ? -1 : 1;
}

/* The k-th smallest (from 1) of @v, which is reordered, @x like it. Wirth's selection. */
static double select_kth(double *v, double *x, size_t count, size_t k)
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
				double swap = v[i], swap_x = x[i];

				v[i] = v[j];
				x[i++] = x[j];
				v[j] = swap;
				x[j--] = swap_x;
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

static struct problem problem_of(const struct edgefit_side side[2], double *scratch)
{
	size_t larger = side[0].count > side[1].count ? side[0].count : side[1].count;
	struct problem problem = {.side = side, .scratch = scratch, .scratch_x = scratch + larger};

	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < side[s].count; i++)
			problem.reach[s] = fmax(problem.reach[s], fabs(side[s].x[i]));
	return problem;
}

/* Points of a side whose residual is up to @most, into the scratch space; how many. */
static size_t gather_up_to(const struct problem *problem, int s, double slope, double most)
{
	const double *x = problem->side[s].x, *y = problem->side[s].y;
	double *values = problem->scratch, *values_x = problem->scratch_x;
	double sign = mirror(s), steep = sign * slope;
	size_t all = problem->side[s].count, count = 0;

	for (size_t i = 0; i < all; i++) {
		double r = sign * y[i] - steep * x[i]; /* residual(), to the bit */

		if (r <= most) {
			values[count] = r;
			values_x[count++] = x[i];
		}
	}
	return count;
}

/* The k-th smallest residual of a side. *@near: so many points in the scratch space have all up to
 * it. */
static double edge_near(struct problem *problem, int s, size_t k, double slope, size_t *near)
{
	double most = INFINITY, edge;
	size_t count;

	if (k <= problem->known[s].k)
		most = problem->known[s].edge +
		       fabs(slope - problem->known[s].slope) * problem->reach[s];
	count = gather_up_to(problem, s, slope, most);
	/* By rounding the limit may be too low. */
	if (count < k)
		count = gather_up_to(problem, s, slope, INFINITY);
	edge = k <= FEW ? lowest_few(problem->scratch, count, k)
			: select_kth(problem->scratch, problem->scratch_x, count, k);
	problem->known[s].slope = slope;
	problem->known[s].edge = edge;
	problem->known[s].k = k;
	*near = count;
	return edge;
}

static double edge_of(struct problem *problem, int s, size_t k, double slope)
{
	size_t near;

	return edge_near(problem, s, k, slope, &near);
}

/* Adds one side's mean of the lowest residuals and its derivative. */
static void add_side(struct problem *problem, int s, struct tangent *at)
{
	size_t below = 0, tied = 0, near;
	double edge = edge_near(problem, s, problem->k[s], at->slope, &near);
	double sum = 0, x_sum = 0, x_tied = 0, weight = (double)problem->k[s] - 0.5, rest;

	for (size_t i = 0; i < near; i++) {
		double r = problem->scratch[i];

		if (r < edge) {
			sum += r;
			x_sum += problem->scratch_x[i];
			below++;
		} else if (r == edge) {
			x_tied += problem->scratch_x[i];
			tied++;
		}
	}
	rest = weight - (double)below;
	sum += rest * edge;
	x_sum += rest * x_tied / (double)tied;
	at->value += sum / weight;
	at->derivative -= mirror(s) * x_sum / weight;
}

static struct tangent evaluate(struct problem *problem, double slope, unsigned *steps)
{
	struct tangent at = {.slope = slope};

	add_side(problem, 0, &at);
	add_side(problem, 1, &at);
	(*steps)++;
	return at;
}

/* Steps from @low away to where the objective falls again, or to the limit. */
static struct tangent bracket(struct problem *problem, struct tangent *from, double limit,
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

static struct tangent cutting_planes(struct problem *problem, struct tangent low,
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

static void describe_side(struct problem *problem, int s, struct edgefit_line *line)
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

static void solve(struct problem *problem, const struct edgefit_hint *hint,
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

static void describe(struct problem *problem, struct edgefit_line *line)
{
	describe_side(problem, 0, line);
	describe_side(problem, 1, line);
}

int edgefit_solve(const struct edgefit_side side[2], const size_t k[2],
		  const struct edgefit_hint *hint, double *scratch, struct edgefit_line *line)
{
	struct problem problem = problem_of(side, scratch);

	for (int s = 0; s < 2; s++) {
		if (k[s] < 1 || k[s] > side[s].count)
			return -EINVAL;
		problem.k[s] = k[s];
	}
	line->steps = 0;
	solve(&problem, hint, line);
	describe(&problem, line);
	return 0;
}

/* State of the search for k. */
struct search {
	size_t best[2];
	int misses[2];
	size_t solved[2]; /* k of `line`, the last that was the best when it was solved */
	struct edgefit_line line;
};

static void search_evaluate(struct problem *problem, double slope, size_t k, const size_t most[2],
			    double gap_ns, double width_ns, struct search *search)
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

static bool is_best(const struct search *search, const size_t k[2])
{
	return k[0] == search->best[0] && k[1] == search->best[1];
}

/* Tries one k; false when a larger one cannot be better. */
static bool search_try(struct search *search, struct problem *problem, size_t k,
		       const size_t most[2], double gap_ns, struct edgefit_hint *warm,
		       struct edgefit_line *line)
{
	for (int s = 0; s < 2; s++)
		problem->k[s] = k > most[s] ? search->best[s] : k;
	solve(problem, warm, line);
	warm->slope_ppb = line->slope_ppb;
	search_evaluate(problem, line->slope_ppb, k, most, gap_ns, warm->width_ns, search);
	if (is_best(search, problem->k)) {
		memcpy(search->solved, problem->k, sizeof(search->solved));
		search->line = *line;
	}
	return search->misses[0] < MISSES_MAX || search->misses[1] < MISSES_MAX;
}

int edgefit_adapt(const struct edgefit_side side[2], const size_t most[2], double gap_ns,
		  const struct edgefit_hint *hint, double *scratch, struct edgefit_line *line)
{
	size_t largest = most[0] > most[1] ? most[0] : most[1], k = hint->first_k;
	struct edgefit_hint warm = *hint;
	struct search search = {.best = {2, 2}};
	struct problem problem = problem_of(side, scratch);

	if (side[0].count < 2 || side[1].count < 2)
		return -EINVAL;
	line->steps = 0;
	if (k > 2 && k <= most[0] && k <= most[1])
		search_try(&search, &problem, k, most, gap_ns, &warm, line);
	if (search.best[0] == 2 || search.best[1] == 2) {
		search = (struct search){.best = {2, 2}};
		k = 1;
	}
	while ((k *= 2) <= largest)
		if (!search_try(&search, &problem, k, most, gap_ns, &warm, line))
			break;
	for (int s = 0; s < 2; s++)
		problem.k[s] = search.best[s];
	if (!is_best(&search, search.solved))
		solve(&problem, &warm, &search.line);
	*line = search.line;
	describe(&problem, line);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <stdlib.h>

#include "internal.h"

/* Of a normal distribution: deviation by mean deviation. */
#define DEVIATIONS 1.2533

void pathstat_clear(struct pathstat *stat)
{
	*stat = (struct pathstat){
		.floor_ns = NAN,
		.floor_before_ns = NAN,
		.now = stat->now,
		.before = stat->before,
	};
	delayhist_clear(&stat->now.delays);
	delayhist_clear(&stat->before.delays);
}

void pathstat_free(struct pathstat *stat)
{
	delayhist_free(&stat->now.delays);
	delayhist_free(&stat->before.delays);
}

bool pathstat_is_delay(double delay_ns)
{
	return fabs(delay_ns) < PATHSTAT_DELAY_MAX_NS;
}

void pathstat_add(struct pathstat *stat, int64_t at_ns, double delay_ns, double bound_ns)
{
	size_t at = stat->samples % PATHSTAT_RECENT;
	struct pathstat_window *window = &stat->now, spare;
	int64_t whole_ns, age_ns;

	if (!pathstat_is_delay(delay_ns))
		return;
	whole_ns = (int64_t)rint(delay_ns);
	if (!stat->samples) {
		stat->floor_begun_ns = stat->now_begun_ns = at_ns;
		stat->mean_ns = delay_ns;
	}
	/* After a window without samples the time before it is not known. */
	age_ns = at_ns - stat->floor_begun_ns;
	if (age_ns >= PATHSTAT_FLOOR_NS) {
		stat->floor_before_ns = age_ns < 2 * PATHSTAT_FLOOR_NS ? stat->floor_ns : NAN;
		stat->floor_ns = NAN;
		stat->floor_begun_ns = at_ns;
	}
	age_ns = at_ns - stat->now_begun_ns;
	if (age_ns >= PATHSTAT_WINDOW_NS) {
		spare = stat->before;
		stat->before = stat->now;
		stat->now = spare;
		stat->now_begun_ns = at_ns;
		delayhist_clear(&stat->now.delays);
		if (age_ns >= 2 * PATHSTAT_WINDOW_NS)
			delayhist_clear(&stat->before.delays);
	}
	stat->floor_ns = fmin(stat->floor_ns, delay_ns);
	if (!window->delays.count || whole_ns < window->min_ns)
		window->min_ns = whole_ns;
	if (!window->delays.count || whole_ns > window->max_ns)
		window->max_ns = whole_ns;
	delayhist_count(&window->delays, esc_owd_bucket(whole_ns));
	stat->recent[at].at_ns = at_ns;
	stat->recent[at].delay_ns = delay_ns;
	stat->recent[at].bound_ns = bound_ns;
	stat->spread_ns += (fabs(delay_ns - stat->mean_ns) - stat->spread_ns) / 4;
	stat->mean_ns += (delay_ns - stat->mean_ns) / 8;
	stat->samples++;
}

static int compare(const void *a, const void *b)
{
	const double *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

void pathstat_now(const struct pathstat *stat, int64_t span_ns, struct path_delay *out)
{
	double values[PATHSTAT_RECENT], off_ns = 0;
	size_t kept = stat->samples < PATHSTAT_RECENT ? stat->samples : PATHSTAT_RECENT, count = 0;

	*out = (struct path_delay){NAN, NAN, NAN, NAN, NAN, NAN, 0};
	if (!kept)
		return;
	out->floor_ns = fmin(stat->floor_ns, stat->floor_before_ns);
	out->spread_ns = stat->spread_ns;
	out->at_ns = stat->recent[(stat->samples - 1) % PATHSTAT_RECENT].at_ns;
	for (size_t i = 0; i < kept; i++) {
		if (out->at_ns - stat->recent[i].at_ns > span_ns)
			continue;
		values[count++] = stat->recent[i].delay_ns;
		out->bound_ns = fmax(out->bound_ns, stat->recent[i].bound_ns);
	}
	qsort(values, count, sizeof(values[0]), compare);
	out->delay_ns =
		count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
	out->worst_ns = values[count - 1];
	for (size_t i = 0; i < count; i++)
		off_ns += fabs(values[i] - out->delay_ns) / (double)count;
	/* The deviation of one or two samples is not known: that of all is used. */
	if (count < 3)
		off_ns = fmax(off_ns, stat->spread_ns);
	out->noise_ns = DEVIATIONS * off_ns / sqrt((double)count);
}

uint32_t pathstat_published_floor(const struct pathstat *stat, int64_t now_ns, double mesh_ns)
{
	double floor_ns = stat->samples ? fmin(stat->floor_ns, stat->floor_before_ns) : NAN;
	bool young =
		isnan(stat->floor_before_ns) && now_ns - stat->floor_begun_ns < PATHSTAT_YOUNG_NS;

	if (isnan(floor_ns) || young)
		floor_ns = fmin(floor_ns, mesh_ns);
	if (isnan(floor_ns))
		return 0;
	return (uint32_t)fmin(fmax(floor_ns, 0), (double)(UINT32_MAX - 1)) + 1;
}

static void add_window(struct delayhist *all, const struct pathstat_window *window,
		       struct quantiles *out)
{
	if (!window->delays.count)
		return;
	if (!all->count || window->min_ns < out->min_ns)
		out->min_ns = window->min_ns;
	if (!all->count || window->max_ns > out->max_ns)
		out->max_ns = window->max_ns;
	delayhist_add(all, &window->delays);
}

static int64_t within(int64_t ns, int64_t least_ns, int64_t most_ns)
{
	if (ns < least_ns)
		return least_ns;
	return ns > most_ns ? most_ns : ns;
}

void pathstat_quantiles(const struct pathstat *stat, int64_t now_ns, struct quantiles *out)
{
	pathstat_merge(&stat, 1, now_ns, out);
}

void pathstat_merge(const struct pathstat *const *stats, size_t count, int64_t now_ns,
		    struct quantiles *out)
{
	struct delayhist all = {};

	*out = (struct quantiles){};
	for (size_t i = 0; i < count; i++) {
		int64_t age_ns = now_ns - stats[i]->now_begun_ns;

		if (age_ns < 2 * PATHSTAT_WINDOW_NS)
			add_window(&all, &stats[i]->now, out);
		if (age_ns < PATHSTAT_WINDOW_NS)
			add_window(&all, &stats[i]->before, out);
	}
	out->samples = delayhist_samples(&all);
	/* Midpoints of buckets may lie beyond the extremes, which are exact. */
	out->p50_ns = within(delayhist_quantile(&all, 0.5), out->min_ns, out->max_ns);
	out->p99_ns = within(delayhist_quantile(&all, 0.99), out->p50_ns, out->max_ns);
	delayhist_free(&all);
}

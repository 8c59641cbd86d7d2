// SPDX-License-Identifier: BSD-2-Clause
#include "stat.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Of a normal distribution: deviation by mean deviation. */
#define DEVIATIONS 1.2533

void pathstat_clear(struct pathstat *stat)
{
	struct delayhist now = stat->now, before = stat->before;

	*stat = (struct pathstat){
		.floor_ns = NAN,
		.floor_before_ns = NAN,
		.now = now,
		.before = before,
	};
	delayhist_clear(&stat->now);
	delayhist_clear(&stat->before);
}

void pathstat_free(struct pathstat *stat)
{
	delayhist_free(&stat->now);
	delayhist_free(&stat->before);
}

/* After a window without samples the time before it is not known. */
static void rotate_floor(struct pathstat *stat, int64_t at_ns)
{
	if (at_ns - stat->floor_begun_ns < PATHSTAT_FLOOR_NS)
		return;
	stat->floor_before_ns =
		at_ns - stat->floor_begun_ns < 2 * PATHSTAT_FLOOR_NS ? stat->floor_ns : NAN;
	stat->floor_ns = NAN;
	stat->floor_begun_ns = at_ns;
}

static void rotate_window(struct pathstat *stat, int64_t at_ns)
{
	struct delayhist spare = stat->before;
	int64_t since_ns = at_ns - stat->now_begun_ns;

	if (since_ns < PATHSTAT_WINDOW_NS)
		return;
	if (since_ns < 2 * PATHSTAT_WINDOW_NS) {
		stat->before = stat->now;
		stat->before_min_ns = stat->now_min_ns;
		stat->before_max_ns = stat->now_max_ns;
		stat->now = spare;
	} else {
		delayhist_clear(&stat->before);
	}
	delayhist_clear(&stat->now);
	stat->now_begun_ns = at_ns;
}

void pathstat_add(struct pathstat *stat, int64_t at_ns, double delay_ns, double bound_ns)
{
	size_t at = stat->samples % PATHSTAT_RECENT;
	int64_t whole_ns = (int64_t)rint(delay_ns);
	double off_ns;

	if (!stat->samples) {
		stat->floor_begun_ns = stat->now_begun_ns = at_ns;
		stat->mean_ns = delay_ns;
	}
	rotate_floor(stat, at_ns);
	rotate_window(stat, at_ns);
	stat->floor_ns = fmin(stat->floor_ns, delay_ns);
	if (!stat->now.count || whole_ns < stat->now_min_ns)
		stat->now_min_ns = whole_ns;
	if (!stat->now.count || whole_ns > stat->now_max_ns)
		stat->now_max_ns = whole_ns;
	delayhist_count(&stat->now, esc_owd_bucket(whole_ns));
	stat->recent[at].at_ns = at_ns;
	stat->recent[at].delay_ns = delay_ns;
	stat->recent[at].bound_ns = bound_ns;
	off_ns = fabs(delay_ns - stat->mean_ns);
	stat->spread_ns += (off_ns - stat->spread_ns) / 4;
	stat->mean_ns += (delay_ns - stat->mean_ns) / 8;
	stat->samples++;
}

static int compare(const void *a, const void *b)
{
	const double *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

void pathstat_now(const struct pathstat *stat, int64_t span_ns, struct pathstat_now *out)
{
	double values[PATHSTAT_RECENT], off_ns = 0;
	size_t kept = stat->samples < PATHSTAT_RECENT ? stat->samples : PATHSTAT_RECENT, count = 0;

	*out = (struct pathstat_now){NAN, NAN, NAN, NAN, NAN, NAN, 0};
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

static int64_t within(int64_t ns, int64_t least_ns, int64_t most_ns)
{
	if (ns < least_ns)
		return least_ns;
	return ns > most_ns ? most_ns : ns;
}

void pathstat_quantiles(const struct pathstat *stat, int64_t now_ns, struct quantiles *out)
{
	struct delayhist both = {};
	int64_t since_ns = now_ns - stat->now_begun_ns;
	bool now = since_ns < 2 * PATHSTAT_WINDOW_NS && stat->now.count;
	bool before = since_ns < PATHSTAT_WINDOW_NS && stat->before.count;

	memset(out, 0, sizeof(*out));
	if (now)
		delayhist_add(&both, &stat->now);
	if (before)
		delayhist_add(&both, &stat->before);
	out->samples = delayhist_samples(&both);
	if (out->samples) {
		out->min_ns = now ? stat->now_min_ns : stat->before_min_ns;
		out->max_ns = now ? stat->now_max_ns : stat->before_max_ns;
		if (now && before && stat->before_min_ns < out->min_ns)
			out->min_ns = stat->before_min_ns;
		if (now && before && stat->before_max_ns > out->max_ns)
			out->max_ns = stat->before_max_ns;
		out->p50_ns = delayhist_quantile(&both, 0.5);
		out->p99_ns = delayhist_quantile(&both, 0.99);
		/* Midpoints of buckets may lie beyond the extremes, which are exact. */
		out->p50_ns = within(out->p50_ns, out->min_ns, out->max_ns);
		out->p99_ns = within(out->p99_ns, out->p50_ns, out->max_ns);
	}
	delayhist_free(&both);
}

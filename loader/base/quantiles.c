// SPDX-License-Identifier: BSD-2-Clause
#include "quantiles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	const int64_t *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

size_t quantiles_stats(const struct quantiles *delays, struct quantile_stat out[QUANTILE_STATS])
{
	out[0] = (struct quantile_stat){"min", (double)delays->min_ns / 1e9};
	out[1] = (struct quantile_stat){"p50", (double)delays->p50_ns / 1e9};
	out[2] = (struct quantile_stat){"p99", (double)delays->p99_ns / 1e9};
	out[3] = (struct quantile_stat){"max", (double)delays->max_ns / 1e9};
	return delays->samples ? QUANTILE_STATS : 0;
}

void quantiles_of(int64_t *values, size_t count, struct quantiles *out)
{
	memset(out, 0, sizeof(*out));
	if (!count)
		return;
	qsort(values, count, sizeof(*values), compare);
	out->samples = count;
	out->min_ns = values[0];
	out->p50_ns = values[(count - 1) / 2];
	out->p99_ns = values[(size_t)ceil(0.99 * (double)count) - 1];
	out->max_ns = values[count - 1];
}

// SPDX-License-Identifier: BSD-2-Clause
#include "passages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void passages_clear(struct passages *passages)
{
	passages->count = 0;
}

void passages_add(struct passages *passages, int64_t tx_ns, int64_t rx_ns)
{
	passages->at[passages->count++ % PASSAGES_KEPT] = (struct passage){tx_ns, rx_ns};
}

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

/* Both readings are whole nanoseconds and a fraction: their difference is small, they are not. */
static int64_t delay_ns(const struct passage *passage, const struct clock_line *sender,
			const struct clock_line *receiver)
{
	double left, came;
	int64_t left_ns = clock_line_at(sender, passage->tx_ns, &left);
	int64_t came_ns = clock_line_at(receiver, passage->rx_ns, &came);

	return ns_sub(came_ns, left_ns) + (int64_t)rint(came - left);
}

void passages_delays(const struct passages *passages, bool out_going, int64_t since_ns,
		     const struct clock_line *ours, const struct clock_line *theirs,
		     struct quantiles *out)
{
	uint64_t first = passages->count > PASSAGES_KEPT ? passages->count - PASSAGES_KEPT : 0;
	int64_t values[PASSAGES_KEPT];
	size_t count = 0;

	for (uint64_t i = first; i < passages->count; i++) {
		const struct passage *passage = &passages->at[i % PASSAGES_KEPT];

		if (ns_sub(out_going ? passage->tx_ns : passage->rx_ns, since_ns) < 0)
			continue;
		values[count++] =
			delay_ns(passage, out_going ? ours : theirs, out_going ? theirs : ours);
	}
	quantiles_of(values, count, out);
}

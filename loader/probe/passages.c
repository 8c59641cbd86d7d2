// SPDX-License-Identifier: BSD-2-Clause
#include "probe.h"

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

void passages_round_trips(const struct passages *there, const struct passages *back,
			  int64_t since_ns, struct quantiles *out)
{
	uint64_t first = there->count > PASSAGES_KEPT ? there->count - PASSAGES_KEPT : 0;
	int64_t values[PASSAGES_KEPT];
	size_t count = 0;

	for (uint64_t i = first; i < there->count; i++) {
		const struct passage *request = &there->at[i % PASSAGES_KEPT];
		const struct passage *reply = &back->at[i % PASSAGES_KEPT];

		if (request->tx_ns < since_ns)
			continue;
		values[count++] = ns_sub(ns_sub(reply->rx_ns, request->tx_ns),
					 ns_sub(reply->tx_ns, request->rx_ns));
	}
	quantiles_of(values, count, out);
}

// SPDX-License-Identifier: BSD-2-Clause
/* What became of the probes of an edge. */
#include <math.h>
#include <string.h>

#include "probe.h"

/* --- losses --- */

void losses_begin(struct losses *losses, uint32_t sequence)
{
	losses->expired = sequence;
	losses->newest = sequence;
	memset(losses->seen, 0, sizeof(losses->seen));
}

/* Where @sequence is in `seen`, and its *@bit there. */
static uint64_t *seen_at(struct losses *losses, uint32_t sequence, uint64_t *bit)
{
	*bit = 1ull << (sequence % 64);
	return &losses->seen[sequence % LOSSES_ROOM / 64];
}

void losses_reply(struct losses *losses, uint32_t sequence)
{
	uint32_t ahead = sequence - losses->expired;
	uint64_t bit, *seen = seen_at(losses, sequence, &bit);

	if (ahead >= LOSSES_ROOM) {
		losses->late += (int32_t)ahead < 0;
		return;
	}
	if (*seen & bit)
		return;
	*seen |= bit;
	losses->replied++;
	if ((int32_t)(sequence - losses->newest) < 0)
		losses->reordered++;
	else
		losses->newest = sequence;
}

void losses_expire(struct losses *losses, uint32_t sequence)
{
	for (; (int32_t)(sequence - losses->expired) > 0; losses->expired++) {
		uint64_t bit, *seen = seen_at(losses, losses->expired, &bit);

		losses->lost += !(*seen & bit);
		*seen &= ~bit;
	}
}

void losses_skip(struct losses *losses, uint32_t sequence)
{
	uint64_t lost = losses->lost;

	losses_expire(losses, sequence);
	losses->lost = lost;
}

/* --- passages --- */

void passages_clear(struct passages *passages)
{
	passages->count = 0;
}

void passages_add(struct passages *passages, int64_t tx_ns, int64_t rx_ns)
{
	passages->at[passages->count++ % PASSAGES_KEPT] = (struct passage){tx_ns, rx_ns};
}

static int64_t delay_of(const struct passage *passage, const struct clock_line *sender,
			const struct clock_line *receiver)
{
	double tx, rx; /* fractions: the difference of the readings is small, they are not */
	int64_t tx_ns = clock_line_at(sender, passage->tx_ns, &tx);
	int64_t rx_ns = clock_line_at(receiver, passage->rx_ns, &rx);

	return ns_sub(rx_ns, tx_ns) + (int64_t)rint(rx - tx);
}

/* They are in the order of their replies, which may overtake each other by less. */
#define DISORDER_NS 100000000

/* Index of the first that may be of @since_ns or later, by the time of our end. */
static uint64_t first_since(const struct passages *passages, bool out_going, int64_t since_ns)
{
	uint64_t kept = passages->count < PASSAGES_KEPT ? passages->count : PASSAGES_KEPT;
	uint64_t first = passages->count;

	for (; kept; kept--, first--) {
		const struct passage *before = &passages->at[(first - 1) % PASSAGES_KEPT];

		if (ns_sub(out_going ? before->tx_ns : before->rx_ns, since_ns) < -DISORDER_NS)
			break;
	}
	return first;
}

void passages_delays(const struct passages *passages, bool out_going, int64_t since_ns,
		     const struct clock_line *ours, const struct clock_line *theirs,
		     struct quantiles *out)
{
	const struct clock_line *sender = out_going ? ours : theirs;
	const struct clock_line *receiver = out_going ? theirs : ours;
	int64_t values[PASSAGES_KEPT];
	uint64_t i = first_since(passages, out_going, since_ns);
	size_t count = 0;

	for (; i < passages->count; i++) {
		const struct passage *passage = &passages->at[i % PASSAGES_KEPT];

		if (ns_sub(out_going ? passage->tx_ns : passage->rx_ns, since_ns) >= 0)
			values[count++] = delay_of(passage, sender, receiver);
	}
	quantiles_of(values, count, out);
}

/* Index of the first that came after the first @counted and is still there. */
static uint64_t first_after(const struct passages *passages, uint64_t counted)
{
	uint64_t from = counted <= passages->count ? counted : 0; /* they began again */

	return passages->count - from > PASSAGES_KEPT ? passages->count - PASSAGES_KEPT : from;
}

int passages_count(const struct passages *passages, uint64_t *counted,
		   const struct clock_line *sender, const struct clock_line *receiver,
		   struct delayhist *hist)
{
	uint64_t from = first_after(passages, *counted);
	int err = 0;

	for (; !err && from < passages->count; from++)
		err = delayhist_count(hist,
				      esc_owd_bucket(delay_of(&passages->at[from % PASSAGES_KEPT],
							      sender, receiver)));
	*counted = passages->count;
	return err;
}

static int64_t round_trip_of(const struct passages *there, const struct passages *back, uint64_t i)
{
	const struct passage *request = &there->at[i % PASSAGES_KEPT];
	const struct passage *reply = &back->at[i % PASSAGES_KEPT];

	return ns_sub(ns_sub(reply->rx_ns, request->tx_ns), ns_sub(reply->tx_ns, request->rx_ns));
}

void passages_round_trips(const struct passages *there, const struct passages *back,
			  int64_t since_ns, struct quantiles *out)
{
	int64_t values[PASSAGES_KEPT];
	size_t count = 0;

	for (uint64_t i = first_since(there, true, since_ns); i < there->count; i++)
		if (there->at[i % PASSAGES_KEPT].tx_ns >= since_ns)
			values[count++] = round_trip_of(there, back, i);
	quantiles_of(values, count, out);
}

int64_t passages_least_round_trip(const struct passages *there, const struct passages *back,
				  uint64_t *counted)
{
	int64_t least_ns = INT64_MAX;

	for (uint64_t i = first_after(there, *counted); i < there->count; i++) {
		int64_t ns = round_trip_of(there, back, i);

		least_ns = ns < least_ns ? ns : least_ns;
	}
	*counted = there->count;
	return least_ns;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * The cause of a slow collective. All ranks of a ring or a tree take equally long, whichever is
 * slow; what differs is what each waited for:
 *
 * - Of a slow hop the sender has data in the network for longer than the other senders, for as many
 *   bytes. It is not the receiver's doing: NCCL sends when the receiver has a buffer for it, and
 *   waiting for that is time of the peer.
 * - A slow rank has data that arrived and room to send, and waits for its own GPU. Of a rank behind
 * a slow one data has not arrived; one before it has no room.
 * - A late rank begins after the others, while the rank that sends to it has data ready.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define LEAST 3			     /* that are compared */
#define RATIO 2			     /* to the median of the others */
#define SHARE_PERCENT 20	     /* of the collective's duration, at least */
#define MEASURES_MAX (RANKS_MAX * 2) /* hops of a communicator that are compared */

static int compare_counts(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The lower one of two in the middle. Sorts. */
static uint64_t median_of(uint64_t values[], size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare_counts);
	return values[(count - 1) / 2];
}

/* Bytes; steps where the API does not tell them. */
static uint64_t size_of(const struct nccl_hop *hop)
{
	return hop->has_bytes ? hop->bytes : hop->steps;
}

static uint64_t each(uint64_t sum, uint32_t channels)
{
	return channels ? sum / channels : 0;
}

/* --- ranks --- */

uint64_t nccl_own_ns(const struct nccl_part *part)
{
	uint64_t sends = 0, receives = 0;

	for (size_t i = 0; i < part->hop_count; i++) {
		const struct nccl_hop *hop = &part->hops[i];
		uint64_t ns = each(hop->gpu_ns, hop->channels);

		if (hop->is_send && ns > sends)
			sends = ns;
		if (!hop->is_send && ns > receives)
			receives = ns;
	}
	return sends < receives ? sends : receives;
}

/* How long those that send to @rank waited for it, each with data ready. */
static uint64_t waited_for(const struct nccl_part *const parts[], size_t count, int32_t rank)
{
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t h = 0; h < parts[i]->hop_count; h++) {
			const struct nccl_hop *hop = &parts[i]->hops[h];

			if (hop->is_send && hop->peer == rank &&
			    each(hop->peer_ns, hop->channels) > most)
				most = each(hop->peer_ns, hop->channels);
		}
	return most;
}

/* The latest time, @sign 1, or the earliest, -1, at which it may have begun. */
static uint64_t begin_of(const struct nccl_part *part, bool one_host, int sign)
{
	return one_host ? part->begin_ns : (uint64_t)(part->at_ns + sign * part->bound_ns);
}

/* By how much it surely began after half of the others. */
static uint64_t late_ns(const struct nccl_part *const parts[], size_t count, bool one_host,
			const struct nccl_part *of)
{
	uint64_t begins[RANKS_MAX];
	size_t timed = 0;
	int64_t late;

	for (size_t i = 0; i < count && timed < RANKS_MAX; i++)
		if (one_host || parts[i]->is_timed)
			begins[timed++] = begin_of(parts[i], one_host, 1);
	if (timed < LEAST || !(one_host || of->is_timed))
		return 0;
	late = (int64_t)(begin_of(of, one_host, -1) - median_of(begins, timed));
	return late > 0 ? (uint64_t)late : 0;
}

static uint64_t held_up(const struct nccl_part *const parts[], size_t count, bool one_host,
			const struct nccl_part *of)
{
	uint64_t late = late_ns(parts, count, one_host, of),
		 waited = waited_for(parts, count, of->rank);

	return nccl_own_ns(of) + (late < waited ? late : waited);
}

static void judge_ranks(const struct nccl_part *const parts[], size_t count, bool one_host,
			struct nccl_verdict *out)
{
	uint64_t values[RANKS_MAX], most = 0, median;
	size_t known = 0, which = 0;

	for (size_t i = 0; i < count && known < RANKS_MAX; i++) {
		uint64_t ns = parts[i]->hop_count ? held_up(parts, count, one_host, parts[i]) : 0;

		if (!parts[i]->hop_count)
			continue;
		if (ns > most) {
			most = ns;
			which = i;
		}
		values[known++] = ns;
	}
	if (known < LEAST)
		return;
	median = median_of(values, known);
	if (most < RATIO * median || (most - median) * 100 < SHARE_PERCENT * out->duration_ns)
		return;
	out->cause = CAUSE_RANK;
	out->rank = parts[which]->rank;
	out->peer = -1;
	out->excess_ns = most - median;
	out->median_ns = median;
}

/* --- hops --- */

struct measure {
	const struct nccl_hop *hop;
	int32_t rank;
	double cost; /* ns in the network for a byte */
};

static int compare_costs(const void *a, const void *b)
{
	const struct measure *x = a, *y = b;

	return x->cost < y->cost ? -1 : x->cost > y->cost;
}

static size_t take_hops(const struct nccl_part *const parts[], size_t count,
			struct measure measures[MEASURES_MAX])
{
	size_t known = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t h = 0; h < parts[i]->hop_count && known < MEASURES_MAX; h++) {
			const struct nccl_hop *hop = &parts[i]->hops[h];

			if (hop->is_send && size_of(hop) && hop->network_ns)
				measures[known++] = (struct measure){hop, parts[i]->rank,
								     (double)hop->network_ns /
									     (double)size_of(hop)};
		}
	return known;
}

static void judge_hops(const struct nccl_part *const parts[], size_t count,
		       struct nccl_verdict *out)
{
	static struct measure measures[MEASURES_MAX];
	size_t known = take_hops(parts, count, measures);
	const struct measure *worst;
	double median, excess;

	if (!known)
		return;
	qsort(measures, known, sizeof(measures[0]), compare_costs);
	worst = &measures[known - 1];
	out->hop_rank = worst->rank;
	out->hop_peer = worst->hop->peer;
	out->hop_bytes = worst->hop->has_bytes ? worst->hop->bytes : 0;
	out->hop_ns = worst->hop->network_ns;
	if (known < LEAST)
		return;
	median = measures[(known - 1) / 2].cost * (double)size_of(worst->hop);
	excess = ((double)worst->hop->network_ns - median) / (double)worst->hop->channels;
	if ((double)worst->hop->network_ns < RATIO * median ||
	    excess * 100 < SHARE_PERCENT * (double)out->duration_ns)
		return;
	/* Of two that are slow the one that is slower is what the other one is hidden by. */
	if (out->cause == CAUSE_RANK && (double)out->excess_ns > excess)
		return;
	out->cause = CAUSE_LINK;
	out->rank = worst->rank;
	out->peer = worst->hop->peer;
	out->excess_ns = (uint64_t)excess;
	out->median_ns = (uint64_t)(median / worst->hop->channels);
}

void nccl_judge(const struct nccl_part *const parts[], size_t count, bool one_host,
		struct nccl_verdict *out)
{
	uint64_t durations[RANKS_MAX];
	size_t known = 0;

	*out = (struct nccl_verdict){.rank = -1, .peer = -1, .hop_rank = -1, .hop_peer = -1};
	for (size_t i = 0; i < count && known < RANKS_MAX; i++)
		if (parts[i]->end_ns)
			durations[known++] = parts[i]->end_ns - parts[i]->begin_ns;
	out->duration_ns = median_of(durations, known);
	if (!known)
		return;
	judge_ranks(parts, count, one_host, out);
	judge_hops(parts, count, out);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "sums.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

void delays_sums_free(struct delays_sums *sums)
{
	free(sums->destinations);
	*sums = (struct delays_sums){};
}

static struct delays_destination *destination_of(struct delays_sums *sums,
						 const struct esc_qp_key *key)
{
	struct delays_destination *at;
	size_t low = 0, high = sums->destination_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order;

		at = &sums->destinations[middle];
		order = memcmp(&at->dst, &key->dst, sizeof(key->dst));
		if (!order)
			order = (int)at->port - key->port;
		if (!order)
			return at;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (sums->destination_count == sums->destination_room) {
		size_t room = sums->destination_room * 2 + 16;

		at = reallocarray(sums->destinations, room, sizeof(*at));
		if (!at)
			return NULL;
		sums->destinations = at;
		sums->destination_room = room;
	}
	at = &sums->destinations[low];
	memmove(at + 1, at, (sums->destination_count++ - low) * sizeof(*at));
	*at = (struct delays_destination){.dst = key->dst, .port = key->port};
	return at;
}

void delays_sums_forget(struct delays_sums *sums, const struct delays_entry *entries, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < sums->destination_count; i++)
		sums->destinations[i].lives = false;
	for (size_t i = 0; i < count; i++)
		if (entries[i].known) {
			struct delays_destination *destination =
				destination_of(sums, &entries[i].key);

			if (destination)
				destination->lives = true;
		}
	for (size_t i = 0; i < sums->destination_count; i++)
		if (sums->destinations[i].lives)
			sums->destinations[kept++] = sums->destinations[i];
	sums->destination_count = kept;
}

/* A value that is younger than the one before counts from 0. */
static uint64_t beyond(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : now;
}

static void counts_add(struct delays_counts *counts, const struct esc_qp_owd *owd,
		       const struct delays_entry *before)
{
	counts->samples_sent += beyond(owd->samples_sent, before->samples_sent);
	counts->receipts += beyond(owd->receipts, before->receipts);
	counts->samples += beyond(owd->samples, before->samples);
	counts->samples_discarded += beyond(owd->samples_discarded, before->samples_discarded);
	counts->samples_expired += beyond(owd->samples_expired, before->samples_expired);
	counts->over += beyond(owd->over, before->over);
	counts->crossings += beyond(owd->crossings, before->crossings);
}

void delays_sums_add(struct delays_sums *sums, const struct delays_entry *entry,
		     const struct esc_qp_owd *owd)
{
	struct delays_destination *destination = destination_of(sums, &entry->key);
	struct delays_port *port = &sums->ports[entry->key.port % ESC_PORTS_MAX];
	const struct delayhist *look = &entry->state->look;
	uint64_t samples = delayhist_samples(look);

	if (destination)
		counts_add(&destination->counts, owd, entry);
	counts_add(&port->counts, owd, entry);
	for (size_t i = 0; i < look->count; i++)
		port->histogram[look->bars[i].bucket] += look->bars[i].count;
	/* Of samples in windows that a late look missed only the bucket is known. */
	if (entry->state->look_sum.counted >= samples)
		port->sum_ns += entry->state->look_sum.sum_ns;
	else
		port->sum_ns += delayhist_sum(look);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "fleet/fleet.h"

/* One queue pair, or one destination's sums, and where it belongs. */
struct part {
	struct delays_group key; /* host, dst, sport and port alone */
	const struct delays_entry *entry;
	const struct delays_destination *destination;
};

struct grouping {
	const struct delays *delays;
	const struct members *members;
	enum delays_by by;
	const uint8_t *fold;
	struct part *parts;
	size_t count;
	struct delayhist recent, scrape;
};

static int text_compare(const char *one, const char *two)
{
	if (!one || !two)
		return (one != NULL) - (two != NULL);
	return strcmp(one, two);
}

static int key_compare(const struct delays_group *one, const struct delays_group *two,
		       enum delays_by by)
{
	int order = text_compare(one->host, two->host);

	if (!order && (by == DELAYS_BY_PATH || !one->host))
		order = memcmp(&one->dst, &two->dst, sizeof(one->dst));
	if (!order)
		order = (int)one->port - two->port;
	if (!order && by == DELAYS_BY_PATH)
		order = (int)one->sport - two->sport;
	return order;
}

static int part_compare(const void *a, const void *b, void *by)
{
	const struct part *one = a, *two = b;
	int order = key_compare(&one->key, &two->key, *(const enum delays_by *)by);

	return order ? order : memcmp(&one->key.dst, &two->key.dst, sizeof(one->key.dst));
}

static struct part *add_part(struct grouping *grouping, const struct esc_address *dst, uint8_t port)
{
	struct part *part = &grouping->parts[grouping->count++];

	*part = (struct part){};
	part->key.host = members_host(grouping->members, dst);
	part->key.dst = *dst;
	part->key.port = grouping->fold ? grouping->fold[port % ESC_PORTS_MAX] : port;
	return part;
}

static int collect(struct grouping *grouping)
{
	size_t entry_count, destination_count;
	const struct delays_entry *entries = delays_entries(grouping->delays, &entry_count);
	const struct delays_destination *destinations =
		delays_destinations(grouping->delays, &destination_count);

	grouping->parts = calloc(entry_count + destination_count + 1, sizeof(*grouping->parts));
	if (!grouping->parts)
		return -ENOMEM;
	for (size_t i = 0; i < entry_count; i++) {
		struct part *part = add_part(grouping, &entries[i].key.dst, entries[i].key.port);

		part->entry = &entries[i];
		part->key.sport = entries[i].qp->qp.sport;
	}
	for (size_t i = 0; grouping->by == DELAYS_BY_PEER && i < destination_count; i++)
		add_part(grouping, &destinations[i].dst, destinations[i].port)->destination =
			&destinations[i];
	if (grouping->count)
		qsort_r(grouping->parts, grouping->count, sizeof(*grouping->parts), part_compare,
			&grouping->by);
	return 0;
}

static void counts_add(struct delays_counts *to, const struct delays_counts *more)
{
	to->samples_sent += more->samples_sent;
	to->receipts += more->receipts;
	to->samples += more->samples;
	to->samples_discarded += more->samples_discarded;
	to->samples_expired += more->samples_expired;
	to->over += more->over;
	to->crossings += more->crossings;
}

static int group_add(struct grouping *grouping, struct delays_group *group,
		     const struct delays_entry *entry)
{
	int err;

	group->qps++;
	group->sampled += entry->recent.samples > 0;
	group->bytes_per_second += entry->qp->bytes_per_second;
	group->loss_per_second += entry->qp->loss_per_second;
	if (entry->floor_known && (!group->floor_known || entry->floor_ns < group->floor_ns))
		group->floor_ns = entry->floor_ns;
	group->floor_known = group->floor_known || entry->floor_known;
	delays_span_add(&group->recent, &entry->recent);
	delays_span_add(&group->scrape, &entry->scrape);
	err = delays_add_recent(grouping->delays, entry, &grouping->recent);
	return err ? err : delays_add_scrape(entry, &grouping->scrape);
}

/* Parts @from and on that are of one group; returns where the next begins, or -ENOMEM. */
static ssize_t group_fill(struct grouping *grouping, size_t from, struct delays_group *group)
{
	size_t at;
	int err = 0;

	*group = grouping->parts[from].key;
	delayhist_clear(&grouping->recent);
	delayhist_clear(&grouping->scrape);
	for (at = from; !err && at < grouping->count; at++) {
		const struct part *part = &grouping->parts[at];

		if (key_compare(&part->key, &grouping->parts[from].key, grouping->by))
			break;
		if (part->entry)
			err = group_add(grouping, group, part->entry);
		else
			counts_add(&group->counts, &part->destination->counts);
	}
	if (group->recent.samples)
		delays_span_quantiles(&group->recent, &grouping->recent);
	if (group->scrape.samples)
		delays_span_quantiles(&group->scrape, &grouping->scrape);
	return err ? err : (ssize_t)at;
}

int delays_group(const struct delays *delays, const struct members *members, enum delays_by by,
		 const uint8_t *fold, struct delays_group **out, size_t *count)
{
	struct grouping grouping = {.delays = delays, .members = members, .by = by, .fold = fold};
	struct delays_group *groups = NULL;
	size_t found = 0;
	ssize_t at = 0;
	int err = collect(&grouping);

	if (!err)
		groups = calloc(grouping.count + 1, sizeof(*groups));
	if (!groups)
		err = -ENOMEM;
	while (!err && (size_t)at < grouping.count) {
		at = group_fill(&grouping, at, &groups[found++]);
		err = at < 0 ? (int)at : 0;
	}
	free(grouping.parts);
	delayhist_free(&grouping.recent);
	delayhist_free(&grouping.scrape);
	if (err) {
		free(groups);
		return err;
	}
	*out = groups;
	*count = found;
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"

struct grouping {
	const struct delays *delays;
	const struct members *members;
	const uint8_t *fold;
	struct delays_group *groups;
	size_t count, room;
	/* What the newest group was found for: entries to one destination follow each other. */
	struct esc_address dst;
	uint8_t port;
	size_t newest;
};

static bool is_of(const struct delays_group *group, const char *host, const struct esc_address *dst,
		  uint8_t port)
{
	if (group->port != port || !group->host != !host)
		return false;
	return host ? !strcmp(group->host, host) : !memcmp(&group->dst, dst, sizeof(*dst));
}

/* The group of what goes to @dst; NULL: no memory. */
static struct delays_group *find_group(struct grouping *grouping, const struct esc_address *dst,
				       uint8_t port)
{
	uint8_t folded = grouping->fold ? grouping->fold[port % ESC_PORTS_MAX] : port;
	const char *host = members_host(grouping->members, dst);
	size_t i = 0;

	if (grouping->count && grouping->port == port && !memcmp(&grouping->dst, dst, sizeof(*dst)))
		return &grouping->groups[grouping->newest];
	while (i < grouping->count && !is_of(&grouping->groups[i], host, dst, folded))
		i++;
	if (array_reserve(&grouping->groups, &grouping->room, i + 1, sizeof(*grouping->groups)))
		return NULL;
	if (i == grouping->count)
		grouping->groups[grouping->count++] =
			(struct delays_group){.host = host, .dst = *dst, .port = folded};
	grouping->dst = *dst;
	grouping->port = port;
	grouping->newest = i;
	return &grouping->groups[i];
}

static int add_entry(struct grouping *grouping, const struct qp_entry *qp)
{
	struct delays_group *group = find_group(grouping, &qp->key.dst, qp->key.port);
	const struct delays_entry *entry = qp->delays;
	int err = group ? 0 : -ENOMEM;

	if (err)
		return err;
	group->qps++;
	if (!entry)
		return 0;
	delays_span_add(&group->recent, &entry->recent);
	delays_span_add(&group->scrape, &entry->scrape);
	if (entry->recent.samples)
		err = delays_entry_add_recent(entry, grouping->delays->read_local_ns,
					      &group->recent_histogram);
	return err ? err : delayhist_add(&group->scrape_histogram, &entry->scrape_histogram);
}

int delays_group(const struct delays *delays, const struct members *members, const uint8_t *fold,
		 struct delays_group **out, size_t *count)
{
	struct grouping grouping = {.delays = delays, .members = members, .fold = fold};
	size_t qp_count;
	const struct qp_entry *qps = qptable_entries(delays->table, &qp_count);
	struct delays_group *group;
	int err = 0;

	for (size_t i = 0; !err && i < qp_count; i++)
		if (qps[i].key.direction == ESC_DIRECTION_TX)
			err = add_entry(&grouping, &qps[i]);
	for (size_t i = 0; !err && i < delays->destination_count; i++) {
		const struct delays_destination *destination = &delays->destinations[i];

		group = find_group(&grouping, &destination->dst, destination->port);
		if (group)
			delays_counts_add(&group->counts, &destination->counts);
		else
			err = -ENOMEM;
	}
	for (group = grouping.groups; group < grouping.groups + grouping.count; group++) {
		delays_span_finish(&group->recent, &group->recent_histogram);
		delays_span_finish(&group->scrape, &group->scrape_histogram);
		delayhist_free(&group->recent_histogram);
		delayhist_free(&group->scrape_histogram);
	}
	if (err) {
		free(grouping.groups);
		return err;
	}
	*out = grouping.groups;
	*count = grouping.count;
	return 0;
}

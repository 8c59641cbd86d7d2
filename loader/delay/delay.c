// SPDX-License-Identifier: BSD-2-Clause
/* The map `qp_owd` polled, sums by port and destination, and groups of queue pairs. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"

#define BATCH 128	       /* half a megabyte */
#define AGAIN_NS 100000000ull  /* a younger reading is good enough */
#define STILL_NS 2200000000ull /* after so long nothing of a queue pair's last is under way */
#define SWEEP_NS 60000000000ull
/* Less than any delay, also than one that a clock's error made negative. */
#define NO_DELAY (-1e18)

/* --- entries, in their slot of the registry --- */

static void drop(void *context, struct qp_entry *qp)
{
	const struct delays *delays = context;

	if (delays->reader.fd >= 0)
		bpf_map_delete_elem(delays->reader.fd, &qp->key);
	if (delays->sent_fd >= 0)
		bpf_map_delete_elem(delays->sent_fd, &qp->key);
	delays_entry_free(qp->delays);
	qp->delays = NULL;
}

/* The order of `qp --sort delay`: the 99th percentile of the last second. */
static double delay_order(const struct qp_entry *qp)
{
	return qp->delays && qp->delays->recent.samples ? (double)qp->delays->recent.p99_ns
							: NO_DELAY;
}

int delays_new(struct delays **out, int owd_fd, int sent_fd, uint32_t max, struct qptable *table)
{
	struct delays *delays = calloc(1, sizeof(*delays));

	*out = delays;
	if (!delays)
		return -ENOMEM;
	delays->table = table;
	delays->sent_fd = sent_fd;
	delays->reader = (struct mapread){.fd = owd_fd,
					  .max = max,
					  .key_bytes = sizeof(struct esc_qp_key),
					  .value_bytes = sizeof(struct esc_qp_owd),
					  .batch = BATCH};
	qptable_set_delays(table, drop, delays, delay_order);
	return 0;
}

void delays_free(struct delays *delays)
{
	struct qp_entry *qps;
	size_t count;

	if (!delays)
		return;
	qptable_set_delays(delays->table, NULL, NULL, NULL);
	qps = qptable_entries(delays->table, &count);
	for (size_t i = 0; i < count; i++) {
		delays_entry_free(qps[i].delays);
		qps[i].delays = NULL;
	}
	free(delays->destinations);
	free(delays->facts.peers);
	delayhist_free(&delays->scratch);
	mapread_free(&delays->reader);
	free(delays);
}

const struct delays_entry *delays_find(const struct delays *delays, const struct esc_qp_key *key)
{
	const struct qp_entry *qp = delays ? qptable_find(delays->table, key) : NULL;

	return qp ? qp->delays : NULL;
}

/* --- sums by port and by destination --- */

/* NULL: no memory. */
static struct delays_destination *destination_of(struct delays *delays,
						 const struct esc_qp_key *key)
{
	struct delays_destination *at;
	size_t low = 0, high = delays->destination_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order;

		at = &delays->destinations[middle];
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
	if (array_reserve(&delays->destinations, &delays->destination_room,
			  delays->destination_count + 1, sizeof(*at)))
		return NULL;
	at = &delays->destinations[low];
	memmove(at + 1, at, (delays->destination_count++ - low) * sizeof(*at));
	*at = (struct delays_destination){.dst = key->dst, .port = key->port};
	return at;
}

/* --- reading --- */

static int take(void *context, const void *key, const void *owd)
{
	struct delays *delays = context;
	struct qp_entry *qp = qptable_find(delays->table, key);
	const struct delayhist *added;
	struct delays_destination *to;
	struct delays_port *port;
	int err;

	if (!qp || qp->key.direction != ESC_DIRECTION_TX)
		return 0;
	if (!qp->delays)
		qp->delays = calloc(1, sizeof(*qp->delays));
	if (!qp->delays)
		return -ENOMEM;
	/* What is there at the first reading was counted for a daemon before us. */
	err = delays_entry_read(qp->delays, owd, delays->now_local_ns, !delays->read_local_ns,
				&delays->scratch);
	to = destination_of(delays, &qp->key);
	if (to)
		delays_counts_add(&to->counts, &qp->delays->added);
	port = &delays->ports[qp->key.port % ESC_PORTS_MAX];
	delays_counts_add(&port->counts, &qp->delays->added);
	added = &qp->delays->poll_histogram;
	for (size_t i = 0; i < added->count; i++)
		port->histogram[added->bars[i].bucket] += added->bars[i].count;
	port->sum_ns += qp->delays->poll.sum_ns;
	return err;
}

/* Receipts are under way for some time after the last packet. */
static bool is_moving(const struct delays *delays, const struct qp_entry *qp)
{
	return qp->key.direction == ESC_DIRECTION_TX &&
	       delays->now_local_ns - qp->seen_local_ns < STILL_NS;
}

/* In batches when most of it has moved, else what has. */
static int read_map(struct delays *delays)
{
	size_t count, moving = 0;
	const struct qp_entry *qps = qptable_entries(delays->table, &count);
	struct esc_qp_owd owd;
	int err = 0;

	for (size_t i = 0; i < count; i++)
		moving += is_moving(delays, &qps[i]);
	if (!delays->read_local_ns ||
	    (!delays->reader.no_batch && moving && moving >= delays->tracked / 2))
		return mapread_all(&delays->reader, take, delays);
	for (size_t i = 0; !err && i < count; i++)
		if (is_moving(delays, &qps[i]) &&
		    !bpf_map_lookup_elem(delays->reader.fd, &qps[i].key, &owd))
			err = take(delays, &qps[i].key, &owd);
	return err;
}

static bool is_tracked(const void *key, void *context)
{
	const struct delays *delays = context;

	return qptable_find(delays->table, key);
}

int delays_poll(struct delays *delays, uint64_t now_local_ns)
{
	struct delays_destination *destination;
	struct qp_entry *qps;
	size_t count, kept = 0;
	int err;

	if (delays->read_local_ns && now_local_ns - delays->read_local_ns < AGAIN_NS)
		return 0;
	delays->now_local_ns = now_local_ns;
	err = read_map(delays);
	if (err)
		return err;
	delays->tracked = 0;
	qps = qptable_entries(delays->table, &count);
	for (size_t i = 0; i < count; i++) {
		if (!qps[i].delays)
			continue;
		if (qps[i].delays->read_local_ns != now_local_ns)
			delays_entry_still(qps[i].delays);
		destination = destination_of(delays, &qps[i].key);
		if (destination)
			destination->lives = true;
		delays->tracked++;
	}
	for (size_t i = 0; i < delays->destination_count; i++) {
		if (!delays->destinations[i].lives)
			continue;
		delays->destinations[i].lives = false;
		delays->destinations[kept++] = delays->destinations[i];
	}
	delays->destination_count = kept;
	/* What a daemon before us left, or is of a queue pair of which no receipt ever came. */
	if (!delays->sweep_local_ns || now_local_ns - delays->sweep_local_ns >= SWEEP_NS) {
		if (delays->reader.fd >= 0)
			mapsweep(delays->reader.fd, sizeof(struct esc_qp_key), is_tracked, delays);
		if (delays->sent_fd >= 0)
			mapsweep(delays->sent_fd, sizeof(struct esc_qp_key), is_tracked, delays);
		delays->sweep_local_ns = now_local_ns;
	}
	delays->read_local_ns = now_local_ns;
	return 0;
}

uint64_t delays_interval_ns(const struct delays *delays)
{
	return delays->tracked > DELAYS_FAST_QPS ? DELAYS_SLOW_NS : DELAYS_FAST_NS;
}

void delays_written(void *self)
{
	const struct delays *delays = self;
	size_t count;
	struct qp_entry *qps = qptable_entries(delays->table, &count);

	for (size_t i = 0; i < count; i++)
		if (qps[i].delays)
			delays_entry_written(qps[i].delays);
}

/* --- groups --- */

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

/* The group of what goes to @dst; NULL: no memory. */
static struct delays_group *find_group(struct grouping *grouping, const struct esc_address *dst,
				       uint8_t port)
{
	uint8_t folded = grouping->fold ? grouping->fold[port % ESC_PORTS_MAX] : port;
	const char *host = members_host(grouping->members, dst);
	size_t i = 0;

	if (grouping->count && grouping->port == port && !memcmp(&grouping->dst, dst, sizeof(*dst)))
		return &grouping->groups[grouping->newest];
	for (; i < grouping->count; i++) {
		const struct delays_group *group = &grouping->groups[i];

		if (group->port == folded && !group->host == !host &&
		    !(host ? strcmp(group->host, host) : memcmp(&group->dst, dst, sizeof(*dst))))
			break;
	}
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

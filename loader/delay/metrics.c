// SPDX-License-Identifier: BSD-2-Clause
#include "metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "delay.h"
#include "group.h"
#include "fleet/fleet.h"
#include "api/metrics.h"
#include "base/prom.h"
#include "config/config.h"

/* Powers of two of ns, where buckets of the map begin: about 1 us to 1.1 s. */
#define BOUND_FIRST 10
#define BOUNDS 21

static double seconds(double ns)
{
	return ns / 1e9;
}

static const struct metrics_port *port_of(const struct metrics_facts *facts, unsigned int index)
{
	for (unsigned int i = 0; i < facts->port_count; i++)
		if (facts->ports[i].info.index == index)
			return &facts->ports[i];
	return NULL;
}

/* --- what labels a sample, whatever it is of --- */

struct subject {
	const char *netdev, *peer, *plane;				/* NULL: has none */
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], qpn[16]; /* "": has none */
	const struct delays_span *span;
	uint64_t over, crossings; /* ever */
};

#define LABELS(subject)                                                                            \
	"netdev", (subject)->netdev, "qpn", (subject)->qpn, "src", (subject)->src, "dst",          \
		(subject)->dst, "peer", (subject)->peer, "plane", (subject)->plane

static void write_spans(struct prom_family *delay, const struct subject *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct delays_span *span = list[i].span;
		const struct {
			const char *stat;
			int64_t ns;
		} stats[] = {
			{"min", span->min_ns},
			{"p50", span->p50_ns},
			{"p99", span->p99_ns},
			{"max", span->max_ns},
		};

		for (size_t s = 0; span->samples && s < sizeof(stats) / sizeof(stats[0]); s++)
			prom_value(delay, seconds((double)stats[s].ns), LABELS(&list[i]), "stat",
				   stats[s].stat, NULL);
	}
}

static void write_bounds(struct prom_family *bound, const struct subject *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].span->samples)
			prom_value(bound, seconds(list[i].span->bound_ns), LABELS(&list[i]), NULL);
}

static void write_thresholds(struct prom_family *over, struct prom_family *crossings,
			     const struct subject *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		prom_count(over, list[i].over, LABELS(&list[i]), NULL);
	for (size_t i = 0; i < count; i++)
		prom_count(crossings, list[i].crossings, LABELS(&list[i]), NULL);
}

/* --- queue pairs --- */

/* Those with delays since the last write, and with a name of their own. */
static size_t gather_qps(const struct metrics_facts *facts, const struct delays_entry **list)
{
	size_t count, found = 0;
	const struct delays_entry *entries = delays_entries(facts->delays, &count);

	for (size_t i = 0; i < count; i++)
		if (entries[i].scrape.samples && port_of(facts, entries[i].key.port))
			list[found++] = &entries[i];
	return found;
}

static int slowest_first(const void *a, const void *b)
{
	const struct delays_entry *one = *(const struct delays_entry *const *)a;
	const struct delays_entry *two = *(const struct delays_entry *const *)b;

	if (one->scrape.p99_ns != two->scrape.p99_ns)
		return one->scrape.p99_ns > two->scrape.p99_ns ? -1 : 1;
	return memcmp(&one->key, &two->key, sizeof(one->key));
}

static void name_qp(const struct metrics_facts *facts, const struct delays_entry *entry,
		    struct subject *out)
{
	*out = (struct subject){
		.netdev = port_of(facts, entry->key.port)->info.name,
		.peer = members_host(facts->members, &entry->key.dst),
		.span = &entry->scrape,
		.over = entry->over,
		.crossings = entry->crossings,
	};
	address_format(&entry->key.src, out->src);
	address_format(&entry->key.dst, out->dst);
	snprintf(out->qpn, sizeof(out->qpn), "%u", entry->key.dest_qpn);
}

static void write_qps(FILE *out, const struct metrics_facts *facts)
{
	size_t all, count;
	const struct delays_entry **list;
	struct subject *subjects;

	delays_entries(facts->delays, &all);
	list = calloc(all + 1, sizeof(*list));
	count = list ? gather_qps(facts, list) : 0;
	if (count)
		qsort(list, count, sizeof(*list), slowest_first);
	if (count > facts->top_qps)
		count = facts->top_qps;
	subjects = calloc(count + 1, sizeof(*subjects));
	for (size_t i = 0; subjects && i < count; i++)
		name_qp(facts, list[i], &subjects[i]);
	if (subjects) {
		write_spans(FAMILY("qp_owd_seconds", GAUGE,
				   "One-way delay of a queue pair's packets since the last write, "
				   "in fabric time."),
			    subjects, count);
		write_bounds(FAMILY("qp_owd_error_bound_seconds", GAUGE,
				    "Delays of this queue pair are true within this."),
			     subjects, count);
		write_thresholds(FAMILY("qp_owd_over_threshold_total", COUNTER,
					"Samples with a delay above receipts.threshold."),
				 FAMILY("qp_owd_threshold_crossings_total", COUNTER,
					"Times that the delay rose above receipts.threshold."),
				 subjects, count);
	}
	free(subjects);
	free(list);
}

/* --- peers --- */

static int busiest_first(const void *a, const void *b)
{
	const struct delays_group *one = a, *two = b;

	if (one->counts.samples != two->counts.samples)
		return one->counts.samples > two->counts.samples ? -1 : 1;
	return memcmp(&one->dst, &two->dst, sizeof(one->dst));
}

static size_t name_peers(const struct metrics_facts *facts, const struct delays_group *groups,
			 size_t count, struct subject *out)
{
	size_t named = 0;

	for (size_t i = 0; i < count && named < METRICS_DELAY_PEERS_MOST; i++) {
		const struct metrics_port *port = port_of(facts, groups[i].port);

		/* Whom nothing was measured to is no peer of these families. */
		if (!port || !groups[i].host ||
		    (!groups[i].counts.samples && !groups[i].scrape.samples))
			continue;
		out[named++] = (struct subject){
			.netdev = port->info.name,
			.peer = groups[i].host,
			.plane = config_plane_name(port->info.plane),
			.span = &groups[i].scrape,
			.over = groups[i].counts.over,
			.crossings = groups[i].counts.crossings,
		};
	}
	return named;
}

static void write_peers(FILE *out, const struct metrics_facts *facts)
{
	struct subject *subjects = calloc(METRICS_DELAY_PEERS_MOST, sizeof(*subjects));
	struct delays_group *groups;
	size_t count;

	if (!subjects ||
	    delays_group(facts->delays, facts->members, DELAYS_BY_PEER, NULL, &groups, &count)) {
		free(subjects);
		return;
	}
	if (count)
		qsort(groups, count, sizeof(*groups), busiest_first);
	count = name_peers(facts, groups, count, subjects);
	write_spans(FAMILY("peer_qp_owd_seconds", GAUGE,
			   "One-way delay of all queue pairs to a peer since the last write."),
		    subjects, count);
	write_bounds(FAMILY("peer_qp_owd_error_bound_seconds", GAUGE,
			    "Delays of queue pairs to this peer are true within this."),
		     subjects, count);
	write_thresholds(
		FAMILY("peer_qp_owd_over_threshold_total", COUNTER,
		       "Samples to a peer with a delay above receipts.threshold."),
		FAMILY("peer_qp_owd_threshold_crossings_total", COUNTER,
		       "Times that a queue pair's delay to a peer rose above receipts.threshold."),
		subjects, count);
	free(groups);
	free(subjects);
}

/* --- ports --- */

static void write_histogram(struct prom_family *family, const struct metrics_port *port,
			    const struct delays_port *delays)
{
	struct prom_histogram histogram = {.bound_count = BOUNDS, .sum = seconds(delays->sum_ns)};
	uint64_t below[BOUNDS];
	double bounds[BOUNDS];
	uint32_t bucket = 0;
	char number[16];

	for (unsigned int i = 0; i < BOUNDS; i++) {
		uint64_t ns = 1ull << (BOUND_FIRST + i);

		while (bucket + 1 < ESC_OWD_BUCKETS && esc_owd_bucket_floor(bucket + 1) <= ns)
			histogram.count += delays->histogram[bucket++];
		below[i] = histogram.count;
		bounds[i] = seconds((double)ns);
	}
	while (bucket < ESC_OWD_BUCKETS)
		histogram.count += delays->histogram[bucket++];
	histogram.bounds = bounds;
	histogram.below = below;
	snprintf(number, sizeof(number), "%u", port->info.rdma_port);
	prom_histogram(family, &histogram, "device", port->info.rdma_device, "port",
		       port->info.rdma_device[0] ? number : NULL, "netdev", port->info.name,
		       "plane", config_plane_name(port->info.plane), NULL);
}

static const struct port_family {
	const char *name, *help;
	size_t offset; /* in struct delays_counts */
} port_families[] = {
	{"receipts_noted_total", "Sampled packets that left.",
	 offsetof(struct delays_counts, noted)},
	{"receipts_matched_total", "Receipts that came back for them.",
	 offsetof(struct delays_counts, receipts)},
	{"receipts_spoiled_total",
	 "Sampled packets that were sent again, so that no receipt counts.",
	 offsetof(struct delays_counts, spoiled)},
	{"receipts_overwritten_total", "Sampled packets that no receipt came back for in time.",
	 offsetof(struct delays_counts, overwritten)},
	{"port_qp_owd_over_threshold_total",
	 "Samples of all queue pairs with a delay above receipts.threshold.",
	 offsetof(struct delays_counts, over)},
	{"port_qp_owd_threshold_crossings_total",
	 "Times that the delay of any queue pair rose above receipts.threshold.",
	 offsetof(struct delays_counts, crossings)},
};

static uint64_t count_at(const struct delays_counts *counts, size_t offset)
{
	return *(const uint64_t *)((const char *)counts + offset);
}

/* Nobody measures there, and nobody did: a 0 would say more. */
static bool port_is_told(const struct metrics_facts *facts, const struct port_info *port)
{
	return facts->receipts || delays_port(facts->delays, port->index)->counts.noted;
}

static void write_port_count(struct prom_family *family, const struct port_info *port,
			     uint64_t count)
{
	prom_count(family, count, "netdev", port->name, "plane", config_plane_name(port->plane), NULL);
}

static void write_port_counts(FILE *out, const struct metrics_facts *facts)
{
	struct prom_family *untimed =
		FAMILY("receipts_untimed_total", COUNTER,
		       "Receipts that tell no delay, since one end had no fabric time.");

	for (size_t f = 0; f < sizeof(port_families) / sizeof(port_families[0]); f++) {
		struct prom_family *family =
			FAMILY(port_families[f].name, COUNTER, port_families[f].help);

		for (unsigned int i = 0; i < facts->port_count; i++) {
			const struct port_info *port = &facts->ports[i].info;
			const struct delays_port *sums = delays_port(facts->delays, port->index);

			if (port_is_told(facts, port))
				write_port_count(family, port,
						 count_at(&sums->counts, port_families[f].offset));
		}
	}
	for (unsigned int i = 0; i < facts->port_count; i++) {
		const struct port_info *port = &facts->ports[i].info;
		const struct delays_counts *counts =
			&delays_port(facts->delays, port->index)->counts;

		if (port_is_told(facts, port))
			write_port_count(untimed, port, counts->receipts - counts->samples);
	}
}

static void write_ports(FILE *out, const struct metrics_facts *facts)
{
	struct prom_family *histogram =
		FAMILY("port_qp_owd_seconds", HISTOGRAM,
		       "One-way delays of all queue pairs since the daemon started.");

	for (unsigned int i = 0; i < facts->port_count; i++)
		if (port_is_told(facts, &facts->ports[i].info))
			write_histogram(histogram, &facts->ports[i],
					delays_port(facts->delays, facts->ports[i].info.index));
	write_port_counts(out, facts);
}

void metrics_write_delays(FILE *out, const struct metrics_facts *facts)
{
	if (!facts->delays || !facts->qps_read)
		return;
	prom_count(FAMILY("receipts_enabled", GAUGE,
			  "1 while packets are sampled and receipts are sent."),
		   facts->receipts && !facts->off, NULL);
	prom_count(FAMILY("qp_sampled", GAUGE, "Queue pairs of which packets were sampled."),
		   delays_tracked(facts->delays), NULL);
	write_qps(out, facts);
	write_peers(out, facts);
	write_ports(out, facts);
}

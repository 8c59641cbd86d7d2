// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "group.h"
#include "fleet/fleet.h"
#include "base/prom.h"
#include "config/config.h"

#define DELAY_METRICS(X)                                                                           \
	X(QP_OWD_SECONDS, "qp_owd_seconds", GAUGE,                                                 \
	  "One-way delay of a queue pair's packets since the last write, in fabric time.")         \
	X(QP_OWD_ERROR_BOUND_SECONDS, "qp_owd_error_bound_seconds", GAUGE,                         \
	  "Delays of this queue pair are true within this.")                                       \
	X(QP_OWD_OVER_THRESHOLD_TOTAL, "qp_owd_over_threshold_total", COUNTER,                     \
	  "Samples with a delay above receipts.threshold.")                                        \
	X(QP_OWD_THRESHOLD_CROSSINGS_TOTAL, "qp_owd_threshold_crossings_total", COUNTER,           \
	  "Times that the delay rose above receipts.threshold.")                                   \
	X(PEER_QP_OWD_SECONDS, "peer_qp_owd_seconds", GAUGE,                                       \
	  "One-way delay of all queue pairs to a peer since the last write.")                      \
	X(PEER_QP_OWD_ERROR_BOUND_SECONDS, "peer_qp_owd_error_bound_seconds", GAUGE,               \
	  "Delays of queue pairs to this peer are true within this.")                              \
	X(PEER_QP_OWD_OVER_THRESHOLD_TOTAL, "peer_qp_owd_over_threshold_total", COUNTER,           \
	  "Samples to a peer with a delay above receipts.threshold.")                              \
	X(PEER_QP_OWD_THRESHOLD_CROSSINGS_TOTAL, "peer_qp_owd_threshold_crossings_total", COUNTER, \
	  "Times that a queue pair's delay to a peer rose above receipts.threshold.")              \
	X(RECEIPTS_UNTIMED_TOTAL, "receipts_untimed_total", COUNTER,                               \
	  "Receipts that tell no delay, since one end had no fabric time.")                        \
	X(PORT_QP_OWD_SECONDS, "port_qp_owd_seconds", HISTOGRAM,                                   \
	  "One-way delays of all queue pairs since the daemon started.")                           \
	X(RECEIPTS_ENABLED, "receipts_enabled", GAUGE,                                             \
	  "1 while packets are sampled and receipts are sent.")                                    \
	X(QP_SAMPLED, "qp_sampled", GAUGE, "Queue pairs of which packets were sampled.")           \
	X(RECEIPTS_NOTED_TOTAL, "receipts_noted_total", COUNTER, "Sampled packets that left.")     \
	X(RECEIPTS_MATCHED_TOTAL, "receipts_matched_total", COUNTER,                               \
	  "Receipts that came back for them.")                                                     \
	X(RECEIPTS_SPOILED_TOTAL, "receipts_spoiled_total", COUNTER,                               \
	  "Sampled packets that were sent again, so that no receipt counts.")                      \
	X(RECEIPTS_OVERWRITTEN_TOTAL, "receipts_overwritten_total", COUNTER,                       \
	  "Sampled packets that no receipt came back for in time.")                                \
	X(PORT_QP_OWD_OVER_THRESHOLD_TOTAL, "port_qp_owd_over_threshold_total", COUNTER,           \
	  "Samples of all queue pairs with a delay above receipts.threshold.")                     \
	X(PORT_QP_OWD_THRESHOLD_CROSSINGS_TOTAL, "port_qp_owd_threshold_crossings_total", COUNTER, \
	  "Times that the delay of any queue pair rose above receipts.threshold.")
enum { DELAY_METRICS(METRIC_ENUM) };
const struct metric delay_metrics[] = {DELAY_METRICS(METRIC){}};

/* Powers of two of ns, where buckets of the map begin: about 1 us to 1.1 s. */
#define BOUND_FIRST 10
#define BOUNDS 21

/* Peers with series of their own: those that most samples went to. */
#define METRICS_DELAY_PEERS_MOST 128

struct delay_metrics_facts {
	const struct delays *delays;
	const struct members *members;
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count;
	uint32_t top_qps;
	bool receipts; /* configured */
};

static double seconds(double ns)
{
	return ns / 1e9;
}

static const struct port_facts *port_of(const struct delay_metrics_facts *facts, unsigned int index)
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
static size_t gather_qps(const struct delay_metrics_facts *facts, const struct delays_entry **list)
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

static void name_qp(const struct delay_metrics_facts *facts, const struct delays_entry *entry,
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

static void write_qps(FILE *out, const struct delay_metrics_facts *facts)
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
		write_spans(FAMILY_OF(&delay_metrics[QP_OWD_SECONDS]), subjects, count);
		write_bounds(FAMILY_OF(&delay_metrics[QP_OWD_ERROR_BOUND_SECONDS]), subjects,
			     count);
		write_thresholds(FAMILY_OF(&delay_metrics[QP_OWD_OVER_THRESHOLD_TOTAL]),
				 FAMILY_OF(&delay_metrics[QP_OWD_THRESHOLD_CROSSINGS_TOTAL]),
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

static size_t name_peers(const struct delay_metrics_facts *facts, const struct delays_group *groups,
			 size_t count, struct subject *out)
{
	size_t named = 0;

	for (size_t i = 0; i < count && named < METRICS_DELAY_PEERS_MOST; i++) {
		const struct port_facts *port = port_of(facts, groups[i].port);

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

static void write_peers(FILE *out, const struct delay_metrics_facts *facts)
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
	write_spans(FAMILY_OF(&delay_metrics[PEER_QP_OWD_SECONDS]), subjects, count);
	write_bounds(FAMILY_OF(&delay_metrics[PEER_QP_OWD_ERROR_BOUND_SECONDS]), subjects, count);
	write_thresholds(FAMILY_OF(&delay_metrics[PEER_QP_OWD_OVER_THRESHOLD_TOTAL]),
			 FAMILY_OF(&delay_metrics[PEER_QP_OWD_THRESHOLD_CROSSINGS_TOTAL]), subjects,
			 count);
	free(groups);
	free(subjects);
}

/* --- ports --- */

static void write_histogram(struct prom_family *family, const struct port_facts *port,
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
	unsigned int metric;
	size_t offset; /* in struct delays_counts */
} port_families[] = {
	{RECEIPTS_NOTED_TOTAL, offsetof(struct delays_counts, samples_sent)},
	{RECEIPTS_MATCHED_TOTAL, offsetof(struct delays_counts, receipts)},
	{RECEIPTS_SPOILED_TOTAL, offsetof(struct delays_counts, samples_discarded)},
	{RECEIPTS_OVERWRITTEN_TOTAL, offsetof(struct delays_counts, samples_expired)},
	{PORT_QP_OWD_OVER_THRESHOLD_TOTAL, offsetof(struct delays_counts, over)},
	{PORT_QP_OWD_THRESHOLD_CROSSINGS_TOTAL, offsetof(struct delays_counts, crossings)},
};

static uint64_t count_at(const struct delays_counts *counts, size_t offset)
{
	return *(const uint64_t *)((const char *)counts + offset);
}

/* Nobody measures there, and nobody did: a 0 would say more. */
static bool port_is_told(const struct delay_metrics_facts *facts, const struct port_info *port)
{
	return facts->receipts || delays_port(facts->delays, port->index)->counts.samples_sent;
}

static void write_port_count(struct prom_family *family, const struct port_info *port,
			     uint64_t count)
{
	prom_count(family, count, "netdev", port->name, "plane", config_plane_name(port->plane), NULL);
}

static void write_port_counts(FILE *out, const struct delay_metrics_facts *facts)
{
	struct prom_family *untimed = FAMILY_OF(&delay_metrics[RECEIPTS_UNTIMED_TOTAL]);

	for (size_t f = 0; f < sizeof(port_families) / sizeof(port_families[0]); f++) {
		struct prom_family *family = FAMILY_OF(&delay_metrics[port_families[f].metric]);

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

static void write_ports(FILE *out, const struct delay_metrics_facts *facts)
{
	struct prom_family *histogram = FAMILY_OF(&delay_metrics[PORT_QP_OWD_SECONDS]);

	for (unsigned int i = 0; i < facts->port_count; i++)
		if (port_is_told(facts, &facts->ports[i].info))
			write_histogram(histogram, &facts->ports[i],
					delays_port(facts->delays, facts->ports[i].info.index));
	write_port_counts(out, facts);
}

void delay_write_metrics(void *self, FILE *out)
{
	const struct delays *delays = self;
	struct delay_metrics_facts facts = {
		.delays = delays,
		.members = fleet_members(delays->core->fleet),
		.top_qps = delays->core->config->textfile.top_qps,
		.receipts = delays->core->config->receipts.on,
	};

	if (delays->poll_failed)
		return;
	facts.port_count = dataplane_read_ports(delays->dataplane, facts.ports);
	prom_count(FAMILY_OF(&delay_metrics[RECEIPTS_ENABLED]),
		   facts.receipts && !dataplane_is_off(delays->dataplane), NULL);
	prom_count(FAMILY_OF(&delay_metrics[QP_SAMPLED]), delays_tracked(delays), NULL);
	write_qps(out, &facts);
	write_peers(out, &facts);
	write_ports(out, &facts);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The metrics of candidate paths: of all, and of textfile.top_paths of them one by one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/fields.h"
#include "internal.h"

enum { PATHS_METRICS(METRIC_ENUM) };
const struct metric paths_metrics[] = {PATHS_METRICS(METRIC){}};

const double paths_failover_bounds[PATHS_FAILOVER_BUCKETS - 1] = {
	0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 1,
};

/* --- of all --- */

static void write_probes(FILE *out, const struct paths_facts *facts)
{
	struct prom_family *rates = FAMILY_OF(&paths_metrics[PATH_PROBE_RATE]);

	prom_count(FAMILY_OF(&paths_metrics[PATH_PROBES]), facts->sent, NULL);
	prom_count(FAMILY_OF(&paths_metrics[PATH_PROBES_FAILED]), facts->failed, NULL);
	prom_count(FAMILY_OF(&paths_metrics[PATH_PROBES_REPLIED]), facts->replied, NULL);
	prom_count(FAMILY_OF(&paths_metrics[PATH_PROBES_LOST]), facts->lost, NULL);
	prom_value(rates, facts->share.wanted_pps, "kind", "wanted", NULL);
	prom_value(rates, facts->share.given_pps, "kind", "given", NULL);
	prom_count(rates, facts->budget_pps, "kind", "budget", NULL);
}

static void write_failovers(FILE *out, const struct paths_facts *facts)
{
	struct prom_histogram histogram = {
		.bounds = paths_failover_bounds,
		.bound_count = PATHS_FAILOVER_BUCKETS - 1,
		.sum = facts->failover_sum_s,
	};
	uint64_t below[PATHS_FAILOVER_BUCKETS - 1];

	for (unsigned int i = 0; i < PATHS_FAILOVER_BUCKETS; i++) {
		histogram.count += facts->failover[i];
		if (i < PATHS_FAILOVER_BUCKETS - 1)
			below[i] = histogram.count;
	}
	histogram.below = below;
	prom_histogram(FAMILY_OF(&paths_metrics[FAILOVER_DURATION]), &histogram, NULL);
}

static void write_facts(FILE *out, const struct paths_facts *facts)
{
	struct prom_family *states = FAMILY_OF(&paths_metrics[PATHS_BY_STATE]);

	for (unsigned int state = 0; state < 4; state++)
		prom_count(states, facts->candidates[state], "state", pathlive_state_name(state),
			   NULL);
	prom_count(FAMILY_OF(&paths_metrics[PATH_PEERS]), facts->pairs, NULL);
	prom_count(FAMILY_OF(&paths_metrics[PATH_PEERS_REFUSED]), facts->pairs_refused, NULL);
	write_probes(out, facts);
	write_failovers(out, facts);
}

/* --- which of them one by one --- */

static int trouble_of(const struct path_facts *path)
{
	switch (path->state) {
	case PATHLIVE_DOWN:
		return 3;
	case PATHLIVE_HELD:
		return 2;
	case PATHLIVE_SUSPECT:
		return 1;
	case PATHLIVE_UP:
		break;
	}
	return path->diverted_ns != 0;
}

static int by_importance(const void *a, const void *b)
{
	const struct path_facts *one = &((const struct path_row *)a)->path;
	const struct path_facts *two = &((const struct path_row *)b)->path;
	int by_trouble = trouble_of(two) - trouble_of(one);

	if (by_trouble)
		return by_trouble;
	if (one->qps != two->qps)
		return one->qps > two->qps ? -1 : 1;
	if (one->slot != two->slot)
		return one->slot < two->slot ? -1 : 1;
	return (one->id > two->id) - (one->id < two->id);
}

void paths_sort_rows(struct path_row *rows, size_t count)
{
	if (count)
		qsort(rows, count, sizeof(*rows), by_importance);
}

/* To be freed. *@left_out: those beyond @most. NULL: no memory. */
static struct path_row *gather(const struct paths *paths, size_t most, size_t *count,
			       size_t *left_out)
{
	struct path_facts found[ESC_PATH_LANES_MAX];
	const struct path_pair_facts *pairs;
	size_t pair_count = paths_pairs(paths, &pairs), all = 0;
	struct path_row *rows = calloc(pair_count * ESC_PATH_LANES_MAX + 1, sizeof(*rows));

	if (!rows)
		return NULL;
	for (size_t i = 0; i < pair_count; i++) {
		size_t found_count = paths_candidates(paths, pairs[i].slot, found);

		for (size_t k = 0; k < found_count; k++)
			rows[all++] = (struct path_row){
				.pair = &pairs[i],
				.netdev = dataplane_port_name(paths->dataplane, pairs[i].port),
				.path = found[k],
			};
	}
	paths_sort_rows(rows, all);
	*count = all < most ? all : most;
	*left_out = all - *count;
	for (size_t i = 0; i < *count; i++)
		paths_quantiles(paths, rows[i].path.slot, rows[i].path.id, &rows[i].out,
				&rows[i].in);
	return rows;
}

/* --- one by one --- */

struct row_labels {
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], sport[16], group[16];
	struct prom_label list[9];
};

/* The group is a label of gauges alone: it may change, and a counter would start anew. */
static void make_labels(const struct path_row *row, bool group, struct row_labels *out)
{
	address_format(&row->pair->key.src, out->src);
	address_format(&row->pair->key.dst, out->dst);
	snprintf(out->sport, sizeof(out->sport), "%u", row->path.sport);
	*out->group = '\0';
	/* Which ports share a route may not be known yet. */
	if (group && row->path.group)
		snprintf(out->group, sizeof(out->group), "%u", row->path.group);
	memcpy(out->list,
	       (struct prom_label[9]){{"netdev", row->netdev},
				      {"peer", row->pair->peer},
				      {"src", out->src},
				      {"dst", out->dst},
				      {"sport", out->sport},
				      {"path", out->group}},
	       sizeof(out->list));
}

static const struct prom_label *gauge_labels(const struct path_row *row, struct row_labels *labels)
{
	make_labels(row, true, labels);
	return labels->list;
}

static const struct prom_label *counter_labels(const void *row, void *context)
{
	struct row_labels *labels = context;

	make_labels(row, false, labels);
	return labels->list;
}

/* One that was never replied to may be up or not. */
static unsigned int state_value(const struct path_facts *path)
{
	static const unsigned int values[] = {[PATHLIVE_DOWN] = 0,
					      [PATHLIVE_SUSPECT] = 1,
					      [PATHLIVE_UP] = 2,
					      [PATHLIVE_HELD] = 3};

	return values[path->state == PATHLIVE_UP && !path->heard ? PATHLIVE_SUSPECT : path->state];
}

static void write_states(FILE *out, const struct path_row *rows, size_t count)
{
	struct prom_family *state = FAMILY_OF(&paths_metrics[PATH_STATE]);
	struct prom_family *qps = FAMILY_OF(&paths_metrics[PATH_QPS]);
	struct prom_family *diverted = FAMILY_OF(&paths_metrics[PATH_DIVERTED]);
	struct row_labels labels;

	for (size_t i = 0; i < count; i++)
		prom_sample_count(state, state_value(&rows[i].path), gauge_labels(&rows[i], &labels));
	for (size_t i = 0; i < count; i++)
		prom_sample_count(qps, rows[i].path.qps, gauge_labels(&rows[i], &labels));
	for (size_t i = 0; i < count; i++)
		prom_sample_count(diverted, rows[i].path.diverted_ns != 0,
				  gauge_labels(&rows[i], &labels));
}

/* @labels: of the row, with room for two more. */
static void write_delays(struct prom_family *family, struct row_labels *labels,
			 const char *direction, const struct quantiles *delays)
{
	struct quantile_stat stats[QUANTILE_STATS];
	size_t count = quantiles_stats(delays, stats);

	labels->list[6] = (struct prom_label){"direction", direction};
	for (size_t i = 0; i < count; i++) {
		labels->list[7] = (struct prom_label){"stat", stats[i].name};
		prom_sample(family, stats[i].seconds, labels->list);
	}
	labels->list[7] = (struct prom_label){};
}

static void write_bound(struct prom_family *family, struct row_labels *labels,
			const char *direction, double bound_ns)
{
	labels->list[6] = (struct prom_label){"direction", direction};
	if (isfinite(bound_ns))
		prom_sample(family, bound_ns / 1e9, labels->list);
}

static void write_row_delays(FILE *out, const struct path_row *rows, size_t count)
{
	struct prom_family *delay = FAMILY_OF(&paths_metrics[PATH_OWD]);
	struct prom_family *bound = FAMILY_OF(&paths_metrics[PATH_OWD_BOUND]);
	struct row_labels labels;

	for (size_t i = 0; i < count; i++) {
		make_labels(&rows[i], true, &labels);
		write_delays(delay, &labels, "out", &rows[i].out);
		write_delays(delay, &labels, "in", &rows[i].in);
	}
	for (size_t i = 0; i < count; i++) {
		make_labels(&rows[i], true, &labels);
		write_bound(bound, &labels, "out", rows[i].path.bound_ns);
		write_bound(bound, &labels, "in", rows[i].path.in_bound_ns);
	}
}

#define PATH(member, type, key) FIELD(struct path_row, path.member, type, key)
static const struct field counters[] = {
	{PATH(sent, U64, NULL), .metric = &paths_metrics[PATH_SENT]},
	{PATH(replied, U64, NULL), .metric = &paths_metrics[PATH_REPLIED]},
	{PATH(lost, U64, NULL), .metric = &paths_metrics[PATH_LOST]},
	{},
};

void paths_write_rows(FILE *out, const struct path_row *rows, size_t count, size_t left_out)
{
	struct row_labels labels;

	prom_count(FAMILY_OF(&paths_metrics[PATHS_LEFT_OUT]), left_out, NULL);
	write_states(out, rows, count);
	write_row_delays(out, rows, count);
	fields_write(out, counters, rows, count, sizeof(*rows), counter_labels, &labels);
}

void paths_write_metrics(void *self, FILE *out)
{
	const struct paths *paths = self;
	size_t count, left_out;
	struct paths_facts facts;
	struct path_row *rows;

	paths_get(paths, &facts);
	if (!facts.on)
		return;
	write_facts(out, &facts);
	rows = gather(paths, paths->core->config->textfile.top_paths, &count, &left_out);
	if (rows)
		paths_write_rows(out, rows, count, left_out);
	free(rows);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The metrics of candidate paths: of all, and of textfile.top_paths of them one by one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "internal.h"

enum { PATHS_METRICS(METRIC_ENUM) };
const struct metric paths_metrics[] = {PATHS_METRICS(METRIC){}};

const double paths_failover_bounds[PATHS_FAILOVER_BUCKETS - 1] = {
	0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 1,
};

/* --- of all --- */

#define FACT(member, type, id)                                                                     \
	{                                                                                          \
		FIELD(struct paths_facts, member, type, NULL), .metric = &paths_metrics[id]        \
	}
static const struct field fact_fields[] = {
	FACT(pairs, U64, PATH_PEERS),
	FACT(pairs_refused, U64, PATH_PEERS_REFUSED),
	FACT(sent, U64, PATH_PROBES),
	FACT(failed, U64, PATH_PROBES_FAILED),
	FACT(replied, U64, PATH_PROBES_REPLIED),
	FACT(lost, U64, PATH_PROBES_LOST),
	{},
};

static void write_facts(FILE *out, const struct paths_facts *facts)
{
	struct prom_family *states = FAMILY_OF(&paths_metrics[PATHS_BY_STATE]);
	uint64_t below[PATHS_FAILOVER_BUCKETS], count = 0;
	struct prom_histogram failovers;

	for (unsigned int state = 0; state < 4; state++)
		prom_count(states, facts->candidates[state], "state", pathlive_state_name(state),
			   NULL);
	fields_write(out, fact_fields, facts, 1, sizeof(*facts), NULL, NULL);
	prom_value(FAMILY_OF(&paths_metrics[PATH_PROBES_WANTED]), facts->share.wanted_pps, NULL);
	prom_value(FAMILY_OF(&paths_metrics[PATH_PROBES_GRANTED]), facts->share.given_pps, NULL);
	prom_count(FAMILY_OF(&paths_metrics[PATH_PROBES_BUDGET]), facts->budget_pps, NULL);
	for (unsigned int i = 0; i < PATHS_FAILOVER_BUCKETS; i++)
		below[i] = count += facts->failover[i];
	failovers = (struct prom_histogram){.bounds = paths_failover_bounds,
					    .below = below,
					    .bound_count = PATHS_FAILOVER_BUCKETS - 1,
					    .count = count,
					    .sum = facts->failover_sum_s};
	prom_histogram(FAMILY_OF(&paths_metrics[FAILOVER_DURATION]), &failovers, NULL);
}

/* --- one by one --- */

static int trouble_of(const struct path_facts *path)
{
	static const int trouble[] = {
		[PATHLIVE_SUSPECT] = 1, [PATHLIVE_HOLD_DOWN] = 2, [PATHLIVE_DOWN] = 3};

	return path->state == PATHLIVE_UP ? path->diverted_ns != 0 : trouble[path->state];
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

static const struct prom_label *gauge_labels(const void *row, void *context)
{
	struct row_labels *labels = context;

	make_labels(row, true, labels);
	return labels->list;
}

static const struct prom_label *counter_labels(const void *row, void *context)
{
	struct row_labels *labels = context;

	make_labels(row, false, labels);
	return labels->list;
}

static void write_states(FILE *out, const struct path_row *rows, size_t count,
			 struct row_labels *labels)
{
	struct prom_family *states = FAMILY_OF(&paths_metrics[PATH_STATE]);
	struct prom_family *qps = FAMILY_OF(&paths_metrics[PATH_QPS]);
	struct prom_family *diverted = FAMILY_OF(&paths_metrics[PATH_DIVERTED]);

	for (size_t i = 0; i < count; i++) {
		const struct path_facts *path = &rows[i].path;
		/* One that was never replied to may be up or not. */
		bool unknown = path->state == PATHLIVE_UP && !path->heard;
		enum pathlive_state is = unknown ? PATHLIVE_SUSPECT : path->state;

		make_labels(&rows[i], true, labels);
		for (unsigned int state = 0; state < 4; state++) {
			labels->list[6] = (struct prom_label){"state", pathlive_state_name(state)};
			prom_sample_count(states, state == is, labels->list);
		}
	}
	for (size_t i = 0; i < count; i++)
		prom_sample_count(qps, rows[i].path.qps, gauge_labels(&rows[i], labels));
	for (size_t i = 0; i < count; i++)
		prom_sample_count(diverted, rows[i].path.diverted_ns != 0,
				  gauge_labels(&rows[i], labels));
}

static void write_delays(FILE *out, const struct path_row *rows, size_t count,
			 struct row_labels *labels)
{
	for (unsigned int s = 0; s < QUANTILE_STATS; s++) {
		struct prom_family *family = FAMILY_OF(&paths_metrics[PATH_OWD_MIN + s]);

		for (size_t i = 0; i < 2 * count; i++) {
			const struct path_row *row = &rows[i / 2];
			struct quantile_stat stats[QUANTILE_STATS];

			if (!quantiles_stats(i % 2 ? &row->in : &row->out, stats))
				continue;
			make_labels(row, true, labels);
			labels->list[6] = (struct prom_label){"direction", i % 2 ? "in" : "out"};
			prom_sample(family, stats[s].seconds, labels->list);
		}
	}
}

static void write_bounds(FILE *out, const struct path_row *rows, size_t count,
			 struct row_labels *labels)
{
	struct prom_family *family = FAMILY_OF(&paths_metrics[PATH_OWD_BOUND]);

	for (size_t i = 0; i < 2 * count; i++) {
		const struct path_facts *path = &rows[i / 2].path;
		double bound_ns = i % 2 ? path->in_bound_ns : path->bound_ns;

		make_labels(&rows[i / 2], true, labels);
		labels->list[6] = (struct prom_label){"direction", i % 2 ? "in" : "out"};
		if (isfinite(bound_ns))
			prom_sample(family, bound_ns / 1e9, labels->list);
	}
}

static bool has_group(const void *path)
{
	return ((const struct path_facts *)path)->group;
}

static bool has_deadline(const void *path)
{
	return ((const struct path_facts *)path)->deadline_ns;
}

static bool has_diverted(const void *path)
{
	return ((const struct path_facts *)path)->diverted_packets;
}

#define PATH(member, type, key) FIELD(struct path_facts, member, type, key)
const struct field path_fields[] = {
	{PATH(id, U32, "path_id")},
	{PATH(sport, U16, "sport")},
	{PATH(group, U32, "group"), .known = has_group},
	{PATH(sent, U64, "sent"), .metric = &paths_metrics[PATH_SENT]},
	{PATH(replied, U64, "replied"), .metric = &paths_metrics[PATH_REPLIED]},
	{PATH(lost, U64, "lost"), .metric = &paths_metrics[PATH_LOST]},
	{PATH(qps, U32, "qps")},
	{PATH(interval_ns, U64, "interval_ns")},
	{PATH(deadline_ns, U64, "dead_after_ns"), .known = has_deadline},
	{PATH(diverted_packets, U64, "diverted_packets"), .known = has_diverted},
	{},
};

void paths_write_rows(FILE *out, const struct path_row *rows, size_t count, size_t left_out)
{
	struct row_labels labels;

	prom_count(FAMILY_OF(&paths_metrics[PATHS_NOT_SHOWN]), left_out, NULL);
	write_states(out, rows, count, &labels);
	write_delays(out, rows, count, &labels);
	write_bounds(out, rows, count, &labels);
	fields_write(out, path_fields, rows, count, sizeof(*rows), counter_labels, &labels);
}

/* One by one: textfile.top_paths of them, those in trouble and the busiest first. */
void paths_write_metrics(void *self, FILE *out)
{
	const struct paths *paths = self;
	size_t most = paths->core->config->textfile.top_paths, count = 0;
	const struct path_pair_facts *pairs;
	size_t pair_count = paths_pairs(paths, &pairs);
	struct path_facts found[ESC_PATHS_MAX];
	struct paths_facts facts;
	struct path_row *rows;

	paths_get(paths, &facts);
	if (!facts.on)
		return;
	write_facts(out, &facts);
	rows = calloc(pair_count * ESC_PATHS_MAX + 1, sizeof(*rows));
	if (!rows)
		return;
	for (size_t i = 0; i < pair_count; i++) {
		size_t found_count = paths_candidates(paths, pairs[i].slot, found);

		for (size_t k = 0; k < found_count; k++)
			rows[count++] = (struct path_row){
				.pair = &pairs[i],
				.netdev = dataplane_port_name(paths->dataplane, pairs[i].port),
				.path = found[k],
			};
	}
	paths_sort_rows(rows, count);
	most = count < most ? count : most;
	for (size_t i = 0; i < most; i++)
		paths_quantiles(paths, rows[i].path.slot, rows[i].path.id, &rows[i].out,
				&rows[i].in);
	paths_write_rows(out, rows, most, count - most);
	free(rows);
}

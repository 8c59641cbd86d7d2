// SPDX-License-Identifier: BSD-2-Clause
#include "metrics_lanes.h"

#include <math.h>
#include <stdlib.h>

#include "base/address.h"
#include "api/metrics.h"
#include "base/prom.h"

/* --- which --- */

static int trouble_of(const struct metrics_lane *lane)
{
	switch (lane->lane.state) {
	case PATHLIVE_DOWN:
		return 3;
	case PATHLIVE_HELD:
		return 2;
	case PATHLIVE_SUSPECT:
		return 1;
	case PATHLIVE_UP:
		break;
	}
	return lane->lane.diverted_ns != 0;
}

static int first_first(const void *a, const void *b)
{
	const struct metrics_lane *one = a, *two = b;
	int by_trouble = trouble_of(two) - trouble_of(one);

	if (by_trouble)
		return by_trouble;
	if (one->lane.qps != two->lane.qps)
		return one->lane.qps > two->lane.qps ? -1 : 1;
	if (one->lane.slot != two->lane.slot)
		return one->lane.slot < two->lane.slot ? -1 : 1;
	return (one->lane.lane > two->lane.lane) - (one->lane.lane < two->lane.lane);
}

void metrics_lanes_sort(struct metrics_lane *list, size_t count)
{
	if (count)
		qsort(list, count, sizeof(*list), first_first);
}

void metrics_lanes_gather(const struct paths *paths, uint32_t most, struct metrics_lanes *out)
{
	struct path_lane_facts lanes[ESC_PATH_LANES_MAX];
	const struct path_pair_facts *pairs;
	size_t pair_count = paths_pairs(paths, &pairs), count = 0;

	*out = (struct metrics_lanes){0};
	out->list = calloc(pair_count * ESC_PATH_LANES_MAX + 1, sizeof(*out->list));
	if (!out->list)
		return;
	for (size_t i = 0; i < pair_count; i++) {
		size_t there = paths_lanes(paths, pairs[i].slot, lanes);

		for (size_t k = 0; k < there; k++)
			out->list[count++] =
				(struct metrics_lane){.pair = &pairs[i], .lane = lanes[k]};
	}
	metrics_lanes_sort(out->list, count);
	out->count = count < most ? count : most;
	out->left_out = count - out->count;
	for (size_t i = 0; i < out->count; i++)
		paths_quantiles(paths, out->list[i].lane.slot, out->list[i].lane.lane,
				&out->list[i].out, &out->list[i].in);
}

/* --- how they are written --- */

struct lane_names {
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], sport[16], path[16];
	const char *netdev, *peer;
};

static void name_lane(const struct metrics_facts *facts, const struct metrics_lane *lane,
		      struct lane_names *names)
{
	*names = (struct lane_names){.peer = lane->pair->peer};
	for (unsigned int i = 0; i < facts->port_count; i++)
		if (facts->ports[i].info.index == lane->pair->port)
			names->netdev = facts->ports[i].info.name;
	address_format(&lane->pair->key.src, names->src);
	address_format(&lane->pair->key.dst, names->dst);
	snprintf(names->sport, sizeof(names->sport), "%u", lane->lane.sport);
	/* Which ports share a path may not be known yet. */
	if (lane->lane.group)
		snprintf(names->path, sizeof(names->path), "%u", lane->lane.group);
}

/* Of a counter the path's number is no label: it may change, and a counter would begin anew. */
#define COUNTER_LABELS(names)                                                                      \
	"netdev", (names).netdev, "peer", (names).peer, "src", (names).src, "dst", (names).dst,    \
		"sport", (names).sport
#define LABELS(names) COUNTER_LABELS(names), "path", (names).path

/* Of one that was never answered nobody knows whether it is up. */
static unsigned int state_value(const struct path_lane_facts *lane)
{
	static const unsigned int values[] = {[PATHLIVE_DOWN] = 0,
					      [PATHLIVE_SUSPECT] = 1,
					      [PATHLIVE_UP] = 2,
					      [PATHLIVE_HELD] = 3};

	return values[lane->state == PATHLIVE_UP && !lane->heard ? PATHLIVE_SUSPECT : lane->state];
}

static void write_delays(struct prom_family *family, const struct lane_names *names,
			 const char *direction, const struct quantiles *delays)
{
	struct quantile_stat stats[QUANTILE_STATS];
	size_t count = quantiles_stats(delays, stats);

	for (size_t i = 0; i < count; i++)
		prom_value(family, stats[i].seconds, LABELS(*names), "direction", direction, "stat",
			   stats[i].name, NULL);
}

static void write_bound(struct prom_family *family, const struct lane_names *names,
			const char *direction, double bound_ns)
{
	if (isfinite(bound_ns))
		prom_value(family, bound_ns / 1e9, LABELS(*names), "direction", direction, NULL);
}

static void write_gauges(FILE *out, const struct metrics_facts *facts,
			 const struct lane_names *names)
{
	const struct metrics_lanes *lanes = &facts->lanes;
	struct prom_family *state =
		FAMILY("path_state", GAUGE,
		       "A candidate path, by source port: 0 down, 1 suspect, 2 up, 3 held (alive, "
		       "not trusted yet). Ports with one path number share a path.");
	struct prom_family *qps =
		FAMILY("path_qps", GAUGE, "Queue pairs whose packets are to take this path.");
	struct prom_family *diverted =
		FAMILY("path_diverted", GAUGE, "1 while packets of this path take its standby.");
	struct prom_family *delay =
		FAMILY("path_owd_seconds", GAUGE,
		       "One-way delay of a path's probes in the last seconds, in fabric time.");
	struct prom_family *bound = FAMILY("path_owd_error_bound_seconds", GAUGE,
					   "Delays of this path are true within this.");

	for (size_t i = 0; i < lanes->count; i++)
		prom_count(state, state_value(&lanes->list[i].lane), LABELS(names[i]), NULL);
	for (size_t i = 0; i < lanes->count; i++)
		prom_count(qps, lanes->list[i].lane.qps, LABELS(names[i]), NULL);
	for (size_t i = 0; i < lanes->count; i++)
		prom_count(diverted, lanes->list[i].lane.diverted_ns != 0, LABELS(names[i]), NULL);
	for (size_t i = 0; i < lanes->count; i++) {
		write_delays(delay, &names[i], "out", &lanes->list[i].out);
		write_delays(delay, &names[i], "in", &lanes->list[i].in);
	}
	for (size_t i = 0; i < lanes->count; i++) {
		write_bound(bound, &names[i], "out", lanes->list[i].lane.bound_ns);
		write_bound(bound, &names[i], "in", lanes->list[i].lane.in_bound_ns);
	}
}

static const struct lane_family {
	const char *name, *help;
	size_t offset; /* in struct path_lane_facts */
} lane_families[] = {
	{"path_sent_total", "Probes sent on a path.", offsetof(struct path_lane_facts, sent)},
	{"path_answered_total", "Probes of a path that were answered.",
	 offsetof(struct path_lane_facts, answered)},
	{"path_lost_total", "Probes of a path without an answer within a second.",
	 offsetof(struct path_lane_facts, lost)},
};

static void write_counters(FILE *out, const struct metrics_facts *facts,
			   const struct lane_names *names)
{
	for (size_t f = 0; f < sizeof(lane_families) / sizeof(lane_families[0]); f++) {
		struct prom_family *family =
			FAMILY(lane_families[f].name, COUNTER, lane_families[f].help);

		for (size_t i = 0; i < facts->lanes.count; i++)
			prom_count(family,
				   *(const uint64_t *)((const char *)&facts->lanes.list[i].lane +
						       lane_families[f].offset),
				   COUNTER_LABELS(names[i]), NULL);
	}
}

void metrics_write_lanes(FILE *out, const struct metrics_facts *facts)
{
	const struct metrics_lanes *lanes = &facts->lanes;
	struct lane_names *names;

	if (!facts->paths.there || !facts->paths.on)
		return;
	prom_count(FAMILY("paths_left_out", GAUGE,
			  "Candidate paths without series of their own (textfile.top_paths)."),
		   lanes->left_out, NULL);
	names = calloc(lanes->count + 1, sizeof(*names));
	if (!names)
		return;
	for (size_t i = 0; i < lanes->count; i++)
		name_lane(facts, &lanes->list[i], &names[i]);
	write_gauges(out, facts, names);
	write_counters(out, facts, names);
	free(names);
}

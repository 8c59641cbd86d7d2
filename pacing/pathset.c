// SPDX-License-Identifier: BSD-2-Clause
#include "pacing/pathset.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "pacing/random.h"

/* Floors that differ by more deviations are of different paths. */
#define FLOOR_DEVIATIONS 4
/* Minimum queue in a slot, in deviations of a sample; minimum number of such slots. */
#define QUEUE_DEVIATIONS 6
#define QUEUES_LEAST 6
/* Correlation of the queues above which they are one, and below which they are two. */
#define CORRELATED 0.85
#define UNCORRELATED 0.5

void pathset_config_default(struct pathset_config *config)
{
	*config = (struct pathset_config){
		.confidence = 0.95,
		.ports_most = 64,
		.floor_noise_ns = 1000,
		.delay_noise_ns = 1000,
	};
}

void pathset_init(struct pathset *set, const struct pathset_config *config)
{
	memset(set, 0, sizeof(*set));
	set->config = *config;
	if (set->config.ports_most > PATHSET_PORTS_MAX)
		set->config.ports_most = PATHSET_PORTS_MAX;
}

int pathset_add(struct pathset *set, uint16_t sport)
{
	struct pathset_port *port = &set->ports[set->count];

	for (size_t i = 0; i < set->count; i++)
		if (set->ports[i].sport == sport)
			return -EEXIST;
	if (set->count == PATHSET_PORTS_MAX)
		return -ENOSPC;
	memset(port, 0, sizeof(*port));
	port->sport = sport;
	port->floor_ns = port->next_floor_ns = NAN;
	for (size_t i = 0; i < PATHSET_SAMPLES; i++)
		port->delay_ns[i] = NAN;
	return (int)set->count++;
}

/* --- observations --- */

/*
 * The port takes another path. If it was fresh, the routes changed, and the observations of the
 * other ports are outdated.
 */
static bool renew(struct pathset *set, size_t index)
{
	struct pathset_port *port = &set->ports[index];
	bool changed = port->fresh;

	for (size_t i = 0; i < PATHSET_SAMPLES; i++)
		port->delay_ns[i] = NAN;
	port->changing = false;
	if (changed) {
		set->generation++;
		for (size_t i = 0; i < set->count; i++)
			set->ports[i].fresh = false;
	}
	port->fresh = true;
	return changed;
}

static bool hops_contradict(const uint64_t *a, const uint64_t *b)
{
	for (size_t h = 0; h < PATHSET_HOPS; h++)
		if (a[h] && b[h] && a[h] != b[h])
			return true;
	return false;
}

static bool hops_any(const uint64_t *hops)
{
	for (size_t h = 0; h < PATHSET_HOPS; h++)
		if (hops[h])
			return true;
	return false;
}

bool pathset_add_hops(struct pathset *set, size_t index, const uint64_t hops[PATHSET_HOPS])
{
	struct pathset_port *port = &set->ports[index];

	if (!hops_any(hops))
		return false;
	if (!hops_contradict(port->hops, hops)) {
		for (size_t h = 0; h < PATHSET_HOPS; h++)
			port->hops[h] = hops[h] ? hops[h] : port->hops[h];
		port->changing = false;
		port->fresh = true;
		return false;
	}
	if (port->fresh && (!port->changing || hops_contradict(port->next_hops, hops))) {
		memcpy(port->next_hops, hops, sizeof(port->next_hops));
		port->changing = true;
		return false;
	}
	memcpy(port->hops, hops, sizeof(port->hops));
	port->floor_ns = port->next_floor_ns = NAN;
	return renew(set, index);
}

static bool floors_differ(const struct pathset *set, double a_ns, double b_ns)
{
	return fabs(a_ns - b_ns) > FLOOR_DEVIATIONS * set->config.floor_noise_ns;
}

bool pathset_add_floor(struct pathset *set, size_t index, double floor_ns)
{
	struct pathset_port *port = &set->ports[index];

	if (!isfinite(floor_ns))
		return false;
	if (isnan(port->floor_ns) || !floors_differ(set, port->floor_ns, floor_ns)) {
		port->floor_ns = floor_ns;
		port->next_floor_ns = NAN;
		port->fresh = true;
		return false;
	}
	if (port->fresh &&
	    (isnan(port->next_floor_ns) || floors_differ(set, port->next_floor_ns, floor_ns))) {
		port->next_floor_ns = floor_ns;
		return false;
	}
	port->floor_ns = floor_ns;
	port->next_floor_ns = NAN;
	memset(port->hops, 0, sizeof(port->hops));
	return renew(set, index);
}

void pathset_sample(struct pathset *set, size_t port, uint64_t slot, double delay_ns)
{
	size_t at = slot % PATHSET_SAMPLES;

	if (set->slots[at] > slot || !isfinite(delay_ns))
		return;
	if (set->slots[at] < slot) {
		set->slots[at] = slot;
		for (size_t i = 0; i < set->count; i++)
			set->ports[i].delay_ns[at] = NAN;
	}
	set->ports[port].delay_ns[at] = (float)delay_ns;
}

/* --- how two ports are related --- */

static bool has_all_hops(const struct pathset *set, const struct pathset_port *port)
{
	if (!set->config.distance || set->config.distance > PATHSET_HOPS)
		return false;
	for (size_t h = 0; h < set->config.distance; h++)
		if (!port->hops[h])
			return false;
	return true;
}

/* A switch without a reply may be any: only complete hops show equality. */
static enum pathset_relation relate_hops(const struct pathset *set, const struct pathset_port *a,
					 const struct pathset_port *b)
{
	if (hops_contradict(a->hops, b->hops))
		return PATHSET_DIFFERENT;
	return has_all_hops(set, a) && has_all_hops(set, b) ? PATHSET_SAME : PATHSET_UNKNOWN;
}

/*
 * Common queue of all ports in a slot: the smallest excess over the floors. NAN: fewer than
 * three.
 */
static double common_excess(const struct pathset *set, size_t slot)
{
	double least = NAN;
	unsigned seen = 0;

	for (size_t i = 0; i < set->count; i++) {
		const struct pathset_port *port = &set->ports[i];

		if (isnan(port->delay_ns[slot]) || isnan(port->floor_ns))
			continue;
		least = fmin(least, (double)port->delay_ns[slot] - port->floor_ns);
		seen++;
	}
	return seen > 2 ? least : NAN;
}

struct common {
	double excess_ns[PATHSET_SAMPLES];
};

static void find_common(const struct pathset *set, struct common *common)
{
	for (size_t s = 0; s < PATHSET_SAMPLES; s++)
		common->excess_ns[s] = common_excess(set, s);
}

/* Correlation of the queues; *@queues: number of slots with one. */
static double correlate(const struct pathset *set, const struct common *common,
			const struct pathset_port *a, const struct pathset_port *b,
			unsigned *queues)
{
	double sum_a = 0, sum_b = 0, aa = 0, bb = 0, ab = 0, n = 0;

	*queues = 0;
	for (size_t s = 0; s < PATHSET_SAMPLES; s++) {
		double x = (double)a->delay_ns[s] - a->floor_ns - common->excess_ns[s];
		double y = (double)b->delay_ns[s] - b->floor_ns - common->excess_ns[s];

		if (isnan(x) || isnan(y))
			continue;
		*queues += fmax(x, y) > QUEUE_DEVIATIONS * set->config.delay_noise_ns;
		n++;
		sum_a += x;
		sum_b += y;
		aa += x * x;
		bb += y * y;
		ab += x * y;
	}
	aa -= sum_a * sum_a / n;
	bb -= sum_b * sum_b / n;
	ab -= sum_a * sum_b / n;
	return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static enum pathset_relation relate_delays(const struct pathset *set, const struct common *common,
					   const struct pathset_port *a,
					   const struct pathset_port *b)
{
	unsigned queues;
	double correlation;

	if (isnan(a->floor_ns) || isnan(b->floor_ns))
		return PATHSET_UNKNOWN;
	if (floors_differ(set, a->floor_ns, b->floor_ns))
		return PATHSET_DIFFERENT;
	correlation = correlate(set, common, a, b, &queues);
	if (queues < QUEUES_LEAST)
		return PATHSET_UNKNOWN;
	if (correlation >= CORRELATED)
		return PATHSET_SAME;
	return correlation <= UNCORRELATED ? PATHSET_DIFFERENT : PATHSET_UNKNOWN;
}

static enum pathset_relation relate(const struct pathset *set, const struct common *common,
				    size_t a, size_t b)
{
	const struct pathset_port *first = &set->ports[a], *second = &set->ports[b];
	enum pathset_relation relation = relate_hops(set, first, second);

	return relation ? relation : relate_delays(set, common, first, second);
}

enum pathset_relation pathset_relate(const struct pathset *set, size_t a, size_t b)
{
	struct common common;

	find_common(set, &common);
	return relate(set, &common, a, b);
}

/* --- groups --- */

/*
 * Puts a port into the group it belongs to, or into a new one if it is different from all; else
 * it stays undecided.
 */
static void assign_group(struct pathset *set, const struct common *common, size_t index)
{
	struct pathset_port *port = &set->ports[index];
	bool different = true;

	for (size_t g = 1; g <= set->groups; g++) {
		enum pathset_relation relation = relate(set, common, index, set->representative[g]);

		if (relation == PATHSET_SAME) {
			port->group = (uint16_t)g;
			return;
		}
		different &= relation == PATHSET_DIFFERENT;
	}
	if (!different || set->groups == PATHSET_GROUPS_MAX)
		return;
	/* The first needs evidence of its own. */
	if (!set->groups && !hops_any(port->hops) && isnan(port->floor_ns))
		return;
	port->group = (uint16_t)++set->groups;
	set->representative[set->groups] = (uint16_t)index;
}

/* Order in which ports create groups: previous representatives, then those with complete hops. */
static unsigned priority_of(const struct pathset *set, size_t index, bool was_representative)
{
	const struct pathset_port *port = &set->ports[index];
	bool whole = has_all_hops(set, port);

	if (was_representative && port->fresh)
		return whole ? 0 : 2;
	return whole ? 1 : 3;
}

size_t pathset_group(struct pathset *set)
{
	bool was[PATHSET_PORTS_MAX] = {false};
	struct common common;

	find_common(set, &common);
	for (size_t g = 1; g <= set->groups; g++)
		was[set->representative[g]] = true;
	set->groups = 0;
	for (size_t i = 0; i < set->count; i++)
		set->ports[i].group = 0;
	for (unsigned order = 0; order < 4; order++)
		for (size_t i = 0; i < set->count; i++)
			if (priority_of(set, i, was[i]) == order)
				assign_group(set, &common, i);
	return set->groups;
}

/* --- what to try next --- */

unsigned pathset_ports_needed(double confidence, unsigned paths)
{
	double missed = fmin(fmax(1 - confidence, 1e-9), 1), k = paths;

	if (!paths)
		return 1;
	return (unsigned)ceil(log(missed / (k + 1)) / log(k / (k + 1)));
}

/* Fresh ports whose path is known. */
static unsigned ports_known(const struct pathset *set)
{
	unsigned known = 0;

	for (size_t i = 0; i < set->count; i++)
		known += set->ports[i].fresh && set->ports[i].group;
	return known;
}

bool pathset_is_complete(const struct pathset *set)
{
	if (set->config.paths_wanted && set->groups >= set->config.paths_wanted)
		return true;
	return set->groups && ports_known(set) >= pathset_ports_needed(set->config.confidence,
								       (unsigned)set->groups);
}

/* After a change of routes many are not fresh. */
static size_t next_stale(const struct pathset *set, size_t most, uint16_t *ports)
{
	size_t found = 0;

	for (size_t i = 0; i < set->count && found < most; i++)
		if (!set->ports[i].fresh)
			ports[found++] = set->ports[i].sport;
	return found;
}

size_t pathset_next(struct pathset *set, uint64_t random, size_t most, uint16_t *ports)
{
	size_t found = next_stale(set, most, ports), wanted;
	unsigned known = ports_known(set), needed;

	if (pathset_is_complete(set))
		return found;
	/* As many as complete the search if they find no new path. */
	needed = pathset_ports_needed(set->config.confidence, (unsigned)set->groups);
	wanted = needed > known ? needed - known : 1;
	if (wanted > most)
		wanted = most;
	for (unsigned tries = 0; found < wanted && tries < 4 * PATHSET_PORTS_MAX; tries++) {
		uint16_t sport = (uint16_t)(PATHSET_PORT_FIRST +
					    pacing_random(&random) % PATHSET_PORT_COUNT);

		if (set->count >= set->config.ports_most)
			break;
		if (pathset_add(set, sport) >= 0)
			ports[found++] = sport;
	}
	return found;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "metrics_delays.h"

#include "base/prom.h"

static void write_states(FILE *out, const struct paths_facts *facts)
{
	struct prom_family *lanes =
		FAMILY("paths", GAUGE,
		       "Candidate paths to all peers with queue pairs, by state: "
		       "up, suspect, down or held.");

	for (unsigned int state = 0; state < 4; state++)
		prom_count(lanes, facts->lanes[state], "state", pathlive_state_name(state), NULL);
	prom_count(FAMILY("path_peers", GAUGE, "Pairs of addresses that have candidate paths."),
		   facts->pairs, NULL);
	prom_count(FAMILY("path_peers_refused_total", COUNTER,
			  "Times that a pair of addresses found no room for paths."),
		   facts->pairs_refused, NULL);
}

static void write_probes(FILE *out, const struct paths_facts *facts)
{
	struct prom_family *rates = FAMILY("path_probe_rate_pps", GAUGE,
					   "Path probes a second: wanted by the intervals "
					   "configured, given, and the budget.");

	prom_count(FAMILY("path_probes_total", COUNTER, "Path probes handed to the kernel."),
		   facts->sent, NULL);
	prom_count(FAMILY("path_probes_failed_total", COUNTER, "Path probes that it refused."),
		   facts->failed, NULL);
	prom_count(FAMILY("path_probes_answered_total", COUNTER, "Path probes that were answered."),
		   facts->answered, NULL);
	prom_count(FAMILY("path_probes_lost_total", COUNTER,
			  "Path probes without an answer within a second."),
		   facts->lost, NULL);
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
	prom_histogram(
		FAMILY("failover_duration_seconds", HISTOGRAM,
		       "From the last probe that the peer heard on a path to the first packet "
		       "that took its standby."),
		&histogram, NULL);
}

void metrics_write_paths(FILE *out, const struct paths_facts *facts)
{
	if (!facts->there || !facts->on)
		return;
	write_states(out, facts);
	write_probes(out, facts);
	write_failovers(out, facts);
}

// SPDX-License-Identifier: BSD-2-Clause
/* One simulation by options, its figures on one line: clock_sim key=value... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim/sim.h"

struct option {
	const char *name;
	size_t offset;
	char kind; /* d double, z size_t, u unsigned, l int64_t, b bool, e enum */
};

#define AT(field) offsetof(struct sim_config, field)
static const struct option options[] = {
	{"seed", AT(seed), 'l'},
	{"hosts", AT(hosts), 'z'},
	{"degree", AT(degree), 'u'},
	{"seconds", AT(seconds), 'd'},
	{"from", AT(measure_from_s), 'd'},
	{"every", AT(sample_every_s), 'd'},
	{"packets", AT(packets), 'b'},
	{"load", AT(fabric.load), 'd'},
	{"rate", AT(fabric.rate_bps), 'd'},
	{"burst", AT(fabric.burst_bytes), 'd'},
	{"on_ms", AT(fabric.on_ms), 'd'},
	{"off_ms", AT(fabric.off_ms), 'd'},
	{"priority", AT(fabric.priority), 'b'},
	{"full", AT(fabric.full_part), 'd'},
	{"full_hosts", AT(fabric.full_hosts), 'd'},
	{"full_ns", AT(fabric.full_ns), 'd'},
	{"full_from", AT(fabric.full_from_s), 'd'},
	{"full_to", AT(fabric.full_to_s), 'd'},
	{"spines", AT(fabric.spines), 'z'},
	{"per_leaf", AT(fabric.hosts_per_leaf), 'z'},
	{"interval", AT(pair_interval_ns), 'l'},
	{"spacing", AT(pair_spacing_ns), 'l'},
	{"adaptive", AT(adaptive_interval), 'b'},
	{"timestamp", AT(timestamp_ns), 'd'},
	{"late", AT(late_ns), 'd'},
	{"spikes", AT(late_spike_part), 'd'},
	{"edge_asym", AT(edge_asymmetry_ns), 'd'},
	{"host_asym", AT(host_asymmetry_ns), 'd'},
	{"path_change", AT(path_change_s), 'd'},
	{"path_ns", AT(path_change_ns), 'd'},
	{"edge_noise", AT(edge_noise_ns), 'd'},
	{"edge_ppb", AT(edge_noise_ppb), 'd'},
	{"bad", AT(bad_part), 'd'},
	{"window", AT(window_s), 'd'},
	{"lie", AT(lie), 'e'},
	{"falsetickers", AT(falseticker_part), 'd'},
	{"lie_from", AT(lie_from_s), 'd'},
	{"lie_ns", AT(lie_ns), 'd'},
	{"churn", AT(churn_s), 'd'},
	{"churn_down", AT(churn_down_s), 'd'},
	{"join_at", AT(join_at_s), 'd'},
	{"part", AT(part_share), 'd'},
	{"part_from", AT(part_from_s), 'd'},
	{"part_to", AT(part_to_s), 'd'},
	{"walk", AT(oscillator.walk_ppb), 'd'},
	{"sine", AT(oscillator.sine_ppb), 'd'},
	{"temp_ppb", AT(oscillator.step_ppb), 'd'},
	{"temp_every", AT(oscillator.step_every_s), 'd'},
	{"speed_ns", AT(speed_ns), 'd'},
	{"speed_part", AT(speed_part), 'd'},
	{"gap_part", AT(gap_part), 'd'},
	{"gap_ns", AT(gap_ns), 'd'},
	{"spell_ns", AT(spell_ns), 'd'},
	{"spell_s", AT(spell_s), 'd'},
	{"spell_every", AT(spell_every_s), 'd'},
	{"spell_one", AT(spell_one_part), 'd'},
	{"spell_from", AT(spell_from_s), 'd'},
	{"no_prior", AT(no_prior), 'b'},
	{"slew_hosts", AT(slew_hosts), 'z'},
	{"slew_ppb", AT(slew_ppb), 'd'},
	{"slew_every", AT(slew_every_s), 'd'},
	{"slew_from", AT(slew_from_s), 'd'},
};

static int option_set(struct sim_config *config, const char *word)
{
	const char *value = strchr(word, '=');

	for (size_t i = 0; value && i < sizeof(options) / sizeof(*options); i++) {
		char *field = (char *)config + options[i].offset;
		double number = atof(value + 1);

		if (strlen(options[i].name) != (size_t)(value - word) ||
		    strncmp(options[i].name, word, (size_t)(value - word)))
			continue;
		switch (options[i].kind) {
		case 'd':
			*(double *)(void *)field = number;
			break;
		case 'z':
			*(size_t *)(void *)field = (size_t)number;
			break;
		case 'u':
			*(unsigned *)(void *)field = (unsigned)number;
			break;
		case 'l':
			*(int64_t *)(void *)field = (int64_t)number;
			break;
		case 'b':
			*(bool *)field = number != 0;
			break;
		default:
			*(enum sim_lie *)(void *)field = (enum sim_lie)number;
			break;
		}
		return 0;
	}
	return -1;
}

static double part(uint64_t of, uint64_t all)
{
	return all ? (double)of / (double)all : 0;
}

static void print(struct sim *sim)
{
	struct sim_result *r = &sim->result;
	double p99 = stats_percentile(&r->error, .99), bound = stats_percentile(&r->bound, .5);
	const struct {
		const char *name;
		double value;
	} figures[] = {
		{"seed", (double)sim->config.seed},
		{"live_mean", stats_mean(&r->error)},
		{"live_p99", p99},
		{"live_max", stats_percentile(&r->error, 1)},
		{"back25_p99", stats_percentile(&r->settled[0], .99)},
		{"back50_mean", stats_mean(&r->settled[1])},
		{"back50_p99", stats_percentile(&r->settled[1], .99)},
		{"back75_p99", stats_percentile(&r->settled[2], .99)},
		{"back100_p99", stats_percentile(&r->settled[3], .99)},
		{"edge_mean", stats_mean(&r->edge_error)},
		{"edge_p99", stats_percentile(&r->edge_error, .99)},
		{"bound_median", bound},
		{"bound_over_p99", p99 > 0 ? bound / p99 : 0},
		{"readings", (double)r->readings},
		{"outside", part(r->outside, r->readings)},
		{"worst_outside", r->worst_outside_ns},
		{"no_time", part(r->unsynced, r->samples_of_hosts)},
		{"backwards", (double)r->backwards},
		{"sure_median_s", stats_percentile(&r->first_sure_s, .5)},
		{"sure_p95_s", stats_percentile(&r->first_sure_s, .95)},
		{"sure_max_s", stats_percentile(&r->first_sure_s, 1)},
		{"synced_max_s", stats_percentile(&r->first_synced_s, 1)},
		{"falsetickers_refused", part(r->falsetickers_refused, r->falseticker_edges)},
		{"correct_refused", part(r->correct_refused, r->correct_edges)},
		{"timeless", part(r->unsynced, r->samples_of_hosts)},
		{"flagged", part(r->flagged, r->fits)},
		{"fit_us", r->fits ? 1e6 * r->fit_seconds / (double)r->fits : 0},
		{"core", (r->fit_seconds + r->round_seconds) / (double)r->rounds / 0.25},
		{"pairs_per_s", r->pairs_per_s},
		{"residual", stats_percentile(&r->part[0], .5)},
		{"surprise", stats_percentile(&r->part[1], .5)},
		{"jolt", stats_percentile(&r->part[3], .5)},
	};

	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		printf("%s=%.6g ", figures[i].name, figures[i].value);
	printf("\n");
}

int main(int argc, char **argv)
{
	struct sim_config config;
	struct sim sim;

	sim_config_default(&config, 1);
	for (int i = 1; i < argc; i++)
		if (option_set(&config, argv[i])) {
			fprintf(stderr, "clock_sim: unknown option '%s'\n", argv[i]);
			return 2;
		}
	if (sim_init(&sim, &config)) {
		fprintf(stderr, "clock_sim: cannot set up %zu hosts\n", config.hosts);
		return 1;
	}
	sim_run(&sim);
	print(&sim);
	sim_free(&sim);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* The clock in small fleets, with wide margins: `clock_sim` and `bench` have the figures. TAP. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/sim/sim.h"

#define OUTSIDE_MOST 0.001 /* of readings; the bench holds 0.0001 over longer runs */

static int tests, failures;
static uint64_t seed;

static void report(int good, const char *format, ...)
{
	va_list arguments;

	tests++;
	failures += !good;
	printf("%s %d - ", good ? "ok" : "not ok", tests);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
}

struct figures {
	double mean, median, p95, p99, worst_outside, settled_p99, bound, outside, sure_s, synced_s,
		flagged;
	double falsetickers_refused, correct_refused;
	uint64_t backwards, readings;
};

static struct figures run(const struct sim_config *config)
{
	struct figures f = {0};
	struct sim_result *r;
	struct sim *sim = malloc(sizeof(*sim));

	if (!sim || sim_init(sim, config)) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	sim_run(sim);
	r = &sim->result;
	f.mean = stats_mean(&r->error);
	f.median = stats_percentile(&r->error, 0.5);
	f.p95 = stats_percentile(&r->error, 0.95);
	f.p99 = stats_percentile(&r->error, 0.99);
	f.worst_outside = r->worst_outside_ns;
	f.settled_p99 = stats_percentile(&r->settled[1], 0.99);
	f.bound = stats_percentile(&r->bound, 0.5);
	f.readings = r->readings;
	f.outside = r->readings ? (double)r->outside / (double)r->readings : 1;
	f.sure_s = stats_percentile(&r->first_sure_s, 1);
	f.synced_s = stats_percentile(&r->first_synced_s, 1);
	f.flagged = r->fits ? (double)r->flagged / (double)r->fits : 0;
	f.backwards = r->backwards;
	f.falsetickers_refused = r->falseticker_edges ? (double)r->falsetickers_refused /
								(double)r->falseticker_edges
						      : 0;
	f.correct_refused =
		r->correct_edges ? (double)r->correct_refused / (double)r->correct_edges : 0;
	printf("# live %.1f/%.1f settled p99 %.1f bound %.0f outside %.5f%% of %lu, <10us %.2f s, "
	       "synced "
	       "%.2f s, flagged %.1f%%\n",
	       f.mean, f.p99, f.settled_p99, f.bound, 100 * f.outside, (unsigned long)f.readings,
	       f.sure_s, f.synced_s, 100 * f.flagged);
	sim_free(sim);
	free(sim);
	return f;
}

static struct sim_config packets(double load)
{
	struct sim_config config;

	sim_config_default(&config, seed);
	config.packets = true;
	config.hosts = 14;
	config.fabric.load = load;
	config.seconds = 20;
	config.measure_from_s = 15;
	return config;
}

static struct sim_config drawn(size_t hosts, unsigned degree)
{
	struct sim_config config;

	sim_config_default(&config, seed);
	config.hosts = hosts;
	config.degree = degree;
	config.seconds = 30;
	config.measure_from_s = 18;
	return config;
}

static void test_loads(void)
{
	static const double loads[] = {0, 0.4, 0.8};

	for (int i = 0; i < 3; i++) {
		struct sim_config config = packets(loads[i]);
		struct figures f = run(&config);

		report(f.mean < 10 && f.p99 < 40 && f.settled_p99 < 15,
		       "NIC timestamps, load %.0f%%: a few ns live", 100 * loads[i]);
		report(f.outside <= OUTSIDE_MOST && f.bound <= 6 * f.p99,
		       "load %.0f%%: truth inside a bound that is not much wider", 100 * loads[i]);
		report(f.sure_s < 4 && f.synced_s < 15 && !f.backwards,
		       "load %.0f%%: bound under 10 us and in step soon, readings never go back",
		       100 * loads[i]);
	}
}

static void test_overload(void)
{
	struct sim_config config = packets(0.9);
	struct figures f = run(&config);

	report(f.flagged > 0.3 && f.outside <= OUTSIDE_MOST,
	       "load 90%% on every hop: flagged, and inside the bound");
	config.fabric.priority = true;
	config.fabric.rate_bps = 100e9;
	f = run(&config);
	report(f.mean < 10 && f.p99 < 40,
	       "load 90%%, probes in a priority class at 100 Gb/s: a few ns");
}

static void test_trouble(void)
{
	struct sim_config config = packets(0.4);
	struct figures f;

	config.path_change_s = 15;
	config.path_change_ns = 400;
	f = run(&config);
	report(f.outside <= OUTSIDE_MOST && f.p99 < 400, "paths that change: inside the bound");
	config = packets(0.4);
	config.oscillator.walk_ppb *= 10;
	config.oscillator.sine_ppb *= 10;
	f = run(&config);
	report(f.outside <= OUTSIDE_MOST && f.p99 < 60, "ten times the wander: inside the bound");
	config = packets(0.4);
	config.late_ns = 60;
	config.timestamp_ns = 30;
	config.late_spike_part = 0.01;
	f = run(&config);
	report(f.outside <= OUTSIDE_MOST && f.p99 < 100, "software timestamps: inside the bound");
	config = drawn(100, 12);
	config.churn_s = 40;
	config.churn_down_s = 4;
	f = run(&config);
	report(f.outside <= OUTSIDE_MOST && f.p99 < 60, "hosts that come and go: inside the bound");
	config = drawn(60, 10);
	config.join_at_s = 20;
	f = run(&config);
	report(f.sure_s < 5 && f.synced_s < 8 && f.outside <= OUTSIDE_MOST,
	       "a host that joins is synced within seconds and moves no other");
}

static void test_falsetickers(void)
{
	static const char *const names[] = {"correct", "constant",  "ramp",
					    "noisy",   "colluding", "mixed"};
	struct sim_config config = drawn(150, 12);
	struct figures clean = run(&config), f;

	for (enum sim_lie lie = SIM_CONSTANT; lie <= SIM_MIXED; lie++) {
		config = drawn(150, 12);
		config.lie = lie;
		config.falseticker_part = 0.2;
		config.lie_from_s = 15;
		f = run(&config);
		report(f.p99 <= 3 * clean.p99 && f.outside <= OUTSIDE_MOST,
		       "20%% of falsetickers (%s): correct hosts keep their time", names[lie]);
		report(f.falsetickers_refused > 0.8 && f.correct_refused < 0.05,
		       "%s: detected, and no other", names[lie]);
	}
	config.falseticker_part = 0.1;
	config.lie_from_s = 0;
	f = run(&config);
	report(f.p99 <= 3 * clean.p99 && f.falsetickers_refused > 0.8,
	       "10%% of falsetickers from a cold start");
}

/* chronyd corrects an offset with 100 ppm for a few seconds, again and again, also on all hosts. */
static void test_slew(void)
{
	static const struct {
		size_t hosts, slewed;
		double ppm;
	} cases[] = {{6, 1, 100}, {6, 6, 100}, {6, 1, 5}, {2, 1, 100}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sim_config config = packets(0.4);
		double round_ns = 250e6 * cases[i].ppm * 1e-6;
		struct figures f;

		config.hosts = cases[i].hosts;
		config.slew_hosts = cases[i].slewed;
		config.slew_ppb = cases[i].ppm * 1e3;
		config.slew_every_s = 5;
		config.slew_from_s = 12.5;
		config.seconds = 33;
		f = run(&config);
		report(f.median < 200 && f.p95 < round_ns && f.worst_outside < 1.3 * round_ns &&
			       f.outside < 0.1 && !f.backwards,
		       "%zu of %zu local clocks slewed by %.0f ppm: at most that for a round "
		       "outside the bound, and again inside",
		       cases[i].slewed, cases[i].hosts, cases[i].ppm);
	}
}

/*
 * Two hosts as emulated machines are: no packet is clean, and timestamps are late at both ends. A
 * change of a clock's rate then shows in seconds, and each host's corrections look like one.
 */
static void test_slew_unclean(void)
{
	struct sim_config config = packets(0);
	struct figures f;

	config.hosts = 2;
	config.degree = 1;
	config.window_s = 10;
	config.pair_interval_ns = 20000000;
	config.timestamp_ns = 20;
	config.late_ns = 20000;
	config.gap_part = 0.5;
	config.gap_ns = 100000;
	config.slew_hosts = 1;
	config.slew_ppb = 100e3;
	config.slew_every_s = 40;
	config.slew_from_s = 50;
	config.seconds = 170;
	config.measure_from_s = 40;
	f = run(&config);
	report(f.p99 < 400e3 && !f.outside && !f.backwards,
	       "1 of 2 clocks slewed by 100 ppm where each packet is 100 us late: within 400 us");
}

/* Those on the large side: how far their readings are from each other while the part heals. */
static void test_partition(void)
{
	struct sim_config config = drawn(100, 10);
	double worst = 0, apart = 0;
	struct sim *sim = malloc(sizeof(*sim));

	config.seconds = 60;
	config.measure_from_s = 1e9;
	config.part_share = 0.3;
	config.part_from_s = 15;
	config.part_to_s = 35;
	if (!sim || sim_init(sim, &config)) {
		report(0, "a fleet could be made");
		return;
	}
	while ((double)sim->now_ns * 1e-9 < config.seconds) {
		double now_s = (double)sim->now_ns * 1e-9, low[2] = {1e18, 1e18},
		       high[2] = {-1e18, -1e18};
		int64_t base = 0;

		sim_tick(sim);
		if (now_s < 14)
			continue;
		for (size_t h = 0; h < config.hosts; h++) {
			struct sim_host *host = &sim->hosts[h];
			double fraction, at;
			int64_t local = oscillator_read(&host->oscillator, sim->now_ns, &fraction);

			at = (double)((base ? clock_model_read(&host->clock.model, local) : 0) -
				      base);
			if (!base) {
				base = clock_model_read(&host->clock.model, local);
				at = 0;
			}
			low[host->cut] = fmin(low[host->cut], at);
			high[host->cut] = fmax(high[host->cut], at);
		}
		worst = fmax(worst, high[0] - low[0]);
		if (now_s > 50)
			apart = fmax(apart, fmax(high[0], high[1]) - fmin(low[0], low[1]));
	}
	printf("# large side within %.0f ns all the time, all within %.0f ns at the end\n", worst,
	       apart);
	report(worst < 100, "a partition of 30%% and its healing: the large side is not moved");
	report(apart < 100, "the small side has returned");
	sim_free(sim);
	free(sim);
}

int main(int argc, char **argv)
{
	/* No seed of the date beside the fixed one: some fail, known defects in tests/README.md. */
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20240607;
	printf("TAP version 13\n1..34\n# seed %lu\n", (unsigned long)seed);
	test_loads();
	test_overload();
	test_trouble();
	test_falsetickers();
	test_slew();
	test_slew_unclean();
	test_partition();
	return failures ? 1 : 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Hosts that are cut off at any moment, mostly when the machine has just become
 * busy: for half a minute they tell the time alone, and the truth is inside
 * their bounds. TAP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim/sim.h"

#define OUTSIDE_MOST 0.001
#define WATCHED_S 30
#define EVERY_NS 100000000

struct seen {
	uint64_t readings, outside, timeless;
	double worst_ns;		 /* outside by */
	struct stats error[3], bound[3]; /* 2 s, 10 s and 30 s after */
};

static int tests, failures;
static uint64_t seed;

static void report(int good, const char *name)
{
	tests++;
	failures += !good;
	printf("%s %d - %s\n", good ? "ok" : "not ok", tests, name);
	fflush(stdout);
}

static bool reads(const struct sim *sim, size_t h, double *fabric_ns, double *bound_ns)
{
	const struct sim_host *host = &sim->hosts[h];
	double fraction;
	int64_t local_ns = oscillator_read(&host->oscillator, sim->now_ns, &fraction);

	if (host->clock.state == CLOCK_FREE_RUNNING)
		return false;
	/* Against the oldest oscillator: both are near the same large number. */
	*fabric_ns = (double)(clock_model_read(&host->clock.model, local_ns) -
			      sim->hosts[0].oscillator.start_ns - sim->now_ns) +
		     fraction;
	*bound_ns = (double)clock_model_bound(&host->clock.model, local_ns);
	return true;
}

static void judge(struct sim *sim, size_t cut, size_t other, struct seen *seen)
{
	int64_t since_ns = sim->now_ns - sim->hosts[cut].alone_at_ns;
	static const int64_t marks_s[] = {2, 10, 30};
	double a, b, bound_a, bound_b, error;

	if (!reads(sim, cut, &a, &bound_a) || !reads(sim, other, &b, &bound_b)) {
		seen->timeless++;
		return;
	}
	error = fabs(a - b);
	seen->readings++;
	if (error > bound_a + bound_b) {
		seen->outside++;
		seen->worst_ns = fmax(seen->worst_ns, error - bound_a - bound_b);
	}
	for (int i = 0; i < 3; i++)
		if (llabs(since_ns - marks_s[i] * 1000000000) <= EVERY_NS / 2) {
			stats_add(&seen->error[i], error);
			stats_add(&seen->bound[i], bound_a + bound_b);
		}
}

static void watch(struct sim *sim, struct seen *seen)
{
	size_t hosts = sim->config.hosts;

	if (sim->now_ns % EVERY_NS)
		return;
	for (size_t h = 0; h < hosts; h++) {
		int64_t at_ns = sim->hosts[h].alone_at_ns;

		if (!at_ns || sim->now_ns < at_ns ||
		    sim->now_ns > at_ns + WATCHED_S * 1000000000LL + EVERY_NS / 2)
			continue;
		for (size_t o = 0; o < hosts; o++)
			if (!sim->hosts[o].alone_at_ns)
				judge(sim, h, o, seen);
	}
}

static void run(struct sim_config config, unsigned runs, const char *name)
{
	struct sim *sim = malloc(sizeof(*sim));
	struct seen seen = {0};

	config.seconds = config.alone_to_s + WATCHED_S + 1;
	config.measure_from_s = 1e9;
	for (unsigned i = 0; i < runs; i++) {
		config.seed = rng_mix(rng_mix(seed) + i);
		if (!sim || sim_init(sim, &config)) {
			printf("Bail out! no memory\n");
			exit(1);
		}
		while ((double)sim->now_ns * 1e-9 < config.seconds) {
			sim_tick(sim);
			watch(sim, &seen);
		}
		sim_free(sim);
	}
	printf("# %s: %lu readings, %.3f%% outside, by %.0f ns at most, %lu without a time;"
	       " error median/99th, bound median after",
	       name, (unsigned long)seen.readings,
	       100.0 * (double)seen.outside / (double)(seen.readings ? seen.readings : 1),
	       seen.worst_ns, (unsigned long)seen.timeless);
	for (int i = 0; i < 3; i++) {
		static const char *const after[] = {"2 s", "10 s", "30 s"};

		printf(" %s %.0f/%.0f %.0f;", after[i], stats_percentile(&seen.error[i], 0.5),
		       stats_percentile(&seen.error[i], 0.99),
		       stats_percentile(&seen.bound[i], 0.5));
		stats_free(&seen.error[i]);
		stats_free(&seen.bound[i]);
	}
	printf("\n");
	report(seen.readings > 100 * runs &&
		       (double)seen.outside <= OUTSIDE_MOST * (double)seen.readings,
	       name);
	free(sim);
}

/* As in the lab: four hosts, timestamps of software, nothing that wanders. */
static struct sim_config lab(void)
{
	struct sim_config config;

	sim_config_default(&config, seed);
	config.packets = true;
	config.hosts = 4;
	config.degree = 3;
	config.pair_interval_ns = 5000000;
	config.adaptive_interval = true;
	config.timestamp_ns = 15;
	config.late_ns = 40;
	config.oscillator.walk_ppb = 0;
	config.oscillator.sine_ppb = 0;
	config.alone_part = 0.25;
	config.alone_from_s = 12;
	config.alone_to_s = 20;
	return config;
}

static struct sim_config busy(void)
{
	struct sim_config config = lab();

	config.busy_lead_s = 4;
	config.busy_late_ns = 100;
	config.busy_stall_s = 1;
	return config;
}

int main(int argc, char **argv)
{
	struct sim_config config;
	unsigned runs = argc > 2 ? (unsigned)atoi(argv[2]) : argc > 1 ? 12 : 6;

	/* No seed of the date beside the fixed one: some fail, known defects in tests/README.md. */
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20240607;
	printf("TAP version 13\n1..10\n# seed %lu\n", (unsigned long)seed);
	run(lab(), runs, "cut off on a quiet machine");
	run(busy(), runs, "cut off as the machine becomes busy");
	config = busy();
	config.busy_late_ns = 400;
	run(config, runs, "... very busy");
	config = busy();
	config.busy_lead_s = 40;
	run(config, runs, "... busy for long");
	config = busy();
	config.oscillator.walk_ppb = 3;
	config.oscillator.sine_ppb = 50;
	run(config, runs, "... with oscillators that wander");
	config.oscillator.walk_ppb = 30;
	config.oscillator.sine_ppb = 500;
	config.alone_from_s = 60;
	config.alone_to_s = 90;
	run(config, runs, "... ten times as much");
	config = lab();
	config.oscillator.walk_ppb = 3;
	config.oscillator.sine_ppb = 50;
	config.oscillator.step_ppb = 100;
	config.oscillator.step_every_s = 30;
	config.alone_from_s = 40;
	config.alone_to_s = 60;
	run(config, runs, "steps of temperature");
	config = busy();
	config.alone_from_s = 3.5;
	config.alone_to_s = 6;
	run(config, runs, "cut off soon after the start");
	config = busy();
	config.hosts = 2;
	config.degree = 1;
	config.alone_part = 0.5;
	run(config, runs, "one neighbour only");
	config = lab();
	config.hosts = 12;
	config.degree = 8;
	config.pair_interval_ns = 1000000;
	config.timestamp_ns = 4;
	config.late_ns = 0;
	config.fabric.load = 0.8;
	config.oscillator.walk_ppb = 3;
	config.oscillator.sine_ppb = 50;
	config.alone_part = 0.3;
	run(config, 1 + runs / 6, "NIC timestamps at 80% load");
	return failures ? 1 : 0;
}

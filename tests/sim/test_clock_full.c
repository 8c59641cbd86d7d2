// SPDX-License-Identifier: BSD-2-Clause
/*
 * TCP keeps queues standing on part of the links for half a minute, and no edge finds
 * another path: clocks go on by what is still clean, or alone, with a bound that contains
 * it; a path that has become longer permanently is accepted; and spells in which the packets of a
 * host take longer in one direction move no clock. TAP.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/sim/seeds.h"
#include "tests/lib/sim/sim.h"

#define OUTSIDE_MOST 0.001
#define ERROR_MOST_NS 10000.0 /* following a queue costs a hundred times that */
#define FULL_FROM_S 15
#define LONGER_NS 3000
/* After that many seconds a longer path counts as such, and the bound's peaks have decayed. */
#define LONGER_FOR_S (EDGE_LEASTS * EDGE_LEAST_NS / 1000000000LL + 30)
#define BOUND_AGAIN 2.0
/* Spells of 0.5 to 1.5 us that last seconds; the clock's aim on such a machine. */
#define SPELL_NS 1000
#define SPELL_P99_NS 250
#define NAME_MAX_BYTES 160

static int tests, failures;
static struct seeds seeds = {.fixed = 20240607};

static void report(int good, const char *name)
{
	tests++;
	failures += !good;
	printf("%s %d - ", good ? "ok" : "not ok", tests);
	if (seeds.drawn)
		printf("seed %lu: ", (unsigned long)seeds.seed);
	printf("%s\n", name);
	fflush(stdout);
}

/* As in the lab: two hosts to a leaf, links that hold 20 ms, timestamps of software. */
static struct sim_config lab(void)
{
	struct sim_config config;

	sim_config_default(&config, seeds.seed);
	config.packets = true;
	config.hosts = 8;
	config.degree = 7;
	config.fabric.hosts_per_leaf = 2;
	config.fabric.spines = 2;
	config.fabric.rate_bps = 100e6;
	config.fabric.full_ns = 20e6;
	config.fabric.full_from_s = FULL_FROM_S;
	config.fabric.full_to_s = 1e9;
	config.pair_interval_ns = 5000000;
	config.adaptive_interval = true;
	config.timestamp_ns = 15;
	config.late_ns = 40;
	config.oscillator.walk_ppb = 0.5;
	config.oscillator.sine_ppb = 10;
	config.measure_from_s = FULL_FROM_S;
	config.seconds = FULL_FROM_S + 30;
	return config;
}

static struct sim *begin(const struct sim_config *config)
{
	struct sim *sim = malloc(sizeof(*sim));

	if (!sim || sim_init(sim, config)) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	return sim;
}

static void stand_full(struct sim_config config, unsigned runs, const char *name)
{
	double worst = 0, worst_p99 = 0, bound = 0;
	uint64_t readings = 0, outside = 0, timeless = 0;
	char text[NAME_MAX_BYTES];

	for (unsigned i = 0; i < runs; i++) {
		struct sim *sim;

		config.seed = rng_mix(rng_mix(seeds.seed) + i);
		sim = begin(&config);
		sim_run(sim);
		worst = fmax(worst, stats_percentile(&sim->result.error, 1));
		worst_p99 = fmax(worst_p99, stats_percentile(&sim->result.error, 0.99));
		bound = fmax(bound, stats_percentile(&sim->result.bound, 0.5));
		readings += sim->result.readings;
		outside += sim->result.outside;
		timeless += sim->result.unsynced;
		sim_free(sim);
		free(sim);
	}
	printf("# %s: of %u runs the worst: 99th %.0f ns, largest %.0f ns, median bound %.0f ns; "
	       "%lu of "
	       "%lu readings outside, %lu without a time\n",
	       name, runs, worst_p99, worst, bound, (unsigned long)outside, (unsigned long)readings,
	       (unsigned long)timeless);
	snprintf(text, sizeof(text), "%s: no clock follows a queue", name);
	report(readings > 1000 && !timeless && worst < ERROR_MOST_NS, text);
	snprintf(text, sizeof(text), "%s: the truth is inside the bounds", name);
	report((double)outside <= OUTSIDE_MOST * (double)readings, text);
}

static double bounds_mean(const struct sim *sim)
{
	double sum = 0;

	for (size_t h = 0; h < sim->config.hosts; h++)
		sum += sim->hosts[h].clock.bound.now_ns;
	return sum / (double)sim->config.hosts;
}

/* All routes are longer from some moment on: each edge has a new floor. */
static void routes_longer(void)
{
	struct sim_config config = lab();
	uint64_t flagged, fits;
	double before_ns;
	struct sim *sim;

	config.fabric.full_ns = 0;
	config.fabric.full_from_s = 1e9;
	sim = begin(&config);
	while ((double)sim->now_ns * 1e-9 < FULL_FROM_S + 5)
		sim_tick(sim);
	before_ns = bounds_mean(sim);
	for (size_t i = 0; i < sim->link_count; i++)
		sim->links[i].base_ns[0] = sim->links[i].base_ns[1] += LONGER_NS;
	while ((double)sim->now_ns * 1e-9 < FULL_FROM_S + 15)
		sim_tick(sim);
	flagged = sim->result.flagged;
	fits = sim->result.fits;
	while ((double)sim->now_ns * 1e-9 < FULL_FROM_S + 5 + LONGER_FOR_S)
		sim_tick(sim);
	sim_finish(sim);
	flagged = sim->result.flagged - flagged;
	fits = sim->result.fits - fits;
	printf("# routes longer by %d ns: error 99th %.0f, largest %.0f; %lu of %lu fits flagged "
	       "from "
	       "10 s after on; mean bound before %.0f, %d s after %.0f\n",
	       LONGER_NS, stats_percentile(&sim->result.error, 0.99),
	       stats_percentile(&sim->result.error, 1), (unsigned long)flagged, (unsigned long)fits,
	       before_ns, (int)LONGER_FOR_S, bounds_mean(sim));
	report(fits > 100 && flagged * 20 < fits, "routes that have become longer are accepted");
	report(!sim->result.outside && stats_percentile(&sim->result.error, 1) < LONGER_NS / 2.0,
	       "and meanwhile the clocks stay where they were");
	report(bounds_mean(sim) < BOUND_AGAIN * before_ns,
	       "the bound is what it was, a minute and a half after");
	sim_free(sim);
	free(sim);
}

/* A virtual machine's neighbors are busy: for seconds one direction of a host takes longer. */
static void spells(double length_s, double one_part, unsigned runs, const char *name)
{
	struct sim_config config = lab();
	double worst_p99 = 0, bound = 0;
	uint64_t readings = 0, outside = 0;

	config.fabric.full_ns = 0;
	config.fabric.full_from_s = 1e9;
	config.spell_ns = SPELL_NS;
	config.spell_s = length_s;
	config.spell_every_s = 20;
	config.spell_one_part = one_part;
	config.spell_from_s = 8;
	config.seconds = 60;
	for (unsigned i = 0; i < runs; i++) {
		struct sim *sim;

		config.seed = rng_mix(rng_mix(seeds.seed) + i);
		sim = begin(&config);
		sim_run(sim);
		worst_p99 = fmax(worst_p99, stats_percentile(&sim->result.error, 0.99));
		bound = fmax(bound, stats_percentile(&sim->result.bound, 0.5));
		readings += sim->result.readings;
		outside += sim->result.outside;
		sim_free(sim);
		free(sim);
	}
	printf("# %s: of %u runs the worst: 99th %.0f ns, median bound %.0f ns; %lu of %lu "
	       "readings "
	       "outside\n",
	       name, runs, worst_p99, bound, (unsigned long)outside, (unsigned long)readings);
	report(readings > 1000 && worst_p99 < SPELL_P99_NS &&
		       (double)outside <= OUTSIDE_MOST * (double)readings,
	       name);
}

static void test(unsigned runs)
{
	struct sim_config config = lab();

	config.fabric.full_part = 0.25;
	stand_full(config, runs, "a quarter of the links between switches stands full");
	config.fabric.full_part = 0.5;
	stand_full(config, runs, "half of them");
	config.fabric.full_part = 0.25;
	config.fabric.full_hosts = 0.2;
	stand_full(config, runs, "and a fifth of the hosts' own");
	config.fabric.full_part = 1;
	config.fabric.full_hosts = 0;
	stand_full(config, runs, "all between switches");
	routes_longer();
	spells(3, 1, runs, "spells of 3 s in one direction move no clock");
	spells(5, 0.8, runs, "spells of 5 s, most in one direction, move no clock");
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 2 ? (unsigned)atoi(argv[2]) : argc > 1 ? 6 : 3;

	seeds.argument = argc > 1 ? argv[1] : NULL;
	seeds_plan(&seeds, 13);
	while (seeds_next(&seeds))
		test(seeds.few ? 1 + runs / 6 : runs);
	return failures ? 1 : 0;
}

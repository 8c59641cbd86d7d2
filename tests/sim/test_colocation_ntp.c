// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which VMs share a machine while NTP slews the local clock of each on its own: fleets that run all
 * of the daemon's laws (edges, consensus, bound, slew, the counter's points) on packets, and
 * compare their points as `escapement colocation` does. In one row a hypervisor stops all VMs of a
 * machine now and then. TAP. Arguments: the seed; fleets of each row; one row alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocksync/colocate.h"
#include "tests/lib/sim/seeds.h"
#include "tests/lib/sim/sim.h"
#include "tests/lib/tap.h"

#define VMS 24
#define MACHINE_MOST 5
#define TIMESTAMP_NS 15

static struct seeds seeds = {.fixed = 1};
static unsigned int fleets_given;

struct row {
	const char *name;
	double counter_ns; /* noise of a reading of the counter, as on a busy machine */
	double seconds;
	int64_t interval_ns;
	double ntp_ppb, stop_every_s, stop_s;
	unsigned int fleets; /* with a seed of the caller; without, one */
};

/* Those of `make check` first. */
static const struct row rows[] = {
	{"10 ns, 60 s", 0, 60, 4000000, 1000, 0, 0, 2},
	{"10 ns, 60 s, machines stop", 0, 60, 4000000, 1000, 20, 0.2, 1},
	{"10 ns, 120 s, slewed by 100 ppm", 0, 120, 4000000, 100000, 0, 0, 1},
	{"100 ns, 300 s", 100, 300, 8000000, 1000, 0, 0, 1},
	{"1 us, 1800 s", 1000, 1800, 10000000, 1000, 0, 0, 1},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))
#define ROWS_CHECK 2

struct figures {
	double truly, others, missed, denied, wrong, noise_ns, bound_ns, readings, outside, steps;
	double error_ns; /* median of pairs of readings */
};

static struct sim_config config_of(const struct row *row, uint64_t seed)
{
	struct sim_config config;

	sim_config_default(&config, seed);
	config.hosts = VMS;
	config.degree = 6;
	config.packets = true;
	config.adaptive_interval = true;
	config.pair_interval_ns = row->interval_ns;
	config.timestamp_ns = TIMESTAMP_NS;
	config.counter_ns = row->counter_ns;
	config.seconds = row->seconds + 20; /* to be synced by then */
	config.measure_from_s = 15;
	config.ntp_ppb = row->ntp_ppb;
	config.ntp_every_s = 8;
	config.machine_most = MACHINE_MOST;
	config.stop_every_s = row->stop_every_s;
	config.stop_s = row->stop_s;
	config.cycles = true;
	return config;
}

/* As an export has them. */
static struct colocate_series series_of(const struct cycles *cycles, double *points, size_t most)
{
	size_t count = cycles->count < most ? cycles->count : most;
	struct colocate_series series = {.reference_hz = (double)cycles->reference_hz,
					 .first = cycles->last - (int64_t)count + 1,
					 .count = count,
					 .ahead_ns = points};

	for (size_t i = 0; i < count; i++) {
		struct cycles_point point = cycles_at(cycles, series.first + (int64_t)i);

		points[i] = point.ahead_ns;
		if (isfinite(point.ahead_ns))
			series.bound_ns = fmax(series.bound_ns, point.bound_ns);
	}
	return series;
}

static void compare(const struct sim *sim, const struct row *row, struct figures *f)
{
	static double points[VMS][CYCLES_POINTS];
	struct colocate_series series[VMS];
	struct colocate out;

	for (size_t h = 0; h < VMS; h++) {
		series[h] = series_of(sim->hosts[h].cycles, points[h], (size_t)(row->seconds / 2));
		f->steps += sim->hosts[h].cycles_steps;
	}
	if (colocate_solve(series, VMS, &out))
		exit(tap_bail("colocate_solve"));
	for (size_t i = 0; i < VMS; i++) {
		f->noise_ns += out.noise_ns[i] / VMS;
		f->bound_ns += series[i].bound_ns / VMS;
		for (size_t k = i + 1; k < VMS; k++) {
			bool same = sim->hosts[i].machine == sim->hosts[k].machine;
			const struct colocate_pair *pair = &out.pairs[colocate_index(VMS, i, k)];

			f->truly += same;
			f->others += !same;
			f->missed += same && pair->verdict != COLOCATE_SAME;
			f->denied += same && pair->verdict == COLOCATE_OTHER;
			f->wrong += !same && pair->verdict == COLOCATE_SAME;
		}
	}
	colocate_free(&out);
}

static void test_row(const struct row *row)
{
	unsigned int fleets = fleets_given ? fleets_given : seeds.argument ? row->fleets : 1;
	struct sim *sim = malloc(sizeof(*sim));
	struct figures f = {};

	for (unsigned int i = 0; i < fleets; i++) {
		struct sim_config config = config_of(row, seeds.seed * 1000 + i);

		if (!sim || sim_init(sim, &config))
			exit(tap_bail("no memory for a fleet"));
		sim_run(sim);
		compare(sim, row, &f);
		f.readings += (double)sim->result.readings;
		f.outside += (double)sim->result.outside;
		f.error_ns += stats_percentile(&sim->result.error, .5) / fleets;
		sim_free(sim);
	}
	free(sim);
	printf("# %s: %u fleets of %u VMs, clocks slewed by up to %g ppm: a point's noise %.1f ns, "
	       "bound %.0f ns; of %.0f true pairs %.0f missed (%.0f denied), of %.0f others %.0f "
	       "named; %.0f steps reported; readings of pairs %.0f ns apart, %.4f%% outside their "
	       "bounds\n",
	       row->name, fleets, VMS, row->ntp_ppb / 1e3, f.noise_ns / fleets, f.bound_ns / fleets,
	       f.truly, f.missed, f.denied, f.others, f.wrong, f.steps, f.error_ns,
	       100 * f.outside / f.readings);
	/* Of the few pairs of one fleet one percent is none. */
	tap_ok(f.wrong <= 1e-4 * f.others && f.missed <= fmax(2, 0.01 * f.truly) && !f.denied &&
		       !f.steps,
	       "%s: false pairs below 1e-4, missed ones below 1%% (or two), no step reported",
	       row->name);
}

int main(int argc, char **argv)
{
	size_t only = argc > 3 ? strtoul(argv[3], NULL, 0) : ROWS, count;

	seeds.argument = argc > 1 ? argv[1] : NULL;
	fleets_given = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 0) : 0;
	count = seeds.argument ? ROWS : ROWS_CHECK;
	printf("TAP version 13\n1..%zu\n", only < ROWS ? 1 : seeds.argument ? count : count + 1);
	while (seeds_next(&seeds))
		for (size_t i = 0; i < (seeds.few ? 1 : count); i++)
			if (only == ROWS || i == only)
				test_row(&rows[i]);
	return tap.failed > 0;
}

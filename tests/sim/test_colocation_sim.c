// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which of 1,000 virtual machines share a machine (clocksync/colocate.h), by counters whose rates
 * and wander are those of tests/lib/sim/oscillator.h, read with 10 ns to 1 us of noise; and whether
 * a live migration is noticed (clocksync/cycles.h). TAP. Argument: the seed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocksync/colocate.h"
#include "clocksync/cycles.h"
#include "tests/lib/rng.h"
#include "tests/lib/sim/oscillator.h"
#include "tests/lib/sim/seeds.h"
#include "tests/lib/tap.h"

#define VMS 1000
#define GROUP_MOST 8
#define TICK_NS 250000000ll
#define TICKS (CYCLES_STEP_NS / TICK_NS)

static struct seeds seeds = {.fixed = 1};
static struct rng rng;

struct fleet {
	const char *name;
	unsigned int vms, points;
	double noise_ns;
	double color;  /* of the noise from point to point, 0..1 */
	double wander; /* 1: that of tests/lib/sim */
	double common; /* part of it that all have, of one room */
	double scaled; /* share of the VMs whose counter is scaled */
	bool apart;    /* no two on one machine */
};

struct figures {
	double truly, named, missed, wrong, denied, unknown, expected;
	double calibrated[2]; /* of pairs with 0.5 .. 0.99: sum of probabilities, true ones */
	double seconds;
	bool too_many;
};

static struct oscillator_config wander_of(double part)
{
	return (struct oscillator_config){.drift_max_ppb = 10000,
					  .walk_ppb = 3 * part,
					  .sine_ppb = 50 * part,
					  .sine_period_s = {60, 180}};
}

/* A machine's counter against true time, at each point. */
static void run_machine(const struct fleet *fleet, const double *room_ns, double *ahead_ns)
{
	struct oscillator_config config = wander_of(fleet->wander);
	struct oscillator oscillator;

	oscillator_init(&oscillator, &config, &rng);
	for (unsigned int i = 0; i < fleet->points * TICKS; i++) {
		oscillator_tick(&oscillator, &config, &rng, i * TICK_NS, TICK_NS);
		if (i % TICKS == 0)
			ahead_ns[i / TICKS] =
				oscillator.phase_ns + fleet->common * room_ns[i / TICKS];
	}
}

/* What a VM reads of it, with its own errors of fabric time. */
static void read_vm(const struct fleet *fleet, const double *machine_ns, double *ahead_ns)
{
	double error_ns = rng_normal(&rng) * fleet->noise_ns, base_ns = 1e6 * rng_normal(&rng);
	double scale_ppb = rng_unit(&rng) < fleet->scaled ? 400 * (2 * rng_unit(&rng) - 1) : 0;

	for (unsigned int i = 0; i < fleet->points; i++) {
		error_ns = fleet->color * error_ns + sqrt(1 - fleet->color * fleet->color) *
							     rng_normal(&rng) * fleet->noise_ns;
		ahead_ns[i] = base_ns + machine_ns[i] + error_ns + 2 * i * scale_ppb;
	}
}

static unsigned int build(const struct fleet *fleet, struct colocate_series *series,
			  unsigned int *machine)
{
	double *ahead_ns = calloc(fleet->points, sizeof(double));
	double *room_ns = calloc(fleet->points, sizeof(double));
	struct fleet room = *fleet;
	unsigned int machines = 0, left = 0;

	room.common = 0;
	run_machine(&room, room_ns, room_ns);
	for (unsigned int i = 0; i < fleet->vms; i++) {
		double *points = calloc(fleet->points, sizeof(double));

		if (!left) {
			left = fleet->apart ? 1 : 1 + (unsigned int)rng_below(&rng, GROUP_MOST);
			run_machine(fleet, room_ns, ahead_ns);
			machines++;
		}
		left--;
		machine[i] = machines;
		read_vm(fleet, ahead_ns, points);
		series[i] = (struct colocate_series){.reference_hz = 2.5e9,
						     .first = 1000,
						     .count = fleet->points,
						     .ahead_ns = points,
						     .bound_ns = 4 * fleet->noise_ns};
	}
	free(ahead_ns);
	free(room_ns);
	return machines;
}

static struct figures solve(const struct fleet *fleet)
{
	struct colocate_series *series = calloc(fleet->vms, sizeof(*series));
	unsigned int *machine = calloc(fleet->vms, sizeof(*machine));
	unsigned int machines = build(fleet, series, machine);
	struct figures f = {};
	struct colocate out;
	struct timespec before, after;
	double others = 0;

	clock_gettime(CLOCK_MONOTONIC, &before);
	if (colocate_solve(series, fleet->vms, &out))
		exit(tap_bail("colocate_solve"));
	clock_gettime(CLOCK_MONOTONIC, &after);
	f.seconds = (double)(after.tv_sec - before.tv_sec) +
		    (double)(after.tv_nsec - before.tv_nsec) / 1e9;
	for (unsigned int i = 0; i < fleet->vms; i++)
		for (unsigned int k = i + 1; k < fleet->vms; k++) {
			const struct colocate_pair *pair =
				&out.pairs[colocate_index(fleet->vms, i, k)];
			bool same = machine[i] == machine[k];

			f.truly += same;
			others += !same;
			f.named += pair->verdict == COLOCATE_SAME;
			f.missed += same && pair->verdict != COLOCATE_SAME;
			f.denied += same && pair->verdict == COLOCATE_OTHER;
			f.wrong += !same && pair->verdict == COLOCATE_SAME;
			f.unknown += pair->verdict == COLOCATE_UNKNOWN;
			if (pair->probability > 0.5f && pair->probability < 0.99f) {
				f.calibrated[0] += (double)pair->probability;
				f.calibrated[1] += same;
			}
		}
	f.expected = out.expected_false_pairs;
	f.too_many = out.too_many;
	printf("# %s: %u VMs on %u machines, %u s, %g ns: of %.0f true pairs %.3f%% missed (%.0f "
	       "denied), of %.0f others %.0f named, %.2f expected; %.0f unknown; of pairs with "
	       "0.5..0.99 %.1f expected, %.0f true; %.2f s\n",
	       fleet->name, fleet->vms, machines, 2 * fleet->points, fleet->noise_ns, f.truly,
	       f.truly > 0 ? 100 * f.missed / f.truly : 0, f.denied, others, f.wrong, f.expected,
	       f.unknown, f.calibrated[0], f.calibrated[1], f.seconds);
	f.wrong /= others;
	if (f.truly > 0) {
		f.missed /= f.truly;
		f.denied /= f.truly;
	}
	colocate_free(&out);
	for (unsigned int i = 0; i < fleet->vms; i++)
		free((void *)(uintptr_t)series[i].ahead_ns);
	free(series);
	free(machine);
	return f;
}

static void test_fleets(void)
{
	static const struct fleet goals[] = {
		{.name = "goal", .points = 30, .noise_ns = 10, .wander = 1},
		{.name = "goal", .points = 150, .noise_ns = 100, .wander = 1},
		{.name = "goal", .points = 900, .noise_ns = 1000, .wander = 1},
		{.name = "goal", .points = CYCLES_POINTS, .noise_ns = 10000, .wander = 1},
	};
	static const struct fleet others[] = {
		{.name = "a tenth of the wander", .points = 900, .noise_ns = 100, .wander = 0.1},
		{.name = "no wander", .points = 150, .noise_ns = 100, .wander = 0},
		{.name = "too short", .points = 30, .noise_ns = 100, .wander = 1},
		{.name = "too noisy", .points = 150, .noise_ns = 1000, .wander = 1},
		{.name = "slow errors", .points = 150, .noise_ns = 100, .wander = 1, .color = 0.9},
		{.name = "one room", .points = 150, .noise_ns = 100, .wander = 0.3, .common = 3},
		{.name = "scaled", .points = 450, .noise_ns = 100, .wander = 1, .scaled = 0.2},
		{.name = "apart", .points = 150, .noise_ns = 100, .wander = 1, .apart = true},
	};
	struct figures f;
	struct fleet fleet;

	for (unsigned int i = 0; i < sizeof(goals) / sizeof(goals[0]); i++) {
		fleet = goals[i];
		fleet.vms = VMS;
		f = solve(&fleet);
		tap_ok(f.wrong < 1e-4 && f.missed < 0.01 && !f.denied,
		       "%g ns, %u s: false pairs below 1e-4, missed ones below 1%%", fleet.noise_ns,
		       2 * fleet.points);
	}
	for (unsigned int i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		fleet = others[i];
		fleet.vms = seeds.few ? 300 : VMS;
		f = solve(&fleet);
		tap_ok(f.wrong < 1e-4 && f.denied < 1e-3 && !f.too_many,
		       "%s: false pairs below 1e-4, and hardly any true pair is denied",
		       fleet.name);
	}
}

/* --- three machines, and one that all share --- */

struct small {
	unsigned int points;
	double noise_ns, color;
	bool apart;
	double missed_most;
};

static void test_small_fleets(const struct small *small, unsigned int runs)
{
	struct fleet fleet = {.vms = 6,
			      .points = small->points,
			      .noise_ns = small->noise_ns,
			      .color = small->color,
			      .apart = small->apart,
			      .wander = 1};
	double truly = 0, others = 0, missed = 0, wrong = 0, denied = 0;

	for (unsigned int run = 0; run < runs; run++) {
		struct colocate_series series[6];
		unsigned int machine[6];
		struct colocate out;

		build(&fleet, series, machine);
		if (colocate_solve(series, 6, &out))
			exit(tap_bail("colocate_solve"));
		for (unsigned int i = 0; i < 6; i++)
			for (unsigned int k = i + 1; k < 6; k++) {
				bool same = machine[i] == machine[k];
				uint8_t verdict = out.pairs[colocate_index(6, i, k)].verdict;

				truly += same;
				others += !same;
				missed += same && verdict != COLOCATE_SAME;
				denied += same && verdict == COLOCATE_OTHER;
				wrong += !same && verdict == COLOCATE_SAME;
			}
		colocate_free(&out);
		for (unsigned int i = 0; i < 6; i++)
			free((void *)(uintptr_t)series[i].ahead_ns);
	}
	printf("# %u fleets of six VMs, %u s, %g ns, color %g: of %.0f true pairs %.0f missed, "
	       "%.0f denied, of %.0f others %.0f named\n",
	       runs, 2 * fleet.points, fleet.noise_ns, fleet.color, truly, missed, denied, others,
	       wrong);
	tap_ok(wrong <= 1e-4 * others && denied <= 1e-3 * truly &&
		       missed <= small->missed_most * truly,
	       "six VMs, %u s, %g ns, color %g%s: false pairs below 1e-4, %g%% missed at most",
	       2 * fleet.points, fleet.noise_ns, fleet.color,
	       fleet.apart ? ", no two on one machine" : "", 100 * small->missed_most);
}

/* Rates alone decide. Errors of fabric time are slower than a point on a busy machine. */
static void test_small(void)
{
	static const struct small smalls[] = {
		{225, 10, 0, false, 0.01},
		{225, 50, 0, false, 0.01},
		{225, 50, 0.9, false, 0.1},
		{CYCLES_POINTS, 5000, 0, false, 0.01},
	};
	static const struct small apart = {225, 50, 0.9, true, 0};

	for (unsigned int n = 0; n < sizeof(smalls) / sizeof(smalls[0]); n++)
		test_small_fleets(&smalls[n], seeds.few ? 50 : 400);
	test_small_fleets(&apart, seeds.few ? 700 : 4000);
}

/* --- migration --- */

struct watched {
	int reported;  /* steps */
	double late_s; /* of the first after @at_s; negative: none */
	double off_ppb;
};

/* A VM that is read each 250 ms as the daemon does, and moves at @at_s by @step_ppb. */
static struct watched watch(double noise_ns, double wander, double at_s, double step_ppb,
			    double away_s, double until_s)
{
	struct oscillator_config config = wander_of(wander);
	struct cycles *cycles = calloc(1, sizeof(*cycles));
	struct watched watched = {.late_s = -1};
	struct oscillator oscillator;
	struct cycles_step step;

	oscillator_init(&oscillator, &config, &rng);
	for (int64_t i = 0; (double)i * 0.25 < until_s; i++) {
		double now_s = (double)i * 0.25, error_ns;
		int64_t now_ns = 1000000000000ll + i * TICK_NS + (int64_t)rng_below(&rng, 5000000);
		double moved_ns = now_s > at_s ? (now_s - at_s) * step_ppb + 3e6 : 0;

		oscillator_tick(&oscillator, &config, &rng, i * TICK_NS, TICK_NS);
		if (now_s > at_s && now_s < at_s + away_s)
			continue;
		error_ns = noise_ns * rng_normal(&rng);
		/* A reading of a fabric time that has not followed a slewed clock yet. */
		if (i % 397 < 8)
			error_ns += 50000;
		if (!cycles_add(cycles, now_ns,
				(uint64_t)((double)(now_ns % 1000000000000000ll) * 2.5 +
					   2.5 * (oscillator.phase_ns + moved_ns + error_ns)),
				4 * noise_ns, &step))
			continue;
		watched.reported++;
		if (now_s > at_s && watched.late_s < 0) {
			watched.late_s = now_s - at_s;
			watched.off_ppb = fabs(step.after_ppb - step.before_ppb - step_ppb);
		}
	}
	free(cycles);
	return watched;
}

static void test_migration(void)
{
	static const double noises_ns[] = {10, 100, 1000};

	for (unsigned int n = 0; n < 3; n++) {
		unsigned int runs = seeds.few ? 20 : 100, late = 0, false_ones = 0;
		double worst_s = 0, off_ppb = 0;

		for (unsigned int i = 0; i < runs; i++) {
			double step_ppb =
				(rng_unit(&rng) < 0.5 ? -1 : 1) * (1000 + 19000 * rng_unit(&rng));
			struct watched moved =
				watch(noises_ns[n], 1, 300, step_ppb, i % 2 ? 10 : 0.5, 400);

			late += moved.late_s < 0 || moved.late_s > 60;
			false_ones += moved.reported > 1;
			worst_s = fmax(worst_s, moved.late_s);
			off_ppb = fmax(off_ppb, moved.off_ppb);
			false_ones += watch(noises_ns[n], 1, 1e9, 0, 0, 1800).reported > 0;
		}
		printf("# %g ns: %u migrations by 1 ppm or more, the last reported after %.0f s, "
		       "its step within %.0f ppb; %u false reports in %u half hours\n",
		       noises_ns[n], runs, worst_s, off_ppb, false_ones, runs);
		tap_ok(!late && !false_ones && off_ppb < 1000,
		       "%g ns: each migration within a minute, its step to 1 ppm, and no other",
		       noises_ns[n]);
	}
}

int main(int argc, char **argv)
{
	seeds.argument = argc > 1 ? argv[1] : NULL;
	seeds_plan(&seeds, 20);
	while (seeds_next(&seeds)) {
		rng_seed(&rng, seeds.seed);
		test_fleets();
		test_small();
		test_migration();
	}
	return tap.failed > 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* The pause and rate law with many senders, wide margins; `pause_bench` has the figures. TAP. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/sim/pause_cases.h"
#include "tests/lib/sim/seeds.h"

static int tests, failures;
static struct seeds seeds = {.fixed = 1};

static void report(int good, const char *format, ...)
{
	va_list arguments;

	tests++;
	failures += !good;
	printf("%s %d - ", good ? "ok" : "not ok", tests);
	if (seeds.drawn)
		printf("seed %lu: ", (unsigned long)seeds.seed);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
}

static struct pause_figures run(const struct pause_trial *trial)
{
	struct pause_figures f;

	pause_trial_run(trial, seeds.seed, &f);
	printf("# %s%s: used %.4f, wasted %.4f, wait %.0f/%.0f us, drops %lu + %lu, again %lu, "
	       "jain "
	       "%.3f/%.3f, least %.2f, paused %.2f\n",
	       trial->name, trial->off ? ", no law" : "", f.used, f.wasted, f.p50_ns / US,
	       f.p99_ns / US, (unsigned long)f.first_dropped, (unsigned long)f.dropped,
	       (unsigned long)f.again, f.jain, f.jain_short, f.least, f.paused);
	return f;
}

/* Made by test(): with a window that is no limit. */
static struct pause_trial incast;

static void test_incast(void)
{
	static const unsigned counts[] = {2, 8, 64};
	static const double rtts[] = {5 * US, 50 * US, 200 * US, 1 * MS};

	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
		for (size_t r = 0; r < sizeof(rtts) / sizeof(*rtts); r++) {
			struct pause_trial trial = incast;
			struct pause_figures f;

			trial.senders = counts[c];
			trial.rtt_ns = rtts[r];
			f = run(&trial);
			report(f.used > 0.99 && !f.dropped && !f.again &&
				       f.p50_ns < 2 * trial.threshold_ns &&
				       f.p99_ns < 3 * trial.threshold_ns,
			       "%u senders, round trip %.0f us: the link is full, the queue short, "
			       "nothing lost",
			       counts[c], rtts[r] / US);
			/* A share takes hundreds of round trips to settle. */
			report(f.jain > (rtts[r] < MS ? 0.98 : 0.9), "... and their shares equal");
		}
	}
}

static void test_none(void)
{
	struct pause_trial trial = incast;
	struct pause_figures f;

	trial.off = true;
	trial.window = 128;
	f = run(&trial);
	report(f.dropped > f.packets / 50 && f.again > 0,
	       "the same without the law: packets are lost and retransmitted, so the test can "
	       "fail");
	trial.off = false;
	trial.pause_only = true;
	trial.name = "8 senders, the pause alone";
	f = run(&trial);
	report(f.dropped > 0, "the pause alone does not make go-back-N converge");
}

static void test_weights(void)
{
	struct pause_trial trial = incast;
	struct pause_figures f;

	trial.heavy = 4;
	trial.name = "4 of 8 of weight 3";
	f = run(&trial);
	report(f.heavy_part > 2.7 && f.heavy_part < 3.3, "weights of 3 to 1 share 3 to 1: %.2f",
	       f.heavy_part);
	trial.senders = 2;
	trial.heavy = 1;
	trial.name = "1 of 2 of weight 3";
	f = run(&trial);
	report(f.heavy_part > 2.7 && f.heavy_part < 3.3, "... and two alone: %.2f", f.heavy_part);
	trial = pause_emulated;
	trial.senders = 4;
	trial.heavy = 2;
	trial.name = "2 of 4 of weight 3, soft-RoCE, timestamps late by a 16th of the threshold";
	f = run(&trial);
	report(f.heavy_part > 2.5 && f.heavy_part < 3.5,
	       "... and soft-RoCE with late timestamps: %.2f", f.heavy_part);
}

static void test_trouble(void)
{
	struct pause_trial trial = incast;
	struct pause_figures f;

	trial.feedback_loss = 0.5;
	trial.name = "half of the feedback lost";
	f = run(&trial);
	report(f.used > 0.99 && !f.dropped && f.jain > 0.97, "%s: the same", trial.name);
	trial.feedback_loss = 1;
	trial.senders = 1;
	trial.seconds = 0.5;
	trial.warm = 1.2;
	trial.name = "all feedback lost, one sender";
	f = run(&trial);
	report(f.used > 0.95, "%s: it has the whole link in the end", trial.name);
	trial = incast;
	trial.clock_part = 0.1;
	trial.name = "clocks wrong by up to a tenth of the threshold";
	f = run(&trial);
	report(f.used > 0.99 && !f.dropped && f.jain > 0.93, "%s: nearly the same", trial.name);
	trial.clock_part = 0;
	trial.sample_every = 16;
	trial.noise_ns = 2000;
	trial.name = "1 in 16 sampled, noise of 2 us";
	f = run(&trial);
	report(f.used > 0.98 && !f.dropped && f.jain > 0.95, "%s: the same", trial.name);
	trial = incast;
	trial.late = 4;
	trial.name = "4 begin later";
	f = run(&trial);
	report(f.used > 0.99 && !f.dropped && f.jain > 0.97, "%s: they get their share",
	       trial.name);
	trial.floor_known = false;
	trial.name = "4 begin later, and take the queue for the path's own";
	f = run(&trial);
	report(f.used > 0.99 && !f.dropped && f.jain > 0.8, "%s: they get more, not all",
	       trial.name);
	trial.floor_ns = 200 * US;
	trial.late = 0;
	trial.name = "an empty path that takes four times what is above it";
	f = run(&trial);
	report(f.used > 0.99 && !f.dropped && f.p99_ns < 2 * trial.threshold_ns, "%s: the same",
	       trial.name);
	trial.floor_known = true;
	trial.late = 4;
	trial.name = "... 4 begin later, with a known floor";
	f = run(&trial);
	report(f.used > 0.99 && !f.dropped && f.jain > 0.97, "%s: they get their share",
	       trial.name);
	trial = incast;
	trial.kind = PNET_AIMD;
	trial.name = "under a TCP";
	f = run(&trial);
	report(f.used > 0.99 && !f.dropped && f.p99_ns < 2 * trial.threshold_ns,
	       "%s: the queue is short", trial.name);
	trial.unpaced = 0.5;
	trial.seconds = trial.warm = 0.6;
	trial.name = "half of them without the law, TCP";
	f = run(&trial);
	report(f.used > 0.99 && f.paced_part > 0.1 && f.paced_part < 1.2,
	       "%s: the others get more, but not all: %.2f", trial.name, f.paced_part);
}

static void test_soft_roce(void)
{
	struct pause_trial trial = pause_soft_roce;
	struct pause_figures f = run(&trial);

	report(f.used > 0.98 && !f.dropped && !f.first_dropped && f.jain > 0.95 &&
		       f.p99_ns < 2 * trial.threshold_ns,
	       "departures that are fixed 64 packets ahead: nothing lost, the link full");
	trial.off = true;
	f = run(&trial);
	report(f.dropped > f.packets / 50, "... without the law much is lost");
}

static void test_bursts(void)
{
	static const double rtts[] = {5 * US, 60 * US, 200 * US};
	static const double gains[] = {0.25, 1};

	for (size_t r = 0; r < sizeof(rtts) / sizeof(*rtts); r++) {
		for (size_t g = 0; g < sizeof(gains) / sizeof(*gains); g++) {
			struct pause_burst burst = pause_bursts;
			struct pause_burst_figures f[4];

			burst.rtt_ns = rtts[r];
			burst.gain = gains[g];
			burst.bursts = 5;
			for (int law = PAUSE_LAW_NONE; law <= PAUSE_LAW_RATE; law++) {
				burst.law = (enum pause_law)law;
				pause_burst_run(&burst, seeds.seed, &f[law]);
			}
			printf("# wasted: strawman %.3f, pause %.4f, ours %.4f; above the "
			       "threshold: none %.0f us, ours %.0f us\n",
			       f[PAUSE_LAW_STRAWMAN].wasted, f[PAUSE_LAW_PAUSE].wasted,
			       f[PAUSE_LAW_RATE].wasted, f[PAUSE_LAW_NONE].over_ns / US,
			       f[PAUSE_LAW_RATE].over_ns / US);
			report(f[PAUSE_LAW_PAUSE].wasted < 0.01 && f[PAUSE_LAW_RATE].wasted < 0.01,
			       "bursts, round trip %.0f us, gain %.2f: no time of the link is "
			       "wasted",
			       rtts[r] / US, gains[g]);
			report(f[PAUSE_LAW_STRAWMAN].wasted > 0.1,
			       "... pauses that count twice waste it");
			report(f[PAUSE_LAW_RATE].over_ns < 0.8 * f[PAUSE_LAW_NONE].over_ns,
			       "... and the queue is above the threshold for less time");
		}
	}
}

static void test_jobs(void)
{
	static const char *const names[] = {"ring all-reduce", "all-to-all", "15 to one"};

	for (int p = PAUSE_RING; p <= PAUSE_BURSTS; p++) {
		struct pause_jobs jobs = pause_collective;
		struct pause_job_figures with, without, placed;

		jobs.pattern = (enum pause_pattern)p;
		jobs.rounds = 4;
		pause_jobs_run(&jobs, seeds.seed, &with);
		jobs.off = true;
		pause_jobs_run(&jobs, seeds.seed, &without);
		printf("# %s: ideal %.2f ms, took %.2f (%.2f to %.2f), without %.2f; retransmitted "
		       "%lu, "
		       "without %lu\n",
		       names[p], with.ideal_ns / MS, with.p50_ns / MS, with.least_ns / MS,
		       with.most_ns / MS, without.p50_ns / MS, (unsigned long)with.again,
		       (unsigned long)without.again);
		report(with.done == jobs.rounds && with.again * 1000 < with.packets &&
			       with.p50_ns < 1.6 * with.ideal_ns,
		       "%s: next to nothing is retransmitted, and it takes what the links need",
		       names[p]);
		/* By chance flows are spread well: 1 drawn seed of 50, an all-to-all. */
		report((seeds.drawn ? without.again >= with.again
				    : without.again * 200 > without.packets) &&
			       (p == PAUSE_ALL_TO_ALL || without.p50_ns > with.p50_ns),
		       "... without the law %s is%s", seeds.drawn ? "not less" : "much",
		       p == PAUSE_ALL_TO_ALL ? "" : ", and it takes longer");
		if (p != PAUSE_RING)
			continue;
		jobs.off = false;
		jobs.placed = true;
		pause_jobs_run(&jobs, seeds.seed, &placed);
		printf("# ... spread over the spines: ideal %.2f ms, took %.2f\n",
		       placed.ideal_ns / MS, placed.p50_ns / MS);
		report(placed.done == jobs.rounds && !placed.again &&
			       placed.ideal_ns < 0.6 * with.ideal_ns &&
			       placed.p50_ns < 1.2 * placed.ideal_ns,
		       "... spread over the spines, as steering ends, it takes what these need");
	}
}

/* Messages that the buffers would hold are not to pay for the law. */
static void test_short_messages(void)
{
	struct pause_jobs jobs = pause_collective;
	struct pause_job_figures with, without;

	jobs.pattern = PAUSE_ALL_TO_ALL;
	jobs.chunk = 16;
	jobs.rounds = 10;
	for (int placed = 0; placed <= 1; placed++) {
		jobs.placed = placed;
		jobs.off = true;
		pause_jobs_run(&jobs, seeds.seed, &without);
		jobs.off = false;
		pause_jobs_run(&jobs, seeds.seed, &with);
		printf("# all-to-all of 64 KiB: ideal %.2f ms, took %.2f, without %.2f\n",
		       with.ideal_ns / MS, with.p50_ns / MS, without.p50_ns / MS);
		/*
		 * With 2 of 50 random seeds a link is so loaded that much is lost without the
		 * law.
		 */
		report(!with.again && (seeds.drawn || !without.again) &&
			       with.p50_ns < 1.25 * without.p50_ns,
		       "short messages%s take a quarter longer at most",
		       placed ? " over good paths" : "");
	}
}

static void test(void)
{
	incast = pause_incast;
	incast.window = 1000;
	incast.seconds = 0.2;
	incast.warm = 0.3;
	test_incast();
	test_none();
	test_weights();
	test_trouble();
	test_soft_roce();
	test_bursts();
	test_jobs();
	test_short_messages();
}

int main(int argc, char **argv)
{
	seeds.argument = argc > 1 ? argv[1] : NULL;
	seeds_plan(&seeds, 68);
	while (seeds_next(&seeds))
		test();
	return failures ? 1 : 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * The pause and rate law beside none, in one run: pause_bench [SEED [SEEDS [PART [ONLY]]]], PART of
 * incast (ONLY so many senders), speeds, soft, shares, trouble, bursts, jobs (messages of so many
 * KiB). What pacing/README.md has is from here. Waits are means over the seeds, Jain's index and
 * the link's use the least, drops and repeats sums.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim/pause_cases.h"

static uint64_t seed = 1;
static unsigned seeds = 5;
static unsigned only; /* so many senders of incast, messages of so many KiB of jobs; 0: all */

static void line(const char *name, struct pause_trial trial)
{
	struct pause_figures sum = {.used = 1, .jain = 1, .jain_short = 1};

	for (unsigned s = 0; s < seeds; s++) {
		struct pause_figures f;

		pause_trial_run(&trial, seed + s, &f);
		sum.used = fmin(sum.used, f.used);
		sum.jain = fmin(sum.jain, f.jain);
		sum.jain_short = fmin(sum.jain_short, f.jain_short);
		sum.p50_ns += f.p50_ns / seeds;
		sum.p99_ns += f.p99_ns / seeds;
		sum.heavy_part += f.heavy_part / seeds;
		sum.paced_part += f.paced_part / seeds;
		sum.paused += f.paused / seeds;
		sum.dropped += f.dropped;
		sum.again += f.again;
		sum.first_dropped += f.first_dropped;
		sum.wasted = fmax(sum.wasted, f.wasted);
	}
	printf("| %-34s | %s | %.3f | %.2f%% | %.0f / %.0f | %lu + %lu | %lu | %.3f / %.3f |", name,
	       trial.off	  ? "none"
	       : trial.pause_only ? "pause"
				  : "ours",
	       sum.used, 100 * sum.wasted, sum.p50_ns / US, sum.p99_ns / US,
	       (unsigned long)sum.first_dropped, (unsigned long)sum.dropped,
	       (unsigned long)sum.again, sum.jain, sum.jain_short);
	if (trial.heavy)
		printf(" weight 3 gets %.2f", sum.heavy_part);
	if (trial.unpaced > 0)
		printf(" a paced one gets %.2f of another", sum.paced_part);
	if (trial.pause_only)
		printf(" paused %.0f%%", 100 * sum.paused);
	printf("\n");
	fflush(stdout);
}

static void both(const char *name, struct pause_trial trial)
{
	trial.off = true;
	line(name, trial);
	trial.off = false;
	line(name, trial);
}

static void head(const char *title)
{
	printf("\n%s\n| senders | law | link used | wasted | wait p50 / p99, us | drops: start + "
	       "later | again | Jain: all / tenths |\n|---|---|---|---|---|---|---|---|\n",
	       title);
}

static void bench_incast(void)
{
	static const unsigned counts[] = {2, 8, 32, 64, 128};
	static const double rtts[] = {5 * US, 50 * US, 200 * US, 1 * MS};
	char name[64];

	head("Incast at 10 Gbit/s, T 50 us, 400 us of buffer, go-back-N with a window of 128 "
	     "packets or twice the round trip's");
	for (size_t r = 0; r < sizeof(rtts) / sizeof(*rtts); r++) {
		for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
			struct pause_trial trial = pause_incast;

			if (only && counts[c] != only)
				continue;
			trial.senders = counts[c];
			trial.rtt_ns = rtts[r];
			/* Twice what is under way, and soft-RoCE's at least. */
			trial.window = (uint64_t)fmax(128, 2 * (rtts[r] / US) / 1.2);
			snprintf(name, sizeof(name), "%u, round trip %.0f us", counts[c],
				 rtts[r] / US);
			both(name, trial);
		}
	}
	struct pause_trial many = pause_incast;

	many.senders = 256;
	many.buffer_ns = 2 * MS;
	if (!only || only == many.senders)
		both("256, 2 ms of buffer", many);
}

static void bench_speeds(void)
{
	struct pause_trial trial = pause_incast;

	head("8 senders at other speeds");
	trial.senders = 8;
	trial.host_bps = trial.link_bps = 100e9;
	trial.packet_bytes = 4096;
	trial.threshold_ns = trial.rtt_ns = 20 * US;
	trial.buffer_ns = 200 * US;
	trial.seconds = trial.warm = 0.05;
	both("100 Gbit/s, 4 KiB, RTT 20, T 20 us", trial);
	trial = pause_incast;
	trial.senders = 8;
	trial.host_bps = trial.link_bps = 1e9;
	trial.threshold_ns = 200 * US;
	trial.buffer_ns = 3 * MS;
	trial.seconds = trial.warm = 2;
	both("1 Gbit/s, T 200 us", trial);
	trial.host_bps = trial.link_bps = 100e6;
	trial.packet_bytes = 1100;
	trial.rtt_ns = 200 * US;
	trial.threshold_ns = 1 * MS;
	trial.buffer_ns = 8 * MS;
	trial.seconds = trial.warm = 8;
	both("100 Mbit/s, RTT 200 us, T 1 ms", trial);
	trial.host_bps = 10e9;
	trial.link_bps = 1e9;
	trial.packet_bytes = 1500;
	trial.threshold_ns = 200 * US;
	trial.buffer_ns = 3 * MS;
	trial.seconds = trial.warm = 2;
	both("ports of 10, the queue 1 Gbit/s", trial);
}

/* Soft-RoCE: 128 packets under way, 64 with the host before it waits until 16 are left. */
static void bench_soft_roce(void)
{
	static const unsigned counts[] = {2, 4, 8};
	char name[64];

	head("Soft-RoCE: a window of 128, packets of 1,100 bytes, 64 of them timestamped ahead; "
	     "RTT "
	     "200 us");
	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
		struct pause_trial trial = pause_soft_roce;

		trial.senders = counts[c];
		trial.seconds = 10;
		trial.warm = 20;
		trial.host_bps = trial.link_bps = 100e6;
		trial.threshold_ns = 2 * MS;
		trial.buffer_ns = 8 * MS;
		snprintf(name, sizeof(name), "%u at 100 Mbit/s, T 2 ms", counts[c]);
		both(name, trial);
		trial = pause_soft_roce;
		trial.senders = counts[c];
		snprintf(name, sizeof(name), "%u at 1 Gbit/s, T 500 us", counts[c]);
		both(name, trial);
	}
}

static void bench_shares(void)
{
	static const double noises[] = {100 * US, 1 * MS};
	static const double thresholds[] = {16 * MS, 40 * MS};
	char name[64];

	head("Shares: soft-RoCE at 20 Mbit/s, packets of 576 bytes, RTT 3 ms, a timeout of 1.07 s; "
	     "22 "
	     "s to settle");
	for (size_t t = 0; t < sizeof(thresholds) / sizeof(*thresholds); t++) {
		for (size_t n = 0; n < sizeof(noises) / sizeof(*noises); n++) {
			struct pause_trial trial = pause_emulated;

			trial.noise_ns = noises[n];
			trial.threshold_ns = thresholds[t];
			trial.buffer_ns = 4 * thresholds[t];
			snprintf(name, sizeof(name), "8, T %.0f ms, noise %.1f ms",
				 trial.threshold_ns / MS, noises[n] / MS);
			both(name, trial);
			trial.senders = 4;
			trial.heavy = 2;
			snprintf(name, sizeof(name), "4, weights 3:1, T %.0f, noise %.1f ms",
				 trial.threshold_ns / MS, noises[n] / MS);
			line(name, trial);
		}
	}
}

static void bench_trouble(void)
{
	static const double losses[] = {0.1, 0.5};
	static const double clocks[] = {0.01, 0.03, 0.1};
	char name[64];
	struct pause_trial trial = pause_incast;

	head("8 senders at 10 Gbit/s, RTT 50 us, T 50 us");
	trial.senders = 8;
	for (size_t i = 0; i < sizeof(losses) / sizeof(*losses); i++) {
		trial.feedback_loss = losses[i];
		snprintf(name, sizeof(name), "%.0f%% of the feedback lost", 100 * losses[i]);
		line(name, trial);
	}
	trial.feedback_loss = 0;
	for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++) {
		trial.clock_part = clocks[i];
		snprintf(name, sizeof(name), "clocks wrong by up to %.2f T", clocks[i]);
		line(name, trial);
	}
	trial.clock_part = 0;
	trial.sample_every = 4;
	trial.noise_ns = 2000;
	line("1 in 4 sampled, noise 2 us", trial);
	trial.sample_every = 16;
	line("1 in 16 sampled, noise 2 us", trial);
	trial = pause_incast;
	trial.senders = 8;
	trial.late = 4;
	line("4 of them later", trial);
	trial.floor_known = false;
	line("4 of them later, floor not reported", trial);
	trial.floor_ns = 200 * US;
	line("... floor 200 us, T 250 us", trial);
	trial.floor_known = true;
	line("... told", trial);
	trial = pause_incast;
	trial.senders = 8;
	trial.heavy = 4;
	line("4 of weight 3", trial);
	trial.senders = 2;
	trial.heavy = 1;
	line("1 of 2 of weight 3", trial);
	trial = pause_incast;
	trial.senders = 8;
	trial.kind = PNET_AIMD;
	trial.window = 1000;
	both("under a TCP (Reno with SACK)", trial);
	trial.pause_only = true;
	line("... the pause alone", trial);
	trial.pause_only = false;
	trial.ecn = true;
	both("under a DCTCP", trial);
	trial.kind = PNET_GOBACK;
	trial.window = 128;
	trial.ecn = false;
	trial.pause_only = true;
	line("go-back-N, the pause alone", trial);
	trial = pause_incast;
	trial.senders = 8;
	trial.seconds = trial.warm = 1;
	trial.unpaced = 0.25;
	trial.window = 128;
	line("2 not paced, window of 128", trial);
	trial.unpaced = 0.5;
	line("4 not paced, window of 128", trial);
	trial.kind = PNET_AIMD;
	trial.window = 1000;
	line("4 not paced, all TCP", trial);
}

static void bench_bursts(void)
{
	static const char *const laws[] = {"none", "strawman", "pause", "ours"};
	static const double rtts[] = {5 * US, 20 * US, 60 * US, 200 * US, 1 * MS};
	static const double gains[] = {0.25, 0.5, 0.8, 1};

	printf("\nBursts: 8 senders at 97%% of 10 Gbit/s, four times it for 100 us every 20 ms\n"
	       "| round trip, us | T, us | law | gain | wasted of the time | peak, us | above T, "
	       "us "
	       "a burst |\n|---|---|---|---|---|---|---|\n");
	for (size_t r = 0; r < sizeof(rtts) / sizeof(*rtts); r++) {
		for (int law = PAUSE_LAW_NONE; law <= PAUSE_LAW_RATE; law++) {
			for (size_t g = 0; g < sizeof(gains) / sizeof(*gains); g++) {
				struct pause_burst burst = pause_bursts;
				struct pause_burst_figures f;

				if (law == PAUSE_LAW_NONE && g)
					continue;
				burst.rtt_ns = rtts[r];
				if (rtts[r] >= MS)
					burst.threshold_ns = 100 * US;
				burst.law = (enum pause_law)law;
				burst.gain = gains[g];
				pause_burst_run(&burst, seed, &f);
				printf("| %.0f | %.0f | %s | %.2f | %.2f%% | %.0f | %.0f |\n",
				       rtts[r] / US, burst.threshold_ns / US, laws[law], gains[g],
				       100 * f.wasted, f.peak_ns / US, f.over_ns / US);
			}
		}
	}
}

static void job(const char *name, struct pause_jobs jobs)
{
	struct pause_job_figures sum = {.least_ns = 1e18};

	for (unsigned s = 0; s < seeds; s++) {
		struct pause_job_figures f;

		pause_jobs_run(&jobs, seed + s, &f);
		sum.p50_ns += f.p50_ns / seeds;
		sum.least_ns = fmin(sum.least_ns, f.least_ns);
		sum.most_ns = fmax(sum.most_ns, f.most_ns);
		sum.ideal_ns += f.ideal_ns / seeds;
		sum.packets += f.packets;
		sum.dropped += f.dropped;
		sum.again += f.again;
		sum.done += f.done;
	}
	printf("| %s | %u KiB | %.0f | %s | %s | %.2f | %.2f / %.2f / %.2f | %lu | %.1f%% |%s\n",
	       name, 4 * jobs.chunk, jobs.timeout_ns / MS, jobs.off ? "none" : "ours",
	       jobs.placed ? "placed" : "ECMP", sum.ideal_ns / MS, sum.p50_ns / MS,
	       sum.least_ns / MS, sum.most_ns / MS, (unsigned long)sum.dropped,
	       100. * (double)sum.again / (double)sum.packets,
	       sum.done == jobs.rounds * seeds ? "" : " not all done");
	fflush(stdout);
}

static void bench_jobs(void)
{
	static const char *const names[] = {"ring all-reduce of 16", "all-to-all of 16",
					    "15 to one"};
	static const unsigned chunks[] = {16, 64, 256};
	static const double timeouts[] = {67 * MS, 4 * MS};

	printf("\nCollectives: 16 hosts on 4 leaves, 4 spines, 10 Gbit/s, RTT 20 "
	       "us, "
	       "T 50 us, 400 us of buffer, 4 KiB packets, window 128, 1-2 ms of rest\n"
	       "| pattern | message | timeout, ms | law | paths | ideal, ms | took p50 / least / "
	       "most, ms "
	       "| "
	       "drops | again |\n|---|---|---|---|---|---|---|---|---|\n");
	for (int p = PAUSE_RING; p <= PAUSE_BURSTS; p++) {
		for (size_t c = 0; c < sizeof(chunks) / sizeof(*chunks); c++) {
			if (only && 4 * chunks[c] != only)
				continue;
			struct pause_jobs jobs = pause_collective;

			jobs.pattern = (enum pause_pattern)p;
			jobs.chunk = chunks[c];
			for (size_t t = 0; t < sizeof(timeouts) / sizeof(*timeouts); t++) {
				jobs.timeout_ns = timeouts[t];
				jobs.off = true;
				job(names[p], jobs);
				jobs.off = false;
				job(names[p], jobs);
			}
			/* As steering ends, where it can do anything. */
			jobs.placed = true;
			for (int off = 1; off >= 0 && p != PAUSE_BURSTS; off--) {
				jobs.off = off;
				job(names[p], jobs);
			}
			jobs.sample_every = 4;
			for (int placed = 0; placed <= 1 && p == PAUSE_ALL_TO_ALL; placed++) {
				jobs.placed = placed;
				job("... 1 in 4 sampled", jobs);
			}
		}
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"incast", bench_incast},	 {"speeds", bench_speeds},
		     {"soft", bench_soft_roce},	 {"shares", bench_shares},
		     {"trouble", bench_trouble}, {"bursts", bench_bursts},
		     {"jobs", bench_jobs}};

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	if (argc > 4)
		only = (unsigned)strtoul(argv[4], NULL, 0);
	if (argc > 2)
		seeds = (unsigned)strtoul(argv[2], NULL, 0);
	printf("# seed %lu, %u seeds\n", (unsigned long)seed, seeds);
	for (size_t p = 0; p < sizeof(parts) / sizeof(*parts); p++)
		if (argc < 4 || !strcmp(argv[3], parts[p].name))
			parts[p].run();
	return 0;
}

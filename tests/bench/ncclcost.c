// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nanoseconds of an event in libescapement-nccl: a step of a send has five, from its start to its
 * stop. The least of the rounds is shown, because what else the machine does can only add to it.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "tests/lib/ncclring.h"

#define ROUNDS 40
#define STEPS 40000

extern const void *const ncclProfiler_v1[], *const ncclProfiler_v4[], *const ncclProfiler_v7[];

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void clocks(void)
{
	struct timespec now;

	for (int i = 0; i < 5; i++)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

static void step(const struct host *host, void *context, void *op, int number)
{
	void *made = host_step(host, context, op, 0, number);

	host_record(host, made, HOST_SEND_GPU, 0);
	host_record(host, made, HOST_SEND_PEER, 0);
	host_record(host, made, HOST_SEND_WAIT, 4096);
	host_stop(host, made);
}

/* With a collective and an operation every 64 steps, as of a job. */
static double measure(const struct host *host, void *context)
{
	double begin = now_ns();
	void *coll, *op = NULL;

	for (int i = 0; i < STEPS; i++) {
		if (i % 64 == 0) {
			host_stop(host, op);
			/* Without a number all are recorded. */
			coll = host_coll(host, context, 1, "", 0, 0, 1);
			op = host_op(host, context, coll, getpid(), 0, 0, 1, 64, 1);
		}
		step(host, context, op, i);
	}
	host_stop(host, op);
	return (now_ns() - begin) / STEPS / 5;
}

int main(void)
{
	char folder[] = "/tmp/esc-ncclcost-XXXXXX", command[64];
	const struct host hosts[] = {{1, (void *const *)ncclProfiler_v1},
				     {4, (void *const *)ncclProfiler_v4},
				     {7, (void *const *)ncclProfiler_v7}};
	double clock_ns = 1e9;

	if (!mkdtemp(folder))
		return 1;
	setenv("ESCAPEMENT_VERBS_FOLDER", folder, 1);
	for (int i = 0; i < ROUNDS; i++) {
		double begin = now_ns();

		for (int k = 0; k < 100000; k++)
			clocks();
		clock_ns = fmin(clock_ns, (now_ns() - begin) / 500000);
	}
	printf("libescapement-nccl, ns an event (a reading of the clock: %.1f)      aim\n",
	       clock_ns);
	for (size_t v = 0; v < sizeof(hosts) / sizeof(hosts[0]); v++) {
		double least = 1e9;
		void *context;
		int mask = 0;

		host_init(&hosts[v], &context, &mask, "cost", v, 2, 2, 0);
		if (!context) {
			fprintf(stderr, "ncclcost: nothing is recorded\n");
			return 1;
		}
		for (int i = 0; i < ROUNDS; i++)
			least = fmin(least, measure(&hosts[v], context));
		printf("version %u, events of a step %28.1f      60  %s\n", hosts[v].version, least,
		       least <= 60 ? "met" : "missed");
	}
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command) ? 1 : 0;
}

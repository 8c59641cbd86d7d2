// SPDX-License-Identifier: BSD-2-Clause
/*
 * What NCCL would tell its profiler plugin in a job: all-reduces of a ring of 8 ranks, in real
 *time.
 *
 *	nccljob PLUGIN VERSION FIRST COUNT START_NS FAULT RANK
 *
 * This process has COUNT ranks from FIRST; with the same START_NS (CLOCK_MONOTONIC), FAULT and RANK
 * those of other processes are of the same communicator, whose hash it is. FAULT: none, link (what
 *RANK sends is slow), gpu, or late. Collectives follow one another until SIGTERM.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "tests/lib/ncclring.h"

#define GPU_NS 1000000
#define WIRE_NS 2000000
#define PAUSE_NS 50000000ull

static volatile sig_atomic_t ends;

static void take_signal(int number)
{
	(void)number;
	ends = 1;
}

static void wait_until(uint64_t ns)
{
	struct timespec at = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	while (!ends && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
		;
}

static void make_ring(struct ring *ring, const char *fault, int rank)
{
	for (int r = 0; r < RING_RANKS; r++) {
		ring->late[r] = 0;
		ring->gpu[r] = GPU_NS;
		ring->wire[r] = WIRE_NS;
	}
	if (!strcmp(fault, "link"))
		ring->wire[rank] *= 6;
	if (!strcmp(fault, "gpu"))
		ring->gpu[rank] *= 15;
	if (!strcmp(fault, "late"))
		ring->late[rank] = 300e6;
	ring_run(ring);
}

int main(int argc, char **argv)
{
	static struct ring_event list[RING_EVENTS];
	struct ring_rank ranks[RING_RANKS] = {};
	static struct ring ring;
	struct host host;
	char name[32];
	void *library;
	uint64_t at_ns;
	size_t count;

	if (argc != 8) {
		fprintf(stderr, "nccljob PLUGIN VERSION FIRST COUNT START_NS FAULT RANK\n");
		return 2;
	}
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	snprintf(name, sizeof(name), "ncclProfiler_v%s", argv[2]);
	host = (struct host){(unsigned int)atoi(argv[2]), library ? dlsym(library, name) : NULL};
	if (!host.table) {
		fprintf(stderr, "nccljob: %s\n", dlerror());
		return 1;
	}
	at_ns = strtoull(argv[5], NULL, 10);
	signal(SIGTERM, take_signal);
	for (int r = atoi(argv[3]); r < atoi(argv[3]) + atoi(argv[4]); r++) {
		int mask = 0;

		ranks[r].hash = at_ns;
		host_init(&host, &ranks[r].context, &mask, "ring", ranks[r].hash, 2, RING_RANKS, r);
		if (!ranks[r].context || !mask) {
			fprintf(stderr, "nccljob: rank %d is not recorded\n", r);
			return 1;
		}
	}
	make_ring(&ring, argv[6], atoi(argv[7]));
	count = ring_events(&ring, list);
	for (uint64_t sequence = 0; !ends; sequence++) {
		for (size_t i = 0; i < count && !ends; i++) {
			if (!ranks[list[i].rank].context)
				continue;
			wait_until(at_ns + (uint64_t)list[i].ns);
			ring_play(&host, &ranks[list[i].rank], sequence, &list[i]);
		}
		at_ns += (uint64_t)ring.end + PAUSE_NS;
	}
	for (int r = 0; r < RING_RANKS; r++)
		if (ranks[r].context)
			host_finalize(&host, ranks[r].context);
	/* As NCCL does with the last communicator. */
	dlclose(library);
	return 0;
}

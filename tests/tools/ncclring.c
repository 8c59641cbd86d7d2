// SPDX-License-Identifier: BSD-2-Clause
/*
 * For a rank that is no C program (tests/lab/test_collectives): tells a profiler plugin of a real
 * ring all-reduce what NCCL would tell it.
 */
#include <dlfcn.h>
#include <stdio.h>

#define RING_STEP_BYTES (48 << 10)
#include "tests/lib/ncclring.h"

void *ring_open(const char *plugin, unsigned int version, uint64_t hash, int number);
void ring_tell(void *rank, uint64_t sequence, int kind, int step);

struct teller {
	struct host host;
	struct ring_rank rank;
	int number;
};

const int ring_steps = RING_STEPS, ring_step_bytes = RING_STEP_BYTES, ring_slots = RING_SLOTS,
	  ring_ranks = RING_RANKS;

/* NULL: it does not record. Lives as long as the process. */
void *ring_open(const char *plugin, unsigned int version, uint64_t hash, int number)
{
	void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	struct teller *teller = calloc(1, sizeof(*teller));
	char name[32];
	int mask = 0;

	snprintf(name, sizeof(name), "ncclProfiler_v%u", version);
	if (!library || !teller)
		return NULL;
	teller->host = (struct host){version, dlsym(library, name)};
	teller->number = number;
	teller->rank.hash = hash;
	if (!teller->host.table)
		return NULL;
	host_init(&teller->host, &teller->rank.context, &mask, "ring", hash, RING_RANKS, RING_RANKS,
		  number);
	return teller->rank.context && mask ? teller : NULL;
}

void ring_tell(void *rank, uint64_t sequence, int kind, int step)
{
	struct teller *teller = rank;
	struct ring_event event = {
		.kind = (enum ring_kind)kind, .rank = teller->number, .step = step};

	ring_play(&teller->host, &teller->rank, sequence, &event);
}

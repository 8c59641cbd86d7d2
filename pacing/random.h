/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random numbers of the control laws (splitmix64). The state is an argument, so that a run with
 * the same seed is reproducible; hosts must have different seeds.
 */
#ifndef ESC_PACING_RANDOM_H
#define ESC_PACING_RANDOM_H

#include <stdint.h>

static inline uint64_t pacing_random(uint64_t *state)
{
	uint64_t v = *state += 0x9e3779b97f4a7c15ull;

	v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
	v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
	return v ^ (v >> 31);
}

/* In [0, 1). */
static inline double pacing_random_unit(uint64_t *state)
{
	return (double)(pacing_random(state) >> 11) / 9007199254740992.0;
}

#endif

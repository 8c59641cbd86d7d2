/* SPDX-License-Identifier: BSD-2-Clause */
/* Random numbers of the simulations: xorshift128+, seeded, the same everywhere. */
#ifndef ESC_TESTS_SIM_RNG_H
#define ESC_TESTS_SIM_RNG_H

#include <math.h>
#include <stdint.h>

struct rng {
	uint64_t s[2];
};

static inline uint64_t rng_mix(uint64_t v)
{
	v += 0x9e3779b97f4a7c15ull;
	v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
	v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
	return v ^ (v >> 31);
}

static inline void rng_seed(struct rng *rng, uint64_t seed)
{
	rng->s[0] = rng_mix(seed);
	rng->s[1] = rng_mix(rng->s[0]);
}

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t x = rng->s[0], y = rng->s[1];

	rng->s[0] = y;
	x ^= x << 23;
	rng->s[1] = x ^ y ^ (x >> 17) ^ (y >> 26);
	return rng->s[1] + y;
}

/* In (0, 1). */
static inline double rng_unit(struct rng *rng)
{
	return ((double)(rng_next(rng) >> 12) + 0.5) / 4503599627370496.0;
}

static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return rng_next(rng) % n;
}

static inline double rng_exponential(struct rng *rng)
{
	return -log(rng_unit(rng));
}

static inline double rng_normal(struct rng *rng)
{
	return sqrt(2 * rng_exponential(rng)) * cos(2 * M_PI * rng_unit(rng));
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seeds of a simulation and its plan. Without an argument two passes: all of it with the fixed
 * seed, so that figures can be compared with the last run's; then a part of it with one made of the
 * date (UTC, or $ESCAPEMENT_SEED), so that each day tries another. With an argument, all of it with
 * that seed.
 */
#ifndef ESC_TESTS_SIM_SEEDS_H
#define ESC_TESTS_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct seeds {
	const char *argument; /* of the command line, or NULL */
	uint64_t fixed;
	uint64_t seed; /* of this pass */
	bool drawn;    /* it is not the fixed one */
	bool few;      /* a part is enough: the same has run with the fixed one */
	unsigned int pass;
};

static inline uint64_t seed_of_date(void)
{
	const char *given = getenv("ESCAPEMENT_SEED");
	time_t now = time(NULL);
	struct tm day;

	if (given && *given)
		return strtoull(given, NULL, 0);
	gmtime_r(&now, &day);
	return (uint64_t)(day.tm_year + 1900) * 10000 + (uint64_t)(day.tm_mon + 1) * 100 +
	       (uint64_t)day.tm_mday;
}

static inline unsigned int seeds_passes(const struct seeds *seeds)
{
	return seeds->argument ? 1 : 2;
}

/* @tests: of one pass. */
static inline void seeds_plan(const struct seeds *seeds, unsigned int tests)
{
	printf("TAP version 13\n1..%u\n", tests * seeds_passes(seeds));
}

/* False: that was the last pass. */
static inline bool seeds_next(struct seeds *seeds)
{
	unsigned int pass = seeds->pass++;

	if (pass >= seeds_passes(seeds))
		return false;
	seeds->few = pass == 1;
	seeds->seed = seeds->argument ? strtoull(seeds->argument, NULL, 0)
		      : pass	      ? seed_of_date()
				      : seeds->fixed;
	seeds->drawn = seeds->seed != seeds->fixed;
	printf("# seed %lu%s\n", (unsigned long)seeds->seed, pass ? ", made of the date" : "");
	return true;
}

#endif

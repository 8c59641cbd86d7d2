/* SPDX-License-Identifier: BSD-2-Clause */
/* How often each path is probed, so that all together stay below the budget. Pure. */
#ifndef ESC_PATHS_BUDGET_H
#define ESC_PATHS_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Paths of interfaces where nothing may be steered. */
#define PATHBUDGET_WATCH_NS 250000000ull

enum path_use {
	PATH_UNUSED,  /* no candidate */
	PATH_WATCHED,
	PATH_STANDBY, /* steering is on, and no queue pair uses it */
	PATH_ACTIVE,
	PATH_USES,
};

struct pathbudget_demand {
	uint64_t wanted_ns[PATH_USES]; /* interval of each use; of _UNUSED nothing */
	size_t candidates[PATH_USES];
	uint32_t budget_pps;
};

struct pathbudget_share {
	uint64_t interval_ns[PATH_USES];
	double wanted_pps, given_pps;
	uint32_t tries_pps; /* left for surveys */
	bool limited;	    /* some are probed less often than wanted */
};

/*
 * Active paths come first, but for a tenth of the budget that is kept for the others (a standby
 * that is not probed is none). What is missing is taken from all of a kind alike, by longer
 * intervals. A hundredth is kept for surveys.
 */
void pathbudget_share(const struct pathbudget_demand *demand, struct pathbudget_share *out);

#endif

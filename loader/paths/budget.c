// SPDX-License-Identifier: BSD-2-Clause
#include "budget.h"

#include <math.h>

#define TRIES_PART 100
#define TRIES_LEAST_PPS 10
#define TRIES_MOST_PPS 200
#define SLOW_PART 10 /* of the budget, at least, is for paths that are not in use */

static double rate_of(const struct pathbudget_demand *demand, enum path_use use)
{
	return demand->wanted_ns[use]
		       ? (double)demand->candidates[use] * 1e9 / (double)demand->wanted_ns[use]
		       : 0;
}

static uint64_t stretch(uint64_t wanted_ns, double wanted_pps, double given_pps)
{
	return given_pps < wanted_pps ? (uint64_t)ceil((double)wanted_ns * wanted_pps / given_pps)
				      : wanted_ns;
}

void pathbudget_share(const struct pathbudget_demand *demand, struct pathbudget_share *out)
{
	double active = rate_of(demand, PATH_ACTIVE);
	double slow = rate_of(demand, PATH_STANDBY) + rate_of(demand, PATH_WATCHED);
	double left, kept, active_given, slow_given;

	*out = (struct pathbudget_share){.tries_pps = demand->budget_pps / TRIES_PART};
	if (out->tries_pps < TRIES_LEAST_PPS)
		out->tries_pps = TRIES_LEAST_PPS;
	if (out->tries_pps > TRIES_MOST_PPS)
		out->tries_pps = TRIES_MOST_PPS;
	left = (double)demand->budget_pps - out->tries_pps;
	kept = fmin(slow, left / SLOW_PART);
	active_given = fmin(active, left - kept);
	slow_given = fmin(slow, left - active_given);
	out->wanted_pps = active + slow;
	out->given_pps = active_given + slow_given;
	out->limited = active_given < active || slow_given < slow;
	out->interval_ns[PATH_ACTIVE] =
		stretch(demand->wanted_ns[PATH_ACTIVE], active, active_given);
	out->interval_ns[PATH_STANDBY] = stretch(demand->wanted_ns[PATH_STANDBY], slow, slow_given);
	out->interval_ns[PATH_WATCHED] = stretch(demand->wanted_ns[PATH_WATCHED], slow, slow_given);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#define Q40 1099511627776.0

enum { CLOCK_METRICS(METRIC_ENUM) };
const struct metric clock_metrics[] = {CLOCK_METRICS(METRIC){}};

/* 0 free running, 1 locked, 2 holdover, as the exporter of linuxptp-daemon has it. */
static unsigned int sync_state(enum clock_state state)
{
	return state == CLOCK_SYNCED ? 1 : state == CLOCK_HOLDOVER ? 2 : 0;
}

static void write_count(FILE *out, unsigned int metric, uint64_t value)
{
	prom_count(FAMILY_OF(&clock_metrics[metric]), value, NULL);
}

static void write_seconds(FILE *out, unsigned int metric, double ns)
{
	prom_value(FAMILY_OF(&clock_metrics[metric]), ns / 1e9, NULL);
}

void clock_facts_metrics(const struct clock_facts *clock, FILE *out)
{
	write_count(out, CLOCK_SYNC_STATE, sync_state(clock->state));
	prom_count(FAMILY_OF(&clock_metrics[CLOCK_STATE_INFO]), 1, "state",
		   clock_state_name(clock->state), NULL);
	write_count(out, CLOCK_PEERS, clock->used);
	if (clock->last_used_age_ns >= 0)
		write_seconds(out, CLOCK_LAST_SYNC_AGE, (double)clock->last_used_age_ns);
	if (!clock->known)
		return;
	write_seconds(out, CLOCK_ERROR_BOUND, (double)clock->bound_ns);
	prom_value(FAMILY_OF(&clock_metrics[CLOCK_FREQUENCY]), clock->model.rate / Q40 * 1e6,
		   NULL);
	write_seconds(out, CLOCK_RESIDUAL, clock->residual_ns);
	if (!clock->tai_known)
		return;
	write_seconds(out, CLOCK_TAI_OFFSET, (double)ns_sub(clock->tai_ns, clock->fabric_ns));
	write_seconds(out, CLOCK_TAI_BOUND, (double)clock->tai_bound_ns);
}

void clock_write_metrics(void *self, FILE *out)
{
	struct clock_facts clock;

	clock_get(self, &clock);
	clock_facts_metrics(&clock, out);
}

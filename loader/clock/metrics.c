// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#define Q40 1099511627776.0

enum { CLOCK_METRICS(METRIC_ENUM) };
const struct metric clock_metrics[] = {CLOCK_METRICS(METRIC){}};

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
	struct prom_family *states = FAMILY_OF(&clock_metrics[CLOCK_STATES]);

	for (unsigned int state = 0; state <= CLOCK_HOLDOVER; state++)
		prom_count(states, clock->state == state, "state", clock_state_name(state), NULL);
	write_count(out, CLOCK_PEERS, clock->used);
	if (clock->last_used_age_ns >= 0)
		write_seconds(out, CLOCK_LAST_SYNC,
			      (double)time_realtime_ns() - (double)clock->last_used_age_ns);
	if (!clock->known)
		return;
	write_seconds(out, CLOCK_ERROR_BOUND, (double)clock->bound_ns);
	prom_value(FAMILY_OF(&clock_metrics[CLOCK_FREQUENCY]), clock->model.rate / Q40, NULL);
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

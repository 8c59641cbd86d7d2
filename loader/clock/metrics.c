// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#define Q40 1099511627776.0

enum { CLOCK_METRICS(METRIC_ENUM) };
const struct metric clock_metrics[] = {CLOCK_METRICS(METRIC){}};

static bool is_known(const void *facts)
{
	return ((const struct clock_facts *)facts)->known;
}

static bool has_tai(const void *facts)
{
	return is_known(facts) && ((const struct clock_facts *)facts)->tai_known;
}

#define CLOCK(member, type, key) FIELD(struct clock_facts, member, type, key)
#define NS(id) .metric = &clock_metrics[id], .divisor = 1e9
const struct field clock_fields[] = {
	{CLOCK(local_ns, I64, "local_ns")},
	{CLOCK(monotonic_ns, I64, "monotonic_ns")},
	{CLOCK(used, U32, "peers_used"), .metric = &clock_metrics[CLOCK_PEERS]},
	{CLOCK(heard, U32, "peers_reachable")},
	{CLOCK(degree, U32, "peers_configured")},
	{CLOCK(bound_ns, I64, "bound_ns"), .known = is_known, NS(CLOCK_ERROR_BOUND)},
	{CLOCK(fabric_ns, I64, "fabric_ns"), .known = is_known},
	{CLOCK(model.generation, U64, "generation"), .known = is_known},
	{CLOCK(residual_ns, REAL, "residual_ns"), .known = is_known, NS(CLOCK_RESIDUAL)},
	{CLOCK(reach, REAL, "reach"), .known = is_known},
	{CLOCK(tai_bound_ns, I64, NULL), .known = has_tai, NS(CLOCK_TAI_BOUND)},
	{},
};

void clock_facts_metrics(const struct clock_facts *clock, FILE *out)
{
	struct prom_family *states = FAMILY_OF(&clock_metrics[CLOCK_STATES]);

	for (unsigned int state = 0; state <= CLOCK_HOLDOVER; state++)
		prom_count(states, clock->state == state, "state", clock_state_name(state), NULL);
	fields_write(out, clock_fields, clock, 1, sizeof(*clock), NULL, NULL);
	if (clock->last_used_age_ns >= 0)
		prom_value(FAMILY_OF(&clock_metrics[CLOCK_LAST_SYNC]),
			   ((double)time_realtime_ns() - (double)clock->last_used_age_ns) / 1e9,
			   NULL);
	if (clock->known)
		prom_value(FAMILY_OF(&clock_metrics[CLOCK_FREQUENCY]), clock->model.rate / Q40,
			   NULL);
	if (has_tai(clock))
		prom_value(FAMILY_OF(&clock_metrics[CLOCK_TAI_OFFSET]),
			   (double)ns_sub(clock->tai_ns, clock->fabric_ns) / 1e9, NULL);
}

void clock_write_metrics(void *self, FILE *out)
{
	struct clock_facts clock;

	clock_get(self, &clock);
	clock_facts_metrics(&clock, out);
}

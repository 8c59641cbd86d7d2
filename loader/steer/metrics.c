// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

enum { STEER_METRICS(METRIC_ENUM) };
const struct metric steer_metrics[] = {STEER_METRICS(METRIC){}};

void steer_write_metrics(void *self, FILE *out)
{
	struct prom_family *switches = FAMILY_OF(&steer_metrics[PATH_SWITCHES]);
	struct prom_family *acts = FAMILY_OF(&steer_metrics[PATH_MOVES]);
	const struct steer *steer = self;
	struct paths_facts paths;
	size_t steered = 0;

	for (size_t i = 0; i < steer_rule_total(steer); i++)
		steered += steer_leaves_elsewhere(&steer_rule_at(steer, i)->now);
	paths_get(steer->paths, &paths);
	for (int reason = 0; reason < STEER_REASONS; reason++)
		prom_count(switches, steer->switches[reason], "reason", steer_reason_name(reason),
			   NULL);
	prom_count(switches, paths.failovers, "reason", "failover", NULL);
	prom_count(switches, paths.returns, "reason", "recovery", NULL);
	prom_count(FAMILY_OF(&steer_metrics[STEERED_QPS]), steered, NULL);
	prom_count(FAMILY_OF(&steer_metrics[STEER_AUTO]), steer->automatic, NULL);
	prom_count(FAMILY_OF(&steer_metrics[TRACKED_QPS]), steer->auto_count, NULL);
	prom_count(FAMILY_OF(&steer_metrics[MOVES_REFUSED]), steer->budget.refused, NULL);
	for (int kind = 0; kind <= CONTEND_UNDONE; kind++)
		prom_count(acts, steer->acts[kind], "action", contend_act_name(kind), NULL);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "metrics.h"

#include "pacing/contend.h"
#include "base/prom.h"

void metrics_write_steer(FILE *out, const struct steer_facts *facts,
			 const struct paths *paths)
{
	struct paths_facts path_facts;
	struct prom_family *switches =
		FAMILY("path_switches_total", COUNTER,
		       "Changes of a queue pair's path that took effect, by reason; those of a "
		       "path that died or came back count once for all of its queue pairs.");
	struct prom_family *steered =
		FAMILY("steered_qps", GAUGE,
		       "Queue pairs whose packets leave with a source port or flow label of ours.");

	struct prom_family *automatic =
		FAMILY("steer_auto", GAUGE,
		       "1 when queue pairs leave contended and dead paths by themselves.");
	struct prom_family *watched = FAMILY(
		"watched_qps", GAUGE, "Queue pairs whose packets leave a dead path by themselves.");
	struct prom_family *refused =
		FAMILY("path_moves_refused_total", COUNTER,
		       "Looks at which a queue pair would have moved, had steer.moves_per_second "
		       "allowed it.");
	struct prom_family *acts = FAMILY("path_moves_total", COUNTER,
					  "What steering by itself ordered, and what came of it.");

	if (!facts->there)
		return;
	for (int reason = 0; reason < STEER_REASONS; reason++)
		prom_count(switches, facts->switches[reason], "reason", steer_reason_name(reason),
			   NULL);
	if (paths) {
		paths_get(paths, &path_facts);
		prom_count(switches, path_facts.failovers, "reason", "failover", NULL);
		prom_count(switches, path_facts.returns, "reason", "recovery", NULL);
	}
	prom_count(steered, facts->steered, NULL);
	prom_count(automatic, facts->by_itself, NULL);
	prom_count(watched, facts->covered, NULL);
	prom_count(refused, facts->moves_refused, NULL);
	for (int kind = 0; kind <= CONTEND_UNDONE; kind++)
		prom_count(acts, facts->acts[kind], "act", contend_act_name(kind), NULL);
}

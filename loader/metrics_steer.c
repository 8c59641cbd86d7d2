// SPDX-License-Identifier: BSD-2-Clause
#include "metrics_steer.h"

#include "prom.h"

void metrics_write_steer(FILE *out, const struct steer_facts *facts)
{
	struct prom_family switches = {
		.out = out,
		.name = "path_switches_total",
		.type = PROM_COUNTER,
		.help = "Changes of a queue pair's path that took effect, by reason.",
	};
	struct prom_family steered = {
		.out = out,
		.name = "steered_qps",
		.type = PROM_GAUGE,
		.help = "Queue pairs whose packets leave with a source port or flow label of ours.",
	};

	if (!facts->there)
		return;
	for (int reason = 0; reason < STEER_REASONS; reason++)
		prom_count(&switches, facts->switches[reason], "reason", steer_reason_name(reason),
			   NULL);
	prom_count(&steered, facts->steered, NULL);
}

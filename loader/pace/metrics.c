// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include "base/prom.h"

static void write_counts(FILE *out, const struct pace_facts *facts)
{
	struct prom_family *held_s =
		FAMILY("pace_held_seconds_total", COUNTER,
		       "Time in which a packet was held back, summed over queue "
		       "pairs.");
	struct prom_family *packets = FAMILY("pace_packets_total", COUNTER,
					     "Packets of paced queue pairs, held back or not.");
	struct prom_family *held =
		FAMILY("pace_held_packets_total", COUNTER, "Packets that were held back.");
	struct prom_family *bounded =
		FAMILY("pace_hold_limited_total", COUNTER,
		       "Packets that left when hold_max was over, before the law let them.");

	for (unsigned int i = 0; i < facts->class_count; i++)
		prom_value(held_s, (double)facts->classes[i].held_ns / 1e9, "class",
			   facts->classes[i].name, NULL);
	for (unsigned int i = 0; i < facts->class_count; i++)
		prom_count(packets, facts->classes[i].packets, "class", facts->classes[i].name,
			   NULL);
	for (unsigned int i = 0; i < facts->class_count; i++)
		prom_count(held, facts->classes[i].held, "class", facts->classes[i].name, NULL);
	for (unsigned int i = 0; i < facts->class_count; i++)
		prom_count(bounded, facts->classes[i].bounded, "class", facts->classes[i].name,
			   NULL);
	prom_count(FAMILY("pace_samples_total", COUNTER, "Delays that steered the pace."),
		   facts->samples, NULL);
	prom_count(FAMILY("pace_unsure_total", COUNTER,
			  "Delays that did not: no fabric time, or a bound that is too wide."),
		   facts->unsure, NULL);
	prom_count(FAMILY("pace_overheld_total", COUNTER,
			  "Times that a queue pair was paused for more than half of the time for "
			  "long."),
		   facts->overheld, NULL);
}

static void write_facts(FILE *out, const struct pace_facts *facts)
{
	struct prom_family *flows =
		FAMILY("paced_qps", GAUGE, "Queue pairs that are paced, by class.");
	struct prom_family *held =
		FAMILY("pace_held_qps", GAUGE,
		       "Queue pairs of which a packet was held back within the last second.");
	struct prom_family *threshold = FAMILY("pace_threshold_seconds", GAUGE,
					       "One-way delay above which a class is held back.");

	if (!facts->ports && !facts->samples)
		return;
	for (unsigned int i = 0; i < facts->class_count; i++)
		prom_count(flows, facts->classes[i].flows, "class", facts->classes[i].name, NULL);
	for (unsigned int i = 0; i < facts->class_count; i++)
		prom_count(held, facts->classes[i].flows_held, "class", facts->classes[i].name,
			   NULL);
	for (unsigned int i = 0; i < facts->class_count; i++)
		prom_value(threshold, (double)facts->classes[i].threshold_ns / 1e9, "class",
			   facts->classes[i].name, NULL);
	write_counts(out, facts);
}

void pace_write_metrics(void *self, FILE *out)
{
	struct pace_facts facts;

	pace_get(self, &facts);
	write_facts(out, &facts);
}

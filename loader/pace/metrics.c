// SPDX-License-Identifier: BSD-2-Clause
/* What pacing shows of its classes, and its families of metrics. */
#include "base/fields.h"
#include "internal.h"

enum { PACE_METRICS(METRIC_ENUM) };
const struct metric pace_metrics[] = {PACE_METRICS(METRIC){}};

#define CLASS(member, type, key) FIELD(struct pace_class_facts, member, type, key)
const struct field pace_class_fields[] = {
	{CLASS(name, TEXT, "name")},
	{CLASS(weight, U32, "weight")},
	{CLASS(threshold_ns, U64, "threshold_ns"), .metric = &pace_metrics[PACE_THRESHOLD],
	 .divisor = 1e9},
	{CLASS(flows, U64, "qps"), .metric = &pace_metrics[PACE_QPS]},
	{CLASS(flows_held, U64, NULL), .metric = &pace_metrics[PACE_HELD_QPS]},
	{CLASS(held_ns, U64, "held_ns"), .metric = &pace_metrics[PACE_HELD_SECONDS],
	 .divisor = 1e9},
	{CLASS(packets, U64, NULL), .metric = &pace_metrics[PACE_PACKETS]},
	{CLASS(held, U64, NULL), .metric = &pace_metrics[PACE_HELD_PACKETS]},
	{CLASS(bounded, U64, NULL), .metric = &pace_metrics[PACE_HOLD_LIMITED]},
	{},
};

static const struct prom_label *class_labels(const void *row, void *context)
{
	struct prom_label *labels = context;

	labels[0] = (struct prom_label){"class", ((const struct pace_class_facts *)row)->name};
	return labels;
}

void pace_write_metrics(void *self, FILE *out)
{
	struct prom_label labels[2] = {};
	struct pace_facts facts;

	pace_get(self, &facts);
	if (!facts.ports && !facts.samples)
		return;
	fields_write(out, pace_class_fields, facts.classes, facts.class_count,
		     sizeof(facts.classes[0]), class_labels, labels);
	prom_count(FAMILY_OF(&pace_metrics[PACE_SAMPLES]), facts.samples, NULL);
	prom_count(FAMILY_OF(&pace_metrics[PACE_UNSURE]), facts.unsure, NULL);
	prom_count(FAMILY_OF(&pace_metrics[PACE_OVERHELD]), facts.overheld, NULL);
}

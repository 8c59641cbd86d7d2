// SPDX-License-Identifier: BSD-2-Clause
#include "metrics.h"

#include "base/prom.h"

static void write_count(FILE *out, const char *name, const char *help, uint64_t value)
{
	prom_count(FAMILY(name, COUNTER, help), value, NULL);
}

static void write_connections(FILE *out, const struct esc_tcp_counts *counts)
{
	struct prom_family *family =
		FAMILY("tcp_connections_total", COUNTER,
		       "Connections of the cgroup, by what became of the option in their "
		       "handshake.");

	prom_count(family, counts->agreed, "option", "agreed", NULL);
	prom_count(family, counts->plain, "option", "plain", NULL);
}

/* Bounds of ten to a decade would be many: a power of four each, from 1 us to 1 s. */
static void write_delays(FILE *out, const uint64_t *buckets)
{
	static const double bounds[] = {1e-6,	 4e-6,	  16e-6,    64e-6,    256e-6,
					1024e-6, 4096e-6, 16384e-6, 65536e-6, 262144e-6};
	enum { BOUNDS = sizeof(bounds) / sizeof(bounds[0]) };
	uint64_t below[BOUNDS] = {}, count = 0;
	struct prom_histogram histogram = {.bounds = bounds, .below = below, .bound_count = BOUNDS};
	struct prom_family *family =
		FAMILY("tcp_owd_seconds", HISTOGRAM,
		       "One-way delay of TCP data that came in; a segment is counted up to a "
		       "bound if its histogram bucket begins below it.");

	for (uint32_t i = 0; i < ESC_OWD_BUCKETS; i++) {
		double from = (double)esc_owd_bucket_floor(i) / 1e9;

		count += buckets[i];
		histogram.sum += from * (double)buckets[i];
		for (int at = 0; at < BOUNDS; at++)
			below[at] += from < bounds[at] ? buckets[i] : 0;
	}
	histogram.count = count;
	if (count)
		prom_histogram(family, &histogram, NULL);
}

static void write_limits(FILE *out, const struct esc_tcp_counts *counts)
{
	write_count(out, "tcp_unwrapped_total",
		    "Connections that are not limited: no wrapper for their congestion control.",
		    counts->unwrapped);
	write_count(out, "tcp_delay_estimated_total",
		    "Acknowledgements without room for a delay, judged by the round trip.",
		    counts->estimated);
	write_count(out, "tcp_window_cuts_total", "Windows made smaller.", counts->cuts);
	write_count(out, "tcp_limits_lifted_total",
		    "Limits that ended since no delay was told for 2 s.", counts->lifted);
}

/* Only where there are classes: `default` alone is what the families without a class say. */
static void write_classes(FILE *out, const struct tcppace_facts *facts)
{
	struct prom_family *samples = FAMILY("tcp_class_delay_samples_total", COUNTER,
					     "Delays that the other ends told, by class.");
	struct prom_family *above = FAMILY("tcp_class_delay_above_total", COUNTER,
					   "Of these, above the class's threshold.");
	struct prom_family *threshold =
		FAMILY("tcp_class_threshold_seconds", GAUGE,
		       "One-way delay above which connections of a class are held back.");
	unsigned int count = facts->class_count > 1 ? facts->class_count : 0;

	for (unsigned int i = 0; i < count; i++)
		prom_count(samples, facts->classes[i].samples, "class", facts->class_names[i],
			   NULL);
	for (unsigned int i = 0; i < count; i++)
		prom_count(above, facts->classes[i].above, "class", facts->class_names[i], NULL);
	for (unsigned int i = 0; i < count; i++)
		prom_value(threshold, facts->thresholds_ns[i] / 1e9, "class", facts->class_names[i],
			   NULL);
}

void metrics_write_tcp(FILE *out, const struct tcppace_facts *facts)
{
	const struct esc_tcp_counts *counts = &facts->counts;

	if (!facts->there)
		return;
	write_connections(out, counts);
	write_count(out, "tcp_delay_samples_total", "Delays that the other ends told.",
		    counts->out_samples);
	write_count(out, "tcp_delay_above_total", "Of these, above the threshold.",
		    counts->out_above);
	write_classes(out, facts);
	if (facts->can_limit)
		write_limits(out, counts);
	write_count(out, "tcp_option_malformed_total",
		    "Segments whose option has a length or flag that is never sent.",
		    counts->malformed);
	write_count(out, "tcp_no_time_total", "Segments without fabric time at both ends.",
		    counts->no_time);
	write_count(out, "tcp_unsure_total", "Delays whose bound was too wide for a limit.",
		    counts->unsure);
	write_delays(out, facts->delays);
}

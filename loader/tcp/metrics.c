// SPDX-License-Identifier: BSD-2-Clause
/* What is shown of TCP's counts, and its families of metrics. */
#include "internal.h"

#define TCP_METRICS(X)                                                                             \
	X(TCP_CONNECTIONS, "tcp_connections_total", COUNTER,                                       \
	  "Connections of the cgroup, by what became of the option in their handshake.")           \
	X(TCP_SAMPLES, "tcp_delay_samples_total", COUNTER, "Delays that the peers reported.")      \
	X(TCP_ABOVE, "tcp_delay_above_total", COUNTER, "Of these, above the threshold.")           \
	X(TCP_CLASS_SAMPLES, "tcp_class_delay_samples_total", COUNTER,                             \
	  "Delays that the peers reported, by class.")                                             \
	X(TCP_CLASS_ABOVE, "tcp_class_delay_above_total", COUNTER,                                 \
	  "Of these, above the class's threshold.")                                                \
	X(TCP_CLASS_THRESHOLD, "tcp_class_threshold_seconds", GAUGE,                               \
	  "One-way delay above which connections of a class are limited.")                         \
	X(TCP_UNLIMITED, "tcp_unlimited_total", COUNTER,                                           \
	  "Connections that are not limited: no wrapper for their congestion control.")            \
	X(TCP_ESTIMATED, "tcp_delay_estimated_total", COUNTER,                                     \
	  "Acknowledgements without room for a delay, for which the round trip is used.")          \
	X(TCP_CUTS, "tcp_window_cuts_total", COUNTER, "Windows made smaller.")                     \
	X(TCP_LIFTED, "tcp_limits_lifted_total", COUNTER,                                          \
	  "Limits that ended since no delay was reported for 2 s.")                                \
	X(TCP_MALFORMED, "tcp_option_malformed_total", COUNTER,                                    \
	  "Segments whose option has a length or flag that is never sent.")                        \
	X(TCP_NO_TIME, "tcp_no_time_total", COUNTER, "Segments without fabric time at both ends.") \
	X(TCP_UNSURE, "tcp_unsure_total", COUNTER, "Delays whose bound was too wide for a limit.") \
	X(TCP_OWD, "tcp_owd_seconds", HISTOGRAM,                                                   \
	  "One-way delay of TCP data that came in; a segment is counted up to a bound if its "     \
	  "histogram bucket begins below it.")
enum { TCP_METRICS(METRIC_ENUM) };
const struct metric tcp_metrics[] = {TCP_METRICS(METRIC){}};

#define COUNT(member, key) FIELD(struct esc_tcp_counts, member, U64, key)
const struct field tcp_count_fields[] = {
	{COUNT(offered, "offered")},
	{COUNT(agreed, "agreed")},
	{COUNT(plain, "plain")},
	{COUNT(out_samples, "samples"), .metric = &tcp_metrics[TCP_SAMPLES]},
	{COUNT(out_above, "above"), .metric = &tcp_metrics[TCP_ABOVE]},
	{COUNT(short_form, "short_form")},
	{COUNT(malformed, "malformed"), .metric = &tcp_metrics[TCP_MALFORMED]},
	{COUNT(no_time, "no_time"), .metric = &tcp_metrics[TCP_NO_TIME]},
	{COUNT(unsure, "unsure"), .metric = &tcp_metrics[TCP_UNSURE]},
	{},
};
/* Where connections can be limited. */
const struct field tcp_limit_fields[] = {
	{COUNT(unwrapped, "unlimited"), .metric = &tcp_metrics[TCP_UNLIMITED]},
	{COUNT(estimated, "estimated"), .metric = &tcp_metrics[TCP_ESTIMATED]},
	{COUNT(cuts, "cuts"), .metric = &tcp_metrics[TCP_CUTS]},
	{COUNT(lifted, "lifted"), .metric = &tcp_metrics[TCP_LIFTED]},
	{},
};
#define CLASS(member, type, key) FIELD(struct tcp_class_facts, member, type, key)
const struct field tcp_class_fields[] = {
	{CLASS(name, TEXT, "name")},
	{CLASS(weight, U64, "weight")},
	{CLASS(threshold_ns, U64, "threshold_ns"), .metric = &tcp_metrics[TCP_CLASS_THRESHOLD],
	 .divisor = 1e9},
	{CLASS(samples, U64, "samples"), .metric = &tcp_metrics[TCP_CLASS_SAMPLES]},
	{CLASS(above, U64, "above"), .metric = &tcp_metrics[TCP_CLASS_ABOVE]},
	{},
};

static const struct prom_label *class_labels(const void *row, void *context)
{
	struct prom_label *labels = context;

	labels[0] = (struct prom_label){"class", ((const struct tcp_class_facts *)row)->name};
	return labels;
}

static void write_connections(FILE *out, const struct esc_tcp_counts *counts)
{
	struct prom_family *family = FAMILY_OF(&tcp_metrics[TCP_CONNECTIONS]);

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
	struct prom_family *family = FAMILY_OF(&tcp_metrics[TCP_OWD]);

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

void tcp_write_metrics(void *self, FILE *out)
{
	struct prom_label labels[2] = {};
	struct tcp_facts facts;

	tcp_get(self, &facts);
	if (!facts.there)
		return;
	write_connections(out, &facts.counts);
	fields_write(out, tcp_count_fields, &facts.counts, 1, sizeof(facts.counts), NULL, NULL);
	if (facts.can_limit)
		fields_write(out, tcp_limit_fields, &facts.counts, 1, sizeof(facts.counts), NULL,
			     NULL);
	/* `default` alone is what the families without a class show. */
	if (facts.class_count > 1)
		fields_write(out, tcp_class_fields, facts.classes, facts.class_count,
			     sizeof(facts.classes[0]), class_labels, labels);
	write_delays(out, facts.delays);
}

// SPDX-License-Identifier: BSD-2-Clause
/* A table of fields: the same values in JSON and in the metrics, and nothing that is not known. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"

struct row {
	char name[16];
	uint64_t packets;
	int64_t delay_ns;
	double rate;
	bool up;
};

#define ROW_METRICS(X)                                                                             \
	X(PACKETS, "packets_total", COUNTER, "Packets.")                                           \
	X(DELAY, "delay_seconds", GAUGE, "Delay.")                                                 \
	X(RATE, "rate", GAUGE, "Rate.")
enum { ROW_METRICS(METRIC_ENUM) };
static const struct metric metrics[] = {ROW_METRICS(METRIC){}};

static bool delay_known(const void *row)
{
	return ((const struct row *)row)->delay_ns != 0;
}

static const struct field fields[] = {
	{FIELD(struct row, name, TEXT, "name")},
	{FIELD(struct row, packets, U64, "packets"), .metric = &metrics[PACKETS]},
	{FIELD(struct row, delay_ns, I64, "delay_ns"), .metric = &metrics[DELAY], .divisor = 1e9,
	 .known = delay_known},
	{FIELD(struct row, rate, REAL, "rate"), .metric = &metrics[RATE]},
	{FIELD(struct row, up, BOOL, "up")},
	{},
};

static const struct prom_label *labels_of(const void *row, void *context)
{
	static struct prom_label labels[3];

	labels[0] = (struct prom_label){"name", ((const struct row *)row)->name};
	labels[1] = (struct prom_label){"empty", ""};
	(*(unsigned int *)context)++;
	return labels;
}

static const struct row rows[2] = {
	{"a\"b", 12345678901234ull, -250, 0.5, true},
	{"c", 0, 0, NAN, false},
};

Test(fields, as_json)
{
	json_t *object = json_object();
	char *text;

	fields_put(object, fields, &rows[0]);
	text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	cr_expect_str_eq(text, "{\"delay_ns\":-250,\"name\":\"a\\\"b\",\"packets\":12345678901234,"
			       "\"rate\":0.5,\"up\":true}");
	free(text);
	json_object_clear(object);
	fields_put(object, fields, &rows[1]);
	text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	cr_expect_str_eq(text, "{\"name\":\"c\",\"packets\":0,\"up\":false}");
	free(text);
	json_decref(object);
}

Test(fields, as_metrics)
{
	unsigned int calls = 0;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	fields_write(out, fields, rows, 2, sizeof(rows[0]), labels_of, &calls);
	fclose(out);
	cr_expect_str_eq(text, "# HELP escapement_packets_total Packets.\n"
			       "# TYPE escapement_packets_total counter\n"
			       "escapement_packets_total{name=\"a\\\"b\"} 12345678901234\n"
			       "escapement_packets_total{name=\"c\"} 0\n"
			       "# HELP escapement_delay_seconds Delay.\n"
			       "# TYPE escapement_delay_seconds gauge\n"
			       "escapement_delay_seconds{name=\"a\\\"b\"} -2.5e-07\n"
			       "# HELP escapement_rate Rate.\n"
			       "# TYPE escapement_rate gauge\n"
			       "escapement_rate{name=\"a\\\"b\"} 0.5\n");
	cr_expect_eq(calls, 4);
	free(text);
}

Test(fields, no_row_no_family)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	fields_write(out, fields, rows, 0, sizeof(rows[0]), labels_of, NULL);
	fclose(out);
	cr_expect_str_eq(text, "");
	free(text);
}

// SPDX-License-Identifier: BSD-2-Clause
/* A table of fields: the same values in JSON and in the metrics, and nothing that is not known. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/json.h"

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

/* --- names, which may have any bytes --- */

Test(json, a_name_that_is_no_utf8_is_escaped)
{
	static const struct {
		const char *name, *shown;
	} cases[] = {
		{"ib_write_bw", "ib_write_bw"},
		{"a\xc3\xa4", "a\xc3\xa4"}, /* a with diaeresis, whole */
		{"train-mod\xe2\x82",
		 "train-mod\\xe2\\x82"},	     /* cut by the kernel within a character */
		{"\xff\x9bm", "\\xff\\x9bm"},	     /* C1 as one byte */
		{"\xed\xa0\x80", "\\xed\\xa0\\x80"}, /* a surrogate */
		{"\xc0\xaf", "\\xc0\\xaf"},	     /* too long for its value */
		{"\xf4\x90\x80\x80x", "\\xf4\\x90\\x80\\x80x"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *object = json_object();

		json_put_name(object, "comm", cases[i].name);
		cr_expect_str_eq(json_text(object, "comm"), cases[i].shown);
		json_decref(object);
	}
}

Test(json, an_empty_name_is_left_out)
{
	json_t *object = json_object();

	json_put_name(object, "comm", "");
	json_put_name(object, "job", NULL);
	cr_expect_eq(json_object_size(object), 0);
	json_decref(object);
}

Test(json, a_line_has_no_byte_that_a_terminal_obeys)
{
	json_t *object = json_pack("{s:s}", "comm",
				   "a\x1b[2J\xc2\x9b"
				   "1m\x7f\xc2\xa0\xc3\x84\n"),
	       *again;
	char *line = json_line(object, JSON_COMPACT);

	cr_assert_not_null(line);
	cr_expect_str_eq(line, "{\"comm\":\"a\\u001B[2J\\u009B1m\\u007F\xc2\xa0\xc3\x84\\n\"}");
	again = json_loads(line, 0, NULL);
	cr_expect(json_equal(object, again), "and is the same value");
	json_decref(again);
	json_decref(object);
	free(line);
}

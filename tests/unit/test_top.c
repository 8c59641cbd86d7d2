// SPDX-License-Identifier: BSD-2-Clause
/* The page of `top`, and the texts of delays. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

static char *page_text;
static size_t page_bytes;

static const char *page(const char *json, unsigned int columns, unsigned int lines)
{
	struct top_view view = {
		.columns = columns,
		.lines = lines,
		.sort = "throughput",
		.interval_ns = 250000000,
		.clock = "12:34:56",
		.hint = "a hint that is long enough to be cut at the edge of a narrow "
			"terminal, which it has to be"};
	json_t *result = json_loads(json, 0, NULL);
	FILE *out;

	cr_assert_not_null(result, "%s", json);
	free(page_text);
	page_text = NULL;
	out = open_memstream(&page_text, &page_bytes);
	top_page(out, result, &view);
	fclose(out);
	json_decref(result);
	return page_text;
}

static void expect(const char *text, const char *part)
{
	cr_expect(strstr(text, part), "lacks \"%s\":\n%s", part, text);
}

/* Every line fits and is plain text; returns how many there are. */
static unsigned int check_lines(const char *text, size_t columns)
{
	unsigned int lines = 0;

	while (*text) {
		size_t length = strcspn(text, "\n");

		cr_expect_leq(length, columns, "%zu columns: %.*s", length, (int)length, text);
		for (size_t i = 0; i < length; i++)
			cr_assert(isprint((unsigned char)text[i]));
		cr_assert_eq(text[length], '\n');
		text += length + 1;
		lines++;
	}
	return lines;
}

#define WIDEST                                                                                     \
	"{\"direction\":\"tx\",\"src\":\"2001:db8:1111:2222:3333:4444:5555:6666\",\"dst\":"        \
	"\"2001:db8:1111:2222:3333:4444:5555:7777\",\"dest_qpn\":16777215,"                        \
	"\"bytes_per_second\":1.0e11,\"loss_per_second\":12345678.9,"                              \
	"\"job\":\"a-job-with-a-name-that-is-longer-than-any-terminal-is-wide\",\"owd_ns\":{"      \
	"\"samples\":9,\"p50\":-12345678,\"p99\":999499999,\"max\":999949999999,\"bound\":99949,"  \
	"\"above_threshold\":1}}"

Test(top, the_widest_fits_into_80_columns)
{
	const char *text = page("{\"tracked\":131072,\"qps\":[" WIDEST "," WIDEST "]}", 80, 24);

	cr_expect_eq(check_lines(text, 80), 5);
	expect(text, "16777215");
	expect(text, " loss\n");
	expect(text, "1.23e+07");
}

Test(top, narrower_terminals_get_80_and_wider_ones_longer_names)
{
	cr_expect_eq(check_lines(page("{\"qps\":[" WIDEST "]}", 40, 24), 80), 4);
	page("{\"qps\":[" WIDEST "]}", 200, 24);
	check_lines(page_text, 200);
	expect(page_text, "2001:db8:1111:2222:3333:4444:5555:7777");
}

Test(top, lines_are_as_many_as_there_is_room_for)
{
	static const char qps[] = "{\"qps\":[" WIDEST "," WIDEST "," WIDEST "," WIDEST "]}";

	cr_expect_eq(check_lines(page(qps, 80, 5), 80), 5);
	cr_expect_eq(check_lines(page(qps, 80, 0), 80), 7, "0: all of them");
	cr_expect_eq(check_lines(page(qps, 80, 1), 80), 4, "one queue pair at least");
	cr_expect_eq(check_lines(page("{\"qps\":[]}", 80, 24), 80), 3);
}

Test(top, a_row)
{
	const char *text = page(
		"{\"tracked\":7,\"qps\":[{\"direction\":\"tx\",\"src\":\"10.0.0.1\",\"dst\":"
		"\"10.0.0.2\",\"peer\":\"h2\",\"dest_qpn\":17,\"bytes_per_second\":1.25e9,"
		"\"loss_per_second\":0.0,\"pid\":407,\"comm\":\"train\",\"owd_ns\":{\"samples\":9,"
		"\"p50\":7616,\"p99\":19712,\"max\":20754,\"bound\":1053,\"above_threshold\":0}},"
		"{\"direction\":\"rx\",\"src\":\"10.0.0.2\",\"dst\":\"10.0.0.1\",\"dest_qpn\":18,"
		"\"bytes_per_second\":1.25e5,\"loss_per_second\":2.5}]}",
		80, 24);

	check_lines(text, 80);
	expect(text, "top 12:34:56  by throughput every 250ms; 7 queue pairs, 2 shown, 1 with "
		     "delays\n");
	expect(text, "DIR RQPN PEER      OWNER      GBIT/S OWD_P50 OWD_P99 OWD_MAX    ERR LOSS/S "
		     "STATE\n");
	expect(text, "tx    17 h2        train[407]  10.00  7.62us  19.7us  20.8us 1.05us      0 "
		     "ok\n");
	expect(text, "rx    18 10.0.0.2  -           0.001       -       -       -      -    2.5 "
		     "loss\n");
}

Test(top, states)
{
	static const struct {
		const char *qp, *state;
	} cases[] = {
		{"{\"direction\":\"tx\",\"bytes_per_second\":1.0,\"owd_ns\":{\"above_threshold\":0}"
		 "}",
		 "ok"},
		{"{\"direction\":\"tx\",\"bytes_per_second\":1.0,\"owd_ns\":{\"above_threshold\":3}"
		 "}",
		 "spiky"},
		{"{\"direction\":\"tx\",\"loss_per_second\":0.5,\"diagnoses\":[\"imbalance\","
		 "\"qp_outlier\"]}",
		 "outlier"},
		{"{\"direction\":\"tx\",\"diagnoses\":[\"imbalance\"]}", "imbalance"},
		{"{\"direction\":\"tx\",\"bytes_per_second\":1.0,\"loss_per_second\":0.5,"
		 "\"owd_ns\":{\"above_threshold\":3}}",
		 "loss"},
		{"{\"direction\":\"tx\",\"bytes_per_second\":1.0}", "no_feedback"},
		{"{\"direction\":\"tx\",\"bytes_per_second\":0.0}", "idle"},
		{"{\"direction\":\"rx\",\"bytes_per_second\":1.0}", "rx"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *qp = json_loads(cases[i].qp, 0, NULL);

		cli_complete_qp(qp);
		cr_expect_str_eq(json_text(qp, "state"), cases[i].state, "%s", cases[i].qp);
		json_decref(qp);
	}
}

/* --- the trend --- */

static const char *bars(const char *values, size_t cells, bool utf8)
{
	json_t *list = json_loads(values, 0, NULL);
	FILE *out;

	free(page_text);
	page_text = NULL;
	out = open_memstream(&page_text, &page_bytes);
	trend_write(out, list, cells, utf8);
	fclose(out);
	json_decref(list);
	return page_text;
}

Test(trend, bars)
{
	cr_expect_str_eq(bars("[1000,1100,1900,16000]", 4, false), "___#", "from the smallest on");
	cr_expect_str_eq(bars("[1000,1100,1900,16000]", 4, true), "▁▁▁█");
	cr_expect_str_eq(bars("[1000,1100,1500,1800]", 4, false), "__=*",
			 "below twice the smallest the height is not filled");
	cr_expect_str_eq(bars("[0,1,2,3,4,5,6,7]", 8, true), "▁▂▃▄▅▆▇█");
	cr_expect_str_eq(bars("[7,null,7]", 5, false), "  _ _", "the newest at the right");
	cr_expect_str_eq(bars("[90000,1000,1000]", 2, false), "__",
			 "what is not shown has no scale");
	cr_expect_str_eq(bars("[-500,0,500]", 3, false), "_=#", "a delay within its error");
	cr_expect_str_eq(bars("[]", 3, true), "   ");
	cr_expect_str_eq(bars("[null,null]", 3, true), "   ");
}

#define POINT(qpn, p99)                                                                            \
	"{\"key\":\"a>b/" qpn "\",\"direction\":\"tx\",\"owd_ns\":{\"p99\":" p99 "}}"
#define UNTIMED(qpn) "{\"key\":\"a>b/" qpn "\",\"direction\":\"tx\"}"

static size_t add(json_t *trend, const char *text, size_t shown)
{
	json_t *qps = json_loads(text, 0, NULL);

	cr_assert_not_null(qps, "%s", text);
	trend_add(trend, qps, shown);
	json_decref(qps);
	return json_object_size(trend);
}

static void expect_trend(json_t *trend, const char *name, const char *wanted)
{
	char *text = json_dumps(json_object_get(trend, name), JSON_COMPACT);

	cr_assert_not_null(text, "%s", name);
	cr_expect_str_eq(text, wanted, "%s: %s", name, text);
	free(text);
}

Test(trend, is_of_the_pages_that_show_a_queue_pair)
{
	json_t *trend = json_object();

	cr_expect_eq(add(trend, "[" POINT("1", "10") "," POINT("2", "20") "]", 1), 1);
	cr_expect_eq(add(trend, "[" POINT("2", "21") "," POINT("1", "11") "]", 2), 2);
	cr_expect_eq(add(trend, "[" UNTIMED("1") "," UNTIMED("3") "]", 2), 2, "3 has none yet");
	expect_trend(trend, "a>b/1 tx", "[10,11,null]");
	expect_trend(trend, "a>b/2 tx", "[21,null]");
	for (unsigned int i = 0; i < TREND_MOST - 1; i++)
		add(trend, "[" POINT("1", "12") "]", 1);
	cr_expect_eq(json_object_size(trend), 1, "one that went is forgotten");
	cr_expect_eq(json_array_size(json_object_get(trend, "a>b/1 tx")), TREND_MOST);
	json_decref(trend);
}

/* A page with the trend of three pages before. */
static const char *page_with_trend(unsigned int columns, bool utf8)
{
	json_t *result = json_loads("{\"qps\":[" POINT("1", "10") "," WIDEST "]}", 0, NULL);
	struct top_view view = {.columns = columns,
				.sort = "delay",
				.clock = "",
				.hint = "",
				.trend = json_object(),
				.utf8 = utf8};
	FILE *out;

	add(view.trend, "[" POINT("1", "80") "]", 1);
	add(view.trend, "[" POINT("1", "40") "]", 1);
	free(page_text);
	page_text = NULL;
	out = open_memstream(&page_text, &page_bytes);
	top_page(out, result, &view);
	fclose(out);
	json_decref(result);
	json_decref(view.trend);
	return page_text;
}

Test(trend, is_right_of_the_table_where_there_is_room)
{
	const char *text = page_with_trend(88, false);

	check_lines(text, 88);
	cr_expect_null(strstr(text, "TREND"), "no room:\n%s", text);
	text = page_with_trend(89, false);
	check_lines(text, 89);
	expect(text, " TREND\n");
	expect(text, "     #-_\n");
	text = page_with_trend(200, false);
	check_lines(text, 200);
	expect(text, "                             #-_\n");
	expect(page_with_trend(100, true), "                 █▄▁\n");
}

/* --- delays in `qp` --- */

static const char *render(const char *text, const char *args)
{
	json_t *object = json_loads(text, 0, NULL), *given = json_loads(args, 0, NULL);
	FILE *out;

	cr_assert_not_null(object, "%s", text);
	free(page_text);
	page_text = NULL;
	out = open_memstream(&page_text, &page_bytes);
	cli_write(out, verbs_named("qp"), object, given);
	fclose(out);
	json_decref(object);
	json_decref(given);
	return page_text;
}

#define QP(direction, more)                                                                        \
	"{\"direction\":\"" direction "\",\"src\":\"10.0.0.1\",\"dst\":\"10.0.0.2\",\"dest_qpn\":" \
	"17,\"sport\":50000" more "}"
#define OWD                                                                                        \
	",\"owd_ns\":{\"samples\":140,\"min\":5459,\"p50\":7616,\"p99\":19712,\"max\":207540,"     \
	"\"bound\":1053,\"above_threshold\":2,\"crossings\":1,\"ce\":0}"

Test(delays_text, the_columns_are_there_when_any_has_delays)
{
	const char *text = render("{\"qps\":[" QP("tx", OWD) "," QP("rx", "") "]}", "{}");

	expect(text, " OWD_P50 OWD_P99 OWD_MAX    ERR\n");
	expect(text, "  7.62us  19.7us   208us 1.05us\n");
	expect(text, "       -       -       -      -\n");
	text = render("{\"qps\":[" QP("rx", "") "]}", "{}");
	cr_expect_null(strstr(text, "OWD"));
}

Test(delays_text, records_are_written_once)
{
	const char *text = render(
		"{\"qps\":[" QP("tx", ",\"owd_note\":\"h2 is down\"") "," QP(
			"rx", ",\"owd_note\":\"ask there\"") "," QP("tx", ",\"owd_note\":\"h2 is "
									  "down\"") "]}",
		"{}");

	expect(text, "No delay of 2 queue pairs: h2 is down.\n");
	cr_expect_null(strstr(text, "ask there"), "senders alone");
	cr_expect_null(strstr(strstr(text, "h2 is down") + 1, "h2 is down"));
}

#define DETAILED                                                                                   \
	QP("tx", OWD ",\"peer\":\"h2\",\"owd_floor_ns\":5050,\"stack_ns\":{\"max\":7721},"         \
		     "\"host_queue_ns\":{\"samples\":3,\"max\":1200000},\"messages_timed\":{"      \
		     "\"count\":3,\"bytes\":65536,\"delay_ns\":55484069,\"delay_max_ns\":"         \
		     "65960428,\"throughput_bps\":9450518},\"samples_sent\":799,\"receipts\":798," \
		     "\"receipts_untimed\":1,\"samples_discarded\":2,\"samples_expired\":3,"       \
		     "\"feedback_ns\":20805")

Test(delays_text, details)
{
	const char *text = render("{\"qps\":[" DETAILED "]}", "{\"key\":\"17\"}");

	expect(text, "\n10.0.0.1>10.0.0.2/17 to h2, source port 50000\n");
	expect(text,
	       "  Delay         : minimum 5.46us, median 7.62us, 99th percentile 19.7us, maximum "
	       "208us, error bound 1.05us; 140 samples in the last second\n");
	expect(text, "                  2 above the threshold in 1 bursts\n");
	expect(text, "  Floor         : 5.05us");
	expect(text, "at most 7.72us more");
	expect(text, "at most 1.20ms of it");
	expect(text, "3 timed, 64.0KiB each: 55.5ms from");
	expect(text, "9.45Mbit/s while received");
	expect(text,
	       "for 798 of 799 sampled packets, 20.8us after they were sent; 1 without fabric "
	       "time, 2 retransmitted, 3 expired\n");
	cr_expect_null(strstr(text, "none:"), "no note, no reason");
	text = render("{\"qps\":[" DETAILED "]}", "{}");
	cr_expect_null(strstr(text, "Receipts"), "of those alone that were asked for");
}

Test(delays_text, details_are_of_the_first_eight_senders)
{
	const char *text = render(
		"{\"qps\":[" QP("rx", "") "," QP("tx", "") "," QP("tx", "") "," QP("tx", "") "," QP(
			"tx", "") "," QP("tx", "") "," QP("tx",
							  "") "," QP("tx",
								     "") "," QP("tx",
										"") "," QP("tx",
											   "") "]}",
		"{\"key\":\"17\"}");
	unsigned int count = 0;

	for (; (text = strstr(text, ", source port ")); text++)
		count++;
	cr_expect_eq(count, 8);
}

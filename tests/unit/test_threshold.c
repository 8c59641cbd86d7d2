// SPDX-License-Identifier: BSD-2-Clause
/* Thresholds: the law against a slow statement of it, shares and floors, things that come and go.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "mesh/mesh.h"
#include "shown.h"
#include "tests/lib/rng.h"
#include "threshold/internal.h"

#define S 1000000000ull

/* --- the law --- */

static enum threshold_step evaluate(struct threshold_state *state, double value, double bound,
				    uint64_t now_ns)
{
	static const struct threshold_limits limits = {500, 400, 2 * S, 5 * S};
	const struct threshold_reading reading = {value, bound};

	return threshold_evaluate(state, &limits, &reading, now_ns);
}

Test(threshold, begins_and_ends_after_its_times)
{
	struct threshold_state state = {};

	cr_expect_eq(evaluate(&state, 501, 0, 100 * S), THRESHOLD_NOTHING);
	cr_expect_eq(evaluate(&state, 501, 0, 101 * S), THRESHOLD_NOTHING);
	cr_expect_eq(evaluate(&state, 501, 0, 102 * S), THRESHOLD_RAISE);
	/* Between the two limits nothing changes. */
	for (uint64_t t = 103; t < 120; t++)
		cr_expect_eq(evaluate(&state, 450, 0, t * S), THRESHOLD_NOTHING);
	for (uint64_t t = 120; t < 125; t++)
		cr_expect_eq(evaluate(&state, 400, 0, t * S), THRESHOLD_NOTHING);
	cr_expect_eq(evaluate(&state, 400, 0, 125 * S), THRESHOLD_CLEAR);
	cr_expect_not(state.raised);
}

Test(threshold, no_value_neither_begins_nor_ends_one)
{
	struct threshold_state state = {};

	cr_expect_eq(evaluate(&state, 501, 0, 100 * S), THRESHOLD_NOTHING);
	cr_expect_eq(evaluate(&state, 501, 0, 101 * S), THRESHOLD_NOTHING);
	cr_expect_eq(evaluate(&state, NAN, 0, 102 * S), THRESHOLD_NOTHING);
	cr_expect_eq(evaluate(&state, 501, 0, 103 * S), THRESHOLD_NOTHING);
	cr_expect_eq(evaluate(&state, 501, 0, 105 * S), THRESHOLD_RAISE);
	for (uint64_t t = 106; t < 200; t++)
		cr_expect_eq(evaluate(&state, NAN, 0, t * S), THRESHOLD_NOTHING);
	cr_expect(state.raised);
}

Test(threshold, a_delay_within_its_bound_begins_nothing_and_a_bound_ends_nothing)
{
	struct threshold_state state = {};

	for (uint64_t t = 100; t < 110; t++)
		cr_expect_eq(evaluate(&state, 600, 100, t * S), THRESHOLD_NOTHING);
	for (uint64_t t = 110; t < 112; t++)
		cr_expect_eq(evaluate(&state, 601, 100, t * S), THRESHOLD_NOTHING);
	cr_expect_eq(evaluate(&state, 601, 100, 112 * S), THRESHOLD_RAISE);
	for (uint64_t t = 113; t < 200; t++)
		cr_expect_eq(evaluate(&state, 601, 1e9, t * S), THRESHOLD_NOTHING);
}

struct past {
	uint64_t ns;
	double value, bound;
};

/* By looking back at all readings since the last change. */
static bool is_due(const struct past *list, size_t count, bool raised,
		   const struct threshold_limits *limits)
{
	uint64_t after_ns = raised ? limits->clear_after_ns : limits->raise_after_ns;

	for (size_t i = count; i-- > 0;) {
		bool is_for = raised ? list[i].value <= limits->clear
				     : list[i].value - list[i].bound > limits->above;

		if (isnan(list[i].value) || !is_for)
			return false;
		if (i + 1 < count && list[i + 1].ns - list[i].ns > THRESHOLD_GAP_NS)
			return false;
		if (list[count - 1].ns - list[i].ns >= after_ns)
			return true;
	}
	return false;
}

Test(threshold, as_the_readings_of_the_past_say)
{
	struct past past[400];
	struct rng rng;
	size_t changes = 0;

	rng_seed(&rng, 20261124);
	for (unsigned int run = 0; run < 500; run++) {
		double above = (double)rng_below(&rng, 100);
		struct threshold_limits limits = {above, above * rng_unit(&rng),
						  rng_below(&rng, 6) * S, rng_below(&rng, 6) * S};
		struct threshold_state state = {};
		uint64_t now_ns = rng_below(&rng, 1000) * S + 1;
		double level = 50;
		size_t count = 0;

		for (size_t i = 0; i < 400; i++) {
			struct threshold_reading reading = {};
			bool before = state.raised, due;
			enum threshold_step step;

			if (!rng_below(&rng, 8))
				level = (double)rng_below(&rng, 120);
			now_ns += rng_below(&rng, 40) ? S - S / 10 + rng_below(&rng, S / 5) : 4 * S;
			reading.value = rng_below(&rng, 20) ? level + 5 * rng_normal(&rng) : NAN;
			reading.bound = 3 * rng_unit(&rng);
			past[count++] = (struct past){now_ns, reading.value, reading.bound};
			due = is_due(past, count, before, &limits);
			step = threshold_evaluate(&state, &limits, &reading, now_ns);
			cr_assert_eq(step,
				     !due     ? THRESHOLD_NOTHING
				     : before ? THRESHOLD_CLEAR
					      : THRESHOLD_RAISE,
				     "run %u, reading %zu", run, i);
			cr_assert_eq(state.raised, before != due);
			if (due) {
				count = 0;
				changes++;
			}
		}
	}
	cr_expect_gt(changes, 1000);
}

/* --- shares and floors --- */

Test(threshold, a_share_is_of_ten_seconds)
{
	struct threshold_window window = {};
	double share = NAN;

	for (uint64_t t = 0; t <= 30; t++)
		share = threshold_window_share(&window, t * S, t * 5, t * 1000);
	cr_expect_float_eq(share, 0.005, 1e-9);
	/* Ten seconds later nothing of it is left. */
	for (uint64_t t = 31; t <= 40; t++)
		share = threshold_window_share(&window, t * S, 150, t * 1000);
	cr_expect_float_eq(share, 0, 1e-9);
	/* Counters that begin again, and too few packets. */
	cr_expect(isnan(threshold_window_share(&window, 41 * S, 0, 10)));
	cr_expect(isnan(threshold_window_share(&window, 42 * S, 50, 109)));
	cr_expect_float_eq(threshold_window_share(&window, 43 * S, 50, 110), 0.5, 1e-9);
	cr_expect_float_eq(threshold_window_share(&window, 44 * S, 500, 210), 1, 1e-9);
}

Test(threshold, a_share_as_by_all_readings)
{
	struct {
		uint64_t ns, part, whole;
	} all[2000];
	struct threshold_window window = {};
	struct rng rng;

	rng_seed(&rng, 1);
	for (size_t i = 0; i < 2000; i++) {
		uint64_t sent = rng_below(&rng, 300), lost = rng_below(&rng, sent + 1);
		size_t first = i;
		double share, of;

		all[i].ns = (i ? all[i - 1].ns : 0) + S - S / 20 + rng_below(&rng, 2 * S);
		all[i].part = (i ? all[i - 1].part : 0) + lost;
		all[i].whole = (i ? all[i - 1].whole : 0) + sent;
		while (first && all[i].ns - all[first].ns < THRESHOLD_WINDOW_NS)
			first--;
		share = threshold_window_share(&window, all[i].ns, all[i].part, all[i].whole);
		of = (double)(all[i].whole - all[first].whole);
		if (of < THRESHOLD_WHOLE_LEAST)
			cr_assert(isnan(share));
		else
			cr_assert_float_eq(share, (double)(all[i].part - all[first].part) / of,
					   1e-9, "%zu: %f", i, share);
	}
}

Test(threshold, a_floor_is_of_an_hour)
{
	struct threshold_floor floor = {};

	cr_expect(isnan(threshold_floor_add(&floor, 1000 * S, NAN)));
	cr_expect_eq(threshold_floor_add(&floor, 1200 * S, 90), 90);
	cr_expect_eq(threshold_floor_add(&floor, 1201 * S, 70), 70);
	cr_expect_eq(threshold_floor_add(&floor, 1900 * S, 200), 70);
	cr_expect_eq(threshold_floor_add(&floor, 4700 * S, 210), 70);
	cr_expect_eq(threshold_floor_add(&floor, 4801 * S, 220), 200);
	cr_expect_eq(threshold_floor_add(&floor, 4802 * S, NAN), 200);
	cr_expect(isnan(threshold_floor_add(&floor, 20000 * S, NAN)));
}

/* --- things --- */

static struct config config = {.host = (char *)"h1"};
static struct core core = {.config = &config};
static struct thresholds book = {.core = &core};
static struct mesh_peer_facts peers[3];

/* The newest event; NULL: none since @count of them. */
static const json_t *newest(size_t *count)
{
	static json_t *events;

	json_decref(events);
	events = events_since(core.events, 0);
	if (json_array_size(events) == *count)
		return NULL;
	*count = json_array_size(events);
	return json_array_get(events, *count - 1);
}

static void begin(void)
{
	cr_assert_eq(events_new(&core.events, 64, NULL), 0);
	events_set_host(core.events, "h1");
	for (size_t i = 0; i < 3; i++) {
		snprintf(peers[i].host, sizeof(peers[i].host), "h%zu", i + 2);
		strcpy(peers[i].interface, "eth1");
		peers[i].address = (struct esc_address){};
		memcpy((char *)&peers[i].address + 15, &(uint8_t){i}, 1);
	}
	book.now_ns = 1000 * S;
}

static void end(void)
{
	thresholds_clear(&book);
	events_free(core.events);
}

static void set(struct config_threshold *list, size_t count)
{
	const struct config_alerts alerts = {.thresholds = list, .threshold_count = count};

	cr_assert_eq(thresholds_set(&book, &alerts), 0);
}

/* A second: peers from @first on have this delay. */
static void pass(double delay_ns, size_t first)
{
	book.now_ns += S;
	for (size_t i = first; i < 3; i++)
		thresholds_take(&book, CONFIG_OF_PROBE_OWD,
				&(struct threshold_sample){.id = i * 77,
							   .value = delay_ns,
							   .bound = 10,
							   .least = delay_ns,
							   .plane = FLEET_PLANE_BACKEND,
							   .rail = "1",
							   .peer = peers[i].host,
							   .of = &peers[i]});
	thresholds_taken(&book, CONFIG_OF_PROBE_OWD);
}

static struct config_threshold slow_to(char *name, char *peer, double above_ns)
{
	return (struct config_threshold){
		.name = name,
		.of = CONFIG_OF_PROBE_OWD + 1,
		.above = {true, false, CONFIG_UNIT_TIME, above_ns},
		.raise_after_ns = S,
		.clear_after_ns = S,
		.severity = EVENT_CRITICAL,
		.plane = CONFIG_ANY_PLANE,
		.peer = peer,
	};
}

Test(threshold, one_event_begins_and_one_ends, .init = begin, .fini = end)
{
	struct config_threshold list[] = {slow_to((char *)"slow", (char *)"h3", 500)};
	const json_t *event;
	size_t count = 0;

	set(list, 1);
	pass(490, 0);
	for (int i = 0; i < 5; i++)
		pass(511, 0);
	event = newest(&count);
	cr_assert_eq(count, 1);
	cr_expect_str_eq(text(event, "kind"), "threshold_exceeded");
	cr_expect_str_eq(text(event, "severity"), "critical");
	cr_expect_str_eq(text(event, "subject"), "h3");
	cr_expect_str_eq(text(event, "about"), "peer");
	cr_expect_str_eq(text(event, "fault"), "host:h3/h1/eth1>::1/slow", "%s",
			 text(event, "fault"));
	cr_expect_str_eq(text(event, "begins"), "threshold_exceeded");
	cr_expect_eq(number(get(event, "seen"), "value_ns"), 511);
	cr_expect_eq(number(get(event, "seen"), "bound_ns"), 10);
	cr_expect_str_eq(text(get(event, "expected"), "at_most"), "500ns");
	cr_expect_eq(book.rules[0].exceeded, 1);
	/* 80% of the limit, by the delay alone. */
	for (int i = 0; i < 5; i++)
		pass(401, 0);
	cr_expect_null(newest(&count));
	for (int i = 0; i < 5; i++)
		pass(400, 0);
	event = newest(&count);
	cr_assert_eq(count, 2);
	cr_expect_str_eq(text(event, "kind"), "threshold_cleared");
	cr_expect_str_eq(text(event, "ends"), "threshold_exceeded");
	cr_expect_str_eq(text(event, "severity"), "notice");
	cr_expect_str_eq(text(event, "fault"), "host:h3/h1/eth1>::1/slow");
	cr_expect_str_eq(text(get(event, "result"), "reason"), "below");
}

Test(threshold, what_is_gone_ends, .init = begin, .fini = end)
{
	struct config_threshold list[] = {slow_to((char *)"slow", NULL, 500)};
	const json_t *event;
	size_t count = 0;

	set(list, 1);
	pass(600, 0);
	pass(600, 0);
	newest(&count);
	cr_assert_eq(count, 3);
	cr_expect_eq(book.subjects, 3);
	pass(600, 1);
	event = newest(&count);
	cr_assert_eq(count, 4);
	cr_expect_str_eq(text(event, "subject"), "h2");
	cr_expect_str_eq(text(get(event, "result"), "reason"), "gone");
	cr_expect_eq(book.subjects, 2);
	cr_expect_eq(book.rules[0].exceeded, 2);
}

Test(threshold, a_reload_keeps_what_is_the_same, .init = begin, .fini = end)
{
	struct config_threshold list[] = {slow_to((char *)"a", (char *)"h2", 500),
					  slow_to((char *)"b", (char *)"h2", 500),
					  slow_to((char *)"c", (char *)"h2", 500)};
	struct config_threshold next[2];
	const json_t *event;
	size_t count = 0;

	set(list, 3);
	pass(600, 0);
	pass(600, 0);
	newest(&count);
	cr_assert_eq(count, 3);
	next[0] = list[2];
	next[1] = list[0];
	next[1].above.number = 550;
	set(next, 2);
	event = newest(&count);
	cr_assert_eq(count, 5);
	cr_expect_str_eq(text(get(event, "seen"), "threshold"), "b");
	cr_expect_str_eq(text(get(event, "result"), "reason"), "removed");
	/* The changed one begins again; the one that is the same has nothing to report. */
	pass(600, 0);
	cr_expect_null(newest(&count));
	pass(600, 0);
	event = newest(&count);
	cr_assert_eq(count, 6);
	cr_expect_str_eq(text(get(event, "seen"), "threshold"), "a");
	cr_expect_eq(book.rules[0].exceeded, 1);
	cr_expect_eq(book.subjects, 2);
}

Test(threshold, selectors_and_room, .init = begin, .fini = end)
{
	struct config_threshold one = slow_to((char *)"a", NULL, 500);
	size_t count = 0;

	one.rail = (char *)"2";
	set(&one, 1);
	pass(600, 0);
	pass(600, 0);
	one.rail = (char *)"1";
	one.plane = FLEET_PLANE_FRONTEND;
	set(&one, 1);
	pass(600, 0);
	pass(600, 0);
	one.plane = FLEET_PLANE_BACKEND;
	one.job = (char *)"1234";
	set(&one, 1);
	pass(600, 0);
	pass(600, 0);
	cr_expect_null(newest(&count));
	one.job = NULL;
	set(&one, 1);
	book.subjects = THRESHOLD_SUBJECTS_MAX - 2;
	pass(600, 0);
	cr_expect_eq(book.rules[0].count, 2);
	cr_expect_eq(book.rules[0].left_out, 1);
	book.subjects = 2;
	pass(600, 0);
	cr_expect_eq(book.rules[0].count, 3);
	cr_expect_eq(book.rules[0].left_out, 0);
}

Test(threshold, above_the_floor, .init = begin, .fini = end)
{
	struct config_threshold one = slow_to((char *)"a", (char *)"h2", 500);
	const json_t *event;
	size_t count = 0;

	one.above.over_floor = true;
	set(&one, 1);
	for (int i = 0; i < 5; i++)
		pass(2000, 0);
	for (int i = 0; i < 5; i++)
		pass(2510, 0);
	cr_expect_null(newest(&count));
	pass(2511, 0);
	pass(2511, 0);
	event = newest(&count);
	cr_assert_not_null(event);
	cr_expect_eq(number(get(event, "seen"), "floor_ns"), 2000);
	cr_expect_str_eq(text(get(event, "expected"), "at_most"), "floor+500ns");
	pass(2401, 0);
	pass(2401, 0);
	cr_expect_null(newest(&count));
	pass(2400, 0);
	pass(2400, 0);
	cr_expect_not_null(newest(&count));
}

/* The bound of a peer's delay is not one of its losses. */
Test(threshold, a_share_is_exact, .init = begin, .fini = end)
{
	struct config_threshold one = slow_to((char *)"a", NULL, 0);
	struct threshold_sample sample = {
		.id = 1, .bound = 300, .counted = true, .plane = -1, .of = &peers[0]};
	const json_t *event;
	size_t count = 0;

	one.of = CONFIG_OF_PROBE_LOST + 1;
	one.above = (struct config_limit){true, false, CONFIG_UNIT_SHARE, 0.01};
	set(&one, 1);
	for (int i = 0; i < 4; i++) {
		book.now_ns += S;
		sample.whole += 1000;
		sample.part += 11;
		thresholds_take(&book, CONFIG_OF_PROBE_LOST, &sample);
		thresholds_taken(&book, CONFIG_OF_PROBE_LOST);
	}
	event = newest(&count);
	cr_assert_not_null(event);
	cr_expect_float_eq(real_number(get(event, "seen"), "value_share"), 0.011, 1e-9);
	cr_expect_null(get(get(event, "seen"), "bound_share"));
}

/* --- the configuration --- */

static struct config *parse(const char *entry, char **error)
{
	struct config *made = NULL;
	char all[600];

	snprintf(all, sizeof(all), "interfaces: [{name: eth1}]\nalerts:\n  thresholds:\n    - %s\n",
		 entry);
	config_parse(&(struct config_input){.path = "/e.yaml"}, all, strlen(all), &made, error);
	return made;
}

Test(threshold, what_is_shown_is_what_was_given)
{
	static const char *const limits[][2] = {
		{"qp_owd_p99", "500us"},
		{"qp_owd_p99", "floor+500us"},
		{"probe_lost", "0.1%"},
		{"qp_retransmits", "12.5%"},
		{"qp_ce", "0%"},
		{"link_flaps_1h", "8"},
		{"clock_error_bound", "2ms"},
		{"probe_owd_p99", "floor+1ms"},
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		char entry[200], *error = NULL;
		struct config *made;
		json_t *json, *one;

		snprintf(entry, sizeof(entry), "{name: a, of: %s, above: %s}", limits[i][0],
			 limits[i][1]);
		made = parse(entry, &error);
		cr_assert_not_null(made, "%s", error);
		json = config_to_json(made);
		one = json_array_get(get(get(json, "alerts"), "thresholds"), 0);
		cr_expect_str_eq(text(one, "of"), limits[i][0]);
		cr_expect_str_eq(text(one, "above"), limits[i][1]);
		cr_expect_str_eq(text(one, "raise_after"), "2s");
		cr_expect_null(get(one, "clear"));
		json_decref(json);
		config_free(made);
	}
}

Test(threshold, what_is_wrong_is_refused_with_line_and_remedy)
{
	static const char *const bad[][2] = {
		{"{name: a b, of: qp_ce, above: 1%}", "letters, digits"},
		{"{name: a, of: qp_owd, above: 1us}", "qp_owd_p99"},
		{"{name: a, of: qp_owd_p99, above: 500}", "write `above: 500us`"},
		{"{name: a, of: qp_owd_p99, above: 1%}", "write `above: 500us`"},
		{"{name: a, of: qp_ce, above: 1us}", "write `above: 0.1%`"},
		{"{name: a, of: qp_ce, above: 100%}", "less than 100%"},
		{"{name: a, of: link_flaps_1h, above: 1h}", "write `above: 8`"},
		{"{name: a, of: clock_error_bound, above: floor+1us}", "no least value"},
		{"{name: a, of: qp_owd_p99, above: floor*2}", "write `floor+500us`"},
		{"{name: a, of: qp_owd_p99, above: floor}", "write a duration"},
		{"{name: a, of: qp_owd_p99, above: floor-1us}", "write a duration"},
		{"{name: a, of: qp_owd_p99, above: 2h}", "write a duration"},
		{"{name: a, of: qp_ce, above: 0x1%}", "write a duration"},
		{"{name: a, of: qp_ce, above: 1.2.3%}", "write a duration"},
		{"{name: a, of: qp_ce, above: nan}", "write a duration"},
		{"{name: a, of: qp_ce, above: -1%}", "write a duration"},
		{"{name: a, of: qp_owd_p99, above: 1ms, clear: 2ms}", "give at most that"},
		{"{name: a, of: qp_owd_p99, above: 1ms, clear: floor+1us}", "or neither"},
		{"{name: a, of: probe_lost, above: 1%, job: x}", "plane, rail, peer"},
		{"{name: a, of: clock_error_bound, above: 1ms, plane: backend}",
		 "take the line out"},
		{"{name: a, of: qp_ce}", "`above` is missing"},
		{"{of: qp_ce, above: 1%}", "`name` is missing"},
		{"{name: a, of: qp_ce, above: 1%, severity: page}",
		 "info, notice, warning, critical"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *error = NULL;
		struct config *made = parse(bad[i][0], &error);

		cr_expect_null(made, "%s", bad[i][0]);
		cr_assert_not_null(error, "%s", bad[i][0]);
		cr_expect(strstr(error, "/e.yaml:4: "), "%s", error);
		cr_expect(strstr(error, bad[i][1]), "%s: %s", bad[i][0], error);
		cr_expect_null(strchr(error, '\n'), "one error each: %s", error);
		free(error);
	}
}

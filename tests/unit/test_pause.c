// SPDX-License-Identifier: BSD-2-Clause
/* Pauses count once, departures are bounded, rates follow what all send, and lost feedback stops
 * nothing. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "pacing/pause.h"
#include "tests/lib/rng.h"

#define SEED 20240611
#define US 1000ull
#define MS 1000000ull
#define SECOND 1000000000ull
#define START (5 * SECOND)
#define LINE 1250000000ull /* 10 Gbit/s */
#define THRESHOLD (50 * US)

static void rule_init(struct pause_rule *rule)
{
	pause_rule_default(rule, THRESHOLD, LINE);
}

/* A sample that is back @loop_ns after it left. */
static uint64_t hear(struct pause_flow *flow, const struct pause_rule *rule,
		     const struct pause_mark *mark, uint64_t departure_ns, int64_t delay_ns,
		     uint64_t loop_ns)
{
	return pause_sample(flow, rule, mark, departure_ns, delay_ns, departure_ns + loop_ns);
}

Test(pause, root_is_exact)
{
	for (uint64_t i = 1; i < 65536; i++) {
		cr_assert_eq(pause_root(i * i), i);
		cr_assert_eq(pause_root(i * i - 1), i - 1);
	}
	cr_assert_eq(pause_root(UINT64_MAX), 65535);
	cr_assert_eq(pause_root(0), 0);
}

Test(pause, what_is_above_less_what_was_taken)
{
	cr_assert_eq(pause_for(80, 0, 50, PAUSE_GAIN_ONE), 30);
	cr_assert_eq(pause_for(80, 20, 50, PAUSE_GAIN_ONE), 10);
	cr_assert_eq(pause_for(80, 30, 50, PAUSE_GAIN_ONE), 0);
	cr_assert_eq(pause_for(80, 4000, 50, PAUSE_GAIN_ONE), 0);
	cr_assert_eq(pause_for(40, 0, 50, PAUSE_GAIN_ONE), 0);
	cr_assert_eq(pause_for(1050, 0, 50, PAUSE_GAIN_ONE / 2), 500);
	cr_assert_eq(pause_for(4 * SECOND, 0, 0, PAUSE_GAIN_ONE), 4 * SECOND);
}

Test(pause, samples_from_before_a_pause_do_not_pause_again)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_mark before, after;
	struct pause_rule rule;
	uint64_t at;

	rule_init(&rule);
	rule.flags = 0;
	at = pause_depart(&flow, &rule, 1500, START, &before);
	cr_assert_eq(at, START);
	cr_assert_eq(hear(&flow, &rule, &before, at, 150 * US, 200 * US), 100 * US);
	cr_assert_eq(hear(&flow, &rule, &before, at, 150 * US, 201 * US), 0);
	cr_assert_eq(hear(&flow, &rule, &before, at, 170 * US, 202 * US), 20 * US,
		     "what was added");
	at = pause_depart(&flow, &rule, 1500, START + 203 * US, &after);
	cr_assert_eq(at, START + 200 * US + 120 * US, "the pause is taken");
	cr_assert_eq(flow.taken_ns, 117 * US);
	cr_assert_eq(hear(&flow, &rule, &after, at, 60 * US, 200 * US), 10 * US);
}

Test(pause, gain_is_a_part)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_mark mark;
	struct pause_rule rule;
	uint64_t at;

	rule_init(&rule);
	rule.flags = 0;
	rule.gain = PAUSE_GAIN_ONE / 2;
	at = pause_depart(&flow, &rule, 1500, START, &mark);
	cr_assert_eq(hear(&flow, &rule, &mark, at, 150 * US, 100 * US), 50 * US);
	cr_assert_eq(hear(&flow, &rule, &mark, at, 150 * US, 101 * US), 25 * US);
}

Test(pause, packets_leave_at_the_rate)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_rule rule;
	uint64_t at = 0, sent = 0;
	struct rng rng;

	rng_seed(&rng, SEED);
	rule_init(&rule);
	rule.start_Bps = 125000000; /* 1 Gbit/s */
	rule.no_feedback_ns = 10 * SECOND;
	for (int i = 0; i < 10000; i++) {
		uint32_t bytes = 64 + (uint32_t)rng_below(&rng, 4000);

		at = pause_depart(&flow, &rule, bytes, START, NULL);
		sent += i < 9999 ? bytes : 0;
	}
	cr_assert_float_eq((double)(at - START) + (double)rule.credit_ns, (double)sent * 8,
			   20000.0);
}

/* When @count packets that are handed over at @now_ns leave; returns the last's. */
static uint64_t depart_many(struct pause_flow *flow, const struct pause_rule *rule, int count,
			    uint64_t now_ns, uint64_t *at)
{
	for (int i = 0; i < count; i++)
		at[i] = pause_depart(flow, rule, 1500, now_ns, NULL);
	return at[count - 1];
}

Test(pause, what_begins_has_an_opening_at_the_lines_rate)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_rule rule;
	uint64_t at[8], line_ns = 1500 * SECOND / LINE, gap_ns, last;

	rule_init(&rule);
	last = depart_many(&flow, &rule, 8, START, at);
	gap_ns = pause_gap(&flow, 1500);
	cr_assert_eq(flow.opened_bytes, 4500, "three packets, which are more than T / 16");
	cr_assert_eq(at[0], START);
	cr_assert_eq(at[1], START + line_ns);
	cr_assert_eq(at[2], START + 2 * line_ns);
	/* The rate begins behind the last of them. */
	cr_assert_leq(at[3] - at[2], gap_ns);
	cr_assert_eq(at[5] - at[4], gap_ns);
	cr_assert_eq(last - at[6], gap_ns);
	/* And after a rest again. */
	depart_many(&flow, &rule, 8, last + 100 * MS, at);
	cr_assert_eq(at[2], last + 100 * MS + 2 * line_ns);
	cr_assert_eq(at[5] - at[4], gap_ns);
}

Test(pause, an_opening_is_a_part_of_the_threshold)
{
	struct pause_rule rule;

	rule_init(&rule);
	cr_assert_eq(pause_opening(&rule, 1500), 4500);
	cr_assert_float_eq(pause_opening(&rule, 9000), LINE * THRESHOLD / SECOND / 4, 10);
	rule.threshold_ns = 10 * THRESHOLD;
	cr_assert_float_eq(pause_opening(&rule, 1500), 10 * LINE * THRESHOLD / SECOND / 16, 100);
	rule.threshold_ns = UINT64_MAX;
	rule.line_Bps = PAUSE_RATE_MAX_BPS;
	cr_assert_eq(pause_opening(&rule, 1500), 1u << 30);
}

/* After its opening a flow has @delay_ns: what leaves at once after that. */
static int reopened(uint64_t delay_ns, uint64_t loop_ns)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_mark marks[4];
	struct pause_rule rule;
	uint64_t at[4], now = START, line_ns = 1500 * SECOND / LINE;
	int more = 0;

	rule_init(&rule);
	rule.start_Bps = LINE / 100;
	for (int i = 0; i < 4; i++)
		now = at[i] = pause_depart(&flow, &rule, 1500, now, &marks[i]);
	hear(&flow, &rule, &marks[0], at[0], (int64_t)delay_ns, loop_ns);
	cr_assert_eq(flow.open_bytes, 0, "the opening has not returned yet");
	/* Not the start's doubling, which would end the round. */
	flow.calm = 0;
	flow.round = marks[3].round;
	hear(&flow, &rule, &marks[3], at[3], (int64_t)delay_ns, loop_ns);
	now += loop_ns;
	while (pause_depart(&flow, &rule, 1500, now, NULL) <= now + (uint64_t)more * line_ns)
		more++;
	return more;
}

Test(pause, a_sample_of_an_empty_path_opens_it_again)
{
	cr_assert_geq(reopened(1 * US, 20 * US), 3);
	cr_assert_lt(reopened(20 * US, 20 * US), 3, "a queue");
	cr_assert_lt(reopened(1 * US, 500 * US), 3, "old news");
}

Test(pause, a_flow_begins_by_its_weight)
{
	struct pause_flow one = {.floor_ns = 1}, three = {.floor_ns = 1};
	struct pause_rule rule;

	rule_init(&rule);
	pause_depart(&one, &rule, 1500, START, NULL);
	rule.weight = 3 * PAUSE_WEIGHT_ONE;
	pause_depart(&three, &rule, 1500, START, NULL);
	cr_assert_eq(three.rate_Bps, 3 * one.rate_Bps);
}

/*
 * A round of samples in which the delay stands, but timestamps come late by chance: the spread of
 * the load that it makes of them.
 */
static double spread(int samples)
{
	double sum = 0, squares = 0;
	struct rng rng;

	rng_seed(&rng, SEED);
	for (int run = 0; run < 2000; run++) {
		struct pause_flow flow = {.floor_ns = 1, .gap = 1, .loop_ns = 200 * US};
		struct pause_mark mark = {.bytes = 1};
		double load;

		pause_set_reference(&flow, &mark, START,
				    (uint64_t)(30000 + 1000 * rng_normal(&rng)));
		for (int i = 1;; i++) {
			uint64_t at = START + (uint64_t)i * 100 * US / (uint64_t)samples;
			double late = 1000 * rng_normal(&rng);

			if (pause_add_sample(&flow, at - flow.ref_departure_ns,
					     (uint64_t)(30000 + late)))
				break;
		}
		load = flow.end_rise_ns / (double)flow.end_span_ns;
		sum += load;
		squares += load * load;
	}
	sum /= 2000;
	cr_assert_float_eq(sum, 0, 0.002, "no bias: %g", sum);
	return sqrt(squares / 2000 - sum * sum);
}

Test(pause, late_timestamps_are_averaged)
{
	double few = spread(2), many = spread(100);

	cr_assert_float_eq(few, 0.0141, 0.003);
	cr_assert_lt(many, few / 2.2);
}

Test(pause, a_long_pause_is_a_series_of_short_ones)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_rule rule;
	uint64_t now = START, at;
	int packets = 0;

	rule_init(&rule);
	rule.flags = 0;
	pause_depart(&flow, &rule, 1500, now, NULL);
	cr_assert_eq(pause_extend(&flow, &rule, 5 * SECOND, now), rule.hold_max_ns);
	cr_assert_eq(pause_extend(&flow, &rule, 1, now), 0, "no further than that");
	for (; now < START + rule.hold_max_ns; packets++) {
		at = pause_depart(&flow, &rule, 1500, now, NULL);
		cr_assert(at > now && at <= now + rule.quantum_ns);
		now = at;
	}
	cr_assert_eq(packets, (int)(rule.hold_max_ns / rule.quantum_ns));
	cr_assert_eq(pause_depart(&flow, &rule, 1500, now, NULL), now);
}

Test(pause, without_samples_the_rate_is_the_lines_in_the_end)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_rule rule;
	uint64_t now = START;

	rule_init(&rule);
	pause_depart(&flow, &rule, 1500, now, NULL);
	cr_assert_eq(flow.rate_Bps, rule.start_Bps);
	for (; now < START + 10 * rule.no_feedback_ns; now += 100 * US)
		pause_depart(&flow, &rule, 1500, now, NULL);
	cr_assert_eq(flow.rate_Bps, LINE);
}

/*
 * @spacing apart two packets leave that are @delay_ns and @more_ns later in the queue: the rate
 * after it, as part of the one before.
 */
static double turn(uint64_t delay_ns, int64_t more_ns, uint64_t spacing_ns, uint64_t rate_Bps)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_mark first, second;
	struct pause_rule rule;
	uint64_t at, now = START;

	rule_init(&rule);
	rule.start_Bps = rate_Bps;
	rule.hold_max_ns = SECOND;
	at = pause_depart(&flow, &rule, 1500, now, &first);
	flow.calm = 0;
	while (flow.next_ns < at + spacing_ns)
		pause_depart(&flow, &rule, 1500, flow.next_ns, NULL);
	now = pause_depart(&flow, &rule, 1500, flow.next_ns, &second);
	hear(&flow, &rule, &first, at, (int64_t)delay_ns, 60 * US);
	hear(&flow, &rule, &second, now, (int64_t)delay_ns + more_ns * (int64_t)(now - at) / 1000,
	     60 * US);
	cr_assert_eq(flow.round, 2, "a round: the first packet, and these");
	return (double)flow.rate_Bps / (double)rate_Bps;
}

Test(pause, what_all_send_sets_the_rate)
{
	/* The delay grows by as much as time passes: twice too much is sent. */
	cr_assert_float_eq(turn(5 * US, 1000, 60 * US, LINE / 8), 0.5, 0.12);
	cr_assert_float_eq(turn(5 * US, 3000, 60 * US, LINE / 8), 0.25, 0.09);
	/* It stands: what is added and what the level takes away. */
	cr_assert_float_eq(turn(35 * US, 0, 60 * US, LINE / 8), 1, 0.05);
	cr_assert_gt(turn(5 * US, 0, 60 * US, LINE / 8), 1.02);
	cr_assert_lt(turn(60 * US, 0, 60 * US, LINE / 8), 0.99);
	/* It falls: there is room. */
	cr_assert_gt(turn(60 * US, -300, 60 * US, LINE / 8), 1.1);
}

Test(pause, weights_are_shares)
{
	struct pause_flow light = {.rate_Bps = LINE / 16}, heavy = {.rate_Bps = 3 * LINE / 16};
	struct pause_rule one, three;

	rule_init(&one);
	three = one;
	three.weight = 3 * PAUSE_WEIGHT_ONE;
	cr_assert_eq(pause_step(&light, &one, THRESHOLD, 60 * US),
		     pause_step(&heavy, &three, THRESHOLD, 60 * US),
		     "at three times the rate a weight of three adds the same part");
	cr_assert_gt(pause_step(&light, &one, THRESHOLD, 60 * US),
		     pause_step(&heavy, &one, THRESHOLD, 60 * US));
}

/* Relative to the same rate: else the larger share would lose more. */
Test(pause, what_is_added_and_what_the_level_takes_are_parts_of_one_rate)
{
	struct pause_rule rule;

	rule_init(&rule);
	for (uint64_t queue_ns = 10 * US; queue_ns <= 50 * US; queue_ns += 10 * US) {
		struct pause_flow flow = {.floor_ns = 1,
					  .rate_Bps = LINE / 16,
					  .loop_ns = 50 * US,
					  .rate_set_ns = START - 100 * US};
		uint64_t beat_ns = pause_interval(&flow, pause_room(&flow, &rule), START);
		double step = (double)pause_step(&flow, &rule, pause_room(&flow, &rule), beat_ns);
		double level = (double)queue_ns * PAUSE_ONE / PAUSE_LEVEL / (double)beat_ns;

		pause_set_next_rate(&flow, &rule, PAUSE_ONE, queue_ns, START);
		cr_assert_float_eq((double)flow.rate_Bps * 16 / (double)LINE,
				   1 + (step - level) / PAUSE_ONE, 0.0005);
	}
}

/* The delay is always @delay_ns and a little: what becomes of the rate, as part of the line's. */
static double alone(uint64_t delay_ns, uint64_t floor_ns, int *paused)
{
	struct pause_flow flow = {.floor_ns = floor_ns};
	struct pause_rule rule;
	uint64_t now = START;

	rule_init(&rule);
	for (int i = 0; i < 20000; i++) {
		struct pause_mark mark;

		now = pause_depart(&flow, &rule, 1500, now, &mark);
		*paused += !!hear(&flow, &rule, &mark, now, (int64_t)(delay_ns + i % 3 * 100),
				  2 * delay_ns);
	}
	return (double)flow.rate_Bps / (double)LINE;
}

Test(pause, what_an_empty_path_takes_is_no_queue)
{
	int paused = 0;

	cr_assert_float_eq(alone(40 * US, 0, &paused), 1, 0.001);
	cr_assert_float_eq(alone(200 * US, 0, &paused), 1, 0.001,
			   "a threshold below the floor does not stop a flow");
	cr_assert_eq(paused, 0);
	cr_assert_lt(alone(40 * US, 1, &paused), 0.7, "but a queue is one");
}

Test(pause, a_loss_halves_the_rate_once)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_rule rule;
	uint64_t rate;

	rule_init(&rule);
	pause_repeat(&flow, &rule, 0, START);
	pause_depart(&flow, &rule, 1500, START, NULL);
	rate = flow.rate_Bps;
	for (int i = 0; i < 100; i++)
		pause_repeat(&flow, &rule, 1, START + 1000);
	cr_assert_eq(flow.rate_Bps, rate / 2);
	pause_repeat(&flow, &rule, 0, START + 2000);
	pause_repeat(&flow, &rule, 1, START + 3000);
	cr_assert_eq(flow.rate_Bps, rate / 4);
}

Test(pause, after_a_rest_a_flow_begins_with_what_it_had_on_the_whole)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_rule rule;
	uint64_t at = 0, mean;

	rule_init(&rule);
	rule.start_Bps = LINE / 10;
	for (int i = 0; i <= 100; i++)
		at = pause_depart(&flow, &rule, 1500, START, NULL);
	mean = 101 * 1500 * SECOND / (at - START);
	flow.queued = 1;
	pause_set_rate(&flow, &rule, LINE); /* the others have ended */
	pause_depart(&flow, &rule, 1500, at + SECOND, NULL);
	cr_assert_eq(flow.rate_Bps, mean);
	cr_assert_leq(mean, LINE / 9);
	/* Alone it keeps what it had. */
	pause_set_rate(&flow, &rule, LINE);
	pause_depart(&flow, &rule, 1500, at + 2 * SECOND, NULL);
	cr_assert_eq(flow.rate_Bps, LINE);
}

Test(pause, decreases_without_effect_stop)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_rule rule;
	uint64_t now = START, pauses = 0, late = 0;

	rule_init(&rule);
	for (int i = 0; i < 20000; i++) {
		struct pause_mark mark;
		uint64_t at = pause_depart(&flow, &rule, 1500, now, &mark), pause;

		pause = hear(&flow, &rule, &mark, at, 400 * US, 450 * US);
		now = at;
		pauses += !!pause;
		late += pause && i > 10000;
	}
	cr_assert(pause_is_ineffective(&flow));
	cr_assert_gt(pauses, 0);
	cr_assert_eq(late, 0);
	flow.ineffective = PAUSE_PATIENCE + 1;
	for (int i = 0; i < 100; i++) {
		struct pause_mark mark;

		now = pause_depart(&flow, &rule, 1500, now, &mark);
		hear(&flow, &rule, &mark, now, 20 * US, 50 * US);
	}
	cr_assert_not(pause_is_ineffective(&flow), "the queue drained, so others do react");
}

/* Whatever comes: departures are in order and near, rates within their bounds. */
Test(pause, anything_is_bounded)
{
	struct pause_flow flow = {.floor_ns = 1};
	struct pause_mark marks[64] = {{0}};
	uint64_t departures[64] = {0}, now = START, last = 0;
	struct pause_rule rule;
	struct rng rng;

	rng_seed(&rng, SEED);
	rule_init(&rule);
	for (int i = 0; i < 1000000; i++) {
		unsigned m = (unsigned)rng_below(&rng, 64), what = (unsigned)rng_below(&rng, 100);

		now += rng_below(&rng, what == 0 ? SECOND : what < 10 ? MS : 2 * US);
		if (what == 1)
			pause_repeat(&flow, &rule, (uint32_t)rng_below(&rng, 2), now);
		if (what == 2)
			rule.threshold_ns = rng_below(&rng, MS) + 1;
		if (what < 50) {
			uint64_t at = pause_depart(&flow, &rule, (uint32_t)rng_below(&rng, 65536),
						   now, &marks[m]);

			cr_assert(at >= now && at <= now + rule.hold_max_ns && at >= last, "%d", i);
			departures[m] = last = at;
		} else {
			int64_t delay = (int64_t)rng_below(&rng, what == 99 ? 10 * SECOND : MS);

			pause_sample(&flow, &rule, &marks[m], departures[m],
				     what == 98 ? -delay : delay, now);
		}
		cr_assert(flow.until_ns <= now + rule.hold_max_ns);
		cr_assert(!flow.rate_Bps ||
			  (flow.rate_Bps >= rule.floor_Bps && flow.rate_Bps <= rule.line_Bps));
	}
}

Test(pause, rules_are_within_bounds)
{
	static const uint64_t lines[] = {1, 12500, 12500000, LINE, 50000000000, UINT64_MAX};
	static const uint64_t thresholds[] = {0, 1, THRESHOLD, MS, 10 * SECOND};

	for (size_t l = 0; l < sizeof(lines) / sizeof(*lines); l++) {
		for (size_t t = 0; t < sizeof(thresholds) / sizeof(*thresholds); t++) {
			struct pause_rule rule;

			pause_rule_default(&rule, thresholds[t], lines[l]);
			cr_assert(rule.floor_Bps && rule.floor_Bps <= rule.start_Bps);
			cr_assert(rule.start_Bps <= rule.line_Bps);
			cr_assert(rule.line_Bps <= PAUSE_RATE_MAX_BPS);
			cr_assert(rule.quantum_ns && rule.quantum_ns < rule.hold_max_ns);
		}
	}
}

Test(pause, a_watch_reports_once_that_a_flow_is_held_for_long)
{
	struct pause_watch watch = {0};
	uint64_t paused = 0;
	int said = 0;

	for (int i = 0; i < 50; i++) {
		paused += 60 * MS;
		said += pause_watch_poll(&watch, paused, START + (uint64_t)i * 100 * MS);
		cr_assert(!said || i >= 10);
	}
	cr_assert_eq(said, 1);
	cr_assert_not(pause_watch_poll(&watch, paused, START + 5 * SECOND));
	for (int i = 51; i < 100; i++) {
		paused += 60 * MS;
		said += pause_watch_poll(&watch, paused, START + (uint64_t)i * 100 * MS);
	}
	cr_assert_eq(said, 2, "and again when it had ended");
	watch = (struct pause_watch){0};
	for (int i = 0; i < 50; i++)
		cr_assert_not(pause_watch_poll(&watch, (uint64_t)i * 40 * MS,
					       START + (uint64_t)i * 100 * MS));
}

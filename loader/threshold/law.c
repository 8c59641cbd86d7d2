// SPDX-License-Identifier: BSD-2-Clause
/* When a value exceeds a limit, and does not any more; shares of counters; the least value. */
#include "internal.h"

/*
 * It is raised by a value that exceeds the limit whatever it is wrong by within its bound: a page
 * has to be true. It ends by the value alone, so that a bound that grows neither ends it nor keeps
 * it.
 */
static bool is_for_change(const struct threshold_state *state,
			  const struct threshold_limits *limits,
			  const struct threshold_reading *reading)
{
	if (state->raised)
		return reading->value <= limits->clear;
	return reading->value - reading->bound > limits->above;
}

enum threshold_step threshold_evaluate(struct threshold_state *state,
				       const struct threshold_limits *limits,
				       const struct threshold_reading *reading, uint64_t now_ns)
{
	uint64_t after_ns = state->raised ? limits->clear_after_ns : limits->raise_after_ns;
	bool gap = now_ns - state->last_ns > THRESHOLD_GAP_NS;

	if (isnan(reading->value) || !is_for_change(state, limits, reading)) {
		state->since_ns = 0;
		if (!isnan(reading->value))
			state->last_ns = now_ns;
		return THRESHOLD_NOTHING;
	}
	if (!state->since_ns || gap)
		state->since_ns = now_ns;
	state->last_ns = now_ns;
	if (now_ns - state->since_ns < after_ns)
		return THRESHOLD_NOTHING;
	state->raised = !state->raised;
	state->since_ns = 0;
	return state->raised ? THRESHOLD_RAISE : THRESHOLD_CLEAR;
}

/* --- shares --- */

#define AT(window, i) (&(window)->list[((window)->first + (i)) % THRESHOLD_SLOTS])

static void drop_oldest(struct threshold_window *window)
{
	window->first = (window->first + 1) % THRESHOLD_SLOTS;
	window->count--;
}

double threshold_window_share(struct threshold_window *window, uint64_t now_ns, uint64_t part,
			      uint64_t whole)
{
	double grown, of;

	if (window->count && (part < AT(window, window->count - 1)->part ||
			      whole < AT(window, window->count - 1)->whole))
		window->count = 0;
	/* The newest reading that is as old as the window, or older, is where it begins. */
	while (window->count == THRESHOLD_SLOTS ||
	       (window->count > 1 && now_ns - AT(window, 1)->ns >= THRESHOLD_WINDOW_NS))
		drop_oldest(window);
	AT(window, window->count)->ns = now_ns;
	AT(window, window->count)->part = part;
	AT(window, window->count)->whole = whole;
	window->count++;
	of = (double)(whole - AT(window, 0)->whole);
	grown = (double)(part - AT(window, 0)->part);
	/* Probes are counted as lost a second after they were sent. */
	return of < THRESHOLD_WHOLE_LEAST ? NAN : fmin(grown / of, 1);
}

/* --- the least value --- */

double threshold_floor_add(struct threshold_floor *floor, uint64_t now_ns, double least)
{
	uint64_t number = now_ns / THRESHOLD_FLOOR_SLOT_NS + 1;
	size_t at = number % THRESHOLD_FLOOR_SLOTS;
	double found = NAN;

	if (!isnan(least)) {
		if (floor->number[at] != number)
			floor->least[at] = least;
		floor->number[at] = number;
		floor->least[at] = fmin(floor->least[at], least);
	}
	for (size_t i = 0; i < THRESHOLD_FLOOR_SLOTS; i++)
		if (floor->number[i] && number - floor->number[i] < THRESHOLD_FLOOR_SLOTS)
			found = fmin(found, floor->least[i]);
	return found;
}

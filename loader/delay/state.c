// SPDX-License-Identifier: BSD-2-Clause
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void delays_state_free(struct delays_state *state)
{
	if (!state)
		return;
	for (unsigned int i = 0; i < DELAYS_TURNS; i++)
		delayhist_free(&state->turns[i].hist);
	delayhist_free(&state->look);
	delayhist_free(&state->scrape);
	free(state);
}

/* --- spans --- */

static void span_widen(struct delays_span *span, bool first, int64_t min_ns, int64_t max_ns)
{
	if (first || min_ns < span->min_ns)
		span->min_ns = min_ns;
	if (first || max_ns > span->max_ns)
		span->max_ns = max_ns;
}

#define RAISE(to, value) ((to) = (value) > (to) ? (value) : (to))

static void span_raise(struct delays_span *span, uint32_t bound_ns, uint32_t stack_ns,
		       uint32_t queue_ns, uint64_t message_delay_ns)
{
	RAISE(span->bound_ns, bound_ns);
	RAISE(span->stack_max_ns, stack_ns);
	RAISE(span->queue_max_ns, queue_ns);
	RAISE(span->message_delay_max_ns, message_delay_ns);
}

/* What @window has beyond @seen, an older copy of it (NULL: none); extremes are of all of it. */
static void sum_add_window(struct delays_sum *sum, const struct esc_owd_window *window,
			   const struct esc_owd_window *seen)
{
	static const struct esc_owd_window none;
	struct delays_span *span = &sum->span;

	if (!seen)
		seen = &none;
	if (window->samples == seen->samples)
		return;
	span_widen(span, !sum->counted, window->min_ns, window->max_ns);
	span_raise(span, window->bound_ns, window->stack_max_ns, window->queue_max_ns,
		   window->message_delay_max_ns);
	sum->counted += window->samples - seen->samples;
	sum->sum_ns += (double)(window->sum_ns - seen->sum_ns);
	span->over += window->over - seen->over;
	span->crossings += window->crossings - seen->crossings;
	span->ce += window->ce - seen->ce;
	span->queue_samples += window->queue_samples - seen->queue_samples;
	span->messages += window->messages - seen->messages;
	span->message_bytes += window->message_bytes - seen->message_bytes;
	span->message_delay_sum_ns += window->message_delay_sum_ns - seen->message_delay_sum_ns;
	span->message_spread_sum_ns += window->message_spread_sum_ns - seen->message_spread_sum_ns;
}

void delays_span_quantiles(struct delays_span *span, const struct delayhist *hist)
{
	int64_t p50_ns = delayhist_quantile(hist, 0.5), p99_ns = delayhist_quantile(hist, 0.99);

	span->p50_ns = p50_ns < span->min_ns   ? span->min_ns
		       : p50_ns > span->max_ns ? span->max_ns
					       : p50_ns;
	span->p99_ns = p99_ns < span->min_ns   ? span->min_ns
		       : p99_ns > span->max_ns ? span->max_ns
					       : p99_ns;
}

/*
 * The histogram knows how many and, within a bucket, which; windows know
 * exactly, but may begin earlier, or be missing when a look came late.
 */
static void sum_finish(const struct delays_sum *sum, const struct delayhist *hist,
		       uint32_t last_bound_ns, struct delays_span *out)
{
	uint64_t samples = delayhist_samples(hist);

	*out = (struct delays_span){};
	if (!samples)
		return;
	*out = sum->span;
	out->samples = samples;
	if (!sum->counted) {
		out->min_ns = delayhist_quantile(hist, 0.5 / (double)samples);
		out->max_ns = delayhist_quantile(hist, 1);
		out->mean_ns = delayhist_sum(hist) / (double)samples;
		out->bound_ns = last_bound_ns;
	} else {
		out->min_ns = delayhist_clamp_min(hist, sum->span.min_ns);
		out->max_ns = delayhist_clamp_max(hist, sum->span.max_ns);
		out->mean_ns = sum->sum_ns / (double)sum->counted;
	}
	delays_span_quantiles(out, hist);
}

void delays_span_add(struct delays_span *span, const struct delays_span *more)
{
	uint64_t samples = span->samples + more->samples;

	if (!more->samples)
		return;
	span_widen(span, !span->samples, more->min_ns, more->max_ns);
	span_raise(span, more->bound_ns, more->stack_max_ns, more->queue_max_ns,
		   more->message_delay_max_ns);
	span->mean_ns += (more->mean_ns - span->mean_ns) * (double)more->samples / (double)samples;
	span->samples = samples;
	span->over += more->over;
	span->crossings += more->crossings;
	span->ce += more->ce;
	span->queue_samples += more->queue_samples;
	span->messages += more->messages;
	span->message_bytes += more->message_bytes;
	span->message_delay_sum_ns += more->message_delay_sum_ns;
	span->message_spread_sum_ns += more->message_spread_sum_ns;
}

/* --- windows --- */

/* The programs may have begun another window since the time was read. */
static uint32_t newest_window(const struct esc_qp_owd *owd, uint64_t now_local_ns)
{
	uint32_t number = (uint32_t)(now_local_ns >> ESC_OWD_WINDOW_SHIFT);

	for (unsigned int i = 0; i < ESC_OWD_WINDOWS; i++)
		if (owd->windows[i].number - number == 1)
			return number + 1;
	return number;
}

/* Window @number of the last eight; NULL: nothing was sampled in it. */
static const struct esc_owd_window *window_of(const struct esc_qp_owd *owd, uint32_t number)
{
	const struct esc_owd_window *window = &owd->windows[number % ESC_OWD_WINDOWS];

	return window->number == number && window->samples ? window : NULL;
}

static void floors_add(struct delays_state *state, const struct esc_owd_window *window)
{
	uint32_t number = window->number >> 2;
	unsigned int slot = number % DELAYS_FLOORS;

	if (state->floors[slot].number == number + 1 &&
	    state->floors[slot].min_ns <= window->min_ns)
		return;
	state->floors[slot].number = number + 1;
	state->floors[slot].min_ns = window->min_ns;
}

static bool floors_get(const struct delays_state *state, uint32_t newest, int64_t *floor_ns)
{
	bool known = false;

	for (unsigned int i = 0; i < DELAYS_FLOORS; i++) {
		uint32_t number = state->floors[i].number;

		if (!number || (newest >> 2) - (number - 1) >= DELAYS_FLOORS)
			continue;
		if (!known || state->floors[i].min_ns < *floor_ns)
			*floor_ns = state->floors[i].min_ns;
		known = true;
	}
	return known;
}

/* Since the last reading; the window that was under way then is known in part. */
static void sum_since(const struct delays_state *state, const struct esc_qp_owd *owd,
		      uint32_t newest, struct delays_sum *sum)
{
	for (uint32_t back = ESC_OWD_WINDOWS; back-- > 0;) {
		const struct esc_owd_window *window = window_of(owd, newest - back);

		if (window && (int32_t)(window->number - state->window_number) >= 0)
			sum_add_window(sum, window,
				       window->number == state->window.number ? &state->window
									      : NULL);
	}
}

static void sum_recent(const struct esc_qp_owd *owd, uint32_t newest, struct delays_sum *sum)
{
	for (uint32_t back = 0; back < DELAYS_TURNS; back++) {
		const struct esc_owd_window *window = window_of(owd, newest - back);

		if (window)
			sum_add_window(sum, window, NULL);
	}
}

/* --- reading --- */

/* A value that is younger than the one read before: the queue pair went and came again. */
static void restart_if_new(struct delays_state *state, const struct esc_qp_owd *owd)
{
	if (state->first_ktime_ns == owd->first_ktime_ns && state->samples <= owd->samples)
		return;
	memset(state->histogram, 0, sizeof(state->histogram));
	state->samples = state->over = state->crossings = state->receipts = 0;
	state->scrape_over = state->scrape_crossings = state->noted_at_receipt = 0;
	state->window = (struct esc_owd_window){};
}

static void take_over(struct delays_state *state, const struct esc_qp_owd *owd, uint32_t newest)
{
	memcpy(state->histogram, owd->histogram, sizeof(state->histogram));
	state->scrape_over = owd->over;
	state->scrape_crossings = owd->crossings;
	state->window_number = newest;
	state->window = owd->windows[newest % ESC_OWD_WINDOWS];
}

static struct delayhist *turn_of(struct delays_state *state, uint32_t newest)
{
	unsigned int slot = newest % DELAYS_TURNS;

	if (state->turns[slot].number != newest)
		delayhist_clear(&state->turns[slot].hist);
	state->turns[slot].number = newest;
	return &state->turns[slot].hist;
}

static int take_histogram(struct delays_state *state, const struct esc_qp_owd *owd, uint32_t newest)
{
	int err;

	delayhist_clear(&state->look);
	err = delayhist_add_since(&state->look, owd->histogram, state->histogram);
	memcpy(state->histogram, owd->histogram, sizeof(state->histogram));
	if (!err)
		err = delayhist_add(turn_of(state, newest), &state->look);
	if (!err)
		err = delayhist_add(&state->scrape, &state->look);
	return err;
}

static void sum_add(struct delays_sum *sum, const struct delays_sum *more)
{
	struct delays_span *span = &sum->span;

	if (!more->counted)
		return;
	span_widen(span, !sum->counted, more->span.min_ns, more->span.max_ns);
	span_raise(span, more->span.bound_ns, more->span.stack_max_ns, more->span.queue_max_ns,
		   more->span.message_delay_max_ns);
	sum->counted += more->counted;
	sum->sum_ns += more->sum_ns;
	span->ce += more->span.ce;
	span->queue_samples += more->span.queue_samples;
	span->messages += more->span.messages;
	span->message_bytes += more->span.message_bytes;
	span->message_delay_sum_ns += more->span.message_delay_sum_ns;
	span->message_spread_sum_ns += more->span.message_spread_sum_ns;
}

/* Remembers how far it read, for the next time. */
static void remember(struct delays_state *state, const struct esc_qp_owd *owd, uint32_t newest,
		     uint64_t now_local_ns)
{
	state->read_local_ns = now_local_ns;
	state->first_ktime_ns = owd->first_ktime_ns;
	state->samples = owd->samples;
	state->over = owd->over;
	state->crossings = owd->crossings;
	state->min_ns = owd->min_ns;
	state->max_ns = owd->max_ns;
	RAISE(state->bound_max_ns, owd->last_bound_ns);
	if (owd->receipts != state->receipts)
		state->noted_at_receipt = owd->samples_sent;
	state->receipts = owd->receipts;
	state->window_number = newest;
	state->window = owd->windows[newest % ESC_OWD_WINDOWS];
}

int delays_state_read(struct delays_state *state, const struct esc_qp_owd *owd,
		      uint64_t now_local_ns, bool baseline)
{
	uint32_t newest = newest_window(owd, now_local_ns);
	struct delays_sum since = {};
	int err;

	restart_if_new(state, owd);
	if (baseline)
		take_over(state, owd, newest);
	else if (!state->read_local_ns)
		state->window_number = newest - (ESC_OWD_WINDOWS - 1);
	sum_since(state, owd, newest, &since);
	for (uint32_t back = 0; back < ESC_OWD_WINDOWS; back++)
		if (window_of(owd, newest - back))
			floors_add(state, window_of(owd, newest - back));
	err = take_histogram(state, owd, newest);
	RAISE(state->bound_max_ns, since.span.bound_ns);
	state->look_over = owd->over - state->over;
	state->look_crossings = owd->crossings - state->crossings;
	state->look_sum = since;
	sum_add(&state->scrape_sum, &since);
	remember(state, owd, newest, now_local_ns);
	return err;
}

int delays_state_add_recent(const struct delays_state *state, uint64_t now_local_ns,
			    struct delayhist *hist)
{
	uint32_t newest = (uint32_t)(now_local_ns >> ESC_OWD_WINDOW_SHIFT);
	int err = 0;

	for (unsigned int i = 0; !err && i < DELAYS_TURNS; i++)
		if ((int32_t)(newest - state->turns[i].number) < DELAYS_TURNS)
			err = delayhist_add(hist, &state->turns[i].hist);
	return err;
}

static void scrape_span(const struct delays_state *state, struct delays_entry *entry)
{
	sum_finish(&state->scrape_sum, &state->scrape, entry->last_bound_ns, &entry->scrape);
	entry->scrape.over = entry->over - state->scrape_over;
	entry->scrape.crossings = entry->crossings - state->scrape_crossings;
}

int delays_state_spans(const struct delays_state *state, const struct esc_qp_owd *owd,
		       uint64_t now_local_ns, struct delayhist *scratch, struct delays_entry *entry)
{
	struct delays_sum recent = {};
	int err;

	delayhist_clear(scratch);
	err = delays_state_add_recent(state, now_local_ns, scratch);
	sum_recent(owd, state->window_number, &recent);
	sum_finish(&recent, scratch, owd->last_bound_ns, &entry->recent);
	sum_finish(&state->look_sum, &state->look, owd->last_bound_ns, &entry->look);
	entry->look.over = state->look_over;
	entry->look.crossings = state->look_crossings;
	scrape_span(state, entry);
	entry->noted_since_receipt = owd->samples_sent - state->noted_at_receipt;
	return err;
}

void delays_state_still(struct delays_state *state, struct delays_entry *entry)
{
	delayhist_clear(&state->look);
	state->look_sum = (struct delays_sum){};
	state->look_over = state->look_crossings = 0;
	entry->recent = entry->look = (struct delays_span){};
	scrape_span(state, entry);
}

bool delays_state_floor(const struct delays_state *state, uint64_t now_local_ns, int64_t *floor_ns)
{
	return floors_get(state, (uint32_t)(now_local_ns >> ESC_OWD_WINDOW_SHIFT), floor_ns);
}

void delays_state_written(struct delays_state *state)
{
	delayhist_clear(&state->scrape);
	state->scrape_sum = (struct delays_sum){};
	state->scrape_over = state->over;
	state->scrape_crossings = state->crossings;
}

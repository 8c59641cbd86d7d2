// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define FEEDBACK_NS 500000000ull /* its mean is over no less */

void delays_entry_free(struct delays_entry *entry)
{
	if (!entry)
		return;
	for (unsigned int i = 0; i < DELAYS_WINDOWS; i++)
		delayhist_free(&entry->windows[i].histogram);
	delayhist_free(&entry->poll_histogram);
	delayhist_free(&entry->scrape_histogram);
	free(entry);
}

/* --- counts --- */

void delays_counts_add(struct delays_counts *sum, const struct delays_counts *more)
{
	sum->samples_sent += more->samples_sent;
	sum->receipts += more->receipts;
	sum->samples += more->samples;
	sum->samples_discarded += more->samples_discarded;
	sum->samples_expired += more->samples_expired;
	sum->over += more->over;
	sum->crossings += more->crossings;
}

/* A value that is less than before counts from 0. */
static uint64_t growth(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : now;
}

/* --- spans --- */

#define RAISE(to, value) ((to) = (value) > (to) ? (value) : (to))

void delays_span_add(struct delays_span *span, const struct delays_span *more)
{
	if (!more->samples)
		return;
	if (!span->samples || more->min_ns < span->min_ns)
		span->min_ns = more->min_ns;
	if (!span->samples || more->max_ns > span->max_ns)
		span->max_ns = more->max_ns;
	RAISE(span->bound_ns, more->bound_ns);
	RAISE(span->stack_max_ns, more->stack_max_ns);
	RAISE(span->queue_max_ns, more->queue_max_ns);
	RAISE(span->message_delay_max_ns, more->message_delay_max_ns);
	span->samples += more->samples;
	span->sum_ns += more->sum_ns;
	span->over += more->over;
	span->crossings += more->crossings;
	span->ce += more->ce;
	span->queue_samples += more->queue_samples;
	span->messages += more->messages;
	span->message_bytes += more->message_bytes;
	span->message_delay_sum_ns += more->message_delay_sum_ns;
	span->message_spread_sum_ns += more->message_spread_sum_ns;
}

/* What @window has beyond @seen, an older copy of it; extremes are of all of it. */
static void span_add_window(struct delays_span *span, const struct esc_owd_window *window,
			    const struct esc_owd_window *seen)
{
	struct delays_span more = {
		.samples = window->samples - seen->samples,
		.min_ns = window->min_ns,
		.max_ns = window->max_ns,
		.sum_ns = (double)(window->sum_ns - seen->sum_ns),
		.bound_ns = window->bound_ns,
		.over = window->over - seen->over,
		.crossings = window->crossings - seen->crossings,
		.ce = window->ce - seen->ce,
		.stack_max_ns = window->stack_max_ns,
		.queue_max_ns = window->queue_max_ns,
		.queue_samples = window->queue_samples - seen->queue_samples,
		.messages = window->messages - seen->messages,
		.message_bytes = window->message_bytes - seen->message_bytes,
		.message_delay_sum_ns = window->message_delay_sum_ns - seen->message_delay_sum_ns,
		.message_delay_max_ns = window->message_delay_max_ns,
		.message_spread_sum_ns =
			window->message_spread_sum_ns - seen->message_spread_sum_ns,
	};

	delays_span_add(span, &more);
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

void delays_span_finish(struct delays_span *span, const struct delayhist *histogram)
{
	span->p50_ns = clamp(delayhist_quantile(histogram, 0.5), span->min_ns, span->max_ns);
	span->p99_ns = clamp(delayhist_quantile(histogram, 0.99), span->min_ns, span->max_ns);
	span->mean_ns = span->samples ? span->sum_ns / (double)span->samples : 0;
}

/*
 * The histogram knows how many and, within a bucket, which; windows know exactly, but may begin
 * earlier, or be missing when a poll came late.
 */
static struct delays_span span_of(const struct delays_span *windows,
				  const struct delayhist *histogram, uint32_t last_bound_ns)
{
	uint64_t samples = delayhist_samples(histogram);
	struct delays_span span = *windows;

	if (!samples)
		return (struct delays_span){};
	span.samples = samples;
	if (windows->samples) {
		delayhist_clamp(histogram, &span.min_ns, &span.max_ns);
	} else {
		span.min_ns = delayhist_quantile(histogram, 0.5 / (double)samples);
		span.max_ns = delayhist_quantile(histogram, 1);
		span.bound_ns = last_bound_ns;
	}
	if (windows->samples >= samples)
		span.sum_ns *= (double)samples / (double)windows->samples;
	else
		span.sum_ns = delayhist_sum(histogram);
	delays_span_finish(&span, histogram);
	return span;
}

/* --- windows --- */

bool delays_entry_floor(const struct delays_entry *entry, uint64_t now_local_ns, int64_t *floor_ns)
{
	uint32_t newest = (uint32_t)(now_local_ns >> ESC_OWD_WINDOW_SHIFT);
	bool known = false;

	for (unsigned int i = 0; i < DELAYS_FLOORS; i++) {
		uint32_t number = entry->floors[i].number;

		if (!number || (newest >> 2) - (number - 1) >= DELAYS_FLOORS)
			continue;
		if (!known || entry->floors[i].min_ns < *floor_ns)
			*floor_ns = entry->floors[i].min_ns;
		known = true;
	}
	return known;
}

/*
 * Sums of windows: of the last second, and since the last reading, in which the window that was
 * under way then is contained in part.
 */
static void read_windows(struct delays_entry *entry, const struct esc_qp_owd *owd, uint32_t newest,
			 struct delays_span *recent, struct delays_span *since)
{
	static const struct esc_owd_window none;
	unsigned int slot;

	for (uint32_t back = ESC_OWD_WINDOWS; back-- > 0;) {
		uint32_t number = newest - back;
		const struct esc_owd_window *window = &owd->windows[number % ESC_OWD_WINDOWS];
		const struct esc_owd_window *seen = &entry->owd.windows[number % ESC_OWD_WINDOWS];

		if (window->number != number || !window->samples)
			continue;
		slot = (number >> 2) % DELAYS_FLOORS;
		if (entry->floors[slot].number != (number >> 2) + 1 ||
		    entry->floors[slot].min_ns > window->min_ns) {
			entry->floors[slot].number = (number >> 2) + 1;
			entry->floors[slot].min_ns = window->min_ns;
		}
		if (seen->number != number)
			seen = &none;
		if (window->samples != seen->samples)
			span_add_window(since, window, seen);
		if (back < DELAYS_WINDOWS)
			span_add_window(recent, window, &none);
	}
}

/* --- a reading --- */

static int read_histogram(struct delays_entry *entry, const struct esc_qp_owd *owd, uint32_t newest)
{
	unsigned int slot = newest % DELAYS_WINDOWS;
	int err;

	delayhist_clear(&entry->poll_histogram);
	err = delayhist_add_since(&entry->poll_histogram, owd->histogram, entry->owd.histogram);
	if (entry->windows[slot].number != newest)
		delayhist_clear(&entry->windows[slot].histogram);
	entry->windows[slot].number = newest;
	if (!err)
		err = delayhist_add(&entry->windows[slot].histogram, &entry->poll_histogram);
	if (!err)
		err = delayhist_add(&entry->scrape_histogram, &entry->poll_histogram);
	return err;
}

static void set_feedback(struct delays_entry *entry, uint64_t now_local_ns)
{
	uint64_t receipts = entry->owd.receipts - entry->feedback_receipts;
	uint64_t sum_ns = entry->owd.feedback_sum_ns - entry->feedback_sum_ns;

	if (entry->feedback_ns && now_local_ns - entry->feedback_local_ns < FEEDBACK_NS)
		return;
	if (receipts && receipts <= entry->owd.receipts && sum_ns <= entry->owd.feedback_sum_ns)
		entry->feedback_ns = (double)sum_ns / (double)receipts;
	entry->feedback_local_ns = now_local_ns;
	entry->feedback_receipts = entry->owd.receipts;
	entry->feedback_sum_ns = entry->owd.feedback_sum_ns;
}

int delays_entry_read(struct delays_entry *entry, const struct esc_qp_owd *owd,
		      uint64_t now_local_ns, bool baseline, struct delayhist *scratch)
{
	uint32_t newest = (uint32_t)(now_local_ns >> ESC_OWD_WINDOW_SHIFT);
	struct delays_span recent = {}, since = {};
	const struct esc_qp_owd *was;
	int err, failed;

	/* The programs may have begun another window since the time was read. */
	if (owd->windows[(newest + 1) % ESC_OWD_WINDOWS].number == newest + 1)
		newest++;
	if (baseline) {
		entry->owd = *owd;
		entry->sent_at_receipt = owd->receipts ? owd->samples_sent : 0;
	} else if (entry->owd.first_ktime_ns != owd->first_ktime_ns ||
		   entry->owd.samples > owd->samples) {
		/* The queue pair went and came again. */
		memset(&entry->owd, 0, sizeof(entry->owd));
		entry->sent_at_receipt = 0;
	}
	was = &entry->owd;
	entry->added = (struct delays_counts){
		.samples_sent = growth(owd->samples_sent, was->samples_sent),
		.receipts = growth(owd->receipts, was->receipts),
		.samples = growth(owd->samples, was->samples),
		.samples_discarded = growth(owd->samples_discarded, was->samples_discarded),
		.samples_expired = growth(owd->samples_expired, was->samples_expired),
		.over = growth(owd->over, was->over),
		.crossings = growth(owd->crossings, was->crossings),
	};
	read_windows(entry, owd, newest, &recent, &since);
	err = read_histogram(entry, owd, newest);
	delayhist_clear(scratch);
	failed = delays_entry_add_recent(entry, now_local_ns, scratch);
	entry->recent = span_of(&recent, scratch, owd->last_bound_ns);
	/* The map's own counts are also of windows that were missed. */
	since.over = since.crossings = 0;
	delays_span_add(&entry->scrape_windows, &since);
	entry->scrape_windows.over += entry->added.over;
	entry->scrape_windows.crossings += entry->added.crossings;
	since.over = entry->added.over;
	since.crossings = entry->added.crossings;
	entry->poll = span_of(&since, &entry->poll_histogram, owd->last_bound_ns);
	entry->scrape =
		span_of(&entry->scrape_windows, &entry->scrape_histogram, owd->last_bound_ns);
	RAISE(entry->bound_max_ns, since.bound_ns);
	RAISE(entry->bound_max_ns, owd->last_bound_ns);
	if (owd->receipts != entry->owd.receipts)
		entry->sent_at_receipt = owd->samples_sent;
	entry->owd = *owd;
	entry->read_local_ns = now_local_ns;
	set_feedback(entry, now_local_ns);
	return err ? err : failed;
}

void delays_entry_still(struct delays_entry *entry)
{
	delayhist_clear(&entry->poll_histogram);
	entry->recent = entry->poll = (struct delays_span){};
}

int delays_entry_add_recent(const struct delays_entry *entry, uint64_t now_local_ns,
			    struct delayhist *histogram)
{
	uint32_t newest = (uint32_t)(now_local_ns >> ESC_OWD_WINDOW_SHIFT);
	int err = 0;

	for (unsigned int i = 0; !err && i < DELAYS_WINDOWS; i++)
		if ((int32_t)(newest - entry->windows[i].number) < DELAYS_WINDOWS)
			err = delayhist_add(histogram, &entry->windows[i].histogram);
	return err;
}

void delays_entry_ever(const struct delays_entry *entry, struct delays_span *out)
{
	const struct esc_qp_owd *owd = &entry->owd;
	struct delayhist all = {};

	*out = (struct delays_span){
		.samples = owd->samples,
		.min_ns = owd->min_ns,
		.max_ns = owd->max_ns,
		.bound_ns = entry->bound_max_ns,
		.over = owd->over,
		.crossings = owd->crossings,
	};
	if (owd->samples && !delayhist_add_since(&all, owd->histogram, NULL) &&
	    delayhist_samples(&all) + UINT32_MAX > owd->samples)
		delays_span_finish(out, &all);
	delayhist_free(&all);
}

void delays_entry_written(struct delays_entry *entry)
{
	delayhist_clear(&entry->scrape_histogram);
	entry->scrape_windows = entry->scrape = (struct delays_span){};
}

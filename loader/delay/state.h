/* SPDX-License-Identifier: BSD-2-Clause */
/* One queue pair's delays over time: what of a map's value is new, and of which span. Pure. */
#ifndef ESC_LOADER_DELAYS_STATE_H
#define ESC_LOADER_DELAYS_STATE_H

#include "delay.h"

#define DELAYS_TURNS 4	 /* windows of 0.27 s that are `recent` */
#define DELAYS_FLOORS 28 /* of four windows each: 30 s */

/* Windows added up. */
struct delays_sum {
	struct delays_span span; /* p50, p99 and mean are not kept here */
	uint64_t counted;	 /* samples in it */
	double sum_ns;
};

struct delays_state {
	/* As last read. */
	uint64_t read_local_ns;
	uint64_t first_ktime_ns, samples, over, crossings;
	int64_t min_ns, max_ns;
	uint32_t histogram[ESC_OWD_BUCKETS];
	uint32_t window_number; /* the newest, which may go on: */
	struct esc_owd_window window;
	uint32_t bound_max_ns;

	struct {
		uint32_t number; /* of the window in which it was read */
		struct delayhist hist;
	} turns[DELAYS_TURNS];
	struct delayhist look, scrape;
	struct delays_sum scrape_sum;
	uint64_t scrape_over, scrape_crossings; /* when it began */
	struct {
		uint32_t number; /* window >> 2, plus 1; 0: empty */
		int64_t min_ns;
	} floors[DELAYS_FLOORS];

	struct delays_sum look_sum;
	uint64_t look_over, look_crossings;
	uint64_t receipts, noted_at_receipt;
	uint64_t last_ktime_ns, feedback_sum_ns;
};

/*
 * @baseline: what the value holds was before our time. 0 or -ENOMEM, then
 * these samples are missing in what is shown.
 */
int delays_state_read(struct delays_state *state, const struct esc_qp_owd *owd,
		      uint64_t now_local_ns, bool baseline);
/* Spans of @entry, as of this reading. 0 or -ENOMEM. */
int delays_state_spans(const struct delays_state *state, const struct esc_qp_owd *owd,
		       uint64_t now_local_ns, struct delayhist *scratch,
		       struct delays_entry *entry);
/* The same when nothing was read because nothing moved for longer than `recent`. */
void delays_state_still(struct delays_state *state, struct delays_entry *entry);
/* False: nothing was sampled in the last 30 s. */
bool delays_state_floor(const struct delays_state *state, uint64_t now_local_ns, int64_t *floor_ns);
void delays_state_written(struct delays_state *state);
void delays_state_free(struct delays_state *state);

/* Adds finished spans; quantiles of the sum are delays_span_quantiles()'s. */
void delays_span_add(struct delays_span *span, const struct delays_span *more);
void delays_span_quantiles(struct delays_span *span, const struct delayhist *hist);
/* `recent`'s histogram at @now_local_ns. 0 or -ENOMEM. */
int delays_state_add_recent(const struct delays_state *state, uint64_t now_local_ns,
			    struct delayhist *hist);

#endif

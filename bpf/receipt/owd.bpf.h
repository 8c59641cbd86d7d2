/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A receipt that matched its tx record: the delays of its queue pair. */
#ifndef ESC_BPF_RECEIPT_OWD_H
#define ESC_BPF_RECEIPT_OWD_H

#include "receipt/receipt.bpf.h"

/* One receipt with its tx record. Times in ns. */
struct owd_sample {
	__s64 delay_ns;
	__s64 message_delay_ns;
	__u64 now_ktime_ns;
	__u64 feedback_ns;
	__u64 departure_ns; /* CLOCK_MONOTONIC */
	__u32 bound_ns;
	__u32 psn;
	__u32 stack_ns;
	__u32 queue_ns;
	__u32 message_bytes; /* 0: no message */
	__u32 message_spread_ns;
	bool timed; /* delay_ns is valid */
	bool ce;
};

/* The current window; an expired one is cleared. */
static __always_inline struct esc_owd_window *owd_window(struct esc_qp_owd *owd, __u64 ktime_ns)
{
	__u32 number = ktime_ns >> ESC_OWD_WINDOW_SHIFT;
	struct esc_owd_window *w = &owd->windows[number % ESC_OWD_WINDOWS];

	if (w->number != number) {
		__builtin_memset(w, 0, sizeof(*w));
		w->number = number;
	}
	return w;
}

static __always_inline void owd_add_delay(struct esc_qp_owd *owd, struct esc_owd_window *w,
					  const struct owd_sample *s, __u32 threshold_ns)
{
	bool above = s->delay_ns > (__s64)threshold_ns;
	__u32 bucket = esc_owd_bucket(s->delay_ns);
	bool first = !w->samples;

	barrier_var(bucket);
	if (bucket < ESC_OWD_BUCKETS)
		count(owd->histogram[bucket], 1);
	if (first || s->delay_ns < w->min_ns)
		w->min_ns = s->delay_ns;
	if (first || s->delay_ns > w->max_ns)
		w->max_ns = s->delay_ns;
	w->sum_ns += s->delay_ns;
	w->samples++;
	if (s->bound_ns > w->bound_ns)
		w->bound_ns = s->bound_ns;
	if (!owd->samples || s->delay_ns < owd->min_ns)
		owd->min_ns = s->delay_ns;
	if (!owd->samples || s->delay_ns > owd->max_ns)
		owd->max_ns = s->delay_ns;
	count(owd->samples, 1);
	owd->last_ns = s->delay_ns;
	owd->last_bound_ns = s->bound_ns;
	if (above) {
		w->over++;
		count(owd->over, 1);
		if (!owd->above) {
			w->crossings++;
			count(owd->crossings, 1);
		}
	}
	owd->above = above;
}

static __always_inline void owd_add_message(struct esc_owd_window *w, const struct owd_sample *s)
{
	__u64 delay_ns = s->message_delay_ns > 0 ? s->message_delay_ns : 0;

	w->messages++;
	w->message_bytes += s->message_bytes;
	w->message_delay_sum_ns += delay_ns;
	if (delay_ns > w->message_delay_max_ns)
		w->message_delay_max_ns = delay_ns;
	w->message_spread_sum_ns += s->message_spread_ns;
}

static __always_inline int owd_add(struct esc_qp_owd *owd, const struct owd_sample *s,
				   __u32 threshold_ns)
{
	struct esc_owd_window *w = owd_window(owd, s->now_ktime_ns);

	if (!owd->first_ktime_ns)
		owd->first_ktime_ns = s->now_ktime_ns;
	owd->last_ktime_ns = s->now_ktime_ns;
	owd->last_psn = s->psn;
	count(owd->feedback_sum_ns, s->feedback_ns);
	w->ce += s->ce;
	if (s->stack_ns > w->stack_max_ns)
		w->stack_max_ns = s->stack_ns;
	if (s->queue_ns) {
		w->queue_samples++;
		if (s->queue_ns > w->queue_max_ns)
			w->queue_max_ns = s->queue_ns;
	}
	if (s->timed) {
		owd_add_delay(owd, w, s, threshold_ns);
		if (s->message_bytes)
			owd_add_message(w, s);
	}
	count(owd->receipts, 1);
	return 0;
}

#endif

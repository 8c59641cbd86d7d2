/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The delay of a receipt as feedback for the law of its queue pair. */
#ifndef ESC_BPF_PACE_FEEDBACK_H
#define ESC_BPF_PACE_FEEDBACK_H

#include "pace/pace.bpf.h"
#include "receipt/owd.bpf.h"

/* Before the tx record is claimed; pace_feedback() follows on the same CPU. */
static __always_inline void pace_save_sample(const struct esc_tx_record *record,
					     const struct owd_sample *s)
{
	struct esc_receipt_cpu *cpu = receipt_cpu_get();

	if (!cpu)
		return;
	cpu->pace.mark = record->mark;
	cpu->pace.departure_ns = s->departure_ns;
	cpu->pace.now_ns = s->now_ktime_ns;
	cpu->pace.delay_ns = s->delay_ns;
	cpu->pace.bound_ns = s->bound_ns;
	cpu->pace.timed = s->timed;
}

/*
 * Global, so that the verifier checks the law once and not for each caller. Weak: two objects
 * have it.
 */
__weak __noinline int pace_apply(struct pause_flow *flow, const struct pause_rule *rule,
				 const struct esc_pace_sample *s, __u64 now_ns)
{
	if (!flow || !rule || !s)
		return 0;
	pause_sample(flow, rule, &s->mark, s->departure_ns, s->delay_ns, now_ns);
	return 0;
}

/* The saved delay, if there is one, to the law. @matched: the receipt claimed its tx record. */
static __always_inline int pace_feedback(const struct esc_qp_key *key, bool matched)
{
	struct esc_receipt_cpu *cpu = receipt_cpu_get();
	const struct esc_pace_sample *s = cpu ? &cpu->pace : NULL;
	const struct pause_rule *rule;
	struct esc_qp_pace *state;
	__u64 now_ns;

	if (!s || !s->now_ns)
		return 0;
	now_ns = s->now_ns;
	cpu->pace.now_ns = 0;
	state = matched ? bpf_map_lookup_elem(&qp_pace, key) : NULL;
	if (!state)
		return 0;
	rule = pace_rule(key->port, state->class);
	if (!rule || !rule->threshold_ns)
		return 0;
	if (!s->timed || s->bound_ns > rule->threshold_ns >> ESC_PACE_BOUND_SHIFT) {
		count(state->unsure, 1);
		return 0;
	}
	pace_apply(&state->flow, rule, s, now_ns);
	count(state->samples, 1);
	return 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a receipt's delay does to the pace of its queue pair. */
#ifndef ESC_BPF_PACE_FEEDBACK_H
#define ESC_BPF_PACE_FEEDBACK_H

#include "receipt/owd.bpf.h"
#include "pace/pace.bpf.h"

/* Before the note is taken. The call of pace_take() that follows is on the same CPU. */
static __always_inline void pace_keep(const struct esc_sent_note *note, const struct owd_sample *s)
{
	struct esc_receipt_cpu *here = receipt_here();

	if (!here)
		return;
	here->pace.mark = note->mark;
	here->pace.departure_ns = s->departure_ns;
	here->pace.now_ns = s->now_ktime_ns;
	here->pace.delay_ns = s->delay_ns;
	here->pace.bound_ns = s->bound_ns;
	here->pace.timed = s->timed;
}

/*
 * Not static: so the verifier looks at the law once, and not for each way that leads here. Weak:
 * two objects have it.
 */
__weak __noinline int pace_learn(struct pause_flow *flow, const struct pause_rule *rule,
				 const struct esc_pace_sample *s, __u64 now_ns)
{
	if (!flow || !rule || !s)
		return 0;
	pause_sample(flow, rule, &s->mark, s->departure_ns, s->delay_ns, now_ns);
	return 0;
}

/* A receipt's delay, if one was kept, to the law. @good: the receipt took its note. */
static __noinline int pace_take(const struct esc_qp_key *key, bool good)
{
	struct esc_receipt_cpu *here = receipt_here();
	const struct esc_pace_sample *s = here ? &here->pace : NULL;
	const struct pause_rule *rule;
	struct esc_qp_pace *state;
	__u64 now_ns;

	if (!s || !s->now_ns)
		return 0;
	now_ns = s->now_ns;
	here->pace.now_ns = 0;
	state = good ? bpf_map_lookup_elem(&qp_pace, key) : NULL;
	if (!state)
		return 0;
	rule = pace_rule(key->port, state->class);
	if (!rule || !rule->threshold_ns)
		return 0;
	if (!s->timed || s->bound_ns > rule->threshold_ns >> ESC_PACE_BOUND_SHIFT) {
		count(state->unsure, 1);
		return 0;
	}
	pace_learn(&state->flow, rule, s, now_ns);
	count(state->samples, 1);
	return 0;
}

#endif

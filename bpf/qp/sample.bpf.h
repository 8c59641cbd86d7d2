/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which packets are sampled for their delay. Both ends of a queue pair select the same
 * packets by what they see, with nothing added to the wire: maps/owd.h has the rules.
 */
#ifndef ESC_BPF_QP_SAMPLE_H
#define ESC_BPF_QP_SAMPLE_H

#include "qp/psn.bpf.h"

/* A departure further ahead is not a time of our clock. */
#define SAMPLE_DEPARTURE_MAX_NS 10000000000ull
/* In units of esc_qp.sample_slow: after late receipts the sample rate does not rise for 4 s. */
#define SAMPLE_SLOW_SHIFT 20
#define SAMPLE_SLOW_LASTS 4096

/* Arrival, or departure as requested from the qdisc (EDT): that wait is not a delay. */
static __always_inline __u64 sample_time(const struct pkt_ctx *pkt)
{
	__u64 now_ns = bpf_ktime_get_ns();

	return pkt->departure_ns - now_ns < SAMPLE_DEPARTURE_MAX_NS ? pkt->departure_ns : now_ns;
}

/* A PSN of UD does not identify a packet, ACKs repeat those of others, and CNPs have none. */
static __always_inline bool sample_is_selected(const struct pkt_ctx *pkt, __u32 sample_mask)
{
	if (likely(pkt->psn & sample_mask) || !(pkt->op_flags & (ESC_OP_REQUEST | ESC_OP_PAYLOAD)))
		return false;
	return ESC_TRANSPORT(pkt->opcode) != ESC_TRANSPORT_UD;
}

static __always_inline bool sample_is_slow(const struct esc_qp *qp, __u64 now_ns)
{
	return qp->sample_slow &&
	       (__u32)(now_ns >> SAMPLE_SLOW_SHIFT) - qp->sample_slow < SAMPLE_SLOW_LASTS;
}

static __always_inline void sample_halve_rate(struct esc_qp *qp)
{
	if (qp->sample_mask < ESC_SAMPLE_MASK_MAX)
		qp->sample_mask = (qp->sample_mask * 2 + 1) & ESC_SAMPLE_MASK_MAX;
}

/* The mask follows the time since the previous sample. */
static __noinline int sample_adapt(struct esc_qp *qp, const struct esc_control *ctl, __u64 now_ns)
{
	__s64 apart_ns = now_ns - qp->sample_local_ns;
	bool paced = ctl->flags & ESC_CONTROL_PACE;
	__s64 least_ns = paced ? ESC_SAMPLE_APART_PACE_MIN_NS : ESC_SAMPLE_APART_MIN_NS;
	__s64 most_ns =
		qp->sample_mask <= 7 ? ESC_SAMPLE_APART_MAX_FINE_NS : ESC_SAMPLE_APART_MAX_NS;

	if (ctl->flags & ESC_CONTROL_SAMPLE_FIXED)
		qp->sample_mask = ctl->sample_mask & ESC_SAMPLE_MASK_MAX;
	else if (!qp->sample_local_ns)
		return 0;
	else if (apart_ns < least_ns)
		sample_halve_rate(qp);
	else if (apart_ns > (paced ? ESC_SAMPLE_APART_PACE_MAX_NS : most_ns) &&
		 !sample_is_slow(qp, now_ns))
		qp->sample_mask >>= 1;
	return 0;
}

static __always_inline void sample_update(const struct pkt_ctx *pkt)
{
	struct esc_qp *qp = pkt->qp;

	if (pkt->ctl->flags & ESC_CONTROL_RECEIPTS)
		sample_adapt(qp, pkt->ctl, pkt->now_ns);
	qp->sample_local_ns = pkt->now_ns;
	qp->sample_psn = pkt->psn;
}

/* The message being timed is of the packet's sequence: requests or responses. */
static __always_inline bool sample_has_message(const struct esc_qp *qp, const struct pkt_ctx *pkt)
{
	__u8 own = ESC_SAMPLE_MESSAGE | (pkt->op_flags & ESC_OP_REQUEST ? 0 : ESC_SAMPLE_RESPONSE);

	return (qp->sample_flags & (ESC_SAMPLE_MESSAGE | ESC_SAMPLE_RESPONSE)) == own;
}

/* START of a message, in order. One message of a queue pair's direction is timed: the newest. */
static __always_inline void sample_begin_message(struct esc_qp *qp, struct pkt_ctx *pkt)
{
	if (likely(!ESC_MESSAGE_SAMPLED(pkt->psn, qp->sample_mask))) {
		if (unlikely(sample_has_message(qp, pkt)))
			qp->sample_flags &= ~ESC_SAMPLE_MESSAGE;
		return;
	}
	if (!pkt->now_ns)
		pkt->now_ns = sample_time(pkt);
	qp->sample_flags &= ~ESC_SAMPLE_RESPONSE;
	qp->sample_flags |=
		ESC_SAMPLE_MESSAGE | (pkt->op_flags & ESC_OP_REQUEST ? 0 : ESC_SAMPLE_RESPONSE);
	qp->message_start_local_ns = pkt->now_ns;
	qp->message_start_psn = pkt->psn;
}

/* END of a message, in order; @whole: seen from its START without a gap. */
static __always_inline void sample_end_message(struct esc_qp *qp, struct pkt_ctx *pkt, bool whole,
					       __u32 bytes)
{
	if (likely(!(qp->sample_flags & ESC_SAMPLE_MESSAGE)) || !sample_has_message(qp, pkt))
		return;
	qp->sample_flags &= ~ESC_SAMPLE_MESSAGE;
	if (!whole)
		return;
	if (!pkt->now_ns)
		pkt->now_ns = sample_time(pkt);
	pkt->flags |= PKT_MESSAGE;
	pkt->message_bytes = bytes;
}

#endif

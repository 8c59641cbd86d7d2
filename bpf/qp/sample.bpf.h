/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which packets are timed. Both ends of a queue pair choose by what they see,
 * with nothing said on the wire: maps/owd.h has the rules.
 */
#ifndef ESC_BPF_QP_SAMPLE_H
#define ESC_BPF_QP_SAMPLE_H

#include "qp/psn.bpf.h"

/* A packet is never held longer: what is said to leave later was no time of our clock. */
#define SAMPLE_HOLD_MAX_NS 10000000000ull
/* In units of esc_qp.sample_slow: for 4 s after receipts were too slow samples are not made denser.
 */
#define SAMPLE_SLOW_SHIFT 20
#define SAMPLE_SLOW_LASTS 4096

/* What the accounting finds in a packet beside what it counts. */
struct qp_found {
	struct esc_qp *qp;
	__u64 now_ns; /* CLOCK_MONOTONIC, of the sampled and of timed messages' ends */
	__u32 message_bytes;
	__u8 what; /* FOUND_* */
};
#define FOUND_NO_ROOM 0x01  /* in the table of queue pairs */
#define FOUND_SAMPLED 0x02  /* its PSN is chosen */
#define FOUND_MESSAGE 0x04  /* it ends a timed message of which all came */
#define FOUND_REPEATED 0x08 /* its PSN had passed before */
#define FOUND_ANEW 0x10	    /* it begins a sequence: nothing vouches for its PSN */
#define FOUND_PACED 0x20    /* and pacing wants to hear of its delay */

/* When the packet may leave, or came: a hold that was asked for (EDT) is no delay. */
static __always_inline __u64 sample_time(const struct esc_packet *p)
{
	__u64 now_ns = bpf_ktime_get_ns();

	return p->departure_ns - now_ns < SAMPLE_HOLD_MAX_NS ? p->departure_ns : now_ns;
}

/* UD's PSNs do not name a packet, ACKs repeat those of others, and CNPs have none. */
static __always_inline bool sample_is_chosen(const struct esc_packet *p, __u32 sample_mask)
{
	if (likely(p->psn & sample_mask) || !(p->flags & (ESC_OP_REQUEST | ESC_OP_PAYLOAD)))
		return false;
	return ESC_TRANSPORT(p->opcode) != ESC_TRANSPORT_UD;
}

static __always_inline bool sample_was_slow(const struct esc_qp *qp, __u64 now_ns)
{
	return qp->sample_slow &&
	       (__u32)(now_ns >> SAMPLE_SLOW_SHIFT) - qp->sample_slow < SAMPLE_SLOW_LASTS;
}

static __always_inline void sample_thin_out(struct esc_qp *qp)
{
	if (qp->sample_mask < ESC_SAMPLE_MASK_MAX)
		qp->sample_mask = (qp->sample_mask * 2 + 1) & ESC_SAMPLE_MASK_MAX;
}

/* The mask follows the time since the sample before. */
static __noinline int sample_adapt(struct esc_qp *qp, const struct esc_control *word, __u64 now_ns)
{
	__s64 apart_ns = now_ns - qp->stamp_local_ns;
	bool paced = word->flags & ESC_CONTROL_PACE;
	__s64 least_ns = paced ? ESC_SAMPLE_APART_PACE_MIN_NS : ESC_SAMPLE_APART_MIN_NS;
	__s64 most_ns = qp->sample_mask <= 7 ? ESC_SAMPLE_APART_MAX_FINE_NS
					     : ESC_SAMPLE_APART_MAX_NS;

	if (word->flags & ESC_CONTROL_SAMPLE_FIXED)
		qp->sample_mask = word->sample_mask & ESC_SAMPLE_MASK_MAX;
	else if (!qp->stamp_local_ns)
		return 0;
	else if (apart_ns < least_ns)
		sample_thin_out(qp);
	else if (apart_ns > (paced ? ESC_SAMPLE_APART_PACE_MAX_NS : most_ns) &&
		 !sample_was_slow(qp, now_ns))
		qp->sample_mask >>= 1;
	return 0;
}

static __always_inline void sample_stamp(struct esc_qp *qp, const struct esc_packet *p,
					 const struct esc_control *word, __u64 now_ns)
{
	if (word->flags & ESC_CONTROL_RECEIPTS)
		sample_adapt(qp, word, now_ns);
	qp->stamp_local_ns = now_ns;
	qp->stamp_psn = p->psn;
}

/* Of the stream that @p belongs to. */
static __always_inline bool sample_has_message(const struct esc_qp *qp, const struct esc_packet *p)
{
	__u8 mine = ESC_SAMPLE_MESSAGE | (p->flags & ESC_OP_REQUEST ? 0 : ESC_SAMPLE_RESPONSE);

	return (qp->sample_flags & (ESC_SAMPLE_MESSAGE | ESC_SAMPLE_RESPONSE)) == mine;
}

/* A message begins, in order. One of a queue pair's direction is timed at a time, the newest. */
static __always_inline void sample_begin_message(struct esc_qp *qp, const struct esc_packet *p,
						 struct qp_found *found)
{
	if (likely(!ESC_MESSAGE_SAMPLED(p->psn, qp->sample_mask))) {
		if (unlikely(sample_has_message(qp, p)))
			qp->sample_flags &= ~ESC_SAMPLE_MESSAGE;
		return;
	}
	if (!found->now_ns)
		found->now_ns = sample_time(p);
	qp->sample_flags &= ~ESC_SAMPLE_RESPONSE;
	qp->sample_flags |=
		ESC_SAMPLE_MESSAGE | (p->flags & ESC_OP_REQUEST ? 0 : ESC_SAMPLE_RESPONSE);
	qp->message_start_local_ns = found->now_ns;
	qp->message_start_psn = p->psn;
}

/* A message ends, in order; @whole: it was seen from its beginning without a hole. */
static __always_inline void sample_end_message(struct esc_qp *qp, const struct esc_packet *p,
					       bool whole, __u32 bytes, struct qp_found *found)
{
	if (likely(!(qp->sample_flags & ESC_SAMPLE_MESSAGE)) || !sample_has_message(qp, p))
		return;
	qp->sample_flags &= ~ESC_SAMPLE_MESSAGE;
	if (!whole)
		return;
	if (!found->now_ns)
		found->now_ns = sample_time(p);
	found->what |= FOUND_MESSAGE;
	found->message_bytes = bytes;
}

#endif

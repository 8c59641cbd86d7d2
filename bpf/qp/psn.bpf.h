/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The two sequences of PSNs of one direction of a queue pair.
 *
 * A packet whose PSN is the next one is taken at once by the caller; all other
 * packets come here. The functions say whether the packet is to be taken as
 * the sequence's newest (ESC_PSN_TAKE; _ANEW: it begins a new sequence) or was
 * only counted (ESC_PSN_LEAVE: it had passed before; _AHEAD: its turn has not come).
 *
 * Requests at the receiver follow the RC responder (linux
 * drivers/infiniband/sw/rxe/rxe_resp.c, check_psn): it waits at a gap. A UC
 * responder does not wait, and neither does what a sender's own packets tell
 * of it: there the sequence goes on behind the gap.
 */
#ifndef ESC_BPF_QP_PSN_H
#define ESC_BPF_QP_PSN_H

#include "lib/packet.bpf.h"

#define ESC_PSN_LEAVE 0
#define ESC_PSN_TAKE 1
#define ESC_PSN_ANEW 2
#define ESC_PSN_AHEAD 3

#define psn_is_taken(judged) ((judged) == ESC_PSN_TAKE || (judged) == ESC_PSN_ANEW)

/* A queue pair's window is far smaller: beyond it the number was reused. */
#define ESC_PSN_RESYNC_DISTANCE 65536
#define ESC_PSN_RESYNC_RUN 32768

#define ESC_PMTU_MIN 256
#define ESC_PMTU_MAX 4096

#define count(field, n) ((void)__sync_fetch_and_add(&(field), n))

/* How far @psn is ahead of @next, in the 24-bit circle. */
static __always_inline __s32 psn_distance(__u32 psn, __u32 next)
{
	return (__s32)((psn - next) << 8) >> 8;
}

static __always_inline __u32 psn_add(__u32 psn, __u32 n)
{
	return (psn + n) & ESC_PSN_MASK;
}

/* PSNs that a READ of @bytes takes: one for each packet of its answer. */
static __always_inline __u32 read_psns(__u32 bytes, __u32 pmtu)
{
	return bytes ? (bytes - 1) / pmtu + 1 : 1;
}

static __always_inline void psn_resync(struct esc_qp *qp, struct esc_psn_stream *s)
{
	count(qp->psn_resyncs, 1);
	s->flags = ESC_PSN_VALID;
	s->off_run = 0;
	s->read_bytes = 0;
}

/* True when the packet, being away from `next`, shows that the sequence began anew. */
static __always_inline bool psn_is_elsewhere(struct esc_psn_stream *s, __u32 psn, __s32 ahead)
{
	if (ahead > ESC_PSN_RESYNC_DISTANCE || ahead < -ESC_PSN_RESYNC_DISTANCE)
		return true;
	s->off_run = psn == psn_add(s->last, 1) ? s->off_run + 1 : 1;
	return s->off_run >= ESC_PSN_RESYNC_RUN;
}

static __always_inline int psn_leave_behind(struct esc_qp *qp, enum esc_direction direction)
{
	if (direction == ESC_DIRECTION_RX)
		count(qp->duplicates, 1);
	else
		count(qp->retransmits, 1);
	return ESC_PSN_LEAVE;
}

static __always_inline int psn_jump(struct esc_qp *qp, struct esc_psn_stream *s, __s32 ahead)
{
	count(qp->psn_gaps, 1);
	count(qp->psn_missing, ahead);
	s->flags = ESC_PSN_VALID;
	return ESC_PSN_TAKE;
}

/*
 * What a READ request just before makes of the next PSN. Without a known path
 * MTU the number of its answers is one of five; the PSN of the request that
 * follows, or of a retry of its later part, tells which. With a path MTU that
 * was learned in that way, a fresh request inside the READ's range shows that
 * it was learned too small, behind a gap.
 *
 * @retry_bytes: RETH length when this packet is a READ request, else 0.
 * Returns the PSN that was to be expected.
 */
static __always_inline __u32 read_expect(struct esc_qp *qp, struct esc_psn_stream *s, __u32 psn,
					 __u32 retry_bytes)
{
	__u32 bytes = s->read_bytes, known = qp->pmtu;
	__u32 span = known ? read_psns(bytes, known) : 1;
	__u32 start = psn_add(s->next, -span);
	__s32 jump = psn_distance(psn, start);
	__u32 left = bytes - retry_bytes;
	__u32 fits = 0, fit = 0, partial = 0, below = 0, pmtu, n;

	if (jump <= 0 || (known && jump >= (__s32)span))
		return s->next;
#pragma unroll
	for (pmtu = ESC_PMTU_MIN; pmtu <= ESC_PMTU_MAX; pmtu *= 2) {
		n = read_psns(bytes, pmtu);
		if (n == (__u32)jump) {
			fits++;
			fit = pmtu;
		}
		if (n < (__u32)jump && n > below)
			below = n;
		if (retry_bytes && retry_bytes < bytes && left == (__u32)jump * pmtu)
			partial = pmtu;
	}
	if (known) {
		if (partial == known || fits != 1 || fit <= known)
			return s->next;
		qp->pmtu = fit;
		return psn;
	}
	if (fits) {
		if (fits == 1)
			qp->pmtu = fit;
		return psn;
	}
	if (partial) {
		qp->pmtu = partial;
		s->next = psn_add(start, read_psns(bytes, partial));
		return s->next;
	}
	return psn_add(start, below ? below : read_psns(bytes, ESC_PMTU_MAX));
}

/* A request whose PSN is not plainly the next. */
static __noinline int psn_judge_request(struct esc_qp *qp, __u32 psn, __u32 retry_bytes,
					enum esc_direction direction, bool waits)
{
	struct esc_psn_stream *s = &qp->requests;
	__u32 expected;
	__s32 ahead;

	if (!(s->flags & ESC_PSN_VALID)) {
		s->flags = ESC_PSN_VALID;
		return ESC_PSN_ANEW;
	}
	expected = s->read_bytes ? read_expect(qp, s, psn, retry_bytes) : s->next;
	ahead = psn_distance(psn, expected);
	if (ahead == 0) {
		s->flags &= ~ESC_PSN_GAP;
		return ESC_PSN_TAKE;
	}
	if (psn_is_elsewhere(s, psn, ahead)) {
		psn_resync(qp, s);
		return ESC_PSN_ANEW;
	}
	s->last = psn;
	if (ahead < 0)
		return psn_leave_behind(qp, direction);
	if (!waits)
		return psn_jump(qp, s, ahead);
	count(qp->out_of_sequence, 1);
	if (!(s->flags & ESC_PSN_GAP)) {
		s->flags |= ESC_PSN_GAP;
		count(qp->psn_gaps, 1);
		count(qp->psn_missing, ahead);
	}
	return ESC_PSN_AHEAD;
}

/* A READ response whose PSN is not the next. A FIRST or ONLY may follow any ACK. */
static __noinline int psn_judge_response(struct esc_qp *qp, __u32 psn, bool start,
					 enum esc_direction direction)
{
	struct esc_psn_stream *s = &qp->responses;
	__s32 ahead = psn_distance(psn, s->next);

	if (!(s->flags & ESC_PSN_VALID)) {
		s->flags = ESC_PSN_VALID;
		return ESC_PSN_ANEW;
	}
	if (psn_is_elsewhere(s, psn, ahead)) {
		psn_resync(qp, s);
		return ESC_PSN_ANEW;
	}
	s->last = psn;
	if (ahead < 0)
		return psn_leave_behind(qp, direction);
	return start ? ESC_PSN_TAKE : psn_jump(qp, s, ahead);
}

/* An ACK stands for all before it, so it only advances the sequence. */
static __noinline int psn_judge_ack(struct esc_qp *qp, __u32 psn)
{
	struct esc_psn_stream *s = &qp->responses;
	__s32 ahead = psn_distance(psn, s->next);

	if (!(s->flags & ESC_PSN_VALID)) {
		s->flags = ESC_PSN_VALID;
		return ESC_PSN_ANEW;
	}
	if (ahead > ESC_PSN_RESYNC_DISTANCE || ahead < -ESC_PSN_RESYNC_DISTANCE) {
		psn_resync(qp, s);
		return ESC_PSN_ANEW;
	}
	if (ahead < 0)
		return ESC_PSN_LEAVE;
	s->flags &= ~ESC_PSN_MESSAGE;
	return ESC_PSN_TAKE;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The two sequences of PSNs of one direction of a queue pair.
 *
 * The caller handles the packet that is next in order; all others are checked
 * here. PSN_IN_ORDER and PSN_RESYNC advance the sequence to the packet, the
 * other results leave it where it was.
 *
 * Requests at the receiver follow the RC responder (linux
 * drivers/infiniband/sw/rxe/rxe_resp.c, check_psn): it waits at a gap. A UC
 * responder does not wait, and neither does a sender's own sequence: it
 * continues behind the gap.
 */
#ifndef ESC_BPF_QP_PSN_H
#define ESC_BPF_QP_PSN_H

#include "lib/count.bpf.h"

enum psn_result {
	PSN_DUPLICATE, /* has passed before */
	PSN_IN_ORDER,
	PSN_RESYNC, /* begins a new sequence */
	PSN_AHEAD,  /* behind an open gap: the responder drops it */
};

#define psn_advances(result) ((result) == PSN_IN_ORDER || (result) == PSN_RESYNC)

/* A queue pair's window is far smaller: further away the number was reused. */
#define ESC_PSN_RESYNC_DISTANCE 65536
#define ESC_PSN_RESYNC_RUN 32768

#define ESC_PMTU_MIN 256
#define ESC_PMTU_MAX 4096

/* How far @psn is ahead of @next, modulo 2^24. */
static __always_inline __s32 psn_distance(__u32 psn, __u32 next)
{
	return (__s32)((psn - next) << 8) >> 8;
}

static __always_inline __u32 psn_add(__u32 psn, __u32 n)
{
	return (psn + n) & ESC_PSN_MASK;
}

/* PSNs that a READ of @bytes takes: one for each packet of its response. */
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

/* True when the packet, being away from `next`, shows that the sequence restarted. */
static __always_inline bool psn_is_restart(struct esc_psn_stream *s, __u32 psn, __s32 ahead)
{
	if (ahead > ESC_PSN_RESYNC_DISTANCE || ahead < -ESC_PSN_RESYNC_DISTANCE)
		return true;
	s->off_run = psn == psn_add(s->last, 1) ? s->off_run + 1 : 1;
	return s->off_run >= ESC_PSN_RESYNC_RUN;
}

static __always_inline int psn_count_duplicate(struct esc_qp *qp, enum esc_direction direction)
{
	if (direction == ESC_DIRECTION_RX)
		count(qp->duplicates, 1);
	else
		count(qp->retransmits, 1);
	return PSN_DUPLICATE;
}

static __always_inline int psn_count_gap(struct esc_qp *qp, struct esc_psn_stream *s, __s32 ahead)
{
	count(qp->psn_gaps, 1);
	count(qp->psn_missing, ahead);
	s->flags = ESC_PSN_VALID;
	return PSN_IN_ORDER;
}

/*
 * The next PSN behind a READ request. Without a known path MTU the number of its responses is one
 * of five; the PSN of the request that follows, or of a retry of its later part, shows which. If
 * a path MTU that was learned from these is too small, a new request inside the READ's range
 * shows it, behind a gap.
 *
 * @retry_bytes: RETH length when this packet is a READ request, else 0. Returns the expected PSN.
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

/* A request that is not plainly the next. @waits: the sequence stops at a gap. */
static __noinline int psn_check_request(struct esc_qp *qp, __u32 psn, __u32 retry_bytes,
					enum esc_direction direction, bool waits)
{
	struct esc_psn_stream *s = &qp->requests;
	__u32 expected;
	__s32 ahead;

	if (!(s->flags & ESC_PSN_VALID)) {
		s->flags = ESC_PSN_VALID;
		return PSN_RESYNC;
	}
	expected = s->read_bytes ? read_expect(qp, s, psn, retry_bytes) : s->next;
	ahead = psn_distance(psn, expected);
	if (ahead == 0) {
		s->flags &= ~ESC_PSN_GAP;
		return PSN_IN_ORDER;
	}
	if (psn_is_restart(s, psn, ahead)) {
		psn_resync(qp, s);
		return PSN_RESYNC;
	}
	s->last = psn;
	if (ahead < 0)
		return psn_count_duplicate(qp, direction);
	if (!waits)
		return psn_count_gap(qp, s, ahead);
	count(qp->out_of_sequence, 1);
	if (!(s->flags & ESC_PSN_GAP)) {
		s->flags |= ESC_PSN_GAP;
		count(qp->psn_gaps, 1);
		count(qp->psn_missing, ahead);
	}
	return PSN_AHEAD;
}

/* A READ response whose PSN is not the next. A FIRST or ONLY may follow any ACK. */
static __noinline int psn_check_response(struct esc_qp *qp, __u32 psn, bool start,
					 enum esc_direction direction)
{
	struct esc_psn_stream *s = &qp->responses;
	__s32 ahead = psn_distance(psn, s->next);

	if (!(s->flags & ESC_PSN_VALID)) {
		s->flags = ESC_PSN_VALID;
		return PSN_RESYNC;
	}
	if (psn_is_restart(s, psn, ahead)) {
		psn_resync(qp, s);
		return PSN_RESYNC;
	}
	s->last = psn;
	if (ahead < 0)
		return psn_count_duplicate(qp, direction);
	return start ? PSN_IN_ORDER : psn_count_gap(qp, s, ahead);
}

/* An ACK acknowledges all before it, so it only advances the sequence. */
static __noinline int psn_check_ack(struct esc_qp *qp, __u32 psn)
{
	struct esc_psn_stream *s = &qp->responses;
	__s32 ahead = psn_distance(psn, s->next);

	if (!(s->flags & ESC_PSN_VALID)) {
		s->flags = ESC_PSN_VALID;
		return PSN_RESYNC;
	}
	if (ahead > ESC_PSN_RESYNC_DISTANCE || ahead < -ESC_PSN_RESYNC_DISTANCE) {
		psn_resync(qp, s);
		return PSN_RESYNC;
	}
	if (ahead < 0)
		return PSN_DUPLICATE;
	s->flags &= ~ESC_PSN_MESSAGE;
	return PSN_IN_ORDER;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet's entry in `qps`. What several CPUs may count at once is added
 * atomically; the PSN state is plain (README.md has the race). The common
 * packet, next in order, runs straight through; the rest is out of line.
 */
#ifndef ESC_BPF_QP_H
#define ESC_BPF_QP_H

#include "qp/sample.bpf.h"

static const struct esc_qp qp_empty;

/* Index of the bucket: 0 for an empty message, n for 2^(n-1) .. 2^n - 1 bytes. */
static __always_inline __u32 message_bucket(__u32 bytes)
{
	__u32 n = 0;

	if (bytes >> 16) {
		n += 16;
		bytes >>= 16;
	}
	if (bytes >> 8) {
		n += 8;
		bytes >>= 8;
	}
	if (bytes >> 4) {
		n += 4;
		bytes >>= 4;
	}
	if (bytes >> 2) {
		n += 2;
		bytes >>= 2;
	}
	if (bytes >> 1) {
		n += 1;
		bytes >>= 1;
	}
	n += bytes;
	return n < ESC_MESSAGE_BUCKETS ? n : ESC_MESSAGE_BUCKETS - 1;
}

static __always_inline void message_count(struct esc_qp *qp, __u32 bytes)
{
	struct esc_message_bucket *bucket = &qp->message_sizes[message_bucket(bytes)];
	bool first = !qp->message_max && !qp->message_sizes[0].count;

	count(bucket->count, 1);
	count(bucket->bytes, bytes);
	if (first || bytes < qp->message_min)
		qp->message_min = bytes;
	if (bytes > qp->message_max)
		qp->message_max = bytes;
}

/* A packet in order of a SEND, a WRITE or a READ response. @timed: messages may be. */
static __always_inline void message_add(struct esc_qp *qp, struct esc_psn_stream *s,
					const struct esc_packet *p, bool timed,
					struct qp_found *found)
{
	__u32 bytes = p->payload_bytes;
	bool whole = true;

	if (!(p->flags & ESC_OP_START)) {
		bytes += s->message_bytes;
		whole = s->flags & ESC_PSN_MESSAGE;
	} else if (timed) {
		sample_begin_message(qp, p, found);
	}
	if (!(p->flags & ESC_OP_END)) {
		s->message_bytes = bytes;
		if (p->flags & ESC_OP_START)
			s->flags |= ESC_PSN_MESSAGE;
		return;
	}
	s->flags &= ~ESC_PSN_MESSAGE;
	if (timed)
		sample_end_message(qp, p, whole, bytes, found);
	/* A UC responder drops what it has not whole. */
	if (!whole && ESC_TRANSPORT(p->opcode) == ESC_TRANSPORT_UC)
		return;
	count(qp->messages, 1);
	if (whole)
		message_count(qp, bytes);
}

static __always_inline void pmtu_learn(struct esc_qp *qp, const struct esc_packet *p)
{
	__u32 bytes = p->payload_bytes;

	if (p->flags & ESC_OP_END || bytes == qp->pmtu)
		return;
	if (bytes >= ESC_PMTU_MIN && bytes <= ESC_PMTU_MAX && !(bytes & (bytes - 1)))
		qp->pmtu = bytes;
}

/* How the packet's PSN was judged: ESC_PSN_*. */
static __always_inline int qp_add_request(struct esc_qp *qp, const struct esc_packet *p,
					  enum esc_direction direction, bool timed,
					  struct qp_found *found)
{
	struct esc_psn_stream *s = &qp->requests;
	bool read = p->flags & ESC_OP_READ_REQUEST, waits;
	__u32 span = 1, read_bytes = 0;
	int judged = ESC_PSN_TAKE;

	if (unlikely(ESC_TRANSPORT(p->opcode) == ESC_TRANSPORT_UD)) {
		message_add(qp, s, p, false, found);
		return judged;
	}
	if (unlikely(p->psn != s->next || (s->read_bytes && !qp->pmtu) ||
		     (s->flags & (ESC_PSN_VALID | ESC_PSN_GAP)) != ESC_PSN_VALID)) {
		waits = direction == ESC_DIRECTION_RX &&
			ESC_TRANSPORT(p->opcode) != ESC_TRANSPORT_UC;
		judged = psn_judge_request(qp, p->psn, read ? p->read_bytes : 0, direction, waits);
		if (!psn_is_taken(judged))
			return judged;
	}
	if (unlikely(read)) {
		if (qp->pmtu)
			span = read_psns(p->read_bytes, qp->pmtu);
		if (p->read_bytes > ESC_PMTU_MIN)
			read_bytes = p->read_bytes;
	}
	s->next = psn_add(p->psn, span);
	s->last = p->psn;
	s->off_run = 0;
	s->read_bytes = read_bytes;
	if (p->flags & ESC_OP_PAYLOAD) {
		pmtu_learn(qp, p);
		message_add(qp, s, p, timed, found);
	}
	return judged;
}

static __noinline int qp_count_nak(struct esc_qp *qp, __u32 syndrome)
{
	if (ESC_AETH_KIND(syndrome) == ESC_AETH_RNR_NAK)
		count(qp->rnr_naks, 1);
	else if (ESC_AETH_KIND(syndrome) != ESC_AETH_NAK)
		count(qp->nak_other, 1);
	else if (ESC_NAK_CODE(syndrome) == ESC_NAK_SEQUENCE)
		count(qp->nak_sequence, 1);
	else if (ESC_NAK_CODE(syndrome) == ESC_NAK_INVALID_REQUEST)
		count(qp->nak_invalid_request, 1);
	else if (ESC_NAK_CODE(syndrome) == ESC_NAK_REMOTE_ACCESS)
		count(qp->nak_remote_access, 1);
	else if (ESC_NAK_CODE(syndrome) == ESC_NAK_REMOTE_OPERATIONAL)
		count(qp->nak_remote_operational, 1);
	else
		count(qp->nak_other, 1);
	return 0;
}

/* True for an ACK. */
static __always_inline bool qp_count_aeth(struct esc_qp *qp, __u32 aeth)
{
	__u32 syndrome = ESC_AETH_SYNDROME(aeth);

	if (likely(ESC_AETH_KIND(syndrome) == ESC_AETH_ACK)) {
		count(qp->acks, 1);
		return true;
	}
	qp_count_nak(qp, syndrome);
	return false;
}

static __always_inline int qp_add_response(struct esc_qp *qp, const struct esc_packet *p,
					   enum esc_direction direction, bool timed,
					   struct qp_found *found)
{
	struct esc_psn_stream *s = &qp->responses;
	bool read = p->flags & ESC_OP_PAYLOAD;
	int judged = ESC_PSN_TAKE;

	/* A NAK's PSN is the one waited for: it tells nothing of what was answered. */
	if (!read && !qp_count_aeth(qp, p->aeth))
		return judged;
	if (unlikely(p->psn != s->next || !(s->flags & ESC_PSN_VALID))) {
		judged = read ? psn_judge_response(qp, p->psn, p->flags & ESC_OP_START, direction)
			      : psn_judge_ack(qp, p->psn);
		if (!psn_is_taken(judged))
			return judged;
	}
	s->next = psn_add(p->psn, 1);
	s->last = p->psn;
	s->off_run = 0;
	if (read) {
		pmtu_learn(qp, p);
		message_add(qp, s, p, timed, found);
	}
	return judged;
}

/* The entry that was not there. Another CPU may have been first. */
static __noinline struct esc_qp *qp_insert(const struct esc_packet *p, __u32 sample_mask)
{
	long error = bpf_map_update_elem(&qps, &p->key, &qp_empty, BPF_NOEXIST);
	struct esc_qp *qp = bpf_map_lookup_elem(&qps, &p->key);

	if (qp && !error) {
		qp->first_local_ns = bpf_ktime_get_ns();
		qp->ip_version = p->ip_version;
		qp->port = p->key.port;
		qp->sample_mask = sample_mask & ESC_SAMPLE_MASK_MAX;
	}
	return qp;
}

static __always_inline void qp_count_common(struct esc_qp *qp, const struct esc_packet *p)
{
	count(qp->packets, 1);
	count(qp->bytes, p->bytes);
	if (p->payload_bytes)
		count(qp->payload_bytes, p->payload_bytes);
	if (unlikely(p->ecn)) {
		if (p->ecn == ESC_ECN_CE)
			count(qp->ce, 1);
		else
			count(qp->ect, 1);
	}
}

/* A CNP has no transport of its own, and its source port is the NIC's choice. */
static __always_inline void qp_note_path(struct esc_qp *qp, const struct esc_packet *p)
{
	qp->transport = ESC_TRANSPORT(p->opcode);
	if (likely(qp->sport == p->sport))
		return;
	if (qp->sport)
		count(qp->sport_changes, 1);
	qp->sport = p->sport;
}

/* What the PSN's judgement means for a sample. */
static __always_inline void qp_judge_sample(struct qp_found *found, const struct esc_packet *p,
					    const struct esc_control *word, int judged)
{
	if (unlikely(judged == ESC_PSN_LEAVE)) {
		found->what = p->flags & (ESC_OP_REQUEST | ESC_OP_PAYLOAD) ? FOUND_REPEATED : 0;
		return;
	}
	if (judged == ESC_PSN_ANEW)
		found->what |= FOUND_ANEW;
	if (found->what & FOUND_SAMPLED)
		sample_stamp(found->qp, p, word, found->now_ns);
}

/* Counts the packet to its entry, and says in @found what else is to be done with it. */
static __always_inline void qp_account(const struct esc_packet *p, const struct esc_control *word,
				       enum esc_direction direction, struct qp_found *found)
{
	struct esc_qp *qp = bpf_map_lookup_elem(&qps, &p->key);
	bool timed = word->flags & ESC_CONTROL_RECEIPTS;
	int judged;

	found->what = 0;
	found->now_ns = 0;
	found->qp = qp;
	if (unlikely(!qp)) {
		qp = found->qp = qp_insert(p, word->sample_mask);
		if (!qp) {
			found->what = FOUND_NO_ROOM;
			return;
		}
	}
	if (unlikely(sample_is_chosen(p, qp->sample_mask))) {
		found->now_ns = sample_time(p);
		found->what = FOUND_SAMPLED;
	}
	qp_count_common(qp, p);
	if (unlikely(p->flags & ESC_OP_CNP)) {
		count(qp->cnps, 1);
		return;
	}
	qp_note_path(qp, p);
	if (likely(p->flags & ESC_OP_REQUEST))
		judged = qp_add_request(qp, p, direction, timed, found);
	else
		judged = qp_add_response(qp, p, direction, timed, found);
	if (unlikely(found->what || judged != ESC_PSN_TAKE))
		qp_judge_sample(found, p, word, judged);
}

#endif

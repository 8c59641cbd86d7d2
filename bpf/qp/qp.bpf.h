/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The account stage: a packet's entry in `qps`. What several CPUs may count at
 * once is added atomically; the PSN state is plain (docs/dataplane.md has the race). The
 * common packet, next in order, runs straight through; the rest is out of line.
 */
#ifndef ESC_BPF_QP_QP_H
#define ESC_BPF_QP_QP_H

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

/* A packet in order of a SEND, a WRITE or a READ response. @timed: its message may be timed. */
static __always_inline void message_add(struct esc_psn_stream *s, struct pkt_ctx *pkt, bool timed)
{
	__u32 bytes = pkt->payload_bytes;
	struct esc_qp *qp = pkt->qp;
	bool whole = true;

	if (!(pkt->op_flags & ESC_OP_START)) {
		bytes += s->message_bytes;
		whole = s->flags & ESC_PSN_MESSAGE;
	} else if (timed) {
		sample_begin_message(qp, pkt);
	}
	if (!(pkt->op_flags & ESC_OP_END)) {
		s->message_bytes = bytes;
		if (pkt->op_flags & ESC_OP_START)
			s->flags |= ESC_PSN_MESSAGE;
		return;
	}
	s->flags &= ~ESC_PSN_MESSAGE;
	if (timed)
		sample_end_message(qp, pkt, whole, bytes);
	/* A UC responder drops a message with a gap. */
	if (!whole && ESC_TRANSPORT(pkt->opcode) == ESC_TRANSPORT_UC)
		return;
	count(qp->messages, 1);
	if (whole)
		message_count(qp, bytes);
}

static __always_inline void pmtu_learn(struct esc_qp *qp, const struct pkt_ctx *pkt)
{
	__u32 bytes = pkt->payload_bytes;

	if (pkt->op_flags & ESC_OP_END || bytes == qp->pmtu)
		return;
	if (bytes >= ESC_PMTU_MIN && bytes <= ESC_PMTU_MAX && !(bytes & (bytes - 1)))
		qp->pmtu = bytes;
}

static __always_inline int qp_add_request(struct pkt_ctx *pkt, enum esc_direction direction,
					  bool timed)
{
	bool read = pkt->op_flags & ESC_OP_READ_REQUEST, waits;
	struct esc_qp *qp = pkt->qp;
	struct esc_psn_stream *s = &qp->requests;
	__u32 span = 1, read_bytes = 0;
	int result = PSN_IN_ORDER;

	if (unlikely(ESC_TRANSPORT(pkt->opcode) == ESC_TRANSPORT_UD)) {
		message_add(s, pkt, false);
		return result;
	}
	if (unlikely(pkt->psn != s->next || (s->read_bytes && !qp->pmtu) ||
		     (s->flags & (ESC_PSN_VALID | ESC_PSN_GAP)) != ESC_PSN_VALID)) {
		waits = direction == ESC_DIRECTION_RX &&
			ESC_TRANSPORT(pkt->opcode) != ESC_TRANSPORT_UC;
		result = psn_check_request(qp, pkt->psn, read ? pkt->read_bytes : 0, direction,
					   waits);
		if (!psn_advances(result))
			return result;
	}
	if (unlikely(read)) {
		if (qp->pmtu)
			span = read_psns(pkt->read_bytes, qp->pmtu);
		if (pkt->read_bytes > ESC_PMTU_MIN)
			read_bytes = pkt->read_bytes;
	}
	s->next = psn_add(pkt->psn, span);
	s->last = pkt->psn;
	s->off_run = 0;
	s->read_bytes = read_bytes;
	s->flags &= ~ESC_PSN_ASKED;
	if (pkt->op_flags & (ESC_OP_ACK_REQUEST | ESC_OP_READ_REQUEST | ESC_OP_ATOMIC))
		s->flags |= ESC_PSN_ASKED;
	if (pkt->op_flags & ESC_OP_PAYLOAD) {
		pmtu_learn(qp, pkt);
		message_add(s, pkt, timed);
	}
	return result;
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

static __always_inline int qp_add_response(struct pkt_ctx *pkt, enum esc_direction direction,
					   bool timed)
{
	bool read = pkt->op_flags & ESC_OP_PAYLOAD;
	struct esc_qp *qp = pkt->qp;
	struct esc_psn_stream *s = &qp->responses;
	int result = PSN_IN_ORDER;

	/* A NAK's PSN is the one expected: it does not show what was acknowledged. */
	if (!read && !qp_count_aeth(qp, pkt->aeth))
		return result;
	if (unlikely(pkt->psn != s->next || !(s->flags & ESC_PSN_VALID))) {
		result = read ? psn_check_response(qp, pkt->psn, pkt->op_flags & ESC_OP_START,
						   direction)
			      : psn_check_ack(qp, pkt->psn);
		if (!psn_advances(result))
			return result;
	}
	s->next = psn_add(pkt->psn, 1);
	s->last = pkt->psn;
	s->off_run = 0;
	if (read) {
		pmtu_learn(qp, pkt);
		message_add(s, pkt, timed);
	}
	return result;
}

/* With a member list, a sender that is not in it. */
static __noinline bool qp_is_unknown(const struct esc_qp_key *key)
{
	__u32 zero = 0;
	const struct esc_fleet *f = bpf_map_lookup_elem(&fleet, &zero);

	return f && f->self && !bpf_map_lookup_elem(&peer_addresses, &key->src);
}

/* include/linux/socket.h, include/linux/net.h */
#define QP_AF_PACKET 17
#define QP_SOCK_RAW 3

/*
 * Not of an RDMA device of this host: forwarded, or of a socket that a process has. Soft-RoCE sends
 * by a UDP socket of the kernel that is never bound (drivers/infiniband/sw/rxe/rxe_qp.c); a process
 * cannot send by one without a port.
 */
static __always_inline bool qp_is_foreign(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (skb->ingress_ifindex)
		return true;
	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	return sk && (sk->family == QP_AF_PACKET || sk->type == QP_SOCK_RAW || sk->src_port);
}

/*
 * True when a queue pair of this host's RDMA devices has the packet's number, or when these are
 * not known: without the daemon they are not traced.
 */
static __noinline bool qp_may_be_local(const struct esc_qp_room *room, const struct pkt_ctx *pkt)
{
	struct esc_owner_key key = {.qpn = pkt->key.dest_qpn};
	__u64 now_ns = bpf_ktime_get_ns();

	if (!room->device_count ||
	    (__s64)(now_ns - pkt->ctl->heartbeat_local_ns) >= (__s64)ESC_PROBE_HEARTBEAT_TIMEOUT_NS)
		return true;
	for (__u32 i = 0; i < ESC_QP_ROOM_DEVICES && i < room->device_count; i++) {
		key.device = room->devices[i];
		if (bpf_map_lookup_elem(&qp_owners, &key))
			return true;
	}
	return false;
}

/* Why there is no room for the queue pair, or 0. */
static __always_inline int qp_check_room(const struct esc_qp_room *room, bool rx, bool unknown,
					 const struct pkt_ctx *pkt)
{
	if (unknown && !rx)
		return room->foreign_max && room->foreign >= room->foreign_max
			       ? ESC_REASON_QP_FOREIGN
			       : ESC_REASON_NONE;
	if (unknown && room->unknown_max && room->unknown >= room->unknown_max)
		return ESC_REASON_QP_UNKNOWN_HOST;
	if (!rx || !room->rx_max || room->rx < room->rx_max - room->rx_max / 4)
		return ESC_REASON_NONE;
	return room->rx >= room->rx_max || !qp_may_be_local(room, pkt) ? ESC_REASON_QP_TABLE_FULL
								       : ESC_REASON_NONE;
}

static __always_inline void qp_count_room(struct esc_qp_room *room, bool rx, bool unknown)
{
	if (rx)
		count(room->rx, 1);
	if (rx && unknown)
		count(room->unknown, 1);
	else if (unknown)
		count(room->foreign, 1);
}

/*
 * A new entry in @pkt, or the reason why there is none. Another CPU may have been first. @sent: the
 * packet at tc egress, else NULL.
 */
static __noinline int qp_insert(struct pkt_ctx *pkt, __u32 sample_mask, struct __sk_buff *sent)
{
	bool unknown = sent ? qp_is_foreign(sent) : qp_is_unknown(&pkt->key);
	__u32 zero = 0;
	struct esc_qp_room *room = bpf_map_lookup_elem(&qp_room, &zero);
	int result = room ? qp_check_room(room, !sent, unknown, pkt) : ESC_REASON_NONE;
	struct esc_qp *qp;
	long error;

	if (result)
		return result;
	error = bpf_map_update_elem(&qps, &pkt->key, &qp_empty, BPF_NOEXIST);
	qp = bpf_map_lookup_elem(&qps, &pkt->key);
	if (!qp)
		return ESC_REASON_QP_TABLE_FULL;
	if (!error) {
		if (room)
			qp_count_room(room, !sent, unknown);
		qp->unknown = unknown;
		qp->first_local_ns = bpf_ktime_get_ns();
		qp->ip_version = pkt->ip_version;
		qp->port = pkt->key.port;
		qp->sample_mask = sample_mask & ESC_SAMPLE_MASK_MAX;
	}
	pkt->qp = qp;
	return ESC_REASON_NONE;
}

static __always_inline void qp_count_packet(struct esc_qp *qp, const struct pkt_ctx *pkt)
{
	count(qp->packets, 1);
	count(qp->bytes, pkt->bytes);
	if (pkt->payload_bytes)
		count(qp->payload_bytes, pkt->payload_bytes);
	if (unlikely(pkt->ecn)) {
		if (pkt->ecn == INET_ECN_CE)
			count(qp->ce, 1);
		else
			count(qp->ect, 1);
	}
}

/* Not of a CNP: it has no transport of its own, and the NIC chooses its source port. */
static __always_inline void qp_update_path(struct esc_qp *qp, const struct pkt_ctx *pkt)
{
	qp->transport = ESC_TRANSPORT(pkt->opcode);
	if (likely(qp->sport == pkt->sport))
		return;
	if (qp->sport)
		count(qp->sport_changes, 1);
	qp->sport = pkt->sport;
}

/* @result: of the packet's PSN. */
static __always_inline void qp_update_sample(struct pkt_ctx *pkt, int result)
{
	if (unlikely(result == PSN_DUPLICATE)) {
		pkt->flags = pkt->op_flags & (ESC_OP_REQUEST | ESC_OP_PAYLOAD) ? PKT_DUPLICATE : 0;
		return;
	}
	if (result == PSN_RESYNC)
		pkt->flags |= PKT_RESYNC;
	if (pkt->flags & PKT_SAMPLED)
		sample_update(pkt);
}

/* With the key complete: fills in the entry and what later stages have to do. */
static __always_inline int qp_account(struct pkt_ctx *pkt, enum esc_direction direction,
				      struct __sk_buff *sent)
{
	struct esc_qp *qp = bpf_map_lookup_elem(&qps, &pkt->key);
	bool timed = pkt->ctl->flags & ESC_CONTROL_RECEIPTS;
	int result;

	pkt->flags = 0;
	pkt->now_ns = 0;
	if (unlikely(!qp)) {
		result = qp_insert(pkt, pkt->ctl->sample_mask, sent);
		if (result)
			return result;
		qp = pkt->qp;
	}
	pkt->qp = qp;
	if (unlikely(sample_is_selected(pkt, qp->sample_mask))) {
		pkt->now_ns = sample_time(pkt);
		pkt->flags = PKT_SAMPLED;
	}
	qp_count_packet(qp, pkt);
	if (unlikely(pkt->op_flags & ESC_OP_CNP)) {
		count(qp->cnps, 1);
		return ESC_REASON_NONE;
	}
	qp_update_path(qp, pkt);
	if (likely(pkt->op_flags & ESC_OP_REQUEST))
		result = qp_add_request(pkt, direction, timed);
	else
		result = qp_add_response(pkt, direction, timed);
	if (unlikely(pkt->flags || result != PSN_IN_ORDER))
		qp_update_sample(pkt, result);
	return ESC_REASON_NONE;
}

/* Counts a RoCEv2 packet to its interface and its queue pair. @sent: it at tc egress, else NULL. */
static __always_inline int account_packet(struct pkt_ctx *pkt, enum esc_hook hook,
					  struct __sk_buff *sent)
{
	packet_set_key(pkt, hook_direction(hook), esc_port_index);
	port_count(pkt, hook_direction(hook));
	return qp_account(pkt, hook_direction(hook), sent);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sample stage of tc egress: a tx timestamp record of each sampled packet, kept until its
 * receipt arrives. A record is used once, and by one PSN only: a packet that is retransmitted
 * leaves none (Karn and Partridge, 1987).
 */
#ifndef ESC_BPF_RECEIPT_TX_RECORD_H
#define ESC_BPF_RECEIPT_TX_RECORD_H

#include "receipt/host_queue.bpf.h"

/* A record overwritten before this age shows that receipts arrive later than the ring wraps. */
#define TX_RECORD_YOUNG_NS 1000000000ll

static const struct esc_qp_sent sent_empty;
static const struct esc_qp_owd owd_empty;

/* The PSN and its sequence. */
static __always_inline __u32 tx_record_key(const struct pkt_ctx *pkt)
{
	return pkt->psn | (pkt->op_flags & ESC_OP_REQUEST ? 0 : ESC_TX_RECORD_RESPONSE);
}

/* NULL: the tables are full. Another CPU may have been first. */
static __noinline struct esc_qp_sent *tx_record_insert(const struct esc_qp_key *key)
{
	if (!bpf_map_lookup_elem(&qp_owd, key))
		bpf_map_update_elem(&qp_owd, key, &owd_empty, BPF_NOEXIST);
	bpf_map_update_elem(&qp_sent, key, &sent_empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&qp_sent, key);
}

/* True when a record that still waits for its receipt may be overwritten. */
static __always_inline bool tx_record_expire(const struct pkt_ctx *pkt, struct esc_qp_owd *owd,
					     const struct esc_tx_record *record)
{
	__u64 now_ns = pkt->now_ns;
	bool young = (__s64)(now_ns - record->tx_ktime_ns) < TX_RECORD_YOUNG_NS;

	if (young && !(pkt->flags & PKT_SAMPLED))
		return false;
	count(owd->samples_expired, 1);
	if (young && !(pkt->ctl->flags & ESC_CONTROL_SAMPLE_FIXED) &&
	    !(record->psn & pkt->qp->sample_mask)) {
		sample_halve_rate(pkt->qp);
		pkt->qp->sample_slow = now_ns >> SAMPLE_SLOW_SHIFT ?: 1;
	}
	return true;
}

static __always_inline void tx_record_fill(struct esc_tx_record *record, const struct pkt_ctx *pkt)
{
	struct esc_fabric_time time, start;
	__u32 key = tx_record_key(pkt);

	record->message_bytes = 0;
	record->queue_ns = 0;
	if (esc_fabric_at(esc_local_at(pkt->now_ns), &time)) {
		record->tx_fabric_ns = time.fabric_ns;
		record->tx_bound_ns = saturate_ns(time.bound_ns);
		if ((pkt->flags & PKT_MESSAGE) &&
		    esc_fabric_at(esc_local_at(pkt->qp->message_start_local_ns), &start)) {
			record->start_fabric_ns = start.fabric_ns;
			record->message_bytes = pkt->message_bytes;
		}
	} else {
		key |= ESC_TX_RECORD_UNTIMED;
	}
	if (pkt->flags & PKT_PACED) {
		record->mark = *pkt->mark;
		key |= ESC_TX_RECORD_PACED;
	}
	record->psn = key;
	smp_wmb();
	*(volatile __u64 *)&record->tx_ktime_ns = pkt->now_ns;
}

static __noinline int tx_record_add(const struct pkt_ctx *pkt)
{
	struct esc_qp_sent *sent = bpf_map_lookup_elem(&qp_sent, &pkt->key);
	struct esc_tx_record *record;
	struct esc_qp_owd *owd;

	if (!pkt->qp || !receipt_peer_of(pkt->qp, &pkt->key.dst, bpf_ktime_get_ns()))
		return ESC_REASON_NONE;
	if (!sent)
		sent = tx_record_insert(&pkt->key);
	owd = bpf_map_lookup_elem(&qp_owd, &pkt->key);
	if (!sent || !owd)
		return ESC_REASON_OWD_TABLE_FULL;
	record = &sent->records[ESC_TX_RECORD_INDEX(pkt->psn)];
	if (record->tx_ktime_ns) {
		if ((record->psn & ESC_TX_RECORD_ID) == tx_record_key(pkt)) {
			record->tx_ktime_ns = 0;
			count(owd->samples_discarded, 1);
			return ESC_REASON_NONE;
		}
		if (!tx_record_expire(pkt, owd, record))
			return ESC_REASON_NONE;
	}
	*(volatile __u64 *)&record->tx_ktime_ns = 0;
	smp_wmb();
	tx_record_fill(record, pkt);
	host_queue_add(pkt, ESC_TX_RECORD_INDEX(pkt->psn), pkt->now_ns);
	count(owd->samples_sent, 1);
	return ESC_REASON_NONE;
}

/* A retransmission: a receipt would not show which of the two it is for. */
static __noinline int tx_record_discard(const struct pkt_ctx *pkt)
{
	struct esc_qp_sent *sent = bpf_map_lookup_elem(&qp_sent, &pkt->key);
	struct esc_tx_record *record;
	struct esc_qp_owd *owd;

	if (!sent)
		return ESC_REASON_NONE;
	record = &sent->records[ESC_TX_RECORD_INDEX(pkt->psn)];
	if (!record->tx_ktime_ns || (record->psn & ESC_TX_RECORD_ID) != tx_record_key(pkt))
		return ESC_REASON_NONE;
	record->tx_ktime_ns = 0;
	owd = bpf_map_lookup_elem(&qp_owd, &pkt->key);
	if (owd)
		count(owd->samples_discarded, 1);
	return ESC_REASON_NONE;
}

/* Behind the account stage. */
static __always_inline int sample_packet(const struct pkt_ctx *pkt)
{
	if (likely(!pkt->flags) || !(pkt->ctl->flags & ESC_CONTROL_RECEIPTS))
		return ESC_REASON_NONE;
	if (pkt->flags & PKT_DUPLICATE)
		return tx_record_discard(pkt);
	if (pkt->flags & (PKT_SAMPLED | PKT_MESSAGE))
		return tx_record_add(pkt);
	return ESC_REASON_NONE;
}

#endif

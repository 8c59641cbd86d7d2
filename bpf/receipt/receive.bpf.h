/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receipts received by the sender. As with probes the cheap checks come first, a forged one costs
 * at most one SipHash, and nothing is written before the tag is verified. The order of the checks
 * defines the reasons.
 */
#ifndef ESC_BPF_RECEIPT_RECEIVE_H
#define ESC_BPF_RECEIPT_RECEIVE_H

#include "pace/feedback.bpf.h"
#include "probe/verify.bpf.h"
#include "receipt/owd.bpf.h"

/* A later receipt is for another packet of the same PSN, or of no use. */
#define RECEIPT_AGE_MAX_NS 2000000000ll

/* From the UDP header to the tag, with the receipt where its fields are aligned. */
struct receipt_message {
	__u32 pad;
	struct udphdr udp;
	struct esc_bth bth;
	struct esc_receipt receipt;
};
#define RECEIPT_MESSAGE_BYTES                                                                      \
	(sizeof(struct receipt_message) - __builtin_offsetof(struct receipt_message, udp))
_Static_assert(__builtin_offsetof(struct receipt_message, receipt) ==
		       __builtin_offsetof(struct receipt_message, bth) + sizeof(struct esc_bth),
	       "the receipt follows its BTH");

static __always_inline bool receipt_tag_is_valid(const struct receipt_message *m,
						 const struct esc_fleet *own,
						 const struct esc_peer *peer)
{
	const struct esc_receipt *r = &m->receipt;
	__u64 key[2] = {};

	if (!(own->flags & PROBE_KEYS))
		return !r->tag;
	return probe_key(own, peer, r->min_version, r->flags & ESC_RECEIPT_KEY, key) &&
	       r->tag == receipt_tag(key, &m->bth);
}

/* @from: the packet's source. */
static __always_inline int receipt_verify(const struct receipt_message *m,
					  const struct esc_address *from,
					  const struct esc_control *ctl)
{
	const struct esc_fleet *own = probe_fleet();
	const struct esc_receipt *r = &m->receipt;
	struct esc_peer_address *entry;
	struct esc_peer *peer;

	if (!probe_reads(r->min_version))
		return ESC_REASON_PROBE_VERSION;
	if (!own || !(ctl->flags & ESC_CONTROL_RECEIPTS))
		return ESC_REASON_PROBE_OFF;
	peer = probe_peer(bpf_be64_to_cpu(r->sender));
	entry = bpf_map_lookup_elem(&peer_addresses, from);
	if (!peer || !entry || entry->id != bpf_be64_to_cpu(r->sender) ||
	    !(r->flags & ESC_RECEIPT_PLANE) != !esc_plane)
		return ESC_REASON_PROBE_UNKNOWN_PEER;
	if (r->target != bpf_cpu_to_be64(own->self))
		return ESC_REASON_PROBE_NOT_OURS;
	if (!receipt_tag_is_valid(m, own, peer))
		return ESC_REASON_PROBE_BAD_TAG;
	return probe_epoch_is_stale(peer, bpf_be64_to_cpu(r->epoch)) ? ESC_REASON_PROBE_STALE_EPOCH
								     : ESC_REASON_NONE;
}

/* True when the receipt is for the packet of @record, which left at @tx_ns. */
static __always_inline bool receipt_is_for(const struct esc_receipt *r,
					   const struct esc_tx_record *record, __u64 tx_ns,
					   __u64 now_ns)
{
	__u32 key = (bpf_ntohl(r->psn) & ESC_PSN_MASK) |
		    (r->flags & ESC_RECEIPT_RESPONSE ? ESC_TX_RECORD_RESPONSE : 0);

	return tx_ns && (record->psn & ESC_TX_RECORD_ID) == key &&
	       (__s64)(now_ns - tx_ns) <= RECEIPT_AGE_MAX_NS;
}

static __always_inline void receipt_measure(const struct esc_receipt *r,
					    const struct esc_tx_record *record,
					    struct owd_sample *s)
{
	__s64 rx_fabric_ns = bpf_be64_to_cpu(r->rx_fabric_ns);
	__u64 tx_ns = s->departure_ns, now_ns = s->now_ktime_ns;

	s->feedback_ns = (__s64)(now_ns - tx_ns) > 0 ? now_ns - tx_ns : 0;
	s->psn = record->psn & ESC_PSN_MASK;
	s->stack_ns = bpf_ntohl(r->stack_ns);
	s->queue_ns = record->queue_ns;
	s->ce = r->flags & ESC_RECEIPT_CE;
	s->timed = (r->flags & ESC_RECEIPT_TIMED) && !(record->psn & ESC_TX_RECORD_UNTIMED);
	s->delay_ns = rx_fabric_ns - record->tx_fabric_ns;
	s->bound_ns = saturate_ns((__u64)bpf_ntohl(r->rx_bound_ns) + record->tx_bound_ns);
	s->message_bytes = r->flags & ESC_RECEIPT_MESSAGE ? record->message_bytes : 0;
	s->message_delay_ns = rx_fabric_ns - record->start_fabric_ns;
	s->message_spread_ns = bpf_ntohl(r->message_ns);
}

/*
 * @key: of our packets that the receipt acknowledges. The record is read and then claimed: a
 * CPU that finds it changed meanwhile has read another one.
 */
static __noinline int receipt_match(const struct esc_receipt *r, const struct esc_qp_key *key,
				    __u32 threshold_ns)
{
	struct esc_qp_sent *sent = bpf_map_lookup_elem(&qp_sent, key);
	struct esc_qp_owd *owd = bpf_map_lookup_elem(&qp_owd, key);
	struct owd_sample sample;
	struct esc_tx_record *record;

	if (!sent || !owd)
		return ESC_REASON_RECEIPT_UNMATCHED;
	record = &sent->records[ESC_TX_RECORD_INDEX(bpf_ntohl(r->psn) & ESC_PSN_MASK)];
	sample.now_ktime_ns = bpf_ktime_get_ns();
	sample.departure_ns = *(volatile __u64 *)&record->tx_ktime_ns;
	smp_rmb();
	if (!receipt_is_for(r, record, sample.departure_ns, sample.now_ktime_ns))
		return ESC_REASON_RECEIPT_UNMATCHED;
	receipt_measure(r, record, &sample);
	if (unlikely(record->psn & ESC_TX_RECORD_PACED))
		pace_save_sample(record, &sample);
	/* It orders the loads above as well, since it stores only where it succeeds. */
	if (__sync_val_compare_and_swap(&record->tx_ktime_ns, sample.departure_ns, 0) !=
	    sample.departure_ns)
		return ESC_REASON_RECEIPT_UNMATCHED;
	owd_add(owd, &sample, threshold_ns);
	return ESC_REASON_NONE;
}

/* The key of our packets: the reverse of the receipt's. */
static __always_inline void receipt_set_key(struct pkt_ctx *pkt, const struct esc_receipt *r)
{
	struct esc_address src = pkt->key.src;

	pkt->key.src = pkt->key.dst;
	pkt->key.dst = src;
	pkt->dest_qpn = bpf_ntohl(r->dest_qpn) & ESC_QPN_MASK;
	packet_set_key(pkt, ESC_DIRECTION_TX, esc_port_index);
}

static __always_inline int receipt_receive(struct receipt_message *m, struct pkt_ctx *pkt)
{
	int result;

	if (m->udp.len != bpf_htons(RECEIPT_UDP_BYTES))
		return bpf_ntohs(m->udp.len) < RECEIPT_UDP_BYTES ? ESC_REASON_PROBE_SHORT
								 : ESC_REASON_PROBE_VERSION;
	result = receipt_verify(m, &pkt->key.src, pkt->ctl);
	if (result)
		return result;
	receipt_set_key(pkt, &m->receipt);
	result = receipt_match(&m->receipt, &pkt->key, pkt->ctl->delay_threshold_ns);
	if (unlikely(pkt->ctl->flags & ESC_CONTROL_PACE))
		pace_feedback(&pkt->key, !result);
	return result;
}

#endif

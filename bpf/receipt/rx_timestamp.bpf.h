/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rx timestamp of a sampled packet, handed from XDP to tc ingress through a
 * table. A slot is claimed, filled and given its id; the CPU that finds the id and
 * clears it owns the timestamp. A timestamp whose packet never reaches tc ingress
 * is swept by lookups that miss.
 */
#ifndef ESC_BPF_RECEIPT_RX_TIMESTAMP_H
#define ESC_BPF_RECEIPT_RX_TIMESTAMP_H

#include "receipt/receipt.bpf.h"

#define RX_TIMESTAMP_STALE_NS 10000000ll
#define RX_TIMESTAMP_MISSES 16 /* for one slot that is swept */

static __always_inline struct esc_rx_timestamps *rx_timestamps_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&rx_timestamps, &zero);
}

static __always_inline struct esc_rx_slot *rx_timestamp_slot(struct esc_rx_timestamps *table,
							     __u64 id)
{
	return &table->slots[id % ESC_RX_SLOTS];
}

/* True when the slot's id was @id and is now @to. */
static __always_inline bool rx_timestamp_change(struct esc_rx_slot *slot, __u64 id, __u64 to)
{
	return __sync_val_compare_and_swap(&slot->id, id, to) == id;
}

/* Behind a load of the slot's id. */
static __always_inline bool rx_timestamp_is_stale(const struct esc_rx_slot *slot, __u64 now_ns)
{
	smp_rmb();
	return (__s64)(now_ns - slot->rx_ktime_ns) > RX_TIMESTAMP_STALE_NS;
}

/* One slot after the other, so that tc ingress does not search for ever for a lost packet. */
static __always_inline void rx_timestamp_sweep(struct esc_rx_timestamps *table, __u32 index,
					       __u64 now_ns)
{
	struct esc_rx_slot *slot = &table->slots[index % ESC_RX_SLOTS];
	__u64 id = slot->id;

	if (id > ESC_RX_SLOT_BUSY && rx_timestamp_is_stale(slot, now_ns) &&
	    rx_timestamp_change(slot, id, ESC_RX_SLOT_FREE))
		count(table->pending, -1);
}

/* ESC_REASON_RECEIPT_TIMESTAMP: the slot is another packet's. */
static __always_inline int rx_timestamp_put(const struct pkt_ctx *pkt)
{
	struct esc_rx_timestamps *table = rx_timestamps_get();
	__u64 id = packet_hash(pkt), old;
	struct esc_rx_slot *slot;

	if (!table)
		return ESC_REASON_RECEIPT_TIMESTAMP;
	slot = rx_timestamp_slot(table, id);
	old = slot->id;
	if (old == ESC_RX_SLOT_BUSY ||
	    (old != ESC_RX_SLOT_FREE && !rx_timestamp_is_stale(slot, pkt->now_ns)))
		return ESC_REASON_RECEIPT_TIMESTAMP;
	if (!rx_timestamp_change(slot, old, ESC_RX_SLOT_BUSY))
		return ESC_REASON_RECEIPT_TIMESTAMP;
	slot->rx_ktime_ns = pkt->now_ns;
	slot->flags = pkt->receipt_flags;
	slot->message_ns = pkt->message_ns;
	if (old == ESC_RX_SLOT_FREE)
		count(table->pending, 1);
	rx_timestamp_change(slot, ESC_RX_SLOT_BUSY, id);
	return ESC_REASON_NONE;
}

/* PKT_DONE: XDP left no timestamp for the packet. */
static __always_inline int rx_timestamp_take(struct pkt_ctx *pkt)
{
	struct esc_rx_timestamps *table = rx_timestamps_get();
	__u64 id = packet_hash(pkt);
	struct esc_rx_slot *slot;
	__u32 misses;

	if (!table)
		return PKT_DONE;
	slot = rx_timestamp_slot(table, id);
	if (slot->id != id) {
		misses = ++table->misses;
		if (!(misses % RX_TIMESTAMP_MISSES))
			rx_timestamp_sweep(table, misses / RX_TIMESTAMP_MISSES, bpf_ktime_get_ns());
		return PKT_DONE;
	}
	smp_rmb();
	pkt->now_ns = slot->rx_ktime_ns;
	pkt->receipt_flags = slot->flags;
	pkt->message_ns = slot->message_ns;
	if (!rx_timestamp_change(slot, id, ESC_RX_SLOT_FREE))
		return PKT_DONE;
	count(table->pending, -1);
	return ESC_REASON_NONE;
}

/*
 * Behind the account stage. PKT_DONE: no receipt is due. Nothing confirms the PSN of a packet
 * that begins a sequence.
 */
static __always_inline int rx_timestamp_make(struct pkt_ctx *pkt)
{
	if (likely(!(pkt->flags & (PKT_SAMPLED | PKT_MESSAGE))) ||
	    !(pkt->ctl->flags & ESC_CONTROL_RECEIPTS) || (pkt->flags & PKT_RESYNC) ||
	    !receipt_has_daemon(pkt->ctl, pkt->now_ns) ||
	    !receipt_peer_of(pkt->qp, &pkt->key.src, pkt->now_ns))
		return PKT_DONE;
	pkt->receipt_flags = (pkt->op_flags & ESC_OP_REQUEST ? 0 : ESC_RECEIPT_RESPONSE) |
			     (pkt->ecn == INET_ECN_CE ? ESC_RECEIPT_CE : 0);
	pkt->message_ns = 0;
	if (pkt->flags & PKT_MESSAGE) {
		pkt->receipt_flags |= ESC_RECEIPT_MESSAGE;
		pkt->message_ns = saturate_ns(pkt->now_ns - pkt->qp->message_start_local_ns);
	}
	return ESC_REASON_NONE;
}

#endif

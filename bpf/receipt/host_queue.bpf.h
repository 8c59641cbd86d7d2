/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Time of sampled packets in the qdisc. The table is as that of rx_timestamp.bpf.h: a slot is
 * claimed, filled and given its id, and the CPU that clears the id owns it.
 */
#ifndef ESC_BPF_RECEIPT_HOST_QUEUE_H
#define ESC_BPF_RECEIPT_HOST_QUEUE_H

#include "receipt/receipt.bpf.h"

/* A packet that the qdisc dropped never leaves; none waits there for longer. */
#define HOST_QUEUE_STALE_NS 1000000000ll
#define HOST_QUEUE_MISSES 16 /* for one slot that is swept */

static __always_inline struct esc_host_queue *host_queue_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&host_queue, &zero);
}

static __always_inline struct esc_host_slot *host_queue_slot(struct esc_host_queue *table,
							     const struct pkt_ctx *pkt)
{
	__u32 block = (packet_flow_hash(pkt) >> 40) % (ESC_HOST_SLOTS / ESC_TX_RECORDS);

	__u32 index = block * ESC_TX_RECORDS + ESC_TX_RECORD_INDEX(pkt->psn);

	barrier_var(index);
	/* Linux 6.1's verifier knows no bound of an OR of 32 bits. */
	return &table->slots[index % ESC_HOST_SLOTS];
}

static __always_inline bool host_queue_change(struct esc_host_slot *slot, __u64 id, __u64 to)
{
	return __sync_val_compare_and_swap(&slot->id, id, to) == id;
}

/* Behind a load of the slot's id. */
static __always_inline bool host_queue_is_stale(const struct esc_host_slot *slot, __u64 now_ns)
{
	smp_rmb();
	return (__s64)(now_ns - slot->tx_ktime_ns) > HOST_QUEUE_STALE_NS;
}

/* The packet has the record at @index of its ring. */
static __always_inline void host_queue_add(const struct pkt_ctx *pkt, __u32 index,
					   __u64 tx_ktime_ns)
{
	struct esc_host_queue *table = host_queue_get();
	struct esc_host_slot *slot;
	__u64 id, old;

	if (!table || likely(!table->on))
		return;
	id = packet_hash(pkt);
	slot = host_queue_slot(table, pkt);
	old = slot->id;
	if (old == ESC_RX_SLOT_BUSY ||
	    (old != ESC_RX_SLOT_FREE && !host_queue_is_stale(slot, tx_ktime_ns)))
		return;
	if (!host_queue_change(slot, old, ESC_RX_SLOT_BUSY))
		return;
	slot->tx_ktime_ns = tx_ktime_ns;
	slot->key = pkt->key;
	slot->index = index;
	if (old == ESC_RX_SLOT_FREE)
		count(table->pending, 1);
	host_queue_change(slot, ESC_RX_SLOT_BUSY, id);
}

static __always_inline void host_queue_sweep(struct esc_host_queue *table, __u32 index,
					     __u64 now_ns)
{
	struct esc_host_slot *slot = &table->slots[index % ESC_HOST_SLOTS];
	__u64 id = slot->id;

	if (id > ESC_RX_SLOT_BUSY && host_queue_is_stale(slot, now_ns) &&
	    host_queue_change(slot, id, ESC_RX_SLOT_FREE))
		count(table->pending, -1);
}

/* The packet leaves the qdisc: its record gets the time that it waited there. */
static __always_inline void host_queue_leave(struct esc_host_queue *table,
					     const struct pkt_ctx *pkt, __u64 now_ns)
{
	__u64 id = packet_hash(pkt);
	struct esc_host_slot *slot = host_queue_slot(table, pkt), found;
	struct esc_tx_record *record;
	struct esc_qp_sent *sent;
	__u32 misses;

	if (slot->id != id) {
		misses = ++table->misses;
		if (!(misses % HOST_QUEUE_MISSES))
			host_queue_sweep(table, misses / HOST_QUEUE_MISSES, now_ns);
		return;
	}
	smp_rmb();
	found = *slot;
	if (!host_queue_change(slot, id, ESC_RX_SLOT_FREE))
		return;
	count(table->pending, -1);
	sent = bpf_map_lookup_elem(&qp_sent, &found.key);
	if (!sent)
		return;
	record = &sent->records[found.index % ESC_TX_RECORDS];
	if (record->tx_ktime_ns == found.tx_ktime_ns && (__s64)(now_ns - found.tx_ktime_ns) > 0)
		record->queue_ns = saturate_ns(now_ns - found.tx_ktime_ns);
}

#endif

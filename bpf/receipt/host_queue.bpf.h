/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A noted packet on its way through the qdisc. The table is as rx_timestamp.bpf.h's:
 * a slot is claimed, filled and named, and whoever clears the name has it.
 */
#ifndef ESC_BPF_RECEIPT_HOST_QUEUE_H
#define ESC_BPF_RECEIPT_HOST_QUEUE_H

#include "receipt/receipt.bpf.h"

/* What the qdisc dropped never comes out; nothing waits there for longer. */
#define HOSTQUEUE_STALE_NS 1000000000ll
#define HOSTQUEUE_LOOKS 16 /* for one that sweeps */

static __always_inline struct esc_host_queue *hostqueue_table(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&host_queue, &zero);
}

static __always_inline struct esc_host_slot *hostqueue_slot(struct esc_host_queue *table,
							    const struct esc_packet *p)
{
	__u32 block = (packet_flow(p) >> 40) % (ESC_HOST_SLOTS / ESC_SENT_NOTES);

	return &table->slots[block * ESC_SENT_NOTES + ESC_SENT_INDEX(p->psn)];
}

static __always_inline bool hostqueue_change(struct esc_host_slot *slot, __u64 id, __u64 to)
{
	return __sync_val_compare_and_swap(&slot->id, id, to) == id;
}

static __always_inline bool hostqueue_is_stale(const struct esc_host_slot *slot, __u64 now_ns)
{
	return (__s64)(now_ns - slot->tx_ktime_ns) > HOSTQUEUE_STALE_NS;
}

/* The packet was noted at @index of its ring. */
static __always_inline void hostqueue_put(const struct esc_packet *p, __u32 index,
					  __u64 tx_ktime_ns)
{
	struct esc_host_queue *table = hostqueue_table();
	struct esc_host_slot *slot;
	__u64 id, was;

	if (!table || likely(!table->on))
		return;
	id = packet_id(p);
	slot = hostqueue_slot(table, p);
	was = slot->id;
	if (was == ESC_RX_SLOT_BUSY ||
	    (was != ESC_RX_SLOT_FREE && !hostqueue_is_stale(slot, tx_ktime_ns)))
		return;
	if (!hostqueue_change(slot, was, ESC_RX_SLOT_BUSY))
		return;
	slot->tx_ktime_ns = tx_ktime_ns;
	slot->key = p->key;
	slot->index = index;
	if (was == ESC_RX_SLOT_FREE)
		count(table->pending, 1);
	hostqueue_change(slot, ESC_RX_SLOT_BUSY, id);
}

static __always_inline void hostqueue_sweep(struct esc_host_queue *table, __u32 turn, __u64 now_ns)
{
	struct esc_host_slot *slot = &table->slots[turn % ESC_HOST_SLOTS];
	__u64 id = slot->id;

	if (id > ESC_RX_SLOT_BUSY && hostqueue_is_stale(slot, now_ns) &&
	    hostqueue_change(slot, id, ESC_RX_SLOT_FREE))
		count(table->pending, -1);
}

/* The packet leaves the qdisc: its note gets the time that it waited there. */
static __always_inline void hostqueue_leave(struct esc_host_queue *table,
					    const struct esc_packet *p, __u64 now_ns)
{
	__u64 id = packet_id(p);
	struct esc_host_slot *slot = hostqueue_slot(table, p), found;
	struct esc_qp_sent *sent;
	struct esc_sent_note *note;
	__u32 turn;

	if (slot->id != id) {
		turn = ++table->looks;
		if (!(turn % HOSTQUEUE_LOOKS))
			hostqueue_sweep(table, turn / HOSTQUEUE_LOOKS, now_ns);
		return;
	}
	found = *slot;
	if (!hostqueue_change(slot, id, ESC_RX_SLOT_FREE))
		return;
	count(table->pending, -1);
	sent = bpf_map_lookup_elem(&qp_sent, &found.key);
	if (!sent)
		return;
	note = &sent->notes[found.index % ESC_SENT_NOTES];
	if (note->tx_ktime_ns == found.tx_ktime_ns && (__s64)(now_ns - found.tx_ktime_ns) > 0)
		note->queue_ns = saturate_ns(now_ns - found.tx_ktime_ns);
}

#endif

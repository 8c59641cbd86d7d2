/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receiver's stamp of a sampled packet, on its way from XDP to tc ingress
 * through a table. A slot is claimed, filled and named; whoever finds it by its
 * name and clears the name has it. A stamp whose packet never reaches tc
 * ingress is swept out by those that look.
 */
#ifndef ESC_BPF_RECEIPT_RX_TIMESTAMP_H
#define ESC_BPF_RECEIPT_RX_TIMESTAMP_H

#include "receipt/receipt.bpf.h"

#define STAMP_STALE_NS 10000000ll
#define STAMP_LOOKS 16 /* for one that sweeps */

/* A sampled packet as XDP saw it. */
struct rx_stamp {
	__u64 rx_ktime_ns;
	__u32 flags; /* ESC_RECEIPT_RESPONSE, _CE, _MESSAGE */
	__u32 psn;
	__u32 message_ns;
};

static __always_inline struct esc_rx_stamps *stamp_table(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&rx_stamps, &zero);
}

static __always_inline struct esc_rx_slot *stamp_slot(struct esc_rx_stamps *table, __u64 id)
{
	return &table->slots[id % ESC_RX_SLOTS];
}

/* True when the slot was @id's and is now @to's. */
static __always_inline bool stamp_change(struct esc_rx_slot *slot, __u64 id, __u64 to)
{
	return __sync_val_compare_and_swap(&slot->id, id, to) == id;
}

static __always_inline bool stamp_is_stale(const struct esc_rx_slot *slot, __u64 now_ns)
{
	return (__s64)(now_ns - slot->rx_ktime_ns) > STAMP_STALE_NS;
}

/* One slot in turn, so that tc ingress does not look for ever for what was left behind. */
static __always_inline void stamp_sweep(struct esc_rx_stamps *table, __u32 turn, __u64 now_ns)
{
	struct esc_rx_slot *slot = &table->slots[turn % ESC_RX_SLOTS];
	__u64 id = slot->id;

	if (id > ESC_RX_SLOT_BUSY && stamp_is_stale(slot, now_ns) &&
	    stamp_change(slot, id, ESC_RX_SLOT_FREE))
		count(table->pending, -1);
}

/* False: the slot is another packet's. */
static __always_inline bool stamp_put(const struct esc_packet *p, const struct rx_stamp *stamp)
{
	struct esc_rx_stamps *table = stamp_table();
	__u64 id = packet_id(p), was;
	struct esc_rx_slot *slot;

	if (!table)
		return false;
	slot = stamp_slot(table, id);
	was = slot->id;
	if (was == ESC_RX_SLOT_BUSY ||
	    (was != ESC_RX_SLOT_FREE && !stamp_is_stale(slot, stamp->rx_ktime_ns)))
		return false;
	if (!stamp_change(slot, was, ESC_RX_SLOT_BUSY))
		return false;
	slot->rx_ktime_ns = stamp->rx_ktime_ns;
	slot->flags = stamp->flags;
	slot->message_ns = stamp->message_ns;
	if (was == ESC_RX_SLOT_FREE)
		count(table->pending, 1);
	stamp_change(slot, ESC_RX_SLOT_BUSY, id);
	return true;
}

/* True when XDP left a stamp for the packet. */
static __always_inline bool stamp_get(const struct esc_packet *p, struct rx_stamp *stamp)
{
	struct esc_rx_stamps *table = stamp_table();
	__u64 id = packet_id(p);
	struct esc_rx_slot *slot;
	__u32 turn;

	if (!table)
		return false;
	slot = stamp_slot(table, id);
	if (slot->id != id) {
		turn = ++table->looks;
		if (!(turn % STAMP_LOOKS))
			stamp_sweep(table, turn / STAMP_LOOKS, bpf_ktime_get_ns());
		return false;
	}
	stamp->rx_ktime_ns = slot->rx_ktime_ns;
	stamp->flags = slot->flags;
	stamp->message_ns = slot->message_ns;
	stamp->psn = p->psn;
	if (!stamp_change(slot, id, ESC_RX_SLOT_FREE))
		return false;
	count(table->pending, -1);
	return true;
}

/*
 * What the receiver says of a packet that was counted; false: no receipt is to
 * be made for it. Nothing vouches for a packet that begins a sequence.
 */
static __always_inline bool stamp_look(const struct esc_packet *p, const struct esc_control *word,
				       struct qp_found *found, struct rx_stamp *stamp)
{
	if (likely(!(found->what & (FOUND_SAMPLED | FOUND_MESSAGE))) || !found->qp ||
	    !(word->flags & ESC_CONTROL_RECEIPTS) || (found->what & FOUND_ANEW) ||
	    !receipt_daemon_lives(word, found->now_ns) ||
	    !receipt_peer_of(found->qp, &p->key.src, found->now_ns))
		return false;
	stamp->flags = (p->flags & ESC_OP_REQUEST ? 0 : ESC_RECEIPT_RESPONSE) |
		       (p->ecn == ESC_ECN_CE ? ESC_RECEIPT_CE : 0);
	stamp->rx_ktime_ns = found->now_ns;
	stamp->psn = p->psn;
	stamp->message_ns = 0;
	if (found->what & FOUND_MESSAGE) {
		stamp->flags |= ESC_RECEIPT_MESSAGE;
		stamp->message_ns =
			saturate_ns(found->now_ns - found->qp->message_start_local_ns);
	}
	return true;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Second half of build.bpf.h: tc egress changes our clone into the receipt. */
#ifndef ESC_BPF_RECEIPT_SEND_H
#define ESC_BPF_RECEIPT_SEND_H

#include "lib/reason.bpf.h"
#include "lib/tc.bpf.h"
#include "receipt/receipt.bpf.h"

static __always_inline int receipt_write(struct __sk_buff *skb, struct esc_receipt_cpu *cpu)
{
	__u8 *frame = cpu->frame;
	long error;

	if (cpu->begin == ESC_RECEIPT_BTH_AT - RECEIPT_V4_BYTES) {
		error = bpf_skb_change_tail(skb, RECEIPT_V4_BYTES + ESC_RECEIPT_DATAGRAM_BYTES, 0);
		error = error
				?: bpf_skb_store_bytes(
					   skb, 0, frame + ESC_RECEIPT_BTH_AT - RECEIPT_V4_BYTES,
					   RECEIPT_V4_BYTES + ESC_RECEIPT_DATAGRAM_BYTES,
					   BPF_F_INVALIDATE_HASH);
	} else {
		error = bpf_skb_change_tail(skb, RECEIPT_V6_BYTES + ESC_RECEIPT_DATAGRAM_BYTES, 0);
		error = error
				?: bpf_skb_store_bytes(
					   skb, 0, frame + ESC_RECEIPT_BTH_AT - RECEIPT_V6_BYTES,
					   RECEIPT_V6_BYTES + ESC_RECEIPT_DATAGRAM_BYTES,
					   BPF_F_INVALIDATE_HASH);
	}
	return error;
}

/*
 * A packet that leaves with one of our marks while this CPU builds a receipt.
 * The clone is either rewritten or dropped: it is a copy of a received packet
 * and must not leave. *@ours is false for any other packet, which is unchanged.
 */
static __noinline int receipt_send(struct __sk_buff *skb, bool *ours)
{
	struct esc_receipt_cpu *cpu = receipt_cpu_get();
	__u32 mark = skb->mark;

	*ours = false;
	if (!cpu)
		return ESC_TC_NEXT;
	if (cpu->stage == RECEIPT_STAGE_WRITTEN && mark == ESC_RECEIPT_MARK_DONE) {
		cpu->stage = RECEIPT_STAGE_NONE;
		skb->mark = 0;
		*ours = true;
		return ESC_TC_NEXT;
	}
	if (cpu->stage != RECEIPT_STAGE_CLONED || mark != ESC_RECEIPT_MARK)
		return ESC_TC_NEXT;
	*ours = true;
	if (receipt_write(skb, cpu)) {
		cpu->stage = RECEIPT_STAGE_NONE;
		reason_count(ESC_REASON_RECEIPT_CLONE, ESC_HOOK_TC_EGRESS);
		return TC_ACT_SHOT;
	}
	cpu->stage = RECEIPT_STAGE_WRITTEN;
	skb->mark = ESC_RECEIPT_MARK_DONE;
	return bpf_redirect(skb->ifindex, 0);
}

#endif

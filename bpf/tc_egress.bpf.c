// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Every packet that leaves through the interface, before its qdisc. */
/* Contexts and packet headers are ABI: their offsets are not relocated. */
#define BPF_NO_PRESERVE_ACCESS_INDEX

#include "lib/reason.bpf.h"
#include "pace/departure.bpf.h"
#include "probe/path_send.bpf.h"
#include "qp/qp.bpf.h"
#include "receipt/send.bpf.h"
#include "receipt/tx_record.bpf.h"
#include "steer/steer.bpf.h"

static __always_inline int egress_parse(struct __sk_buff *skb, struct pkt_ctx *pkt)
{
	int result = tc_parse(skb, pkt);

	return unlikely(result == PKT_PROBE) ? ESC_REASON_UNKNOWN_OPCODE : result;
}

/* The stages, in order; 0 or what ended them, see struct pkt_ctx. */
static __always_inline int egress_packet(struct __sk_buff *skb, struct pkt_ctx *pkt)
{
	int result;

	result = egress_parse(skb, pkt);
	result = result ?: account_packet(pkt, ESC_HOOK_TC_EGRESS, skb);
	result = result ?: steer_packet(skb, pkt);
	result = result ?: pace_packet(skb, pkt);
	return result ?: sample_packet(pkt);
}

SEC("tc")
int esc_tc_out(struct __sk_buff *skb)
{
	const struct esc_control *ctl = control_get();
	struct pause_mark law = {};
	struct pkt_ctx pkt;
	__u32 mark = skb->mark;
	int verdict, result;
	bool ours;

	barrier_var(mark);
	/* Before the kill switch, which may be set between the clone and here. */
	if (unlikely((mark & ~1u) == ESC_RECEIPT_MARK)) {
		verdict = receipt_send(skb, &ours);
		if (ours)
			return verdict;
	}
	if (unlikely(mark == ESC_REPAIR_MARK)) {
		verdict = repair_send(skb, &pkt, &ours);
		if (ours)
			return verdict;
	}
	if (!ctl)
		return ESC_TC_NEXT;
	if (unlikely(mark == ESC_PROBE_MARK) && probe_send(skb))
		return ESC_TC_NEXT;
	pkt.ctl = ctl;
	pkt.departure_ns = tc_departure(skb);
	pkt.mark = &law;
	result = egress_packet(skb, &pkt);
	if (unlikely(result > 0))
		reason_count(result, ESC_HOOK_TC_EGRESS);
	return ESC_TC_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

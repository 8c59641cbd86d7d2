// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What comes in, behind XDP: receipts for the packets that XDP stamped. Where
 * XDP is not to be had all is counted here, and where it is generic or absent
 * receipts of a host on the same wire are taken here.
 */
#include "receipt/build.bpf.h"
#include "receipt/receive.bpf.h"

static __always_inline bool ingress_has_stamps(void)
{
	const volatile struct esc_rx_stamps *table = stamp_table();

	return table && table->pending;
}

/* What XDP found, or where there is no XDP what is found here. */
static __always_inline bool ingress_stamp(int result, struct pkt_ctx *pkt,
					  const struct esc_control *word, struct rx_stamp *stamp)
{
	struct qp_found found;

	if (!esc_rx_in_tc)
		return result == ESC_PARSE_ROCE && stamp_get(p, stamp);
	hook_count(result, p, word, ESC_HOOK_TC_INGRESS, &found);
	return result == ESC_PARSE_ROCE && stamp_look(p, word, &found, stamp);
}

/* In tc only what is surely for us ends; the rest goes to whoever has the port. */
static __noinline bool receipt_take_tc(struct __sk_buff *skb, struct pkt_ctx *pkt,
				       const struct esc_control *word)
{
	__u32 at = pkt->probe_offset - sizeof(struct udphdr);
	struct receipt_message m = {};
	int result = ESC_REASON_PROBE_SHORT;

	if (!bpf_skb_load_bytes(skb, at, &m.udp, RECEIPT_MESSAGE_BYTES))
		result = receipt_take(&m, p, word);
	if (result != ESC_REASON_NONE)
		reason_count(result, ESC_HOOK_TC_INGRESS);
	return result == ESC_REASON_NONE || result == ESC_REASON_RECEIPT_UNMATCHED ||
	       result == ESC_REASON_PROBE_STALE_EPOCH;
}

SEC("tc")
int esc_tc_in(struct __sk_buff *skb)
{
	const struct esc_control *word;
	struct rx_stamp stamp = {};
	struct esc_packet packet;
	int result, reason;

	if (!esc_rx_in_tc && !esc_tc_takes && likely(!ingress_has_stamps()))
		return ESC_TC_NEXT;
	word = control_get();
	if (!word)
		return ESC_TC_NEXT;
	result = tc_read(skb, &packet);
	packet.departure_ns = 0;
	if (unlikely(esc_tc_takes && result == ESC_PARSE_PROBE &&
		     packet.opcode == ESC_PROBE_OPCODE_RECEIPT))
		return receipt_take_tc(skb, &packet, word) ? TC_ACT_SHOT : ESC_TC_NEXT;
	if (likely(!ingress_stamp(result, &packet, word, &stamp)))
		return ESC_TC_NEXT;
	reason = receipt_make(skb, &packet, &stamp, word);
	if (reason)
		reason_count(reason, ESC_HOOK_TC_INGRESS);
	return ESC_TC_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

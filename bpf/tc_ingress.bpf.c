// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every received packet, behind XDP: receipts for the packets that XDP timestamped. Where the
 * interface has no XDP this hook accounts, and where XDP is generic or absent it accepts the
 * receipts of a host on the same wire.
 */
/* Contexts and packet headers are ABI: their offsets are not relocated. */
#define BPF_NO_PRESERVE_ACCESS_INDEX

#include "lib/reason.bpf.h"
#include "qp/qp.bpf.h"
#include "receipt/build.bpf.h"
#include "receipt/receive.bpf.h"

static __always_inline bool ingress_has_timestamps(void)
{
	const volatile struct esc_rx_timestamps *table = rx_timestamps_get();

	return table && table->pending;
}

/* Where XDP accounts, it has counted the reason of a packet that is not RoCE. */
static __always_inline int ingress_account(struct pkt_ctx *pkt, int result)
{
	if (!esc_rx_in_tc)
		return result ? PKT_DONE : ESC_REASON_NONE;
	if (unlikely(result == PKT_PROBE))
		return ESC_REASON_PROBE_OFF;
	return result ?: account_packet(pkt, ESC_HOOK_TC_INGRESS, NULL);
}

static __always_inline int ingress_timestamp(struct pkt_ctx *pkt)
{
	return esc_rx_in_tc ? rx_timestamp_make(pkt) : rx_timestamp_take(pkt);
}

/* The stages behind the parser, in order; 0 or what ended them, see struct pkt_ctx. */
static __always_inline int ingress_packet(struct __sk_buff *skb, struct pkt_ctx *pkt, int result)
{
	result = ingress_account(pkt, result);
	result = result ?: ingress_timestamp(pkt);
	return result ?: receipt_build(skb, pkt);
}

/* Only a receipt that is certainly for us ends here; others go on to the socket of the port. */
static __noinline int receipt_receive_tc(struct __sk_buff *skb, struct pkt_ctx *pkt)
{
	__u32 at = pkt->bth_offset - sizeof(struct udphdr);
	struct receipt_message m = {};
	int result = ESC_REASON_PROBE_SHORT;

	if (!bpf_skb_load_bytes(skb, at, &m.udp, RECEIPT_MESSAGE_BYTES))
		result = receipt_receive(&m, pkt);
	if (result)
		reason_count(result, ESC_HOOK_TC_INGRESS);
	return !result || result == ESC_REASON_RECEIPT_UNMATCHED ||
			       result == ESC_REASON_PROBE_STALE_EPOCH
		       ? TC_ACT_SHOT
		       : ESC_TC_NEXT;
}

SEC("tc")
int esc_tc_in(struct __sk_buff *skb)
{
	struct pkt_ctx pkt;
	int result;

	if (!esc_rx_in_tc && !esc_tc_takes && likely(!ingress_has_timestamps()))
		return ESC_TC_NEXT;
	pkt.ctl = control_get();
	if (!pkt.ctl)
		return ESC_TC_NEXT;
	pkt.departure_ns = 0;
	result = tc_parse(skb, &pkt);
	if (unlikely(esc_tc_takes && result == PKT_PROBE && pkt.opcode == ESC_PROBE_OPCODE_RECEIPT))
		return receipt_receive_tc(skb, &pkt);
	result = ingress_packet(skb, &pkt, result);
	if (unlikely(result > 0))
		reason_count(result, ESC_HOOK_TC_INGRESS);
	return ESC_TC_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Every received packet, as early as the kernel has it. */
/* Contexts and packet headers are ABI: their offsets are not relocated. */
#define BPF_NO_PRESERVE_ACCESS_INDEX

#include "lib/reason.bpf.h"
#include "probe/path_reply.bpf.h"
#include "qp/qp.bpf.h"
#include "receipt/receive.bpf.h"
#include "receipt/rx_timestamp.bpf.h"
#include <xdp/xdp_helpers.h>

/* Before programs of the usual priority 50, which run when this one passes the packet. */
struct {
	__uint(priority, 10);
	__uint(XDP_PASS, 1);
} XDP_RUN_CONFIG(esc_xdp_in);

/* In two maps: each may be the only one that both programs share. */
static __always_inline bool xdp_set_counted(__u64 value)
{
	struct esc_port_counts *port = port_counts_get();
	struct esc_xdp_counted *both;
	__u32 index = esc_port_index;

	if (port)
		port->xdp_counted = value;
	both = bpf_map_lookup_elem(&xdp_counted, &index);
	if (both)
		both->counted = value;
	return value;
}

/* While one program takes over from another in a dispatcher: see ESC_HANDOVER_*. */
static __noinline bool xdp_is_counting(__u16 state)
{
	const struct esc_xdp_counted *both;
	struct esc_port_counts *port;
	__u32 index = esc_port_index;

	if (state == (esc_handover_id | ESC_HANDOVER_ANNOUNCE))
		return xdp_set_counted(1);
	if (state == (esc_handover_id | ESC_HANDOVER_PASS))
		return xdp_set_counted(0);
	if (state != (__u16)((esc_handover_id - ESC_HANDOVER_NEXT) | ESC_HANDOVER_PASS))
		return false;
	port = port_counts_get();
	both = bpf_map_lookup_elem(&xdp_counted, &index);
	return port && !port->xdp_counted && both && !both->counted;
}

static __always_inline bool xdp_is_active(const struct esc_control *ctl)
{
	__u16 state = ctl->xdp_handover[esc_port_index % ESC_PORTS_MAX];

	return likely(state == esc_handover_id) || xdp_is_counting(state);
}

static __always_inline int xdp_parse_with(struct xdp_md *xdp, struct pkt_ctx *pkt, bool thorough)
{
	struct cursor cursor = {
		.context = xdp,
		.skb = false,
		.thorough = thorough,
		.start = (void *)(long)xdp->data,
		.end = (void *)(long)xdp->data_end,
		.at = (void *)(long)xdp->data,
	};

	return parse_packet(&cursor, pkt);
}

static __noinline int xdp_parse_slow(struct xdp_md *xdp, struct pkt_ctx *pkt)
{
	return xdp_parse_with(xdp, pkt, true);
}

static __always_inline int xdp_parse(struct xdp_md *xdp, struct pkt_ctx *pkt)
{
	int result = xdp_parse_with(xdp, pkt, false);

	return unlikely(result == PKT_SLOW) ? xdp_parse_slow(xdp, pkt) : result;
}

/* Hands the timestamp of a sampled packet to tc ingress, which makes the receipt. */
static __noinline int xdp_timestamp_slow(struct pkt_ctx *pkt)
{
	int result = rx_timestamp_make(pkt);

	return result ?: rx_timestamp_put(pkt);
}

static __always_inline int xdp_timestamp(struct pkt_ctx *pkt)
{
	return likely(!(pkt->flags & (PKT_SAMPLED | PKT_MESSAGE))) ? ESC_REASON_NONE
								   : xdp_timestamp_slow(pkt);
}

/* The stages behind the parser, in order; 0 or what ended them, see struct pkt_ctx. */
static __always_inline int ingress_packet(struct pkt_ctx *pkt, int result)
{
	result = result ?: account_packet(pkt, ESC_HOOK_XDP_INGRESS, NULL);
	return result ?: xdp_timestamp(pkt);
}

/* In XDP a receipt ends, whatever its worth. */
static __noinline int receipt_receive_xdp(struct xdp_md *xdp, struct pkt_ctx *pkt)
{
	__u32 at = pkt->bth_offset - sizeof(struct udphdr);
	struct receipt_message m = {};
	int result;

	if (bpf_xdp_load_bytes(xdp, at, &m.udp, sizeof(m.udp)))
		return XDP_PASS;
	if (m.udp.len == bpf_htons(RECEIPT_UDP_BYTES) &&
	    bpf_xdp_load_bytes(xdp, at, &m.udp, RECEIPT_MESSAGE_BYTES)) {
		reason_count(ESC_REASON_UNREADABLE, ESC_HOOK_XDP_INGRESS);
		return XDP_PASS;
	}
	result = receipt_receive(&m, pkt);
	if (result)
		reason_count(result, ESC_HOOK_XDP_INGRESS);
	return XDP_DROP;
}

/* A probe or receipt of ours does not reach the stages. */
static __noinline int xdp_receive_probe(struct xdp_md *xdp, struct pkt_ctx *pkt)
{
	if (pkt->opcode == ESC_PROBE_OPCODE_RECEIPT)
		return receipt_receive_xdp(xdp, pkt);
	if (opcode_is_path_probe(pkt->opcode))
		return path_receive(xdp, pkt->bth_offset);
	return probe_receive(xdp, pkt->bth_offset);
}

SEC("xdp.frags")
int esc_xdp_in(struct xdp_md *xdp)
{
	const struct esc_control *ctl = control_get();
	struct pkt_ctx pkt;
	int result;

	if (!ctl || !xdp_is_active(ctl))
		return XDP_PASS;
	pkt.ctl = ctl;
	pkt.departure_ns = 0;
	result = xdp_parse(xdp, &pkt);
	if (unlikely(result == PKT_PROBE))
		return xdp_receive_probe(xdp, &pkt);
	result = ingress_packet(&pkt, result);
	if (unlikely(result > 0))
		reason_count(result, ESC_HOOK_XDP_INGRESS);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

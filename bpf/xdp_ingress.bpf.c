// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Everything that comes in, as early as the kernel shows it. */
#include "lib/hook.bpf.h"
#include "probe/path_reply.bpf.h"
#include "receipt/receive.bpf.h"
#include "receipt/rx_timestamp.bpf.h"
#include <xdp/xdp_helpers.h>

/* Before programs of the usual priority 50, which go on when we pass. */
struct {
	__uint(priority, 10);
	__uint(XDP_PASS, 1);
} XDP_RUN_CONFIG(esc_xdp_in);

static __always_inline bool xdp_set_handover(__u64 value)
{
	struct esc_port_counts *port = esc_port_counts_get();

	if (port)
		port->xdp_handover = value;
	return value;
}

/* While one program takes over from another in a dispatcher: see ESC_TURN_*. */
static __noinline bool xdp_is_my_turn(__u16 turn)
{
	struct esc_port_counts *port;

	if (turn == (esc_turn | ESC_TURN_ANNOUNCE))
		return xdp_set_handover(1);
	if (turn == (esc_turn | ESC_TURN_PASS))
		return xdp_set_handover(0);
	if (turn != (__u16)((esc_turn - ESC_TURN_NEXT) | ESC_TURN_PASS))
		return false;
	port = esc_port_counts_get();
	return port && !port->xdp_handover;
}

static __always_inline int xdp_parse(struct xdp_md *xdp, struct pkt_ctx *pkt, bool thorough)
{
	struct esc_cursor cursor = {
		.context = xdp,
		.skb = false,
		.thorough = thorough,
		.start = (void *)(long)xdp->data,
		.end = (void *)(long)xdp->data_end,
		.at = (void *)(long)xdp->data,
	};

	return esc_parse(&cursor, p);
}

static __noinline int xdp_parse_thoroughly(struct xdp_md *xdp, struct pkt_ctx *pkt)
{
	return xdp_parse(xdp, p, true);
}

/* In XDP a receipt ends, whatever it is worth. */
static __noinline int receipt_take_xdp(struct xdp_md *xdp, struct pkt_ctx *pkt,
				       const struct esc_control *word)
{
	__u32 at = pkt->probe_offset - sizeof(struct udphdr);
	struct receipt_message m = {};
	int result;

	if (bpf_xdp_load_bytes(xdp, at, &m.udp, sizeof(m.udp)))
		return XDP_PASS;
	if (m.udp.bytes == bpf_htons(RECEIPT_UDP_BYTES) &&
	    bpf_xdp_load_bytes(xdp, at, &m.udp, RECEIPT_MESSAGE_BYTES)) {
		reason_count(ESC_REASON_UNREADABLE, ESC_HOOK_XDP_INGRESS);
		return XDP_PASS;
	}
	result = receipt_take(&m, p, word);
	if (result != ESC_REASON_NONE)
		reason_count(result, ESC_HOOK_XDP_INGRESS);
	return XDP_DROP;
}

static __noinline int xdp_take(struct xdp_md *xdp, struct pkt_ctx *pkt,
			       const struct esc_control *word)
{
	if (pkt->opcode == ESC_PROBE_OPCODE_RECEIPT)
		return receipt_take_xdp(xdp, p, word);
	if (opcode_is_path_probe(pkt->opcode))
		return path_take(xdp, pkt->probe_offset);
	return probe_take(xdp, pkt->probe_offset);
}

/* A stamp for the sampled, for tc ingress to make a receipt of. */
static __noinline int xdp_stamp(const struct pkt_ctx *pkt, const struct esc_control *word,
				struct qp_found *found)
{
	struct rx_stamp stamp;

	if (stamp_look(p, word, found, &stamp) && !stamp_put(p, &stamp))
		reason_count(ESC_REASON_RECEIPT_STAMP, ESC_HOOK_XDP_INGRESS);
	return 0;
}

SEC("xdp.frags")
int esc_xdp_in(struct xdp_md *xdp)
{
	const struct esc_control *word = control_get();
	struct esc_packet packet;
	struct qp_found found;
	int result;
	__u16 turn;

	if (!word)
		return XDP_PASS;
	turn = word->xdp_turns[esc_port_index % ESC_PORTS_MAX];
	if (unlikely(turn != esc_turn) && !xdp_is_my_turn(turn))
		return XDP_PASS;
	result = xdp_parse(xdp, &packet, false);
	if (unlikely(result == ESC_PARSE_SLOW))
		result = xdp_parse_thoroughly(xdp, &packet);
	if (unlikely(result == ESC_PARSE_PROBE))
		return xdp_take(xdp, &packet, word);
	packet.departure_ns = 0;
	hook_count(result, &packet, word, ESC_HOOK_XDP_INGRESS, &found);
	if (unlikely(result == ESC_PARSE_ROCE && (found.what & (FOUND_SAMPLED | FOUND_MESSAGE))))
		xdp_stamp(&packet, word, &found);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

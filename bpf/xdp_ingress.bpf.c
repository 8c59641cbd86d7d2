// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Everything that comes in, as early as the kernel shows it. */
#include "hook.bpf.h"
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

static __always_inline int xdp_parse(struct xdp_md *xdp, struct esc_packet *p, bool thorough)
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

static __noinline int xdp_parse_thoroughly(struct xdp_md *xdp, struct esc_packet *p)
{
	return xdp_parse(xdp, p, true);
}

SEC("xdp.frags")
int esc_xdp_in(struct xdp_md *xdp)
{
	const struct esc_control *word = esc_control_get();
	struct esc_packet packet;
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
	hook_count(result, &packet, word, ESC_HOOK_XDP_INGRESS);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

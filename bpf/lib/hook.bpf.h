/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the three hooks have in common: parse, count by port, by QP or by reason. */
#ifndef ESC_BPF_LIB_HOOK_H
#define ESC_BPF_LIB_HOOK_H

#include "lib/parse.bpf.h"
#include "qp/qp.bpf.h"

enum esc_hook {
	ESC_HOOK_XDP_INGRESS,
	ESC_HOOK_TC_INGRESS,
	ESC_HOOK_TC_EGRESS,
};

#define hook_direction(hook) ((hook) == ESC_HOOK_TC_EGRESS ? ESC_DIRECTION_TX : ESC_DIRECTION_RX)

static __noinline int hook_count_reason(__u32 reason, enum esc_hook hook)
{
	struct esc_reason_count *why = bpf_map_lookup_elem(&reasons, &reason);
	struct esc_port_counts *port = NULL;

	if (!why)
		return 0;
	if (hook == ESC_HOOK_XDP_INGRESS)
		why->xdp_ingress++;
	else if (hook == ESC_HOOK_TC_INGRESS)
		why->tc_ingress++;
	else
		why->tc_egress++;
	if (reason == ESC_REASON_ROCEV1)
		port = esc_port_counts_get();
	if (port && hook_direction(hook) == ESC_DIRECTION_RX)
		port->rx_rocev1_frames++;
	else if (port)
		port->tx_rocev1_frames++;
	return 0;
}

static __always_inline void hook_count_port(const struct esc_packet *p,
					    enum esc_direction direction)
{
	struct esc_port_counts *port = esc_port_counts_get();
	bool rx = direction == ESC_DIRECTION_RX;

	if (!port)
		return;
	*(rx ? &port->rx_roce_packets : &port->tx_roce_packets) += 1;
	*(rx ? &port->rx_roce_bytes : &port->tx_roce_bytes) += p->bytes;
	if (unlikely(p->ecn == ESC_ECN_CE))
		*(rx ? &port->rx_ce_packets : &port->tx_ce_packets) += 1;
	if (unlikely(p->flags & ESC_OP_CNP))
		*(rx ? &port->rx_cnps : &port->tx_cnps) += 1;
}

/* A RoCEv2 packet that was understood. */
static __always_inline void hook_count_packet(struct esc_packet *p, const struct esc_control *word,
					      enum esc_hook hook, struct qp_found *found)
{
	packet_set_key(p, hook_direction(hook), esc_port_index);
	hook_count_port(p, hook_direction(hook));
	qp_account(p, word, hook_direction(hook), found);
	if (unlikely(found->what == FOUND_NO_ROOM))
		hook_count_reason(ESC_REASON_QP_TABLE_FULL, hook);
}

/* A probe that the hook does not take: it goes on. */
static __always_inline int hook_probe_reason(enum esc_hook hook)
{
	return hook == ESC_HOOK_TC_INGRESS ? ESC_REASON_PROBE_OFF : ESC_REASON_UNKNOWN_OPCODE;
}

/* What esc_parse() found. @found is filled in for ESC_PARSE_ROCE. */
static __always_inline void hook_count(int result, struct esc_packet *p,
				       const struct esc_control *word, enum esc_hook hook,
				       struct qp_found *found)
{
	if (likely(result == ESC_PARSE_ROCE))
		hook_count_packet(p, word, hook, found);
	else if (result != ESC_PARSE_OTHER)
		hook_count_reason(result == ESC_PARSE_PROBE ? hook_probe_reason(hook) : result,
				  hook);
}

#endif

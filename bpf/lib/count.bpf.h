/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters per interface, shared by the hooks. */
#ifndef ESC_BPF_LIB_COUNT_H
#define ESC_BPF_LIB_COUNT_H

#include "lib/packet.bpf.h"

/* Of a counter that several CPUs share. */
#define count(field, n) ((void)__sync_fetch_and_add(&(field), n))

enum esc_hook {
	ESC_HOOK_XDP_INGRESS,
	ESC_HOOK_TC_INGRESS,
	ESC_HOOK_TC_EGRESS,
};

#define hook_direction(hook) ((hook) == ESC_HOOK_TC_EGRESS ? ESC_DIRECTION_TX : ESC_DIRECTION_RX)

static __always_inline void port_count(const struct pkt_ctx *pkt, enum esc_direction direction)
{
	struct esc_port_counts *port = port_counts_get();
	bool rx = direction == ESC_DIRECTION_RX;

	if (!port)
		return;
	*(rx ? &port->rx_roce_packets : &port->tx_roce_packets) += 1;
	*(rx ? &port->rx_roce_bytes : &port->tx_roce_bytes) += pkt->bytes;
	if (unlikely(pkt->ecn == INET_ECN_CE))
		*(rx ? &port->rx_ce_packets : &port->tx_ce_packets) += 1;
	if (unlikely(pkt->op_flags & ESC_OP_CNP))
		*(rx ? &port->rx_cnps : &port->tx_cnps) += 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet that arrived through the other NIC counts as received by the first one, where no other
 * hook counts it: native XDP saw only the outer headers, while generic XDP and our tc ingress see
 * it again on the NIC that it is delivered to. It has no delay: its arrival was not timestamped.
 */
#ifndef ESC_BPF_NIC_COUNT_H
#define ESC_BPF_NIC_COUNT_H

#include "nic/nic.bpf.h"
#include "qp/qp.bpf.h"

/* The first NIC's slot in `ports`; ESC_PORTS_MAX: it has none, or its own hook counts. */
static __always_inline __u32 nic_counting_port(const struct esc_nic_local *local)
{
	bool dummy = local->deliver_ifindex != local->first_ifindex;
	const struct esc_port *port;
	__u32 slot, key;

	for (slot = 0; slot < ESC_PORTS_MAX; slot++) {
		key = slot; /* the verifier loses the bound of a counter whose address is taken */
		port = bpf_map_lookup_elem(&ports, &key);
		if (port && port->name[0] && port->ifindex == local->first_ifindex)
			return dummy || port->xdp_mode == ESC_XDP_NATIVE ? slot : ESC_PORTS_MAX;
	}
	return ESC_PORTS_MAX;
}

static __always_inline void nic_count_port(const struct pkt_ctx *pkt, __u32 slot)
{
	struct esc_port_counts *port = bpf_map_lookup_elem(&port_counts, &slot);

	if (!port)
		return;
	port->rx_roce_packets++;
	port->rx_roce_bytes += pkt->bytes;
	if (pkt->ecn == INET_ECN_CE)
		port->rx_ce_packets++;
	if (pkt->op_flags & ESC_OP_CNP)
		port->rx_cnps++;
}

static __noinline int nic_count_received(struct __sk_buff *skb, const struct esc_nic_local *local)
{
	struct pkt_ctx pkt;
	__u32 slot;
	int reason;

	pkt.ctl = control_get();
	if (!local || !pkt.ctl)
		return 0;
	slot = nic_counting_port(local);
	if (slot == ESC_PORTS_MAX || tc_parse(skb, &pkt))
		return 0;
	pkt.departure_ns = 0;
	packet_set_key(&pkt, ESC_DIRECTION_RX, slot);
	nic_count_port(&pkt, slot);
	reason = qp_account(&pkt, ESC_DIRECTION_RX, NULL);
	if (reason)
		nic_count_reason(reason, false);
	return 0;
}

#endif

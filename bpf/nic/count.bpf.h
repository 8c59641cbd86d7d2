/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What came by the other NIC is counted as the first one's, where nobody else will: native XDP ran
 * on the packet's outer headers, while generic XDP and our tc ingress see it once more on the NIC
 * that it is handed to. No delays: the stamp of its arrival is not taken.
 */
#ifndef ESC_BPF_NIC_COUNT_H
#define ESC_BPF_NIC_COUNT_H

#include "nic/nic.bpf.h"

/* The first NIC's slot in `ports`; ESC_PORTS_MAX: it has none, or counts by itself. */
static __always_inline __u32 nic_counting_port(const struct esc_nic_home *home)
{
	bool dummy = home->deliver_ifindex != home->first_ifindex;
	const struct esc_port *port;
	__u32 slot, key;

	for (slot = 0; slot < ESC_PORTS_MAX; slot++) {
		key = slot; /* the verifier loses sight of a counter whose address is taken */
		port = bpf_map_lookup_elem(&ports, &key);
		if (port && port->name[0] && port->ifindex == home->first_ifindex)
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
	if (pkt->ecn == ESC_ECN_CE)
		port->rx_ce_packets++;
	if (pkt->flags & ESC_OP_CNP)
		port->rx_cnps++;
}

static __noinline int nic_count_received(struct __sk_buff *skb, const struct esc_nic_home *home)
{
	const struct esc_control *word = control_get();
	struct esc_packet p;
	struct qp_found found;
	__u32 slot;

	if (!home || !word)
		return 0;
	slot = nic_counting_port(home);
	if (slot == ESC_PORTS_MAX || tc_read(skb, &p) != ESC_PARSE_ROCE)
		return 0;
	packet_set_key(&p, ESC_DIRECTION_RX, slot);
	nic_count_port(&p, slot);
	qp_account(&p, word, ESC_DIRECTION_RX, &found);
	if (found.what == FOUND_NO_ROOM)
		nic_count_reason(ESC_REASON_QP_TABLE_FULL, false);
	return 0;
}

#endif

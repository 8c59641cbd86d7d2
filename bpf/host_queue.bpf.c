// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What every driver is given to send, behind the qdisc: how long the noted
 * packets waited. An object of its own, since it is asked for every packet of
 * the host and may be refused alone.
 */
#include "receipt/host_queue.bpf.h"
#include "lib/parse.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* From the IP header to the BTH, of either version. */
union queue_headers {
	struct {
		struct iphdr ip;
		struct udphdr udp;
		struct esc_bth bth;
	} v4;
	struct {
		struct ipv6hdr ip;
		struct udphdr udp;
		struct esc_bth bth;
	} v6;
};

static __always_inline bool queue_read_bth(struct pkt_ctx *pkt, const struct udphdr *udp,
					   const struct esc_bth *bth)
{
	if (udp->dst != bpf_htons(ESC_ROCEV2_PORT))
		return false;
	pkt->opcode = bth->opcode;
	pkt->psn = bpf_ntohl(bth->psn) & ESC_PSN_MASK;
	pkt->dest_qpn = bpf_ntohl(bth->qpn) & ESC_QPN_MASK;
	return true;
}

/* Options and extension headers are left out: such packets get no stamp here. */
static __always_inline bool queue_read(const struct sk_buff *skb, struct pkt_ctx *pkt)
{
	const void *ip = skb->head + skb->network_header;
	union queue_headers h;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_probe_read_kernel(&h.v4, sizeof(h.v4), ip) ||
		    h.v4.ip.version_words != 0x45 || h.v4.ip.protocol != IPPROTO_UDP)
			return false;
		packet_set_ipv4(p, &h.v4.ip);
		return queue_read_bth(p, &h.v4.udp, &h.v4.bth);
	}
	if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
	    bpf_probe_read_kernel(&h.v6, sizeof(h.v6), ip) || h.v6.ip.next != IPPROTO_UDP)
		return false;
	packet_set_ipv6(p, &h.v6.ip);
	return queue_read_bth(p, &h.v6.udp, &h.v6.bth);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(esc_queue_out, const struct sk_buff *skb)
{
	struct esc_host_queue *table = hostqueue_table();
	struct esc_packet p;

	if (!table || likely(!*(volatile __u32 *)&table->pending))
		return 0;
	if (queue_read(skb, &p))
		hostqueue_leave(table, &p, bpf_ktime_get_ns());
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every packet that a driver is given to send, behind the qdisc: how long sampled packets waited
 * there. An object of its own, since it runs for every packet of the host and may be refused
 * alone.
 */
/* Packet headers are ABI: only the structs below have relocated offsets. */
#define BPF_NO_PRESERVE_ACCESS_INDEX

#include "lib/parse.bpf.h"
#include "receipt/host_queue.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

struct sk_buff___core {
	unsigned char *head;
	__u16 network_header;
	__be16 protocol;
} __attribute__((preserve_access_index));

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

static __always_inline bool queue_parse_bth(struct pkt_ctx *pkt, const struct udphdr *udp,
					    const struct esc_bth *bth)
{
	if (udp->dest != bpf_htons(ESC_ROCEV2_PORT))
		return false;
	pkt->opcode = bth->opcode;
	pkt->psn = bpf_ntohl(bth->psn) & ESC_PSN_MASK;
	pkt->dest_qpn = bpf_ntohl(bth->qpn) & ESC_QPN_MASK;
	return true;
}

/* False also with options and extension headers: such packets have no time here. */
static __always_inline bool queue_parse(const struct sk_buff___core *skb, struct pkt_ctx *pkt)
{
	const void *ip = skb->head + skb->network_header;
	union queue_headers h;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_probe_read_kernel(&h.v4, sizeof(h.v4), ip) ||
		    ip_first_byte(&h) != IPV4_NO_OPTIONS || h.v4.ip.protocol != IPPROTO_UDP)
			return false;
		packet_set_ipv4(pkt, &h.v4.ip);
		return queue_parse_bth(pkt, &h.v4.udp, &h.v4.bth);
	}
	if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
	    bpf_probe_read_kernel(&h.v6, sizeof(h.v6), ip) || h.v6.ip.nexthdr != IPPROTO_UDP)
		return false;
	packet_set_ipv6(pkt, &h.v6.ip);
	return queue_parse_bth(pkt, &h.v6.udp, &h.v6.bth);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(esc_queue_out, const struct sk_buff___core *skb)
{
	struct esc_host_queue *table = host_queue_get();
	struct pkt_ctx pkt;

	if (!table || likely(!*(volatile __u32 *)&table->pending))
		return 0;
	if (queue_parse(skb, &pkt))
		host_queue_leave(table, &pkt, bpf_ktime_get_ns());
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

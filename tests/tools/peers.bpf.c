// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the programs are measured against, and the feeder that makes a repeated
 * test packet look like traffic: PROG_TEST_RUN sends the same bytes each time,
 * so the feeder moves the PSN (and the queue pair) on in the packet itself and
 * tail-calls the program under test. Its own cost is measured with the empty
 * program behind it and taken off.
 */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TC_NEXT (-1)

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} xdp_next SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} tc_next SEC(".maps");

const volatile __u32 qp_mask = 0; /* queue pairs minus one, a power of two minus one */
const volatile __u32 bth_offset = 42;
__u32 turn = 0;

/* The queue pair changes with each packet, the PSN with each round of them. */
static __always_inline void feed(void *data, void *end)
{
	__be32 *word = data + bth_offset;
	__u32 n = turn++;

	if ((void *)(word + 3) > end)
		return;
	word[1] = bpf_htonl(0x100 + (n & qp_mask));
	word[2] = bpf_htonl((n / (qp_mask + 1)) & 0xffffff);
}

SEC("xdp.frags")
int feed_xdp(struct xdp_md *xdp)
{
	feed((void *)(long)xdp->data, (void *)(long)xdp->data_end);
	bpf_tail_call(xdp, &xdp_next, 0);
	return XDP_ABORTED;
}

SEC("tc")
int feed_tc(struct __sk_buff *skb)
{
	feed((void *)(long)skb->data, (void *)(long)skb->data_end);
	bpf_tail_call(skb, &tc_next, 0);
	return 0;
}

const volatile __u32 redirect_ifindex = 0;

/* The generator of live frames: out through one end of a veth, in at the other. */
SEC("xdp.frags")
int feed_redirect(struct xdp_md *xdp)
{
	feed((void *)(long)xdp->data, (void *)(long)xdp->data_end);
	return bpf_redirect(redirect_ifindex, 0);
}

/* Undoes what steering did to the packet before; the port moves on if the mask lets it. */
static __always_inline int feed_port(struct __sk_buff *skb, __u32 sport_mask)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__be16 *sport = data + bth_offset - 8;

	if ((void *)(sport + 1) > end)
		return 0;
	*sport = bpf_htons(50000 + (turn & sport_mask));
	feed(data, end);
	bpf_tail_call(skb, &tc_next, 0);
	return 0;
}

SEC("tc")
int feed_tc_port(struct __sk_buff *skb)
{
	return feed_port(skb, 0);
}

SEC("tc")
int feed_tc_ports(struct __sk_buff *skb)
{
	return feed_port(skb, 0x1fff);
}

SEC("xdp.frags")
int empty_xdp(struct xdp_md *xdp)
{
	return XDP_PASS;
}

SEC("tc")
int empty_tc(struct __sk_buff *skb)
{
	return TC_NEXT;
}

__u64 udp_packets = 0;

/* The least that any RoCEv2 program does: find UDP to port 4791. */
static __always_inline void find_udp(void *data, void *end)
{
	struct ethhdr *ethernet = data;
	struct iphdr *ip = data + sizeof(*ethernet);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > end || ethernet->h_proto != bpf_htons(0x0800) || ip->ihl != 5 ||
	    ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(4791))
		return;
	udp_packets++;
}

SEC("xdp.frags")
int udp_xdp(struct xdp_md *xdp)
{
	find_udp((void *)(long)xdp->data, (void *)(long)xdp->data_end);
	return XDP_PASS;
}

SEC("tc")
int udp_tc(struct __sk_buff *skb)
{
	find_udp((void *)(long)skb->data, (void *)(long)skb->data_end);
	return TC_NEXT;
}

/* What the reference counter counts by; the queue pair's number changes when the feeder's does. */
struct counter_flow {
	__be32 src, dst;
	__be16 sport, dport;
	__be32 qpn;
};

struct counter_counts {
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct counter_flow);
	__type(value, struct counter_counts);
} counter_flows SEC(".maps");

static __noinline int counter_insert(const struct counter_flow *flow, __u32 bytes)
{
	struct counter_counts counts = {1, bytes};

	if (!flow)
		return 0;
	return bpf_map_update_elem(&counter_flows, flow, &counts, BPF_NOEXIST);
}

/*
 * The reference: what any program that counts per flow does at least, and no more. IPv4 and UDP,
 * one lookup in a hash, two counters that CPUs share.
 */
static __always_inline void count_flow(void *data, void *end)
{
	struct ethhdr *ethernet = data;
	struct iphdr *ip = data + sizeof(*ethernet);
	struct udphdr *udp = (void *)(ip + 1);
	__be32 *bth = (void *)(udp + 1);
	struct counter_counts *counts;
	struct counter_flow flow;

	if ((void *)(bth + 2) > end || ethernet->h_proto != bpf_htons(0x0800) || ip->ihl != 5 ||
	    ip->protocol != IPPROTO_UDP)
		return;
	flow.src = ip->saddr;
	flow.dst = ip->daddr;
	flow.sport = udp->source;
	flow.dport = udp->dest;
	flow.qpn = bth[1];
	counts = bpf_map_lookup_elem(&counter_flows, &flow);
	if (!counts) {
		counter_insert(&flow, bpf_ntohs(ip->tot_len));
		return;
	}
	__sync_fetch_and_add(&counts->packets, 1);
	__sync_fetch_and_add(&counts->bytes, bpf_ntohs(ip->tot_len));
}

SEC("xdp.frags")
int counter_xdp(struct xdp_md *xdp)
{
	count_flow((void *)(long)xdp->data, (void *)(long)xdp->data_end);
	return XDP_PASS;
}

SEC("tc")
int counter_tc(struct __sk_buff *skb)
{
	count_flow((void *)(long)skb->data, (void *)(long)skb->data_end);
	return TC_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

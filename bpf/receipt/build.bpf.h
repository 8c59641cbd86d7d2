/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receipts for received packets. tc ingress builds the whole frame in per-CPU
 * memory, then clones the packet and redirects the clone out of the interface it
 * arrived on; there tc egress (send.bpf.h) replaces the clone by the frame and
 * redirects it once more, so that the qdisc sees a packet of the receipt's length.
 * All of that happens within the one call that clones: `stage` records it, and
 * a packet that has our mark by chance is left alone.
 */
#ifndef ESC_BPF_RECEIPT_BUILD_H
#define ESC_BPF_RECEIPT_BUILD_H

#include "lib/tc.bpf.h"
#include "receipt/rx_timestamp.bpf.h"

#define RECEIPT_HOP_LIMIT 64
#define RECEIPT_SECOND_NS 1000000000ull
/* A burst is what the rate allows in this time. */
#define RECEIPT_BURST_NS 10000000ll
/* Back-off after a clone left without passing our tc egress. */
#define RECEIPT_BACKOFF_NS 10000000000ll

static __always_inline bool receipt_rate_limit(struct esc_receipt_cpu *cpu, __u64 now_ns,
					       __u32 max_pps)
{
	__u64 next_ns = cpu->allowed_ns;

	if (!max_pps || (__s64)(next_ns - now_ns) > RECEIPT_BURST_NS)
		return false;
	if ((__s64)(now_ns - next_ns) > 0)
		next_ns = now_ns;
	cpu->allowed_ns = next_ns + RECEIPT_SECOND_NS / max_pps;
	return true;
}

/* --- the frame --- */

static __always_inline void receipt_swap_ethernet(__u8 *to, const __u8 *from)
{
	const struct ethhdr *old = (const void *)from;
	struct ethhdr *eth = (void *)to;

	__builtin_memcpy(eth->h_dest, old->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, old->h_dest, ETH_ALEN);
	eth->h_proto = old->h_proto;
}

static __always_inline void receipt_put_udp(struct udphdr *udp, const struct pkt_ctx *pkt)
{
	udp->source = bpf_htons(pkt->sport);
	udp->dest = bpf_htons(ESC_ROCEV2_PORT);
	udp->len = bpf_htons(RECEIPT_UDP_BYTES);
	udp->check = 0;
}

/* @from: the packet's frame, of which the headers are linear. */
static __always_inline void receipt_put_ipv4(__u8 *frame, const __u8 *from,
					     const struct pkt_ctx *pkt)
{
	__u8 *at = frame + ESC_RECEIPT_BTH_AT - RECEIPT_V4_BYTES;
	const struct iphdr *old = (const void *)from + ETH_HLEN;
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = old->tos & ~INET_ECN_MASK,
		.tot_len = bpf_htons(sizeof(ip) + RECEIPT_UDP_BYTES),
		.frag_off = bpf_htons(IP_DF),
		.ttl = RECEIPT_HOP_LIMIT,
		.protocol = IPPROTO_UDP,
		.saddr = old->daddr,
		.daddr = old->saddr,
	};
	__u32 sum = bpf_htons(IPV4_NO_OPTIONS << 8 | (old->tos & ~INET_ECN_MASK));

	sum += ip.tot_len + ip.frag_off + bpf_htons(RECEIPT_HOP_LIMIT << 8 | IPPROTO_UDP);
	sum += (ip.saddr & 0xffff) + (ip.saddr >> 16) + (ip.daddr & 0xffff) + (ip.daddr >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip.check = ~sum;
	receipt_swap_ethernet(at, from);
	__builtin_memcpy(at + ETH_HLEN, &ip, sizeof(ip));
	receipt_put_udp((void *)at + ETH_HLEN + sizeof(ip), pkt);
}

static __always_inline void receipt_put_ipv6(__u8 *frame, const __u8 *from,
					     const struct pkt_ctx *pkt)
{
	__u8 *at = frame + ESC_RECEIPT_BTH_AT - RECEIPT_V6_BYTES;
	const struct ipv6hdr *old = (const void *)from + ETH_HLEN;
	struct ipv6hdr *ip = (void *)at + ETH_HLEN;

	receipt_swap_ethernet(at, from);
	/* The DSCP, but neither ECN nor the flow label. */
	*(__be32 *)ip = ip6_flow_word(old) & bpf_htonl(0xffc00000);
	ip->payload_len = bpf_htons(RECEIPT_UDP_BYTES);
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = RECEIPT_HOP_LIMIT;
	ip->saddr = old->daddr;
	ip->daddr = old->saddr;
	receipt_put_udp((void *)(ip + 1), pkt);
}

/* The headers from Ethernet to UDP. False: the packet has others. */
static __always_inline bool receipt_put_headers(struct __sk_buff *skb, struct esc_receipt_cpu *cpu,
						const struct pkt_ctx *pkt)
{
	const __u8 *data = (const void *)(long)skb->data, *end = (const void *)(long)skb->data_end;
	const struct ethhdr *eth = (const void *)data;
	const void *ip = data + ETH_HLEN;

	if (data + RECEIPT_V4_BYTES > end)
		return false;
	if (eth->h_proto == bpf_htons(ETH_P_IP) && ip_first_byte(ip) == IPV4_NO_OPTIONS) {
		cpu->begin = ESC_RECEIPT_BTH_AT - RECEIPT_V4_BYTES;
		receipt_put_ipv4(cpu->frame, data, pkt);
		return true;
	}
	if (eth->h_proto != bpf_htons(ETH_P_IPV6) || data + RECEIPT_V6_BYTES > end ||
	    ((const struct ipv6hdr *)ip)->nexthdr != IPPROTO_UDP)
		return false;
	cpu->begin = ESC_RECEIPT_BTH_AT - RECEIPT_V6_BYTES;
	receipt_put_ipv6(cpu->frame, data, pkt);
	return true;
}

static __always_inline void receipt_put_bth(struct esc_bth *bth)
{
	__builtin_memset(bth, 0, sizeof(*bth));
	bth->opcode = ESC_PROBE_OPCODE_RECEIPT;
	bth->pkey = bpf_htons(0xffff);
}

static __always_inline void receipt_put_time(struct esc_receipt *r, const struct pkt_ctx *pkt)
{
	struct esc_fabric_time time;

	r->rx_fabric_ns = 0;
	r->rx_bound_ns = 0;
	if (!esc_fabric_at(esc_local_at(pkt->now_ns), &time))
		return;
	r->flags |= ESC_RECEIPT_TIMED;
	r->rx_fabric_ns = bpf_cpu_to_be64(time.fabric_ns);
	r->rx_bound_ns = bpf_htonl(saturate_ns(time.bound_ns));
}

/* From the BTH to the end. */
static __always_inline void receipt_put_body(struct esc_receipt_cpu *cpu,
					     const struct esc_fleet *own, const struct pkt_ctx *pkt,
					     const struct esc_peer *peer, __u64 target)
{
	struct esc_bth *bth = (void *)cpu->frame + ESC_RECEIPT_BTH_AT;
	struct esc_receipt *r = (void *)bth + sizeof(struct esc_bth);
	__u64 key[2] = {};

	receipt_put_bth(bth);
	r->magic = bpf_htonl(ESC_PROBE_MAGIC);
	r->min_version = probe_version_to(own, peer, pkt->now_ns);
	r->flags = (pkt->receipt_flags &
		    (ESC_RECEIPT_RESPONSE | ESC_RECEIPT_CE | ESC_RECEIPT_MESSAGE)) |
		   (esc_plane ? ESC_RECEIPT_PLANE : 0) |
		   (probe_own_slot(own) ? ESC_RECEIPT_KEY : 0);
	r->sport = bpf_htons(pkt->sport);
	r->sender = bpf_cpu_to_be64(own->self);
	r->target = bpf_cpu_to_be64(target);
	r->epoch = bpf_cpu_to_be64(own->epoch);
	receipt_put_time(r, pkt);
	r->dest_qpn = bpf_htonl(pkt->dest_qpn);
	r->psn = bpf_htonl(pkt->psn);
	r->stack_ns = bpf_htonl(saturate_ns(bpf_ktime_get_ns() - pkt->now_ns));
	r->message_ns = bpf_htonl(pkt->message_ns);
	r->version = ESC_PROBE_VERSION;
	r->reserved[0] = 0;
	r->reserved[1] = 0;
	r->reserved[2] = 0;
	r->tag = 0;
	if (probe_key(own, peer, r->min_version, probe_own_slot(own), key))
		r->tag = receipt_tag(key, bth);
	*(__u32 *)(r + 1) = 0;
}

/* --- tc ingress --- */

/* The packet itself is unchanged afterwards, with its mark. */
static __always_inline int receipt_clone(struct __sk_buff *skb, struct esc_receipt_cpu *cpu,
					 __u64 now_ns)
{
	volatile __u32 *stage = &cpu->stage;
	__u32 mark = skb->mark;
	long error;

	*stage = RECEIPT_STAGE_CLONED;
	skb->mark = ESC_RECEIPT_MARK;
	error = bpf_clone_redirect(skb, skb->ifindex, 0);
	skb->mark = mark;
	/* Our tc egress is detached, or a program ahead of it ends the chain: a copy left. */
	if (*stage == RECEIPT_STAGE_CLONED && error >= 0) {
		cpu->resume_ns = now_ns + RECEIPT_BACKOFF_NS;
		error = -1;
	}
	*stage = RECEIPT_STAGE_NONE;
	return error ? ESC_REASON_RECEIPT_CLONE : ESC_REASON_NONE;
}

/* The last stage of tc ingress. */
static __noinline int receipt_build(struct __sk_buff *skb, const struct pkt_ctx *pkt)
{
	struct esc_receipt_cpu *cpu = receipt_cpu_get();
	const struct esc_fleet *own = probe_fleet();
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 target = 0;
	const struct esc_peer *peer = receipt_peer(&pkt->key.src, now_ns, &target);

	if (!cpu || !own || !own->self || !peer || cpu->stage != RECEIPT_STAGE_NONE)
		return ESC_REASON_NONE;
	if (!receipt_put_headers(skb, cpu, pkt))
		return ESC_REASON_RECEIPT_HEADERS;
	if ((__s64)(cpu->resume_ns - now_ns) > 0)
		return ESC_REASON_RECEIPT_CLONE;
	if (!receipt_rate_limit(cpu, now_ns, pkt->ctl->receipts_max_pps))
		return ESC_REASON_RECEIPT_RATE;
	receipt_put_body(cpu, own, pkt, peer, target);
	return receipt_clone(skb, cpu, now_ns);
}

#endif

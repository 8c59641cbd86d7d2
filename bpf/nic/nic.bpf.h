/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs of NIC failover have in common: headers, counts, the daemon's word. */
#ifndef ESC_BPF_NIC_NIC_H
#define ESC_BPF_NIC_NIC_H

#include "lib/tc.bpf.h"

/* The redirect fails behind the program: the packet ends and its sender hears of success. */
#define NIC_NOWHERE 0x7fffffffu
#define NIC_BTH_MANUFACTURER                                                                       \
	0xc0 /* opcodes from here on: probes and receipts, never failed over                       \
	      */

struct nic_packet {
	struct esc_address src, dst;
	__u32 ip_bytes;	     /* of the packet's own IP header, 20 or 40 */
	__u32 total;	     /* IP packet, as its header says */
	__be32 first_word;   /* IPv6: version, class, flow label */
	__be16 sport, dport; /* 0 when it is not UDP */
	__u8 tos, version, opcode;
};

union nic_ip {
	struct iphdr v4;
	struct ipv6hdr v6;
};

static __always_inline void nic_count_reason(__u32 reason, bool egress)
{
	struct esc_reason_count *why = bpf_map_lookup_elem(&reasons, &reason);

	if (why && egress)
		why->tc_egress++;
	else if (why)
		why->tc_ingress++;
}

static __always_inline struct esc_nic_counts *nic_counts_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nic_counts, &zero);
}

#define nic_count(field)                                                                           \
	({                                                                                         \
		struct esc_nic_counts *counts = nic_counts_get();                                  \
		if (counts)                                                                        \
			counts->field++;                                                           \
	})

static __always_inline struct esc_nic_word *nic_word_get(void)
{
	__u32 zero = 0;
	struct esc_nic_word *word = bpf_map_lookup_elem(&nic_word, &zero);

	return word && word->flags ? word : NULL;
}

/* The UDP port of a kind, host order; 0: failover is off. */
static __always_inline __u16 nic_port(__u32 kind)
{
	const struct esc_nic_word *word = nic_word_get();

	return word && word->flags & ESC_NIC_ON ? word->port + kind : 0;
}

/* Neither the kill switch nor a daemon that is gone. */
static __always_inline bool nic_is_led(__u64 now_ns)
{
	const struct esc_nic_word *word = nic_word_get();

	return word && control_get() &&
	       (__s64)(now_ns - word->beat_ktime_ns) <= (__s64)ESC_HEARTBEAT_DEAD_NS;
}

static __always_inline void nic_set_v4(struct esc_address *out, __be32 address)
{
	__u32 *words = (__u32 *)out;

	words[0] = 0;
	words[1] = 0;
	words[2] = bpf_htonl(0xffff);
	words[3] = address;
}

static __always_inline __be32 nic_v4(const struct esc_address *address)
{
	return ((const __u32 *)address)[3];
}

static __always_inline bool nic_has(const struct esc_address *address)
{
	const __u32 *words = (const __u32 *)address;

	return words[0] | words[1] | words[2] | words[3];
}

static __always_inline bool nic_same(const struct esc_address *a, const struct esc_address *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3];
}

static __always_inline void nic_take_v4(struct nic_packet *p, const struct iphdr *ip)
{
	nic_set_v4(&pkt->src, ip->src);
	nic_set_v4(&pkt->dst, ip->dst);
	pkt->ip_bytes = sizeof(*ip);
	pkt->total = bpf_ntohs(ip->total_bytes);
	pkt->tos = ip->tos;
	pkt->version = 4;
}

static __always_inline void nic_take_v6(struct nic_packet *p, const struct ipv6hdr *ip)
{
	__builtin_memcpy(&pkt->src, ip->src, sizeof(pkt->src));
	__builtin_memcpy(&pkt->dst, ip->dst, sizeof(pkt->dst));
	pkt->ip_bytes = sizeof(*ip);
	pkt->total = sizeof(*ip) + bpf_ntohs(ip->payload_bytes);
	pkt->first_word = ip->word;
	pkt->tos = bpf_ntohl(ip->word) >> 20;
	pkt->version = 6;
}

/* The IP header at @at. False: it is none, or not one that is handled here. */
static __always_inline bool nic_read_ip(struct __sk_buff *skb, __u32 at, __be16 ethertype,
					struct nic_packet *p, __u8 *protocol)
{
	union nic_ip ip;

	if (ethertype == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, at, &ip.v4, sizeof(ip.v4)) ||
		    ip.v4.version_words >> 4 != 4)
			return false;
		nic_take_v4(p, &ip.v4);
		*protocol = ip.v4.protocol;
		if (ip.v4.version_words != 0x45 || ip.v4.fragment & bpf_htons(ESC_IPV4_FRAGMENT))
			*protocol = 0;
		return true;
	}
	if (ethertype != bpf_htons(ETH_P_IPV6) ||
	    bpf_skb_load_bytes(skb, at, &ip.v6, sizeof(ip.v6)) ||
	    (bpf_ntohl(ip.v6.word) >> 28) != 6)
		return false;
	nic_take_v6(p, &ip.v6);
	*protocol = ip.v6.next;
	return true;
}

/* IP and UDP at @at, and the BTH's opcode where it is RoCEv2. Ports are 0 without UDP. */
static __always_inline bool nic_read(struct __sk_buff *skb, __u32 at, __be16 ethertype,
				     struct nic_packet *p)
{
	struct udphdr udp;
	__u8 protocol;

	pkt->sport = 0;
	pkt->dport = 0;
	pkt->opcode = 0xff;
	if (!nic_read_ip(skb, at, ethertype, p, &protocol))
		return false;
	if (protocol != IPPROTO_UDP)
		return true;
	if (bpf_skb_load_bytes(skb, at + pkt->ip_bytes, &udp, sizeof(udp)))
		return true;
	pkt->sport = udp.src;
	pkt->dport = udp.dst;
	if (udp.dst == bpf_htons(ESC_ROCEV2_PORT))
		bpf_skb_load_bytes(skb, at + pkt->ip_bytes + sizeof(udp), &pkt->opcode, 1);
	return true;
}

static __always_inline bool nic_is_roce(const struct nic_packet *p)
{
	return pkt->dport == bpf_htons(ESC_ROCEV2_PORT) && pkt->opcode < NIC_BTH_MANUFACTURER;
}

#endif

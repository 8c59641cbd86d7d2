/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the programs of NIC failover: headers, counters, the control block. */
#ifndef ESC_BPF_NIC_NIC_H
#define ESC_BPF_NIC_NIC_H

#include "lib/tc.bpf.h"

/* The redirect fails behind the program: the packet is dropped and its sender sees success. */
#define NIC_NO_DEVICE 0x7fffffffu
/* Manufacturer opcodes from here on: probes and receipts, which never fail over. */
#define NIC_BTH_MANUFACTURER 0xc0

struct nic_packet {
	struct esc_address src, dst;
	__u32 ip_bytes;	     /* IP header, 20 or 40 */
	__u32 total;	     /* IP packet, by its header */
	__be32 flow_word;    /* IPv6: version, traffic class, flow label */
	__be16 sport, dport; /* 0: not UDP */
	__u8 tos, version, opcode;
};

union nic_ip {
	struct iphdr v4;
	struct ipv6hdr v6;
};

static __always_inline void nic_count_reason(__u32 reason, bool egress)
{
	struct esc_reason_count *counts = bpf_map_lookup_elem(&reasons, &reason);

	if (counts && egress)
		counts->tc_egress++;
	else if (counts)
		counts->tc_ingress++;
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

/* NULL: no pair of NICs is configured. */
static __always_inline struct esc_nic_control *nic_ctl_get(void)
{
	__u32 zero = 0;
	struct esc_nic_control *ctl = bpf_map_lookup_elem(&nic_control, &zero);

	return ctl && ctl->flags ? ctl : NULL;
}

/* The UDP port of a kind, host order; 0: failover is off. */
static __always_inline __u16 nic_port(__u32 kind)
{
	const struct esc_nic_control *ctl = nic_ctl_get();

	return ctl && ctl->flags & ESC_NIC_ON ? ctl->port + kind : 0;
}

/* False: the kill switch is set, or the daemon is gone. */
static __always_inline bool nic_has_daemon(__u64 now_ns)
{
	const struct esc_nic_control *ctl = nic_ctl_get();

	return ctl && control_get() &&
	       (__s64)(now_ns - ctl->heartbeat_ktime_ns) <= (__s64)ESC_HEARTBEAT_TIMEOUT_NS;
}

static __always_inline void nic_address_set_v4(struct esc_address *out, __be32 address)
{
	__u32 *words = (__u32 *)out;

	words[0] = 0;
	words[1] = 0;
	words[2] = bpf_htonl(0xffff);
	words[3] = address;
}

static __always_inline __be32 nic_address_v4(const struct esc_address *address)
{
	return ((const __u32 *)address)[3];
}

static __always_inline bool nic_address_is_set(const struct esc_address *address)
{
	const __u32 *words = (const __u32 *)address;

	return words[0] | words[1] | words[2] | words[3];
}

static __always_inline bool nic_same(const struct esc_address *a, const struct esc_address *b)
{
	const __u32 *one = (const __u32 *)a, *other = (const __u32 *)b;

	return !((one[0] ^ other[0]) | (one[1] ^ other[1]) | (one[2] ^ other[2]) |
		 (one[3] ^ other[3]));
}

static __always_inline void nic_parse_v4(struct nic_packet *p, const struct iphdr *ip)
{
	nic_address_set_v4(&p->src, ip->saddr);
	nic_address_set_v4(&p->dst, ip->daddr);
	p->ip_bytes = sizeof(*ip);
	p->total = bpf_ntohs(ip->tot_len);
	p->tos = ip->tos;
	p->version = 4;
}

static __always_inline void nic_parse_v6(struct nic_packet *p, const struct ipv6hdr *ip)
{
	__builtin_memcpy(&p->src, &ip->saddr, sizeof(p->src));
	__builtin_memcpy(&p->dst, &ip->daddr, sizeof(p->dst));
	p->ip_bytes = sizeof(*ip);
	p->total = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	p->flow_word = ip6_flow_word(ip);
	p->tos = bpf_ntohl(p->flow_word) >> 20;
	p->version = 6;
}

/* The IP header at @at. False: there is none. @protocol is 0 where UDP is not parsed. */
static __always_inline bool nic_parse_ip(struct __sk_buff *skb, __u32 at, __be16 ethertype,
					 struct nic_packet *p, __u8 *protocol)
{
	union nic_ip ip;

	if (ethertype == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, at, &ip.v4, sizeof(ip.v4)) ||
		    ip_first_byte(&ip) >> 4 != 4)
			return false;
		nic_parse_v4(p, &ip.v4);
		*protocol = ip.v4.protocol;
		if (ip_first_byte(&ip) != IPV4_NO_OPTIONS ||
		    ip.v4.frag_off & bpf_htons(IP_MF | IP_OFFSET))
			*protocol = 0;
		return true;
	}
	if (ethertype != bpf_htons(ETH_P_IPV6) ||
	    bpf_skb_load_bytes(skb, at, &ip.v6, sizeof(ip.v6)) || ip_first_byte(&ip) >> 4 != 6)
		return false;
	nic_parse_v6(p, &ip.v6);
	*protocol = ip.v6.nexthdr;
	return true;
}

/* IP and UDP at @at, and the opcode of RoCEv2. Ports are 0 without UDP. */
static __always_inline bool nic_parse(struct __sk_buff *skb, __u32 at, __be16 ethertype,
				      struct nic_packet *p)
{
	struct udphdr udp;
	__u8 protocol;

	p->sport = 0;
	p->dport = 0;
	p->opcode = 0xff;
	if (!nic_parse_ip(skb, at, ethertype, p, &protocol))
		return false;
	if (protocol != IPPROTO_UDP)
		return true;
	if (bpf_skb_load_bytes(skb, at + p->ip_bytes, &udp, sizeof(udp)))
		return true;
	p->sport = udp.source;
	p->dport = udp.dest;
	if (udp.dest == bpf_htons(ESC_ROCEV2_PORT))
		bpf_skb_load_bytes(skb, at + p->ip_bytes + sizeof(udp), &p->opcode, 1);
	return true;
}

static __always_inline bool nic_is_roce(const struct nic_packet *p)
{
	return p->dport == bpf_htons(ESC_ROCEV2_PORT) && p->opcode < NIC_BTH_MANUFACTURER;
}

#endif

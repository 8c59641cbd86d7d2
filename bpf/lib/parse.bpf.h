/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parser from a frame to a RoCEv2 packet. One cursor moves over the linear part of the frame;
 * lengths are taken from the IP header, because headers may be followed by Ethernet padding or
 * lie in the first of several buffers.
 *
 * The order of the checks defines the reasons: a packet that cannot be RoCE leaves without one,
 * as early as possible.
 *
 * The parser is compiled twice. The fast one runs on every packet, handles common ones and
 * returns PKT_SLOW for the rest; it is small, because in real traffic its instructions are cold
 * in the cache. The thorough one starts again and determines the reason.
 */
#ifndef ESC_BPF_LIB_PARSE_H
#define ESC_BPF_LIB_PARSE_H

#include "lib/packet.bpf.h"

#define PARSE_VLAN_DEPTH 2
#define PARSE_IPV6_EXTENSIONS 6 /* maximum number of extension headers */

struct cursor {
	void *context; /* struct xdp_md or struct __sk_buff */
	bool skb;      /* constant where the parser is compiled, as is: */
	bool thorough;
	void *start;
	void *end; /* of the linear part */
	void *at;
	__u64 ip_end; /* from the start of the frame to the end of the IP packet */
};

/*
 * The verifier takes the difference of two packet pointers in 64 bits and
 * before anything is added to it; the compiler would do otherwise.
 */
static __always_inline __u64 cursor_offset(const struct cursor *c)
{
	__u64 offset = c->at - c->start;

	barrier_var(offset);
	return offset;
}

/* The frame's length with all its buffers: a helper call in XDP, so called last. */
static __always_inline __u64 cursor_frame_bytes(const struct cursor *c)
{
	if (c->skb)
		return ((struct __sk_buff *)c->context)->len;
	return bpf_xdp_get_buff_len((struct xdp_md *)c->context);
}

/* A packet that is not plain RoCEv2. */
static __always_inline int cursor_fault(const struct cursor *c, enum esc_reason reason)
{
	return c->thorough ? (int)reason : PKT_SLOW;
}

/* The linear part ends before @bytes more: is it the frame that does? */
static __always_inline int cursor_short(const struct cursor *c, __u64 bytes, enum esc_reason reason)
{
	if (!c->thorough)
		return PKT_SLOW;
	return cursor_frame_bytes(c) >= cursor_offset(c) + bytes ? ESC_REASON_UNREADABLE : reason;
}

/* The IP packet continues behind the end of the frame. */
static __always_inline bool cursor_is_cut(const struct cursor *c)
{
	return unlikely(c->ip_end > (__u64)(c->end - c->start)) &&
	       c->ip_end > cursor_frame_bytes(c);
}

#define cursor_has(c, bytes) likely((c)->at + (bytes) <= (c)->end)

/* Leaves the ethertype that is not a VLAN's in @ethertype. */
static __always_inline int parse_ethernet(struct cursor *c, __u16 *ethertype)
{
	int depth;

	if (!cursor_has(c, ETH_HLEN))
		return cursor_short(c, ETH_HLEN, ESC_REASON_SHORT_ETHERNET);
	*ethertype = ((const struct ethhdr *)c->at)->h_proto;
	c->at += ETH_HLEN;
#pragma unroll
	for (depth = 0; depth <= PARSE_VLAN_DEPTH; depth++) {
		if (likely(*ethertype != bpf_htons(ETH_P_8021Q) &&
			   *ethertype != bpf_htons(ETH_P_8021AD)))
			return ESC_REASON_NONE;
		if (depth == PARSE_VLAN_DEPTH)
			break;
		if (!cursor_has(c, VLAN_HLEN))
			return cursor_short(c, VLAN_HLEN, ESC_REASON_SHORT_VLAN);
		*ethertype = ((const struct vlan_hdr *)c->at)->h_vlan_encapsulated_proto;
		c->at += VLAN_HLEN;
	}
	return cursor_fault(c, ESC_REASON_VLAN_DEPTH);
}

static __always_inline void packet_set_ipv4(struct pkt_ctx *pkt, const struct iphdr *ip)
{
	__u64 *src = (__u64 *)&pkt->key.src, *dst = (__u64 *)&pkt->key.dst;

	src[0] = 0;
	src[1] = (__u64)ip->saddr << 32 | bpf_htonl(0xffff);
	dst[0] = 0;
	dst[1] = (__u64)ip->daddr << 32 | bpf_htonl(0xffff);
	pkt->ecn = ip->tos & INET_ECN_MASK;
	pkt->ip_version = 4;
}

static __always_inline int parse_ipv4(struct cursor *c, struct pkt_ctx *pkt)
{
	const struct iphdr *ip = c->at;
	__u32 header = sizeof(*ip), total;

	if (!cursor_has(c, sizeof(*ip)))
		return cursor_short(c, sizeof(*ip), ESC_REASON_SHORT_IP);
	if (unlikely(ip_first_byte(ip) != IPV4_NO_OPTIONS)) {
		if (!c->thorough)
			return PKT_SLOW;
		header = (ip_first_byte(ip) & 0xf) * 4;
		if (ip_first_byte(ip) >> 4 != 4 || header < sizeof(*ip))
			return cursor_fault(c, ESC_REASON_BAD_IP_HEADER);
	}
	if (unlikely(ip->protocol != IPPROTO_UDP))
		return PKT_DONE;
	total = bpf_ntohs(ip->tot_len);
	if (unlikely(total < header))
		return cursor_fault(c, ESC_REASON_BAD_IP_HEADER);
	if (unlikely(ip->frag_off & bpf_htons(IP_MF | IP_OFFSET)))
		return cursor_fault(c, ESC_REASON_FRAGMENT);
	packet_set_ipv4(pkt, ip);
	if (c->skb)
		pkt->dscp = ip->tos >> 2;
	pkt->bytes = total;
	c->ip_end = cursor_offset(c) + total;
	if (unlikely(header != sizeof(*ip)) && !cursor_has(c, header))
		return cursor_short(c, header, ESC_REASON_SHORT_IP);
	c->at += header;
	return ESC_REASON_NONE;
}

static __always_inline void packet_set_ipv6(struct pkt_ctx *pkt, const struct ipv6hdr *ip)
{
	const __u64 *from = (const void *)ip + offsetof(struct ipv6hdr, saddr);
	__u64 *src = (__u64 *)&pkt->key.src, *dst = (__u64 *)&pkt->key.dst;

	src[0] = from[0];
	src[1] = from[1];
	dst[0] = from[2];
	dst[1] = from[3];
	pkt->ecn = bpf_ntohl(ip6_flow_word(ip)) >> 20 & INET_ECN_MASK;
	pkt->ip_version = 6;
}

static __always_inline bool ipv6_is_extension(__u8 next)
{
	return next == NEXTHDR_HOP || next == NEXTHDR_ROUTING || next == NEXTHDR_FRAGMENT ||
	       next == NEXTHDR_DEST;
}

/* Steps over one extension header of kind @next; an atomic fragment is one. */
static __always_inline int parse_ipv6_extension(struct cursor *c, __u8 *next)
{
	const struct ipv6_opt_hdr *header = c->at;
	const struct frag_hdr *fragment = c->at;
	__u32 bytes = sizeof(*fragment);
	__u8 kind = *next;

	if (!cursor_has(c, bytes))
		return cursor_short(c, bytes, ESC_REASON_SHORT_IP);
	*next = header->nexthdr;
	if (kind == NEXTHDR_FRAGMENT) {
		if (fragment->frag_off & bpf_htons(IP6_MF | IP6_OFFSET))
			return *next == IPPROTO_UDP || ipv6_is_extension(*next)
				       ? ESC_REASON_FRAGMENT
				       : PKT_DONE;
	} else {
		bytes += header->hdrlen * 8;
	}
	if (!cursor_has(c, bytes))
		return cursor_short(c, bytes, ESC_REASON_SHORT_IP);
	c->at += bytes;
	return ESC_REASON_NONE;
}

static __always_inline int parse_ipv6(struct cursor *c, struct pkt_ctx *pkt)
{
	const struct ipv6hdr *ip = c->at;
	__u8 next;
	int i, result;

	if (!cursor_has(c, sizeof(*ip)))
		return cursor_short(c, sizeof(*ip), ESC_REASON_SHORT_IP);
	if (ip_first_byte(ip) >> 4 != 6)
		return cursor_fault(c, ESC_REASON_BAD_IP_HEADER);
	next = ip->nexthdr;
	if (next != IPPROTO_UDP && !ipv6_is_extension(next))
		return PKT_DONE;
	packet_set_ipv6(pkt, ip);
	if (c->skb) {
		pkt->ip_offset = cursor_offset(c);
		pkt->dscp = bpf_ntohl(ip6_flow_word(ip)) >> 22 & 63;
	}
	pkt->bytes = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	c->ip_end = cursor_offset(c) + pkt->bytes;
	c->at += sizeof(*ip);
	if (likely(next == IPPROTO_UDP))
		return ESC_REASON_NONE;
	if (!c->thorough)
		return PKT_SLOW;
	for (i = 0; i < PARSE_IPV6_EXTENSIONS; i++) {
		result = parse_ipv6_extension(c, &next);
		if (result)
			return result;
		if (next == IPPROTO_UDP)
			return ESC_REASON_NONE;
		if (!ipv6_is_extension(next))
			return PKT_DONE;
	}
	return cursor_fault(c, ESC_REASON_IPV6_EXTENSIONS);
}

/* The headers behind the BTH that the accounting reads. */
static __always_inline int parse_extension(struct cursor *c, struct pkt_ctx *pkt)
{
	__u32 skip = pkt->op_flags & ESC_OP_XRC ? ESC_XRCETH_BYTES : 0;

	if (unlikely(pkt->op_flags & ESC_OP_AETH)) {
		if (!cursor_has(c, sizeof(struct esc_aeth)))
			return cursor_fault(c, ESC_REASON_UNREADABLE);
		pkt->aeth = bpf_ntohl(((struct esc_aeth *)c->at)->word);
	} else if (unlikely(pkt->op_flags & ESC_OP_READ_REQUEST)) {
		c->at += skip;
		if (!cursor_has(c, sizeof(struct esc_reth)))
			return cursor_fault(c, ESC_REASON_UNREADABLE);
		pkt->read_bytes = bpf_ntohl(((struct esc_reth *)c->at)->length);
	}
	return ESC_REASON_NONE;
}

static __always_inline bool opcode_is_path_probe(__u8 opcode)
{
	return opcode == ESC_PROBE_OPCODE_PATH_REQUEST || opcode == ESC_PROBE_OPCODE_PATH_REPLY;
}

static __always_inline bool opcode_is_probe(__u8 opcode)
{
	return opcode == ESC_PROBE_OPCODE_REQUEST || opcode == ESC_PROBE_OPCODE_REPLY ||
	       opcode == ESC_PROBE_OPCODE_WARMUP || opcode == ESC_PROBE_OPCODE_RECEIPT ||
	       opcode_is_path_probe(opcode);
}

/* The BTH is there; @other is what it is without a probe's opcode and magic. */
static __always_inline int parse_probe(const struct cursor *c, struct pkt_ctx *pkt, __u32 udp_bytes,
				       int other)
{
	const struct esc_bth *bth = c->at;
	const __be32 *magic = (const void *)(bth + 1);

	if (!opcode_is_probe(bth->opcode) ||
	    udp_bytes < sizeof(struct udphdr) + sizeof(*bth) + sizeof(*magic))
		return other;
	if (!cursor_has(c, sizeof(*bth) + sizeof(*magic)))
		return cursor_fault(c, ESC_REASON_UNREADABLE);
	if (*magic != bpf_htonl(ESC_PROBE_MAGIC))
		return other;
	pkt->bth_offset = cursor_offset(c);
	pkt->opcode = bth->opcode;
	return PKT_PROBE;
}

static __always_inline int parse_bth(struct cursor *c, struct pkt_ctx *pkt, __u32 udp_bytes)
{
	const struct esc_bth *bth = c->at;
	const struct esc_opcode_info *info;
	__s32 payload = udp_bytes - sizeof(struct udphdr) - sizeof(struct esc_bth) - ESC_ICRC_BYTES;
	__u32 word;

	if (unlikely(payload < 0))
		return cursor_fault(c, ESC_REASON_SHORT_BTH);
	if (!cursor_has(c, sizeof(struct esc_bth)))
		return cursor_fault(c, ESC_REASON_UNREADABLE);
	if (unlikely(ESC_BTH_VERSION(bth->flags)))
		return cursor_fault(c, ESC_REASON_BTH_VERSION);
	info = &esc_opcodes[bth->opcode];
	pkt->op_flags = info->flags;
	if (unlikely(!pkt->op_flags))
		return parse_probe(c, pkt, udp_bytes, cursor_fault(c, ESC_REASON_UNKNOWN_OPCODE));
	payload -= info->extension_bytes + ESC_BTH_PAD(bth->flags);
	if (unlikely(payload < 0))
		return cursor_fault(c, ESC_REASON_SHORT_EXTENSION);
	pkt->payload_bytes = payload;
	pkt->opcode = bth->opcode;
	word = bpf_ntohl(bth->psn);
	pkt->psn = word & ESC_PSN_MASK;
	pkt->op_flags |= word & ESC_BTH_ACK_REQUEST ? ESC_OP_ACK_REQUEST : 0;
	pkt->dest_qpn = bpf_ntohl(bth->qpn) & ESC_QPN_MASK;
	c->at += sizeof(struct esc_bth);
	return parse_extension(c, pkt);
}

/* A datagram to the probe port: a probe, or not ours. */
static __always_inline int parse_probe_port(const struct cursor *c, struct pkt_ctx *pkt,
					    __u32 udp_bytes)
{
	if (udp_bytes < sizeof(struct udphdr) + sizeof(struct esc_bth))
		return cursor_fault(c, ESC_REASON_PROBE_VERSION);
	if (!cursor_has(c, sizeof(struct esc_bth)))
		return cursor_fault(c, ESC_REASON_UNREADABLE);
	return parse_probe(c, pkt, udp_bytes, cursor_fault(c, ESC_REASON_PROBE_VERSION));
}

static __always_inline int parse_udp(struct cursor *c, struct pkt_ctx *pkt)
{
	const struct udphdr *udp = c->at;
	__u64 at = cursor_offset(c);
	bool probe_port = false;
	__u32 bytes;

	if (unlikely(at + sizeof(*udp) > c->ip_end))
		return cursor_fault(c, ESC_REASON_SHORT_UDP);
	if (!cursor_has(c, sizeof(*udp)))
		return cursor_short(c, sizeof(*udp), ESC_REASON_IP_LENGTH);
	if (unlikely(udp->dest != bpf_htons(ESC_ROCEV2_PORT))) {
		probe_port = esc_probe_port && udp->dest == bpf_htons(esc_probe_port);
		if (!probe_port)
			return PKT_DONE;
	}
	if (c->thorough && cursor_is_cut(c))
		return ESC_REASON_IP_LENGTH;
	bytes = bpf_ntohs(udp->len);
	if (unlikely(bytes < sizeof(*udp) || at + bytes > c->ip_end))
		return cursor_fault(c, ESC_REASON_UDP_LENGTH);
	pkt->sport = bpf_ntohs(udp->source);
	if (c->skb)
		pkt->udp_offset = at;
	c->at += sizeof(*udp);
	if (unlikely(probe_port))
		return parse_probe_port(c, pkt, bytes);
	return parse_bth(c, pkt, bytes);
}

/* The first stage of every hook. */
static __always_inline int parse_packet(struct cursor *c, struct pkt_ctx *pkt)
{
	__u16 ethertype;
	int result;

	result = parse_ethernet(c, &ethertype);
	if (result)
		return result;
	if (likely(ethertype == bpf_htons(ETH_P_IP)))
		result = parse_ipv4(c, pkt);
	else if (ethertype == bpf_htons(ETH_P_IPV6))
		result = parse_ipv6(c, pkt);
	else if (ethertype == bpf_htons(ESC_ETHERTYPE_ROCEV1))
		return cursor_fault(c, ESC_REASON_ROCEV1);
	else
		return PKT_DONE;
	if (unlikely(result))
		return result;
	result = parse_udp(c, pkt);
	/* Last: a helper call in the middle would cost registers. */
	if (!c->thorough && (!result || result == PKT_PROBE) && cursor_is_cut(c))
		return PKT_SLOW;
	return result;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a frame to a RoCEv2 packet. One cursor moves over the linear part of
 * the frame; lengths are taken from the IP header, because headers may be
 * followed by Ethernet padding or lie in the first of several buffers.
 *
 * The order of the checks is the contract of the reasons: a packet that cannot
 * be RoCE leaves without one, as soon as that is known.
 *
 * The parser is compiled twice. The quick one runs on every packet, takes what
 * is common and gives the rest up as ESC_PARSE_SLOW; it is small, because in
 * real traffic its instructions come cold from the cache. The thorough one
 * does it all again and names the reason.
 */
#ifndef ESC_BPF_LIB_PARSE_H
#define ESC_BPF_LIB_PARSE_H

#include "lib/packet.bpf.h"
#include <bpf/bpf_endian.h>

/* Results of parsing; others are enum esc_reason. */
#define ESC_PARSE_ROCE (-1)
#define ESC_PARSE_OTHER (-2)
/* A step of the parser that found nothing to end it. */
#define ESC_PARSE_ON (-3)
/* For the thorough parser to judge. */
#define ESC_PARSE_SLOW (-4)
/* A datagram with a probe's opcode and magic; p->probe_offset is where its BTH begins. */
#define ESC_PARSE_PROBE (-5)

#define ESC_ETHERTYPE_VLAN 0x8100
#define ESC_ETHERTYPE_QINQ 0x88a8
#define ESC_ETHERTYPE_IPV4 0x0800
#define ESC_ETHERTYPE_IPV6 0x86dd
#define ESC_ETHERNET_BYTES 14
#define ESC_VLAN_BYTES 4
#define ESC_VLAN_DEPTH 2
#define ESC_PROTOCOL_UDP 17
#define ESC_IPV4_FRAGMENT 0x3fff /* more fragments, or an offset */
#define ESC_IPV6_FRAGMENT 0xfff9
#define ESC_IPV6_EXTENSIONS 6 /* headers walked before UDP must come */
#define ESC_BTH_BYTES 12
#define ESC_XRCETH_BYTES 4

struct esc_ipv4 {
	__u8 version_words;
	__u8 tos;
	__be16 total_bytes;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 check;
	__be32 src;
	__be32 dst;
};

struct esc_ipv6 {
	__be32 word; /* version 4, traffic class 8, flow label 20 */
	__be16 payload_bytes;
	__u8 next;
	__u8 hop_limit;
	__u8 src[16];
	__u8 dst[16];
};

struct esc_udp {
	__be16 src;
	__be16 dst;
	__be16 bytes;
	__be16 check;
};

struct esc_cursor {
	void *context; /* struct xdp_md or struct __sk_buff */
	bool skb;      /* known when compiling, as is: */
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
static __always_inline __u64 cursor_offset(const struct esc_cursor *c)
{
	__u64 offset = c->at - c->start;

	barrier_var(offset);
	return offset;
}

/* The frame's length with all its buffers: a helper call in XDP, so asked for last. */
static __always_inline __u64 cursor_frame_bytes(const struct esc_cursor *c)
{
	if (c->skb)
		return ((struct __sk_buff *)c->context)->len;
	return bpf_xdp_get_buff_len((struct xdp_md *)c->context);
}

/* A packet that is not plainly RoCEv2. */
static __always_inline int cursor_fault(const struct esc_cursor *c, enum esc_reason reason)
{
	return c->thorough ? (int)reason : ESC_PARSE_SLOW;
}

/* The linear part ends before @bytes more: is it the frame that does? */
static __always_inline int cursor_short(const struct esc_cursor *c, __u64 bytes,
					enum esc_reason reason)
{
	if (!c->thorough)
		return ESC_PARSE_SLOW;
	return cursor_frame_bytes(c) >= cursor_offset(c) + bytes ? ESC_REASON_UNREADABLE : reason;
}

/* The IP packet goes on behind the end of the frame. */
static __always_inline bool cursor_is_cut(const struct esc_cursor *c)
{
	return unlikely(c->ip_end > (__u64)(c->end - c->start)) &&
	       c->ip_end > cursor_frame_bytes(c);
}

#define cursor_has(c, bytes) likely((c)->at + (bytes) <= (c)->end)

/* Leaves the ethertype that is not a VLAN's in @ethertype. */
static __always_inline int parse_ethernet(struct esc_cursor *c, __u16 *ethertype)
{
	int depth;

	if (!cursor_has(c, ESC_ETHERNET_BYTES))
		return cursor_short(c, ESC_ETHERNET_BYTES, ESC_REASON_SHORT_ETHERNET);
	*ethertype = *(__be16 *)(c->at + 12);
	c->at += ESC_ETHERNET_BYTES;
#pragma unroll
	for (depth = 0; depth <= ESC_VLAN_DEPTH; depth++) {
		if (likely(*ethertype != bpf_htons(ESC_ETHERTYPE_VLAN) &&
			   *ethertype != bpf_htons(ESC_ETHERTYPE_QINQ)))
			return ESC_PARSE_ON;
		if (depth == ESC_VLAN_DEPTH)
			break;
		if (!cursor_has(c, ESC_VLAN_BYTES))
			return cursor_short(c, ESC_VLAN_BYTES, ESC_REASON_SHORT_VLAN);
		*ethertype = *(__be16 *)(c->at + 2);
		c->at += ESC_VLAN_BYTES;
	}
	return cursor_fault(c, ESC_REASON_VLAN_DEPTH);
}

static __always_inline void packet_set_ipv4(struct esc_packet *p, const struct esc_ipv4 *ip)
{
	__u64 *src = (__u64 *)&p->key.src, *dst = (__u64 *)&p->key.dst;

	src[0] = 0;
	src[1] = (__u64)ip->src << 32 | bpf_htonl(0xffff);
	dst[0] = 0;
	dst[1] = (__u64)ip->dst << 32 | bpf_htonl(0xffff);
	p->ecn = ip->tos & 3;
	p->ip_version = 4;
}

static __always_inline int parse_ipv4(struct esc_cursor *c, struct esc_packet *p)
{
	const struct esc_ipv4 *ip = c->at;
	__u32 header = sizeof(*ip), total;

	if (!cursor_has(c, sizeof(*ip)))
		return cursor_short(c, sizeof(*ip), ESC_REASON_SHORT_IP);
	if (unlikely(ip->version_words != 0x45)) {
		if (!c->thorough)
			return ESC_PARSE_SLOW;
		header = (ip->version_words & 0xf) * 4;
		if (ip->version_words >> 4 != 4 || header < sizeof(*ip))
			return cursor_fault(c, ESC_REASON_BAD_IP_HEADER);
	}
	if (unlikely(ip->protocol != ESC_PROTOCOL_UDP))
		return ESC_PARSE_OTHER;
	total = bpf_ntohs(ip->total_bytes);
	if (unlikely(total < header))
		return cursor_fault(c, ESC_REASON_BAD_IP_HEADER);
	if (unlikely(ip->fragment & bpf_htons(ESC_IPV4_FRAGMENT)))
		return cursor_fault(c, ESC_REASON_FRAGMENT);
	packet_set_ipv4(p, ip);
	if (c->skb)
		p->dscp = ip->tos >> 2;
	p->bytes = total;
	c->ip_end = cursor_offset(c) + total;
	if (unlikely(header != sizeof(*ip)) && !cursor_has(c, header))
		return cursor_short(c, header, ESC_REASON_SHORT_IP);
	c->at += header;
	return ESC_PARSE_ON;
}

static __always_inline void packet_set_ipv6(struct esc_packet *p, const struct esc_ipv6 *ip)
{
	const __u64 *from = (const void *)ip + offsetof(struct esc_ipv6, src);
	__u64 *src = (__u64 *)&p->key.src, *dst = (__u64 *)&p->key.dst;

	src[0] = from[0];
	src[1] = from[1];
	dst[0] = from[2];
	dst[1] = from[3];
	p->ecn = bpf_ntohl(ip->word) >> 20 & 3;
	p->ip_version = 6;
}

#define ESC_IPV6_HOP_BY_HOP 0
#define ESC_IPV6_ROUTING 43
#define ESC_IPV6_FRAGMENT_HEADER 44
#define ESC_IPV6_DESTINATION 60

static __always_inline bool ipv6_is_extension(__u8 next)
{
	return next == ESC_IPV6_HOP_BY_HOP || next == ESC_IPV6_ROUTING ||
	       next == ESC_IPV6_FRAGMENT_HEADER || next == ESC_IPV6_DESTINATION;
}

/* Steps over one extension header of kind @next; an atomic fragment goes on. */
static __always_inline int parse_ipv6_extension(struct esc_cursor *c, __u8 *next)
{
	const __u8 *header = c->at;
	__u8 kind = *next;
	__u32 bytes = 8;

	if (!cursor_has(c, 8))
		return cursor_short(c, 8, ESC_REASON_SHORT_IP);
	*next = header[0];
	if (kind == ESC_IPV6_FRAGMENT_HEADER) {
		if (*(__be16 *)(header + 2) & bpf_htons(ESC_IPV6_FRAGMENT))
			return *next == ESC_PROTOCOL_UDP || ipv6_is_extension(*next)
				       ? ESC_REASON_FRAGMENT
				       : ESC_PARSE_OTHER;
	} else {
		bytes += header[1] * 8;
	}
	if (!cursor_has(c, bytes))
		return cursor_short(c, bytes, ESC_REASON_SHORT_IP);
	c->at += bytes;
	return ESC_PARSE_ON;
}

static __always_inline int parse_ipv6(struct esc_cursor *c, struct esc_packet *p)
{
	const struct esc_ipv6 *ip = c->at;
	__u8 next;
	int i, result;

	if (!cursor_has(c, sizeof(*ip)))
		return cursor_short(c, sizeof(*ip), ESC_REASON_SHORT_IP);
	if (*(__u8 *)ip >> 4 != 6)
		return cursor_fault(c, ESC_REASON_BAD_IP_HEADER);
	next = ip->next;
	if (next != ESC_PROTOCOL_UDP && !ipv6_is_extension(next))
		return ESC_PARSE_OTHER;
	packet_set_ipv6(p, ip);
	if (c->skb) {
		p->ip_offset = cursor_offset(c);
		p->dscp = bpf_ntohl(ip->word) >> 22 & 63;
	}
	p->bytes = sizeof(*ip) + bpf_ntohs(ip->payload_bytes);
	c->ip_end = cursor_offset(c) + p->bytes;
	c->at += sizeof(*ip);
	if (likely(next == ESC_PROTOCOL_UDP))
		return ESC_PARSE_ON;
	if (!c->thorough)
		return ESC_PARSE_SLOW;
	for (i = 0; i < ESC_IPV6_EXTENSIONS; i++) {
		result = parse_ipv6_extension(c, &next);
		if (result != ESC_PARSE_ON)
			return result;
		if (next == ESC_PROTOCOL_UDP)
			return ESC_PARSE_ON;
		if (!ipv6_is_extension(next))
			return ESC_PARSE_OTHER;
	}
	return cursor_fault(c, ESC_REASON_IPV6_EXTENSIONS);
}

/* The headers behind the BTH that the accounting reads. */
static __always_inline int parse_extension(struct esc_cursor *c, struct esc_packet *p)
{
	__u32 skip = p->flags & ESC_OP_XRC ? ESC_XRCETH_BYTES : 0;

	if (unlikely(p->flags & ESC_OP_AETH)) {
		if (!cursor_has(c, sizeof(struct esc_aeth)))
			return cursor_fault(c, ESC_REASON_UNREADABLE);
		p->aeth = bpf_ntohl(((struct esc_aeth *)c->at)->word);
	} else if (unlikely(p->flags & ESC_OP_READ_REQUEST)) {
		c->at += skip;
		if (!cursor_has(c, sizeof(struct esc_reth)))
			return cursor_fault(c, ESC_REASON_UNREADABLE);
		p->read_bytes = bpf_ntohl(((struct esc_reth *)c->at)->length);
	}
	return ESC_PARSE_ROCE;
}

static __always_inline bool opcode_is_path_probe(__u8 opcode)
{
	return opcode == ESC_PROBE_OPCODE_PATH_REQUEST || opcode == ESC_PROBE_OPCODE_PATH_REPLY;
}

static __always_inline bool opcode_is_probe(__u8 opcode)
{
	return opcode == ESC_PROBE_OPCODE_REQUEST || opcode == ESC_PROBE_OPCODE_REPLY ||
	       opcode == ESC_PROBE_OPCODE_WARMER || opcode == ESC_PROBE_OPCODE_RECEIPT ||
	       opcode_is_path_probe(opcode);
}

/* The BTH is there; @other is what it is without a probe's opcode and magic. */
static __always_inline int parse_probe(const struct esc_cursor *c, struct esc_packet *p,
				       __u32 udp_bytes, int other)
{
	const struct esc_bth *bth = c->at;
	const __be32 *magic = (const void *)(bth + 1);

	if (!opcode_is_probe(bth->opcode) ||
	    udp_bytes < sizeof(struct esc_udp) + sizeof(*bth) + sizeof(*magic))
		return other;
	if (!cursor_has(c, sizeof(*bth) + sizeof(*magic)))
		return cursor_fault(c, ESC_REASON_UNREADABLE);
	if (*magic != bpf_htonl(ESC_PROBE_MAGIC))
		return other;
	p->probe_offset = cursor_offset(c);
	p->opcode = bth->opcode;
	return ESC_PARSE_PROBE;
}

static __always_inline int parse_bth(struct esc_cursor *c, struct esc_packet *p, __u32 udp_bytes)
{
	const struct esc_bth *bth = c->at;
	const struct esc_opcode_info *info;
	__s32 payload = udp_bytes - sizeof(struct esc_udp) - ESC_BTH_BYTES - ESC_ICRC_BYTES;

	if (unlikely(payload < 0))
		return cursor_fault(c, ESC_REASON_SHORT_BTH);
	if (!cursor_has(c, ESC_BTH_BYTES))
		return cursor_fault(c, ESC_REASON_UNREADABLE);
	if (unlikely(ESC_BTH_VERSION(bth->flags)))
		return cursor_fault(c, ESC_REASON_BTH_VERSION);
	info = &esc_opcodes[bth->opcode];
	p->flags = info->flags;
	if (unlikely(!p->flags))
		return parse_probe(c, p, udp_bytes, cursor_fault(c, ESC_REASON_UNKNOWN_OPCODE));
	payload -= info->extension_bytes + ESC_BTH_PAD(bth->flags);
	if (unlikely(payload < 0))
		return cursor_fault(c, ESC_REASON_SHORT_EXTENSION);
	p->payload_bytes = payload;
	p->opcode = bth->opcode;
	p->psn = bpf_ntohl(bth->psn) & ESC_PSN_MASK;
	p->dest_qpn = bpf_ntohl(bth->qpn) & ESC_QPN_MASK;
	c->at += ESC_BTH_BYTES;
	return parse_extension(c, p);
}

/* A datagram to the probe port: a probe, or something that is left alone. */
static __always_inline int parse_probe_port(const struct esc_cursor *c, struct esc_packet *p,
					    __u32 udp_bytes)
{
	if (udp_bytes < sizeof(struct esc_udp) + ESC_BTH_BYTES)
		return cursor_fault(c, ESC_REASON_PROBE_VERSION);
	if (!cursor_has(c, ESC_BTH_BYTES))
		return cursor_fault(c, ESC_REASON_UNREADABLE);
	return parse_probe(c, p, udp_bytes, cursor_fault(c, ESC_REASON_PROBE_VERSION));
}

static __always_inline int parse_udp(struct esc_cursor *c, struct esc_packet *p)
{
	const struct esc_udp *udp = c->at;
	__u64 at = cursor_offset(c);
	bool probe_port = false;
	__u32 bytes;

	if (unlikely(at + sizeof(*udp) > c->ip_end))
		return cursor_fault(c, ESC_REASON_SHORT_UDP);
	if (!cursor_has(c, sizeof(*udp)))
		return cursor_short(c, sizeof(*udp), ESC_REASON_IP_LENGTH);
	if (unlikely(udp->dst != bpf_htons(ESC_ROCEV2_PORT))) {
		probe_port = esc_probe_port && udp->dst == bpf_htons(esc_probe_port);
		if (!probe_port)
			return ESC_PARSE_OTHER;
	}
	if (c->thorough && cursor_is_cut(c))
		return ESC_REASON_IP_LENGTH;
	bytes = bpf_ntohs(udp->bytes);
	if (unlikely(bytes < sizeof(*udp) || at + bytes > c->ip_end))
		return cursor_fault(c, ESC_REASON_UDP_LENGTH);
	p->sport = bpf_ntohs(udp->src);
	if (c->skb)
		p->udp_offset = at;
	c->at += sizeof(*udp);
	if (unlikely(probe_port))
		return parse_probe_port(c, p, bytes);
	return parse_bth(c, p, bytes);
}

/* ESC_PARSE_ROCE with @p filled in, ESC_PARSE_PROBE, ESC_PARSE_OTHER, or a reason. */
static __always_inline int esc_parse(struct esc_cursor *c, struct esc_packet *p)
{
	__u16 ethertype;
	int result;

	result = parse_ethernet(c, &ethertype);
	if (result != ESC_PARSE_ON)
		return result;
	if (likely(ethertype == bpf_htons(ESC_ETHERTYPE_IPV4)))
		result = parse_ipv4(c, p);
	else if (ethertype == bpf_htons(ESC_ETHERTYPE_IPV6))
		result = parse_ipv6(c, p);
	else if (ethertype == bpf_htons(ESC_ETHERTYPE_ROCEV1))
		return cursor_fault(c, ESC_REASON_ROCEV1);
	else
		return ESC_PARSE_OTHER;
	if (unlikely(result != ESC_PARSE_ON))
		return result;
	result = parse_udp(c, p);
	/* Last, because a helper call in the middle would cost registers on the way. */
	if (!c->thorough && (result == ESC_PARSE_ROCE || result == ESC_PARSE_PROBE) &&
	    cursor_is_cut(c))
		return ESC_PARSE_SLOW;
	return result;
}

#endif

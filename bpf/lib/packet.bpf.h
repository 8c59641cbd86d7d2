/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parser hands to the accounting, and what each opcode means. */
#ifndef ESC_BPF_LIB_PACKET_H
#define ESC_BPF_LIB_PACKET_H

#include "lib/maps.bpf.h"

/* One RoCEv2 packet. The parser fills in the key's addresses, the hook the rest. */
struct esc_packet {
	struct esc_qp_key key __attribute__((aligned(8)));
	__u32 dest_qpn;
	__u32 psn;
	__u32 bytes;	     /* IP packet, as the IP header says */
	__u32 payload_bytes; /* without headers, pad and ICRC */
	__u32 aeth;	     /* with ESC_OP_AETH */
	__u32 read_bytes;    /* with ESC_OP_READ_REQUEST: RETH length */
	__u32 probe_offset;  /* of a probe only: its BTH, from the start of the frame */
	__u64 departure_ns;  /* tx: CLOCK_MONOTONIC that it is held until, 0: it is not */
	__u16 sport;
	__u16 flags; /* ESC_OP_* */
	__u16 ip_offset;  /* tc only, IPv6 only: from the start of the frame */
	__u16 udp_offset; /* tc only */
	__u8 opcode;
	__u8 ecn; /* two bits of the IP header */
	__u8 ip_version;
	__u8 dscp; /* tc only: the six bits beside ecn */
};

#define ESC_ECN_CE 3

/*
 * The end of the key in one store: the hash reads it in words, and a word that
 * was stored in pieces would have to wait for them.
 */
static __always_inline void packet_set_key(struct esc_packet *p, __u8 direction, __u8 port)
{
	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the key's last words");

	*(__u64 *)&p->key.dest_qpn = p->dest_qpn | (__u64)direction << 32 | (__u64)port << 40;
}

/* Of the queue pair: addresses and number. */
static __always_inline __u64 packet_flow(const struct esc_packet *p)
{
	const __u64 *src = (const __u64 *)&p->key.src, *dst = (const __u64 *)&p->key.dst;

	return src[0] ^ src[1] * 0x9e3779b97f4a7c15ull ^ dst[0] * 0xbf58476d1ce4e5b9ull ^
	       (dst[1] + p->dest_qpn) * 0x94d049bb133111ebull;
}

/*
 * What names the packet; two packets under way at a time that share it are a receipt lost.
 * Neither 0 nor 1.
 */
static __always_inline __u64 packet_id(const struct esc_packet *p)
{
	__u64 id = packet_flow(p) + ((__u64)p->opcode << 24 | p->psn);

	id ^= id >> 31;
	id *= 0xbf58476d1ce4e5b9ull;
	id ^= id >> 29;
	return id > ESC_RX_SLOT_BUSY ? id : id + ESC_RX_SLOT_BUSY + 1;
}

static const struct esc_opcode_info esc_opcodes[256] = {
#define X(op, name, bytes, bits) [op] = {.flags = (bits), .extension_bytes = (bytes)},
	ESC_OPCODES(X)
#undef X
};

#endif

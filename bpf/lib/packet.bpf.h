/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The context of one packet, passed through the stages of a hook; properties of each opcode. */
#ifndef ESC_BPF_LIB_PACKET_H
#define ESC_BPF_LIB_PACKET_H

#include "lib/headers.bpf.h"
#include "lib/maps.bpf.h"

/*
 * A stage takes the context, fills in its part and returns 0 (ESC_REASON_NONE: go on),
 * an ESC_REASON_* that the hook counts, or one of:
 */
#define PKT_DONE (-1)  /* nothing more to do: not RoCE, or not sampled */
#define PKT_SLOW (-2)  /* of the fast parser: the thorough one has to decide */
#define PKT_PROBE (-3) /* a probe or receipt of ours: `bth_offset` and `opcode` are valid */

/* One RoCEv2 packet. Not initialized as a whole: each stage names what it fills in. */
struct pkt_ctx {
	/* Parse. packet_set_key() completes the key. */
	struct esc_qp_key key __attribute__((aligned(8)));
	__u32 dest_qpn;
	__u32 psn;
	__u32 bytes;	     /* IP packet, by the IP header */
	__u32 payload_bytes; /* without headers, pad and ICRC */
	union {
		__u32 aeth;	  /* with ESC_OP_AETH */
		__u32 read_bytes; /* with ESC_OP_READ_REQUEST: RETH length */
	};
	__u32 bth_offset; /* PKT_PROBE only: from the start of the frame */
	__u16 sport;
	__u16 op_flags;	  /* ESC_OP_* */
	__u16 ip_offset;  /* tc only, IPv6 only: from the start of the frame */
	__u16 udp_offset; /* tc only */
	__u8 opcode;
	__u8 ecn; /* two bits of the IP header */
	__u8 ip_version;
	__u8 dscp; /* tc only: the six bits beside ecn */

	/* Account. */
	__u8 flags; /* PKT_SAMPLED ... */
	/* Timestamp, rx only. */
	__u8 receipt_flags; /* ESC_RECEIPT_RESPONSE, _CE, _MESSAGE */
	__u32 message_ns;   /* with ESC_RECEIPT_MESSAGE: from its START to this packet */
	/* Account. */
	__u32 message_bytes; /* with PKT_MESSAGE */
	struct esc_qp *qp;   /* the entry in `qps` */
	__u64 now_ns;	     /* CLOCK_MONOTONIC, of sampled packets and of ends of timed messages */

	/* The hook. */
	const struct esc_control *ctl;
	/* tx: CLOCK_MONOTONIC at which the qdisc releases it; 0: at once; far ahead: unknown. */
	__u64 departure_ns;
	/* Pace, tx only: with PKT_PACED the state of the law at departure. */
	struct pause_mark *mark;
};

/* Bits of pkt_ctx.flags. */
#define PKT_SAMPLED 0x01   /* the PSN is one to sample */
#define PKT_MESSAGE 0x02   /* END of a timed message that was received completely */
#define PKT_DUPLICATE 0x04 /* the PSN has passed before */
#define PKT_RESYNC 0x08	   /* first of a sequence: nothing confirms its PSN */
#define PKT_PACED 0x10	   /* its delay is feedback for the law: `mark` is valid */

/*
 * The end of the key in one store: the hash reads it in words, and a word that
 * was stored in pieces would have to wait for them.
 */
static __always_inline void packet_set_key(struct pkt_ctx *pkt, __u8 direction, __u8 port)
{
	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the key's last words");

	*(__u64 *)&pkt->key.dest_qpn = pkt->dest_qpn | (__u64)direction << 32 | (__u64)port << 40;
}

/* Hash of the queue pair: addresses and number. */
static __always_inline __u64 packet_flow_hash(const struct pkt_ctx *pkt)
{
	const __u64 *src = (const __u64 *)&pkt->key.src, *dst = (const __u64 *)&pkt->key.dst;

	return src[0] ^ src[1] * 0x9e3779b97f4a7c15ull ^ dst[0] * 0xbf58476d1ce4e5b9ull ^
	       (dst[1] + pkt->dest_qpn) * 0x94d049bb133111ebull;
}

/*
 * Hash of queue pair, opcode and PSN. Two packets in flight that share it cost a receipt.
 * Neither ESC_RX_SLOT_FREE nor _BUSY.
 */
static __always_inline __u64 packet_hash(const struct pkt_ctx *pkt)
{
	__u64 hash = packet_flow_hash(pkt) + ((__u64)pkt->opcode << 24 | pkt->psn);

	hash ^= hash >> 31;
	hash *= 0xbf58476d1ce4e5b9ull;
	hash ^= hash >> 29;
	return hash > ESC_RX_SLOT_BUSY ? hash : hash + ESC_RX_SLOT_BUSY + 1;
}

static const struct esc_opcode_info esc_opcodes[256] = {
#define X(op, name, bytes, bits) [op] = {.flags = (bits), .extension_bytes = (bytes)},
	ESC_OPCODES(X)
#undef X
};

#endif

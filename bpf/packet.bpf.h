/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parser hands to the accounting, and what each opcode means. */
#ifndef ESC_BPF_PACKET_H
#define ESC_BPF_PACKET_H

#include "maps.bpf.h"

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
	__u8 opcode;
	__u8 ecn; /* two bits of the IP header */
	__u8 ip_version;
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

static const struct esc_opcode_info esc_opcodes[256] = {
#define X(op, name, bytes, bits) [op] = {.flags = (bits), .extension_bytes = (bytes)},
	ESC_OPCODES(X)
#undef X
};

#endif

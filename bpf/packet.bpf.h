/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parser hands to the accounting, and what each opcode means. */
#ifndef ESC_BPF_PACKET_H
#define ESC_BPF_PACKET_H

#include "maps.bpf.h"

/* One RoCEv2 packet. The key's direction and port are the hook's to fill in. */
struct esc_packet {
	struct esc_qp_key key __attribute__((aligned(8)));
	__u32 psn;
	__u32 bytes;	     /* IP packet, as the IP header says */
	__u32 payload_bytes; /* without headers, pad and ICRC */
	__u32 aeth;	     /* with ESC_OP_AETH */
	__u32 read_bytes;    /* with ESC_OP_READ_REQUEST: RETH length */
	__u16 sport;
	__u16 flags; /* ESC_OP_* */
	__u8 opcode;
	__u8 ecn; /* two bits of the IP header */
	__u8 ip_version;
};

#define ESC_ECN_CE 3

static const struct esc_opcode_info esc_opcodes[256] = {
#define X(op, name, bytes, bits) [op] = { .flags = (bits), .extension_bytes = (bytes) },
	ESC_OPCODES(X)
#undef X
};

#endif

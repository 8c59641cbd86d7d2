/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RoCEv2 on the wire: BTH, its extension headers and the opcodes.
 * InfiniBand Architecture Specification vol. 1, chapter 9 and annex A17;
 * linux drivers/infiniband/sw/rxe/rxe_hdr.h, include/rdma/ib_pack.h.
 */
#ifndef ESC_MAPS_ROCEV2_H
#define ESC_MAPS_ROCEV2_H

#include "maps/types.h"

#define ESC_ROCEV2_PORT 4791
#define ESC_ETHERTYPE_ROCEV1 0x8915
#define ESC_ICRC_BYTES 4
#define ESC_XRCETH_BYTES 4
#define ESC_PSN_MASK 0xffffffu
#define ESC_QPN_MASK 0xffffffu

struct esc_bth {
	__u8 opcode;
	__u8 flags; /* SE 0x80, M 0x40, pad count 0x30, transport version 0x0f */
	__be16 pkey;
	__be32 qpn; /* FECN 31, BECN 30, reserved 29-24, destination QPN 23-0 */
	__be32 psn; /* ack request 31, reserved 30-24, PSN 23-0 */
};
ESC_ASSERT_SIZE(struct esc_bth, 12);

#define ESC_BTH_PAD(flags) (((flags) >> 4) & 3)
#define ESC_BTH_VERSION(flags) (0x0f & (flags))
#define ESC_BTH_FECN 0x80000000u
#define ESC_BTH_BECN 0x40000000u
#define ESC_BTH_ACK_REQUEST 0x80000000u

/* AETH: syndrome in the top byte, MSN below. */
struct esc_aeth {
	__be32 word;
};
#define ESC_AETH_SYNDROME(word) ((word) >> 24)
#define ESC_AETH_KIND(syndrome) (0x60 & (syndrome))
#define ESC_AETH_ACK 0x00
#define ESC_AETH_RNR_NAK 0x20
#define ESC_AETH_NAK 0x60
#define ESC_NAK_CODE(syndrome) (0x1f & (syndrome))
#define ESC_NAK_SEQUENCE 0
#define ESC_NAK_INVALID_REQUEST 1
#define ESC_NAK_REMOTE_ACCESS 2
#define ESC_NAK_REMOTE_OPERATIONAL 3

struct esc_reth {
	__be32 va_high;
	__be32 va_low;
	__be32 rkey;
	__be32 length;
};
ESC_ASSERT_SIZE(struct esc_reth, 16);

struct esc_deth {
	__be32 qkey;
	__be32 source_qpn; /* 23-0 */
};
ESC_ASSERT_SIZE(struct esc_deth, 8);

enum esc_transport {
	ESC_TRANSPORT_RC = 0,
	ESC_TRANSPORT_UC = 1,
	ESC_TRANSPORT_RD = 2, /* obsolete: its opcodes count as unknown */
	ESC_TRANSPORT_UD = 3,
	ESC_TRANSPORT_CNP = 4,
	ESC_TRANSPORT_XRC = 5,
};
#define ESC_TRANSPORT(opcode) ((opcode) >> 5)

/* Properties of an opcode. */
#define ESC_OP_KNOWN 0x0001
#define ESC_OP_REQUEST 0x0002  /* PSN belongs to the requester's sequence */
#define ESC_OP_RESPONSE 0x0004 /* PSN echoes the requester's */
#define ESC_OP_START 0x0008    /* first packet of a message */
#define ESC_OP_END 0x0010      /* last packet of a message */
#define ESC_OP_RETH 0x0020
#define ESC_OP_AETH 0x0040
#define ESC_OP_DETH 0x0080
#define ESC_OP_READ_REQUEST 0x0100 /* takes as many PSNs as its response has packets */
#define ESC_OP_PAYLOAD 0x0200	   /* part of a message: SEND, WRITE, READ response */
#define ESC_OP_ATOMIC 0x0400
#define ESC_OP_CNP 0x0800
#define ESC_OP_XRC 0x1000 /* an XRCETH comes first */
/* Of a packet, not of its opcode: its BTH requests an acknowledgement. */
#define ESC_OP_ACK_REQUEST 0x2000

/*
 * X(opcode, NAME, bytes of extension headers between BTH and payload, flags)
 * RETH 16, AETH 4, DETH 8, immediate 4, IETH (invalidate) 4, AtomicETH 28,
 * AtomicAckETH 8, XRCETH 4, FETH (flush) 4. Order on the wire: XRCETH, DETH,
 * FETH, RETH/AtomicETH, AETH, AtomicAckETH, immediate/IETH. FLUSH and
 * ATOMIC_WRITE: linux include/rdma/ib_pack.h and rxe_opcode.c since 6.2.
 */
#define ESC_OPS_DATA(X, base, NAME, xrc, flag)                                                     \
	X((base) + 0x00, NAME##_SEND_FIRST, xrc + 0, flag | ESC_OPF_FIRST)                         \
	X((base) + 0x01, NAME##_SEND_MIDDLE, xrc + 0, flag | ESC_OPF_MIDDLE)                       \
	X((base) + 0x02, NAME##_SEND_LAST, xrc + 0, flag | ESC_OPF_LAST)                           \
	X((base) + 0x03, NAME##_SEND_LAST_IMMEDIATE, xrc + 4, flag | ESC_OPF_LAST)                 \
	X((base) + 0x04, NAME##_SEND_ONLY, xrc + 0, flag | ESC_OPF_ONLY)                           \
	X((base) + 0x05, NAME##_SEND_ONLY_IMMEDIATE, xrc + 4, flag | ESC_OPF_ONLY)                 \
	X((base) + 0x06, NAME##_WRITE_FIRST, xrc + 16, flag | ESC_OPF_FIRST | ESC_OP_RETH)         \
	X((base) + 0x07, NAME##_WRITE_MIDDLE, xrc + 0, flag | ESC_OPF_MIDDLE)                      \
	X((base) + 0x08, NAME##_WRITE_LAST, xrc + 0, flag | ESC_OPF_LAST)                          \
	X((base) + 0x09, NAME##_WRITE_LAST_IMMEDIATE, xrc + 4, flag | ESC_OPF_LAST)                \
	X((base) + 0x0a, NAME##_WRITE_ONLY, xrc + 16, flag | ESC_OPF_ONLY | ESC_OP_RETH)           \
	X((base) + 0x0b, NAME##_WRITE_ONLY_IMMEDIATE, xrc + 20, flag | ESC_OPF_ONLY | ESC_OP_RETH)

#define ESC_OPS_RELIABLE(X, base, NAME, xrc, flag)                                                 \
	X((base) + 0x0c, NAME##_READ_REQUEST, xrc + 16,                                            \
	  flag | ESC_OP_KNOWN | ESC_OP_REQUEST | ESC_OP_RETH | ESC_OP_READ_REQUEST)                \
	X((base) + 0x0d, NAME##_READ_RESPONSE_FIRST, 4,                                            \
	  ESC_OPF_RESPONSE | ESC_OP_START | ESC_OP_AETH)                                           \
	X((base) + 0x0e, NAME##_READ_RESPONSE_MIDDLE, 0, ESC_OPF_RESPONSE)                         \
	X((base) + 0x0f, NAME##_READ_RESPONSE_LAST, 4,                                             \
	  ESC_OPF_RESPONSE | ESC_OP_END | ESC_OP_AETH)                                             \
	X((base) + 0x10, NAME##_READ_RESPONSE_ONLY, 4,                                             \
	  ESC_OPF_RESPONSE | ESC_OP_START | ESC_OP_END | ESC_OP_AETH)                              \
	X((base) + 0x11, NAME##_ACKNOWLEDGE, 4, ESC_OP_KNOWN | ESC_OP_RESPONSE | ESC_OP_AETH)      \
	X((base) + 0x12, NAME##_ATOMIC_ACKNOWLEDGE, 12,                                            \
	  ESC_OP_KNOWN | ESC_OP_RESPONSE | ESC_OP_AETH | ESC_OP_ATOMIC)                            \
	X((base) + 0x13, NAME##_COMPARE_SWAP, xrc + 28,                                            \
	  flag | ESC_OP_KNOWN | ESC_OP_REQUEST | ESC_OP_ATOMIC)                                    \
	X((base) + 0x14, NAME##_FETCH_ADD, xrc + 28,                                               \
	  flag | ESC_OP_KNOWN | ESC_OP_REQUEST | ESC_OP_ATOMIC)                                    \
	X((base) + 0x16, NAME##_SEND_LAST_INVALIDATE, xrc + 4, flag | ESC_OPF_LAST)                \
	X((base) + 0x17, NAME##_SEND_ONLY_INVALIDATE, xrc + 4, flag | ESC_OPF_ONLY)                \
	X((base) + 0x1c, NAME##_FLUSH, xrc + 20, flag | ESC_OP_KNOWN | ESC_OP_REQUEST)             \
	X((base) + 0x1d, NAME##_ATOMIC_WRITE, xrc + 16,                                            \
	  flag | ESC_OP_KNOWN | ESC_OP_REQUEST | ESC_OP_RETH | ESC_OP_ATOMIC)

#define ESC_OPF_MIDDLE (ESC_OP_KNOWN | ESC_OP_REQUEST | ESC_OP_PAYLOAD)
#define ESC_OPF_FIRST (ESC_OPF_MIDDLE | ESC_OP_START)
#define ESC_OPF_LAST (ESC_OPF_MIDDLE | ESC_OP_END)
#define ESC_OPF_ONLY (ESC_OPF_MIDDLE | ESC_OP_START | ESC_OP_END)
#define ESC_OPF_RESPONSE (ESC_OP_KNOWN | ESC_OP_RESPONSE | ESC_OP_PAYLOAD)

#define ESC_OPCODES(X)                                                                             \
	ESC_OPS_DATA(X, 0x00, RC, 0, 0)                                                            \
	ESC_OPS_RELIABLE(X, 0x00, RC, 0, 0)                                                        \
	ESC_OPS_DATA(X, 0x20, UC, 0, 0)                                                            \
	X(0x64, UD_SEND_ONLY, 8, ESC_OPF_ONLY | ESC_OP_DETH)                                       \
	X(0x65, UD_SEND_ONLY_IMMEDIATE, 12, ESC_OPF_ONLY | ESC_OP_DETH)                            \
	X(0x81, CNP, 16, ESC_OP_KNOWN | ESC_OP_CNP)                                                \
	ESC_OPS_DATA(X, 0xa0, XRC, 4, ESC_OP_XRC)                                                  \
	ESC_OPS_RELIABLE(X, 0xa0, XRC, 4, ESC_OP_XRC)

enum esc_opcode {
#define X(op, name, bytes, flags) ESC_OPCODE_##name = (op),
	ESC_OPCODES(X)
#undef X
};

struct esc_opcode_info {
	__u16 flags;
	__u8 extension_bytes;
	__u8 pad;
};

#endif

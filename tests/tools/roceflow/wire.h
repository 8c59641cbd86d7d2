/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 packets, written and read. Shares nothing with the dataplane on
 * purpose: an endpoint that repeats its mistakes would not find them.
 */
#ifndef ROCEFLOW_WIRE_H
#define ROCEFLOW_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_PORT 4791
#define WIRE_PSN_MASK 0xffffffu
#define WIRE_IP4_BYTES 20
#define WIRE_IP6_BYTES 40
#define WIRE_UDP_BYTES 8
#define WIRE_BTH_BYTES 12
#define WIRE_RETH_BYTES 16
#define WIRE_AETH_BYTES 4
#define WIRE_CNP_BYTES 16
#define WIRE_ICRC_BYTES 4
/* Most that stands around the payload of any packet written here. */
#define WIRE_OVERHEAD_MAX                                                                          \
	(WIRE_IP6_BYTES + WIRE_UDP_BYTES + WIRE_BTH_BYTES + WIRE_RETH_BYTES + 3 + WIRE_ICRC_BYTES)
#define WIRE_MTU_MAX 4096
#define WIRE_PACKET_MAX (WIRE_MTU_MAX + WIRE_OVERHEAD_MAX)

enum wire_opcode {
	WIRE_SEND_FIRST = 0x00,
	WIRE_SEND_MIDDLE = 0x01,
	WIRE_SEND_LAST = 0x02,
	WIRE_SEND_ONLY = 0x04,
	WIRE_WRITE_FIRST = 0x06,
	WIRE_WRITE_MIDDLE = 0x07,
	WIRE_WRITE_LAST = 0x08,
	WIRE_WRITE_ONLY = 0x0a,
	WIRE_ACKNOWLEDGE = 0x11,
	WIRE_UC = 0x20, /* added to SEND and WRITE */
	WIRE_CNP = 0x81,
};

#define WIRE_AETH_KIND 0x60
#define WIRE_AETH_ACK 0x1f /* credits unlimited */
#define WIRE_AETH_RNR 0x20
#define WIRE_AETH_NAK_SEQUENCE 0x60

#define WIRE_ECN_MASK 0x03
#define WIRE_ECN_CE 0x03
#define WIRE_ECN_ECT0 0x02

/* Whose packets: addresses in network order, IPv4 in the first four bytes. */
struct wire_flow {
	bool six;
	uint8_t source[16], destination[16];
	uint16_t source_port;
	uint8_t tos;
};

struct wire_packet {
	struct wire_flow flow;
	uint16_t ip_id; /* IPv4 only */
	uint8_t opcode;
	bool ack_request;
	bool backward_congestion;
	uint32_t qpn, psn;
	/* WRITE FIRST and ONLY */
	uint64_t remote_address;
	uint32_t remote_key, remote_length;
	/* ACKNOWLEDGE */
	uint8_t syndrome;
	uint32_t msn;
	const uint8_t *payload;
	size_t payload_bytes;
	size_t ip_bytes; /* set by both functions */
};

/* Writes the IP packet with its ICRC into @out (WIRE_PACKET_MAX bytes). Returns its length. */
size_t wire_build(uint8_t *out, struct wire_packet *packet);

enum wire_verdict { WIRE_GOOD, WIRE_NOT_ROCE, WIRE_SHORT, WIRE_BAD_ICRC };

/* Reads an IP packet and checks its ICRC. @packet points into @data. */
enum wire_verdict wire_parse(const uint8_t *data, size_t bytes, struct wire_packet *packet);

bool wire_has_reth(uint8_t opcode);
bool wire_starts_message(uint8_t opcode);
bool wire_ends_message(uint8_t opcode);
const char *wire_opcode_name(uint8_t opcode);

/* How far @psn is from @base, -2^23 .. 2^23-1. */
int32_t wire_psn_distance(uint32_t psn, uint32_t base);

/* The UDP source port of rxe for a pair of QPs (rdma_get_udp_sport without a flow label). */
uint16_t wire_rxe_port(uint32_t local_qpn, uint32_t remote_qpn);

/* The wait that an RNR NAK's syndrome requests. */
uint64_t wire_rnr_wait_ns(uint8_t syndrome);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <string.h>
#include <zlib.h>

#include "wire.h"

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

static uint16_t get16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}

static uint32_t get24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | get16(at + 1);
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

/*
 * CRC-32 over eight bytes of ones (the masked local route header) and the
 * packet, with the fields that switches may change read as ones (InfiniBand
 * Architecture, annex A17.3.4; linux rxe_icrc.c). @bytes is without the ICRC.
 */
static uint32_t wire_icrc(const uint8_t *packet, size_t bytes, size_t ip_bytes)
{
	uint8_t head[8 + WIRE_IP6_BYTES + 40 + WIRE_UDP_BYTES + WIRE_BTH_BYTES];
	size_t head_bytes = ip_bytes + WIRE_UDP_BYTES + WIRE_BTH_BYTES;
	uint8_t *ip = head + 8;

	memset(head, 0xff, 8);
	memcpy(ip, packet, head_bytes);
	if (ip[0] >> 4 == 4) {
		ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
	} else {
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
	}
	ip[ip_bytes + 6] = ip[ip_bytes + 7] = 0xff;
	ip[ip_bytes + WIRE_UDP_BYTES + 4] = 0xff;
	return crc32_z(crc32_z(0, head, 8 + head_bytes), packet + head_bytes, bytes - head_bytes);
}

static void put_icrc(uint8_t *at, uint32_t icrc)
{
	for (int i = 0; i < WIRE_ICRC_BYTES; i++)
		at[i] = icrc >> 8 * i;
}

static size_t build_ip4(uint8_t *out, const struct wire_packet *packet, size_t bytes)
{
	uint32_t sum = 0;

	memset(out, 0, WIRE_IP4_BYTES);
	out[0] = 0x45;
	out[1] = packet->flow.tos;
	put16(out + 2, bytes);
	put16(out + 4, packet->ip_id);
	out[6] = 0x40; /* do not fragment */
	out[8] = 64;
	out[9] = IPPROTO_UDP;
	memcpy(out + 12, packet->flow.source, 4);
	memcpy(out + 16, packet->flow.destination, 4);
	for (int i = 0; i < WIRE_IP4_BYTES; i += 2)
		sum += get16(out + i);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(out + 10, ~(sum + (sum >> 16)));
	return WIRE_IP4_BYTES;
}

static size_t build_ip6(uint8_t *out, const struct wire_packet *packet, size_t bytes)
{
	put32(out, 6u << 28 | (uint32_t)packet->flow.tos << 20);
	put16(out + 4, bytes - WIRE_IP6_BYTES);
	out[6] = IPPROTO_UDP;
	out[7] = 64;
	memcpy(out + 8, packet->flow.source, 16);
	memcpy(out + 24, packet->flow.destination, 16);
	return WIRE_IP6_BYTES;
}

static size_t extension_bytes(uint8_t opcode)
{
	if (wire_has_reth(opcode))
		return WIRE_RETH_BYTES;
	if (opcode == WIRE_ACKNOWLEDGE)
		return WIRE_AETH_BYTES;
	return opcode == WIRE_CNP ? WIRE_CNP_BYTES : 0;
}

static void build_extension(uint8_t *out, const struct wire_packet *packet)
{
	if (wire_has_reth(packet->opcode)) {
		put32(out, packet->remote_address >> 32);
		put32(out + 4, packet->remote_address);
		put32(out + 8, packet->remote_key);
		put32(out + 12, packet->remote_length);
	} else if (packet->opcode == WIRE_ACKNOWLEDGE) {
		put32(out, (uint32_t)packet->syndrome << 24 | (packet->msn & 0xffffff));
	} else if (packet->opcode == WIRE_CNP) {
		memset(out, 0, WIRE_CNP_BYTES);
	}
}

size_t wire_build(uint8_t *out, struct wire_packet *packet)
{
	size_t pad = -packet->payload_bytes & 3, extension = extension_bytes(packet->opcode);
	size_t udp = WIRE_UDP_BYTES + WIRE_BTH_BYTES + extension + packet->payload_bytes + pad +
		     WIRE_ICRC_BYTES;
	size_t ip = packet->flow.six ? WIRE_IP6_BYTES : WIRE_IP4_BYTES;
	size_t bytes = ip + udp;
	uint8_t *at = out + ip;

	if (packet->flow.six)
		build_ip6(out, packet, bytes);
	else
		build_ip4(out, packet, bytes);
	put16(at, packet->flow.source_port);
	put16(at + 2, WIRE_PORT);
	put16(at + 4, udp);
	put16(at + 6, 0);
	at += WIRE_UDP_BYTES;
	at[0] = packet->opcode;
	at[1] = pad << 4;
	put16(at + 2, 0xffff);
	put32(at + 4, (packet->backward_congestion ? 1u << 30 : 0) | packet->qpn);
	put32(at + 8, (packet->ack_request ? 1u << 31 : 0) | (packet->psn & WIRE_PSN_MASK));
	at += WIRE_BTH_BYTES;
	build_extension(at, packet);
	at += extension;
	if (packet->payload_bytes)
		memcpy(at, packet->payload, packet->payload_bytes);
	at += packet->payload_bytes;
	memset(at, 0, pad);
	at += pad;
	put_icrc(at, wire_icrc(out, bytes - WIRE_ICRC_BYTES, ip));
	packet->ip_bytes = bytes;
	return bytes;
}

/* The IP header's length, 0 when it is no UDP packet or is cut. */
static size_t parse_ip(const uint8_t *data, size_t bytes, struct wire_packet *packet, size_t *total)
{
	size_t ip;

	if (bytes < WIRE_IP4_BYTES)
		return 0;
	if (data[0] >> 4 == 4) {
		ip = (data[0] & 15) * 4;
		*total = get16(data + 2);
		if (ip < WIRE_IP4_BYTES || data[9] != IPPROTO_UDP)
			return 0;
		packet->flow.tos = data[1];
		packet->ip_id = get16(data + 4);
		memcpy(packet->flow.source, data + 12, 4);
		memcpy(packet->flow.destination, data + 16, 4);
		return ip;
	}
	if (data[0] >> 4 != 6 || bytes < WIRE_IP6_BYTES || data[6] != IPPROTO_UDP)
		return 0;
	packet->flow.six = true;
	packet->flow.tos = get32(data) >> 20;
	*total = WIRE_IP6_BYTES + get16(data + 4);
	memcpy(packet->flow.source, data + 8, 16);
	memcpy(packet->flow.destination, data + 24, 16);
	return WIRE_IP6_BYTES;
}

static void parse_extension(const uint8_t *at, struct wire_packet *packet)
{
	if (wire_has_reth(packet->opcode)) {
		packet->remote_address = (uint64_t)get32(at) << 32 | get32(at + 4);
		packet->remote_key = get32(at + 8);
		packet->remote_length = get32(at + 12);
	} else if (packet->opcode == WIRE_ACKNOWLEDGE) {
		packet->syndrome = at[0];
		packet->msn = get24(at + 1);
	}
}

enum wire_verdict wire_parse(const uint8_t *data, size_t bytes, struct wire_packet *packet)
{
	size_t total, ip, head, pad;
	const uint8_t *bth;

	memset(packet, 0, sizeof(*packet));
	ip = parse_ip(data, bytes, packet, &total);
	if (!ip || total > bytes || total < ip + WIRE_UDP_BYTES)
		return WIRE_NOT_ROCE;
	if (get16(data + ip + 2) != WIRE_PORT)
		return WIRE_NOT_ROCE;
	packet->ip_bytes = total;
	packet->flow.source_port = get16(data + ip);
	if (total < ip + WIRE_UDP_BYTES + WIRE_BTH_BYTES + WIRE_ICRC_BYTES)
		return WIRE_SHORT;
	bth = data + ip + WIRE_UDP_BYTES;
	packet->opcode = bth[0];
	pad = bth[1] >> 4 & 3;
	packet->backward_congestion = bth[4] & 0x40;
	packet->qpn = get24(bth + 5);
	packet->ack_request = bth[8] & 0x80;
	packet->psn = get24(bth + 9);
	head = ip + WIRE_UDP_BYTES + WIRE_BTH_BYTES + extension_bytes(packet->opcode);
	if (total < head + pad + WIRE_ICRC_BYTES)
		return WIRE_SHORT;
	parse_extension(bth + WIRE_BTH_BYTES, packet);
	packet->payload = data + head;
	packet->payload_bytes = total - head - pad - WIRE_ICRC_BYTES;
	bth = data + total - WIRE_ICRC_BYTES;
	if (wire_icrc(data, total - WIRE_ICRC_BYTES, ip) !=
	    ((uint32_t)bth[0] | bth[1] << 8 | bth[2] << 16 | (uint32_t)bth[3] << 24))
		return WIRE_BAD_ICRC;
	return WIRE_GOOD;
}

/* SEND and WRITE are distinguished by position alone once UC's prefix is gone. */
static uint8_t plain(uint8_t opcode)
{
	return opcode >> 5 == 1 ? opcode & 0x1f : opcode;
}

bool wire_has_reth(uint8_t opcode)
{
	return plain(opcode) == WIRE_WRITE_FIRST || plain(opcode) == WIRE_WRITE_ONLY;
}

bool wire_starts_message(uint8_t opcode)
{
	return wire_has_reth(opcode) || plain(opcode) == WIRE_SEND_FIRST ||
	       plain(opcode) == WIRE_SEND_ONLY;
}

bool wire_ends_message(uint8_t opcode)
{
	uint8_t op = plain(opcode);

	return op == WIRE_SEND_LAST || op == WIRE_SEND_ONLY || op == WIRE_WRITE_LAST ||
	       op == WIRE_WRITE_ONLY;
}

const char *wire_opcode_name(uint8_t opcode)
{
	static const char *const names[] = {
		[0x00] = "SEND_FIRST",	 [0x01] = "SEND_MIDDLE", [0x02] = "SEND_LAST",
		[0x04] = "SEND_ONLY",	 [0x06] = "WRITE_FIRST", [0x07] = "WRITE_MIDDLE",
		[0x08] = "WRITE_LAST",	 [0x0a] = "WRITE_ONLY",	 [0x0c] = "READ_REQUEST",
		[0x0d] = "READ_FIRST",	 [0x0e] = "READ_MIDDLE", [0x0f] = "READ_LAST",
		[0x10] = "READ_ONLY",	 [0x11] = "ACKNOWLEDGE", [0x12] = "ATOMIC_ACK",
		[0x13] = "COMPARE_SWAP", [0x14] = "FETCH_ADD",
	};
	uint8_t op = plain(opcode);

	if (opcode == WIRE_CNP)
		return "CNP";
	if (opcode == 0x64)
		return "UD_SEND_ONLY";
	return op < sizeof(names) / sizeof(names[0]) && names[op] ? names[op] : "?";
}

int32_t wire_psn_distance(uint32_t psn, uint32_t base)
{
	uint32_t distance = (psn - base) & WIRE_PSN_MASK;

	return distance & 0x800000 ? (int32_t)distance - 0x1000000 : (int32_t)distance;
}

uint16_t wire_rxe_port(uint32_t local_qpn, uint32_t remote_qpn)
{
	uint64_t mixed = (uint64_t)local_qpn * remote_qpn;
	uint32_t label;

	mixed ^= mixed >> 20;
	mixed ^= mixed >> 40;
	label = mixed & 0xfffff;
	return ((label & 0x3fff) ^ (label & 0xfc000) >> 14) | 0xc000;
}

uint64_t wire_rnr_wait_ns(uint8_t syndrome)
{
	/* Units of 10 us, InfiniBand Architecture table 46. */
	static const uint32_t wait[32] = {
		65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
		48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return wait[syndrome & 0x1f] * 10000ull;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What bpf/README.md promises, written a second time and in another way: an
 * offset-based decoder with its own opcode rules. It shares names with the
 * kernel programs (reasons, struct esc_qp_key), no code and no tables.
 */
#ifndef ESC_TESTS_BPF_MODEL_H
#define ESC_TESTS_BPF_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "maps/maps.h"

#define MODEL_ROCE (-1)
#define MODEL_OTHER (-2)

struct model_packet {
	struct esc_qp_key key; /* direction and port are the caller's */
	uint8_t opcode;
	uint8_t ecn;
	uint8_t ip_version;
	uint8_t syndrome;
	uint16_t sport;
	uint32_t bytes;
	uint32_t payload;
	uint32_t psn;
	uint32_t read_bytes;
};

/* A view of a frame of which only the first @linear bytes can be read. */
struct model_view {
	const uint8_t *data;
	uint32_t total;
	uint32_t linear;
	uint32_t at; /* where the next header starts */
	uint32_t ip_end;
};

static inline uint16_t model_16(const struct model_view *v, uint32_t at)
{
	return v->data[at] << 8 | v->data[at + 1];
}

static inline uint32_t model_32(const struct model_view *v, uint32_t at)
{
	return (uint32_t)model_16(v, at) << 16 | model_16(v, at + 2);
}

/* 0 when @count bytes at the cursor can be read, else a reason. */
static inline int model_need(const struct model_view *v, uint32_t count, int reason, int *result)
{
	if (v->at + count <= v->linear)
		return 0;
	*result = v->at + count <= v->total ? ESC_REASON_UNREADABLE : reason;
	return 1;
}

/* What an opcode is, by the names of the specification. */
enum model_operation {
	MODEL_SEND,
	MODEL_WRITE,
	MODEL_READ_REQUEST,
	MODEL_READ_RESPONSE,
	MODEL_ACK,
	MODEL_ATOMIC_ACK,
	MODEL_ATOMIC,
	MODEL_FLUSH,
	MODEL_ATOMIC_WRITE,
	MODEL_CNP,
	MODEL_UNKNOWN,
};

struct model_opcode {
	enum model_operation operation;
	bool first, last; /* of a message */
	uint32_t extension;
};

static inline struct model_opcode model_reliable(uint8_t low)
{
	switch (low) {
	case 12:
		return (struct model_opcode){MODEL_READ_REQUEST, false, false, 16};
	case 13:
		return (struct model_opcode){MODEL_READ_RESPONSE, true, false, 4};
	case 14:
		return (struct model_opcode){MODEL_READ_RESPONSE, false, false, 0};
	case 15:
		return (struct model_opcode){MODEL_READ_RESPONSE, false, true, 4};
	case 16:
		return (struct model_opcode){MODEL_READ_RESPONSE, true, true, 4};
	case 17:
		return (struct model_opcode){MODEL_ACK, false, false, 4};
	case 18:
		return (struct model_opcode){MODEL_ATOMIC_ACK, false, false, 12};
	case 19:
	case 20:
		return (struct model_opcode){MODEL_ATOMIC, false, false, 28};
	case 22:
		return (struct model_opcode){MODEL_SEND, false, true, 4};
	case 23:
		return (struct model_opcode){MODEL_SEND, true, true, 4};
	case 28:
		return (struct model_opcode){MODEL_FLUSH, false, false, 20};
	case 29:
		return (struct model_opcode){MODEL_ATOMIC_WRITE, false, false, 16};
	default:
		return (struct model_opcode){MODEL_UNKNOWN, false, false, 0};
	}
}

static inline struct model_opcode model_data(uint8_t low)
{
	static const char kinds[12] = "FMLLOOFMLLOO";
	bool write = low >= 6, immediate = low % 6 == 3 || low % 6 == 5;
	struct model_opcode o = {write ? MODEL_WRITE : MODEL_SEND, false, false, 0};

	o.first = kinds[low] == 'F' || kinds[low] == 'O';
	o.last = kinds[low] == 'L' || kinds[low] == 'O';
	o.extension = (immediate ? 4 : 0) + (write && o.first ? 16 : 0);
	return o;
}

static inline struct model_opcode model_opcode(uint8_t opcode)
{
	struct model_opcode o = {MODEL_UNKNOWN, false, false, 0};
	uint8_t service = opcode >> 5, low = opcode & 31;

	if (opcode == 0x81)
		return (struct model_opcode){MODEL_CNP, false, false, 16};
	if (service == 3 && (low == 4 || low == 5)) {
		o = model_data(low);
		o.extension += 8;
	} else if ((service == 0 || service == 1 || service == 5) && low < 12) {
		o = model_data(low);
	} else if (service == 0 || service == 5) {
		o = model_reliable(low);
	}
	if (service == 5 && o.operation != MODEL_UNKNOWN && o.operation != MODEL_READ_RESPONSE &&
	    o.operation != MODEL_ACK && o.operation != MODEL_ATOMIC_ACK)
		o.extension += 4;
	return o;
}

static inline bool model_is_walked(uint8_t next)
{
	return next == 0 || next == 43 || next == 44 || next == 60;
}

static inline int model_ipv4(struct model_view *v, struct model_packet *p)
{
	uint32_t ip = v->at, header, total;
	int result;

	if (model_need(v, 20, ESC_REASON_SHORT_IP, &result))
		return result;
	header = (v->data[ip] & 15) * 4;
	total = model_16(v, ip + 2);
	if (v->data[ip] >> 4 != 4 || header < 20)
		return ESC_REASON_BAD_IP_HEADER;
	if (v->data[ip + 9] != 17)
		return MODEL_OTHER;
	if (total < header)
		return ESC_REASON_BAD_IP_HEADER;
	if (model_16(v, ip + 6) & 0x3fff)
		return ESC_REASON_FRAGMENT;
	if (model_need(v, header, ESC_REASON_SHORT_IP, &result))
		return result;
	memcpy(p->key.src.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	memcpy(p->key.src.bytes + 12, v->data + ip + 12, 4);
	memcpy(p->key.dst.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	memcpy(p->key.dst.bytes + 12, v->data + ip + 16, 4);
	p->ip_version = 4;
	p->ecn = v->data[ip + 1] & 3;
	p->bytes = total;
	v->ip_end = ip + total;
	v->at = ip + header;
	return MODEL_ROCE;
}

static inline int model_ipv6_walk(struct model_view *v, uint8_t next)
{
	int walked, result;
	uint8_t kind;

	for (walked = 0; next != 17; walked++) {
		if (!model_is_walked(next))
			return MODEL_OTHER;
		if (walked == 6)
			return ESC_REASON_IPV6_EXTENSIONS;
		if (model_need(v, 8, ESC_REASON_SHORT_IP, &result))
			return result;
		kind = next;
		next = v->data[v->at];
		if (kind == 44) {
			if (model_16(v, v->at + 2) & 0xfff9)
				return next == 17 || model_is_walked(next) ? ESC_REASON_FRAGMENT
									   : MODEL_OTHER;
			v->at += 8;
			continue;
		}
		if (model_need(v, v->data[v->at + 1] * 8 + 8, ESC_REASON_SHORT_IP, &result))
			return result;
		v->at += v->data[v->at + 1] * 8 + 8;
	}
	return MODEL_ROCE;
}

static inline int model_ipv6(struct model_view *v, struct model_packet *p)
{
	uint32_t ip = v->at;
	int result;

	if (model_need(v, 40, ESC_REASON_SHORT_IP, &result))
		return result;
	if (v->data[ip] >> 4 != 6)
		return ESC_REASON_BAD_IP_HEADER;
	memcpy(p->key.src.bytes, v->data + ip + 8, 16);
	memcpy(p->key.dst.bytes, v->data + ip + 24, 16);
	p->ip_version = 6;
	p->ecn = v->data[ip + 1] >> 4 & 3;
	p->bytes = 40 + model_16(v, ip + 4);
	v->ip_end = ip + p->bytes;
	v->at = ip + 40;
	return model_ipv6_walk(v, v->data[ip + 6]);
}

static inline int model_bth(struct model_view *v, struct model_packet *p, uint32_t udp_bytes)
{
	uint32_t pad, bth = v->at;
	struct model_opcode o;
	int result;

	if (udp_bytes < 8 + 12 + 4)
		return ESC_REASON_SHORT_BTH;
	if (model_need(v, 12, ESC_REASON_UNREADABLE, &result))
		return result;
	if (v->data[bth + 1] & 15)
		return ESC_REASON_BTH_VERSION;
	p->opcode = v->data[bth];
	o = model_opcode(p->opcode);
	/* Of a probe the magic behind the BTH is read as well. */
	if (p->opcode >= 0xe5 && p->opcode <= 0xea &&
	    model_need(v, 16, ESC_REASON_UNREADABLE, &result))
		return result;
	if (o.operation == MODEL_UNKNOWN)
		return ESC_REASON_UNKNOWN_OPCODE;
	pad = v->data[bth + 1] >> 4 & 3;
	if (udp_bytes < 8 + 12 + o.extension + pad + 4)
		return ESC_REASON_SHORT_EXTENSION;
	p->payload = udp_bytes - 8 - 12 - o.extension - pad - 4;
	p->key.dest_qpn = model_32(v, bth + 4) & 0xffffff;
	p->psn = model_32(v, bth + 8) & 0xffffff;
	v->at = bth + 12;
	if (o.operation == MODEL_READ_REQUEST) {
		v->at += p->opcode >> 5 == 5 ? 4 : 0;
		if (model_need(v, 16, ESC_REASON_UNREADABLE, &result))
			return result;
		p->read_bytes = model_32(v, v->at + 12);
	} else if (p->opcode >> 5 != 3 && p->opcode >> 5 != 1 && (p->opcode & 31) >= 13 &&
		   (p->opcode & 31) <= 18 && (p->opcode & 31) != 14) {
		if (model_need(v, 4, ESC_REASON_UNREADABLE, &result))
			return result;
		p->syndrome = v->data[v->at];
	}
	return MODEL_ROCE;
}

static inline int model_udp(struct model_view *v, struct model_packet *p)
{
	uint32_t udp = v->at, bytes;
	int result;

	if (udp + 8 > v->ip_end)
		return ESC_REASON_SHORT_UDP;
	if (model_need(v, 8, ESC_REASON_IP_LENGTH, &result))
		return result;
	if (model_16(v, udp + 2) != 4791)
		return MODEL_OTHER;
	if (v->ip_end > v->total)
		return ESC_REASON_IP_LENGTH;
	bytes = model_16(v, udp + 4);
	if (bytes < 8 || udp + bytes > v->ip_end)
		return ESC_REASON_UDP_LENGTH;
	p->sport = model_16(v, udp);
	v->at += 8;
	return model_bth(v, p, bytes);
}

/* MODEL_ROCE with @p filled in, MODEL_OTHER, or an enum esc_reason. */
static inline int model_decode(const uint8_t *data, uint32_t total, uint32_t linear,
			       struct model_packet *p)
{
	struct model_view v = {data, total, linear, 0, 0};
	uint16_t ethertype;
	int tags = 0, result;

	memset(p, 0, sizeof(*p));
	if (model_need(&v, 14, ESC_REASON_SHORT_ETHERNET, &result))
		return result;
	ethertype = model_16(&v, 12);
	v.at = 14;
	while (ethertype == 0x8100 || ethertype == 0x88a8) {
		if (tags++ == 2)
			return ESC_REASON_VLAN_DEPTH;
		if (model_need(&v, 4, ESC_REASON_SHORT_VLAN, &result))
			return result;
		ethertype = model_16(&v, v.at + 2);
		v.at += 4;
	}
	if (ethertype == 0x8915)
		return ESC_REASON_ROCEV1;
	if (ethertype != 0x0800 && ethertype != 0x86dd)
		return MODEL_OTHER;
	result = ethertype == 0x0800 ? model_ipv4(&v, p) : model_ipv6(&v, p);
	return result == MODEL_ROCE ? model_udp(&v, p) : result;
}

#endif

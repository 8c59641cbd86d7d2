/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames for the tests: built by description, read from captures, and altered. */
#ifndef ESC_TESTS_BPF_FRAME_H
#define ESC_TESTS_BPF_FRAME_H

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_MAX 9216

struct frame {
	uint32_t bytes;
	uint8_t data[FRAME_MAX];
};

static inline void frame_put16(struct frame *f, uint32_t at, uint16_t value)
{
	f->data[at] = value >> 8;
	f->data[at + 1] = value;
}

static inline void frame_put32(struct frame *f, uint32_t at, uint32_t value)
{
	frame_put16(f, at, value >> 16);
	frame_put16(f, at + 2, value);
}

static inline uint16_t frame_get16(const struct frame *f, uint32_t at)
{
	return f->data[at] << 8 | f->data[at + 1];
}

static inline void frame_insert(struct frame *f, uint32_t at, const void *bytes, uint32_t count)
{
	memmove(f->data + at + count, f->data + at, f->bytes - at);
	memcpy(f->data + at, bytes, count);
	f->bytes += count;
}

/* Puts a VLAN tag before all that there are. */
static inline void frame_add_vlan(struct frame *f, uint16_t ethertype, uint16_t vlan)
{
	uint8_t tag[4] = {ethertype >> 8, ethertype & 0xff, vlan >> 8, vlan & 0xff};

	frame_insert(f, 12, tag, sizeof(tag));
}

/* Where the IP header is; the frame is known to have one. */
static inline uint32_t frame_ip_offset(const struct frame *f)
{
	uint32_t at = 12;

	while (frame_get16(f, at) == 0x8100 || frame_get16(f, at) == 0x88a8)
		at += 4;
	return at + 2;
}

static inline bool frame_is_ipv6(const struct frame *f)
{
	return frame_get16(f, frame_ip_offset(f) - 2) == 0x86dd;
}

/* @bytes of IPv4 options, a multiple of 4, at most 40. */
static inline void frame_add_ipv4_options(struct frame *f, uint32_t bytes)
{
	static const uint8_t nops[40] = {[0 ... 39] = 1};
	uint32_t ip = frame_ip_offset(f);

	frame_insert(f, ip + (f->data[ip] & 15) * 4, nops, bytes);
	f->data[ip] += bytes / 4;
	frame_put16(f, ip + 2, frame_get16(f, ip + 2) + bytes);
}

/* An extension header of @kind just behind the IPv6 header, @bytes a multiple of 8. */
static inline void frame_add_ipv6_extension(struct frame *f, uint8_t kind, uint32_t bytes)
{
	uint8_t header[2048] = {0};
	uint32_t ip = frame_ip_offset(f);

	header[0] = f->data[ip + 6];
	header[1] = kind == 44 ? 0 : bytes / 8 - 1;
	if (kind != 44)
		header[2] = 1; /* PadN */
	header[3] = kind == 44 || bytes < 8 ? 0 : 4;
	f->data[ip + 6] = kind;
	frame_insert(f, ip + 40, header, bytes);
	frame_put16(f, ip + 4, frame_get16(f, ip + 4) + bytes);
}

/* The same packet as other networks would carry it. */
enum frame_shape {
	FRAME_PLAIN,
	FRAME_VLAN,
	FRAME_QINQ,
	FRAME_OPTIONS,
	FRAME_OPTIONS_QINQ,
	FRAME_SHAPES,
};

static const char *const frame_shape_names[FRAME_SHAPES] = {
	"as captured", "one VLAN tag", "two VLAN tags", "options or extension headers",
	"two VLAN tags and options"};

static inline bool frame_shape_has_options(int shape)
{
	return shape == FRAME_OPTIONS || shape == FRAME_OPTIONS_QINQ;
}

static inline void frame_set_shape(struct frame *f, enum frame_shape shape)
{
	if (shape == FRAME_OPTIONS || shape == FRAME_OPTIONS_QINQ) {
		if (frame_is_ipv6(f)) {
			frame_add_ipv6_extension(f, 44, 8);
			frame_add_ipv6_extension(f, 43, 24);
			frame_add_ipv6_extension(f, 60, 8);
			frame_add_ipv6_extension(f, 0, 16);
		} else {
			frame_add_ipv4_options(f, 40);
		}
	}
	if (shape != FRAME_PLAIN && shape != FRAME_OPTIONS)
		frame_add_vlan(f, 0x8100, 7);
	if (shape == FRAME_QINQ || shape == FRAME_OPTIONS_QINQ)
		frame_add_vlan(f, 0x88a8, 100);
}

/* A frame by description; zero means the usual. */
struct frame_plan {
	uint8_t ip; /* 4 or 6; 0 is 4 */
	uint8_t opcode;
	uint8_t ecn;
	uint8_t bth_flags; /* the pad count is put in from `pad` */
	uint8_t pad;
	uint8_t syndrome;
	uint16_t sport;
	uint16_t dport;
	uint16_t source_host; /* last two bytes of the source address */
	uint32_t qpn;
	uint32_t psn;
	uint32_t extension; /* bytes between BTH and payload */
	uint32_t payload;
	uint32_t read_bytes; /* RETH length, put behind an XRCETH if the opcode is XRC */
};

static inline uint32_t frame_build_ipv4(struct frame *f, const struct frame_plan *plan,
					uint32_t udp_bytes)
{
	uint32_t at = 14;

	frame_put16(f, 12, 0x0800);
	f->data[at] = 0x45;
	f->data[at + 1] = plan->ecn;
	frame_put16(f, at + 2, 20 + udp_bytes);
	frame_put16(f, at + 6, 0x4000);
	f->data[at + 8] = 64;
	f->data[at + 9] = 17;
	frame_put32(f, at + 12, 0x0a010000 + plan->source_host);
	frame_put32(f, at + 16, 0x0a020002);
	return at + 20;
}

static inline uint32_t frame_build_ipv6(struct frame *f, const struct frame_plan *plan,
					uint32_t udp_bytes)
{
	uint32_t at = 14;

	frame_put16(f, 12, 0x86dd);
	frame_put32(f, at, 0x60000000 | (uint32_t)plan->ecn << 20);
	frame_put16(f, at + 4, udp_bytes);
	f->data[at + 6] = 17;
	f->data[at + 7] = 64;
	frame_put32(f, at + 8, 0xfd010000);
	frame_put16(f, at + 22, plan->source_host);
	frame_put32(f, at + 24, 0xfd020000);
	frame_put16(f, at + 38, 2);
	return at + 40;
}

static inline void frame_build(struct frame *f, const struct frame_plan *plan)
{
	uint32_t udp = 8 + 12 + plan->extension + plan->payload + plan->pad + 4, at, extension;

	memset(f->data, 0, 14 + 40 + udp);
	memcpy(f->data, "\x02\0\0\0\0\x02\x02\0\0\0\0\x01", 12);
	at = plan->ip == 6 ? frame_build_ipv6(f, plan, udp) : frame_build_ipv4(f, plan, udp);
	frame_put16(f, at, plan->sport ? plan->sport : 50000);
	frame_put16(f, at + 2, plan->dport ? plan->dport : 4791);
	frame_put16(f, at + 4, udp);
	f->data[at + 8] = plan->opcode;
	f->data[at + 9] = plan->bth_flags | plan->pad << 4;
	frame_put16(f, at + 10, 0xffff);
	frame_put32(f, at + 12, plan->qpn);
	frame_put32(f, at + 16, plan->psn);
	extension = at + 20 + (plan->opcode >> 5 == 5 ? 4 : 0);
	if (plan->read_bytes)
		frame_put32(f, extension + 12, plan->read_bytes);
	if (plan->syndrome)
		f->data[at + 20] = plan->syndrome;
	f->bytes = at + udp;
}

/* Reads the next packet of a little-endian microsecond or nanosecond capture. */
static inline bool frame_read(FILE *capture, struct frame *f)
{
	uint32_t header[4];

	if (ftell(capture) == 0 && fseek(capture, 24, SEEK_SET))
		return false;
	if (fread(header, sizeof(header), 1, capture) != 1 || le32toh(header[2]) > FRAME_MAX)
		return false;
	f->bytes = le32toh(header[2]);
	return fread(f->data, f->bytes, 1, capture) == 1;
}

#endif

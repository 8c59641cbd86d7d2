/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The probe on the wire, specified a second time: by offsets, with a SipHash of its
 * own. Shares names with the kernel programs (reasons, opcodes), no structs.
 */
#ifndef ESC_TESTS_BPF_PROBE_MODEL_H
#define ESC_TESTS_BPF_PROBE_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "frame.h"
#include "maps/maps.h"

/* Offsets from the BTH. */
enum {
	P_OPCODE = 0,
	P_MAGIC = 12,
	P_VERSION = 16, /* of the format */
	P_FLAGS = 17,
	P_NEWEST = 19, /* that the sender reads */
	P_SENDER = 20,
	P_TARGET = 28,
	P_EPOCH = 36,
	P_ECHO = 44,
	P_SEQUENCE = 52,
	P_PAIR = 56,
	P_T1 = 60,
	P_T2 = 68,
	P_T3 = 76,
	P_ABOUT = 84,
	P_ABOUT_AGE = 92,
	P_HEARD_AGE = 96,
	P_VIEW = 100,
	P_ANCHOR = 140,
	P_TAG = 180,
	P_ICRC = 188,
	P_END = 192,
};

#define P_VIEW_BYTES 40
#define P_ANCHOR_BYTES 40

struct probe_key {
	uint8_t bytes[16];
};

/* --- SipHash-2-4 byte by byte, after the paper --- */

static inline uint64_t model_rotate(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static inline void model_sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = model_rotate(v[1], 13) ^ v[0];
	v[0] = model_rotate(v[0], 32);
	v[2] += v[3];
	v[3] = model_rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = model_rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = model_rotate(v[1], 17) ^ v[2];
	v[2] = model_rotate(v[2], 32);
}

static inline uint64_t model_little(const uint8_t *at, int count)
{
	uint64_t value = 0;

	while (count--)
		value = value << 8 | at[count];
	return value;
}

static inline uint64_t model_siphash(const struct probe_key *key, const uint8_t *data, size_t count)
{
	uint64_t k0 = model_little(key->bytes, 8), k1 = model_little(key->bytes + 8, 8), word;
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull,
			 k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull};
	size_t at;
	int i;

	for (at = 0; at <= count; at += 8) {
		if (count - at >= 8)
			word = model_little(data + at, 8);
		else
			word = model_little(data + at, count - at) | (uint64_t)count << 56;
		v[3] ^= word;
		model_sip_round(v);
		model_sip_round(v);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	for (i = 0; i < 4; i++)
		model_sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* --- fields --- */

static inline uint64_t probe_get(const struct frame *f, uint32_t at, int bytes)
{
	uint64_t value = 0;
	int i;

	for (i = 0; i < bytes; i++)
		value = value << 8 | f->data[at + i];
	return value;
}

static inline void probe_put(struct frame *f, uint32_t at, int bytes, uint64_t value)
{
	while (bytes--) {
		f->data[at + bytes] = value;
		value >>= 8;
	}
}

/* Where the BTH is, in a frame that is built well. */
static inline uint32_t probe_bth(const struct frame *f)
{
	uint32_t ip = frame_ip_offset(f), at, bytes;
	uint8_t next;

	if (!frame_is_ipv6(f))
		return ip + (f->data[ip] & 15) * 4 + 8;
	at = ip + 40;
	for (next = f->data[ip + 6]; next != 17; at += bytes) {
		bytes = next == 44 ? 8 : f->data[at + 1] * 8 + 8;
		next = f->data[at];
	}
	return at + 8;
}

/* NULL for @key: the tag without a key. */
static inline void probe_put_tag(struct frame *f, const struct probe_key *key)
{
	uint32_t bth = probe_bth(f);
	uint64_t tag = key ? model_siphash(key, f->data + bth, P_TAG) : 0;
	int i;

	for (i = 0; i < 8; i++)
		f->data[bth + P_TAG + i] = tag >> (8 * i);
}

static inline bool probe_tag_is(const struct frame *f, const struct probe_key *key)
{
	struct frame again = *f;

	probe_put_tag(&again, key);
	return !memcmp(&again.data, f->data, f->bytes);
}

/* A probe by description. */
struct probe_plan {
	uint8_t ip;	      /* 4 or 6; 0 is 4 */
	uint8_t opcode;	      /* 0: a request */
	uint8_t version_more; /* added to the format, 2 */
	uint8_t newest;	      /* that the sender reads */
	uint8_t flags;
	uint16_t sport, dport, source_host;
	uint64_t sender, target, epoch, echo_epoch, t1, t2, t3, about;
	uint32_t sequence, pair, about_age_us, received_age_us;
	bool bad_magic;
	const uint8_t *view;   /* P_VIEW_BYTES of them */
	const uint8_t *anchor; /* P_ANCHOR_BYTES */
	enum frame_shape shape;
	const struct probe_key *key; /* NULL: tag 0 */
};

static inline void probe_build(struct frame *f, const struct probe_plan *plan)
{
	struct frame_plan outer = {
		.ip = plan->ip,
		.opcode = plan->opcode ? plan->opcode : ESC_PROBE_OPCODE_REQUEST,
		.payload = P_ICRC - P_MAGIC,
		.sport = plan->sport,
		.dport = plan->dport,
		.source_host = plan->source_host,
	};
	uint32_t at;

	frame_build(f, &outer);
	if (plan->ip != 6)
		frame_put16(f, 14 + 10, 0x1234); /* a checksum that must be moved, not made */
	frame_set_shape(f, plan->shape);
	at = probe_bth(f);
	probe_put(f, at + P_MAGIC, 4, 0x45734370 + plan->bad_magic);
	probe_put(f, at + P_VERSION, 1, 2 + plan->version_more);
	probe_put(f, at + P_FLAGS, 1, plan->flags);
	probe_put(f, at + P_NEWEST, 1, plan->newest);
	probe_put(f, at + P_SENDER, 8, plan->sender);
	probe_put(f, at + P_TARGET, 8, plan->target);
	probe_put(f, at + P_EPOCH, 8, plan->epoch);
	probe_put(f, at + P_ECHO, 8, plan->echo_epoch);
	probe_put(f, at + P_SEQUENCE, 4, plan->sequence);
	probe_put(f, at + P_PAIR, 4, plan->pair);
	probe_put(f, at + P_T1, 8, plan->t1);
	probe_put(f, at + P_T2, 8, plan->t2);
	probe_put(f, at + P_T3, 8, plan->t3);
	probe_put(f, at + P_ABOUT, 8, plan->about);
	probe_put(f, at + P_ABOUT_AGE, 4, plan->about_age_us);
	probe_put(f, at + P_HEARD_AGE, 4, plan->received_age_us);
	if (plan->view)
		memcpy(f->data + at + P_VIEW, plan->view, P_VIEW_BYTES);
	if (plan->anchor)
		memcpy(f->data + at + P_ANCHOR, plan->anchor, P_ANCHOR_BYTES);
	probe_put_tag(f, plan->key);
}

/* --- the reply --- */

struct probe_responder {
	uint64_t self, epoch;
	uint8_t own_flags; /* plane and key */
	const struct probe_key *key;
	const uint8_t *view; /* NULL: none to tell */
	bool no_anchor;	     /* else own_anchor */
	uint8_t version;     /* of the format; 0: 2 */
};

#define MODEL_NEWEST 3 /* that this release reads */

static inline void model_put_version(struct frame *f, uint8_t version)
{
	f->data[probe_bth(f) + P_VERSION] = version ? version : 2;
	f->data[probe_bth(f) + P_NEWEST] = MODEL_NEWEST;
}

static inline void model_swap(uint8_t *a, uint8_t *b, int count)
{
	uint8_t held;

	while (count--) {
		held = a[count];
		a[count] = b[count];
		b[count] = held;
	}
}

static const uint8_t own_anchor[P_ANCHOR_BYTES] = {
	41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60,
	61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 3,  0,	0,  0};

static inline void model_put_anchor(struct frame *f, uint32_t bth, const struct probe_responder *by)
{
	if (by->no_anchor)
		memset(f->data + bth + P_ANCHOR, 0, P_ANCHOR_BYTES);
	else
		memcpy(f->data + bth + P_ANCHOR, own_anchor, P_ANCHOR_BYTES);
}

/* One's complement sum of an IPv4 header, all words as they are. */
static inline uint16_t model_header_sum(const struct frame *f, uint32_t ip)
{
	uint32_t sum = 0, i;

	for (i = 0; i < (f->data[ip] & 15u) * 4; i += 2)
		sum += frame_get16(f, ip + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/*
 * The frame as it goes back where it came from. The IPv4 checksum is as right or wrong as it was.
 */
static inline void model_reverse(struct frame *reply, const struct frame *request)
{
	uint32_t ip = frame_ip_offset(request), sum;
	uint8_t *d = reply->data;

	*reply = *request;
	model_swap(d, d + 6, 6);
	if (frame_is_ipv6(request)) {
		model_swap(d + ip + 8, d + ip + 24, 16);
		d[ip + 7] = 64;
	} else {
		model_swap(d + ip + 12, d + ip + 16, 4);
		d[ip + 8] = 64;
		/* check' = check + old - new, in one's complement */
		sum = frame_get16(request, ip + 10) + frame_get16(request, ip + 8) +
		      (0xffff - frame_get16(reply, ip + 8));
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		frame_put16(reply, ip + 10, sum);
	}
	frame_put16(reply, probe_bth(request) - 2, 0);
}

/* The reply to @request, with the times and ages of @actual, which only the kernel knows. */
static inline void model_reply(struct frame *reply, const struct frame *request,
			       const struct frame *actual, const struct probe_responder *by)
{
	uint32_t bth = probe_bth(request);
	uint8_t flags = request->data[bth + P_FLAGS] & (ESC_PROBE_SECOND | ESC_PROBE_QUERY);
	uint8_t *d = reply->data;

	model_reverse(reply, request);
	d[bth + P_OPCODE] = ESC_PROBE_OPCODE_REPLY;
	model_put_version(reply, by->version);
	d[bth + P_FLAGS] = flags | by->own_flags | (by->view ? ESC_PROBE_VIEW : 0);
	memcpy(d + bth + P_TARGET, request->data + bth + P_SENDER, 8);
	memcpy(d + bth + P_ECHO, request->data + bth + P_EPOCH, 8);
	probe_put(reply, bth + P_SENDER, 8, by->self);
	probe_put(reply, bth + P_EPOCH, 8, by->epoch);
	memcpy(d + bth + P_T2, actual->data + bth + P_T2, 16);
	memcpy(d + bth + P_ABOUT_AGE, actual->data + bth + P_ABOUT_AGE, 8);
	if (by->view)
		memcpy(d + bth + P_VIEW, by->view, P_VIEW_BYTES);
	else
		memset(d + bth + P_VIEW, 0, P_VIEW_BYTES);
	model_put_anchor(reply, bth, by);
	probe_put_tag(reply, by->key);
}

#endif

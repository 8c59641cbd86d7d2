/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receipt on the wire, specified a second time: by offsets from the BTH, with
 * probe_model.h's SipHash. Shares names with the kernel programs, no structs.
 */
#ifndef ESC_TESTS_BPF_RECEIPT_MODEL_H
#define ESC_TESTS_BPF_RECEIPT_MODEL_H

#include "probe_model.h"

enum {
	R_MAGIC = 12,
	R_VERSION = 16,
	R_FLAGS = 17,
	R_SPORT = 18,
	R_SENDER = 20,
	R_TARGET = 28,
	R_EPOCH = 36,
	R_RX = 44,
	R_BOUND = 52,
	R_QPN = 56,
	R_PSN = 60,
	R_STACK = 64,
	R_MESSAGE = 68,
	R_NEWEST = 72, /* version that the sender reads */
	R_TAG = 76,
	R_ICRC = 84,
	R_END = 88,
};

struct receipt_plan {
	uint8_t ip; /* 4 or 6; 0 is 4 */
	uint8_t flags;
	uint8_t version_more, newest;
	uint16_t sport, source_host;
	uint16_t longer; /* payload bytes too many */
	uint64_t sender, target, epoch, rx_fabric_ns;
	uint32_t bound_ns, qpn, psn, stack_ns, message_ns;
	bool bad_magic;
	enum frame_shape shape;
	const struct probe_key *key; /* NULL: tag 0 */
};

static inline void receipt_put_tag(struct frame *f, uint32_t bth, const struct probe_key *key)
{
	uint64_t tag = key ? model_siphash(key, f->data + bth, R_TAG) : 0;
	int i;

	for (i = 0; i < 8; i++)
		f->data[bth + R_TAG + i] = tag >> (8 * i);
}

/* From the BTH on. */
static inline void receipt_put(struct frame *f, uint32_t at, const struct receipt_plan *plan)
{
	memset(f->data + at, 0, R_END);
	f->data[at] = 0xe7;
	frame_put16(f, at + 2, 0xffff);
	probe_put(f, at + R_MAGIC, 4, 0x45734370 + plan->bad_magic);
	f->data[at + R_VERSION] = 2 + plan->version_more;
	f->data[at + R_FLAGS] = plan->flags;
	frame_put16(f, at + R_SPORT, plan->sport ? plan->sport : 50000);
	probe_put(f, at + R_SENDER, 8, plan->sender);
	probe_put(f, at + R_TARGET, 8, plan->target);
	probe_put(f, at + R_EPOCH, 8, plan->epoch);
	probe_put(f, at + R_RX, 8, plan->rx_fabric_ns);
	probe_put(f, at + R_BOUND, 4, plan->bound_ns);
	probe_put(f, at + R_QPN, 4, plan->qpn);
	probe_put(f, at + R_PSN, 4, plan->psn);
	probe_put(f, at + R_STACK, 4, plan->stack_ns);
	probe_put(f, at + R_MESSAGE, 4, plan->message_ns);
	f->data[at + R_NEWEST] = plan->newest;
	receipt_put_tag(f, at, plan->key);
}

static inline void receipt_build(struct frame *f, const struct receipt_plan *plan)
{
	struct frame_plan outer = {
		.ip = plan->ip,
		.opcode = 0xe7,
		.payload = R_ICRC - R_MAGIC + plan->longer,
		.sport = plan->sport,
		.source_host = plan->source_host,
	};

	frame_build(f, &outer);
	frame_set_shape(f, plan->shape);
	receipt_put(f, probe_bth(f), plan);
}

/* One's complement of the sum of the IPv4 header at @ip, its checksum being 0. */
static inline uint16_t receipt_checksum(const struct frame *f, uint32_t ip)
{
	uint32_t sum = 0, i;

	for (i = 0; i < 20; i += 2)
		sum += frame_get16(f, ip + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* The whole frame that replies to @data, a plain frame without a tag: @plan has what is behind the
 * BTH. */
static inline void receipt_reply(struct frame *f, const struct frame *data,
				 const struct receipt_plan *plan)
{
	bool six = frame_is_ipv6(data);
	uint32_t ip = 14, udp = ip + (six ? 40 : 20);

	memset(f->data, 0, udp + 8);
	memcpy(f->data, data->data + 6, 6);
	memcpy(f->data + 6, data->data, 6);
	memcpy(f->data + 12, data->data + 12, 2);
	if (six) {
		f->data[ip] = data->data[ip] & 0xff;
		f->data[ip + 1] = data->data[ip + 1] & 0xc0;
		frame_put16(f, ip + 4, 8 + R_END);
		f->data[ip + 6] = 17;
		f->data[ip + 7] = 64;
		memcpy(f->data + ip + 8, data->data + ip + 24, 16);
		memcpy(f->data + ip + 24, data->data + ip + 8, 16);
	} else {
		f->data[ip] = 0x45;
		f->data[ip + 1] = data->data[ip + 1] & 0xfc;
		frame_put16(f, ip + 2, 20 + 8 + R_END);
		frame_put16(f, ip + 6, 0x4000);
		f->data[ip + 8] = 64;
		f->data[ip + 9] = 17;
		memcpy(f->data + ip + 12, data->data + ip + 16, 4);
		memcpy(f->data + ip + 16, data->data + ip + 12, 4);
		frame_put16(f, ip + 10, receipt_checksum(f, ip));
	}
	memcpy(f->data + udp, data->data + udp, 2);
	frame_put16(f, udp + 2, 4791);
	frame_put16(f, udp + 4, 8 + R_END);
	f->bytes = udp + 8 + R_END;
	receipt_put(f, udp + 8, plan);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Encapsulated packets and probes of NICs as they must be, done in full, and what becomes of them.
 */
#ifndef ESC_TESTS_NIC_PACKETS_H
#define ESC_TESTS_NIC_PACKETS_H

#include "nic_world.h"

static inline uint64_t peer_dead_ns(const struct esc_address *address)
{
	struct esc_nic_peer peer = {};

	bpf_map_lookup_elem(map_fd(nic_peers), address, &peer);
	return peer.dead_ktime_ns;
}

static inline uint64_t reason_count(uint32_t reason)
{
	struct esc_reason_count values[WORLD_CPUS_MAX];
	uint64_t sum = 0;

	bpf_map_lookup_elem(map_fd(reasons), &reason, values);
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
		sum += values[cpu].tc_egress + values[cpu].tc_ingress;
	return sum;
}

/* --- what it must be, done in full --- */

/* The format of what is built here, and the newest that its sender reads. */
static uint8_t format = 2, newest = 2;

/* Our sequence's upper bits, as data in UDP has them. */
static inline uint32_t number_now(void)
{
	return (now_ns() + NUMBER_OFFSET_NS) >> ESC_NIC_NUMBER_SHIFT;
}

/* The token of a frame that wrap() made, at its place. */
static inline void put_token(struct frame *f, const struct probe_key *key)
{
	bool six = frame_is_ipv6(f);
	uint32_t shim = 14 + (six ? 48 : 28), inner = shim + 16;
	struct esc_address ends[4] = {};
	uint8_t input[88] = {0};
	uint64_t token;

	for (int i = 0; i < 4; i++) {
		uint32_t at = (i < 2 ? 14 : inner) + (six ? 8 + 16 * (i & 1) : 12 + 4 * (i & 1));

		ends[i].bytes[10] = ends[i].bytes[11] = 0xff;
		memcpy(ends[i].bytes + (six ? 0 : 12), f->data + at, six ? 16 : 4);
	}
	memcpy(input, ends, 64);
	memcpy(input + 64, f->data + inner + (six ? 48 : 28), 12);
	memcpy(input + 80, f->data + shim, 8);
	token = key ? model_siphash(key, input, sizeof(input)) : 0;
	memcpy(f->data + shim + 8, &token, 8);
}

static inline void put_number(struct frame *f, uint32_t number, const struct probe_key *key)
{
	uint32_t at = 14 + (frame_is_ipv6(f) ? 48 : 28) + 4;

	frame_put16(f, at, number >> 16);
	frame_put16(f, at + 2, number);
	put_token(f, key);
}

/* The number of a frame in UDP, which may have been made just before the next one began. */
static inline uint32_t number_of(const struct frame *f)
{
	uint32_t at = 14 + (frame_is_ipv6(f) ? 48 : 28) + 4;
	uint32_t number = (uint32_t)frame_get16(f, at) << 16 | frame_get16(f, at + 2);

	return number_now() - number <= 1 ? number : 0;
}

/* The IP packet without Ethernet's padding, in UDP between the NICs that are named. */
static inline void wrap(struct frame *f, const char *from, const char *to, uint16_t port)
{
	bool six = frame_is_ipv6(f);
	uint32_t head = six ? 64 : 44, udp = 14 + (six ? 40 : 20);
	uint32_t inner = six ? 40 + frame_get16(f, 18) : frame_get16(f, 16);
	uint8_t tos = six ? frame_get16(f, 14) >> 4 : f->data[15];
	uint16_t sport = frame_get16(f, frame_udp_offset(f));
	struct esc_address a = address_of(from), b = address_of(to);
	uint8_t zeros[64] = {0};
	uint32_t sum = 0;

	if (six)
		memcpy(zeros, f->data + 14, 4);
	frame_insert(f, 14, zeros, head);
	if (six) {
		frame_put16(f, 18, inner + 24);
		f->data[20] = 17;
		f->data[21] = 64;
		memcpy(f->data + 22, a.bytes, 16);
		memcpy(f->data + 38, b.bytes, 16);
	} else {
		f->data[14] = 0x45;
		f->data[15] = tos;
		frame_put16(f, 16, inner + 44);
		frame_put16(f, 20, 0x4000);
		f->data[22] = 64;
		f->data[23] = 17;
		memcpy(f->data + 26, a.bytes + 12, 4);
		memcpy(f->data + 30, b.bytes + 12, 4);
		sum = sum_bytes(f->data + 14, 20);
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		frame_put16(f, 24, ~sum);
	}
	frame_put16(f, udp, sport);
	frame_put16(f, udp + 2, port);
	frame_put16(f, udp + 4, inner + 24);
	f->data[udp + 8] = format;
	f->data[udp + 10] = newest;
	put_number(f, number_now(), &pair_key);
}

/* A packet as it leaves its sender comes to the receiver: source and destination are swapped. */
static inline void set_receiver(const struct frame *inner, bool four)
{
	struct esc_address src, dst, a;

	addresses_of(inner, &src, &dst);
	clear_map(map_fd(nic_local), 16);
	clear_map(map_fd(nic_peers), 16);
	set_home(&dst, four ? "10.8.0.1" : "fd08::1", four ? "10.8.0.2" : "fd08::2", ESC_NIC_PAIRED,
		 9000);
	a = address_of(four ? "10.8.0.2" : "fd08::2");
	set_home(&a, four ? "0.0.0.0" : "::", four ? "0.0.0.0" : "::", 0, 9000);
	set_peer(&src, four ? "10.9.0.1" : "fd09::1", four ? "10.9.0.2" : "fd09::2", HOME_ID, 0);
	a = address_of(four ? "10.9.0.2" : "fd09::2");
	set_peer(&a, NULL, NULL, HOME_ID, 0);
}

/* A probe in @f, from @from to @to. */
static inline void build_probe_at(struct frame *f, const char *from, const char *to, uint8_t kind,
				  const char *subject, uint64_t number_ns,
				  const struct probe_key *key)
{
	struct frame_plan plan = {.ip = 4, .payload = 24, .dport = PORT + 1, .sport = 40000};
	struct esc_nic_probe probe = {
		.magic = htobe32(ESC_NIC_MAGIC),
		.min_version = format,
		.version = newest,
		.kind = kind,
		.cookie = 0x1122334455667788,
		.number_ns = htobe64(number_ns),
	};
	struct esc_address a = address_of(from), b = address_of(to);
	uint8_t input[80];

	if (subject) {
		probe.flags = ESC_NIC_REPORTS_DEAD;
		probe.subject = address_of(subject);
	}
	frame_build(f, &plan);
	memcpy(f->data + 26, a.bytes + 12, 4);
	memcpy(f->data + 30, b.bytes + 12, 4);
	memcpy(input, &a, 16);
	memcpy(input + 16, &b, 16);
	memcpy(input + 32, &probe, 48);
	probe.tag = key ? model_siphash(key, input, sizeof(input)) : 0;
	memcpy(f->data + 42, &probe, sizeof(probe));
	f->bytes = 42 + sizeof(probe);
	frame_put16(f, 16, 28 + sizeof(probe));
	frame_put16(f, 38, 8 + sizeof(probe));
}

static inline void build_probe(struct frame *f, const char *from, const char *to, uint8_t kind,
			       const char *subject)
{
	static uint64_t number_ns;

	if (kind == ESC_NIC_REQUEST)
		number_ns = now_ns() + NUMBER_OFFSET_NS;
	build_probe_at(f, from, to, kind, subject, number_ns, &pair_key);
}

/* Refused at ingress: the verdict, the reason, and nothing learned. */
static inline void refuse(const char *name, const struct frame *f, int verdict, uint32_t reason)
{
	struct esc_address forger = address_of("10.1.0.3");
	uint64_t before = reason_count(reason);
	struct frame got;

	tap_ok(run(in_fd, f, &got) == verdict && reason_count(reason) == before + 1 &&
		       (verdict == SHOT || same(f, &got)) && !peer_dead_ns(&forger),
	       "in: %s", name);
}

#endif

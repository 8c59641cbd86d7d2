/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a steered packet has to look like, by doing it without the shortcut: the port is
 * written, the ICRC is taken over the whole packet by zlib, the UDP checksum over
 * the whole datagram. Shares nothing with the kernel programs or pacing/.
 */
#ifndef ESC_TESTS_BPF_STEER_MODEL_H
#define ESC_TESTS_BPF_STEER_MODEL_H

#include <time.h>
#include <zlib.h>

#include "frame.h"
#include "world.h"

static uint64_t steer_random_state;

/* xorshift64*: the same everywhere, so a seed can be repeated. */
static inline uint32_t steer_random(void)
{
	steer_random_state ^= steer_random_state >> 12;
	steer_random_state ^= steer_random_state << 25;
	steer_random_state ^= steer_random_state >> 27;
	return (steer_random_state * 2685821657736338717ull) >> 32;
}

static inline uint32_t steer_below(uint32_t n)
{
	return steer_random() % n;
}

/* Where the UDP header is; the frame is known to have one. */
static inline uint32_t frame_udp_offset(const struct frame *f)
{
	uint32_t at = frame_ip_offset(f);
	uint8_t next;

	if (!frame_is_ipv6(f))
		return at + (f->data[at] & 15) * 4;
	next = f->data[at + 6];
	at += 40;
	while (next != 17) {
		uint32_t bytes = next == 44 ? 8 : 8 + f->data[at + 1] * 8;

		next = f->data[at];
		at += bytes;
	}
	return at;
}

/* InfiniBand vol. 1 annex A17: what routers and NICs may change counts as ones. */
static inline uint32_t frame_icrc(const struct frame *f)
{
	static const uint8_t ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
	static struct frame m;
	uint32_t ip = frame_ip_offset(f), udp = frame_udp_offset(f);

	m = *f;
	if (frame_is_ipv6(f)) {
		m.data[ip] |= 0x0f;
		memset(m.data + ip + 1, 255, 3);
		m.data[ip + 7] = 255;
	} else {
		m.data[ip + 1] = m.data[ip + 8] = 255;
		memset(m.data + ip + 10, 255, 2);
	}
	memset(m.data + udp + 6, 255, 2);
	m.data[udp + 8 + 4] = 255;
	return crc32(crc32(0, ones, sizeof(ones)), m.data + ip,
		     udp - ip + frame_get16(f, udp + 4) - 4);
}

static inline uint32_t sum_bytes(const uint8_t *data, uint32_t bytes)
{
	uint32_t sum = 0, i;

	for (i = 0; i < bytes; i++)
		sum += i & 1 ? data[i] : data[i] << 8;
	return sum;
}

static inline uint16_t sum_fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* RFC 768: of the pseudo header alone, or of all. */
static inline uint16_t frame_udp_sum(const struct frame *f, bool all)
{
	uint32_t ip = frame_ip_offset(f), udp = frame_udp_offset(f);
	uint32_t bytes = frame_get16(f, udp + 4);
	bool v6 = frame_is_ipv6(f);
	uint64_t sum = sum_bytes(f->data + ip + (v6 ? 8 : 12), v6 ? 32 : 8) + 17 + bytes;

	return sum_fold(all ? sum + sum_bytes(f->data + udp, bytes) : sum);
}

enum frame_check { CHECK_NONE, CHECK_FULL, CHECK_PARTIAL };

/* Writes the ICRC, and the UDP checksum: none, the right one, or what a NIC is to complete. */
static inline void frame_seal(struct frame *f, enum frame_check check)
{
	uint32_t udp = frame_udp_offset(f), at = udp + frame_get16(f, udp + 4) - 4;
	uint32_t icrc = htole32(frame_icrc(f));
	uint16_t sum;

	memcpy(f->data + at, &icrc, 4);
	frame_put16(f, udp + 6, 0);
	if (check == CHECK_NONE)
		return;
	sum = frame_udp_sum(f, check == CHECK_FULL);
	if (check == CHECK_FULL)
		sum = sum == 0xffff ? sum : ~sum;
	frame_put16(f, udp + 6, sum);
}

/* The frame as it has to leave with @sport. */
static inline void frame_resteer(struct frame *f, uint16_t sport, enum frame_check check)
{
	frame_put16(f, frame_udp_offset(f), sport);
	frame_seal(f, check);
}

/* Any RoCEv2 packet: every opcode, every length up to @most bytes of IP, every shape. */
static inline enum frame_check frame_make_random(struct frame *f, uint32_t qpn, uint32_t most)
{
	static const struct {
		uint8_t opcode, extension;
	} ops[] = {
#define X(op, name, bytes, flags) {op, bytes},
		ESC_OPCODES(X)
#undef X
	};
	uint32_t op = steer_below(sizeof(ops) / sizeof(*ops)), payload, i, udp;
	struct frame_plan plan = {
		.ip = steer_below(2) ? 6 : 4,
		.opcode = ops[op].opcode,
		.extension = ops[op].extension,
		.ecn = steer_below(4),
		.pad = steer_below(4),
		.sport = 1 + steer_below(65535),
		.qpn = qpn | steer_random() << 24,
		.psn = steer_random(),
	};

	/* Lengths: often small, often whole MTUs, else any. */
	switch (steer_below(4)) {
	case 0:
		payload = steer_below(64) * 4;
		break;
	case 1:
		payload = 256 << steer_below(5);
		break;
	default:
		payload = steer_below(most / 4) * 4;
	}
	if (payload > most - 160)
		payload = (most - 160) / 4 * 4;
	plan.payload = payload + (4 - plan.pad) % 4;
	frame_build(f, &plan);
	udp = frame_udp_offset(f);
	for (i = udp + 20; i < f->bytes; i++)
		f->data[i] = steer_random();
	if (!frame_is_ipv6(f))
		frame_put16(f, frame_ip_offset(f) + 4, steer_random());
	else
		frame_put32(f, frame_ip_offset(f),
			    0x60000000 | (uint32_t)plan.ecn << 20 | steer_random() >> 12);
	frame_set_shape(f, steer_below(FRAME_SHAPES));
	return steer_below(4) ? CHECK_NONE : CHECK_FULL;
}

static inline struct esc_qp_key frame_key(const struct frame *f, uint8_t port)
{
	struct esc_qp_key key = {.direction = ESC_DIRECTION_TX, .port = port};
	uint32_t ip = frame_ip_offset(f), bth = frame_udp_offset(f) + 8;

	if (frame_is_ipv6(f)) {
		memcpy(key.src.bytes, f->data + ip + 8, 16);
		memcpy(key.dst.bytes, f->data + ip + 24, 16);
	} else {
		memset(key.src.bytes + 10, 255, 2);
		memset(key.dst.bytes + 10, 255, 2);
		memcpy(key.src.bytes + 12, f->data + ip + 12, 4);
		memcpy(key.dst.bytes + 12, f->data + ip + 16, 4);
	}
	key.dest_qpn = (uint32_t)f->data[bth + 5] << 16 | f->data[bth + 6] << 8 | f->data[bth + 7];
	return key;
}

/* --- rules --- */

static inline uint64_t steer_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Steering is on at the world's port, the daemon is alive for an hour, `steers` is @generation. */
static inline int steer_control(struct world *w, uint32_t generation)
{
	struct esc_control word = {
		.flags = ESC_CONTROL_STEER,
		.sample_mask = 0xff,
		.heartbeat_local_ns = steer_now_ns() + 3600000000000ull,
		.steer_generation = generation,
		.steer_ports = 1u << w->port,
	};

	return world_set_control(w, &word);
}

static inline int steer_rule(struct world *w, const struct esc_qp_key *key,
			     const struct esc_steer *steer)
{
	return bpf_map_update_elem(bpf_map__fd(w->kernel->maps.steers), key, steer, BPF_ANY);
}

static inline void steer_reset(struct world *w)
{
	int fd = bpf_map__fd(w->kernel->maps.steers);
	struct esc_qp_key key;

	world_reset(w);
	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
}

#endif

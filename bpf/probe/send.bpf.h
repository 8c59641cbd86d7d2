/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probes that leave: stamped and tagged, if the daemon's socket marked them.
 * Nothing is written through packet pointers here: that would make the kernel
 * copy the headers of every cloned skb (all of TCP) before the program runs.
 */
#ifndef ESC_BPF_PROBE_SEND_H
#define ESC_BPF_PROBE_SEND_H

#include "lib/tc.bpf.h"
#include "probe/probe.bpf.h"

/* From the UDP header to the tag, with the probe where its fields are aligned. */
struct probe_message {
	__u32 pad;
	struct udphdr udp;
	struct esc_bth bth;
	struct esc_probe probe;
};
#define PROBE_MESSAGE_BYTES                                                                        \
	(sizeof(struct probe_message) - __builtin_offsetof(struct probe_message, udp))
_Static_assert(__builtin_offsetof(struct probe_message, probe) ==
		       __builtin_offsetof(struct probe_message, bth) + sizeof(struct esc_bth),
	       "the probe lies just behind its BTH");

/* Where the BTH of a probe is, and between whom it goes. False: anything else. */
static __noinline bool probe_find(struct __sk_buff *skb, struct esc_path_key *way, __u32 *at,
				  __u8 *opcode)
{
	__u32 bytes = skb->len < ESC_TC_PULL_BYTES ? skb->len : ESC_TC_PULL_BYTES;
	struct esc_cursor cursor = {.context = skb, .skb = true, .thorough = true};
	struct esc_packet packet;

	if (bpf_skb_pull_data(skb, bytes))
		return false;
	cursor.start = (void *)(long)skb->data;
	cursor.end = (void *)(long)skb->data_end;
	cursor.at = cursor.start;
	if (esc_parse(&cursor, &packet) != ESC_PARSE_PROBE)
		return false;
	way->src = packet.key.src;
	way->dst = packet.key.dst;
	*at = packet.probe_offset;
	*opcode = packet.opcode;
	return true;
}

/* t1 is taken as late as can be: only what is behind it is hashed after. */
static __always_inline void probe_sign(struct probe_message *m, const struct esc_fleet *own)
{
	const __u64 *key = probe_own_key(own);
	struct esc_siphash h;

	m->probe.tag = 0;
	if (key) {
		siphash_start(&h, key);
		siphash_words(&h, (const __u32 *)&m->bth, PROBE_WORD_OF(t1));
	}
	m->probe.t1 = bpf_cpu_to_be64(esc_local_now());
	if (key)
		m->probe.tag = probe_tag_from(&h, &m->bth, PROBE_WORD_OF(t1));
}

/* False: no request or warmer of ours; it was left as it is. @at: of the UDP header. */
static __noinline bool probe_send_clock(struct __sk_buff *skb, __u32 at)
{
	const struct esc_fleet *own = probe_fleet();
	struct probe_message m = {};
	struct esc_peer *peer;
	__u8 opcode;

	if (!own || bpf_skb_load_bytes(skb, at, &m.udp, PROBE_MESSAGE_BYTES))
		return false;
	opcode = m.bth.opcode;
	if (m.udp.bytes != bpf_htons(PROBE_UDP_BYTES) ||
	    (opcode != ESC_PROBE_OPCODE_REQUEST && opcode != ESC_PROBE_OPCODE_WARMER))
		return false;
	peer = probe_peer(bpf_be64_to_cpu(m.probe.target));
	m.udp.check = 0;
	m.probe.heard_age_us = probe_age_us(bpf_ktime_get_ns(), peer ? peer->heard_local_ns : 0);
	probe_put_self(&m.probe, own, ESC_PROBE_SECOND | ESC_PROBE_ASKS);
	probe_sign(&m, own);
	if (bpf_skb_store_bytes(skb, at, &m.udp, PROBE_MESSAGE_BYTES, 0))
		return false;
	skb->mark = 0;
	if (peer && opcode == ESC_PROBE_OPCODE_REQUEST)
		count(peer->requests_sent, 1);
	return true;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probes of the daemon's sockets: they get a timestamp and a tag.
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
	       "the probe follows its BTH");

/* Offset of a probe's BTH, its addresses and its opcode. False: not a probe. */
static __noinline bool probe_locate(struct __sk_buff *skb, struct esc_path_key *addresses,
				    __u32 *at, __u8 *opcode)
{
	__u32 bytes = skb->len < TC_PULL_BYTES ? skb->len : TC_PULL_BYTES;
	struct cursor cursor = {.context = skb, .skb = true, .thorough = true};
	struct pkt_ctx pkt;

	if (bpf_skb_pull_data(skb, bytes))
		return false;
	cursor.start = (void *)(long)skb->data;
	cursor.end = (void *)(long)skb->data_end;
	cursor.at = cursor.start;
	if (parse_packet(&cursor, &pkt) != PKT_PROBE)
		return false;
	addresses->src = pkt.key.src;
	addresses->dst = pkt.key.dst;
	*at = pkt.bth_offset;
	*opcode = pkt.opcode;
	return true;
}

/* t1 is read as late as possible: only what follows it is hashed afterwards. */
static __always_inline void probe_sign(struct probe_message *m, const struct esc_fleet *own,
				       const struct esc_peer *peer)
{
	__u64 key[2] = {};
	bool has_key = probe_key(own, peer, m->probe.min_version, probe_own_slot(own), key);
	struct esc_siphash h;

	m->probe.tag = 0;
	if (has_key) {
		siphash_start(&h, key);
		siphash_words(&h, (const __u32 *)&m->bth, PROBE_WORD_OF(t1));
	}
	m->probe.t1 = bpf_cpu_to_be64(esc_local_now());
	if (has_key)
		m->probe.tag = probe_tag_from(&h, &m->bth, PROBE_WORD_OF(t1));
}

_Static_assert(sizeof(struct probe_message) <= sizeof(((struct esc_path_cpu *)0)->message),
	       "a request fits");

/* False: not a request or warm-up packet of ours; it is unchanged. @at: of the UDP header. */
static __noinline bool probe_send_clock(struct __sk_buff *skb, struct esc_path_cpu *cpu, __u32 at)
{
	struct probe_message *m = (struct probe_message *)cpu->message;
	const struct esc_fleet *own = probe_fleet();
	__u64 now_ns = bpf_ktime_get_ns();
	struct esc_peer *peer;
	__u8 opcode;

	if (!own || bpf_skb_load_bytes(skb, at, &m->udp, PROBE_MESSAGE_BYTES))
		return false;
	opcode = m->bth.opcode;
	if (m->udp.len != bpf_htons(PROBE_UDP_BYTES) ||
	    (opcode != ESC_PROBE_OPCODE_REQUEST && opcode != ESC_PROBE_OPCODE_WARMUP))
		return false;
	peer = probe_edge(bpf_be64_to_cpu(m->probe.target), probe_nic_of(&cpu->key.dst));
	if (!peer)
		peer = probe_peer(bpf_be64_to_cpu(m->probe.target));
	m->udp.check = 0;
	m->probe.received_age_us = probe_age_us(now_ns, peer ? peer->received_local_ns : 0);
	probe_put_self(&m->probe, own, ESC_PROBE_SECOND | ESC_PROBE_QUERY,
		       probe_version_to(own, peer, now_ns));
	probe_sign(m, own, peer);
	if (bpf_skb_store_bytes(skb, at, &m->udp, PROBE_MESSAGE_BYTES, 0))
		return false;
	skb->mark = 0;
	if (peer && opcode == ESC_PROBE_OPCODE_REQUEST)
		count(peer->requests_sent, 1);
	return true;
}

#endif

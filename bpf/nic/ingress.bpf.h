/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What comes to one of a pair's NICs: packets in UDP, taken out and handed to the device of
 * their address; the peers' probes, turned round.
 *
 * Only what a member sends from an address of its own, to an address of ours, is taken. What is
 * taken out goes up on this host, never out again.
 */
#ifndef ESC_BPF_NIC_INGRESS_H
#define ESC_BPF_NIC_INGRESS_H

#include "nic/nic.bpf.h"

#define NIC_GSO_KEPT BPF_F_ADJ_ROOM_FIXED_GSO
/* No verdict: the packet is as it was sent, to be counted and handed up where the stack has room.
 */
#define NIC_UNWRAPPED 1000

/* Hands the packet up on the device that its address is of. */
static __always_inline int nic_deliver(struct __sk_buff *skb, const struct esc_nic_home *home)
{
	if (bpf_skb_store_bytes(skb, 0, home->deliver_mac, sizeof(home->deliver_mac), 0))
		return ESC_TC_NEXT;
	return bpf_redirect(home->deliver_ifindex, BPF_F_INGRESS);
}

/* A peer's word that the NIC of an address of its own is dead. */
static __always_inline void nic_note_dead(struct esc_nic_peer *peer, __u64 now_ns)
{
	__u32 zero = 0;
	struct esc_nic_word *word = bpf_map_lookup_elem(&nic_word, &zero);

	if (word && (__s64)(peer->dead_ktime_ns - now_ns) <= 0)
		word->changes++;
	peer->dead_ktime_ns = now_ns + ESC_NIC_LEASE_NS;
	if (word && !word->attention)
		word->attention = 1;
}

/* Inside: a whole RoCEv2 packet, from an address of @id's to one of ours that is protected. */
static __always_inline struct esc_nic_home *nic_check_inner(struct __sk_buff *skb,
							    const struct nic_packet *outer,
							    __u64 id, bool dead, __u64 now_ns)
{
	__u32 at = ETH_HLEN + outer->ip_bytes + sizeof(struct udphdr);
	__be16 type = bpf_htons(outer->version == 4 ? ETH_P_IP : ETH_P_IPV6);
	struct esc_nic_home *home;
	struct esc_nic_peer *peer;
	struct nic_packet p;

	if (!nic_read(skb, at, type, &p) || !nic_is_roce(&p) ||
	    p.total + outer->ip_bytes + sizeof(struct udphdr) != outer->total ||
	    ETH_HLEN + outer->total > skb->len)
		return NULL;
	home = bpf_map_lookup_elem(&nic_homes, &p.dst);
	peer = bpf_map_lookup_elem(&nic_peers, &p.src);
	if (!home || !(home->flags & ESC_NIC_PAIRED) || !peer || peer->id != id)
		return NULL;
	if (dead)
		nic_note_dead(peer, now_ns);
	return home;
}

static __always_inline int nic_unwrap(struct __sk_buff *skb, const struct nic_packet *outer,
				      __u64 id, bool dead, __u64 now_ns)
{
	const struct esc_nic_home *home = nic_check_inner(skb, outer, id, dead, now_ns);
	__u32 bytes = outer->version == 4 ? 28 : 48;

	if (!home) {
		nic_count_reason(ESC_REASON_NIC_INNER, false);
		return TC_ACT_SHOT;
	}
	if (skb->gso_size) {
		nic_count_reason(ESC_REASON_NIC_GSO, false);
		return TC_ACT_SHOT;
	}
	if (bpf_skb_adjust_room(skb, -(__s32)bytes, BPF_ADJ_ROOM_MAC, NIC_GSO_KEPT)) {
		nic_count_reason(ESC_REASON_NIC_KERNEL, false);
		return TC_ACT_SHOT;
	}
	if ((outer->tos & 3) == ESC_ECN_CE)
		bpf_skb_ecn_set_ce(skb);
	nic_count(unwrapped);
	return NIC_UNWRAPPED;
}

/* Ethernet, IP and UDP of a probe, for being swapped. */
struct nic_probe_v4 {
	__u8 dst[6], src[6];
	__be16 type;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

struct nic_probe_v6 {
	__u8 dst[6], src[6];
	__be16 type;
	struct ipv6hdr ip;
	struct udphdr udp;
} __attribute__((packed));

#define nic_swap(a, b)                                                                             \
	do {                                                                                       \
		__u8 keep[sizeof(a)];                                                              \
		__builtin_memcpy(keep, &(a), sizeof(a));                                           \
		__builtin_memcpy(&(a), &(b), sizeof(a));                                           \
		__builtin_memcpy(&(b), keep, sizeof(a));                                           \
	} while (0)

static __always_inline bool nic_turn_v4(struct __sk_buff *skb)
{
	struct nic_probe_v4 h;

	if (bpf_skb_load_bytes(skb, 0, &h, sizeof(h)))
		return false;
	nic_swap(h.dst, h.src);
	nic_swap(h.ip.src, h.ip.dst);
	nic_swap(h.udp.src, h.udp.dst);
	h.udp.check = 0;
	return !bpf_skb_store_bytes(skb, 0, &h, sizeof(h), BPF_F_INVALIDATE_HASH);
}

static __always_inline bool nic_turn_v6(struct __sk_buff *skb)
{
	struct nic_probe_v6 h;

	if (bpf_skb_load_bytes(skb, 0, &h, sizeof(h)))
		return false;
	nic_swap(h.dst, h.src);
	nic_swap(h.ip.src, h.ip.dst);
	nic_swap(h.udp.src, h.udp.dst);
	h.udp.check = 0;
	return !bpf_skb_store_bytes(skb, 0, &h, sizeof(h), BPF_F_INVALIDATE_HASH);
}

/* A request goes back where it came from, as long as it was. */
static __always_inline int nic_answer(struct __sk_buff *skb, const struct nic_packet *p, __u64 id,
				      __u64 now_ns)
{
	__u32 at = ETH_HLEN + pkt->ip_bytes + sizeof(struct udphdr);
	__u8 kind = ESC_NIC_REPLY;
	struct esc_nic_probe probe;
	struct esc_nic_peer *peer;

	if (bpf_skb_load_bytes(skb, at, &probe, sizeof(probe)) ||
	    probe.magic != bpf_htonl(ESC_NIC_MAGIC) || probe.version != ESC_NIC_VERSION ||
	    probe.kind != ESC_NIC_REQUEST ||
	    pkt->total != pkt->ip_bytes + sizeof(struct udphdr) + sizeof(probe)) {
		nic_count_reason(ESC_REASON_NIC_PROBE, false);
		return ESC_TC_NEXT;
	}
	if (probe.flags & ESC_NIC_SAYS_DEAD) {
		peer = bpf_map_lookup_elem(&nic_peers, &probe.subject);
		if (peer && peer->id == id)
			nic_note_dead(peer, now_ns);
	}
	if (bpf_skb_store_bytes(skb, at + offsetof(struct esc_nic_probe, kind), &kind, 1, 0) ||
	    !(pkt->version == 4 ? nic_turn_v4(skb) : nic_turn_v6(skb))) {
		nic_count_reason(ESC_REASON_NIC_KERNEL, false);
		return TC_ACT_SHOT;
	}
	nic_count(answered);
	return bpf_redirect(skb->ifindex, 0);
}

/* A datagram to one of our ports. */
static __noinline int nic_take(struct __sk_buff *skb, const struct nic_packet *p, __u32 kind)
{
	__u64 now = bpf_ktime_get_ns();
	const struct esc_nic_peer *peer;

	if (!p || !nic_is_led(now))
		return ESC_TC_NEXT;
	if (!bpf_map_lookup_elem(&nic_homes, &pkt->dst)) {
		nic_count_reason(ESC_REASON_NIC_NOT_OURS, false);
		return ESC_TC_NEXT;
	}
	peer = bpf_map_lookup_elem(&nic_peers, &pkt->src);
	if (!peer) {
		nic_count_reason(ESC_REASON_NIC_UNKNOWN_PEER, false);
		return ESC_TC_NEXT;
	}
	if (kind == ESC_NIC_PORT_PROBE)
		return nic_answer(skb, p, peer->id, now);
	return nic_unwrap(skb, p, peer->id, kind == ESC_NIC_PORT_DEAD, now);
}

#endif

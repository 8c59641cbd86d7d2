/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What arrives on one of a pair's NICs: packets in UDP, which are decapsulated and delivered to
 * the device of their address, and probes of peers, which get a reply.
 *
 * Only what a member sends from one of its addresses to one of ours is accepted. An inner packet
 * is delivered on this host, never forwarded.
 */
#ifndef ESC_BPF_NIC_INGRESS_H
#define ESC_BPF_NIC_INGRESS_H

#include "nic/nic.bpf.h"

#define NIC_DECAP_FLAGS BPF_F_ADJ_ROOM_FIXED_GSO
/* Not a verdict: decapsulated, to be counted and delivered by a caller that has the stack for it. */
#define NIC_DECAPPED 1000

/* Delivers the packet on the device that has its address. */
static __always_inline int nic_deliver(struct __sk_buff *skb, const struct esc_nic_local *local)
{
	if (bpf_skb_store_bytes(skb, 0, local->deliver_mac, sizeof(local->deliver_mac), 0))
		return ESC_TC_NEXT;
	return bpf_redirect(local->deliver_ifindex, BPF_F_INGRESS);
}

/* The peer reports that the NIC of one of its addresses is dead. */
static __always_inline void nic_set_dead(struct esc_nic_peer *peer, __u64 now_ns)
{
	__u32 zero = 0;
	struct esc_nic_control *ctl = bpf_map_lookup_elem(&nic_control, &zero);

	if (ctl && (__s64)(peer->dead_ktime_ns - now_ns) <= 0)
		ctl->changes++;
	peer->dead_ktime_ns = now_ns + ESC_NIC_LEASE_NS;
	if (ctl && !ctl->attention)
		ctl->attention = 1;
}

/* The inner packet must be a whole RoCEv2 packet from an address of member @id to a protected one. */
static __always_inline struct esc_nic_local *nic_verify_inner(struct __sk_buff *skb,
							      const struct nic_packet *outer,
							      __u64 id, bool dead, __u64 now_ns)
{
	__u32 at = ETH_HLEN + outer->ip_bytes + sizeof(struct udphdr);
	__be16 type = bpf_htons(outer->version == 4 ? ETH_P_IP : ETH_P_IPV6);
	struct esc_nic_local *local;
	struct esc_nic_peer *peer;
	struct nic_packet p;

	if (!nic_parse(skb, at, type, &p) || !nic_is_roce(&p) ||
	    p.total + outer->ip_bytes + sizeof(struct udphdr) != outer->total ||
	    ETH_HLEN + outer->total > skb->len)
		return NULL;
	local = bpf_map_lookup_elem(&nic_local, &p.dst);
	peer = bpf_map_lookup_elem(&nic_peers, &p.src);
	if (!local || !(local->flags & ESC_NIC_PAIRED) || !peer || peer->id != id)
		return NULL;
	if (dead)
		nic_set_dead(peer, now_ns);
	return local;
}

static __always_inline int nic_decap(struct __sk_buff *skb, const struct nic_packet *outer,
				     __u64 id, bool dead, __u64 now_ns)
{
	const struct esc_nic_local *local = nic_verify_inner(skb, outer, id, dead, now_ns);
	__u32 bytes = outer->version == 4 ? 28 : 48;

	if (!local) {
		nic_count_reason(ESC_REASON_NIC_INNER, false);
		return TC_ACT_SHOT;
	}
	if (skb->gso_size) {
		nic_count_reason(ESC_REASON_NIC_GSO, false);
		return TC_ACT_SHOT;
	}
	if (bpf_skb_adjust_room(skb, -(__s32)bytes, BPF_ADJ_ROOM_MAC, NIC_DECAP_FLAGS)) {
		nic_count_reason(ESC_REASON_NIC_KERNEL, false);
		return TC_ACT_SHOT;
	}
	if ((outer->tos & INET_ECN_MASK) == INET_ECN_CE)
		bpf_skb_ecn_set_ce(skb);
	nic_count(unwrapped);
	return NIC_DECAPPED;
}

/* Ethernet, IP and UDP of a probe, to be swapped. */
struct nic_probe_v4 {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

struct nic_probe_v6 {
	struct ethhdr ethernet;
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

#define nic_swap_headers(skb, type)                                                                \
	({                                                                                         \
		type h;                                                                            \
		bool loaded = !bpf_skb_load_bytes(skb, 0, &h, sizeof(h));                          \
		if (loaded) {                                                                      \
			nic_swap(h.ethernet.h_dest, h.ethernet.h_source);                          \
			nic_swap(h.ip.saddr, h.ip.daddr);                                          \
			nic_swap(h.udp.source, h.udp.dest);                                        \
			h.udp.check = 0;                                                           \
		}                                                                                  \
		loaded && !bpf_skb_store_bytes(skb, 0, &h, sizeof(h), BPF_F_INVALIDATE_HASH);      \
	})

/* A request goes back to its sender, with its length unchanged. */
static __always_inline int nic_reply(struct __sk_buff *skb, const struct nic_packet *p, __u64 id,
				     __u64 now_ns)
{
	__u32 at = ETH_HLEN + p->ip_bytes + sizeof(struct udphdr);
	__u8 kind = ESC_NIC_REPLY;
	struct esc_nic_probe probe;
	struct esc_nic_peer *peer;

	if (bpf_skb_load_bytes(skb, at, &probe, sizeof(probe)) ||
	    probe.magic != bpf_htonl(ESC_NIC_MAGIC) || probe.version != ESC_NIC_VERSION ||
	    probe.kind != ESC_NIC_REQUEST ||
	    p->total != p->ip_bytes + sizeof(struct udphdr) + sizeof(probe)) {
		nic_count_reason(ESC_REASON_NIC_PROBE, false);
		return ESC_TC_NEXT;
	}
	if (probe.flags & ESC_NIC_REPORTS_DEAD) {
		peer = bpf_map_lookup_elem(&nic_peers, &probe.subject);
		if (peer && peer->id == id)
			nic_set_dead(peer, now_ns);
	}
	if (bpf_skb_store_bytes(skb, at + offsetof(struct esc_nic_probe, kind), &kind, 1, 0) ||
	    !(p->version == 4 ? nic_swap_headers(skb, struct nic_probe_v4)
			      : nic_swap_headers(skb, struct nic_probe_v6))) {
		nic_count_reason(ESC_REASON_NIC_KERNEL, false);
		return TC_ACT_SHOT;
	}
	nic_count(answered);
	return bpf_redirect(skb->ifindex, 0);
}

/* A datagram to one of our ports. */
static __noinline int nic_receive(struct __sk_buff *skb, const struct nic_packet *p, __u32 kind)
{
	__u64 now = bpf_ktime_get_ns();
	const struct esc_nic_peer *peer;

	if (!p || !nic_has_daemon(now))
		return ESC_TC_NEXT;
	if (!bpf_map_lookup_elem(&nic_local, &p->dst)) {
		nic_count_reason(ESC_REASON_NIC_NOT_OURS, false);
		return ESC_TC_NEXT;
	}
	peer = bpf_map_lookup_elem(&nic_peers, &p->src);
	if (!peer) {
		nic_count_reason(ESC_REASON_NIC_UNKNOWN_PEER, false);
		return ESC_TC_NEXT;
	}
	if (kind == ESC_NIC_PORT_PROBE)
		return nic_reply(skb, p, peer->id, now);
	return nic_decap(skb, p, peer->id, kind == ESC_NIC_PORT_DEAD, now);
}

#endif

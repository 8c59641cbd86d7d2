/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet whose way may be dead, on its way out: which of the four ways it takes.
 *
 * Nothing is sent to a program of ours a second time: what leaves in UDP is no RoCEv2 to the
 * next hook, and what leaves plainly has an address whose first NIC is another.
 */
#ifndef ESC_BPF_NIC_EGRESS_H
#define ESC_BPF_NIC_EGRESS_H

#include "nic/nic.bpf.h"

#define NIC_TTL 64
#define NIC_WRAP_FLAGS (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP)
#define NIC_DONT_FRAGMENT 0x4000

struct nic_outer_v4 {
	struct iphdr ip;
	struct udphdr udp;
};

struct nic_outer_v6 {
	struct ipv6hdr ip;
	struct udphdr udp;
};

/* What is known of the four ends. */
struct nic_ends {
	bool first_dead, second_dead, peer_first_dead, peer_second_dead;
};

static __always_inline bool nic_peer_says_dead(const struct esc_address *address, __u64 now_ns)
{
	const struct esc_nic_peer *peer;

	if (!nic_has(address))
		return false;
	peer = bpf_map_lookup_elem(&nic_peers, address);
	return peer && (__s64)(peer->dead_ktime_ns - now_ns) > 0;
}

/* The first way that is left: those that probes find alive, else any that nothing speaks against.
 */
static __always_inline __u32 nic_choose(const struct nic_packet *p, const struct nic_ends *ends)
{
	struct esc_nic_way_key key = {.src = pkt->src, .dst = pkt->dst};
	const struct esc_nic_ways *ways = bpf_map_lookup_elem(&nic_ways, &key);
	__u32 allowed = ESC_NIC_WAYS_ALL, left, way;

	if (ends->first_dead)
		allowed &= ESC_NIC_LEAVES_SECOND;
	if (ends->second_dead)
		allowed &= ~ESC_NIC_LEAVES_SECOND;
	if (ends->peer_first_dead)
		allowed &= ESC_NIC_REACHES_SECOND;
	if (ends->peer_second_dead)
		allowed &= ~ESC_NIC_REACHES_SECOND;
	left = ways ? ways->usable & allowed : allowed;
	if (!left)
		left = allowed;
	for (way = 0; way < ESC_NIC_WAYS; way++)
		if (left >> way & 1)
			return way;
	return ESC_NIC_WAY_DIRECT;
}

static __always_inline __u16 nic_sum_v4(const struct iphdr *ip)
{
	__s64 sum = bpf_csum_diff(NULL, 0, (__be32 *)ip, sizeof(*ip), 0);

	sum = (sum & 0xffff) + (sum >> 16 & 0xffff);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff);
	return ~sum;
}

static __always_inline bool nic_wrap_v4(struct __sk_buff *skb, const struct nic_packet *p,
					__be32 src, __be32 dst, __be16 port)
{
	struct nic_outer_v4 outer = {
		.ip =
			{
				.version_words = 0x45,
				.tos = pkt->tos,
				.total_bytes = bpf_htons(pkt->total + sizeof(outer)),
				.fragment = bpf_htons(NIC_DONT_FRAGMENT),
				.ttl = NIC_TTL,
				.protocol = IPPROTO_UDP,
				.src = src,
				.dst = dst,
			},
		.udp =
			{
				.src = pkt->sport,
				.dst = port,
				.bytes = bpf_htons(pkt->total + sizeof(outer.udp)),
			},
	};

	outer.ip.check = nic_sum_v4(&outer.ip);
	if (bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC,
				NIC_WRAP_FLAGS | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4))
		return false;
	return !bpf_skb_store_bytes(skb, ETH_HLEN, &outer, sizeof(outer),
				    BPF_F_INVALIDATE_HASH);
}

static __always_inline bool nic_wrap_v6(struct __sk_buff *skb, const struct nic_packet *p,
					const struct esc_address *src,
					const struct esc_address *dst, __be16 port)
{
	struct nic_outer_v6 outer = {
		.ip =
			{
				.word = pkt->first_word,
				.payload_bytes = bpf_htons(pkt->total + sizeof(outer.udp)),
				.next = IPPROTO_UDP,
				.hop_limit = NIC_TTL,
			},
		.udp =
			{
				.src = pkt->sport,
				.dst = port,
				.bytes = bpf_htons(pkt->total + sizeof(outer.udp)),
			},
	};

	__builtin_memcpy(outer.ip.src, src, sizeof(outer.ip.src));
	__builtin_memcpy(outer.ip.dst, dst, sizeof(outer.ip.dst));
	if (bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC,
				NIC_WRAP_FLAGS | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6))
		return false;
	return !bpf_skb_store_bytes(skb, ETH_HLEN, &outer, sizeof(outer),
				    BPF_F_INVALIDATE_HASH);
}

/* 0, or the reason why the packet is as it came. */
static __always_inline __u32 nic_wrap(struct __sk_buff *skb, const struct nic_packet *p,
				      const struct esc_address *src, const struct esc_address *dst,
				      __be16 port, __u32 mtu)
{
	bool four = pkt->version == 4, good;

	if (skb->gso_size)
		return ESC_REASON_NIC_GSO;
	if (pkt->total + (four ? sizeof(struct nic_outer_v4) : sizeof(struct nic_outer_v6)) > mtu)
		return ESC_REASON_NIC_MTU;
	if (four)
		good = nic_wrap_v4(skb, p, nic_v4(src), nic_v4(dst), port);
	else
		good = nic_wrap_v6(skb, p, src, dst, port);
	return good ? 0 : ESC_REASON_NIC_KERNEL;
}

/*
 * To the next hop of a NIC. IPv6's own look-up takes the best route of all
 * and not that of the interface, so the hop is the daemon's word.
 */
static __always_inline int nic_send(__u32 ifindex, __u8 version, const struct esc_address *hop,
				    const struct esc_address *dst)
{
	struct bpf_redir_neigh next = {.nh_family = version == 4 ? 2 : 10}; /* AF_INET, AF_INET6 */

	if (version == 4 && !nic_has(hop))
		return bpf_redirect_neigh(ifindex, NULL, 0, 0);
	if (!nic_has(hop))
		hop = dst;
	if (version == 4)
		next.ipv4_nh = nic_v4(hop);
	else
		__builtin_memcpy(next.ipv6_nh, hop, sizeof(next.ipv6_nh));
	return bpf_redirect_neigh(ifindex, &next, sizeof(next), 0);
}

/* No way is left. A drop that the sender hears of would end its queue pair at once. */
static __always_inline int nic_hold(bool dead)
{
	if (!dead)
		return ESC_TC_NEXT;
	nic_count(held);
	return bpf_redirect(NIC_NOWHERE, 0);
}

static __always_inline int nic_take_way(struct __sk_buff *skb, const struct nic_packet *p,
					const struct esc_nic_home *home,
					const struct esc_nic_peer *peer, __u32 way, bool dead)
{
	bool second = ESC_NIC_LEAVES_SECOND >> way & 1;
	bool to_second = ESC_NIC_REACHES_SECOND >> way & 1;
	const struct esc_address *src = second ? &home->second : &home->first;
	const struct esc_address *dst = to_second ? &peer->second : &peer->first;
	__u32 ifindex = second ? home->second_ifindex : home->first_ifindex, reason;
	__u16 port = nic_port(dead ? ESC_NIC_PORT_DEAD : ESC_NIC_PORT_FOLLOWS);

	if (!ifindex || !port || !nic_has(src) || !nic_has(dst))
		return nic_hold(dead);
	reason = nic_wrap(skb, p, src, dst, bpf_htons(port),
			  second ? home->second_mtu : home->first_mtu);
	if (reason) {
		nic_count_reason(reason, true);
		return nic_hold(dead);
	}
	nic_count(wrapped);
	return nic_send(ifindex, pkt->version, second ? &home->second_hop : &home->first_hop, dst);
}

static __always_inline int nic_redirect(const struct nic_packet *p, const struct esc_nic_home *home)
{
	nic_count(redirected);
	return nic_send(home->second_ifindex, pkt->version, &home->second_hop, &pkt->dst);
}

/* A RoCEv2 packet of an address that is protected. */
static __noinline int nic_leave(struct __sk_buff *skb, const struct nic_packet *p,
				const struct esc_nic_home *home, const struct nic_ends *ends)
{
	const struct esc_nic_peer *peer;
	__u32 way;

	if (!p || !home || !ends)
		return ESC_TC_NEXT;
	if (home->flags & ESC_NIC_PLAIN)
		return ends->first_dead && !ends->second_dead && home->second_ifindex
			       ? nic_redirect(p, home)
			       : nic_hold(ends->first_dead);
	peer = bpf_map_lookup_elem(&nic_peers, &pkt->dst);
	if (!peer || !nic_has(&peer->second))
		return nic_hold(ends->first_dead && home->second_ifindex);
	way = nic_choose(p, ends);
	if (way == ESC_NIC_WAY_DIRECT)
		return nic_hold(ends->first_dead);
	return nic_take_way(skb, p, home, peer, way, ends->first_dead);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Selection of one of the four routes for a packet when our NIC or the peer's may be dead.
 *
 * No packet passes one of our programs twice: an encapsulated one is not RoCEv2 for the next
 * hook, and one that is redirected unchanged has an address whose first NIC is another one.
 */
#ifndef ESC_BPF_NIC_EGRESS_H
#define ESC_BPF_NIC_EGRESS_H

#include "nic/tag.bpf.h"

#define NIC_TTL 64
#define NIC_ENCAP_FLAGS (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP)

struct nic_outer_v4 {
	struct iphdr ip;
	struct udphdr udp;
	struct esc_nic_shim shim;
};

struct nic_outer_v6 {
	struct ipv6hdr ip;
	struct udphdr udp;
	struct esc_nic_shim shim;
};

/* What is behind the outer UDP header and in front of the inner packet. */
#define NIC_WRAP_BYTES (sizeof(struct udphdr) + sizeof(struct esc_nic_shim))

/* Which of the four NICs of two hosts are known to be dead. */
struct nic_dead {
	bool first, second, peer_first, peer_second;
};

static __always_inline bool nic_address_is_dead(const struct esc_address *address, __u64 now_ns)
{
	const struct esc_nic_peer *peer;

	if (!nic_address_is_set(address))
		return false;
	peer = bpf_map_lookup_elem(&nic_peers, address);
	return peer && (__s64)(peer->dead_ktime_ns - now_ns) > 0;
}

/* The route of a packet; ESC_NIC_ROUTES: none, its NIC is dead. */
struct nic_choice {
	__u32 route;
	__u32 lost; /* bits of the routes that are not usable now, and of none */
	const struct esc_nic_routes *routes; /* NULL: not probed */
};

/* The first route of those that are up by probes, else of all that are not excluded. */
static __always_inline void nic_select_route(const struct nic_packet *p,
					     const struct nic_dead *dead, struct nic_choice *choice)
{
	struct esc_nic_route_key key = {.src = p->src, .dst = p->dst};
	const struct esc_nic_routes *routes = bpf_map_lookup_elem(&nic_routes, &key);
	__u32 allowed = ESC_NIC_ROUTES_ALL, left, route;

	if (dead->first)
		allowed &= ESC_NIC_LEAVES_SECOND;
	if (dead->second)
		allowed &= ~ESC_NIC_LEAVES_SECOND;
	if (dead->peer_first)
		allowed &= ESC_NIC_REACHES_SECOND;
	if (dead->peer_second)
		allowed &= ~ESC_NIC_REACHES_SECOND;
	left = routes ? routes->usable & allowed : allowed;
	if (!left)
		left = allowed;
	choice->lost = ~left;
	choice->routes = routes;
	choice->route = dead->first ? ESC_NIC_ROUTES : ESC_NIC_ROUTE_DIRECT;
	for (route = 0; route < ESC_NIC_ROUTES; route++)
		if (left >> route & 1) {
			choice->route = route;
			break;
		}
}

static __always_inline __u16 nic_checksum_v4(const struct iphdr *ip)
{
	__s64 sum = bpf_csum_diff(NULL, 0, (__be32 *)ip, sizeof(*ip), 0);

	sum = (sum & 0xffff) + (sum >> 16 & 0xffff);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff);
	return ~sum;
}

static __always_inline bool nic_encap_v4(struct __sk_buff *skb, const struct nic_packet *p,
					 const struct esc_nic_signed_data *token, __be16 port)
{
	struct nic_outer_v4 outer = {
		.ip =
			{
				.version = 4,
				.ihl = 5,
				.tos = p->tos,
				.tot_len = bpf_htons(p->total + sizeof(outer)),
				.frag_off = bpf_htons(IP_DF),
				.ttl = NIC_TTL,
				.protocol = IPPROTO_UDP,
				.saddr = nic_address_v4(&token->src),
				.daddr = nic_address_v4(&token->dst),
			},
		.udp =
			{
				.source = p->sport,
				.dest = port,
				.len = bpf_htons(p->total + NIC_WRAP_BYTES),
			},
		.shim = token->shim,
	};

	outer.ip.check = nic_checksum_v4(&outer.ip);
	if (bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC,
				NIC_ENCAP_FLAGS | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4))
		return false;
	return !bpf_skb_store_bytes(skb, ETH_HLEN, &outer, sizeof(outer), BPF_F_INVALIDATE_HASH);
}

static __always_inline bool nic_encap_v6(struct __sk_buff *skb, const struct nic_packet *p,
					 const struct esc_nic_signed_data *token, __be16 port)
{
	struct nic_outer_v6 outer = {
		.ip =
			{
				.payload_len = bpf_htons(p->total + NIC_WRAP_BYTES),
				.nexthdr = IPPROTO_UDP,
				.hop_limit = NIC_TTL,
			},
		.udp =
			{
				.source = p->sport,
				.dest = port,
				.len = bpf_htons(p->total + NIC_WRAP_BYTES),
			},
		.shim = token->shim,
	};

	*(__be32 *)&outer.ip = p->flow_word;
	__builtin_memcpy(&outer.ip.saddr, &token->src, sizeof(outer.ip.saddr));
	__builtin_memcpy(&outer.ip.daddr, &token->dst, sizeof(outer.ip.daddr));
	if (bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC,
				NIC_ENCAP_FLAGS | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6))
		return false;
	return !bpf_skb_store_bytes(skb, ETH_HLEN, &outer, sizeof(outer), BPF_F_INVALIDATE_HASH);
}

/* The outer headers; a function of its own for its stack. */
static __noinline int nic_push_headers(struct __sk_buff *skb, const struct nic_packet *p,
				       const struct esc_nic_signed_data *token, __u16 port)
{
	bool done;

	if (!p || !token)
		return ESC_REASON_NIC_KERNEL;
	if (p->version == 4)
		done = nic_encap_v4(skb, p, token, bpf_htons(port));
	else
		done = nic_encap_v6(skb, p, token, bpf_htons(port));
	return done ? ESC_REASON_NONE : ESC_REASON_NIC_KERNEL;
}

/* Puts the packet into UDP. Otherwise it is unchanged and the reason is returned. */
static __always_inline __u32 nic_encap(struct __sk_buff *skb, const struct nic_packet *p,
				       const struct esc_nic_peer *peer,
				       struct esc_nic_signed_data *token, __u16 port, __u32 mtu)
{
	bool four = p->version == 4;

	if (skb->gso_size)
		return ESC_REASON_NIC_GSO;
	if (p->total + (four ? sizeof(struct nic_outer_v4) : sizeof(struct nic_outer_v6)) > mtu)
		return ESC_REASON_NIC_MTU;
	if (nic_token(skb, p, ETH_HLEN, token, peer))
		return ESC_REASON_NIC_BAD_TAG;
	return nic_push_headers(skb, p, token, port);
}

/*
 * To the next hop of a NIC. The IPv6 lookup of the helper takes the best route of all and not
 * that of the interface, so the daemon supplies the hop.
 */
static __always_inline int nic_send(__u32 ifindex, __u8 version, const struct esc_address *hop,
				    const struct esc_address *dst)
{
	struct bpf_redir_neigh next = {.nh_family = version == 4 ? 2 : 10}; /* AF_INET, AF_INET6 */

	if (version == 4 && !nic_address_is_set(hop))
		return bpf_redirect_neigh(ifindex, NULL, 0, 0);
	if (!nic_address_is_set(hop))
		hop = dst;
	if (version == 4)
		next.ipv4_nh = nic_address_v4(hop);
	else
		__builtin_memcpy(next.ipv6_nh, hop, sizeof(next.ipv6_nh));
	return bpf_redirect_neigh(ifindex, &next, sizeof(next), 0);
}

/* No route. A drop that the sender is notified of would end a soft-RoCE queue pair at once. */
static __always_inline int nic_discard(bool dead)
{
	if (!dead)
		return ESC_TC_NEXT;
	nic_count(held);
	return bpf_redirect(NIC_NO_DEVICE, 0);
}

static __always_inline int nic_transmit_by(struct __sk_buff *skb, const struct nic_packet *p,
					   const struct esc_nic_local *local,
					   const struct esc_nic_peer *peer, __u32 route,
					   bool first_dead)
{
	bool from_second = ESC_NIC_LEAVES_SECOND >> route & 1;
	bool to_second = ESC_NIC_REACHES_SECOND >> route & 1;
	const struct esc_address *src = from_second ? &local->second : &local->first;
	const struct esc_address *dst = to_second ? &peer->second : &peer->first;
	__u32 ifindex = from_second ? local->second_ifindex : local->first_ifindex, reason;
	const struct esc_nic_control *ctl = nic_ctl_get();
	__u16 port = nic_port(ESC_NIC_PORT_DATA);
	struct esc_nic_signed_data token;
	__u64 now_ns = bpf_ktime_get_ns();

	if (!ifindex || !port || !ctl || !nic_address_is_set(src) || !nic_address_is_set(dst))
		return nic_discard(first_dead);
	token.src = *src;
	token.dst = *dst;
	token.shim = (struct esc_nic_shim){
		.min_version = nic_version_to(dst, now_ns),
		.flags = nic_own_slot(ctl),
		.version = ESC_NIC_VERSION,
		.number = bpf_htonl(nic_number_ns(ctl, now_ns) >> ESC_NIC_NUMBER_SHIFT),
	};
	reason = nic_encap(skb, p, peer, &token, port,
			   from_second ? local->second_mtu : local->first_mtu);
	if (reason) {
		nic_count_reason(reason, true);
		return nic_discard(first_dead);
	}
	nic_count(wrapped);
	return nic_send(ifindex, p->version, from_second ? &local->second_hop : &local->first_hop,
			dst);
}

static __always_inline int nic_redirect(const struct nic_packet *p,
					const struct esc_nic_local *local)
{
	nic_count(redirected);
	return nic_send(local->second_ifindex, p->version, &local->second_hop, &p->dst);
}

/* Of a RoCEv2 packet of a protected address. */
static __noinline int nic_choose(const struct nic_packet *p, const struct esc_nic_local *local,
				 const struct nic_dead *dead, struct nic_choice *choice)
{
	const struct esc_nic_peer *peer;
	bool held;

	if (!p || !local || !dead || !choice)
		return 0;
	choice->lost = 1u << ESC_NIC_ROUTES;
	choice->routes = NULL;
	if (local->flags & ESC_NIC_PLAIN) {
		held = dead->first;
		if (dead->first && !dead->second && local->second_ifindex) {
			choice->lost = ~ESC_NIC_LEAVES_SECOND;
			choice->route = ESC_NIC_ROUTE_LEAVE;
			return 0;
		}
	} else {
		peer = bpf_map_lookup_elem(&nic_peers, &p->dst);
		if (peer && nic_address_is_set(&peer->second)) {
			nic_select_route(p, dead, choice);
			return 0;
		}
		held = dead->first && local->second_ifindex;
	}
	if (held)
		choice->lost = ~0u;
	choice->route = held ? ESC_NIC_ROUTES : ESC_NIC_ROUTE_DIRECT;
	return 0;
}

/* By @route of nic_choose(). @first_dead: it is lost where that is not possible. */
static __noinline int nic_transmit(struct __sk_buff *skb, const struct nic_packet *p,
				   const struct esc_nic_local *local, __u32 route, bool first_dead)
{
	const struct esc_nic_peer *peer;

	if (!p || !local || route == ESC_NIC_ROUTE_DIRECT)
		return ESC_TC_NEXT;
	if (route == ESC_NIC_ROUTES)
		return nic_discard(true);
	if (local->flags & ESC_NIC_PLAIN)
		return nic_redirect(p, local);
	peer = bpf_map_lookup_elem(&nic_peers, &p->dst);
	return peer ? nic_transmit_by(skb, p, local, peer, route, first_dead)
		    : nic_discard(first_dead);
}

#endif

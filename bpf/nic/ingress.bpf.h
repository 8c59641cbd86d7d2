/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What arrives on one of a pair's NICs: packets in UDP, which are decapsulated and delivered to
 * the device of their address, and probes of peers, which get a reply.
 *
 * Only what a member sends from one of its addresses to one of ours is accepted, with a tag and a
 * sequence (maps/nic.h); nothing is written before its tag is verified. An inner packet is
 * delivered on this host, never forwarded, and only from and to the NICs of its addresses. That a
 * NIC is dead is known from probes alone.
 */
#ifndef ESC_BPF_NIC_INGRESS_H
#define ESC_BPF_NIC_INGRESS_H

#include "nic/egress.bpf.h"

#define NIC_DECAP_FLAGS BPF_F_ADJ_ROOM_FIXED_GSO
/* Not a verdict: decapsulated, to be counted and delivered by the caller, which has stack left. */
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

/* The inner packet has to be one whole RoCEv2 packet of that member to a protected address. */
static __always_inline __u32 nic_verify_inner(const struct nic_packet *outer,
					      const struct nic_packet *p, __u64 id)
{
	const struct esc_nic_local *local = bpf_map_lookup_elem(&nic_local, &p->dst);
	const struct esc_nic_peer *peer = bpf_map_lookup_elem(&nic_peers, &p->src);

	if (!local || !(local->flags & ESC_NIC_PAIRED) || !peer || peer->id != id)
		return ESC_REASON_NIC_INNER;
	if ((nic_same(&outer->dst, &local->first) || nic_same(&outer->dst, &local->second)) &&
	    (nic_same(&outer->src, &peer->first) || nic_same(&outer->src, &peer->second)))
		return ESC_REASON_NONE;
	return ESC_REASON_NIC_OTHER_PAIR;
}

/* @sender: of the outer source address. */
static __always_inline __u32 nic_verify(struct __sk_buff *skb, const struct nic_packet *outer,
					struct esc_nic_peer *sender, __u64 now_ns)
{
	__u32 at = ETH_HLEN + outer->ip_bytes + NIC_WRAP_BYTES;
	__be16 type = bpf_htons(outer->version == 4 ? ETH_P_IP : ETH_P_IPV6);
	struct esc_nic_signed_data token;
	struct nic_packet p;
	__u64 have;

	if (bpf_skb_load_bytes(skb, at - sizeof(token.shim), &token.shim, sizeof(token.shim)) ||
	    !nic_reads(token.shim.min_version))
		return ESC_REASON_NIC_PROBE;
	if (!nic_parse(skb, at, type, &p) || !nic_is_roce(&p) ||
	    p.total + outer->ip_bytes + NIC_WRAP_BYTES != outer->total ||
	    ETH_HLEN + outer->total > skb->len)
		return ESC_REASON_NIC_INNER;
	token.src = outer->src;
	token.dst = outer->dst;
	have = token.shim.token;
	if (nic_token(skb, &p, at, &token, sender) || token.shim.token != have)
		return ESC_REASON_NIC_BAD_TAG;
	if (!nic_is_fresh(sender, bpf_ntohl(token.shim.number), now_ns))
		return ESC_REASON_NIC_STALE;
	nic_note_version(sender, token.shim.min_version, token.shim.version);
	return nic_verify_inner(outer, &p, sender->id);
}

static __noinline int nic_decap(struct __sk_buff *skb, const struct nic_packet *outer,
				struct esc_nic_peer *sender, __u64 now_ns)
{
	__u32 bytes, reason;

	if (!outer || !sender)
		return TC_ACT_SHOT;
	bytes = outer->version == 4 ? sizeof(struct nic_outer_v4) : sizeof(struct nic_outer_v6);
	reason = nic_verify(skb, outer, sender, now_ns);
	if (reason) {
		nic_count_reason(reason, false);
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

/* A new tag for the reply @input, whose addresses are swapped. */
static __always_inline bool nic_sign_reply(struct esc_nic_signed_probe *input,
					   const struct esc_nic_control *ctl,
					   const struct esc_nic_peer *peer)
{
	struct esc_address src = input->src;

	input->src = input->dst;
	input->dst = src;
	input->probe.kind = ESC_NIC_REPLY;
	input->probe.version = ESC_NIC_VERSION;
	input->probe.flags = (input->probe.flags & ~ESC_NIC_KEY) | nic_own_slot(ctl);
	return nic_tag(ctl, peer, input->probe.flags, input, ESC_NIC_PROBE_WORDS,
		       &input->probe.tag);
}

/* Verifies the probe in @input, and makes its reply of it. */
static __noinline int nic_answer(struct esc_nic_signed_probe *input, struct esc_nic_peer *peer,
				 __u64 now_ns)
{
	const struct esc_nic_control *ctl = nic_ctl_get();
	__u64 number_ns, have;
	struct esc_nic_peer *subject;

	if (!input || !peer || !ctl)
		return ESC_REASON_NIC_PROBE;
	have = input->probe.tag;
	if (!nic_tag(ctl, peer, input->probe.flags, input, ESC_NIC_PROBE_WORDS,
		     &input->probe.tag) ||
	    input->probe.tag != have)
		return ESC_REASON_NIC_BAD_TAG;
	number_ns = bpf_be64_to_cpu(input->probe.number_ns);
	if (!nic_is_fresh(peer, number_ns >> ESC_NIC_NUMBER_SHIFT, now_ns))
		return ESC_REASON_NIC_STALE;
	nic_note_version(peer, input->probe.min_version, input->probe.version);
	subject = input->probe.flags & ESC_NIC_REPORTS_DEAD
			  ? bpf_map_lookup_elem(&nic_peers, &input->probe.subject)
			  : NULL;
	if (subject && subject->id == peer->id &&
	    (number_ns > subject->report_number_ns ||
	     (__s64)(now_ns - subject->dead_ktime_ns) > (__s64)ESC_NIC_FORGET_NS)) {
		subject->report_number_ns = number_ns;
		nic_set_dead(subject, now_ns);
	}
	return nic_sign_reply(input, ctl, peer) ? ESC_REASON_NONE : ESC_REASON_NIC_BAD_TAG;
}

/* A request goes back to its sender, with its length unchanged. */
static __noinline int nic_reply(struct __sk_buff *skb, const struct nic_packet *p,
				struct esc_nic_peer *peer, __u64 now_ns)
{
	struct esc_nic_signed_probe input;
	__u32 at, reason;

	if (!p || !peer)
		return ESC_TC_NEXT;
	at = ETH_HLEN + p->ip_bytes + sizeof(struct udphdr);
	input.src = p->src;
	input.dst = p->dst;
	if (bpf_skb_load_bytes(skb, at, &input.probe, sizeof(input.probe)) ||
	    input.probe.magic != bpf_htonl(ESC_NIC_MAGIC) || !nic_reads(input.probe.min_version) ||
	    input.probe.kind != ESC_NIC_REQUEST ||
	    p->total != p->ip_bytes + sizeof(struct udphdr) + sizeof(input.probe)) {
		nic_count_reason(ESC_REASON_NIC_PROBE, false);
		return ESC_TC_NEXT;
	}
	reason = nic_answer(&input, peer, now_ns);
	if (reason) {
		nic_count_reason(reason, false);
		return TC_ACT_SHOT;
	}
	if (bpf_skb_store_bytes(skb, at, &input.probe, sizeof(input.probe), 0) ||
	    !(p->version == 4 ? nic_swap_headers(skb, struct nic_probe_v4)
			      : nic_swap_headers(skb, struct nic_probe_v6))) {
		nic_count_reason(ESC_REASON_NIC_KERNEL, false);
		return TC_ACT_SHOT;
	}
	nic_count(replied);
	return bpf_redirect(skb->ifindex, 0);
}

/* A datagram to one of our ports. */
static __noinline int nic_receive(struct __sk_buff *skb, const struct nic_packet *p, __u32 kind)
{
	__u64 now = bpf_ktime_get_ns();
	struct esc_nic_peer *peer;

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
	return kind == ESC_NIC_PORT_PROBE ? nic_reply(skb, p, peer, now)
					  : nic_decap(skb, p, peer, now);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies of what a NIC may lose when it dies: each queue pair's last acknowledgement, and its
 * last packet of SEND or WRITE that requested one. After a failover the daemon resends true
 * copies of them once the new route works: an acknowledgement covers all before it, and a
 * duplicate or early packet of data is replied to with the peer's expected PSN (InfiniBand
 * Architecture Specification vol. 1, 9.7.5.1.4). Otherwise both ends would wait for a timeout.
 *
 * An acknowledgement is forgotten when the response to a READ begins, which covers it: soft-RoCE
 * does not survive an old one within such a response (see steer/repair.bpf.h).
 *
 * READ and atomic requests are not copied: a second one would read memory again whose key may
 * have been revoked since, and the response to that would end the queue pair.
 */
#ifndef ESC_BPF_NIC_RETAIN_H
#define ESC_BPF_NIC_RETAIN_H

#include "nic/nic.bpf.h"

#define NIC_OPCODE_WRITE_LAST_OF_ALL 0x0b /* RC: from SEND_FIRST on */
#define NIC_OPCODE_READ_FIRST 0x0d
#define NIC_OPCODE_READ_ONLY 0x10
#define NIC_OPCODE_ACKNOWLEDGE 0x11

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_NIC_ACKS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_nic_retained_key);
	__type(value, struct esc_nic_ack);
} nic_acks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_NIC_REQUESTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_nic_retained_key);
	__type(value, struct esc_nic_request);
} nic_requests SEC(".maps");

static const struct esc_nic_request nic_copy_empty;

enum nic_copy { NIC_COPY_NONE, NIC_COPY_ACK, NIC_COPY_REQUEST, NIC_COPY_FORGET_ACK };

/* By the linear part alone, since it runs for every packet. @qpn: of the destination. */
static __always_inline enum nic_copy nic_select_copy(struct __sk_buff *skb, __be32 *qpn)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const union nic_ip *ip = data + ETH_HLEN;
	bool six = skb->protocol == bpf_htons(ETH_P_IPV6);
	const struct udphdr *udp;
	const struct esc_bth *bth;
	const __u8 *syndrome;

	udp = data + ETH_HLEN + (six ? sizeof(ip->v6) : sizeof(ip->v4));
	bth = (const void *)(udp + 1);
	if ((void *)(bth + 1) > end)
		return NIC_COPY_NONE;
	if ((six ? ip->v6.nexthdr : ip->v4.protocol) != IPPROTO_UDP ||
	    udp->dest != bpf_htons(ESC_ROCEV2_PORT))
		return NIC_COPY_NONE;
	*qpn = bth->qpn & bpf_htonl(ESC_QPN_MASK);
	if (bth->opcode <= NIC_OPCODE_WRITE_LAST_OF_ALL)
		return bth->psn & bpf_htonl(ESC_BTH_ACK_REQUEST) ? NIC_COPY_REQUEST : NIC_COPY_NONE;
	if (bth->opcode == NIC_OPCODE_READ_FIRST || bth->opcode == NIC_OPCODE_READ_ONLY)
		return NIC_COPY_FORGET_ACK;
	syndrome = (const void *)(bth + 1);
	if (bth->opcode != NIC_OPCODE_ACKNOWLEDGE || (void *)(syndrome + 1) > end)
		return NIC_COPY_NONE;
	/* The other NAKs end a queue pair or request a pause: they are sent once. */
	return ESC_AETH_KIND(*syndrome) == ESC_AETH_ACK ||
			       *syndrome == (ESC_AETH_NAK | ESC_NAK_SEQUENCE)
		       ? NIC_COPY_ACK
		       : NIC_COPY_NONE;
}

/* Two CPUs at once for one queue pair may spoil it: then its ICRC is wrong, or `ended` is. */
#define nic_copy_packet(skb, value, length, most)                                                  \
	do {                                                                                       \
		__u32 copied = (length);                                                           \
		barrier_var(copied);                                                               \
		if (!copied || copied > (most))                                                    \
			break;                                                                     \
		(value)->retained.begun++;                                                         \
		smp_wmb();                                                                         \
		(value)->retained.bytes =                                                          \
			bpf_skb_load_bytes(skb, ETH_HLEN, (value)->packet, copied) ? 0 : copied;   \
		(value)->retained.sent_ktime_ns = bpf_ktime_get_ns();                              \
		smp_wmb();                                                                         \
		(value)->retained.ended = (value)->retained.begun;                                 \
	} while (0)

/* NULL: the map is full. */
static __always_inline void *nic_copy_get(void *map, const struct esc_nic_retained_key *key)
{
	void *value = bpf_map_lookup_elem(map, key);

	if (value)
		return value;
	bpf_map_update_elem(map, key, &nic_copy_empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

static __noinline int nic_retain_ack(struct __sk_buff *skb, __u32 bytes,
				     const struct esc_nic_retained_key *key)
{
	struct esc_nic_ack *ack = key ? nic_copy_get(&nic_acks, key) : NULL;

	if (ack)
		nic_copy_packet(skb, ack, bytes, ESC_NIC_ACK_BYTES);
	return 0;
}

static __noinline int nic_forget_ack(const struct esc_nic_retained_key *key)
{
	struct esc_nic_ack *ack = key ? bpf_map_lookup_elem(&nic_acks, key) : NULL;

	if (ack)
		ack->retained.bytes = 0;
	return 0;
}

static __noinline int nic_retain_request(struct __sk_buff *skb, __u32 bytes,
					 const struct esc_nic_retained_key *key)
{
	struct esc_nic_request *request = key ? nic_copy_get(&nic_requests, key) : NULL;

	if (request)
		nic_copy_packet(skb, request, bytes, ESC_NIC_REQUEST_BYTES);
	return 0;
}

/* A packet of a protected address, on its first NIC. */
static __noinline int nic_retain(struct __sk_buff *skb, __u32 copy, __be32 qpn)
{
	struct esc_nic_retained_key key = {.qpn = qpn};
	const struct esc_nic_local *local;
	struct nic_packet p;

	if (skb->vlan_present || skb->gso_size || !nic_parse(skb, ETH_HLEN, skb->protocol, &p) ||
	    !nic_is_roce(&p))
		return 0;
	local = bpf_map_lookup_elem(&nic_local, &p.src);
	if (!local || !(local->flags & ESC_NIC_PAIRED) || local->first_ifindex != skb->ifindex)
		return 0;
	key.src = p.src;
	key.dst = p.dst;
	if (copy == NIC_COPY_FORGET_ACK)
		return nic_forget_ack(&key);
	return copy == NIC_COPY_ACK ? nic_retain_ack(skb, p.total, &key)
				    : nic_retain_request(skb, p.total, &key);
}

#endif

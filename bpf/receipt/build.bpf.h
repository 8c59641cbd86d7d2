/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receipts for what came in. tc ingress builds the whole frame in memory of its
 * CPU, then clones the packet and redirects the clone out of the interface it
 * came by; there tc egress puts the frame in the clone's place and sends it
 * round once more, so that the qdisc sees a packet of the receipt's length.
 * All of that happens within the one call that clones: `stage` says so, and
 * a stray mark does nothing.
 */
#ifndef ESC_BPF_RECEIPT_BUILD_H
#define ESC_BPF_RECEIPT_BUILD_H

#include "receipt/rx_timestamp.bpf.h"
#include "lib/tc.bpf.h"

#define RECEIPT_HOP_LIMIT 64
#define RECEIPT_SECOND_NS 1000000000ull
/* What may come at once is that of so long a time. */
#define RECEIPT_BURST_NS 10000000ll
/* So long nothing is tried after a clone got out past our tc egress. */
#define RECEIPT_PAUSE_NS 10000000000ll

static __always_inline bool receipt_rate_allows(struct esc_receipt_cpu *cpu, __u64 now_ns,
						__u32 max_pps)
{
	__u64 next_ns = cpu->allowed_ns;

	if (!max_pps || (__s64)(next_ns - now_ns) > RECEIPT_BURST_NS)
		return false;
	if ((__s64)(now_ns - next_ns) > 0)
		next_ns = now_ns;
	cpu->allowed_ns = next_ns + RECEIPT_SECOND_NS / max_pps;
	return true;
}

/* --- the frame --- */

static __always_inline void receipt_turn_ethernet(__u8 *to, const __u8 *from)
{
	__builtin_memcpy(to, from + 6, 6);
	__builtin_memcpy(to + 6, from, 6);
	__builtin_memcpy(to + 12, from + 12, 2);
}

static __always_inline void receipt_put_udp(struct esc_udp *udp, const struct esc_packet *p)
{
	udp->src = bpf_htons(p->sport);
	udp->dst = bpf_htons(ESC_ROCEV2_PORT);
	udp->bytes = bpf_htons(RECEIPT_UDP_BYTES);
	udp->check = 0;
}

/* @from: the packet's frame, of which the headers are there. */
static __always_inline void receipt_put_ipv4(__u8 *frame, const __u8 *from,
					     const struct esc_packet *p)
{
	__u8 *at = frame + ESC_RECEIPT_BTH_AT - RECEIPT_V4_BYTES;
	const struct esc_ipv4 *old = (const void *)from + ESC_ETHERNET_BYTES;
	struct esc_ipv4 ip = {
		.version_words = 0x45,
		.tos = old->tos & ~3,
		.total_bytes = bpf_htons(sizeof(ip) + RECEIPT_UDP_BYTES),
		.fragment = bpf_htons(0x4000),
		.ttl = RECEIPT_HOP_LIMIT,
		.protocol = ESC_PROTOCOL_UDP,
		.src = old->dst,
		.dst = old->src,
	};
	__u32 sum = bpf_htons(0x4500 | (old->tos & ~3));

	sum += ip.total_bytes + ip.fragment + bpf_htons(RECEIPT_HOP_LIMIT << 8 | ESC_PROTOCOL_UDP);
	sum += (ip.src & 0xffff) + (ip.src >> 16) + (ip.dst & 0xffff) + (ip.dst >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip.check = ~sum;
	receipt_turn_ethernet(at, from);
	__builtin_memcpy(at + ESC_ETHERNET_BYTES, &ip, sizeof(ip));
	receipt_put_udp((void *)at + ESC_ETHERNET_BYTES + sizeof(ip), p);
}

static __always_inline void receipt_put_ipv6(__u8 *frame, const __u8 *from,
					     const struct esc_packet *p)
{
	__u8 *at = frame + ESC_RECEIPT_BTH_AT - RECEIPT_V6_BYTES;
	const struct esc_ipv6 *old = (const void *)from + ESC_ETHERNET_BYTES;
	struct esc_ipv6 *ip = (void *)at + ESC_ETHERNET_BYTES;

	receipt_turn_ethernet(at, from);
	/* No ECN; the flow label is the sender's own: ours is none. */
	ip->word = old->word & bpf_htonl(0xffc00000);
	ip->payload_bytes = bpf_htons(RECEIPT_UDP_BYTES);
	ip->next = ESC_PROTOCOL_UDP;
	ip->hop_limit = RECEIPT_HOP_LIMIT;
	__builtin_memcpy(ip->src, old->dst, sizeof(ip->src));
	__builtin_memcpy(ip->dst, old->src, sizeof(ip->dst));
	receipt_put_udp((void *)(ip + 1), p);
}

/* The Ethernet to UDP headers; false: not behind such headers. */
static __always_inline bool receipt_put_headers(struct __sk_buff *skb, struct esc_receipt_cpu *cpu,
						const struct esc_packet *p)
{
	const __u8 *data = (const void *)(long)skb->data, *end = (const void *)(long)skb->data_end;
	const __u8 *ip = data + ESC_ETHERNET_BYTES;

	if (data + RECEIPT_V4_BYTES > end)
		return false;
	if (*(__be16 *)(data + 12) == bpf_htons(ESC_ETHERTYPE_IPV4) && *ip == 0x45) {
		cpu->begin = ESC_RECEIPT_BTH_AT - RECEIPT_V4_BYTES;
		receipt_put_ipv4(cpu->frame, data, p);
		return true;
	}
	if (*(__be16 *)(data + 12) != bpf_htons(ESC_ETHERTYPE_IPV6) ||
	    data + RECEIPT_V6_BYTES > end || ip[6] != ESC_PROTOCOL_UDP)
		return false;
	cpu->begin = ESC_RECEIPT_BTH_AT - RECEIPT_V6_BYTES;
	receipt_put_ipv6(cpu->frame, data, p);
	return true;
}

static __always_inline void receipt_put_bth(struct esc_bth *bth)
{
	__builtin_memset(bth, 0, sizeof(*bth));
	bth->opcode = ESC_PROBE_OPCODE_RECEIPT;
	bth->pkey = bpf_htons(0xffff);
}

static __always_inline void receipt_put_time(struct esc_receipt *r, const struct rx_stamp *stamp)
{
	struct esc_fabric_time time;

	r->rx_fabric_ns = 0;
	r->rx_bound_ns = 0;
	if (!esc_fabric_at(esc_local_at(stamp->rx_ktime_ns), &time))
		return;
	r->flags |= ESC_RECEIPT_TIMED;
	r->rx_fabric_ns = bpf_cpu_to_be64(time.fabric_ns);
	r->rx_bound_ns = bpf_htonl(saturate_ns(time.bound_ns));
}

/* From the BTH to the end. */
static __always_inline void receipt_put_body(struct esc_receipt_cpu *cpu,
					     const struct esc_fleet *own,
					     const struct esc_packet *p,
					     const struct rx_stamp *stamp, __u64 target)
{
	struct esc_bth *bth = (void *)cpu->frame + ESC_RECEIPT_BTH_AT;
	struct esc_receipt *r = (void *)bth + ESC_BTH_BYTES;
	const __u64 *key = probe_own_key(own);

	receipt_put_bth(bth);
	r->magic = bpf_htonl(ESC_PROBE_MAGIC);
	r->version = ESC_PROBE_VERSION;
	r->flags = (stamp->flags & (ESC_RECEIPT_RESPONSE | ESC_RECEIPT_CE | ESC_RECEIPT_MESSAGE)) |
		   (esc_plane ? ESC_RECEIPT_PLANE : 0) |
		   (own->flags & ESC_FLEET_USE_KEY1 ? ESC_RECEIPT_KEY : 0);
	r->sport = bpf_htons(p->sport);
	r->sender = bpf_cpu_to_be64(own->self);
	r->target = bpf_cpu_to_be64(target);
	r->epoch = bpf_cpu_to_be64(own->epoch);
	receipt_put_time(r, stamp);
	r->dest_qpn = bpf_htonl(p->dest_qpn);
	r->psn = bpf_htonl(p->psn);
	r->stack_ns = bpf_htonl(saturate_ns(bpf_ktime_get_ns() - stamp->rx_ktime_ns));
	r->message_ns = bpf_htonl(stamp->message_ns);
	r->reserved = 0;
	r->tag = key ? receipt_tag(key, bth) : 0;
	*(__u32 *)(r + 1) = 0;
}

/* --- tc ingress --- */

/* The packet itself comes out of this as it went in, with its mark. */
static __always_inline int receipt_clone(struct __sk_buff *skb, struct esc_receipt_cpu *cpu,
					 __u64 now_ns)
{
	volatile __u32 *stage = &cpu->stage;
	__u32 mark = skb->mark;
	long error;

	*stage = RECEIPT_STAGE_CLONED;
	skb->mark = ESC_RECEIPT_MARK;
	error = bpf_clone_redirect(skb, skb->ifindex, 0);
	skb->mark = mark;
	/* Our tc egress is gone, or somebody's ahead of it ends the chain: a copy went out. */
	if (*stage == RECEIPT_STAGE_CLONED && error >= 0) {
		cpu->resume_ns = now_ns + RECEIPT_PAUSE_NS;
		error = -1;
	}
	*stage = RECEIPT_STAGE_NONE;
	return error ? ESC_REASON_RECEIPT_CLONE : 0;
}

/* 0, or why no receipt was made. */
static __noinline int receipt_make(struct __sk_buff *skb, const struct esc_packet *p,
				   const struct rx_stamp *stamp, const struct esc_control *word)
{
	struct esc_receipt_cpu *cpu = receipt_here();
	const struct esc_fleet *own = probe_fleet();
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 target = receipt_peer(&p->key.src, now_ns);

	if (!cpu || !own || !own->self || !target || cpu->stage != RECEIPT_STAGE_NONE)
		return 0;
	if (!receipt_put_headers(skb, cpu, p))
		return ESC_REASON_RECEIPT_HEADERS;
	if ((__s64)(cpu->resume_ns - now_ns) > 0)
		return ESC_REASON_RECEIPT_CLONE;
	if (!receipt_rate_allows(cpu, now_ns, word->receipts_max_pps))
		return ESC_REASON_RECEIPT_RATE;
	receipt_put_body(cpu, own, p, stamp, target);
	return receipt_clone(skb, cpu, now_ns);
}

#endif

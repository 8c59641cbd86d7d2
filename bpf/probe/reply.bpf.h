/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Received probes: requests become replies in place, replies are recorded in the ring `probes`. */
#ifndef ESC_BPF_PROBE_REPLY_H
#define ESC_BPF_PROBE_REPLY_H

#include "lib/parse.bpf.h"
#include "lib/reason.bpf.h"
#include "probe/verify.bpf.h"

#define PROBE_HOP_LIMIT 64
/* Any header chain that the parser walks to its end is shorter. */
#define PROBE_OFFSET_MASK 0x3fff

/*
 * Fills in the pointers of @f. @at: of the BTH, whose magic was checked. @udp_bytes: length of
 * such a datagram, with its UDP header.
 */
static __always_inline int probe_map_frame(struct xdp_md *xdp, __u64 at, struct probe_frame *f,
					   __u32 udp_bytes)
{
	struct cursor cursor = {
		.context = xdp,
		.skb = false,
		.start = (void *)(long)xdp->data,
		.end = (void *)(long)xdp->data_end,
		.at = (void *)(long)xdp->data,
	};
	__u16 ethertype;

	at = (at - sizeof(struct udphdr)) & PROBE_OFFSET_MASK;
	barrier_var(at);
	f->udp = cursor.start + at;
	if ((void *)f->udp + sizeof(struct udphdr) > cursor.end)
		return ESC_REASON_UNREADABLE;
	if (f->udp->len != bpf_htons(udp_bytes))
		return bpf_ntohs(f->udp->len) < udp_bytes ? ESC_REASON_PROBE_SHORT
							  : ESC_REASON_PROBE_VERSION;
	if ((void *)f->udp + udp_bytes > cursor.end)
		return ESC_REASON_UNREADABLE;
	f->bth = (void *)f->udp + sizeof(*f->udp);
	f->probe = (void *)f->bth + sizeof(struct esc_bth);
	f->ethernet = cursor.start;
	if (parse_ethernet(&cursor, &ethertype) || !cursor_has(&cursor, sizeof(struct ipv6hdr)))
		return ESC_REASON_UNREADABLE;
	f->ip = cursor.at;
	f->ipv6 = ethertype == bpf_htons(ETH_P_IPV6);
	/* Members send none. A source route in a reply would go where its sender wants. */
	if ((void *)f->udp != f->ip + (f->ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)))
		return ESC_REASON_PROBE_OPTIONS;
	return ESC_REASON_NONE;
}

static __always_inline void probe_swap_ethernet(void *ethernet)
{
	__u32 *high = ethernet; /* of the destination, and two bytes of the source */
	__u16 *words = ethernet;
	__u32 to = high[0];
	__u16 to_low = words[2];

	words[0] = words[3];
	words[1] = words[4];
	words[2] = words[5];
	words[3] = to;
	words[4] = to >> 16;
	words[5] = to_low;
}

/* Swapped addresses leave the header's checksum unchanged, a new TTL does not (RFC 1624). */
static __always_inline void probe_swap_ipv4(struct iphdr *ip)
{
	__be16 *word = (void *)ip + offsetof(struct iphdr, ttl);
	__be32 src = ip->saddr;
	__u32 sum = (__u16)~ip->check + (__u16) ~*word;

	ip->saddr = ip->daddr;
	ip->daddr = src;
	ip->ttl = PROBE_HOP_LIMIT;
	barrier();
	sum += *word;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~sum;
}

static __always_inline void probe_swap_ipv6(struct ipv6hdr *ip)
{
	__u64 *src = (void *)ip + offsetof(struct ipv6hdr, saddr);
	__u64 high = src[0], low = src[1];

	src[0] = src[2];
	src[1] = src[3];
	src[2] = high;
	src[3] = low;
	ip->hop_limit = PROBE_HOP_LIMIT;
}

/* Back to the sender, with both ports unchanged as in a RoCE ACK. */
static __always_inline void probe_reflect(const struct probe_frame *f, __u8 opcode)
{
	probe_swap_ethernet(f->ethernet);
	if (f->ipv6)
		probe_swap_ipv6(f->ip);
	else
		probe_swap_ipv4(f->ip);
	f->udp->check = 0;
	f->bth->opcode = opcode;
}

/* Time since the member that a request queries, or that NIC of it, was last received. */
static __always_inline __be32 probe_query_age(const struct esc_probe *probe, __u64 now_ns)
{
	struct esc_peer *about = NULL;
	__u64 id = bpf_be64_to_cpu(probe->about);
	__u32 nic = bpf_ntohl(probe->about_age_us);

	if (probe->flags & ESC_PROBE_QUERY)
		about = nic ? probe_edge(id, nic) : probe_peer(id);
	return probe_age_us(now_ns, about ? about->received_local_ns : 0);
}

/* t3 is read as late as possible: only what follows it is hashed afterwards. */
static __always_inline void probe_finish_reply(const struct probe_frame *f,
					       const struct esc_fleet *own,
					       const struct esc_peer *peer)
{
	__u64 key[2] = {};
	bool has_key = probe_key(own, peer, f->probe->min_version, probe_own_slot(own), key);
	struct esc_siphash h;

	f->probe->tag = 0;
	if (has_key) {
		siphash_start(&h, key);
		siphash_words(&h, (const __u32 *)f->bth, PROBE_WORD_OF(t3));
	}
	f->probe->t3 = bpf_cpu_to_be64(esc_local_now());
	if (has_key)
		f->probe->tag = probe_tag_from(&h, f->bth, PROBE_WORD_OF(t3));
}

/* @last_rx_ns: when a packet of the peer arrived before this request. */
static __always_inline void probe_make_reply(const struct probe_frame *f,
					     const struct esc_fleet *own,
					     const struct esc_peer *peer, __u64 last_rx_ns)
{
	struct esc_probe *probe = f->probe;

	probe_reflect(f, ESC_PROBE_OPCODE_REPLY);
	probe->target = probe->sender;
	probe->echo_epoch = probe->epoch;
	probe->t2 = bpf_cpu_to_be64(f->local_ns);
	probe->about_age_us = probe_query_age(probe, f->ktime_ns);
	probe->received_age_us = probe_age_us(f->ktime_ns, last_rx_ns);
	probe_put_self(probe, own, ESC_PROBE_SECOND | ESC_PROBE_QUERY,
		       probe_version_to(own, peer, f->ktime_ns));
	probe_finish_reply(f, own, peer);
}

static __always_inline void probe_record_view(struct esc_probe_event *event,
					      const struct esc_probe_view *view)
{
	event->view_ref_local_ns = bpf_be64_to_cpu(view->ref_local_ns);
	event->view_ref_fabric_ns = bpf_be64_to_cpu(view->ref_fabric_ns);
	event->view_rate_q40 = bpf_be64_to_cpu(view->rate_q40);
	event->view_ref_fraction = bpf_ntohl(view->ref_fraction);
	event->view_bound_ns = bpf_ntohl(view->bound_ns);
	event->view_generation = bpf_ntohl(view->generation);
	event->view_reach = bpf_ntohs(view->reach);
	event->view_state = view->state;
	event->view_nic_report = view->nic_report;
}

static __always_inline void probe_record_anchor(struct esc_probe_event *event,
						const struct esc_probe_anchor *anchor)
{
	event->anchor_ref_fabric_ns = bpf_be64_to_cpu(anchor->ref_fabric_ns);
	event->anchor_ahead_ns = bpf_be64_to_cpu(anchor->ahead_ns);
	event->anchor_rate_q40 = bpf_be64_to_cpu(anchor->rate_q40);
	event->anchor_sequence = bpf_ntohl(anchor->sequence);
	event->anchor_bound_ns = bpf_ntohl(anchor->bound_ns);
	event->anchor_id = bpf_ntohl(anchor->anchor);
	event->anchor_hops = anchor->hops;
	event->anchor_reserved[0] = 0;
	event->anchor_reserved[1] = 0;
	event->anchor_reserved[2] = 0;
}

/* False: the ring is full. No wakeup: the daemon polls. */
static __noinline bool probe_record(const struct esc_probe *probe, __s64 local_ns, __u32 nic,
				    enum esc_probe_event_kind kind)
{
	struct esc_probe_event *event = bpf_ringbuf_reserve(&probes, sizeof(*event), 0);
	bool reply = kind == ESC_PROBE_EVENT_REPLY;

	if (!event)
		return false;
	event->peer = bpf_be64_to_cpu(probe->sender);
	event->epoch = bpf_be64_to_cpu(probe->epoch);
	event->t1 = bpf_be64_to_cpu(probe->t1);
	event->t2 = reply ? bpf_be64_to_cpu(probe->t2) : (__u64)local_ns;
	event->t3 = reply ? bpf_be64_to_cpu(probe->t3) : 0;
	event->t4 = reply ? local_ns : 0;
	event->sequence = bpf_ntohl(probe->sequence);
	event->pair = bpf_ntohl(probe->pair);
	event->about_age_us = bpf_ntohl(probe->about_age_us);
	event->received_age_us = bpf_ntohl(probe->received_age_us);
	event->about = bpf_be64_to_cpu(probe->about);
	event->kind = kind;
	event->flags = probe->flags;
	event->port = esc_port_index;
	event->reserved = 0;
	event->nic = nic;
	probe_record_view(event, &probe->view);
	probe_record_anchor(event, &probe->anchor);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline int probe_handle_request(const struct probe_frame *f,
						const struct esc_fleet *own, struct esc_peer *peer)
{
	__u64 last_rx_ns = 0;
	int result = probe_accept_request(f, peer, own->reply_max_pps, &last_rx_ns);

	if (result)
		return result;
	if (!probe_record(f->probe, f->local_ns, probe_source_nic(f), ESC_PROBE_EVENT_REQUEST))
		reason_count(ESC_REASON_PROBE_RING_FULL, ESC_HOOK_XDP_INGRESS);
	probe_make_reply(f, own, peer, last_rx_ns);
	return ESC_REASON_NONE;
}

static __always_inline int probe_handle_reply(const struct probe_frame *f,
					      const struct esc_fleet *own, struct esc_peer *peer)
{
	int result = probe_accept_reply(f, own, peer);

	if (!result &&
	    !probe_record(f->probe, f->local_ns, probe_source_nic(f), ESC_PROBE_EVENT_REPLY))
		result = ESC_REASON_PROBE_RING_FULL;
	return result;
}

/* A warm-up packet is verified as a request, so that all of this is in the cache, and ends. */
static __noinline int probe_receive(struct xdp_md *xdp, __u64 at)
{
	struct probe_frame f = {.ktime_ns = bpf_ktime_get_ns()};
	const struct esc_fleet *own = probe_fleet();
	int result, verdict = XDP_DROP;
	struct esc_peer *peer = NULL, *member = NULL;

	if (!own)
		return XDP_PASS;
	f.local_ns = esc_local_at(f.ktime_ns);
	result = probe_map_frame(xdp, at, &f, PROBE_UDP_BYTES);
	if (!result)
		result = probe_verify(&f, own, &peer, &member);
	if (!result && peer && member) {
		if (f.bth->opcode == ESC_PROBE_OPCODE_REPLY) {
			result = probe_handle_reply(&f, own, peer);
		} else if (f.bth->opcode == ESC_PROBE_OPCODE_REQUEST) {
			result = probe_handle_request(&f, own, peer);
			if (!result)
				verdict = XDP_TX;
		} else {
			result = probe_accept_warmup(&f, peer);
		}
		if (!result && peer != member)
			probe_note_member(member, peer);
	}
	if (result)
		reason_count(result, ESC_HOOK_XDP_INGRESS);
	return result == ESC_REASON_UNREADABLE ? XDP_PASS : verdict;
}

#endif

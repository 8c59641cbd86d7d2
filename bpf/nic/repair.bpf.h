/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Repair after a NIC failure (lib/ring.bpf.h): each packet of RC of a protected address leaves a
 * copy in the ring of its queue pair, with the route that it took. When the queue pair's packets
 * take another route because that one is dead, those sent on it are sent once more by the new one,
 * encapsulated like any other packet. The first packet of the new route does it, or
 * esc_nic_repair, which the daemon runs for queue pairs that have nothing to send.
 *
 * Requests are known to be unacknowledged once the daemon has found the queue pair's other
 * direction (esc_repair_ring.back), a second or two after it began. Until then responses alone are
 * sent once more, and the newest SEND or WRITE, which makes the peer say what it expects.
 */
#ifndef ESC_BPF_NIC_REPAIR_H
#define ESC_BPF_NIC_REPAIR_H

#include "lib/ring.bpf.h"
#include "nic/egress.bpf.h"

#define NIC_OPCODE_RC_END 0x20
#define NIC_NOT_OURS (-1)
#define NIC_NO_COPY (-2)
/* Back to a route that is usable again: at a gap of this length, or after this timeout. */
#define NIC_GAP_NS 8000000ull /* two ticks of the coarse clock, at most */
#define NIC_RETURN_NS 1000000000ull
/* Of the last packets, while nothing is acknowledged: then a transport has sent them again. */
#define NIC_AGAIN_AGE_NS 1000000000ull

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ESC_NIC_RINGS);
	__type(key, __u32);
	__array(values, struct repair_ring_map);
} nic_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_NIC_RINGS);
	__type(key, struct esc_nic_queue);
	__type(value, __u32);
} nic_queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, ESC_NIC_RINGS);
	__type(value, __u32);
} nic_spares SEC(".maps");

/* Writer: the daemon. A packet sent this long before the failure was detected has arrived. */
__u64 nic_repair_age_ns = 0;
/* Packets whose queue pair found no ring. */
__u64 nic_not_kept = 0;
/* Instead of a lookup in `nic_queues`: the ring that a queue pair with such a number had last. */
#define NIC_RECENT 256
__u32 nic_recent[NIC_RECENT] = {};

/* A packet's place in a ring; @number is 0: it has none. */
struct nic_kept {
	struct esc_repair_ring *ring; /* NULL: none */
	__u32 id;		      /* of the ring, as in `nic_queues` */
	__u32 number;
};

static __always_inline struct esc_repair_ring *nic_ring(__u32 id)
{
	__u32 index = id - 1, zero = 0;
	void *map = bpf_map_lookup_elem(&nic_rings, &index);

	return map ? bpf_map_lookup_elem(map, &zero) : NULL;
}

/* --- keep --- */

/* By the linear part alone, since it runs for every packet. False: not RC. */
static __always_inline bool nic_queue_of(struct __sk_buff *skb, struct esc_nic_queue *queue,
					 __u32 *psn, __u8 *opcode)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	bool six = skb->protocol == bpf_htons(ETH_P_IPV6);
	const union nic_ip *ip = data + ETH_HLEN;
	const struct udphdr *udp;
	const struct esc_bth *bth;

	udp = data + ETH_HLEN + (six ? sizeof(ip->v6) : sizeof(ip->v4));
	bth = (const void *)(udp + 1);
	if ((void *)(bth + 1) > end || udp->dest != bpf_htons(ESC_ROCEV2_PORT) ||
	    bth->opcode >= NIC_OPCODE_RC_END)
		return false;
	if (six) {
		if (ip->v6.nexthdr != IPPROTO_UDP)
			return false;
		__builtin_memcpy(&queue->src, &ip->v6.saddr, sizeof(queue->src));
		__builtin_memcpy(&queue->dst, &ip->v6.daddr, sizeof(queue->dst));
	} else {
		if (ip_first_byte(ip) != IPV4_NO_OPTIONS || ip->v4.protocol != IPPROTO_UDP ||
		    ip->v4.frag_off & bpf_htons(IP_MF | IP_OFFSET))
			return false;
		nic_address_set_v4(&queue->src, ip->v4.saddr);
		nic_address_set_v4(&queue->dst, ip->v4.daddr);
	}
	queue->qpn = bth->qpn & bpf_htonl(ESC_QPN_MASK);
	*psn = bpf_ntohl(bth->psn) & ESC_PSN_MASK;
	*opcode = bth->opcode;
	return true;
}

/* Whether packets of @queue could fail over, from where @skb is. */
static __always_inline bool nic_is_protected(struct __sk_buff *skb,
					     const struct esc_nic_queue *queue)
{
	const struct esc_nic_local *local = bpf_map_lookup_elem(&nic_local, &queue->src);
	__u32 ifindex;

	if (!local || !(local->flags & ESC_NIC_PAIRED))
		return false;
	ifindex = local->first_ifindex ?: local->deliver_ifindex;
	return ifindex == skb->ifindex &&
	       (local->flags & ESC_NIC_PLAIN || bpf_map_lookup_elem(&nic_peers, &queue->dst));
}

/* The number of a ring for a new queue pair; 0: there is none to be had. */
static __noinline __u32 nic_ring_take(struct __sk_buff *skb, const struct esc_nic_queue *queue)
{
	struct esc_repair_ring *ring;
	const __u32 *others;
	__u32 id = 0;

	if (!queue || !nic_is_protected(skb, queue))
		return 0;
	if (bpf_map_pop_elem(&nic_spares, &id)) {
		nic_not_kept++;
		return 0;
	}
	ring = nic_ring(id);
	if (!ring)
		return 0;
	ring->key.src = queue->src;
	ring->key.dst = queue->dst;
	ring->key.dest_qpn = bpf_ntohl(queue->qpn);
	if (!bpf_map_update_elem(&nic_queues, queue, &id, BPF_NOEXIST))
		return id;
	/* Another CPU was first. */
	bpf_map_push_elem(&nic_spares, &id, BPF_ANY);
	others = bpf_map_lookup_elem(&nic_queues, queue);
	return others ? *others : 0;
}

/* The daemon makes the number invalid when the ring is no longer the queue pair's. */
static __always_inline bool nic_is_ring_of(const struct esc_repair_ring *ring,
					   const struct esc_nic_queue *queue)
{
	return ring->key.dest_qpn == bpf_ntohl(queue->qpn) &&
	       nic_same(&ring->key.src, &queue->src) && nic_same(&ring->key.dst, &queue->dst);
}

/* Fills in @kept, which is empty. */
static __noinline int nic_keep(struct __sk_buff *skb, struct nic_kept *kept)
{
	struct esc_nic_queue queue;
	const __u32 *known;
	__u32 *recent, psn;
	__u8 opcode;

	if (!kept || !nic_queue_of(skb, &queue, &psn, &opcode) || skb->vlan_present)
		return 0;
	recent = &nic_recent[bpf_ntohl(queue.qpn) % NIC_RECENT];
	kept->id = *(volatile __u32 *)recent;
	kept->ring = nic_ring(kept->id);
	if (unlikely(!kept->ring || !nic_is_ring_of(kept->ring, &queue))) {
		known = bpf_map_lookup_elem(&nic_queues, &queue);
		kept->id = known ? *known : nic_ring_take(skb, &queue);
		*recent = kept->id;
		kept->ring = nic_ring(kept->id);
	}
	if (kept->ring)
		kept->number = repair_keep(skb, kept->ring, psn, repair_flags(opcode));
	return 0;
}

/* The packet is sent now, by @route. */
static __always_inline void nic_kept_sent(const struct nic_kept *kept, __u32 route)
{
	if (kept->ring && kept->number)
		repair_sent(kept->ring, kept->number, route);
}

/* --- send once more --- */

/* Of nic_repair_run(): bits of the routes that are dead, the one that copies take, REPAIR_*. */
#define NIC_REPAIR(lost, to, only) (((lost)&0xff) | (to) << 8 | (only) << 16)

/*
 * What the routes of @how may have lost since @since_ns, from the ring @id. How many were sent; -1:
 * this CPU is sending copies for a path. Global: verified once, and not for each state of its
 * callers.
 */
int nic_repair_run(struct __sk_buff *skb, __u32 id, __u32 how, __u64 since_ns);
__noinline int nic_repair_run(struct __sk_buff *skb, __u32 id, __u32 how, __u64 since_ns)
{
	struct repair_context c = {
		.skb = skb,
		.ring = nic_ring(id),
		.cpu = repair_this_cpu(),
		.only = how >> 16 | REPAIR_GUESS,
		.lost = how & 0xff,
		.to = how >> 8,
		.since_ns = since_ns,
	};

	if (!c.ring || !c.cpu || c.cpu->stage != REPAIR_STAGE_NONE)
		return -1;
	if (c.ring->has_back)
		repair_find_acked(&c, &c.ring->back);
	c.ring->stuck = c.knows_acked ? c.unacked + 1 : 0;
	return repair_walk(&c, id | ESC_REPAIR_OF_NIC);
}

static __always_inline __u64 nic_ago(__u64 at_ns, __u64 age_ns)
{
	return at_ns > age_ns ? at_ns - age_ns : 0;
}

/*
 * What was sent by the route of @ring before has arrived. A carrier or a report shows a failure
 * soon, a busy host aside; silence by the newest probe that was replied to.
 */
static __always_inline __u64 nic_repair_since(const struct esc_repair_ring *ring,
					      const struct nic_choice *choice)
{
	__u64 age_ns = nic_repair_age_ns, since_ns = nic_ago(bpf_ktime_get_coarse_ns(), age_ns);
	__u64 silent_ns;

	if (ring->path == ESC_NIC_ROUTES && ring->since_ns < since_ns)
		return ring->since_ns;
	if (!choice->routes || choice->routes->usable >> (ring->path & 31) & 1)
		return since_ns;
	silent_ns = nic_ago(choice->routes->silent_ns, age_ns / 2);
	return silent_ns < since_ns ? silent_ns : since_ns;
}

/* A route that is back could deliver a packet before those that are still on the other one. */
static __always_inline bool nic_may_return(struct esc_repair_ring *ring, __u32 number)
{
	const struct esc_repair_packet *last;
	__u64 now_ns = bpf_ktime_get_coarse_ns();

	number = number ? number - 1 : (__u32)repair_head(ring);
	last = repair_packet(ring, number);
	if (!ring->return_ns)
		ring->return_ns = now_ns + NIC_RETURN_NS;
	return last->number != number || now_ns - last->sent_ktime_ns >= NIC_GAP_NS ||
	       (__s64)(now_ns - ring->return_ns) >= 0;
}

/* With `busy`: packets of the ring take the route of @choice from now on, or @choice is changed. */
static __always_inline int nic_repair_switch(struct __sk_buff *skb, const struct nic_kept *kept,
					     struct nic_choice *choice)
{
	struct esc_repair_ring *ring = kept->ring;
	__u32 lost = choice->lost | ring->lost, how;
	int sent = 0;

	how = NIC_REPAIR(lost, choice->route, ring->last_only ? REPAIR_LAST : 0);
	if (lost >> (ring->path & 31) & 1)
		sent = nic_repair_run(skb, kept->id, how, nic_repair_since(ring, choice));
	else if (!nic_may_return(ring, kept->number))
		choice->route = ring->path;
	if (sent < 0)
		return 0; /* the next packet does it */
	if (ring->path != choice->route)
		ring->return_ns = 0;
	ring->path = choice->route;
	ring->lost = 0;
	return sent;
}

/* Another CPU sends copies: the packet leaves behind them, by the same route. */
static __always_inline void nic_repair_join(struct esc_repair_ring *ring, struct nic_choice *choice)
{
	__u32 route;

	repair_wait(ring);
	route = *(const volatile __u32 *)&ring->path;
	if (route < ESC_NIC_ROUTES && !(choice->lost >> route & 1))
		choice->route = route;
}

/* There is no route: what is sent meanwhile counts as lost, too. */
static __always_inline void nic_repair_defer(struct esc_repair_ring *ring,
					     const struct nic_choice *choice)
{
	if (ring->path != ESC_NIC_ROUTES)
		ring->since_ns = nic_repair_since(ring, choice);
	ring->lost |= choice->lost;
	ring->path = ESC_NIC_ROUTES;
}

/* Before a packet takes the route of @choice. How many were sent once more. */
static __noinline int nic_repair_check(struct __sk_buff *skb, const struct nic_kept *kept,
				       struct nic_choice *choice)
{
	struct esc_repair_ring *ring = kept ? kept->ring : NULL;
	int sent = 0;

	if (!ring || !choice)
		return 0;
	if (ring->path == choice->route && !ring->busy) {
		ring->return_ns = 0;
		return 0;
	}
	if (choice->route == ESC_NIC_ROUTES) {
		nic_repair_defer(ring, choice);
		return 0;
	}
	if (!repair_claim(ring)) {
		nic_repair_join(ring, choice);
		return 0;
	}
	if (ring->path != choice->route)
		sent = nic_repair_switch(skb, kept, choice);
	repair_release(ring);
	return sent;
}

/* Something that was sent is not acknowledged, and nothing was since the last repair. */
static __always_inline bool nic_is_stuck(const struct esc_repair_ring *ring)
{
	const struct esc_qp *back = ring->has_back ? bpf_map_lookup_elem(&qps, &ring->back) : NULL;

	if (!back || !(back->responses.flags & ESC_PSN_VALID))
		return true; /* not known */
	return ring->stuck == back->responses.next + 1 &&
	       psn_distance(ring->psn[0], back->responses.next) >= 0;
}

/* The last packets, whichever route they took. How many were sent. */
static __always_inline int nic_repair_again(struct __sk_buff *skb, const struct nic_kept *kept,
					    __u32 route)
{
	struct esc_repair_ring *ring = kept->ring;
	int sent;

	if (!ring || route == ESC_NIC_ROUTES || !nic_is_stuck(ring) || !repair_claim(ring))
		return 0;
	sent = nic_repair_run(skb, kept->id, NIC_REPAIR(~0u, route, REPAIR_LAST),
			      nic_ago(bpf_ktime_get_coarse_ns(), NIC_AGAIN_AGE_NS));
	repair_release(ring);
	return sent < 0 ? 0 : sent;
}

/* --- the clone --- */

/*
 * A packet with ESC_REPAIR_MARK while this CPU sends copies of ours: the clone, which is written
 * here and then leaves by the route that is returned. NIC_NO_COPY: it is not to leave;
 * NIC_NOT_OURS: any other packet.
 */
static __noinline int nic_write_copy(struct __sk_buff *skb)
{
	struct esc_repair_cpu *cpu = repair_this_cpu();
	struct esc_repair_ring *ring;

	if (!cpu || cpu->stage != REPAIR_STAGE_CLONED || !(cpu->ring & ESC_REPAIR_OF_NIC))
		return NIC_NOT_OURS;
	cpu->stage = REPAIR_STAGE_FAILED;
	skb->mark = cpu->mark;
	ring = nic_ring(cpu->ring & ~ESC_REPAIR_OF_NIC);
	if (!ring || !repair_write(skb, cpu, ring))
		return NIC_NO_COPY;
	cpu->stage = REPAIR_STAGE_WRITTEN;
	return cpu->to;
}

#endif

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * NIC failover: an object of its own, on the NICs of a pair and on the dummy device above one.
 * It runs behind the programs that count and steer.
 */
/* Packet headers are ABI: only the structs below have relocated offsets. */
#define BPF_NO_PRESERVE_ACCESS_INDEX

#include "nic/count.bpf.h"
#include "nic/egress.bpf.h"
#include "nic/ingress.bpf.h"
#include "nic/repair.bpf.h"

#include <bpf/bpf_core_read.h>

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;

struct net_device___core {
	unsigned long state;
	unsigned int flags;
} __attribute__((preserve_access_index));

struct sk_buff___core {
	struct net_device___core *dev;
} __attribute__((preserve_access_index));

#define IFF_UP 0x1u	   /* include/uapi/linux/if.h */
#define NIC_UNDECIDED (-2) /* not a verdict: the packet leaves as it is */

/* Carrier and administrative state as the driver has them now. */
static __always_inline bool nic_device_is_down(struct __sk_buff *skb)
{
	const struct sk_buff___core *kernel = bpf_cast_to_kern_ctx(skb);
	const struct net_device___core *device = kernel->dev;

	return device->state &
		       1ul << bpf_core_enum_value(enum netdev_state_t, __LINK_STATE_NOCARRIER) ||
	       !(device->flags & IFF_UP);
}

/* The NIC was seen dead within the latch time. */
static __always_inline bool nic_is_latched(const struct esc_nic_local *local, __u64 now_ns)
{
	return local->seen_dead_ktime_ns &&
	       (__s64)(now_ns - local->seen_dead_ktime_ns) < (__s64)ESC_NIC_LATCH_NS;
}

static __always_inline void nic_collect_dead(struct nic_dead *dead,
					     const struct esc_nic_local *local,
					     const struct nic_packet *p, __u64 now_ns)
{
	const struct esc_nic_peer *peer = bpf_map_lookup_elem(&nic_peers, &p->dst);

	dead->first =
		dead->first || local->flags & ESC_NIC_FIRST_DOWN || nic_is_latched(local, now_ns);
	dead->second = local->flags & ESC_NIC_SECOND_DOWN || !local->second_ifindex;
	if (!peer)
		return;
	dead->peer_first = (__s64)(peer->dead_ktime_ns - now_ns) > 0 ||
			   nic_address_is_dead(&peer->first, now_ns);
	dead->peer_second = nic_address_is_dead(&peer->second, now_ns);
}

/* Its own route, @kept's copies first. @p is a RoCEv2 packet of a protected address. */
static __always_inline int nic_send_by_choice(struct __sk_buff *skb, const struct nic_packet *p,
					      const struct esc_nic_local *local,
					      const struct nic_dead *dead,
					      const struct nic_kept *kept)
{
	struct nic_choice choice = {};

	nic_choose(p, local, dead, &choice);
	if (kept->ring)
		nic_repair_check(skb, kept, &choice);
	nic_kept_sent(kept, choice.route);
	return nic_transmit(skb, p, local, choice.route, dead->first);
}

/* The verdict, or NIC_UNDECIDED. */
static __noinline int nic_fail_over(struct __sk_buff *skb, struct esc_nic_control *ctl, bool down,
				    const struct nic_kept *kept)
{
	struct nic_dead dead = {.first = down};
	__u64 now = bpf_ktime_get_ns();
	struct esc_nic_local *local;
	struct nic_packet p;

	if (!ctl || !kept || skb->vlan_present || !nic_has_daemon(now) ||
	    !nic_parse(skb, ETH_HLEN, skb->protocol, &p) || !nic_is_roce(&p))
		return NIC_UNDECIDED;
	local = bpf_map_lookup_elem(&nic_local, &p.src);
	if (!local || !(local->flags & ESC_NIC_PAIRED) || local->first_ifindex != skb->ifindex)
		return NIC_UNDECIDED;
	if (down) {
		if (!nic_is_latched(local, now))
			ctl->changes++;
		local->seen_dead_ktime_ns = now;
		ctl->attention = 1;
	}
	nic_collect_dead(&dead, local, &p, now);
	return nic_send_by_choice(skb, &p, local, &dead, kept);
}

/* By a route of nic_write_copy(). */
static __noinline int nic_send_copy(struct __sk_buff *skb, int route)
{
	const struct esc_nic_local *local;
	struct nic_packet p;

	if (route < 0 || !nic_parse(skb, ETH_HLEN, skb->protocol, &p))
		return TC_ACT_SHOT;
	local = bpf_map_lookup_elem(&nic_local, &p.src);
	return local ? nic_transmit(skb, &p, local, route, true) : TC_ACT_SHOT;
}

/* tc egress of a NIC, behind all other programs. */
SEC("tc")
int esc_nic_out(struct __sk_buff *skb)
{
	struct esc_nic_control *ctl = nic_ctl_get();
	struct nic_kept kept = {};
	int verdict = NIC_UNDECIDED, route;
	bool down;

	if (!ctl || !(ctl->flags & ESC_NIC_ON))
		return ESC_TC_NEXT;
	if (unlikely(skb->mark == ESC_REPAIR_MARK)) {
		route = nic_write_copy(skb);
		if (route != NIC_NOT_OURS)
			return nic_send_copy(skb, route);
	}
	if (ctl->flags & ESC_NIC_REPAIR)
		nic_keep(skb, &kept);
	down = nic_device_is_down(skb);
	if (unlikely(down || ctl->attention || (kept.ring && kept.ring->path)))
		verdict = nic_fail_over(skb, ctl, down, &kept);
	if (likely(verdict == NIC_UNDECIDED)) {
		nic_kept_sent(&kept, ESC_NIC_ROUTE_DIRECT);
		return ESC_TC_NEXT;
	}
	return verdict;
}

/*
 * Not attached: the daemon runs it on the NIC of a ring's address, or on the dummy device above it
 * when the NIC is gone, with a struct esc_nic_order. Returns how many copies were sent.
 */
SEC("tc")
int esc_nic_repair(struct __sk_buff *skb)
{
	struct esc_nic_control *ctl = nic_ctl_get();
	const struct esc_nic_local *local;
	struct nic_choice choice = {};
	__u32 order[2]; /* of struct esc_nic_order */
	struct nic_packet p = {};
	struct nic_dead dead;
	struct nic_kept kept = {};

	if (!ctl || !(ctl->flags & ESC_NIC_ON) || !nic_has_daemon(bpf_ktime_get_ns()) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN, order, sizeof(order)))
		return 0;
	kept.id = order[0];
	kept.ring = nic_ring(order[0]);
	if (!kept.ring)
		return 0;
	p.src = kept.ring->key.src;
	p.dst = kept.ring->key.dst;
	local = bpf_map_lookup_elem(&nic_local, &p.src);
	if (!local || !(local->flags & ESC_NIC_PAIRED))
		return 0;
	dead.first = !local->first_ifindex || nic_device_is_down(skb);
	nic_collect_dead(&dead, local, &p, bpf_ktime_get_ns());
	nic_choose(&p, local, &dead, &choice);
	if (order[1] & ESC_NIC_ORDER_AGAIN)
		return nic_repair_again(skb, &kept, choice.route);
	return nic_repair_check(skb, &kept, &choice);
}

/*
 * Not attached: the daemon runs it on the index of a NIC. It reads the carrier from the driver
 * without a lock; user space is notified up to a second later (net/core/link_watch.c).
 */
SEC("tc")
int esc_nic_carrier(struct __sk_buff *skb)
{
	return nic_device_is_down(skb);
}

/* A packet to the address of a dummy device is delivered on that device. */
static __always_inline int nic_deliver_dummy(struct __sk_buff *skb, const struct nic_packet *p)
{
	const struct esc_nic_local *local = bpf_map_lookup_elem(&nic_local, &p->dst);

	return local && local->flags & ESC_NIC_DUMMY && local->deliver_ifindex != skb->ifindex
		       ? nic_deliver(skb, local)
		       : ESC_TC_NEXT;
}

/* False: certainly not UDP to one of our ports. By the linear part alone, for most packets. */
static __always_inline bool nic_may_be_ours(struct __sk_buff *skb, bool six, __u16 port)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const union nic_ip *ip = data + ETH_HLEN;
	const struct udphdr *udp;

	if (data + ETH_HLEN + sizeof(*ip) + sizeof(*udp) > end)
		return true;
	if ((six ? ip->v6.nexthdr : ip->v4.protocol) != IPPROTO_UDP)
		return false;
	udp = data + ETH_HLEN + (six ? sizeof(ip->v6) : sizeof(ip->v4));
	return (__u16)(bpf_ntohs(udp->dest) - port) < ESC_NIC_PORTS;
}

/* Behind decapsulation. */
static __always_inline int nic_deliver_inner(struct __sk_buff *skb, __u32 protocol,
					     struct nic_packet *p)
{
	const struct esc_nic_local *local;

	if (!nic_parse(skb, ETH_HLEN, protocol, p))
		return TC_ACT_SHOT;
	local = bpf_map_lookup_elem(&nic_local, &p->dst);
	if (!local)
		return TC_ACT_SHOT;
	nic_count_received(skb, local);
	return nic_deliver(skb, local);
}

/* tc ingress of a NIC. */
SEC("tc")
int esc_nic_in(struct __sk_buff *skb)
{
	const struct esc_nic_control *ctl = nic_ctl_get();
	__u32 protocol = skb->protocol, kind;
	struct nic_packet p;
	int verdict;

	barrier_var(protocol); /* else the compiler reads it through a modified context pointer */
	if (!ctl || skb->vlan_present)
		return ESC_TC_NEXT;
	if (likely(!(ctl->flags & ESC_NIC_HAS_DUMMY) &&
		   !nic_may_be_ours(skb, protocol == bpf_htons(ETH_P_IPV6), ctl->port)))
		return ESC_TC_NEXT;
	if (!nic_parse(skb, ETH_HLEN, protocol, &p))
		return ESC_TC_NEXT;
	kind = bpf_ntohs(p.dport) - ctl->port;
	if (unlikely(p.dport && kind < ESC_NIC_PORTS && ctl->flags & ESC_NIC_ON)) {
		verdict = nic_receive(skb, &p, kind);
		return verdict == NIC_DECAPPED ? nic_deliver_inner(skb, protocol, &p) : verdict;
	}
	return ctl->flags & ESC_NIC_HAS_DUMMY ? nic_deliver_dummy(skb, &p) : ESC_TC_NEXT;
}

/* --- a dummy device: its packets are redirected to a NIC, with or without a daemon --- */

/* The first NIC does not exist, and neither does its hook. */
static __always_inline int nic_dummy_transmit(struct __sk_buff *skb, const struct nic_packet *p,
					      const struct esc_nic_local *local, bool has_daemon)
{
	const struct esc_nic_control *ctl = nic_ctl_get();
	struct nic_dead dead = {.first = true};
	struct nic_kept kept = {};

	if (!has_daemon || !nic_is_roce(p))
		return local->second_ifindex ? nic_redirect(p, local)
					     : bpf_redirect(NIC_NO_DEVICE, 0);
	if (ctl && ctl->flags & ESC_NIC_REPAIR)
		nic_keep(skb, &kept);
	nic_collect_dead(&dead, local, p, bpf_ktime_get_ns());
	return nic_send_by_choice(skb, p, local, &dead, &kept);
}

/*
 * tc egress of a dummy device. A dead NIC has no neighbour entries any more: a RoCEv2 packet that
 * would wait for one is redirected to the NIC's hook as it is, which decides.
 */
SEC("tc")
int esc_nic_dummy(struct __sk_buff *skb)
{
	const struct esc_nic_local *local;
	struct nic_packet p;
	bool has_daemon;
	int route = NIC_NOT_OURS;
	__u64 now;

	if (unlikely(skb->mark == ESC_REPAIR_MARK))
		route = nic_write_copy(skb);
	if (unlikely(route == NIC_NO_COPY))
		return TC_ACT_SHOT;
	if (!nic_parse(skb, ETH_HLEN, skb->protocol, &p))
		return ESC_TC_NEXT;
	local = bpf_map_lookup_elem(&nic_local, &p.src);
	if (!local || !(local->flags & ESC_NIC_DUMMY))
		return ESC_TC_NEXT;
	if (unlikely(route != NIC_NOT_OURS))
		return nic_transmit(skb, &p, local, route, true);
	now = bpf_ktime_get_ns();
	has_daemon = nic_port(0) && nic_has_daemon(now);
	if (unlikely(!local->first_ifindex))
		return nic_dummy_transmit(skb, &p, local, has_daemon);
	if (likely(!has_daemon ||
		   !(local->flags & ESC_NIC_FIRST_DOWN || nic_is_latched(local, now))))
		return nic_send(local->first_ifindex, p.version, &local->first_hop, &p.dst);
	if (nic_is_roce(&p))
		return bpf_redirect(local->first_ifindex, 0);
	return local->second_ifindex ? nic_redirect(&p, local) : bpf_redirect(NIC_NO_DEVICE, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

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
#include "nic/retain.bpf.h"

#include <bpf/bpf_core_read.h>

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;

struct net_device___core {
	unsigned long state;
	unsigned int flags;
} __attribute__((preserve_access_index));

struct sk_buff___core {
	struct net_device___core *dev;
} __attribute__((preserve_access_index));

#define IFF_UP 0x1u /* include/uapi/linux/if.h */

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

static __noinline int nic_fail_over(struct __sk_buff *skb, struct esc_nic_control *ctl, bool down)
{
	struct nic_dead dead = {.first = down};
	__u64 now = bpf_ktime_get_ns();
	struct esc_nic_local *local;
	struct nic_packet p;

	if (!ctl || skb->vlan_present || !nic_has_daemon(now) ||
	    !nic_parse(skb, ETH_HLEN, skb->protocol, &p) || !nic_is_roce(&p))
		return ESC_TC_NEXT;
	local = bpf_map_lookup_elem(&nic_local, &p.src);
	if (!local || !(local->flags & ESC_NIC_PAIRED) || local->first_ifindex != skb->ifindex)
		return ESC_TC_NEXT;
	if (down) {
		if (!nic_is_latched(local, now))
			ctl->changes++;
		local->seen_dead_ktime_ns = now;
		ctl->attention = 1;
	}
	nic_collect_dead(&dead, local, &p, now);
	return nic_transmit(skb, &p, local, &dead);
}

/* tc egress of a NIC, behind all other programs. */
SEC("tc")
int esc_nic_out(struct __sk_buff *skb)
{
	struct esc_nic_control *ctl = nic_ctl_get();
	enum nic_copy copy;
	__be32 qpn = 0;
	bool down;

	if (!ctl || !(ctl->flags & ESC_NIC_ON))
		return ESC_TC_NEXT;
	copy = ctl->flags & ESC_NIC_RETAIN ? nic_select_copy(skb, &qpn) : NIC_COPY_NONE;
	if (copy != NIC_COPY_NONE)
		nic_retain(skb, copy, qpn);
	down = nic_device_is_down(skb);
	if (likely(!down && !ctl->attention))
		return ESC_TC_NEXT;
	return nic_fail_over(skb, ctl, down);
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
	struct nic_dead dead = {.first = true};

	if (!has_daemon || !nic_is_roce(p))
		return local->second_ifindex ? nic_redirect(p, local)
					     : bpf_redirect(NIC_NO_DEVICE, 0);
	nic_collect_dead(&dead, local, p, bpf_ktime_get_ns());
	return nic_transmit(skb, p, local, &dead);
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
	__u64 now;

	if (!nic_parse(skb, ETH_HLEN, skb->protocol, &p))
		return ESC_TC_NEXT;
	local = bpf_map_lookup_elem(&nic_local, &p.src);
	if (!local || !(local->flags & ESC_NIC_DUMMY))
		return ESC_TC_NEXT;
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

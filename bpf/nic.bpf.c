// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * NIC failover: an object of its own, on the NICs of a pair and on the dummy device that
 * stands on one. Behind the programs that count and steer.
 */
#include "nic/count.bpf.h"
#include "nic/retain.bpf.h"
#include "nic/egress.bpf.h"
#include "nic/ingress.bpf.h"

#include <bpf/bpf_core_read.h>

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;

#define NIC_IFF_UP 0x1u

/* As the driver has it at this moment. */
static __always_inline bool nic_device_is_dead(struct __sk_buff *skb)
{
	const struct sk_buff *kernel = bpf_cast_to_kern_ctx(skb);
	const struct net_device *device = kernel->dev;

	return device->state &
		       1ul << bpf_core_enum_value(enum netdev_state_t, __LINK_STATE_NOCARRIER) ||
	       !(device->flags & NIC_IFF_UP);
}

static __always_inline bool nic_latched(const struct esc_nic_home *home, __u64 now_ns)
{
	return home->seen_dead_ktime_ns &&
	       (__s64)(now_ns - home->seen_dead_ktime_ns) < (__s64)ESC_NIC_LATCH_NS;
}

static __always_inline void nic_look(struct nic_ends *ends, const struct esc_nic_home *home,
				     const struct nic_packet *p, __u64 now_ns)
{
	const struct esc_nic_peer *peer = bpf_map_lookup_elem(&nic_peers, &pkt->dst);

	ends->first_dead =
		ends->first_dead || home->flags & ESC_NIC_FIRST_DOWN || nic_latched(home, now_ns);
	ends->second_dead = home->flags & ESC_NIC_SECOND_DOWN || !home->second_ifindex;
	if (!peer)
		return;
	ends->peer_first_dead = (__s64)(peer->dead_ktime_ns - now_ns) > 0 ||
				nic_peer_says_dead(&peer->first, now_ns);
	ends->peer_second_dead = nic_peer_says_dead(&peer->second, now_ns);
}

static __noinline int nic_consider(struct __sk_buff *skb, struct esc_nic_word *word, bool dead)
{
	struct nic_ends ends = {.first_dead = dead};
	__u64 now = bpf_ktime_get_ns();
	struct esc_nic_home *home;
	struct nic_packet p;

	if (!word || skb->vlan_present || !nic_is_led(now) ||
	    !nic_read(skb, ETH_HLEN, skb->protocol, &p) || !nic_is_roce(&p))
		return ESC_TC_NEXT;
	home = bpf_map_lookup_elem(&nic_homes, &p.src);
	if (!home || !(home->flags & ESC_NIC_PAIRED) || home->first_ifindex != skb->ifindex)
		return ESC_TC_NEXT;
	if (dead) {
		if (!nic_latched(home, now))
			word->changes++;
		home->seen_dead_ktime_ns = now;
		word->attention = 1;
	}
	nic_look(&ends, home, &p, now);
	return nic_leave(skb, &p, home, &ends);
}

/* tc egress of a NIC, last of all. */
SEC("tc")
int esc_nic_out(struct __sk_buff *skb)
{
	struct esc_nic_word *word = nic_word_get();
	enum nic_keep keep;
	__be32 qpn = 0;
	bool dead;

	if (!word || !(word->flags & ESC_NIC_ON))
		return ESC_TC_NEXT;
	keep = word->flags & ESC_NIC_KEEPS ? nic_what_to_keep(skb, &qpn) : NIC_KEEP_NOTHING;
	if (keep != NIC_KEEP_NOTHING)
		nic_keep(skb, keep, qpn);
	dead = nic_device_is_dead(skb);
	if (likely(!dead && !word->attention))
		return ESC_TC_NEXT;
	return nic_consider(skb, word, dead);
}

/*
 * Not attached: the daemon runs it on a NIC. The carrier as the driver has it, without a lock;
 * what user space is told of it may come a second later (net/core/link_watch.c).
 */
SEC("tc")
int esc_nic_look(struct __sk_buff *skb)
{
	return nic_device_is_dead(skb);
}

/* A packet to an address of a dummy device is that device's. */
static __always_inline int nic_to_dummy(struct __sk_buff *skb, const struct nic_packet *p)
{
	const struct esc_nic_home *home = bpf_map_lookup_elem(&nic_homes, &pkt->dst);

	return home && home->flags & ESC_NIC_DUMMY && home->deliver_ifindex != skb->ifindex
		       ? nic_deliver(skb, home)
		       : ESC_TC_NEXT;
}

/* False: surely no UDP to one of our ports. A look at what is linear, for the many. */
static __always_inline bool nic_may_be_ours(struct __sk_buff *skb, bool six, __u16 port)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const union nic_ip *ip = data + ETH_HLEN;
	const struct udphdr *udp;

	if (data + ETH_HLEN + sizeof(*ip) + sizeof(*udp) > end)
		return true;
	if ((six ? ip->v6.next : ip->v4.protocol) != IPPROTO_UDP)
		return false;
	udp = data + ETH_HLEN + (six ? sizeof(ip->v6) : sizeof(ip->v4));
	return (__u16)(bpf_ntohs(udp->dst) - port) < ESC_NIC_PORTS;
}

/* What came in UDP, and was taken out. */
static __always_inline int nic_hand_up(struct __sk_buff *skb, __u32 protocol, struct nic_packet *p)
{
	const struct esc_nic_home *home;

	if (!nic_read(skb, ETH_HLEN, protocol, p))
		return TC_ACT_SHOT;
	home = bpf_map_lookup_elem(&nic_homes, &pkt->dst);
	if (!home)
		return TC_ACT_SHOT;
	nic_count_received(skb, home);
	return nic_deliver(skb, home);
}

/* tc ingress of a NIC. */
SEC("tc")
int esc_nic_in(struct __sk_buff *skb)
{
	const struct esc_nic_word *word = nic_word_get();
	__u32 protocol = skb->protocol, kind;
	struct nic_packet p;
	int verdict;

	barrier_var(protocol); /* else the compiler reads it through a changed context */
	if (!word || skb->vlan_present)
		return ESC_TC_NEXT;
	if (likely(!(word->flags & ESC_NIC_HAS_DUMMY) &&
		   !nic_may_be_ours(skb, protocol == bpf_htons(ETH_P_IPV6), word->port)))
		return ESC_TC_NEXT;
	if (!nic_read(skb, ETH_HLEN, protocol, &p))
		return ESC_TC_NEXT;
	kind = bpf_ntohs(p.dport) - word->port;
	if (unlikely(p.dport && kind < ESC_NIC_PORTS && word->flags & ESC_NIC_ON)) {
		verdict = nic_take(skb, &p, kind);
		return verdict == NIC_UNWRAPPED ? nic_hand_up(skb, protocol, &p) : verdict;
	}
	return word->flags & ESC_NIC_HAS_DUMMY ? nic_to_dummy(skb, &p) : ESC_TC_NEXT;
}

/* --- a dummy device: everything that leaves it goes to a NIC, daemon or not --- */

/* The first NIC is gone, and its hook with it. */
static __always_inline int nic_dummy_leave(struct __sk_buff *skb, const struct nic_packet *p,
					   const struct esc_nic_home *home, bool led)
{
	struct nic_ends ends = {.first_dead = true};

	if (!led || !nic_is_roce(p) || !nic_port(0))
		return home->second_ifindex ? nic_redirect(p, home) : bpf_redirect(NIC_NOWHERE, 0);
	nic_look(&ends, home, p, bpf_ktime_get_ns());
	return nic_leave(skb, p, home, &ends);
}

/*
 * tc egress of a dummy device. A NIC that is dead has no neighbours any more: what would wait for
 * one is given to the NIC's hook as it is, which decides.
 */
SEC("tc")
int esc_nic_dummy(struct __sk_buff *skb)
{
	const struct esc_nic_home *home;
	struct nic_packet p;
	__u64 now;
	bool led;

	if (!nic_read(skb, ETH_HLEN, skb->protocol, &p))
		return ESC_TC_NEXT;
	home = bpf_map_lookup_elem(&nic_homes, &p.src);
	if (!home || !(home->flags & ESC_NIC_DUMMY))
		return ESC_TC_NEXT;
	now = bpf_ktime_get_ns();
	led = nic_is_led(now);
	if (unlikely(!home->first_ifindex))
		return nic_dummy_leave(skb, &p, home, led);
	if (likely(!led || !(home->flags & ESC_NIC_FIRST_DOWN || nic_latched(home, now))))
		return nic_send(home->first_ifindex, p.version, &home->first_hop, &p.dst);
	if (nic_is_roce(&p))
		return bpf_redirect(home->first_ifindex, 0);
	return home->second_ifindex ? nic_redirect(&p, home) : bpf_redirect(NIC_NOWHERE, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

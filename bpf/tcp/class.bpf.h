/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The class of a connection: by its ports, its DSCP and the cgroup of its socket. */
#ifndef ESC_BPF_TCP_CLASS_H
#define ESC_BPF_TCP_CLASS_H

#include "tcp/tcp.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

/* include/linux/socket.h */
#define TCP_CLASS_INET6 10

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ESC_TCP_CGROUPS);
	__type(key, __u64);
	__type(value, __u32);
} tcp_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ESC_TCP_CLASSES);
	__type(key, __u32);
	__type(value, struct esc_tcp_class_counts);
} tcp_classes SEC(".maps");

/* Properties that determine the class. */
struct tcp_class_facts {
	__u16 local_port, remote_port;
	__u8 dscp;
	__u32 cgroup_bits;
};

static __always_inline void tcp_class_facts(struct bpf_sock *sk, struct tcp_class_facts *facts)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct inet_sock *inet = (struct inet_sock *)tp;
	__u64 cgroup;
	__u32 *bits;

	__builtin_memset(facts, 0, sizeof(*facts));
	if (!tp)
		return;
	facts->local_port = inet->sk.__sk_common.skc_num;
	facts->remote_port = bpf_ntohs(inet->sk.__sk_common.skc_dport);
	facts->dscp = inet->tos >> 2;
	/* IPV6_TCLASS; IP_TOS is for IPv4 packets. */
	if (inet->sk.__sk_common.skc_family == TCP_CLASS_INET6 && inet->pinet6 &&
	    inet->pinet6->tclass)
		facts->dscp = inet->pinet6->tclass >> 2;
	cgroup = BPF_CORE_READ(inet, sk.sk_cgrp_data.cgroup, kn, id);
	bits = bpf_map_lookup_elem(&tcp_cgroups, &cgroup);
	if (bits)
		facts->cgroup_bits = *bits;
}

static __always_inline bool tcp_class_port(const struct esc_tcp_class *class, __u16 port)
{
	return port >= class->port_first && port <= class->port_last;
}

static __always_inline bool tcp_class_fits(const struct esc_tcp_class *class, __u32 index,
					   const struct tcp_class_facts *facts)
{
	if (!class->dscps && !class->port_first && !class->by_cgroup)
		return false;
	if (class->dscps && !(class->dscps >> (facts->dscp & 63) & 1))
		return false;
	if (class->by_cgroup && !(facts->cgroup_bits >> index & 1))
		return false;
	return !class->port_first || tcp_class_port(class, facts->local_port) ||
	       tcp_class_port(class, facts->remote_port);
}

/* Updates class, threshold and weight of the flow, at its start and every ESC_TCP_CLASS_NS. */
static __always_inline void tcp_class_update(struct bpf_sock *sk, struct esc_tcp_flow *flow,
					     const struct esc_tcp_control *setup, __u64 now_ns)
{
	struct tcp_class_facts facts;
	__u32 class = 0;

	if (flow->class_ktime_ns && now_ns - flow->class_ktime_ns < ESC_TCP_CLASS_NS)
		return;
	flow->class_ktime_ns = now_ns;
	if (setup->class_count > 1) {
		tcp_class_facts(sk, &facts);
		for (__u32 i = ESC_TCP_CLASSES - 1; i > 0; i--)
			if (i < setup->class_count && tcp_class_fits(&setup->classes[i], i, &facts))
				class = i;
	}
	flow->class = class;
	flow->weight = setup->classes[class].weight;
	flow->threshold_ns = setup->classes[class].threshold_ns;
}

static __always_inline void tcp_class_count(__u32 class, bool above)
{
	struct esc_tcp_class_counts *counts = bpf_map_lookup_elem(&tcp_classes, &class);

	if (!counts)
		return;
	counts->samples++;
	counts->above += above;
}

#endif

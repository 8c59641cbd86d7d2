/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What makes a leaf's host port reply as a switch's port does. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define TC_ACT_UNSPEC (-1)

/*
 * A veth's XDP_TX is only taken by a peer that has a native XDP program, any
 * (drivers/net/veth.c, veth_xdp_xmit). Multi-buffer, so that jumbo frames pass.
 */
SEC("xdp.frags")
int leaf_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/*
 * fib_multipath_hash_policy 1 takes skb->hash when the sender's stack left one
 * (fib_multipath_hash). A switch sees the packet alone: forget the hash.
 */
SEC("tc")
int leaf_rehash(struct __sk_buff *skb)
{
	bpf_set_hash_invalid(skb);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

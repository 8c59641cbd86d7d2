/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A link of the lab that loses a part of all packets: the minor number of the filter's classid. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define TC_ACT_UNSPEC (-1)
#define TC_ACT_SHOT 2
#define ALL 0xffff

SEC("tc")
int loss(struct __sk_buff *skb)
{
	__u32 part = skb->tc_classid & ALL;

	return part == ALL || (bpf_get_prandom_u32() & ALL) < part ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

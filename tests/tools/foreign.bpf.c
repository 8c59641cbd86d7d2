/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Another program's programs, for the tests: each counts the packets it sees. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define TC_ACT_UNSPEC (-1)
#define FOREIGN_XDP 0
#define FOREIGN_TC 1

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} foreign_count SEC(".maps");

static __always_inline void count(__u32 which)
{
	__u64 *packets = bpf_map_lookup_elem(&foreign_count, &which);

	if (packets)
		__sync_fetch_and_add(packets, 1);
}

SEC("xdp.frags")
int foreign_xdp(struct xdp_md *ctx)
{
	count(FOREIGN_XDP);
	return XDP_PASS;
}

SEC("tc")
int foreign_tc(struct __sk_buff *skb)
{
	count(FOREIGN_TC);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

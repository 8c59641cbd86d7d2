/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Links that lose: one in a hundred of all that goes to the RoCEv2 port; SYNs with an option. */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TC_ACT_UNSPEC (-1)
#define TC_ACT_SHOT 2
#define ETHERNET_BYTES 14
#define ROCE_PORT 4791
#define ONE_IN 100

/* By opcode. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} lossy_dropped SEC(".maps");

SEC("tc")
int lossy(struct __sk_buff *skb)
{
	__u32 at = ETHERNET_BYTES, opcode;
	__u64 *dropped;
	__u16 dport;
	__u8 byte;

	if (bpf_skb_load_bytes(skb, at, &byte, 1))
		return TC_ACT_UNSPEC;
	at += byte >> 4 == 6 ? 40 : 20;
	if (bpf_skb_load_bytes(skb, ETHERNET_BYTES + (byte >> 4 == 6 ? 6 : 9), &byte, 1) ||
	    byte != IPPROTO_UDP || bpf_skb_load_bytes(skb, at + 2, &dport, 2) ||
	    dport != bpf_htons(ROCE_PORT) || bpf_skb_load_bytes(skb, at + 8, &byte, 1))
		return TC_ACT_UNSPEC;
	if (bpf_get_prandom_u32() % ONE_IN)
		return TC_ACT_UNSPEC;
	opcode = byte;
	dropped = bpf_map_lookup_elem(&lossy_dropped, &opcode);
	if (dropped)
		__sync_fetch_and_add(dropped, 1);
	return TC_ACT_SHOT;
}

/* A middlebox that drops SYNs with an option of kind 254. */
SEC("tc")
int optionless(struct __sk_buff *skb)
{
	__u32 at = ETHERNET_BYTES + 20, end;
	__u8 byte, kind, length;

	if (bpf_skb_load_bytes(skb, ETHERNET_BYTES + 9, &byte, 1) || byte != IPPROTO_TCP ||
	    bpf_skb_load_bytes(skb, at + 13, &byte, 1) || !(byte & 2) ||
	    bpf_skb_load_bytes(skb, at + 12, &byte, 1))
		return TC_ACT_UNSPEC;
	end = at + (byte >> 4) * 4;
	at += 20;
	for (int i = 0; i < 40 && at < end; i++) {
		if (bpf_skb_load_bytes(skb, at, &kind, 1) || !kind)
			break;
		if (kind == 254)
			return TC_ACT_SHOT;
		if (kind == 1) {
			at++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, at + 1, &length, 1) || length < 2)
			break;
		at += length;
	}
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lets a test call the law of pacing/pause.h as the kernel's verifier and compiler have it. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "pacing/pause.h"

/* As in test_pause.c. */
struct pause_case {
	struct pause_rule rule;
	struct pause_flow flow;
	struct pause_mark mark;
	__u64 now_ns, departure_ns, result;
	__s64 delay_ns;
	__u32 bytes, again;
};

struct pause_case asked = {};

SEC("tc")
int pause_departs(struct __sk_buff *skb)
{
	pause_repeat(&asked.flow, &asked.rule, asked.again, asked.now_ns);
	asked.result =
		pause_depart(&asked.flow, &asked.rule, asked.bytes, asked.now_ns, &asked.mark);
	return 0;
}

SEC("xdp.frags")
int pause_samples(struct xdp_md *xdp)
{
	asked.result = pause_sample(&asked.flow, &asked.rule, &asked.mark, asked.departure_ns,
				    asked.delay_ns, asked.now_ns);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

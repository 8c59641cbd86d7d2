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

struct pause_case requested = {};

SEC("tc")
int pause_departs(struct __sk_buff *skb)
{
	pause_repeat(&requested.flow, &requested.rule, requested.again, requested.now_ns);
	requested.result = pause_depart(&requested.flow, &requested.rule, requested.bytes,
					requested.now_ns, &requested.mark);
	return 0;
}

SEC("xdp.frags")
int pause_samples(struct xdp_md *xdp)
{
	requested.result =
		pause_sample(&requested.flow, &requested.rule, &requested.mark,
			     requested.departure_ns, requested.delay_ns, requested.now_ns);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

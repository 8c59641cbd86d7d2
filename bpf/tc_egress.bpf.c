// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Everything that leaves through the interface, before its qdisc. */
#include "tc.bpf.h"

SEC("tc")
int esc_tc_out(struct __sk_buff *skb)
{
	const struct esc_control *word = esc_control_get();

	if (word)
		tc_count(skb, word, ESC_HOOK_TC_EGRESS);
	return ESC_TC_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What comes in, where XDP is not to be had. */
#include "tc.bpf.h"

SEC("tc")
int esc_tc_in(struct __sk_buff *skb)
{
	const struct esc_control *word;

	if (!esc_rx_in_tc)
		return ESC_TC_NEXT;
	word = esc_control_get();
	if (word)
		tc_count(skb, word, ESC_HOOK_TC_INGRESS);
	return ESC_TC_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

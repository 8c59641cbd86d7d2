/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The two tc hooks: an skb may keep its headers outside of the linear part. */
#ifndef ESC_BPF_TC_H
#define ESC_BPF_TC_H

#include "hook.bpf.h"

#define ESC_TC_NEXT (-1) /* TC_ACT_UNSPEC for clsact, TCX_NEXT for tcx */

/* Room for every header that is walked, with options and extension headers of common size. */
#define ESC_TC_PULL_BYTES 512

static __always_inline int tc_parse(struct __sk_buff *skb, struct esc_packet *p)
{
	struct esc_cursor cursor = {
		.context = skb,
		.skb = true,
		.start = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.at = (void *)(long)skb->data,
	};

	return esc_parse(&cursor, p);
}

/* Once more, with the headers pulled into the linear part. */
static __noinline int tc_count_pulled(struct __sk_buff *skb, const struct esc_control *word,
				      enum esc_hook hook)
{
	struct esc_packet packet;
	__u32 bytes = skb->len < ESC_TC_PULL_BYTES ? skb->len : ESC_TC_PULL_BYTES;
	int result = ESC_REASON_UNREADABLE;

	if (!word)
		return 0;
	if (!bpf_skb_pull_data(skb, bytes))
		result = tc_parse(skb, &packet);
	hook_count(result, &packet, word, hook);
	return 0;
}

static __always_inline void tc_count(struct __sk_buff *skb, const struct esc_control *word,
				     enum esc_hook hook)
{
	struct esc_packet packet;
	int result = tc_parse(skb, &packet);

	if (unlikely(result == ESC_REASON_UNREADABLE))
		tc_count_pulled(skb, word, hook);
	else
		hook_count(result, &packet, word, hook);
}

#endif

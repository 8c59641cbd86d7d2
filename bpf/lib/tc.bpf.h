/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The two tc hooks: an skb may keep its headers outside of the linear part. */
#ifndef ESC_BPF_LIB_TC_H
#define ESC_BPF_LIB_TC_H

#include "lib/hook.bpf.h"

#define ESC_TC_NEXT (-1) /* TC_ACT_UNSPEC for clsact, TCX_NEXT for tcx */
#define TC_ACT_SHOT 2

/* Room for every header that is walked, with options and extension headers of common size. */
#define ESC_TC_PULL_BYTES 512

static __always_inline int tc_parse(struct __sk_buff *skb, struct esc_packet *p, bool thorough)
{
	struct esc_cursor cursor = {
		.context = skb,
		.skb = true,
		.thorough = thorough,
		.start = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.at = (void *)(long)skb->data,
	};

	return esc_parse(&cursor, p);
}

/* Pulls the headers into the linear part only when it is they that are not there. */
static __noinline int tc_parse_thoroughly(struct __sk_buff *skb, struct esc_packet *p)
{
	__u32 bytes = skb->len < ESC_TC_PULL_BYTES ? skb->len : ESC_TC_PULL_BYTES;
	int result = tc_parse(skb, p, true);

	if (result != ESC_REASON_UNREADABLE || bpf_skb_pull_data(skb, bytes))
		return result;
	return tc_parse(skb, p, true);
}

/* What the frame is, as esc_parse() says. */
static __always_inline int tc_read(struct __sk_buff *skb, struct esc_packet *p)
{
	int result = tc_parse(skb, p, false);

	return unlikely(result == ESC_PARSE_SLOW) ? tc_parse_thoroughly(skb, p) : result;
}

#endif

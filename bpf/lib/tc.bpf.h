/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parse stage of the tc hooks: an skb may keep its headers outside of the linear part. */
#ifndef ESC_BPF_LIB_TC_H
#define ESC_BPF_LIB_TC_H

#include "lib/parse.bpf.h"

#define ESC_TC_NEXT (-1) /* TC_ACT_UNSPEC for clsact, TCX_NEXT for tcx */

/* Room for every header that is walked, with options and extension headers of common size. */
#define TC_PULL_BYTES 512

static __always_inline int tc_parse_with(struct __sk_buff *skb, struct pkt_ctx *pkt, bool thorough)
{
	struct cursor cursor = {
		.context = skb,
		.skb = true,
		.thorough = thorough,
		.start = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.at = (void *)(long)skb->data,
	};

	return parse_packet(&cursor, pkt);
}

/* Pulls the headers into the linear part only where the parser missed them. */
static __noinline int tc_parse_slow(struct __sk_buff *skb, struct pkt_ctx *pkt)
{
	__u32 bytes = skb->len < TC_PULL_BYTES ? skb->len : TC_PULL_BYTES;
	int result = tc_parse_with(skb, pkt, true);

	if (result != ESC_REASON_UNREADABLE || bpf_skb_pull_data(skb, bytes))
		return result;
	return tc_parse_with(skb, pkt, true);
}

static __always_inline int tc_parse(struct __sk_buff *skb, struct pkt_ctx *pkt)
{
	int result = tc_parse_with(skb, pkt, false);

	return unlikely(result == PKT_SLOW) ? tc_parse_slow(skb, pkt) : result;
}

#endif

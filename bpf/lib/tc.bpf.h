/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parse stage of the tc hooks: an skb may keep its headers outside of the linear part. */
#ifndef ESC_BPF_LIB_TC_H
#define ESC_BPF_LIB_TC_H

#include "lib/parse.bpf.h"

#include <bpf/bpf_core_read.h>

/* What follows is ABI, but absent from kernels before 5.18. */
struct __sk_buff___typed {
	__u8 tstamp_type;
} __attribute__((preserve_access_index));
#define TC_HAS_TSTAMP_TYPE bpf_core_field_exists(((struct __sk_buff___typed *)0)->tstamp_type)

#define ESC_TC_NEXT (-1) /* TC_ACT_UNSPEC for clsact, TCX_NEXT for tcx */

/* Covers all parsed headers, with options and extension headers of common size. */
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

#define TC_DEPARTURE_UNKNOWN (~0ull)

/*
 * The time by which fq releases the packet. A socket may have set one of CLOCK_TAI (SO_TXTIME, for
 * the qdisc etf): its number says nothing in our clock, whatever it is. Without a type it is a
 * departure of a program, or one of CLOCK_REALTIME, which is far ahead.
 */
static __always_inline __u64 tc_departure(const struct __sk_buff *skb)
{
	__u64 tstamp = skb->tstamp;

	if (likely(!tstamp))
		return 0;
	if (TC_HAS_TSTAMP_TYPE && skb->tstamp_type > BPF_SKB_TSTAMP_DELIVERY_MONO)
		return TC_DEPARTURE_UNKNOWN;
	return tstamp;
}

/* With its type: else it is an rx timestamp for a kernel that forwards the packet. */
static __always_inline void tc_set_departure(struct __sk_buff *skb, __u64 at_ns)
{
	if (!TC_HAS_TSTAMP_TYPE || bpf_skb_set_tstamp(skb, at_ns, BPF_SKB_TSTAMP_DELIVERY_MONO))
		skb->tstamp = at_ns;
}

#endif

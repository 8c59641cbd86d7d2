// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The feeders of the probes' benchmark. PROG_TEST_RUN sends the same bytes
 * each time and a probe is replied to once, in place: so each packet is written
 * anew from a template, with the next sequence and its tag, and handed to the
 * program under test. Their own cost is measured with an empty program behind.
 */
#include "lib/siphash.bpf.h"

#define BTH 42
#define FRAME_BYTES (BTH + ESC_PROBE_DATAGRAM_BYTES) /* Ethernet, IPv4, UDP, a probe */
#define SIGNED_BYTES (sizeof(struct esc_bth) + offsetof(struct esc_probe, tag))
#define SIGNED_WORDS (SIGNED_BYTES / 4)

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} next_xdp SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} next_tc SEC(".maps");

struct feed {
	__u8 frame[240];
	__u64 key[2];
	__u32 sequence;
	__u32 moves; /* the sequence goes on, and the tag with it */
};

struct feed feed = {};

SEC("xdp.frags")
int feed_probe_xdp(struct xdp_md *xdp)
{
	__u64 *to = (void *)(long)xdp->data;
	const __u64 *from = (const __u64 *)feed.frame;
	__u32 *bth = (void *)(long)xdp->data + BTH;
	struct esc_siphash h;
	__u64 tag;
	int i;

	if ((void *)to + FRAME_BYTES > (void *)(long)xdp->data_end)
		return XDP_ABORTED;
#pragma unroll
	for (i = 0; i < FRAME_BYTES / 8; i++)
		to[i] = from[i];
	*(__u16 *)(to + FRAME_BYTES / 8) = *(const __u16 *)(from + FRAME_BYTES / 8);
	if (feed.moves) {
		bth[13] = __builtin_bswap32(feed.sequence++);
		siphash_start(&h, feed.key);
		siphash_words(&h, bth, SIGNED_WORDS / 2);
		tag = siphash_end(&h, bth[SIGNED_WORDS - 1] | (__u64)SIGNED_BYTES << 56);
		*(__u64 *)(bth + SIGNED_WORDS) = tag;
	}
	bpf_tail_call(xdp, &next_xdp, 0);
	return XDP_ABORTED;
}

SEC("tc")
int feed_probe_tc(struct __sk_buff *skb)
{
	skb->mark = ESC_PROBE_MARK;
	bpf_tail_call(skb, &next_tc, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

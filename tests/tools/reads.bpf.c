// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lets a test call what no hook exposes: fabric time, and SipHash over any words. */
#include "lib/clock.bpf.h"
#include "lib/siphash.bpf.h"

struct reads_question {
	__s64 local_ns;
	__u64 key[2];
	__u64 words[17];
	__u64 last;
	__u32 word_count;
	__u32 pad;
};

struct reads_result {
	__s64 fabric_ns;
	__s64 bound_ns;
	__u64 tag;
	__u32 state;
	__u32 there; /* is fabric time */
};

struct reads_question question = {};
struct reads_result result = {};

SEC("tc")
int read_clock(struct __sk_buff *skb)
{
	struct esc_fabric_time time = {};

	result.there = esc_fabric_at(question.local_ns, &time);
	result.fabric_ns = time.fabric_ns;
	result.bound_ns = time.bound_ns;
	result.state = time.state;
	return 0;
}

/* The same in the other hook, of the present. */
SEC("xdp.frags")
int read_clock_now(struct xdp_md *xdp)
{
	struct esc_fabric_time time = {};

	result.there = esc_fabric_at(esc_local_now(), &time);
	result.fabric_ns = time.fabric_ns;
	result.bound_ns = time.bound_ns;
	return XDP_PASS;
}

SEC("tc")
int hash_words(struct __sk_buff *skb)
{
	struct esc_siphash h;
	__u32 count = question.word_count;

	siphash_start(&h, question.key);
	if (count > 17)
		return 0;
	siphash_words(&h, (const __u32 *)question.words, count);
	result.tag = siphash_end(&h, question.last);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SipHash-2-4 (Aumasson and Bernstein, 2012) in steps, so that the timestamp at the end of the
 * input can be taken late. One rolled loop in a function of its own: probes are rare, so its code
 * is cold, and then short code is faster.
 */
#ifndef ESC_BPF_LIB_SIPHASH_H
#define ESC_BPF_LIB_SIPHASH_H

#include "lib/maps.bpf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "SipHash reads little-endian words");

struct esc_siphash {
	__u64 v0, v1, v2, v3;
};

#define siphash_rotate(x, n) (((x) << (n)) | ((x) >> (64 - (n))))

#define siphash_round(v0, v1, v2, v3)                                                              \
	do {                                                                                       \
		v0 += v1;                                                                          \
		v2 += v3;                                                                          \
		v1 = siphash_rotate(v1, 13) ^ v0;                                                  \
		v3 = siphash_rotate(v3, 16) ^ v2;                                                  \
		v0 = siphash_rotate(v0, 32) + v3;                                                  \
		v2 += v1;                                                                          \
		v3 = siphash_rotate(v3, 21) ^ v0;                                                  \
		v1 = siphash_rotate(v1, 17) ^ v2;                                                  \
		v2 = siphash_rotate(v2, 32);                                                       \
	} while (0)

static __always_inline void siphash_start(struct esc_siphash *h, const __u64 key[2])
{
	h->v0 = key[0] ^ 0x736f6d6570736575ull;
	h->v1 = key[1] ^ 0x646f72616e646f6dull;
	h->v2 = key[0] ^ 0x6c7967656e657261ull;
	h->v3 = key[1] ^ 0x7465646279746573ull;
}

/*
 * Adds @words of eight bytes at @at. They are read in halves: the fields of a probe cross word
 * boundaries, and a load that spans two fresh stores stalls.
 */
static __noinline int siphash_words(struct esc_siphash *h, const __u32 *at, __u32 words)
{
	__u64 v0 = h->v0, v1 = h->v1, v2 = h->v2, v3 = h->v3, word;
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < words; i++) {
		barrier_var(i);
		word = at[0] | (__u64)at[1] << 32;
		at += 2;
		v3 ^= word;
		siphash_round(v0, v1, v2, v3);
		siphash_round(v0, v1, v2, v3);
		v0 ^= word;
	}
	h->v0 = v0;
	h->v1 = v1;
	h->v2 = v2;
	h->v3 = v3;
	return 0;
}

/* @last: the bytes that fill no word, and the count of all bytes in the top byte. */
static __noinline __u64 siphash_end(const struct esc_siphash *h, __u64 last)
{
	__u64 v0 = h->v0, v1 = h->v1, v2 = h->v2, v3 = h->v3 ^ last;
	__u32 i;

	siphash_round(v0, v1, v2, v3);
	siphash_round(v0, v1, v2, v3);
	v0 ^= last;
	v2 ^= 0xff;
#pragma clang loop unroll(disable)
	for (i = 0; i < 4; i++) {
		barrier_var(i);
		siphash_round(v0, v1, v2, v3);
	}
	return v0 ^ v1 ^ v2 ^ v3;
}

#endif

// SPDX-License-Identifier: BSD-2-Clause
#include "siphash.h"

#include <endian.h>
#include <string.h>

static uint64_t rotate(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

uint64_t siphash(const __u64 key[2], const void *input, size_t words)
{
	uint64_t v[4] = {key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull,
			 key[0] ^ 0x6c7967656e657261ull, key[1] ^ 0x7465646279746573ull};

	for (size_t i = 0; i <= words; i++) {
		uint64_t word = (uint64_t)words * 8 << 56;

		if (i < words) {
			memcpy(&word, (const char *)input + 8 * i, sizeof(word));
			word = le64toh(word);
		}
		v[3] ^= word;
		sip_round(v);
		sip_round(v);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

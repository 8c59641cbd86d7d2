/* SPDX-License-Identifier: BSD-2-Clause */
/* SipHash-2-4 (Aumasson and Bernstein, 2012), as bpf/lib/siphash.bpf.h has it for the programs. */
#ifndef ESC_LOADER_SIPHASH_H
#define ESC_LOADER_SIPHASH_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>

/* Of @words little-endian words at @input; @key: k0 and k1. */
uint64_t siphash(const __u64 key[2], const void *input, size_t words);

#endif

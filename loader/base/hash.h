/* SPDX-License-Identifier: BSD-2-Clause */
/* FNV-1a (draft-eastlake-fnv): for tables and digests of trusted bytes. */
#ifndef ESC_BASE_HASH_H
#define ESC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_FIRST 0xcbf29ce484222325ull

/* Of @count bytes behind those that gave @hash; HASH_FIRST: there are none. */
static inline uint64_t hash_add(uint64_t hash, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ull;
	return hash;
}

#endif

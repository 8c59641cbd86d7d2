/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrapping sums of nanoseconds: no undefined behaviour for any value of a neighbour. */
#ifndef ESC_CLOCKSYNC_NS_H
#define ESC_CLOCKSYNC_NS_H

#include <stdint.h>

static inline int64_t ns_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t ns_sub(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of nanoseconds that wrap: a neighbour may say anything, and that must be defined. */
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

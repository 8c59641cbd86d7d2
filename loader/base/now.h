/* SPDX-License-Identifier: BSD-2-Clause */
/* The time now, in nanoseconds. */
#ifndef ESC_BASE_NOW_H
#define ESC_BASE_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* CLOCK_MONOTONIC: what the kernel programs read, and what all timeouts are of. */
static inline uint64_t time_local_ns(void)
{
	return now_clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t time_realtime_ns(void)
{
	return now_clock_ns(CLOCK_REALTIME);
}

#endif

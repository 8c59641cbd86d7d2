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

/*
 * For how long the machine has been suspended since it was booted, in which CLOCK_MONOTONIC stood
 * still; a little more, never less.
 */
static inline uint64_t time_suspended_ns(void)
{
	uint64_t least_ns = UINT64_MAX;

	/* The least of a few: a process may be delayed between the two readings. */
	for (int i = 0; i < 8; i++) {
		uint64_t now_ns = now_clock_ns(CLOCK_MONOTONIC);
		uint64_t suspended_ns = now_clock_ns(CLOCK_BOOTTIME) - now_ns;

		if (suspended_ns < least_ns)
			least_ns = suspended_ns;
	}
	return least_ns;
}

static inline uint64_t time_realtime_ns(void)
{
	return now_clock_ns(CLOCK_REALTIME);
}

#endif

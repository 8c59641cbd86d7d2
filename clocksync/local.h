/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A host's local time: CLOCK_MONOTONIC, in the lab with an added offset and drift, so that
 * the true error of the fabric clock is known. Shared by the kernel programs (constants of 0
 * are optimized out) and user space. No signed division: BPF has none before cpu v4.
 */
#ifndef ESC_CLOCKSYNC_LOCAL_H
#define ESC_CLOCKSYNC_LOCAL_H

/* @monotonic_ns + @offset_ns + @monotonic_ns * @drift_ppb / 1e9; |drift| < 1e9. */
static inline long long clock_local_ns(unsigned long long monotonic_ns, long long offset_ns,
				       long long drift_ppb)
{
	unsigned long long size, moved;

	if (!drift_ppb)
		return (long long)monotonic_ns + offset_ns;
	size = drift_ppb < 0 ? -(unsigned long long)drift_ppb : (unsigned long long)drift_ppb;
	moved = monotonic_ns / 1000000000ull * size +
		monotonic_ns % 1000000000ull * size / 1000000000ull;
	return (long long)monotonic_ns + offset_ns +
	       (drift_ppb < 0 ? -(long long)moved : (long long)moved);
}

#endif

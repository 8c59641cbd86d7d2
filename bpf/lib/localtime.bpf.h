/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* This host's local time, with the lab's skew if there is one. */
#ifndef ESC_BPF_LIB_LOCALTIME_H
#define ESC_BPF_LIB_LOCALTIME_H

#include "clocksync/local.h"
#include "lib/maps.bpf.h"

/* The constants are known when the program is verified: without skew only the sum is left. */
static __always_inline __s64 esc_local_at(__u64 ktime_ns)
{
	return clock_local_ns(ktime_ns, esc_lab_offset_ns, esc_lab_drift_ppb);
}

static __always_inline __s64 esc_local_now(void)
{
	return esc_local_at(bpf_ktime_get_ns());
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fabric time for the kernel programs, from the map `clock`. */
#ifndef ESC_BPF_LIB_CLOCK_H
#define ESC_BPF_LIB_CLOCK_H

#include "clocksync/model.h"
#include "lib/localtime.bpf.h"

/* The daemon publishes four times a second: a second attempt is rare, a third does not happen. */
#define ESC_CLOCK_TRIES 3

struct esc_fabric_time {
	__s64 fabric_ns;
	__s64 bound_ns; /* the true time is within fabric_ns +- bound_ns */
	__u32 state;	/* enum clock_state */
};

static __always_inline __u32 saturate_ns(__u64 ns)
{
	return ns < 0xffffffffull ? ns : 0xffffffffu;
}

/*
 * The machine was suspended since the model: its local time did not run. CLOCK_BOOTTIME first: a
 * delay between the two readings is not taken for a suspension then.
 */
static __always_inline bool esc_fabric_stood(__u64 suspended_ns)
{
	__u64 boot_ns = bpf_ktime_get_boot_ns();

	barrier();
	return suspended_ns &&
	       (__s64)(boot_ns - bpf_ktime_get_ns() - suspended_ns) > ESC_SUSPENDED_MIN_NS;
}

/*
 * Fabric time at @local_ns, the esc_local_at() of a timestamp. False: there is none, and @time is
 * not set.
 */
static __always_inline bool esc_fabric_at(__s64 local_ns, struct esc_fabric_time *time)
{
	__u32 zero = 0;
	volatile struct esc_clock *clocks = bpf_map_lookup_elem(&clock, &zero);
	const struct clock_model *model;
	__u64 generation;
	int i;

	if (!clocks)
		return false;
	for (i = 0; i < ESC_CLOCK_TRIES; i++) {
		generation = clocks->generation;
		if (!generation)
			return false;
		smp_rmb();
		model = (const struct clock_model *)&clocks->slot[generation & 1];
		time->fabric_ns = clock_model_read(model, local_ns);
		time->bound_ns = clock_model_bound(model, local_ns);
		time->state = model->state;
		smp_rmb();
		if (clocks->generation == generation)
			return time->state != CLOCK_FREE_RUNNING &&
			       !esc_fabric_stood(clocks->suspended_ns);
	}
	return false;
}

#endif

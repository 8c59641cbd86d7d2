/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `clock`, an array of one that the daemon maps: fabric time for the kernel programs. Two slots:
 * the daemon fills the one that is not in use and then increments `generation`, whose lowest bit
 * selects the slot in use. A reader that finds `generation` changed afterwards has to retry: the
 * daemon may have been writing the next model to its slot.
 */
#ifndef ESC_MAPS_CLOCK_H
#define ESC_MAPS_CLOCK_H

#include "maps/types.h"

enum clock_state {
	CLOCK_FREE_RUNNING = 0, /* no fabric time, or without a usable bound */
	CLOCK_CONVERGING = 1,	/* fabric time, not yet in agreement with the neighbours */
	CLOCK_SYNCED = 2,
	CLOCK_HOLDOVER = 3, /* was synced; now alone, or with the smaller part of the fleet */
};

/* Fabric time over local time; read by clocksync/model.h. Rates are in units of 2^-40. */
struct clock_model {
	__s64 ref_local_ns;
	__s64 ref_fabric_ns;
	__s64 slew_end_local_ns;
	__s64 slew_end_fabric_ns;
	__s32 ref_rate;	      /* from ref to slew_end */
	__s32 rate;	      /* from slew_end on */
	__s64 bound_local_ns; /* when the bound was computed */
	__u32 bound_ns;	      /* then */
	__u32 bound_growth;   /* per ns of age, 2^-40 */
	__u64 generation;     /* one more for every model published */
	__u32 state;	      /* enum clock_state */
	__u32 bound_late;     /* added to the growth beyond CLOCK_LATE_NS of age */
};
ESC_ASSERT_SIZE(struct clock_model, 72);

struct esc_clock {
	__u64 generation; /* 0: no fabric time yet */
	struct clock_model slot[2];
	/*
	 * CLOCK_BOOTTIME - CLOCK_MONOTONIC when the models were computed, 0: not known. Local time
	 * stands still while the machine is suspended: after that the models are wrong.
	 */
	__u64 suspended_ns;
};
ESC_ASSERT_SIZE(struct esc_clock, 160);

/* More of it since the model: no fabric time. The two clocks are read one after the other. */
#define ESC_SUSPENDED_MIN_NS 1000000

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `clock`, an array of one that the daemon maps: fabric time for the kernel programs. Two slots: the
 * daemon fills the one that is not in use and then raises `generation`, whose
 * lowest bit names the slot in use. A reader that finds `generation` changed
 * while it read has to read again: the next model may be on its way into its slot.
 */
#ifndef ESC_MAPS_CLOCK_H
#define ESC_MAPS_CLOCK_H

#include "maps/types.h"
#include "../clocksync/local.h"
#include "../clocksync/model.h"

struct esc_clock {
	__u64 generation; /* 0: no fabric time yet */
	struct clock_model slot[2];
};

#endif

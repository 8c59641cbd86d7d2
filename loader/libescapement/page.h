/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page that the daemon writes and applications map: one clock model under a sequence lock.
 * Between libescapement and escapementd alone; applications use escapement.h.
 */
#ifndef ESC_LIB_PAGE_H
#define ESC_LIB_PAGE_H

#include <stdint.h>

#include "clocksync/local.h"
#include "clocksync/model.h"

#define CLOCKPAGE_MAGIC 0x6b436f6c43637345ull /* "EscClock" in memory */
#define CLOCKPAGE_VERSION 2
#define CLOCKPAGE_BYTES 4096
#define CLOCKPAGE_PATH_DEFAULT "/run/escapement/clock"

/* The daemon computes a model four times a second; without one for so long it is gone. */
#define CLOCKPAGE_STALE_NS 1000000000

struct clockpage_layout {
	uint64_t magic;
	uint32_t version;
	uint32_t sequence;     /* odd while it is written */
	int64_t lab_offset_ns; /* local time is CLOCK_MONOTONIC with these: clock_local_ns() */
	int64_t lab_drift_ppb;
	struct clock_model model; /* generation 0: no fabric time yet */
	uint64_t suspended_ns;	  /* as in struct esc_clock */
};

#endif

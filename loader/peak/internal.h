/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of peak/ share. */
#ifndef ESC_PEAK_INTERNAL_H
#define ESC_PEAK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fields.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "peak.h"

/* --- law.c: pure; times are CLOCK_MONOTONIC --- */

#define PEAK_INTERVAL_NS 10000000ull
#define PEAK_IDLE_NS 100000000ull /* until an interface has counted a RoCEv2 packet */
#define PEAK_SLOT_NS 10000000000ull
#define PEAK_SLOTS 8 /* 70 to 80 s: a scrape interval of a minute, and that of the textfile */

struct peak_slot {
	uint64_t number; /* of the slot's time, from 1 */
	bool known;	 /* some interval ended in it */
	double bytes_per_second;
};

/* All zero: nothing was read yet. */
struct peak {
	uint64_t begun_ns, bytes; /* of the newest reading; begun_ns 0: none */
	struct peak_slot slots[PEAK_SLOTS];
};

/*
 * A reading of a counter that was made between @before_ns and @after_ns. The rate is of the time
 * from before the reading at its begin to after the one at its end, so that it was this or more.
 */
void peak_take(struct peak *peak, uint64_t before_ns, uint64_t after_ns, uint64_t bytes);
/* False: nothing is known of that time. */
bool peak_get(const struct peak *peak, uint64_t now_ns, double *bytes_per_second);

#endif

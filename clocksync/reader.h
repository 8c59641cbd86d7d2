/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes the next model to be read: continuous, monotone, at a bounded rate. */
#ifndef ESC_CLOCKSYNC_READER_H
#define ESC_CLOCKSYNC_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "clocksync/line.h"
#include "clocksync/model.h"

/* Rate at which readings catch up with the fabric's clock, beyond its own rate. */
#define READER_SLEW_PPM 500
/* A clock that is further behind than this is set at once: forward never breaks an order. */
#define READER_STEP_NS 10000000

/*
 * Fills *@model with the line from the value shown now to the value of @line
 * one update (@ahead_ns) later, or as much later as the slew needs. The bound,
 * the state and the generation are the caller's to fill.
 * @may_step: readings may be set at once, to either side: nobody trusts them
 * yet (model->generation is 0, or the clock was free running).
 * Returns how far readings are from @line now, in ns, after what was set at once.
 */
double reader_aim(struct clock_model *model, const struct clock_line *line, int64_t now_local_ns,
		  int64_t ahead_ns, bool may_step);

#endif

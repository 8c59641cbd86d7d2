/* SPDX-License-Identifier: BSD-2-Clause */
/* Computes the next model for readers: continuous, monotone, with a bounded rate. */
#ifndef ESC_CLOCKSYNC_READER_H
#define ESC_CLOCKSYNC_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "clocksync/line.h"
#include "clocksync/model.h"

/* Rate at which readings catch up with the fabric's clock, beyond its own rate. */
#define READER_SLEW_PPM 500
/* A clock that is further behind is stepped: a forward step keeps readings monotone. */
#define READER_STEP_NS 10000000

/*
 * Fills *@model with a slew from the current reading to @line, which ends one update
 * (@ahead_ns) later, or later if the slew rate requires it. The caller fills in bound,
 * state and generation.
 * @may_step: readings may be stepped in either direction: they are not synced yet
 * (model->generation is 0, or the clock was free running).
 * Returns the offset of readings to @line in ns, after a step if there was one.
 */
double reader_aim(struct clock_model *model, const struct clock_line *line, int64_t now_local_ns,
		  int64_t ahead_ns, bool may_step);

#endif

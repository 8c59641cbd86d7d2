// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/reader.h"

#include <math.h>

#define Q40 1099511627776.0

static int rate_fixed(double rate)
{
	double fixed = rint(rate * Q40);

	if (fixed > CLOCK_RATE_MAX)
		return CLOCK_RATE_MAX;
	if (fixed < -CLOCK_RATE_MAX)
		return -CLOCK_RATE_MAX;
	return (int)fixed;
}

/* @line minus the reading. */
static double reader_behind(int64_t shown_ns, const struct clock_line *line, int64_t local_ns)
{
	double fraction;
	int64_t whole = clock_line_at(line, local_ns, &fraction);

	return (double)(whole - shown_ns) + fraction;
}

double reader_aim(struct clock_model *model, const struct clock_line *line, int64_t now_local_ns,
		  int64_t ahead_ns, bool may_step)
{
	double fraction, behind, slew;
	int64_t shown, span = ahead_ns;

	if (!may_step) {
		shown = clock_model_read(model, now_local_ns);
		behind = reader_behind(shown, line, now_local_ns);
	}
	if (may_step || behind > READER_STEP_NS) {
		shown = clock_line_at(line, now_local_ns, &fraction);
		shown += (int64_t)floor(fraction);
		behind = reader_behind(shown, line, now_local_ns);
	}
	if (fabs(behind) > (double)span * READER_SLEW_PPM * 1e-6)
		span = (int64_t)(fabs(behind) / (READER_SLEW_PPM * 1e-6));
	slew = behind / (double)span;
	model->ref_local_ns = now_local_ns;
	model->ref_fabric_ns = shown;
	model->ref_rate = rate_fixed(line->rate_ppb * 1e-9 + slew);
	model->rate = rate_fixed(line->rate_ppb * 1e-9);
	model->slew_end_local_ns = now_local_ns + span;
	model->slew_end_fabric_ns = shown + span + clock_scale(span, model->ref_rate);
	return behind;
}

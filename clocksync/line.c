// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/line.h"

#include <math.h>

#include "clocksync/model.h"

#define Q40 1099511627776.0
#define Q32 4294967296.0

struct clock_line clock_line_move(const struct clock_line *line, int64_t local_ns, double offset_ns)
{
	struct clock_line moved = {.local_ns = local_ns, .rate_ppb = line->rate_ppb};
	double fraction, whole;

	moved.fabric_ns = clock_line_at(line, local_ns, &fraction);
	fraction += offset_ns;
	whole = floor(fraction);
	moved.fabric_ns = ns_add(moved.fabric_ns, (int64_t)whole);
	moved.fraction_ns = fraction - whole;
	return moved;
}

void clock_view_put(struct clock_view *view, const struct clock_line *line)
{
	struct clock_line reduced = clock_line_move(line, line->local_ns, 0);

	view->ref_local_ns = reduced.local_ns;
	view->ref_fabric_ns = reduced.fabric_ns;
	view->ref_fraction = (uint32_t)(reduced.fraction_ns * (Q32 - 1));
	view->rate_q40 = llround(line->rate_ppb * 1e-9 * Q40);
}

bool clock_view_get(const struct clock_view *view, struct clock_line *line)
{
	if (view->state == CLOCK_FREE_RUNNING || view->rate_q40 > CLOCK_RATE_MAX ||
	    view->rate_q40 < -CLOCK_RATE_MAX)
		return false;
	line->local_ns = view->ref_local_ns;
	line->fabric_ns = view->ref_fabric_ns;
	line->fraction_ns = view->ref_fraction / Q32;
	line->rate_ppb = (double)view->rate_q40 / Q40 * 1e9;
	return true;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/anchor.h"

#include <math.h>

#include "clocksync/model.h"
#include "clocksync/ns.h"

#define Q40 1099511627776.0
/* Bound of the change of rate between TAI and fabric time until the next report. */
#define BOUND_PPB 50

/* Least squares over the samples kept; the level is that at the newest. */
static double meter_rate(const struct anchor_meter *meter, int64_t fabric_ns, int64_t ahead_ns,
			 double *level_ns)
{
	double n = 0, x = 0, y = 0, xx = 0, xy = 0, rate = 0;

	for (uint32_t i = 0; i < ANCHOR_SAMPLES && i < meter->count; i++) {
		double dx = (double)ns_sub(meter->samples[i].fabric_ns, fabric_ns) * 1e-9;
		double dy = (double)ns_sub(meter->samples[i].ahead_ns, ahead_ns);

		n++;
		x += dx;
		y += dy;
		xx += dx * dx;
		xy += dx * dy;
	}
	if (n > 1 && n * xx - x * x > 0)
		rate = (n * xy - x * y) / (n * xx - x * x);
	*level_ns = (y - rate * x) / n;
	return rate;
}

void anchor_measure(struct anchor_meter *meter, int64_t fabric_ns, int64_t tai_ns,
		    uint32_t bound_ns, uint32_t anchor, struct anchor_report *report)
{
	int64_t ahead_ns = ns_sub(tai_ns, fabric_ns);
	double level_ns, rate;

	meter->samples[meter->count % ANCHOR_SAMPLES].fabric_ns = fabric_ns;
	meter->samples[meter->count % ANCHOR_SAMPLES].ahead_ns = ahead_ns;
	meter->count++;
	rate = meter_rate(meter, fabric_ns, ahead_ns, &level_ns);
	if (fabs(rate) > 500000 || fabs(level_ns) > 1e9) {
		/* TAI was stepped: the older samples are of no use. */
		meter->samples[0].fabric_ns = fabric_ns;
		meter->samples[0].ahead_ns = ahead_ns;
		meter->count = 1;
		rate = level_ns = 0;
	}
	report->ref_fabric_ns = fabric_ns;
	report->ahead_ns = ns_add(ahead_ns, (int64_t)llrint(level_ns));
	report->rate_q40 = llrint(rate * 1e-9 * Q40);
	report->sequence = report->sequence + 1 ?: 1; /* 0: none */
	report->bound_ns = bound_ns;
	report->anchor = anchor;
	report->hops = 0;
}

bool anchor_receive(struct anchor_report *mine, const struct anchor_report *theirs, uint32_t anchor)
{
	int32_t newer = (int32_t)(theirs->sequence - mine->sequence);

	if (!theirs->sequence || theirs->anchor != anchor || theirs->hops >= ANCHOR_HOPS_MAX ||
	    theirs->rate_q40 > CLOCK_RATE_MAX || theirs->rate_q40 < -CLOCK_RATE_MAX)
		return false;
	if (mine->sequence && mine->anchor == anchor &&
	    (newer < 0 || (newer == 0 && theirs->hops + 1 >= mine->hops)))
		return false;
	*mine = *theirs;
	mine->hops++;
	return true;
}

bool anchor_read(const struct anchor_report *report, int64_t fabric_ns, int64_t fabric_bound_ns,
		 int64_t *tai_ns, int64_t *bound_ns)
{
	int64_t age_ns = ns_sub(fabric_ns, report->ref_fabric_ns);

	if (!report->sequence || age_ns > ANCHOR_STALE_NS || age_ns < -ANCHOR_STALE_NS)
		return false;
	*tai_ns =
		ns_add(ns_add(fabric_ns, report->ahead_ns), clock_scale(age_ns, report->rate_q40));
	*bound_ns = fabric_bound_ns + report->bound_ns +
		    (age_ns < 0 ? -age_ns : age_ns) / 1000000000 * BOUND_PPB + BOUND_PPB;
	return true;
}

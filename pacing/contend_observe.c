// SPDX-License-Identifier: BSD-2-Clause
/* The contention policy: observation of paths and queue pairs. */
#include "pacing/contend_parts.h"

#define FADE_NS (60.0 * 1e9) /* decay of max_Bps and min_alone_Bps */
#define RAMP_NS (100 * MS)
#define RESIDENT_NS (100 * MS) /* uncontended for this long: resident */
#define RESIDENT_RATE_NS 100e6 /* averaging time of resident_Bps ... */
#define RESIDENT_FALL_NS 1e9   /* ... where it falls: between two queues of a slow path, too */
#define RECENT_MOVES_NS 2e9    /* decay of recent_moves */
#define PACKETS 3	       /* in front of a packet on a well used path */
#define SPAN_MOST_NS 10e9      /* larger values are invalid */
#define MEAN_EXCESS_NS 1e9     /* averaging time of mean_excess_ns */
#define SILENT_MOVES_NS 30e9   /* decay of silent_moves */

/* Excess that is no contention: on a used path a packet waits for one or two others. */
static double tolerance_ns(const struct contend *contend, const struct contend_path *path)
{
	const struct contend_config *config = &contend->config;
	double carried = carried_Bps(contend);
	double packets = carried > 0 ? PACKETS * config->packet_bytes * 1e9 / carried : 0;

	return path->bound_ns + NOISES * path->noise_ns + packets +
	       fmax(config->threshold_ns, config->threshold_part * path->floor_ns);
}

/* @below_ns: so much below zero may be the clock's error. */
static bool is_time_span(double ns, double below_ns)
{
	return ns >= -below_ns && ns < SPAN_MOST_NS; /* NAN is not */
}

/* A delay between two clocks, and so the floor of a short path, may be negative within the bound.
 */
static bool is_measured(const struct contend_path *path)
{
	double bound_ns = path->bound_ns;

	return is_time_span(bound_ns, 0) && is_time_span(path->noise_ns, 0) &&
	       is_time_span(path->floor_ns, bound_ns) && is_time_span(path->delay_ns, bound_ns) &&
	       is_time_span(path->worst_ns, bound_ns);
}

static void observe_path(const struct tick *tick, struct contend_path *path)
{
	const struct contend_config *config = &tick->contend->config;

	path->own = 0;
	path->own_Bps = path->calm_Bps = path->unmet_ns = 0;
	path->fresh = path->usable && is_measured(path) &&
		      tick->now_ns - path->measured_ns <= config->stale_ns;
	path->excess_ns = path->fresh ? fmax(path->delay_ns - path->floor_ns, 0) : 0;
	path->peak_ns = fmax(path->peak_ns * exp(-tick->since_ns / PEAK_NS), path->excess_ns);
	if (path->fresh)
		path->mean_excess_ns += (1 - exp(-tick->since_ns / MEAN_EXCESS_NS)) *
					(path->excess_ns - path->mean_excess_ns);
}

static void observe_unmet(const struct tick *tick, const struct contend_qp *qp)
{
	struct contend_path *path = &tick->paths[qp->path];

	if (!is_idle(tick->contend, qp))
		path->unmet_ns = fmax(path->unmet_ns, unmet_ns(tick->contend, qp));
}

/* By its delay, or by what pacing holds back for its sake. */
static void observe_contention(const struct tick *tick, struct contend_path *path, double least_ns)
{
	double excess_ns =
		path->excess_ns + unmet_of_path_ns(tick->contend, path, path->unmet_ns, least_ns);

	if (!path->fresh || excess_ns <= tolerance_ns(tick->contend, path))
		path->contended_ticks = 0;
	else
		path->contended_ticks++;
}

static double least_mean_ns(const struct tick *tick)
{
	double least = INFINITY;

	for (size_t p = 0; p < tick->path_count; p++)
		if (tick->paths[p].fresh)
			least = fmin(least, tick->paths[p].mean_excess_ns);
	return least;
}

/* The recent queue of its path: when a loss is detected the queue may have drained. */
static void observe_queue(const struct tick *tick, const struct contend_path *path,
			  struct contend_qp *qp)
{
	if (!is_silent(qp))
		qp->silence_evaluated = false;
	if (!(qp->unacked_ns > 0))
		qp->queue_before_ns *= exp(-tick->since_ns / PEAK_NS);
	qp->queue_before_ns = fmax(qp->queue_before_ns, path->excess_ns);
}

/* Residents: queue pairs on a path that was uncontended for a while. */
static void observe_qp(const struct tick *tick, struct contend_qp *qp)
{
	struct contend_path *path = &tick->paths[qp->path];
	double average_ns;

	if (qp->last_path != qp->path + 1) {
		qp->last_path = qp->path + 1;
		qp->resident = false;
		qp->calm_ns = 0;
		qp->queue_before_ns = 0;
		qp->resident_Bps = qp->rate_Bps;
	}
	qp->recent_moves *= exp(-tick->since_ns / RECENT_MOVES_NS);
	qp->silent_moves *= exp(-tick->since_ns / SILENT_MOVES_NS);
	observe_queue(tick, path, qp);
	if (is_idle(tick->contend, qp)) {
		qp->busy_ns = 0;
		return;
	}
	if (!qp->busy_ns)
		qp->busy_ns = tick->now_ns;
	path->own++;
	path->own_Bps += qp->rate_Bps;
	if (path->contended_ticks || !path->fresh) {
		qp->calm_ns = 0;
		/*
		 * It sends far more than while the path was uncontended: it is the cause itself.
		 * The averaging time is no longer than that of becoming resident, as rates begin
		 * with a rise.
		 */
		if (qp->rate_Bps > GROWN * qp->resident_Bps)
			qp->resident = false;
		if (qp->resident)
			path->calm_Bps += qp->resident_Bps;
		return;
	}
	if (!qp->calm_ns)
		qp->calm_ns = tick->now_ns;
	else if (tick->now_ns - qp->calm_ns >= RESIDENT_NS)
		qp->resident = true;
	average_ns = qp->rate_Bps < qp->resident_Bps ? RESIDENT_FALL_NS : RESIDENT_RATE_NS;
	qp->resident_Bps +=
		(1 - exp(-tick->since_ns / average_ns)) * (qp->rate_Bps - qp->resident_Bps);
}

/*
 * Minimum rate of a queue pair that is alone on its path: if max_Bps is well above it, that is a
 * path's capacity and not the rest of a shared one. The first moments of a flow do not count.
 */
static void observe_rate(const struct tick *tick, const struct contend_qp *qp)
{
	struct contend *contend = tick->contend;
	const struct contend_path *path = &tick->paths[qp->path];

	if (path->own != 1 || !qp->busy_ns || tick->now_ns - qp->busy_ns < RAMP_NS)
		return;
	if (contend->min_alone_Bps <= 0 || qp->rate_Bps < contend->min_alone_Bps)
		contend->min_alone_Bps = qp->rate_Bps;
}

void contend_observe(const struct tick *tick)
{
	struct contend *contend = tick->contend;
	double least_ns;

	for (size_t p = 0; p < tick->path_count; p++)
		observe_path(tick, &tick->paths[p]);
	for (size_t q = 0; q < tick->qp_count; q++)
		if (tick->qps[q].path < tick->path_count)
			observe_unmet(tick, &tick->qps[q]);
	least_ns = least_mean_ns(tick);
	for (size_t p = 0; p < tick->path_count; p++)
		observe_contention(tick, &tick->paths[p], least_ns);
	for (size_t q = 0; q < tick->qp_count; q++)
		if (tick->qps[q].path < tick->path_count)
			observe_qp(tick, &tick->qps[q]);
	contend->max_Bps *= exp(-tick->since_ns / FADE_NS);
	contend->min_alone_Bps *= exp(tick->since_ns / FADE_NS);
	for (size_t q = 0; q < tick->qp_count; q++)
		if (tick->qps[q].path < tick->path_count)
			observe_rate(tick, &tick->qps[q]);
	for (size_t p = 0; p < tick->path_count; p++)
		contend->max_Bps = fmax(contend->max_Bps, tick->paths[p].own_Bps);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The contention policy: what a look shows of paths and queue pairs. */
#include "pacing/contend_parts.h"

#define FADE_NS (60.0 * 1e9) /* of the most that was carried */
#define RAMP_NS (100 * MS)
#define HOME_NS (100 * MS) /* calm for so long: at home */
#define HOME_RATE_NS 100e6 /* over which its rate there is taken */
#define RESTLESS_NS 2e9	   /* that a move of late counts */
#define PACKETS 3	   /* that a packet meets on a path that is used well */
#define SPAN_MOST_NS 10e9  /* longer is no delay */
#define LATELY_NS 2e9	   /* over which a path's usual queue is taken */
#define MET_NS 500e6	   /* that a queue which was met counts */
#define WENT_NS 30e9	   /* that a move in a silence counts */

/* On a path that is used and not contended a packet still meets one or two others. */
static double nothing_yet_ns(const struct contend *contend, const struct contend_path *path)
{
	const struct contend_config *config = &contend->config;
	double carried = carried_Bps(contend);
	double packets = carried > 0 ? PACKETS * config->packet_bytes * 1e9 / carried : 0;

	return path->bound_ns + NOISES * path->noise_ns + packets +
	       fmax(config->threshold_ns, config->threshold_part * path->floor_ns);
}

static bool is_time_span(double ns)
{
	return ns >= 0 && ns < SPAN_MOST_NS; /* NAN is not */
}

static void observe_path(const struct tick *tick, struct contend_path *path)
{
	const struct contend_config *config = &tick->contend->config;

	path->own = 0;
	path->own_Bps = 0;
	path->fresh = path->usable && is_time_span(path->floor_ns) &&
		      is_time_span(path->delay_ns) && is_time_span(path->worst_ns) &&
		      is_time_span(path->noise_ns) && is_time_span(path->bound_ns) &&
		      tick->now_ns - path->measured_ns <= config->stale_ns;
	path->excess_ns = path->fresh ? fmax(path->delay_ns - path->floor_ns, 0) : 0;
	if (path->fresh)
		path->lately_ns += (1 - exp(-tick->since_ns / LATELY_NS)) *
				   (path->excess_ns - path->lately_ns);
	if (!path->fresh || path->excess_ns <= nothing_yet_ns(tick->contend, path))
		path->stands_out = 0;
	else
		path->stands_out++;
}

/* The queue that it met: when it is known that something was lost there, it may be gone. */
static void observe_met(const struct tick *tick, const struct contend_path *path,
			struct contend_qp *qp)
{
	if (!is_silent(qp))
		qp->asked = false;
	if (!(qp->unanswered_ns > 0))
		qp->met_ns *= exp(-tick->since_ns / MET_NS);
	if (path->fresh)
		qp->met_ns = fmax(qp->met_ns, path->excess_ns);
}

/* Residents: on a path that was calm for a while with them on it. */
static void observe_qp(const struct tick *tick, struct contend_qp *qp)
{
	struct contend_path *path = &tick->paths[qp->path];

	if (qp->seen_on != qp->path + 1) {
		qp->seen_on = qp->path + 1;
		qp->at_home = false;
		qp->calm_ns = 0;
		qp->met_ns = 0;
		qp->home_Bps = qp->rate_Bps;
	}
	qp->restless *= exp(-tick->since_ns / RESTLESS_NS);
	qp->went_silent *= exp(-tick->since_ns / WENT_NS);
	observe_met(tick, path, qp);
	if (is_idle(tick->contend, qp)) {
		qp->busy_ns = 0;
		return;
	}
	if (!qp->busy_ns)
		qp->busy_ns = tick->now_ns;
	path->own++;
	path->own_Bps += qp->rate_Bps;
	if (path->stands_out || !path->fresh) {
		qp->calm_ns = 0;
		/*
		 * Who sends far more than then is what made the difference. Its rate there is
		 * taken no longer than it takes to be at home: it begins with a rise.
		 */
		if (qp->rate_Bps > GROWN * qp->home_Bps)
			qp->at_home = false;
		return;
	}
	if (!qp->calm_ns)
		qp->calm_ns = tick->now_ns;
	else if (tick->now_ns - qp->calm_ns >= HOME_NS)
		qp->at_home = true;
	qp->home_Bps += (1 - exp(-tick->since_ns / HOME_RATE_NS)) * (qp->rate_Bps - qp->home_Bps);
}

/*
 * A rate that was squeezed and then rose by so much is what a path carries, not what was left
 * of it. Rates of the first moments are no measure.
 */
static void observe_rate(const struct tick *tick, const struct contend_qp *qp)
{
	struct contend *contend = tick->contend;
	const struct contend_path *path = &tick->paths[qp->path];

	if (path->own != 1 || !qp->busy_ns || tick->now_ns - qp->busy_ns < RAMP_NS)
		return;
	if (contend->squeezed_Bps <= 0 || qp->rate_Bps < contend->squeezed_Bps)
		contend->squeezed_Bps = qp->rate_Bps;
}

void contend_observe(const struct tick *tick)
{
	struct contend *contend = tick->contend;

	for (size_t p = 0; p < tick->path_count; p++)
		observe_path(tick, &tick->paths[p]);
	for (size_t q = 0; q < tick->qp_count; q++)
		if (tick->qps[q].path < tick->path_count)
			observe_qp(tick, &tick->qps[q]);
	contend->most_Bps *= exp(-tick->since_ns / FADE_NS);
	contend->squeezed_Bps *= exp(tick->since_ns / FADE_NS);
	for (size_t q = 0; q < tick->qp_count; q++)
		if (tick->qps[q].path < tick->path_count)
			observe_rate(tick, &tick->qps[q]);
	for (size_t p = 0; p < tick->path_count; p++)
		contend->most_Bps = fmax(contend->most_Bps, tick->paths[p].own_Bps);
}
